"""Where findings lie in their text, for people who look at the file."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monoize.reframer import Finding, Source, reframe
from monoize.reframer.source import array_items

TEXT = b"""{
  "request_id": "x",
  "created_at": "2025-03-01T09:30:00Z",
  "channels": [
    {"channel_id": "main", "role": "user"},
    {"channel_id": "side", "role": "wizard"}
  ],
  "payload": {"messages": [{"id": "a{]\\"", "role": "user"}]},
  "zzz": 1
}
"""


def spot(raw: bytes, *path: str | int, **details: str) -> tuple[int, int, str]:
    finding = Finding(code="X_Y", message="", path=path, details=details)
    (found,) = Source(raw).spots([finding])
    return found.line, found.column, found.excerpt[found.caret :]


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ((), (1, 1, "{")),
        (("request_id",), (2, 17, '"x",')),
        (("channels", 1), (6, 5, '{"channel_id": "side", "role": "wizard"}')),
        (("channels", 1, "role"), (6, 36, '"wizard"}')),
        (("payload", "messages", 0, "role"), (8, 52, '"user"}]},')),
        (("zzz",), (9, 10, "1")),
        (("not there",), (1, 1, "{")),
    ],
)
def test_a_finding_is_shown_at_its_value(path, place):
    assert spot(TEXT, *path) == place


def test_an_unknown_field_is_shown_at_its_name():
    assert spot(TEXT, "zzz", keyword="additionalProperties") == (9, 3, '"zzz": 1')


def test_a_name_given_twice_is_shown_where_it_stands_last():
    raw = b'{"a": 1,\n "a": 2}'
    doubled = [f for f in reframe(raw).findings if f.code == "JSON_DUPLICATE_KEY"]
    (found,) = Source(raw).spots(doubled)
    assert (found.line, found.column) == (2, 2)


def test_a_syntax_error_is_shown_where_reading_stopped():
    raw = b'{\n  "a": 1,\n}'
    (found,) = Source(raw).spots(reframe(raw).findings)
    assert (found.line, found.column, found.excerpt, found.caret) == (3, 1, "}", 0)


def test_all_findings_of_a_request_have_their_line():
    findings = reframe(TEXT).findings
    lines = [found.line for found in Source(TEXT).spots(findings)]
    assert [(f.field_path, line) for f, line in zip(findings, lines, strict=True)] == [
        ("request_id", 2),
        ("channels[1].role", 6),
        ("payload.messages[0]", 8),
        ("zzz", 9),
    ]


def test_a_long_line_is_cut_around_the_caret():
    raw = json.dumps({"a": "x" * 5000, "request_id": "?", "b": "y" * 5000}).encode()
    finding = Finding(code="X_Y", message="", path=("request_id",))
    (found,) = Source(raw).spots([finding])
    assert len(found.excerpt) == 100
    assert found.excerpt[found.caret :].startswith('"?"')


def test_a_mark_at_the_beginning_shifts_nothing():
    assert spot(b"\xef\xbb\xbf" + TEXT, "request_id")[:2] == (2, 17)


@pytest.mark.parametrize("raw", [b"", b"\xff", b"{", b'{"a', b"]]]", b'{"a" "b" 1', b"\n\n"])
def test_any_text_gives_some_spot(raw):
    assert spot(raw, "a", 0)[0] >= 1


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(deadline=None)
@given(JSON, st.sampled_from([None, 0, 2]), st.booleans())
def test_the_text_at_the_spot_is_the_value_at_the_path(document, indent, ascii_only):
    raw = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    paths = []

    def walk(value, path):
        paths.append((path, value))
        for step, inner in (
            value.items() if isinstance(value, dict) else
            enumerate(value) if isinstance(value, list) else ()
        ):  # fmt: skip
            walk(inner, (*path, step))

    walk(document, ())
    findings = [Finding(code="X_Y", message="", path=path) for path, _ in paths]
    lines = raw.split("\n")
    for (_, value), found in zip(paths, Source(raw.encode()).spots(findings), strict=True):
        rest = "\n".join([lines[found.line - 1][found.column - 1 :], *lines[found.line :]])
        assert json.JSONDecoder().raw_decode(rest)[0] == value


@settings(deadline=None)
@given(st.lists(JSON, max_size=4), st.sampled_from([None, 0, 2]))
def test_the_items_of_an_array_are_cut_where_they_end(values, indent):
    items = array_items(json.dumps(values, indent=indent))
    assert [json.loads(item) for item in items] == values
