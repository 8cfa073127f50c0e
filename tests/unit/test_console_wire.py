"""The console's pure modules, run by node: requests and streams of each protocol, programs, places in a JSON text."""

import contextlib
import io
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fakes.gateway import KEY, GatewayThread
from fakes.scenarios import GREETING, SCENARIOS, Refuse, Turn
from fakes.speakers import SPEAKERS
from monoize.protocol import protocol
from monoize.reframer import Refused, Source, reframe
from monoize.urp import Audio, File, Image, Role, Text

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")

ROOT = Path(__file__).parents[2]
PARTS = ROOT / "src" / "monoize" / "console" / "parts"
GOLDEN = ROOT / "tests" / "golden" / "reframer" / "requests"
CALLERS = ("chat_completion", "responses", "messages", "gemini")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGE = {
    "kind": "image",
    "mime": "image/png",
    "name": "a.png",
    "url": f"data:image/png;base64,{PIXEL}",
}
SOUND = {
    "kind": "audio",
    "mime": "audio/mpeg",
    "name": "a.mp3",
    "url": "data:audio/mpeg;base64,SUQz",
}
STORED = "smsfile://01M7FXKDMDHAKA31XTGE1E2REW"
PAPER = {"kind": "file", "mime": "application/pdf", "name": "a.pdf", "url": STORED}
WORDS = "Is 'this' a \"test\"?\n\\ 東京 🌏"


