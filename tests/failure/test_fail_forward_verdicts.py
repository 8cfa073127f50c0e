"""Which failures move a call on to the next provider: no connection, statuses that may pass, and those that an operator lists."""

from __future__ import annotations

import pytest

from fakes.caller import CALLERS, assert_error_dialect, text_of
from fakes.forwarding import KINDS, assert_moved_on, assert_stayed, name
from fakes.hostile import closes_without_a_word, resets_before_status
from fakes.pair import SECOND, Pair, good, status
from fakes.upstream import Behaviour

FINAL = (400, 401, 403, 404, 413, 422)
RETRYABLE = (408, 409, 425, 429, 500, 502, 503, 504, 529)


@pytest.mark.spec("D9", "ROUT-5", "ROUT-7")
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["closed", "plain"], ids=["connect refused", "TLS error"])
def test_a_provider_that_cannot_be_reached_moves_the_call_on(
    pair: Pair, way: str, kind: str, stream: bool
):
    protocol = CALLERS[(KINDS.index(kind) + stream) % 4]
    model, before = f"{way}.{kind}", pair.dashboard.totals()
    pair.play(good)

    reply = pair.ask(protocol, model, stream=stream)

    assert_moved_on(pair, protocol, reply, model, stream=stream, provider=f"second-{kind}")
    outcomes = ((f"{way}-{kind}/main", "failure"), (f"second-{kind}/main", "success"))
    pair.dashboard.assert_outcomes(before, *outcomes)
    assert not pair.first.exchanges


@pytest.mark.spec("D9", "ROUT-5")
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize("act", [closes_without_a_word, resets_before_status])
def test_a_kept_connection_that_has_ended_is_replaced_without_a_new_attempt(
    pair: Pair, act: Behaviour, stream: bool
):
    """Providers close idle connections at the very moment when a call goes out on one: nobody is to blame."""
    before = pair.dashboard.totals()
    pair.play(good, act, good)
    for _ in range(2):
        reply = pair.ask("responses", name("messages", "gemini"), stream=stream)
        assert text_of("responses", reply, stream=stream) == SECOND.text
        assert reply.headers["x-monoize-attempts"] == "1"
    assert pair.exchanges == (3, 0)
    answered = ("first-messages/main", "success")
    pair.dashboard.assert_outcomes(before, answered, answered)


# --- statuses ---


@pytest.mark.spec("D9", "ROUT-5", "ROUT-7")
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize("pause", [{}, {"retry_after": "20"}], ids=["", "with Retry-After"])
@pytest.mark.parametrize("code", RETRYABLE)
def test_a_status_that_may_pass_moves_the_call_on(
    pair: Pair, code: int, pause: dict[str, str], stream: bool
):
    turn = RETRYABLE.index(code) + 2 * stream + bool(pause)
    first, second, protocol = KINDS[turn % 5], KINDS[turn // 2 % 5], CALLERS[turn % 4]
    before = pair.dashboard.totals()
    pair.play(status(code, **pause))

    model = name(first, second)
    reply = pair.ask(protocol, model, stream=stream)

    assert_moved_on(pair, protocol, reply, model, stream=stream, provider=f"second-{second}")
    assert "retry-after" not in reply.headers
    outcome = "rate_limited" if code == 429 else "failure"
    outcomes = ((f"first-{first}/main", outcome), (f"second-{second}/main", "success"))
    pair.dashboard.assert_outcomes(before, *outcomes)


@pytest.mark.spec("D9", "D18", "ROUT-6")
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("code", FINAL)
def test_a_final_refusal_is_the_callers_at_once(pair: Pair, code: int, kind: str, stream: bool):
    protocol = CALLERS[(FINAL.index(code) + KINDS.index(kind) + stream) % 4]
    before = pair.dashboard.totals()
    pair.play(status(code))

    reply = pair.ask(protocol, name(kind, kind), stream=stream)

    assert reply.status == code
    assert_error_dialect(protocol, reply)
    assert f"it says {code}" in reply.raw.decode()
    assert assert_stayed(pair, protocol, reply, stream=stream) == "refused"
    pair.dashboard.assert_outcomes(before, (f"first-{kind}/main", "neutral"))


@pytest.mark.spec("D9", "ROUT-6")
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("code", FINAL)
def test_a_final_refusal_that_the_operator_lists_moves_the_call_on(
    pair: Pair, code: int, kind: str, stream: bool
):
    protocol = CALLERS[(FINAL.index(code) + KINDS.index(kind) + stream) % 4]
    model, before = f"lenient.{kind}", pair.dashboard.totals()
    pair.play(status(code))

    reply = pair.ask(protocol, model, stream=stream)

    refused = (f"lenient-{kind}/main", "neutral")
    if code in (401, 403, 404):
        assert_moved_on(pair, protocol, reply, model, stream=stream, provider=f"second-{kind}")
        pair.dashboard.assert_outcomes(before, refused, (f"second-{kind}/main", "success"))
    else:
        assert reply.status == code
        assert_stayed(pair, protocol, reply, stream=stream)
        pair.dashboard.assert_outcomes(before, refused)
