"""`monoize transforms`, as an operator runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fakes.command_line import ran_here
from monoize.transform import transforms

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "transforms-try.yaml"
CHAT = {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}]}

PLUG_IN = '''
"""A transform that somebody else wrote."""
from typing import Annotated
from msgspec import Meta
from monoize.transform import Config, RequestTransform
from monoize.urp import replace

class SayConfig(Config, frozen=True, kw_only=True):
    word: Annotated[str, Meta(description="What to say.", examples=["hello"])]

class SayUser(RequestTransform[SayConfig]):
    """Write a word into the user field of every request."""
    id = "say_user"
    config = SayConfig

    def apply(self, value, state, context):
        return replace(value, user=context.config.word)
'''


def monoize(
    *arguments: str, text: str | None = None, path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """With plug-ins from a path it is a process of its own."""
    if path is None:
        return ran_here("transforms", *arguments, text=text)
    return started(*arguments, text=text, path=path)


def started(
    *arguments: str, text: str | None = None, path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **({"PYTHONPATH": str(path)} if path else {})}
    return subprocess.run(
        [sys.executable, "-m", "monoize", "transforms", *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )


def tried(trial: dict[str, Any], path: Path | None = None) -> dict[str, Any]:
    done = monoize("try", "-", "--json", text=json.dumps(trial), path=path)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_lists_every_transform() -> None:
    done = monoize("list")
    assert done.returncode == 0
    assert all(name in done.stdout for name in transforms())
    listed = json.loads(monoize("list", "--json").stdout)
    assert [entry["id"] for entry in listed] == list(transforms())


def test_shows_one_transform_with_its_options_and_a_rule() -> None:
    done = monoize("show", "think_xml_to_reasoning")
    for expected in ("response", "tag", "required", "- transform: think_xml_to_reasoning"):
        assert expected in done.stdout
    shown = json.loads(monoize("show", "think_xml_to_reasoning", "--json").stdout)
    jsonschema.validate(shown["example_config"], shown["config_schema"])


def test_the_example_file_shows_what_each_rule_does() -> None:
    done = started("try", str(EXAMPLE))
    assert done.returncode == 0, done.stderr
    assert "rules[0] inject_system_prompt: 1 changed" in done.stdout
    assert "rules[2] override_max_tokens: did not run" in done.stdout
    assert '+ {"clear_thinking":true}' in done.stdout
    report = json.loads(monoize("try", str(EXAMPLE), "--json").stdout)
    assert report["result"]["system"][1]["text"] == "Answer in one sentence."
    assert report["steps"][1]["changes"][0] == {
        "path": "extra_body.logit_bias",
        "before": {"50256": -100},
    }
    assert report["steps"][2]["changes"] is None
    assert "__monoize_username" not in json.dumps(report["result"])


@pytest.mark.spec("DEF-4")
def test_the_name_of_the_user_is_there_for_the_rules_and_gone_afterwards() -> None:
    part = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    request = {"model": "c", "max_tokens": 9, "messages": [{"role": "user", "content": [part]}]}
    rules = [{"transform": "auto_cache_user_id", "phase": "request"}]
    trial = {"from": "messages", "username": "ann", "request": request, "rules": rules}
    report = tried(trial)
    assert report["result"]["metadata"] == {"user_id": "ann"}
    assert "__monoize_username" not in json.dumps(report)
    assert tried({**trial, "username": None})["result"] == request


def test_a_reply_is_tried_rule_by_rule() -> None:
    message = {"role": "assistant", "content": "<think>hm</think>hello"}
    wire = {
        "id": "r",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-5",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }
    rules = [
        {"transform": "think_xml_to_reasoning", "phase": "response", "config": {"tag": "think"}},
        {"transform": "strip_reasoning", "phase": "response"},
        {"transform": "strip_reasoning", "phase": "response", "models": ["claude-*"]},
    ]
    report = tried({"from": "chat_completion", "to": "messages", "response": wire, "rules": rules})
    first, second, third = (step["changes"] for step in report["steps"])
    assert first[0]["path"] == "choices[0].messages[0].parts[0]"
    assert [change["before"]["type"] for change in second] == ["reasoning"]
    assert third is None
    assert report["result"]["content"] == [{"type": "text", "text": "hello"}]


def test_a_stream_is_tried_event_by_event() -> None:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {
            "id": "r",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [choice],
        }

    stream = [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "<thi"}),
        chunk({"content": "nk>hm</think>hel"}),
        chunk({"content": "lo"}),
        chunk({}, "stop"),
        "[DONE]",
    ]
    rules = [
        {"transform": "think_xml_to_reasoning", "phase": "response", "config": {"tag": "think"}}
    ]
    report = tried({"from": "chat_completion", "to": "messages", "stream": stream, "rules": rules})
    assert report["steps"][0]["changes"]
    deltas = [p["delta"] for p in report["result"] if p["type"] == "content_block_delta"]
    assert "".join(d.get("thinking", "") for d in deltas) == "hm"
    assert "".join(d.get("text", "") for d in deltas) == "hello"
    same = tried({"from": "chat_completion", "stream": stream, "rules": []})
    assert same["result"][-1] == "[DONE]"


def test_a_google_request_takes_its_model_from_the_file() -> None:
    request = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    rules = [
        {
            "transform": "override_max_tokens",
            "phase": "request",
            "models": ["gemini-*"],
            "config": {"value": 5},
        }
    ]
    trial = {"from": "gemini", "model": "gemini-3", "request": request, "rules": rules}
    assert tried(trial)["result"]["generationConfig"] == {"maxOutputTokens": 5}


def test_yaml_that_is_more_than_json_is_read_as_json() -> None:
    text = """
        from: chat_completion
        request: {model: m, messages: [], logit_bias: {50256: 1}}
        rules: [{transform: set_field, phase: request, config: {path: since, value: 2026-01-02}}]
    """
    report = json.loads(monoize("try", "-", "--json", text=text).stdout)
    assert report["result"]["logit_bias"] == {"50256": 1}
    assert report["result"]["since"] == "2026-01-02"


@pytest.mark.spec("D3")
@pytest.mark.parametrize(
    ("trial", "sentence"),
    [
        ("a: [", "line 1"),
        ("[1, 2]", "Expected `object`"),
        ("!!set {a, b}", "JSON cannot"),
        ("from: chat_completion", "missing required field `rules`"),
        ("{from: chat_completion, rules: []}", "one of `request`, `response` and `stream`"),
        ("{from: x, rules: [], request: {}}", "from: must be one of chat_completion"),
        ("{from: messages, to: x, rules: [], request: {}}", "to: must be one of"),
        ("{from: messages, rules: [], request: {}, response: {}}", "one of `request`"),
        ("{from: messages, rules: [], request: {}, more: 1}", "unknown field `more`"),
        ("{from: messages, rules: [], request: {}}", "model"),
        (
            "{from: messages, rules: [{transform: x, phase: request}], request: {}}",
            "no transform 'x'",
        ),
        ("{from: messages, rules: [{transform: x, phase: late}], request: {}}", "$.rules[0].phase"),
    ],
)
def test_a_mistake_is_one_clear_sentence(trial: str, sentence: str) -> None:
    done = monoize("try", "-", text=trial)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [(("show", "no_such"), "there is no transform"), (("try", "no-such-file"), "No such file")],
)
def test_what_does_not_exist_is_said_in_one_sentence(
    arguments: tuple[str, ...], sentence: str
) -> None:
    done = monoize(*arguments)
    assert (done.returncode, len(done.stderr.strip().splitlines())) == (1, 1)
    assert sentence in done.stderr


# --- packages outside -----------------------------------------------------------------------------


def installed(folder: Path, code: str, entry: str) -> Path:
    """What `pip install` leaves behind: a module, and metadata that names its entry point."""
    (folder / "say_user.py").write_text(code, "utf-8")
    info = folder / "say_user-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: say-user\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(f"[monoize.transforms]\n{entry}\n", "utf-8")
    return folder


@pytest.mark.spec("TF-5", "TF-6", "D2")
def test_a_transform_of_an_installed_package_is_listed_and_works(tmp_path: Path) -> None:
    path = installed(tmp_path, PLUG_IN, "say_user = say_user:SayUser")
    listed = json.loads(monoize("list", "--json", path=path).stdout)
    (found,) = [entry for entry in listed if entry["id"] == "say_user"]
    jsonschema.Draft202012Validator.check_schema(found["config_schema"])
    jsonschema.validate(found["example_config"], found["config_schema"])
    rules = [{"transform": "say_user", "phase": "request", "config": {"word": "ann"}}]
    report = tried({"from": "chat_completion", "request": CHAT, "rules": rules}, path)
    assert report["result"] == {**CHAT, "user": "ann"}
    assert report["steps"][0]["changes"] == [{"path": "user", "after": "ann"}]


@pytest.mark.spec("D2")
def test_a_broken_package_is_named_in_one_sentence(tmp_path: Path) -> None:
    path = installed(tmp_path, "import no_such_module", "say_user = say_user:SayUser")
    done = monoize("list", path=path)
    assert done.returncode == 1
    assert "entry point say_user = say_user:SayUser cannot be loaded" in done.stderr
    assert "Traceback" not in done.stderr
