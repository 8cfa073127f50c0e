"""CVE-2026-30623: nobody who calls can name a program to run (there, an MCP server's stdio command).

Tools of agent runs are programs and MCP servers, and they stand in the operator's file only: callers name the sources that
are configured there, and nothing that they send is ever run.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from monoize.errors import ConfigError
from monoize.settings import parse, schema

SOURCE = Path(__file__).parents[2] / "src" / "monoize"
_RUNS = (
    "args argv binary callback cmd command entrypoint env executable exec hook import interpreter module plugin popen "
    "preexec process program python script shell spawn stdio subprocess"
)
RUNS = re.compile(rf"(^|[_\-.])({'|'.join(_RUNS.split())})s?($|[_\-.])", re.IGNORECASE)
# What can start a program, or turn data into code.
DANGEROUS = {
    *("subprocess", "pty", "multiprocessing", "runpy", "code", "codeop", "pickle", "marshal"),
    *("shelve", "dill", "cloudpickle", "joblib", "ctypes", "cffi"),
}
CALLS = {"eval", "exec", "compile", "__import__", "system", "popen", "fork", "forkpty"}
CALLS |= {f"{kind}{end}" for kind in ("exec", "spawn") for end in "l le lp lpe v ve vp vpe".split()}
CALLS |= {
    "posix_spawn",
    "create_subprocess_exec",
    "create_subprocess_shell",
    "unsafe_load",
    "full_load",
}
# Who may: pip, for an operator who types `monoize engines fetch`; libc's malloc_trim; and the tools of agent runs.
ALLOWED = {
    "cli/_pip.py": {"subprocess"},
    "engines/_moonshine_model.py": {"ctypes"},
    "agent/tools/_child.py": {"subprocess"},
    "agent/tools/_keeper.py": {"ctypes", "fork", "execvpe"},
}
HARMLESS = {
    "speculative_exec"
}  # a field of a contract: tools may start while the reply still comes


def properties(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for name, inner in node.items():
            if name == "properties":
                yield from inner
            yield from properties(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from properties(inner)


def parameters(document: dict[str, Any]) -> Iterator[str]:
    for entries in document["paths"].values():
        for operation in entries.values():
            if isinstance(operation, dict):
                yield from (found["name"] for found in operation.get("parameters", []))


@pytest.mark.spec("CVE-2026-30623")
async def test_cve_2026_30623_no_field_of_the_config_or_the_api_names_a_program(api):
    document = await api.good("GET", "/openapi.json")
    names = {*properties(schema()), *properties(document), *parameters(document)}
    assert {"base_url", "transforms", "engine"} <= names  # both documents are looked at
    assert RUNS.search("stdio_command")
    assert sorted(name for name in names if RUNS.search(name)) == sorted(HARMLESS)


@pytest.mark.spec("CVE-2026-30623")
@pytest.mark.parametrize(
    "tools",
    [
        [{"commands": [{"name": "x", "argv": ["sh", "-c", "id"]}]}],
        {"mcp": [{"name": "x", "command": ["sh", "-c", "id"]}]},
        ["sh -c id"],
        ["../../etc/tools.yaml"],
        [{"python": [{"file": "/tmp/evil.py"}]}],
    ],
)
async def test_cve_2026_30623_a_run_has_no_tools_but_configured_ones(api, tools):
    asked = {"task": "do it", "model": "gpt-4o", "tools": tools}
    refused = await api.call("POST", "/v1/agent/runs", asked)
    assert refused.status == 400, refused.raw
    assert "tools" in refused.raw.decode()


@pytest.mark.spec("CVE-2026-30623")
def test_cve_2026_30623_the_program_starts_no_other_and_runs_no_data():
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        place = file.relative_to(SOURCE).as_posix()
        allowed = ALLOWED.get(place, set())
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            match node:
                case ast.Import(names=names):
                    used = {name.name.partition(".")[0] for name in names} & DANGEROUS
                case ast.ImportFrom(module=str(module)):
                    used = {module.partition(".")[0]} & DANGEROUS
                case ast.Call(func=ast.Name(id=name)):
                    used = {name} & CALLS
                case ast.Call(
                    func=ast.Attribute(attr=name, value=ast.Name(id="os" | "asyncio" | "yaml"))
                ):
                    used = {name} & CALLS
                case ast.keyword(arg="shell"):
                    used = {"shell="}
                case _:
                    continue
            found += [f"{place}:{node.lineno}: {name}" for name in used - allowed]
    assert found == []


@pytest.mark.spec("CVE-2026-30623")
@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['true']",
        "server: !!python/object/new:os.system ['true']",
        "keys: !!python/name:os.system",
        "providers: [{id: p, type: local, models: {m: {}}, command: [sh, -c, id]}]",
        "mcp_servers: {x: {command: sh, args: [-c, id]}}",
    ],
)
def test_cve_2026_30623_a_config_that_names_one_is_refused(text):
    with pytest.raises(ConfigError):
        parse(text, {})


@pytest.mark.spec("CVE-2026-30623")
async def test_cve_2026_30623_an_engine_or_transform_is_one_that_is_installed(
    api, tmp_path, monkeypatch
):
    """Names that come by the API are looked up, never imported."""
    (tmp_path / "evil_engine.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for number, name in enumerate(("evil_engine", "os", "../evil_engine", "monoize.cli")):
        form = {"id": f"p{number}", "type": "local", "models": {f"m{number}": {}}, "engine": name}
        made = await api.call("POST", "/api/providers", form)
        assert made.status in (201, 400), made.raw
        asked = {"model": f"m{number}", "messages": [{"role": "user", "content": "hi"}]}
        answer = await api.call("POST", "/v1/chat/completions", asked)
        assert answer.status in (404, 502, 503), answer.raw
        rule = {"transform": name, "phase": "request"}
        body = {"name": "k", "user_id": (await api.user(f"u{number}", role="admin"))["id"]}
        refused = await api.call("POST", "/api/keys", {**body, "policy": {"transforms": [rule]}})
        assert refused.status == 400, refused.raw
    assert "evil_engine" not in sys.modules
