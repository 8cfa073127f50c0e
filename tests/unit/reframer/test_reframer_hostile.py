"""Input made to hurt: the cost grows with its size and no faster, and the answer is short and clear."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from monoize.reframer import Reframed, Refused, Source, reframe, reframe_batch
from monoize.reframer.finding import MAX_FINDINGS
from monoize.tokenizer import warm_up

Made = Callable[[int], bytes]
SOAK = os.environ.get("MONOIZE_SOAK") == "1"


def request(**changes: Any) -> dict[str, Any]:
    return {
        "request_id": "request-0001",
        "created_at": "2025-03-01T09:30:00Z",
        "channels": [{"channel_id": "main", "role": "user"}],
        "payload": {"messages": [{"id": "m1", "role": "user", "content": "hello"}]},
        **changes,
    }


def written(**changes: Any) -> bytes:
    return json.dumps(request(**changes)).encode()


def said(content: Any, **others: Any) -> bytes:
    return written(
        payload={"messages": [{"id": "m", "role": "user", "content": content, **others}]}
    )


def tagged(count: int, tag: Callable[[int], str]) -> bytes:
    return said("x", protocol_tags=[tag(n) for n in range(count)])


def constrained(**changes: Any) -> bytes:
    routing = {
        "tool_budget": {"total": 1, "per_tool": changes.pop("per_tool", [])},
        "retrieval": {"precision_threshold": 0, "sources": changes.pop("sources", [])},
    }
    return written(constraints={"routing": routing, **changes})


# Each makes a text of about so many bytes.
ATTACKS: dict[str, Made] = {
    "words": lambda n: said("word " * (n // 5)),
    "no spaces": lambda n: said("a" * n),
    "only spaces": lambda n: said(" " * n),
    "line breaks": lambda n: said("\n" * (n // 2)),
    "every word another": lambda n: said(" ".join(f"w{i}" for i in range(n // 7))),
    "empty objects as messages": lambda n: b'{"payload":{"messages":[' + b"{}," * (n // 3) + b"{}]}}",
    "many messages": lambda n: written(
        payload={"messages": [{"id": f"m{i}", "role": "user", "content": "x"} for i in range(n // 45)]}
    ),
    "messages of one id": lambda n: written(
        payload={"messages": [{"id": "m", "role": "user", "content": "x"}] * (n // 45)}
    ),
    "messages with an unknown tag": lambda n: written(
        payload={"messages": [{"id": f"m{i}", "role": "user", "content": "x", "protocol_tags": ["<x:y>"]} for i in range(n // 75)]}
    ),
    "open brackets": lambda n: b"[" * n,
    "open objects": lambda n: b'{"a":' * (n // 5),
    "closed brackets": lambda n: b"[" * (n // 2) + b"]" * (n // 2),
    "unknown fields": lambda n: written(**{f"k{i}": 1 for i in range(n // 12)}),
    "names given twice": lambda n: b"{" + b",".join(b'"k%d":1,"k%d":1' % (i, i) for i in range(n // 24)) + b"}",
    "one name again and again": lambda n: b"{" + b'"a":1,' * (n // 6) + b'"a":1}',
    "digits": lambda n: written(payload={"messages": [], "context_window": 7}).replace(b"7", b"7" * n),
    "digits behind a point": lambda n: written(tenant=0.5).replace(b"0.5", b"0." + b"5" * n),
    "not numbers": lambda n: b"[" + b"NaN," * (n // 4) + b"1]",
    "a text of half surrogates": lambda n: said("x").replace(b'"x"', b'"' + b"\\ud800" * (n // 6) + b'"'),
    "texts of half surrogates": lambda n: b"[" + b'"\\ud800",' * (n // 9) + b"1]",
    "unknown tags": lambda n: tagged(n // 12, lambda i: f"<x:{i}>"),
    "tools": lambda n: tagged(n // 14, lambda i: f"<tool:{i}>"),
    "roles": lambda n: tagged(n // 14, lambda i: "<role:user>"),
    "forbidden roles": lambda n: tagged(n // 14, lambda i: "<role:user>" if i else "<tool:a>"),
    "segments": lambda n: tagged(n // 14, lambda i: f"<segment:{i}>"),
    "tags that are none": lambda n: tagged(n // 8, lambda i: "bad"),
    "one long tag": lambda n: tagged(1, lambda i: f"<x:{'y' * n}>"),
    "metadata of nulls": lambda n: said("x", metadata={f"k{i}": None for i in range(n // 14)}),
    "a long name": lambda n: written(**{"k" * n: 1}),
    "a long id": lambda n: written(request_id="k" * n),
    "a long time": lambda n: written(created_at=f"2025-01-01T00:00:00.{'0' * n}Z"),
    "a long address": lambda n: written(
        payload={"messages": [], "attachments": [{"id": "a", "media_type": "x", "uri": "http://" + "[:" * (n // 2)}]}
    ),
    "one tool again and again": lambda n: constrained(per_tool=[{"tool_name": "a", "budget": 0}] * (n // 36)),
    "one source again and again": lambda n: constrained(sources=[{"source_id": "a", "allow": True}] * (n // 36)),
    "unknown filters": lambda n: constrained(safety={"content_filters": ["x"] * (n // 5)}),
    "blank": lambda n: b" " * n,
    "backslashes": lambda n: b'"' + b"\\\\" * (n // 2),
    "quotes": lambda n: b'"a"' * (n // 3),
    "json in json": lambda n: said({"type": "json", "value": "[" * n}),
    "base64": lambda n: said({"type": "binary", "value": "A" * n}),
    "one wrong byte at the end": lambda n: b'"' + b"a" * n + b'\xff"',
    "a wrong type": lambda n: written(tenant=[1] * (n // 3)),
    "ignored fields": lambda n: said({"type": "text", "value": "", **{f"k{i}": 1 for i in range(n // 12)}}),
    "addresses of people": lambda n: written(request_id="a@b.cd " * (n // 7)),
}  # fmt: skip
SMALL, GROWTH = 40_000 if SOAK else 12_000, 8
# Eight times the input may take eight times as long; squared cost would take 64 times.
MOST = 28


@pytest.fixture(scope="module", autouse=True)
def _vocabulary():
    warm_up()


def cost(action: Callable[[], Any]) -> float:
    """Processor time of this process: what else the machine does is not in it."""
    started = time.process_time()
    action()
    return time.process_time() - started


@pytest.mark.soak
@pytest.mark.spec("S3-3.1")
@pytest.mark.parametrize("mode", ["strict", "lenient"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_the_cost_grows_with_the_size_and_no_faster(attack, mode):
    small, large = ATTACKS[attack](SMALL), ATTACKS[attack](SMALL * GROWTH)
    for _ in range(4):  # a busy machine disturbs small measurements
        base = max(cost(lambda: reframe(small, mode=mode)), 0.002)
        if cost(lambda: reframe(large, mode=mode)) < base * MOST:
            return
    pytest.fail(f"{attack}: {GROWTH} times the size took more than {MOST} times as long")


@pytest.mark.soak
@pytest.mark.spec("S3-3.1")
@pytest.mark.parametrize("attack", ATTACKS)
def test_the_answer_is_clear_and_a_refusal_short(attack):
    raw = ATTACKS[attack](SMALL * GROWTH)
    result = reframe(raw)
    if isinstance(result, Refused):
        assert 1 <= len(result.findings) <= MAX_FINDINGS
        body = json.dumps(result.as_json())
        assert len(body) < 600 * MAX_FINDINGS
        assert all(len(finding.message) < 500 for finding in result.findings)
        Source(raw).spots(result.findings)
    else:
        assert len(result.warnings) <= MAX_FINDINGS


@pytest.mark.spec("S3-5")
def test_a_hundred_thousand_tags_are_applied():
    raw = tagged(100_000, lambda n: f"<x:{n}>" if n % 2 else f"<tool:t{n}>")
    result = reframe(raw)
    assert isinstance(result, Reframed)
    assert result.counts.tags["unknown_protocol_tags"] == 50_000
    assert len(result.counts.tools) == 50_000
    assert len(result.warnings) == MAX_FINDINGS
    assert result.has_more_warnings


def test_ten_megabytes_are_read_to_the_end():
    result = reframe(said("word " * 2_000_000))
    assert isinstance(result, Reframed)
    assert result.counts.tokens == 2_000_001
    assert isinstance(reframe(said("word " * 2_000_000)[:-2]), Refused)


@pytest.mark.spec("D25")
@pytest.mark.parametrize(
    "item", [b"{}", b'"x"', b'{"a": NaN}', b"[" * 300 + b"]" * 300, b'"[[[{{{\\""']
)
def test_a_large_batch_costs_no_more_than_its_items(item):
    small = b"[" + b",".join([item] * 300) + b"]"
    large = b"[" + b",".join([item] * 300 * GROWTH) + b"]"
    for _ in range(4):
        base = max(cost(lambda: reframe_batch(small)), 0.002)
        if cost(lambda: reframe_batch(large)) < base * MOST:
            return
    pytest.fail("a batch costs more than its items")


def test_finding_all_places_takes_one_pass():
    raw = ATTACKS["unknown fields"](400_000)
    findings = reframe(raw).findings
    looked = cost(lambda: Source(raw).spots(findings[:1]))
    assert cost(lambda: Source(raw).spots(findings)) < max(looked, 0.05) * 10
