"""The short way: who may take it, and that it leads where the long one does."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from monoize.reframer import Reframed, reframe, tag_table
from monoize.reframer.clean import clean_request

GOLDEN = Path(__file__).parents[2] / "golden" / "reframer" / "requests"
TAGS = tag_table()


def full() -> dict[str, Any]:
    """Every field that there is."""
    return {
        "schema_version": "1.0.0",
        "request_id": "request-0001",
        "created_at": "2025-03-01T09:30:00Z",
        "tenant": "acme",
        "channels": [{"channel_id": "main", "role": "user", "priority": 3}],
        "payload": {
            "messages": [
                {
                    "id": "m1",
                    "role": "user",
                    "content": "hello: there",
                    "protocol_tags": ["<tool:a>", "<safety:restricted>"],
                    "metadata": {"a": 1, "b": "c", "d": True, "e": 0.5},
                },
                {"id": "m2", "role": "data", "content": {"type": "json", "value": "{}"}},
                {"id": "m3", "role": "code", "content": "", "protocol_tags": []},
                {
                    "id": "m4",
                    "role": "user",
                    "content": {"type": "binary", "value": "aGk=", "encoding": "base64"},
                },
            ],
            "attachments": [
                {"id": "a", "media_type": "text/plain", "uri": "http://a", "hash": "0" * 64}
            ],
            "context_window": 0,
        },
        "constraints": {
            "routing": {
                "tool_budget": {"total": 8, "per_tool": [{"tool_name": "a", "budget": 2}]},
                "retrieval": {
                    "precision_threshold": 1,
                    "sources": [{"source_id": "s", "allow": True, "ttl_s": 0}],
                },
            },
            "safety": {"content_filters": ["pii", "hate"], "requires_human_review": True},
            "policies": {"allow_copy": False, "allow_schema_mutation": True},
        },
    }


def smallest() -> dict[str, Any]:
    return {
        "request_id": "request-0001",
        "created_at": "2025-03-01T09:30:00Z",
        "channels": [{"channel_id": "main", "role": "user"}],
        "payload": {"messages": [{"id": "m", "role": "user", "content": "hi"}]},
    }


def encoded(result: Any) -> bytes:
    assert isinstance(result, Reframed), result
    return msgspec.json.encode(result.reply())


@pytest.mark.spec("S3-2.1", "S3-4")
@pytest.mark.parametrize("document", [full(), smallest()])
@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_a_clean_request_takes_the_short_way_to_the_same_form(document, mode):
    raw = json.dumps(document).encode()
    assert clean_request(raw, TAGS) is not None
    # a value that was read already always takes the long way
    assert encoded(reframe(raw, mode=mode)) == encoded(reframe(document, mode=mode))


def test_the_published_example_takes_it():
    assert clean_request((GOLDEN / "unconstrained.json").read_bytes(), TAGS) is not None


def changed(place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    document = copy.deepcopy(full())
    holder: Any = document
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = value
    return document


MESSAGE = ("payload", "messages", 0)
ROUTING = ("constraints", "routing")


@pytest.mark.spec("S3-2.1", "S3-4", "D20", "D22", "D24")
@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("schema_version",), "1.0.1"),
        (("request_id",), "request-0001\n"),
        (("request_id",), "short"),
        (("created_at",), "2025-02-29T00:00:00Z"),
        (("tenant",), ""),
        (("tenant",), None),
        (("extra",), 1),
        (("channels",), []),
        (("channels", 0, "priority"), 11),
        (("channels", 0, "priority"), 3.0),  # fine, though not in this form
        (("channels", 0, "role"), "robot"),
        (("payload", "messages"), []),
        (("payload", "context_window"), 2**64),
        (("payload", "attachments", 0, "uri"), "no uri"),
        (("payload", "attachments", 0, "hash"), "0" * 63),
        (("payload", "attachments", 0, "extra"), 1),
        ((*MESSAGE, "id"), "m2"),
        ((*MESSAGE, "protocol_tags"), ["<a>b>"]),
        ((*MESSAGE, "protocol_tags"), ["<tool:a>", "<role:user>"]),
        ((*MESSAGE, "protocol_tags"), ["<un:known>"]),
        ((*MESSAGE, "metadata"), {"a": None}),
        ((*MESSAGE, "metadata"), {"a": 2**64}),
        ((*MESSAGE, "content"), {"type": "json", "value": "{"}),
        ((*MESSAGE, "content"), {"type": "binary", "value": "a"}),
        ((*MESSAGE, "content"), {"type": "text", "value": "a", "more": 1}),
        ((*ROUTING, "tool_budget", "total"), 1),
        ((*ROUTING, "tool_budget", "total"), 17),
        ((*ROUTING, "tool_budget", "per_tool"), [{"tool_name": "a", "budget": 1}] * 2),
        ((*ROUTING, "retrieval", "precision_threshold"), 1.1),
        ((*ROUTING, "retrieval", "sources"), [{"source_id": "s", "allow": True}] * 2),
        (("constraints", "safety", "content_filters"), ["nope"]),
    ],
)
def test_whatever_calls_for_a_word_takes_the_long_way(place, value):
    document = changed(place, value)
    raw = json.dumps(document).encode()
    assert clean_request(raw, TAGS) is None
    ours, others = reframe(raw), reframe(document)
    assert type(ours) is type(others)
    if isinstance(others, Reframed):
        assert encoded(ours) == encoded(others)
    else:
        assert ours.as_json() == others.as_json()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"content": "hi"', b'"content": "hi", "content": "hi"'),
        (b'"content": "hi"', b'"content": "hi", "cont\\u0065nt": "hi"'),
        (b'"content": "hi"', b'"content": "h\\u003a", "content": "hi"'),
        (b'"content": "hi"', b'"content": "\\ud800"'),
        (b'"content": "hi"', b'"content": "\xff"'),
        (b'"content": "hi"', b'"content": "hi", "metadata": {"a": 1, "a": 1}'),
        (b'"content": "hi"', b'"content": "hi", "metadata": {"a": NaN}'),
        (b'{"request_id"', b'\xef\xbb\xbf{"request_id"'),
    ],
)
def test_a_text_with_a_defect_is_told_of_it(old, new):
    raw = json.dumps(smallest()).encode()
    assert old in raw
    assert clean_request(raw.replace(old, new), TAGS) is None
    assert not isinstance(reframe(raw.replace(old, new)), Reframed)


def test_tags_that_are_none_are_never_remembered_as_usual():
    table = tag_table()
    document = smallest()
    document["payload"]["messages"][0]["protocol_tags"] = ["tool:a"]
    raw = json.dumps(document).encode()
    assert clean_request(raw, table) is None
    assert clean_request(raw, table) is None
