"""A gateway where every protocol comes first and second, and what a caller must see when a call moves on or stays."""

from __future__ import annotations

from fakes.caller import Reply, end_of, endings, models_of, text_of
from fakes.gateway import configured
from fakes.pair import SECOND, UNMOVED, Pair, channel, of_the_first, provider
from fakes.speakers import SPEAKERS

KINDS = [*SPEAKERS]
GREETING = "Grüße aus 東京 🌏: all good."
# Time for nothing, and time for a beginning but not for what never follows it.
HASTE = {"request_timeout_ms": 350, "idle_timeout_ms": 350}
HEARING = {"request_timeout_ms": 60_000, "idle_timeout_ms": 1500}
NEARLY_ALWAYS = 10**9  # the weight of a channel beside one of weight 1


def name(first: str, second: str) -> str:
    return f"{first}.{second}"


NAMES = [name(first, second) for first in KINDS for second in KINDS]


def serve_every_order(pair: Pair) -> None:
    """In this order: closed and TLS-less ports, hostile providers, channels of one provider, good providers."""
    closed = f"http://127.0.0.1:{pair.closed_port()}"
    plain = f"https://127.0.0.1:{pair.first.port}"
    firsts, twins, seconds = [], [], []
    for kind in KINDS:
        mine = [model for model in NAMES if model.startswith(f"{kind}.")]
        hostile = channel("main", pair.first, kind)
        firsts += [
            provider(f"closed-{kind}", kind, [f"closed.{kind}"], channel("main", closed, kind)),
            provider(f"plain-{kind}", kind, [f"plain.{kind}"], channel("main", plain, kind)),
            provider(f"first-{kind}", kind, mine, hostile),
            provider(f"hasty-{kind}", kind, [f"hasty.{m}" for m in mine], hostile, **HASTE),
            provider(f"hearing-{kind}", kind, [f"hearing.{m}" for m in mine], hostile, **HEARING),
            provider(
                f"lenient-{kind}",
                kind,
                [f"lenient.{kind}"],
                hostile,
                fail_forward_on=[401, 403, 404],
            ),
        ]
        twins.append(
            provider(
                f"twin-{kind}",
                kind,
                [f"twin.{kind}"],
                channel("hostile", pair.first, kind, weight=NEARLY_ALWAYS),
                channel("good", pair.second, kind),
            )
        )
        answered = [model for model in NAMES if model.endswith(f".{kind}")]
        seconds.append(
            provider(
                f"second-{kind}",
                kind,
                [
                    *answered,
                    *(f"{way}.{model}" for way in ("hasty", "hearing") for model in answered),
                    *(f"{way}.{kind}" for way in ("closed", "plain", "lenient", "alone")),
                ],
                channel("main", pair.second, kind),
            )
        )
    # A connection that is not given back would soon be missed.
    limits = {"upstream_connections": 4, "event_bytes": 10 * 1024**2, "reply_bytes": 10**7}
    pair.serve(configured([*firsts, *twins, *seconds], UNMOVED, limits=limits))


def assert_moved_on(
    pair: Pair, protocol: str, reply: Reply, model: str, *, stream: bool, provider: str
) -> None:
    """Everything is the second provider's, and it is there once (T16, T17)."""
    assert reply.status == 200, reply.raw[-600:]
    told_at_once = reply.headers["x-monoize-attempts"] == "2"
    if stream and (of_the_first(reply.raw) or not told_at_once):
        assert_opened_for_the_first(protocol, reply)
    if told_at_once:
        assert reply.headers["x-monoize-provider"] == provider
    else:
        assert_told_at_the_end(protocol, reply, provider)
    assert end_of(protocol, reply, stream=stream) == "complete", reply.raw[-600:]
    assert text_of(protocol, reply, stream=stream) == SECOND.text
    assert models_of(reply, stream=stream) == {model}
    assert "x-monoize-stream" not in reply.headers
    if stream:
        assert endings(protocol, reply) == 1
    assert len(pair.second.exchanges) == 1


def assert_opened_for_the_first(protocol: str, reply: Reply) -> None:
    """It was opened when the first had begun: the id is that one's from then on, and nothing else (D10)."""
    assert protocol in ("chat_completion", "gemini")
    assert "Grüße".encode() not in reply.raw
    key = "responseId" if protocol == "gemini" else "id"
    assert len({event.json[key] for event in reply.events if event.data != "[DONE]"}) == 1


def assert_told_at_the_end(protocol: str, reply: Reply, provider: str) -> None:
    """The head named the first, so a remark tells who answered, where there may be remarks."""
    assert reply.headers["x-monoize-attempts"] == "1"
    assert reply.headers["x-monoize-provider"].partition("-")[0] != "second"
    remark = f": monoize-provider {provider}; channel=main; attempts=2\n\n".encode()
    assert reply.raw.count(remark) == (protocol != "gemini")


def assert_stayed(pair: Pair, protocol: str, reply: Reply, *, stream: bool) -> str:
    """One provider, one ending, and no text twice."""
    assert reply.headers["x-monoize-attempts"] == "1"
    assert pair.exchanges == (1, 0)
    end = end_of(protocol, reply, stream=stream)
    if stream and reply.status == 200:
        assert endings(protocol, reply) == 1, reply.raw[-600:]
    if end == "error":
        first = next(event.json for event in reply.events if event.name != "ping")
        assert not first.get("error"), "nothing had been passed on"
        assert first.get("type") != "error"
        assert GREETING.startswith(text_of(protocol, reply, stream=stream))
    elif end == "complete":
        assert text_of(protocol, reply, stream=stream).count("Grüße aus") == 1
    return end
