"""Keep-alives have promised the caller a stream before any provider answered: failing forward stays allowed (D10)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from fakes.caller import CALLERS, Line, Reply, beats, body, end_of, endings, parsed, path, text_of
from fakes.gateway import configured
from fakes.hostile import hangs_before_headers, resets_before_status, sends_garbage
from fakes.pair import SECOND, UNMOVED, Pair, after_a_word, channel, good, provider, status
from fakes.speakers import SPEAKERS

KINDS = [*SPEAKERS]
CELLS = [
    pytest.param(first, KINDS[(f + 2) % 5], protocol, id=f"{first}-to-{protocol}")
    for f, first in enumerate(KINDS)
    for protocol in CALLERS
]


@pytest.fixture(scope="module")
def module_pair() -> Iterator[Pair]:
    """Keep-alives after the shortest silence, and providers that are given up much later."""
    names = [f"{first}.{second}" for first in KINDS for second in KINDS]
    with Pair() as pair:
        firsts = [
            provider(
                f"first-{kind}",
                kind,
                [n for n in names if n.startswith(f"{kind}.")],
                channel("main", pair.first, kind),
                request_timeout_ms=60_000,
            )
            for kind in KINDS
        ]
        seconds = [
            provider(
                f"second-{kind}",
                kind,
                [n for n in names if n.endswith(f".{kind}")],
                channel("main", pair.second, kind),
                request_timeout_ms=60_000,
            )
            for kind in KINDS
        ]
        hasty = provider(
            "hasty", "messages", ["hasty"], channel("main", pair.first, "messages"),
            request_timeout_ms=1500,
        )  # fmt: skip
        last = provider("last", "gemini", ["hasty"], channel("main", pair.second, "gemini"))
        providers = [*firsts, hasty, *seconds, last]
        pair.serve(configured(providers, UNMOVED, timeouts={"keep_alive": 0.05}))
        yield pair


@pytest.fixture
def pair(module_pair: Pair) -> Iterator[Pair]:
    yield module_pair
    module_pair.assert_nothing_is_left()


def promised(pair: Pair, line: Line, protocol: str) -> None:
    """The caller has seen signs of life and no event."""
    line.read_until(lambda raw: beats(protocol, raw) >= 2)
    assert line.status == 200
    assert all(event.name == "ping" for event in parsed(bytes(line.raw)))
    assert pair.exchanges == (1, 0)


def rest(line: Line) -> Reply:
    return Reply(line.status, {"content-type": "text/event-stream"}, line.read_rest())


@pytest.mark.spec("D10", "T13", "T16")
@pytest.mark.parametrize(("first", "second", "protocol"), CELLS)
def test_after_keep_alives_the_next_provider_may_still_answer(
    pair: Pair, first: str, second: str, protocol: str
):
    failures = (status(503), sends_garbage, resets_before_status)
    act = failures[(KINDS.index(first) + CALLERS.index(protocol)) % 3]
    before = pair.dashboard.totals()
    pair.play(after_a_word(act))

    with pair.caller.open(protocol, f"{first}.{second}") as line:
        promised(pair, line, protocol)
        pair.first.exchange(0).allow()
        reply = rest(line)

    assert end_of(protocol, reply, stream=True) == "complete"
    assert endings(protocol, reply) == 1
    assert text_of(protocol, reply, stream=True) == SECOND.text
    assert pair.exchanges == (1, 1)
    outcomes = ((f"first-{first}/main", "failure"), (f"second-{second}/main", "success"))
    pair.dashboard.assert_outcomes(before, *outcomes)


@pytest.mark.spec("D10", "T13")
@pytest.mark.parametrize("protocol", CALLERS)
def test_keep_alives_last_until_a_silent_provider_is_given_up(pair: Pair, protocol: str):
    pair.play(hangs_before_headers)

    with pair.caller.open(protocol, "hasty") as line:
        reply = rest(line)

    assert beats(protocol, reply.raw) >= 2
    assert end_of(protocol, reply, stream=True) == "complete"
    assert text_of(protocol, reply, stream=True) == SECOND.text
    assert pair.first.exchange(0).closed.wait(25)


@pytest.mark.spec("D10", "D18", "ROUT-8")
@pytest.mark.parametrize(("first", "second", "protocol"), CELLS)
def test_after_keep_alives_exhaustion_is_an_error_event(
    pair: Pair, first: str, second: str, protocol: str
):
    pair.play(after_a_word(status(503)), second=after_a_word(status(500)))

    with pair.caller.open(protocol, f"{first}.{second}") as line:
        promised(pair, line, protocol)
        pair.first.exchange(0).allow()
        pair.second.exchange(0).allow()
        reply = rest(line)

    assert end_of(protocol, reply, stream=True) == "error"
    assert endings(protocol, reply) == 1
    assert text_of(protocol, reply, stream=True) == ""
    assert f"first-{first}/main: it says 503" in reply.raw.decode()
    assert f"second-{second}/main: it says 500" in reply.raw.decode()
    assert pair.exchanges == (1, 1)


@pytest.mark.spec("D10", "D9", "ROUT-6")
@pytest.mark.parametrize("protocol", CALLERS)
def test_after_keep_alives_a_final_refusal_is_an_error_event_and_nobody_else_is_asked(
    pair: Pair, protocol: str
):
    pair.play(after_a_word(status(403)))

    with pair.caller.open(protocol, "responses.gemini") as line:
        promised(pair, line, protocol)
        pair.first.exchange(0).allow()
        reply = rest(line)

    assert end_of(protocol, reply, stream=True) == "error"
    assert endings(protocol, reply) == 1
    assert "it says 403" in reply.raw.decode()
    assert pair.exchanges == (1, 0)


@pytest.mark.spec("D10", "T13")
@pytest.mark.parametrize("last", [good, status(500)], ids=["answered", "exhausted"])
def test_googles_array_form_stays_json_whoever_fails(pair: Pair, last):
    pair.play(after_a_word(status(503)), second=last)
    model = "gemini.responses"
    target = f"/v1beta/models/{model}:streamGenerateContent"

    with Line(pair.caller, target, json.dumps(body("gemini", model)).encode(), 0) as line:
        line.read_until(lambda raw: len(raw) >= 2)
        pair.first.exchange(0).allow()
        answers = json.loads(line.read_rest())

    parts = [p for a in answers for c in a.get("candidates", []) for p in c["content"]["parts"]]
    text = "".join(part.get("text", "") for part in parts)
    if last is good:
        assert text == SECOND.text
    else:
        assert text == ""
        assert [*answers[-1]] == ["error"]


@pytest.mark.spec("T17")
@pytest.mark.parametrize(
    ("first", "second"), [("chat_completion", "messages"), ("messages", "chat_completion")]
)
def test_the_remark_about_losses_is_the_second_attempts(pair: Pair, first: str, second: str):
    """The headers went out too early to name them; `top_k` has no place in chat completions."""
    pair.play(after_a_word(status(503)))
    model = f"{first}.{second}"
    wire = json.dumps(body("messages", model, stream=True, top_k=5)).encode()

    with Line(pair.caller, path("messages", model, stream=True), wire, 0) as line:
        promised(pair, line, "messages")
        pair.first.exchange(0).allow()
        raw = line.read_rest().decode()

    assert ("top_k" in pair.first.last.body) == (first == "messages")
    assert ("top_k" in pair.second.last.body) == (second == "messages")
    assert ("monoize-translation lossy" in raw) == (second == "chat_completion")
