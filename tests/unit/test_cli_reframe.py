"""`monoize reframe`, as somebody at a terminal uses it, and as a program does."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from monoize.cli import reframe as command
from monoize.cli._findings import safe
from monoize.cli.reframe import reframe_file

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "reframer" / "requests"
HAPPY = GOLDEN / "happy_path.json"
PAGE = (ROOT / "docs" / "reframer.md").read_text("utf-8")
GOOD: dict[str, Any] = {
    "request_id": "request-1",
    "created_at": "2025-01-31T12:00:00Z",
    "channels": [{"channel_id": "a", "role": "user"}],
    "payload": {"messages": [{"id": "m", "role": "user", "content": "hi"}]},
}
BAD = {**GOOD, "channels": []}
ESCAPES = re.compile(r"\x1b\[[\d;]*m")

pytestmark = pytest.mark.spec("S3-3.1", "D22")


class Result:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    def ran(given: Any, **options: Any) -> Result:
        """A path, or what the file `r.json` is to hold."""
        monkeypatch.chdir(tmp_path)
        file = given
        if not isinstance(given, Path):
            raw = given if isinstance(given, bytes) else json.dumps(given, indent=2).encode()
            file = Path("r.json")
            file.write_bytes(raw)
        code = reframe_file(file, **options)
        seen = capsys.readouterr()
        return Result(code, seen.out, seen.err)

    return ran


def underlined(text: str) -> list[str]:
    """What the carets stand under, on paper where every letter takes the cells that it takes."""
    found = []
    for line, caret in re.findall(r"^ *\d+ \|(.*)\n +\|( *\^~*)$", text, re.MULTILINE):
        start, letters = len(caret) - len(caret.lstrip()), ""
        for place, letter in enumerate(line):
            if start <= cell_len(line[:place]) < len(caret):
                letters += letter
        found.append(letters)
    return found


# --- findings ---


def test_every_finding_shows_its_place_its_line_its_sentence_and_its_code(run):
    done = run({**GOOD, "request_id": "short", "constraints": {"routing": 7}})
    assert done.code == 1
    assert done.err == ""
    assert done.out.splitlines()[:4] == [
        'r.json:2:17: error: Request id "short" must be 8 to 64 letters, digits, "_" or "-"',
        '    2 |   "request_id": "short",',
        "      |                 ^~~~~~~",
        "      = INVALID_REQUEST_ID request_id",
    ]
    assert "= WRONG_TYPE constraints.routing" in done.out
    assert done.out.splitlines()[-1] == "r.json: refused: 2 errors"


def test_errors_and_warnings_stand_together_in_the_order_of_the_text(run):
    messages = [
        {"id": "m", "role": "user", "content": "hi", "protocol_tags": ["<tone:kind>"]},
        {"id": "n", "role": "nobody", "content": "hi"},
    ]
    done = run({**GOOD, "payload": {"messages": messages}, "tenant": ""})
    found = re.findall(r"^r\.json:(\d+):\d+: (\w+):", done.out, re.MULTILINE)
    assert [severity for _, severity in found] == ["warning", "error", "error"]
    assert [int(line) for line, _ in found] == sorted(int(line) for line, _ in found)
    assert done.out.splitlines()[-1] == "r.json: refused: 2 errors, 1 warning"


def test_the_page_about_it_shows_what_it_prints(run):
    """The request of the page, and the output that the page shows below it."""
    request = re.search(r"```json\n(\{\n  \"request_id\".*?)```", PAGE, re.DOTALL)
    shown = re.search(r"\$ monoize reframe r\.json\n(.*?)```", PAGE, re.DOTALL)
    assert request
    assert shown
    assert run(request[1].encode()).out == shown[1]
    mended = request[1].replace("2025-03-01 09:30", "2025-03-01T09:30:00Z")
    done = run(mended.replace(', "<role:user>"', "").encode(), lenient=True)
    assert done.out.replace("r.json", "mended.json") in PAGE


@pytest.mark.parametrize(
    ("letters", "why"),
    [("日本語", "wide"), ("e\u0301e\u0301", "combining"), ("🦜🦜", "emoji"), ("ÄÖ", "narrow")],
)
def test_the_caret_stays_below_its_place(run, letters, why):
    line = f'{{"tenant": "{letters}", "request_id": "short"}}'
    done = run(line.encode())
    place = line.index('"short"') + 1
    assert f"r.json:1:{place}: error: " in done.out
    assert '"short"' in underlined(done.out), why


def test_tabs_are_one_cell_each(run):
    done = run(b'{\n\t"request_id":\t\t"short"}')
    assert "\t" not in done.out
    assert ' "request_id":  "short"}' in done.out
    assert '"short"' in underlined(done.out)


def test_a_very_long_line_is_cut_on_both_sides_of_the_caret(run):
    request = {**GOOD, "request_id": "short"}
    raw = json.dumps({"tenant": "x" * 5_000_000, **request, "zone": "y" * 5_000_000}).encode()
    done = run(raw)
    lines = done.out.splitlines()
    assert max(len(line) for line in lines if " | " in line) <= 120
    shown = next(line for line in lines if '"short"' in line and " | " in line)
    assert shown.count("…") == 2
    assert '"short"' in underlined(done.out)


def test_wide_letters_do_not_push_a_line_beyond_the_paper(run):
    raw = json.dumps({"tenant": "日" * 300, **GOOD, "request_id": "本" * 300}, ensure_ascii=False)
    done = run(raw.encode())
    shown = [line for line in done.out.splitlines() if " | " in line]
    assert all(cell_len(line) <= 120 for line in shown)


@given(st.text(st.characters(codec=None)))
def test_no_letter_that_a_terminal_obeys_is_shown(text):
    shown = safe(text)
    assert shown.isprintable()
    assert len(shown) == len(text)
    shown.encode()


def test_control_characters_are_shown_as_pictures(run, tmp_path):
    done = run(b'{"request_id": "\x1b[2J\x9b\x7f"}')
    assert "\x1b" not in done.out
    assert "␛[2J" in done.out
    hostile = {**GOOD, "request_id": "\u202egnp.exe\u009b2J", "a\u202eb": 1}
    done = run(json.dumps(hostile, ensure_ascii=False).encode())
    assert done.code == 1
    assert safe(done.out.replace("\n", "")) == done.out.replace("\n", "")


@pytest.mark.parametrize(
    ("raw", "place", "code"),
    [
        (b"", "1:1", "JSON_SYNTAX"),
        (b'{\n  "a": }', "2:8", "JSON_SYNTAX"),
        (b'{"a": "\xff"}', "1:8", "JSON_NOT_UTF8"),
        (b"\xef\xbb\xbf{}", "1:1", "JSON_BYTE_ORDER_MARK"),
        (b'{"tenant": "a", "tenant": "b"}', "1:17", "JSON_DUPLICATE_KEY"),
        (b"[" * 10_000, "1:255", "JSON_TOO_DEEP"),
    ],
)
def test_what_is_wrong_with_the_text_itself_has_a_place_too(run, raw, place, code):
    done = run(raw)
    assert done.code == 1
    block = re.search(rf"^r\.json:{place}: error: .*\n.*\n.*\n +=.*", done.out, re.MULTILINE)
    assert block
    assert f"= {code}" in done.out


def test_a_thousand_mistakes_are_said_to_be_more(run):
    channels = [{"channel_id": "", "role": "user"}] * 1_100
    done = run({**GOOD, "channels": channels})
    assert done.out.splitlines()[-1] == "r.json: refused: 1,000 errors and more"
    tags = [f"<a:b{number}>" for number in range(1_100)]
    messages = [{"id": "m", "role": "user", "content": "hi", "protocol_tags": tags}]
    done = run({**GOOD, "payload": {"messages": messages}})
    assert "r.json: good, with 1,000 warnings and more" in done.out.splitlines()


REQUESTS = [file for file in sorted(GOLDEN.rglob("*.json")) if ".expected" not in file.suffixes]


@pytest.mark.parametrize("file", REQUESTS, ids=lambda file: file.stem)
def test_every_golden_request_can_be_shown(run, file):
    raw = file.read_bytes()
    strict, lenient = run(raw), run(raw, lenient=True)
    assert strict.code in (0, 1)
    assert strict.code == run(raw, json=True).code
    assert lenient.code <= strict.code
    for done in (strict, lenient):
        assert len(re.findall(r"^ +\| *\^~*$", done.out, re.MULTILINE)) == len(
            re.findall(r"^r\.json:\d+:\d+: ", done.out, re.MULTILINE)
        )


# --- colour ---


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, file: Path, **options: Any) -> str:
    paper = io.BytesIO()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Terminal(paper, "utf-8"))
        reframe_file(file, **options)
        sys.stdout.flush()
        return paper.getvalue().decode()


def test_colour_is_for_terminals(run, monkeypatch, tmp_path):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    plain = run(BAD)
    coloured = on_a_terminal(monkeypatch, Path("r.json"))
    assert not ESCAPES.search(plain.out)
    assert ESCAPES.search(coloured)
    assert ESCAPES.sub("", coloured) == plain.out
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert on_a_terminal(patch, Path("r.json")) == plain.out


def test_a_narrow_terminal_gets_short_lines(run, monkeypatch):
    run({**BAD, "tenant": "x" * 500, "request_id": ""})
    monkeypatch.setenv("COLUMNS", "50")
    shown = ESCAPES.sub("", on_a_terminal(monkeypatch, Path("r.json")))
    assert max(cell_len(line) for line in shown.splitlines() if " | " in line) <= 50


def test_json_on_a_terminal_is_still_json_and_moves_no_cursor(run, monkeypatch):
    said = "\x7f\x9b2J \u202e \U000e0041 é日"
    messages = [{"id": "m", "role": "user", "content": said}]
    run({**GOOD, "payload": {"messages": messages}})
    shown = on_a_terminal(monkeypatch, Path("r.json"), json=True)
    assert shown.rstrip("\n").isprintable()
    assert "é日" in shown
    content = json.loads(shown)["normalized"]["payload"]["messages"][0]["content"]
    assert content["value"] == said


def test_paper_that_knows_few_letters_gets_question_marks(run, monkeypatch):
    run({**BAD, "tenant": "日" * 500})
    paper = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(paper, "ascii"))
    assert reframe_file(Path("r.json")) == 1
    sys.stdout.flush()
    assert b"r.json: refused" in paper.getvalue()


# --- what is good ---


def test_a_good_request_is_summed_up(run):
    done = run(HAPPY)
    assert done.code == 0
    assert done.out.splitlines()[-7:] == [
        f"{HAPPY}: good, with 3 warnings",
        "  request   happy_path-0001 of acme: 3 channels, 1 attachment",
        "  messages  8: system 1, user 2, tool 1, data 2, code 1, assistant 1",
        "  tokens    72 of o200k_base, in 3 segments",
        "  masks     SEGMENT 2, TOOL_SCOPE 1, RET_SCOPE 2, SAFETY_SCOPE 1",
        "  tools     parcel_search 1",
        "  limits    16 tool calls, retrieval from 0.9, filters hate pii, review by a person",
    ]


def test_a_plain_request_has_a_short_summary(run):
    assert run(GOOD).out.splitlines() == [
        "r.json: good",
        "  request   request-1: 1 channel",
        "  messages  1: user 1",
        "  tokens    1 of o200k_base, in 1 segment",
        "  limits    none",
    ]


@pytest.mark.spec("D20")
def test_lenient_repairs_and_says_so(run):
    budget = {"total": 20, "per_tool": []}
    retrieval = {"precision_threshold": 0.5, "sources": []}
    request = {**GOOD, "constraints": {"routing": {"tool_budget": budget, "retrieval": retrieval}}}
    assert run(request).code == 1
    done = run(request, lenient=True)
    assert done.code == 0
    assert "warning:" in done.out
    assert "= BUDGET_CLAMPED constraints.routing.tool_budget.total" in done.out


def test_programs_get_what_the_api_answers(run):
    good = run(GOOD, json=True)
    assert (good.code, good.err) == (0, "")
    assert good.json["request_id"] == "request-1"
    assert good.json["mask_hints"][0]["token_range"] == [0, 1]
    bad = run({**BAD, "tenant": ""}, json=True)
    assert (bad.code, bad.err) == (1, "")
    assert bad.json["error_code"] == "NO_CHANNELS"
    assert len(bad.json["details"]["diagnostics"]) == 1


def test_numbers_that_few_programs_can_hold_come_out_as_they_were(run):
    messages = [{"id": "m", "role": "user", "content": "hi", "metadata": {"n": 10**40}}]
    done = run({**GOOD, "payload": {"messages": messages}}, json=True)
    assert done.json["normalized"]["payload"]["messages"][0]["metadata"] == {"n": 10**40}


# --- the way on ---


@pytest.mark.spec("D50")
@pytest.mark.parametrize(
    ("target", "path", "field"),
    [
        ("chat_completion", "/v1/chat/completions", "messages"),
        ("responses", "/v1/responses", "input"),
        ("messages", "/v1/messages", "messages"),
        ("gemini", "/v1beta/models/m-1:generateContent", "contents"),
    ],
)
def test_the_call_goes_to_standard_output_and_words_about_it_elsewhere(run, target, path, field):
    done = run(HAPPY, into=target, model="m-1")
    assert done.code == 0
    assert field in done.json
    assert f"POST {path}" in done.err
    assert "UNKNOWN_PROTOCOL_TAG" in done.err
    assert "  dropped   tenant: a call has no tenant" in done.err
    assert "  added     payload.messages[2]: a call of parcel_search" in done.err
    whole = run(HAPPY, into=target, model="m-1", json=True)
    assert whole.err == ""
    assert whole.json["request_id"] == "happy_path-0001"
    assert whole.json["into"]["body"] == done.json
    assert whole.json["into"]["lossless"] is False


@pytest.mark.spec("D50")
def test_a_refused_request_gives_no_call(run):
    done = run(BAD, into="messages", model="m")
    assert (done.code, done.out) == (1, "")
    assert "NO_CHANNELS" in done.err


# --- many ---


def as_array(items: list[bytes]) -> bytes:
    return b" \n[ " + b",\n   ".join(items) + b"]\n"


def as_lines(items: list[bytes]) -> bytes:
    return b"\r\n\n".join(items) + b"\n"


@pytest.mark.spec("D25")
@pytest.mark.parametrize("written", [as_array, as_lines])
def test_one_bad_request_costs_no_other_and_is_found_where_it_stands(run, written):
    good, bad = json.dumps(GOOD).encode(), json.dumps(BAD).encode()
    broken = '{"a": é nonsense}'.encode()
    raw = written([good, bad, broken, b'{"b": "\xe2\x82"}', b"7", good])
    done = run(raw, batch=True)
    assert done.code == 1
    lines = raw.decode("utf-8", "replace").split("\n")
    found = re.findall(
        r"^r\.json:(\d+):(\d+): error: (.*)\n.*\n.*\n +=.(\w+)", done.out, re.MULTILINE
    )
    places = {code: lines[int(line) - 1][int(column) - 1 :] for line, column, _, code in found}
    assert places["NO_CHANNELS"].startswith("[]")
    assert places["JSON_SYNTAX"].startswith("é nonsense")
    assert places["JSON_NOT_UTF8"].startswith('\ufffd"}')
    assert places["NOT_AN_OBJECT"].startswith("7")
    assert done.out.splitlines()[-1] == "r.json: 2 good, 4 refused; 4 errors"


@pytest.mark.parametrize("written", [as_array, as_lines])
def test_a_batch_for_programs_is_one_line_each(run, written):
    raw = written([json.dumps(one).encode() for one in (GOOD, BAD)])
    done = run(raw, batch=True, json=True)
    assert done.code == 1
    good, bad = done.lines
    assert (good["index"], good["status"], good["request_id"]) == (0, 200, "request-1")
    assert good["response"]["mask_hints"]
    assert (bad["index"], bad["status"], bad["error"]["error_code"]) == (1, 400, "NO_CHANNELS")
    done = run(raw, batch=True, into="chat_completion", model="m")
    assert done.lines[0]["model"] == "m"
    assert done.lines[1] is None
    assert "NO_CHANNELS" in done.err


@pytest.mark.parametrize(
    ("raw", "code", "last"),
    [
        (b"[]", 0, "r.json: 0 good, 0 refused"),
        (json.dumps(GOOD, indent=2).encode(), 0, "r.json: 1 good, 0 refused"),
        (b"", 1, "r.json: refused: 1 error"),
        (b"[{}", 1, "r.json: refused: 1 error"),
        (b"\xef\xbb\xbf[{}]", 1, "r.json: refused: 1 error"),
    ],
)
def test_batches_that_are_none_or_hold_little(run, raw, code, last):
    done = run(raw, batch=True)
    assert (done.code, done.out.splitlines()[-1]) == (code, last)


def test_an_array_without_batch_is_told_how(run):
    done = run([GOOD])
    assert done.code == 1
    assert "--batch" in done.out.splitlines()[-1]


# --- flags, and what cannot be used ---


@pytest.mark.spec("S3-7")
def test_flags_promote_a_tag(run, tmp_path):
    flags = tmp_path / "flags.yaml"
    flags.write_text('"<tone:*>": error\n', "utf-8")
    assert run(HAPPY, flags=flags).code == 1
    flags.write_text('{"<tone:*>": {"mark": "tone"}}', "utf-8")
    done = run(HAPPY, flags=flags)
    assert done.code == 0
    assert "UNKNOWN_PROTOCOL_TAG" not in done.out


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[1]", "must be a mapping"),
        ("1: error", "must be a mapping"),
        ("tone: error", "tag flag 'tone'"),
        ("{", "flags.yaml: "),
        ('"<a:b>": 7', "<a:b>"),
    ],
)
def test_bad_flags_are_named(run, tmp_path, text, sentence):
    (tmp_path / "flags.yaml").write_text(text, "utf-8")
    done = run(GOOD, flags=Path("flags.yaml"))
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"into": "messages"}, "needs the name of a model"),
        ({"into": "messages", "model": ""}, "needs the name of a model"),
        ({"model": "m"}, "there is no --into"),
        ({"into": "gemini", "model": "../x"}, "no name of a model"),
        ({"flags": Path("none.yaml")}, "none.yaml: No such file"),
    ],
)
def test_options_that_do_not_fit_are_told(run, options, sentence):
    done = run(GOOD, **options)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err


@pytest.mark.parametrize("name", ["none.json", ".", "a\x1bb", "a\0b"])
def test_a_file_that_cannot_be_read_is_one_clear_sentence(run, name):
    done = run(Path(name))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("monoize: ")
    assert done.err.rstrip("\n").isprintable()


# --- as a command ---


def monoize(*words: str, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "monoize", "reframe", *words],
        input=text,
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )


def test_it_reads_standard_input():
    done = monoize("-", text=json.dumps(BAD).encode())
    assert done.returncode == 1
    assert done.stdout.startswith(b"<stdin>:1:")
    assert done.stderr == b""


def test_an_unknown_target_is_a_matter_of_usage():
    done = monoize(str(HAPPY), "--into", "nonsense", "--model", "m")
    assert done.returncode == 2
    assert b"chat_completion" in done.stderr


def test_the_command_is_only_imported_when_it_is_used():
    script = "import sys, monoize.cli; print('monoize.cli.reframe' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert done.stdout == "False\n"
    assert command.__all__ == ["reframe_file"]
