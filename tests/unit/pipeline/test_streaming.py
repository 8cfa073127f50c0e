"""Streams that are given up at every stage: nothing stays open, nothing is left unsaid in the log."""

import asyncio
import gc

import pytest

from monoize.clock import SequentialIds
from monoize.errors import UpstreamFailed, UpstreamRefused, UpstreamUnreadable
from monoize.pipeline.received import opened
from monoize.pipeline.streaming import StreamBody, abandon
from monoize.protocol import Reply, protocol
from monoize.urp import (
    ChoiceEnd,
    Delta,
    Error,
    Finish,
    FinishReason,
    Frame,
    Losses,
    PartDone,
    PartStart,
    ProviderEvent,
    ResponseDone,
    ResponseStart,
    Text,
    TextDelta,
    UrpRequest,
)

START = Frame((ResponseStart(id="r", model="m"), PartStart(part_index=0, part=Text(content=""))))
DONE = Frame(
    (
        PartDone(part_index=0),
        ResponseDone(choices=(ChoiceEnd(finish=Finish(reason=FinishReason.STOP)),)),
    )
)


def word(text):
    return Frame((Delta(part_index=0, delta=TextDelta(content=text)),))


async def happened(event):
    try:
        return await asyncio.wait_for(event.wait(), 0.0005)
    except TimeoutError:
        return False


class Provider:
    """A scripted stream that remembers whether it was closed."""

    def __init__(self, *script):
        self.script = script
        self.closed = False

    async def batches(self):
        try:
            for step in self.script:
                if isinstance(step, BaseException):
                    raise step
                if isinstance(step, asyncio.Event):
                    while not await happened(step):
                        yield []  # a beat of silence
                else:
                    yield [step]
        finally:
            self.closed = True


def body(opening, caller="chat_completion", silence=5.0, begun=None):
    codec = protocol(caller)
    reply = Reply(
        request=UrpRequest(model="m"), model="m", ids=SequentialIds(), created=1, losses=Losses()
    )
    encoder, writer = codec.stream_encoder(reply), codec.stream_writer({})
    return StreamBody(opening, encoder, writer, silence, begun=begun)


async def opening_of(provider):
    return await opened(provider.batches())


async def read(stream):
    return b"".join([chunk async for chunk in stream])


@pytest.fixture
def complaints():
    """What the loop would have logged about tasks that nobody looked after."""
    found = []
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _, context: found.append(context["message"]))
    yield loop, found
    gc.collect()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    assert found == []


def run(complaints, coroutine):
    loop, _ = complaints
    return loop.run_until_complete(coroutine)


def test_a_whole_stream_is_written_and_closed(complaints):
    async def scene():
        provider = Provider(START, word("hi"), DONE)
        stream = body(asyncio.ensure_future(opening_of(provider)))
        text = await read(stream)
        await stream.aclose()
        return provider, text

    provider, text = run(complaints, scene())
    assert b"hi" in text
    assert text.endswith(b"data: [DONE]\n\n")
    assert provider.closed


@pytest.mark.spec("T18")
def test_a_stream_that_nobody_reads_is_closed(complaints):
    async def scene():
        provider = Provider(START, word("hi"), DONE)
        opening = asyncio.ensure_future(opening_of(provider))
        await asyncio.wait({opening})
        await body(opening).aclose()
        return provider

    assert run(complaints, scene()).closed


@pytest.mark.spec("T18")
@pytest.mark.parametrize("chunks", range(1, 6))
def test_a_caller_that_leaves_after_some_chunks_closes_the_provider(complaints, chunks):
    async def scene():
        provider = Provider(START, word("a"), word("b"), DONE)
        stream = body(asyncio.ensure_future(opening_of(provider)))
        reader = aiter(stream)
        for _ in range(chunks):
            await anext(reader)
        await asyncio.sleep(0)
        await stream.aclose()
        return provider

    assert run(complaints, scene()).closed


@pytest.mark.spec("T18", "T13")
def test_a_caller_that_leaves_at_a_keep_alive_closes_the_provider_at_once(complaints):
    async def scene():
        provider = Provider(START, asyncio.Event())
        stream = body(asyncio.ensure_future(opening_of(provider)), silence=0.001)
        reader = aiter(stream)
        while await anext(reader) != b": keep-alive\n\n":
            pass
        await anext(reader)  # the provider is being waited for
        await stream.aclose()
        return provider.closed

    assert run(complaints, scene())


@pytest.mark.spec("T18")
def test_a_stream_given_up_while_it_opens_is_closed(complaints):
    async def scene():
        provider = Provider(asyncio.Event(), START)
        opening = asyncio.ensure_future(opening_of(provider))
        await asyncio.sleep(0)
        await abandon(opening)
        failed = asyncio.ensure_future(opening_of(Provider(UpstreamFailed("away"))))
        await asyncio.sleep(0)
        await abandon(failed)
        return provider

    assert run(complaints, scene()).closed