def run(script: str, given: Any = None) -> Any:
    """What a module gives back for a JSON value: `given` in, `out` out."""
    imports = "\n".join(
        f"import * as {path.stem} from {json.dumps(path.as_uri())};"
        for path in (*PARTS.glob("wire_[!v]*.js"), PARTS / "spans.js")
    )
    program = f"""{imports}
        let read = "";
        for await (const piece of process.stdin.setEncoding("utf8")) read += piece;
        const given = JSON.parse(read);
        let out;
        {script}
        console.log(JSON.stringify(out));"""
    done = subprocess.run(
        [str(NODE), "--input-type=module", "-e", program],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ask(*parts: Any, **more: Any) -> dict[str, Any]:
    said = {"kind": "text", "text": WORDS}
    turns = [
        {"role": "user", "parts": [said, *parts]},
        {
            "role": "assistant",
            "parts": [{"kind": "reasoning", "text": "hidden"}, {"kind": "text", "text": "Yes."}],
        },
        {"role": "user", "parts": [{"kind": "text", "text": "Go on."}]},
    ]
    return {"model": "m/1", "turns": turns, **more}


def built(name: str, given: dict[str, Any]) -> Any:
    return run("out = wire_code.request(given.name, given.ask);", {"name": name, "ask": given})


# --- requests ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CALLERS)
def test_a_conversation_is_the_same_to_the_gateway_in_every_protocol(name):
    settings = {"system": "Be kind.", "temperature": 0.5, "maxTokens": 700, "effort": "low"}
    made = built(name, ask(IMAGE, **settings))
    request = protocol(name).decode_request(made["body"], model="m/1", stream=True)
    spoken = [
        (message.role, "".join(part.content for part in message.parts if isinstance(part, Text)))
        for message in request.messages
    ]
    assert spoken == [
        (Role.SYSTEM, "Be kind."),
        (Role.USER, WORDS),
        (Role.ASSISTANT, "Yes."),
        (Role.USER, "Go on."),
    ]
    assert (request.stream, request.temperature, request.max_output_tokens) == (True, 0.5, 700)
    assert request.reasoning is not None
    assert request.reasoning.effort == "low" or request.reasoning.budget == 2048
    (picture,) = [part for part in request.messages[1].parts if isinstance(part, Image)]
    assert picture.media.data == PIXEL
    assert not request.tools


@pytest.mark.parametrize("name", CALLERS)
def test_what_was_not_set_is_not_said(name):
    body = built(name, ask())["body"]
    request = protocol(name).decode_request(body, model="m/1", stream=True)
    assert request.temperature is None
    assert request.reasoning is None
    assert "null" not in json.dumps(body)
    if name != "messages":  # which demands a limit
        assert request.max_output_tokens is None


@pytest.mark.parametrize("name", CALLERS)
def test_sounds_and_files_are_carried_and_a_reference_stays_one(name):
    request = protocol(name).decode_request(
        built(name, ask(SOUND, PAPER))["body"], model="m/1", stream=True
    )
    _, sound, paper = request.messages[0].parts
    assert isinstance(sound, Audio if name != "messages" else File)  # which knows no sounds
    assert sound.media.data == "SUQz"
    assert isinstance(paper, File)
    assert STORED in (getattr(paper.media, "data", ""), getattr(paper.media, "url", ""))


@pytest.mark.parametrize("name", CALLERS)
def test_a_request_from_elsewhere_is_sent_as_it_is(name):
    raw = {"model": "m", "anything": [1, None, {"stream": "x"}]}
    made = built(name, ask(raw=raw))
    assert {key: value for key, value in made["body"].items() if key != "stream"} == raw


# --- streams -------------------------------------------------------------------------------------


def shown(name: str, events: list[dict[str, Any]]) -> dict[str, Any]:
    script = """out = {parts: []};
        for (const event of given.events) wire_code.PROTOCOLS[given.name].read(out, event);"""
    return run(script, {"name": name, "events": events})


def events_of(name: str, turn: Turn) -> list[dict[str, Any]]:
    text = b"".join(SPEAKERS[name].events(turn, "m")).decode().replace("\r\n", "\n")
    lines = [line[5:].strip() for line in text.split("\n") if line.startswith("data:")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def joined(reply: dict[str, Any], kind: str) -> str:
    return "".join(part["text"] for part in reply["parts"] if part["kind"] == kind)


@pytest.mark.parametrize("name", CALLERS)
@pytest.mark.parametrize(
    "scenario", ["text", "reasoning", "parallel", "text_then_tool", "refusal", "length"]
)
def test_a_stream_becomes_what_was_said_in_it(name, scenario):
    turn = SCENARIOS[scenario].turns[0]
    reply = shown(name, events_of(name, turn))
    refused = "".join(part.text for part in turn.of(Refuse))
    calls = [
        (part["name"], json.loads(part["text"] or "{}"))
        for part in reply["parts"]
        if part["kind"] == "call"
    ]
    assert joined(reply, "reasoning") == turn.thoughts
    assert calls == turn.calls
    assert reply["finish"]
    if name == "gemini" and refused:  # Google says nothing but why
        assert (reply["parts"], reply["finish"]) == ([], "SAFETY")
    else:
        assert joined(reply, "text") + joined(reply, "refusal") == turn.text + refused


@pytest.mark.parametrize("name", CALLERS)
def test_an_error_in_the_middle_is_shown_in_the_servers_words(name):
    frame = SPEAKERS[name].error_frame("the provider fell over").decode()
    lines = [line[5:] for line in frame.splitlines() if line.startswith("data:")]
    reply = shown(name, [json.loads(line) for line in lines])
    assert reply["error"] == "the provider fell over"


@pytest.mark.parametrize(
    ("name", "event"),
    [
        (
            "chat_completion",
            {"choices": [{"delta": {"images": [{"image_url": {"url": IMAGE["url"]}}]}}]},
        ),
        (
            "responses",
            {
                "type": "response.output_item.done",
                "item": {"type": "image_generation_call", "result": PIXEL},
            },
        ),
        (
            "gemini",
            {
                "candidates": [
                    {
                        "content": {
                            "parts": [{"inlineData": {"mimeType": "image/png", "data": PIXEL}}]
                        }
                    }
                ]
            },
        ),
    ],
)
def test_a_picture_is_a_picture(name, event):
    (part,) = shown(name, [event])["parts"]
    assert (part["kind"], part["url"]) == ("image", IMAGE["url"])


def test_a_sound_is_a_sound():
    held = {"inlineData": {"mimeType": "audio/wav", "data": "UklG"}}
    (part,) = shown("gemini", [{"candidates": [{"content": {"parts": [held]}}]}])["parts"]
    assert (part["kind"], part["url"]) == ("audio", "data:audio/wav;base64,UklG")
    spoken = {"choices": [{"delta": {"audio": {"data": "UklG"}}}]}
    (part,) = shown("chat_completion", [spoken])["parts"]
    assert (part["kind"], part["url"]) == ("audio", "data:audio/wav;base64,UklG")


# --- programs ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gateway(session_upstream):
    thread = GatewayThread(session_upstream)
    yield thread
    thread.stop()


def programs(name: str, given: dict[str, Any], port: int) -> dict[str, str]:
    asked = {"name": name, "ask": given, "base": f"http://127.0.0.1:{port}"}
    made = run("out = wire_code.programs(given.name, given.ask, given.base);", asked)
    return {program["name"]: program["text"] for program in made}


@pytest.mark.parametrize("name", CALLERS)
def test_each_program_runs_and_prints_what_the_model_said(name, gateway, upstream, monkeypatch):
    monkeypatch.setenv("MONOIZE_KEY", KEY)
    settings = {"system": "Be kind.", "temperature": 0.5, "maxTokens": 700, "effort": "high"}
    given = ask(IMAGE, **{**settings, "model": "messages.text"})
    made = programs(name, given, gateway.port)
    assert list(made) == ["curl", "openai", "anthropic", "google-genai"]
    for program in ("openai", "anthropic", "google-genai"):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            names: dict[str, Any] = {}
            exec(compile(made[program], program, "exec"), names)
            names["client"].close()
        assert printed.getvalue() == GREETING.text, program
        heard = json.dumps(upstream.last.body, ensure_ascii=False)
        assert json.dumps(WORDS, ensure_ascii=False) in heard
        assert PIXEL in heard
        assert upstream.last.body["max_tokens"] == 700


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("name", CALLERS)
def test_the_curl_command_runs(name, gateway, upstream, monkeypatch):
    monkeypatch.setenv("MONOIZE_KEY", KEY)
    command = programs(name, {**ask(IMAGE), "model": "responses.text"}, gateway.port)["curl"]
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False, timeout=60)
    assert GREETING.pieces[0] in done.stdout.decode()
    assert PIXEL in json.dumps(upstream.last.body)


def test_a_reference_in_googles_sdk_is_a_files_address():
    program = programs("gemini", ask(PAPER), 1)["google-genai"]
    assert '"fileUri": "smsfile://' in program
    assert '"inlineData"' not in program


def test_a_request_from_elsewhere_has_programs_of_its_own_protocol_only():
    made = programs("messages", ask(raw={"model": "m", "messages": []}), 1)
    assert list(made) == ["curl", "anthropic"]


def test_words_of_python_are_written_only_where_they_are_values():
    text = 'x": true,\n"y": null'
    body = ask(raw={"model": "m", "messages": [], "a": True, "b": None, "text": text})
    program = programs("messages", body, 1)["anthropic"]
    given = program[program.index("(**") + 3 : program.index("\n})") + 2]
    assert eval(given) == {**body["raw"], "stream": True}


# --- places --------------------------------------------------------------------------------------


def golden() -> list[Path]:
    return [path for path in sorted(GOLDEN.rglob("*.json")) if ".expected" not in path.name]


def test_findings_are_where_the_gateway_sees_them():
    """Against the places that the command line prints, for every golden request."""
    given, wanted = [], []
    for path in golden():
        raw = path.read_bytes()
        with contextlib.suppress(UnicodeDecodeError):
            text = raw.decode()
            result = reframe(raw)
            found = result.findings if isinstance(result, Refused) else result.warnings
            if text.startswith("\ufeff") or any(f.code == "JSON_TOO_DEEP" for f in found):
                continue  # a page's text has no byte order mark; too deep has no path
            spots = Source(raw).spots(found)
            given.append({"text": text, "findings": [finding.as_json() for finding in found]})
            wanted.append([(spot.line, spot.column) for spot in spots])
    script = """out = given.map(({text, findings}) => findings.map((finding) => {
        const [from] = spans.spanOf(text, finding);
        const {line} = spans.lineAt(text, from);
        const start = text.lastIndexOf("\\n", from - 1) + 1;
        return [line, [...text.slice(start, from)].length + 1];
    }));"""
    seen = run(script, given)
    assert sum(map(len, wanted)) > 100
    for item, places, expected in zip(given, seen, wanted, strict=True):
        assert [tuple(place) for place in places] == expected, item["text"][:200]


@pytest.mark.parametrize(
    ("text", "path", "piece"),
    [
        ('{"a": {"b c": [1, "x\\"y", {"d": null}]}}', 'a["b c"][1]', '"x\\"y"'),
        ('{"a": {"b c": [1, 2, {"d": null}]}}', 'a["b c"][2].d', "null"),
        ('{"a": [1, [2, 3]]}', "a[1]", "[2, 3]"),
        ('{"a": 1}', "", '{"a": 1}'),
        ('{"a": 1, "a": 2}', "a", "2"),
        ('{"\\u0061": true}', "a", "true"),
        ('{"🌏": "x"}', '["🌏"]', '"x"'),
        ('{"a": {"b": ', "a", "{"),
    ],
)
def test_a_value_is_found_by_its_path(text, path, piece):
    found = run(
        "const {value: [from, to]} = spans.places(given[0]).get(given[1]); out = given[0].slice(from, to);",
        [text, path],
    )
    assert found == piece


def test_a_mistake_about_a_name_is_at_the_name():
    finding = {"field_path": "b", "error_code": "X", "details": {"keyword": "additionalProperties"}}
    script = "const [from, to] = spans.spanOf(given[0], given[1]); out = given[0].slice(from, to);"
    assert run(script, ['{"a": 1, "b": 2}', finding]) == '"b"'


def test_a_long_line_is_cut_around_the_place():
    text = f"{'x' * 300}HERE{'y' * 300}"
    at = run("out = spans.lineAt(given, 300);", text)
    assert (at["line"], at["column"], len(at["excerpt"])) == (1, 301, 96)
    assert at["excerpt"][at["caret"] :].startswith("HERE")
