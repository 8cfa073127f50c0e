"""How far the waterfall goes: repeats, further channels, further providers, and what is said when nobody is left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fakes.caller import CALLERS, Reply, assert_error_dialect, end_of, text_of
from fakes.gateway import configured
from fakes.hostile import begin
from fakes.pair import SECOND, UNMOVED, Pair, channel, good, provider, status
from fakes.speakers import SPEAKERS
from fakes.upstream import Exchange

KINDS = [*SPEAKERS]
BOTH = [(kind, KINDS[(n + 2) % 5], CALLERS[n % 4]) for n, kind in enumerate(KINDS)]


@pytest.fixture(scope="module")
def module_pair() -> Iterator[Pair]:
    with Pair() as pair:
        closed = f"http://127.0.0.1:{pair.closed_port()}"
        plain = f"https://127.0.0.1:{pair.first.port}"
        several = [channel(name, pair.first, "messages") for name in ("one", "two", "three")]
        providers = [
            *(
                provider(f"few{n}", "messages", [f"few{n}"], *several, max_retries=n)
                for n in (-1, 0, 1, 7)
            ),
            *(provider(f"alpha-{k}", k, [k], channel("main", pair.first, k)) for k in KINDS),
            *(
                provider(
                    f"again-{k}",
                    k,
                    [f"again.{k}"],
                    channel("main", pair.first, k),
                    channel_retries=2,
                )
                for k in KINDS
            ),
            provider("closed", "messages", ["away"], channel("main", closed, "messages")),
            provider("plain", "messages", ["away"], channel("main", plain, "messages")),
        ]
        for kind, other, _ in BOTH:
            models = [
                kind,
                f"again.{kind}",
                *(["few-1", "few0", "few1", "few7"] * (kind == "grok")),
            ]
            providers.append(
                provider(f"beta-{kind}", other, models, channel("main", pair.second, other))
            )
        pair.serve(configured(providers, UNMOVED))
        yield pair


@pytest.fixture
def pair(module_pair: Pair) -> Iterator[Pair]:
    yield module_pair
    module_pair.assert_nothing_is_left()


def message_of(protocol: str, reply: Reply) -> str:
    assert reply.status == 502, reply.raw
    return assert_error_dialect(protocol, reply)["message"]


# --- nobody is left ---


@pytest.mark.spec("ROUT-8", "D18")
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize(("kind", "other", "protocol"), BOTH)
def test_the_caller_is_told_what_was_tried(
    pair: Pair, kind: str, other: str, protocol: str, stream: bool
):
    pair.play(status(500), second=status(429))

    reply = pair.ask(protocol, kind, stream=stream)

    said = message_of(protocol, reply)
    assert f"alpha-{kind}/main: it says 500" in said
    assert f"beta-{kind}/main: it says 429" in said
    assert said.index("alpha") < said.index("beta")
    assert reply.headers["x-monoize-attempts"] == "2"
    assert "retry-after" not in reply.headers  # one of them did not ask for a pause
    assert "127.0.0.1" not in reply.raw.decode()


@pytest.mark.spec("ROUT-8", "D9")
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize(("kind", "other", "protocol"), BOTH)
@pytest.mark.parametrize(
    ("alpha", "beta", "expected"),
    [
        ({"retry_after": "30"}, {"retry_after": "7"}, "7"),
        ({"retry_after_ms": "1200"}, {"retry_after": "40"}, "2"),
        ({"retry_after": "30"}, {}, None),
        ({}, {"retry_after": "7"}, None),
    ],
)
def test_a_pause_is_passed_on_when_every_provider_asked_for_one(
    pair: Pair, kind: str, other: str, protocol: str, stream: bool, alpha, beta, expected
):
    pair.play(status(429, **alpha), second=status(503, **beta))

    reply = pair.ask(protocol, kind, stream=stream)

    message_of(protocol, reply)
    assert reply.headers.get("retry-after") == expected
    assert pair.exchanges == (1, 1)


@pytest.mark.spec("ROUT-8", "D18")
@pytest.mark.parametrize("protocol", CALLERS)
def test_nobody_there_says_why_without_an_address(pair: Pair, protocol: str):
    pair.play(good)

    said = message_of(protocol, pair.ask(protocol, "away", stream=protocol == "gemini"))

    assert "closed/main: the provider could not be reached: Connection refused" in said
    assert "plain/main: the provider could not be reached: TLS: wrong version number" in said
    assert str(pair.first.port) not in said


@pytest.mark.spec("D9", "ROUT-6")
@pytest.mark.parametrize(("kind", "other", "protocol"), BOTH)
def test_a_refusal_by_the_last_provider_is_the_callers_own(
    pair: Pair, kind: str, other: str, protocol: str
):
    """Its status is final, whoever failed before it."""
    pair.play(status(503), second=status(422))

    reply = pair.ask(protocol, kind, stream=True)

    assert reply.status == 422
    assert_error_dialect(protocol, reply)
    assert "it says 422" in reply.raw.decode()
    assert reply.headers["x-monoize-attempts"] == "2"
    assert reply.headers["x-monoize-provider"] == f"beta-{kind}"


# --- repeats on one channel ---


async def breaks_off(exchange: Exchange) -> None:
    await begin(exchange)
    exchange.hang_up()


@pytest.mark.spec("D9")
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_channel_that_stumbles_once_is_asked_again(pair: Pair, kind: str, stream: bool):
    protocol = CALLERS[(KINDS.index(kind) + stream) % 4]
    before = pair.dashboard.totals()
    pair.play(status(503) if stream else breaks_off, good)

    reply = pair.ask(protocol, f"again.{kind}", stream=stream)

    assert end_of(protocol, reply, stream=stream) == "complete"
    assert text_of(protocol, reply, stream=stream) == SECOND.text
    assert reply.headers["x-monoize-attempts"] == "2"
    assert reply.headers["x-monoize-provider"] == f"again-{kind}"
    assert pair.exchanges == (2, 0)
    assert pair.first.exchanges[0].raw == pair.first.exchanges[1].raw
    outcomes = [(f"again-{kind}/main", outcome) for outcome in ("failure", "success")]
    pair.dashboard.assert_outcomes(before, *outcomes)


@pytest.mark.spec("D9", "ROUT-7")
def test_repeats_end_and_the_next_provider_has_its_turn(pair: Pair):
    pair.play(status(503))
    reply = pair.ask("messages", "again.messages", stream=True)
    assert text_of("messages", reply, stream=True) == SECOND.text
    assert reply.headers["x-monoize-attempts"] == "4"
    assert pair.exchanges == (3, 1)


@pytest.mark.spec("D9")
@pytest.mark.parametrize("code", [429, 400])
def test_who_is_limited_or_refuses_is_not_asked_again(pair: Pair, code: int):
    pair.play(status(code), good)
    pair.ask("chat_completion", "again.messages", stream=False)
    assert len(pair.first.exchanges) == 1


# --- further channels ---


@pytest.mark.spec("ROUT-4", "ROUT-7")
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize(("max_retries", "tries"), [(0, 1), (1, 2), (7, 3), (-1, 3)])
def test_a_provider_gets_as_many_channels_as_it_may(
    pair: Pair, max_retries: int, tries: int, stream: bool
):
    before = pair.dashboard.totals()
    pair.play(status(503))

    reply = pair.ask("responses", f"few{max_retries}", stream=stream)

    assert text_of("responses", reply, stream=stream) == SECOND.text
    assert reply.headers["x-monoize-attempts"] == str(tries + 1)
    assert pair.exchanges == (tries, 1)
    keys = [exchange.headers["x-api-key"] for exchange in pair.first.exchanges]
    assert len(set(keys)) == tries  # each channel once
    failed = [(f"few{max_retries}/{key.removeprefix('sk-channel-')}", "failure") for key in keys]
    pair.dashboard.assert_outcomes(before, *failed, ("beta-grok/main", "success"))
