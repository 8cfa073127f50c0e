"""`--tools FILE`: what may stand in it, and how a mistake is told."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from monoize.agent.message import ToolInvocation
from monoize.agent.tools import tool_file
from monoize.agent.tools._child import Limits
from monoize.errors import ConfigError

ROOT = Path(__file__).parents[4]


async def called(tools, name, /, **arguments):
    call = ToolInvocation(id="c", name=name, arguments=arguments, source_model="m")
    return json.loads(await tools.call(call, 30))["result"]


async def test_the_example_works_as_it_stands():
    place = ROOT / "examples" / "agent_tools"
    tools = tool_file.opened(tool_file.load(place / "tools.yaml", {}), place)
    try:
        manifest = await tools.manifest()
        assert manifest.names()[:3] == ("count_words", "sort_lines", "list_files")
        assert await called(tools, "count_words", text="to be or not", at_least=3) == 1
        assert await called(tools, "sort_lines", lines=["b", "a"]) == ["a", "b"]
        found = await called(tools, "search_files", pattern="wrold")
        assert found["matches"][0]["path"] == "greeting.txt"
    finally:
        await tools.aclose()


def blocks(language):
    page = (ROOT / "docs" / "agent-tools.md").read_text("utf-8")
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def test_the_file_on_the_page_is_good():
    (text,) = blocks("yaml")
    made = tool_file.parse(text, {"TICKETS_TOKEN": "t", "WIKI_TOKEN": "w"})
    assert [server.name for server in made.mcp] == ["tickets", "wiki"]


def test_the_program_on_the_page_prints_what_the_page_says():
    (program,) = blocks("python")
    (printed,) = blocks("text")
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == printed


def test_the_limits_on_the_page_are_those_of_the_program():
    page = (ROOT / "docs" / "agent-tools.md").read_text("utf-8")
    units = {None: "null", 4 * 1024**3: "4 GiB", 1024**3: "1 GiB"}
    for name in Limits.__struct_fields__:
        value = getattr(Limits(), name)
        assert f"| `{name}` | {units.get(value, value)} |" in page


async def test_every_kind_of_source_in_one_file(tmp_path, servers, python):
    (tmp_path / "own.py").write_text(
        "import os\n"
        "def up(text: str) -> str:\n    return text.upper()\n"
        "def secret() -> str:\n    return os.environ['TOKEN']\n"
        "async def later(text: str) -> str:\n    return text[::-1]\n"
    )
    text = """
    python:
      - {file: own.py, functions: [up, later, secret], env: {TOKEN: "${MY_TOKEN}"}}
      - {module: textwrap, functions: []}
    """
    with pytest.raises(ConfigError, match=r"python\[1\]"):
        tool_file.parse(text, {"MY_TOKEN": "x"})
    text = f"""
    python:
      - {{file: own.py, functions: [up, later, secret], env: {{TOKEN: "${{MY_TOKEN}}"}}}}
    commands:
      - {{name: echo, argv: [cat], parameters: {{type: object}}}}
      - {{name: where, argv: [pwd], output: text, cwd: sub}}
    mcp:
      - {{name: rogue, argv: ["{python}", "-S", "{servers}/rogue.py", well], only: [go], tools: {{go: {{rename: walk}}}}}}
    workspace: {{folder: ., tools: [read_file], limits: {{memory_bytes: null}}}}
    """
    (tmp_path / "sub").mkdir()
    tools = tool_file.opened(tool_file.parse(text, {"MY_TOKEN": "t0ken"}), tmp_path)
    try:
        names = (await tools.manifest()).names()
        assert names == ("up", "later", "secret", "echo", "where", "rogue__walk", "read_file")
        assert await called(tools, "up", text="a") == "A"
        assert await called(tools, "later", text="ab") == "ba"
        assert await called(tools, "secret") == "t0ken"
        assert await called(tools, "echo", a=1) == {"a": 1}
        assert await called(tools, "where") == f"{tmp_path / 'sub'}\n"
        assert await called(tools, "rogue__walk") == "went"
        assert (await called(tools, "read_file", path="own.py"))["first_line"] == 1
    finally:
        await tools.aclose()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must be a mapping"),
        ("[]", "must be a mapping"),
        ("a: [", "line 1"),
        ("pyhton: []", "pyhton"),
        ("workspace: {}", "folder"),
        ("workspace: {folder: ., tools: [erase]}", r"\$.workspace.tools\[0\]|tools\[...\]"),
        ("commands: [{name: a b, argv: [x]}]", "name"),
        ("commands: [{name: a, argv: []}]", "argv"),
        ("commands: [{name: a, argv: [x], scope: root}]", "scope"),
        ("commands: [{name: a, argv: [x], limits: {cpu_seconds: 0}}]", "cpu_seconds"),
        ("commands: [{name: a, argv: ['${NOT_SET}']}]", r"\$.commands\[0\].argv\[0\]: .*NOT_SET"),
        ("python: [{functions: [f]}]", r"\$.python\[0\]: give either"),
        ("python: [{functions: [f], module: a, file: b}]", r"\$.python\[0\]: give either"),
        ("mcp: [{name: a}]", r"\$.mcp\[0\] \(a\): give either"),
        ("mcp: [{name: a, url: 'ftp://x'}]", "url"),
        ("mcp: [{name: a.b, argv: [x]}]", "name"),
        ("mcp: [{name: a, argv: [x]}, {name: a, argv: [y]}]", "same name"),
        ("mcp: [{name: a, argv: [x], only: [b], tools: {c: {}}}]", "c is not among"),
        ("&a workspace: {folder: .}\nb: 2001-99-99", "tools"),
    ],
)
def test_a_mistake_is_told_with_its_place(text, said):
    with pytest.raises(ConfigError, match=said):
        tool_file.parse(text, {})


def test_a_reference_may_have_a_default_and_its_value_is_not_told():
    made = tool_file.parse("workspace: {folder: '${PLACE:-here}'}", {})
    assert made.workspace is not None
    assert made.workspace.folder == "here"
    with pytest.raises(ConfigError) as problem:
        tool_file.parse("commands: [{name: '${KEY}', argv: [x]}]", {"KEY": "sk canary"})
    assert "canary" not in str(problem.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("python: [{file: nowhere.py, functions: [f]}]", r"\$.python\[0\]: FileNotFoundError"),
        ("python: [{module: no_such_module, functions: [f]}]", "ModuleNotFoundError"),
        ("python: [{file: broken.py, functions: [f]}]", "ZeroDivisionError"),
        ("python: [{file: fine.py, functions: [absent]}]", "absent"),
        ("python: [{file: fine.py, functions: [f]}]", "a has no type"),
        ("workspace: {folder: nowhere}", r"\$.workspace.folder"),
    ],
)
def test_what_cannot_be_opened_is_told_with_its_place(tmp_path, text, said):
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "fine.py").write_text("def f(a): ...\n")
    with pytest.raises(ConfigError, match=said):
        tool_file.opened(tool_file.parse(text, {}), tmp_path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        tool_file.load(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"\xe4")
    with pytest.raises(ConfigError, match="UTF-8"):
        tool_file.load(tmp_path / "latin.yaml")


def test_the_schema_takes_the_example():
    import jsonschema_rs
    import yaml

    example = yaml.safe_load((ROOT / "examples/agent_tools/tools.yaml").read_text())
    assert jsonschema_rs.is_valid(tool_file.schema(), example)
    assert not jsonschema_rs.is_valid(tool_file.schema(), {**example, "more": 1})


async def test_a_file_of_functions_is_found_by_another_process_too(tmp_path):
    """Its name in this process means nothing there, so it is told by its file."""
    (tmp_path / "own.py").write_text("import os\ndef pid() -> int:\n    return os.getpid()\n")
    made = tool_file.parse("python: [{file: own.py, functions: [pid]}]", {})
    tools = tool_file.opened(made, tmp_path)
    first, second = await asyncio.gather(called(tools, "pid"), called(tools, "pid"))
    assert len({first, second, __import__("os").getpid()}) == 3


def test_reading_a_file_runs_nothing(tmp_path):
    (tmp_path / "t.yaml").write_text("python: [{file: boom.py, functions: [f]}]\n")
    (tmp_path / "boom.py").write_text("raise SystemExit(9)\n")
    code = f"from pathlib import Path; from monoize.agent.tools import tool_file; tool_file.load(Path(r'{tmp_path}/t.yaml'))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