@pytest.mark.spec("T13", "D10")
@pytest.mark.parametrize(
    ("caller", "beat"),
    [("chat_completion", b": keep-alive\n\n"), ("messages", b"event: ping\n"), ("gemini", b"\n")],
)
def test_silence_is_filled_before_and_between_events(complaints, caller, beat):
    async def scene():
        first, later = asyncio.Event(), asyncio.Event()
        provider = Provider(first, START, later, word("hi"), DONE)
        stream = body(asyncio.ensure_future(opening_of(provider)), caller, silence=0.001)
        reader = aiter(stream)
        await anext(reader)
        before = await anext(reader)
        first.set()
        between = b"".join([await anext(reader) for _ in range(4)])
        later.set()
        rest = await read(reader)
        await stream.aclose()
        return before, between, rest

    before, between, rest = run(complaints, scene())
    assert beat in before
    assert beat in between
    assert b"hi" in rest


@pytest.mark.spec("T13", "D10")
@pytest.mark.parametrize(
    ("caller", "opening"),
    [
        ("chat_completion", b'"delta":{"role":"assistant"}'),
        ("gemini", b'"parts":[{"text":""}]},"index":0}'),
    ],
)
def test_a_beginning_is_told_once_and_silence_is_filled_around_it(complaints, caller, opening):
    async def scene():
        begun, first = asyncio.get_running_loop().create_future(), asyncio.Event()
        provider = Provider(first, START, word("hi"), DONE)
        task = asyncio.ensure_future(opening_of(provider))
        stream = body(task, caller, silence=0.001, begun=begun)
        reader = aiter(stream)
        await anext(reader)
        before = await anext(reader)
        begun.set_result(ResponseStart(id="r", model="m"))
        told = await anext(reader)
        after = await anext(reader)
        first.set()
        rest = await read(reader)
        await stream.aclose()
        return before, told, after, rest

    before, told, after, rest = run(complaints, scene())
    assert before == after
    assert opening in told
    assert opening not in rest
    assert b"hi" in rest


@pytest.mark.spec("D10")
def test_a_beginning_is_the_same_where_there_is_a_word_already(complaints):
    """What a stream says does not depend on the time."""

    async def scene():
        begun = asyncio.get_running_loop().create_future()
        begun.set_result(ResponseStart(id="r", model="m"))
        task = asyncio.ensure_future(opening_of(Provider(START, word("hi"), DONE)))
        await asyncio.wait({task})
        stream = body(task, begun=begun)
        text = await read(stream)
        await stream.aclose()
        return text

    text = run(complaints, scene())
    assert text.count(b'"role"') == 1
    assert text.index(b'"delta":{"role":"assistant"}') < text.index(b'"delta":{"content":"hi"}')


@pytest.mark.spec("D10", "T16")
def test_a_failure_after_the_first_event_is_an_event(complaints):
    async def scene():
        stream = body(
            asyncio.ensure_future(
                opening_of(Provider(START, word("hi"), UpstreamFailed("it broke off")))
            )
        )
        text = await read(stream)
        await stream.aclose()
        return text

    text = run(complaints, scene())
    assert text.count(b"it broke off") == 1
    assert text.count(b"[DONE]") == 1


def test_a_failure_after_the_last_event_is_nobodys_concern(complaints):
    async def scene():
        stream = body(
            asyncio.ensure_future(opening_of(Provider(START, DONE, UpstreamFailed("late"))))
        )
        text = await read(stream)
        await stream.aclose()
        return text

    assert b"late" not in run(complaints, scene())


def test_a_fault_of_our_own_ends_the_stream_with_an_error(complaints, caplog):
    async def scene():
        stream = body(asyncio.ensure_future(opening_of(Provider(START, RuntimeError("bug")))))
        text = await read(stream)
        await stream.aclose()
        return text

    assert b"internal error" in run(complaints, scene())
    assert "a stream failed" in caplog.text


@pytest.mark.spec("D18", "T15", "T16")
@pytest.mark.parametrize(
    ("script", "error"),
    [
        ((Frame((Error(message="overloaded", status=529),)),), UpstreamFailed),
        ((Frame((Error(message="bad", status=400),)),), UpstreamRefused),
        (
            (
                Frame((ProviderEvent(origin_protocol="m", event_type="ping", body={}),)),
                Frame((Error(message="x"),)),
            ),
            UpstreamFailed,
        ),
        ((Frame((ResponseDone(),)),), UpstreamUnreadable),
        ((), UpstreamUnreadable),
        ((UpstreamFailed("away"),), UpstreamFailed),
    ],
)
def test_an_error_instead_of_a_first_event_is_raised(complaints, script, error):
    async def scene():
        provider = Provider(*script)
        with pytest.raises(error):
            await opening_of(provider)
        return provider

    assert run(complaints, scene()).closed
