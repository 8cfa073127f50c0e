"""Providers that misbehave: one row each, with the ends that a caller may see.

refused   an HTTP error status, in the caller's dialect (D18)
error     a stream that ends with the protocol's error event (D10)
complete  nothing was wrong after all: the whole text arrived
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from dataclasses import dataclass

from fakes.speakers import SPEAKERS
from fakes.speakers.wire import dumps
from fakes.upstream import Behaviour, Exchange

# Every byte of a line is read and written several times over, so that one provider's are as long as lines get.
BIG_LINES = {
    provider: (8 if provider == "chat_completion" else 2) * 1024**2 for provider in SPEAKERS
}
TOO_BIG_LINE = 12 * 1024**2  # the gateways of these tests take 10 MiB


@dataclass(frozen=True)
class Hostile:
    name: str
    act: Behaviour
    stream: str  # the only ends allowed, joined by |
    unary: str
    rules: tuple[str, ...] = ()
    silent: bool = False  # only a time-out ends it: for the gateway whose patience is short


HOSTILE: list[Hostile] = []


def row(
    stream: str, unary: str = "refused", *rules: str, silent: bool = False
) -> Callable[[Behaviour], Behaviour]:
    def add(act: Behaviour) -> Behaviour:
        HOSTILE.append(Hostile(act.__name__, act, stream, unary, rules, silent))
        return act

    return add


def frames(exchange: Exchange, scenario: str = "text") -> list[bytes]:
    return exchange.frames(scenario)


def whole(exchange: Exchange, scenario: str = "text") -> bytes:
    return dumps(exchange.speaker.unary(exchange.turn(scenario), exchange.model)).encode()


def with_text(exchange: Exchange) -> int:
    """The number of frames up to the first that holds text."""
    return next(n for n, frame in enumerate(frames(exchange), 1) if "Grüße".encode() in frame)


async def begin(exchange: Exchange) -> None:
    """The start of an answer: events until some text is out, or half of a unary body."""
    if exchange.stream:
        await exchange.open_stream()
        await exchange.chunk(b"".join(frames(exchange)[: with_text(exchange)]))
    else:
        body = whole(exchange)
        size = str(len(body))
        await exchange.head(200, {"content-type": "application/json", "content-length": size})
        await exchange.bytes(body[: len(body) // 2])


# --- silence ---


@row("refused", "refused", "D18", "T15", silent=True)
async def hangs_before_headers(exchange: Exchange) -> None:
    await exchange.silence()


@row("refused", "refused", "D18", silent=True)
async def hangs_after_headers(exchange: Exchange) -> None:
    if exchange.stream:
        await exchange.open_stream()
    else:
        await exchange.head(200, {"content-type": "application/json", "content-length": "900"})
    await exchange.silence()


@row("error", "refused", "D10", silent=True)
async def hangs_after_first_event(exchange: Exchange) -> None:
    await begin(exchange)
    await exchange.silence()


# --- broken connections ---


@row("refused", "refused", "D18")
async def resets_before_status(exchange: Exchange) -> None:
    exchange.reset()


@row("error", "refused", "D10", "T16")
async def resets_in_the_middle(exchange: Exchange) -> None:
    await begin(exchange)
    if exchange.stream:
        await exchange.step()  # a reset may overtake what was sent: only after the caller has read
    exchange.reset()


@row("refused")
async def closes_without_a_word(exchange: Exchange) -> None:
    exchange.hang_up()


@row("error")
async def closes_in_the_middle(exchange: Exchange) -> None:
    await begin(exchange)
    exchange.hang_up()


@row("refused", silent=True)
async def breaks_the_chunked_coding(exchange: Exchange) -> None:
    await exchange.open_stream("text/event-stream" if exchange.stream else "application/json")
    await asyncio.sleep(0.05)  # apart from the headers: together they are an easier case
    await exchange.bytes(b"zz\r\nnot a chunk\r\n")


@row("refused")
async def speaks_no_http(exchange: Exchange) -> None:
    await exchange.bytes(b"220 smtp.example.org ESMTP ready\r\n\r\n")
    exchange.hang_up()


# --- streams that stop short (T15) ---


@row("error", "refused", "T15")
async def ends_without_terminal_event(exchange: Exchange) -> None:
    if not exchange.stream:
        await exchange.whole(whole(exchange)[:-20])
        return
    all_frames = frames(exchange)
    await exchange.open_stream()
    await exchange.chunk(b"".join(all_frames[: exchange.speaker.terminal(all_frames)]))
    await exchange.end_stream()


@row("error", "refused", "T15")
async def ends_inside_an_event(exchange: Exchange) -> None:
    if not exchange.stream:
        await exchange.whole(whole(exchange)[:40])
        return
    await begin(exchange)
    following = frames(exchange)[with_text(exchange)]
    await exchange.chunk(following[: len(following) // 2])
    await exchange.end_stream()


@row("refused", "refused", "T15")
async def ends_inside_the_first_event(exchange: Exchange) -> None:
    if not exchange.stream:
        await exchange.whole(b'{"id": "x')
        return
    await exchange.open_stream()
    await exchange.chunk(frames(exchange)[0][:30])
    await exchange.end_stream()


@row("error", "refused", "T15", "T24")
async def ends_inside_the_arguments_of_a_call(exchange: Exchange) -> None:
    if not exchange.stream:
        await exchange.whole(whole(exchange, "tools")[:-60])
        return
    all_frames = frames(exchange, "tools")
    await exchange.open_stream()
    # Up to the call's beginning; Google's calls come whole, so there its end is what is missing.
    await exchange.chunk(b"".join(all_frames[: max(1, exchange.speaker.terminal(all_frames) - 2)]))
    await exchange.end_stream()


@row("refused", "refused")
async def sends_nothing(exchange: Exchange) -> None:
    await exchange.whole(b"", kind="text/event-stream" if exchange.stream else "application/json")


@row("refused", "refused")
async def sends_only_comments(exchange: Exchange) -> None:
    if not exchange.stream:
        await exchange.whole(b"   \n")
        return
    await exchange.open_stream()
    await exchange.chunk(b": hello\n\n: hello again\n\n")
    await exchange.end_stream()


@row("refused", "refused", "T15")
async def sends_only_done(exchange: Exchange) -> None:
    if not exchange.stream:
        await exchange.whole(b"null")
        return
    await exchange.open_stream()
    await exchange.chunk(b"data: [DONE]\n\n")
    await exchange.end_stream()


# --- errors inside a 200 (T15) ---


@row("refused", "refused", "T15", "D18")
async def says_error_first(exchange: Exchange) -> None:
    if exchange.stream:
        await exchange.open_stream()
        await exchange.chunk(exchange.speaker.error_frame("the provider is overloaded"))
        await exchange.end_stream()
    else:
        await exchange.json(exchange.speaker.error(503, "the provider is overloaded"))


@row("error", "refused", "T15", "D10")
async def says_error_in_the_middle(exchange: Exchange) -> None:
    await begin(exchange)
    if exchange.stream:
        await exchange.chunk(exchange.speaker.error_frame("the provider is overloaded"))
        await exchange.end_stream()
    else:
        exchange.hang_up()


@row("refused", "refused", "T15")
async def says_error_as_json_to_a_stream(exchange: Exchange) -> None:
    await exchange.json(exchange.speaker.error(503, "the provider is overloaded"))


# --- nonsense ---


@row("refused")
async def sends_garbage(exchange: Exchange) -> None:
    kind = "text/event-stream" if exchange.stream else "application/json"
    await exchange.whole(bytes(range(256)) * 8, kind=kind)


@row("error|complete", "refused")
async def sends_an_unreadable_event_in_the_middle(exchange: Exchange) -> None:
    if not exchange.stream:
        await exchange.whole(b'{"choices": [{]}')
        return
    all_frames = frames(exchange)
    middle = with_text(exchange)
    await exchange.open_stream()
    await exchange.chunk(b"".join(all_frames[:middle]))
    await exchange.chunk(b'data: {"this is": not json}\n\n')
    await exchange.chunk(b"".join(all_frames[middle:]))
    await exchange.end_stream()


@row("refused")
async def sends_a_web_page(exchange: Exchange) -> None:
    await exchange.whole(b"<html><body>502 Bad Gateway</body></html>", kind="text/html")


@row("refused|error|complete", "refused")
async def calls_a_stream_json(exchange: Exchange) -> None:
    await exchange.whole(b"".join(frames(exchange)), kind="application/json")


@row("complete", "complete")
async def calls_everything_plain_text(exchange: Exchange) -> None:
    body = b"".join(frames(exchange)) if exchange.stream else whole(exchange)
    await exchange.whole(body, kind="text/plain; charset=utf-8")


@row("complete", "complete")
async def answers_a_stream_in_one_piece(exchange: Exchange) -> None:
    await exchange.whole(whole(exchange))


@row("refused", "refused")
async def answers_with_a_list(exchange: Exchange) -> None:
    if exchange.stream:
        await exchange.whole(b"data: [1, 2]\n\n", kind="text/event-stream")
    else:
        await exchange.whole(b"[1, 2]")


@row("refused|error", "refused")
async def answers_with_an_empty_object(exchange: Exchange) -> None:
    if exchange.stream:
        await exchange.whole(b"data: {}\n\n", kind="text/event-stream")
    else:
        await exchange.whole(b"{}")


@row("refused|error", "refused")
async def nests_without_end(exchange: Exchange) -> None:
    deep = b'{"a":' * 5000 + b"1" + b"}" * 5000
    if exchange.stream:
        await exchange.whole(b"data: " + deep + b"\n\n", kind="text/event-stream")
    else:
        await exchange.whole(deep)


# --- odd, but readable ---


@row("complete", "complete", "T11", "T12")
async def drips_byte_by_byte(exchange: Exchange) -> None:
    if exchange.stream:
        await exchange.open_stream()
        for byte in b"".join(frames(exchange)):
            await exchange.chunk(bytes([byte]))
        await exchange.end_stream()
        return
    body = whole(exchange)
    size = str(len(body))
    await exchange.head(200, {"content-type": "application/json", "content-length": size})
    for byte in body:
        await exchange.bytes(bytes([byte]))


@row("complete", "complete", "T11")
async def writes_carriage_returns_a_bom_and_comments(exchange: Exchange) -> None:
    if not exchange.stream:
        await exchange.whole(b"\r\n \r\n" + whole(exchange) + b"\r\n")
        return
    text = b"".join(frames(exchange)).replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    await exchange.open_stream()
    await exchange.chunk(
        b"\xef\xbb\xbf: hello\r\n\r\n" + text.replace(b"data:", b": x\r\ndata:", 1)
    )
    await exchange.end_stream()


@row("complete", "complete", "T14")
async def compresses_unasked(exchange: Exchange) -> None:
    body = b"".join(frames(exchange)) if exchange.stream else whole(exchange)
    kind = "text/event-stream" if exchange.stream else "application/json"
    await exchange.whole(gzip.compress(body), kind=kind, content_encoding="gzip")


@row("refused", "refused")
async def lies_about_compression(exchange: Exchange) -> None:
    body = b"".join(frames(exchange)) if exchange.stream else whole(exchange)
    kind = "text/event-stream" if exchange.stream else "application/json"
    await exchange.whole(body, kind=kind, content_encoding="gzip")


@row("error|complete", "refused|complete", "T12")
async def writes_invalid_utf8(exchange: Exchange) -> None:
    body = b"".join(frames(exchange)) if exchange.stream else whole(exchange)
    kind = "text/event-stream" if exchange.stream else "application/json"
    await exchange.whole(body.replace("東".encode(), b"\xe6\x9d"), kind=kind)


@row("complete", "complete", "T11")
async def writes_one_huge_line(exchange: Exchange) -> None:
    await _huge(exchange, BIG_LINES[exchange.protocol])


@row("error|refused", "refused", "T11")
async def writes_a_line_beyond_the_limit(exchange: Exchange) -> None:
    await _huge(exchange, TOO_BIG_LINE)


async def _huge(exchange: Exchange, size: int) -> None:
    long = b"x" * size
    if exchange.stream:
        body = b"".join(frames(exchange)).replace(b": all good.", long)
        await exchange.whole(body, kind="text/event-stream")
    else:
        await exchange.whole(whole(exchange).replace(b": all good.", long))


# --- redirects ---


@row("refused", "refused")
async def redirects(exchange: Exchange) -> None:
    """Somebody else's door: following would hand over the key."""
    await exchange.whole(b"", 302, location="/elsewhere/v1/chat/completions")
