"""Words that go from one connection to the other in one step: the caller gets the same bytes, in the same order, and as much is counted."""

import asyncio
from contextlib import aclosing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.plain_streams import STREAMS, chat, chat_delta, streams, written
from monoize.clock import SequentialIds
from monoize.discretion import Discretion
from monoize.pipeline.admission import Ticket
from monoize.pipeline.exchange import _DiscreetPassable
from monoize.pipeline.passage import Passage
from monoize.pipeline.reading import RunReader
from monoize.pipeline.received import opened
from monoize.pipeline.streaming import StreamBody
from monoize.protocol import Reply, protocol
from monoize.sse import SseParser
from monoize.transform import ResponseChain
from monoize.upstream.client import Passable
from monoize.urp import Losses, UrpRequest

SECRET = "sk-0123456789abcdef"


class Connection(Passable):
    """Offers each chunk but the last to a taker first, as a client does while somebody waits."""

    def __init__(self, chunks):
        self._left = list(chunks)
        self._taker = None
        self.passed = []
        self.seen = []

    def pass_to(self, taker):
        self._taker = taker

    async def __anext__(self):
        await asyncio.sleep(0)
        while self._left:
            chunk = self._left.pop(0)
            if self._taker is None or not self._left or not self._taker(chunk):
                self.seen.append(chunk)
                return chunk
            self.passed.append(chunk)
        raise StopAsyncIteration


class Outlet:
    def __init__(self, free=lambda: True):
        self.written = []
        self.is_free = free
        self.push = self.written.append


class Capturing(Ticket):
    captures = True
    kept = b""

    async def settle(self, ending):
        del ending

    def keep(self, reply):
        self.kept += reply


class Scene:
    """One stream on its way to one caller."""

    def __init__(self, id, chunks, model="some-model", *, secrets=(), ticket=None, chain=None):
        self.connection = Connection(chunks)
        self.outlet = Outlet()
        self._id, self._model, self._ticket, self._chain = id, model, ticket, chain
        self._secrets = secrets

    def played(self, *, passes=True):
        asyncio.run(self._play(passes=passes))
        return b"".join(self.outlet.written), self.counted

    async def _play(self, *, passes):
        codec = protocol(self._id)
        reply = Reply(
            request=UrpRequest(model="m"),
            model=self._model,
            ids=SequentialIds(),
            created=1,
            losses=Losses(),
        )
        opening = asyncio.ensure_future(self._opened(codec))
        body = StreamBody(
            opening,
            codec.stream_encoder(reply),
            codec.stream_writer({}),
            9.0,
            ticket=self._ticket,
        )
        if passes:
            body.pass_to(self.outlet)
        async for piece in body:
            self.outlet.written.append(piece)
        await body.aclose()
        if opening.exception() is not None:
            self.counted = repr(opening.exception())
        else:
            live = opening.result()
            self.counted = repr(live.meter.read(UrpRequest(model="m"))), repr(live.end)

    async def _opened(self, codec):
        decoder = codec.stream_decoder(SequentialIds())
        reader = RunReader(SseParser(2**20), decoder, decoder)
        chunks = _DiscreetPassable(self.connection, Discretion(self._secrets))

        async def batches():
            async for chunk in chunks:
                yield [frame for frame in reader.feed(chunk) if frame.readable]
            yield [*(frame for frame in reader.close() if frame.readable), decoder.finish()]

        live = await opened(batches(), replays=True)
        live.passage = Passage(chunks, reader)
        return live if self._chain is None else live.through(self._chain)


def one_by_one(payloads):
    return [written([payload]) for payload in payloads]


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("model", ["m-1", "some-model"])
@pytest.mark.parametrize("size", [1, 7])
def test_nearly_all_words_pass_and_the_caller_cannot_tell(kind, model, size):
    caller, stream, delta = STREAMS[kind]
    blocks = one_by_one(stream([delta(f" wörd{n}") for n in range(100)]))
    chunks = [b"".join(blocks[at : at + size]) for at in range(0, len(blocks), size)]
    short, long = Scene(caller, chunks, model), Scene(caller, chunks, model)
    assert short.played() == long.played(passes=False)
    assert len(b"".join(short.connection.passed)) > 0.8 * len(b"".join(chunks))
    assert long.connection.passed == []


@pytest.mark.spec("T12")
@pytest.mark.parametrize("kind", STREAMS)
def test_the_same_comes_out_whatever_comes_in_and_wherever_it_is_cut(kind):
    @settings(
        max_examples=60,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(streams(kind), st.sampled_from(["m-1", "some-model"]))
    def check(chunks, model):
        caller = STREAMS[kind][0]
        short, long = Scene(caller, chunks, model), Scene(caller, chunks, model)
        assert short.played() == long.played(passes=False)

    check()


def test_an_event_that_only_ends_like_the_others_does_not_pass():
    begun = one_by_one(chat([chat_delta(f"w{n}") for n in range(5)])[:-1])
    mixed = b"".join(
        one_by_one([chat_delta("a"), chat_delta("b"), {**chat_delta("c"), "id": "c-2"}])
    )
    chunks = [*begun, mixed, *one_by_one(chat([])[-1:])]
    short, long = Scene("chat_completion", chunks), Scene("chat_completion", chunks)
    assert short.played() == long.played(passes=False)
    assert mixed in short.connection.seen


def test_a_caller_who_does_not_read_is_not_pushed():
    """What comes meanwhile waits for the caller with the rest."""
    chunks = one_by_one(chat([chat_delta(f"w{n}") for n in range(40)]))
    turns = iter([*[True] * 10, *[False] * 10, *[True] * 100])
    scene = Scene("chat_completion", chunks)
    scene.outlet.is_free = lambda: next(turns)
    assert scene.played() == Scene("chat_completion", chunks).played(passes=False)
    assert 10 < len(scene.connection.passed) < 30


@pytest.mark.spec("D18")
@pytest.mark.parametrize("size", [5, 30, 400])
def test_no_secret_passes_however_it_is_cut(size):
    words = [f"w{n} {SECRET if n % 7 == 3 else ''}" for n in range(40)]
    body = b"".join(one_by_one(chat([chat_delta(word) for word in words])))
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    for some in (chunks, one_by_one(chat([chat_delta(word) for word in words]))):
        short, long = (Scene("chat_completion", some, secrets=[SECRET]) for _ in range(2))
        assert short.played() == long.played(passes=False)
        said = b"".join(short.outlet.written)
        assert SECRET.encode() not in said
        assert said.count(b"***") == 6


def test_what_is_kept_for_a_key_is_kept_whole():
    chunks = one_by_one(chat([chat_delta(f"w{n}") for n in range(20)]))
    ticket = Capturing()
    scene = Scene("chat_completion", chunks, ticket=ticket)
    data, _ = scene.played()
    assert scene.connection.passed == []
    assert ticket.kept == data


def test_rules_see_every_event():
    seen = []

    class Sees(ResponseChain):
        def __init__(self):
            pass

        def __bool__(self):
            return True

        def frame(self, frame):
            seen.append(frame)
            return frame

    chunks = one_by_one(chat([chat_delta(f"w{n}") for n in range(20)]))
    scene = Scene("chat_completion", chunks, chain=Sees())
    scene.played()
    assert scene.connection.passed == []
    assert len(seen) > 15


@pytest.mark.spec("T13")
def test_words_that_passed_put_a_keep_alive_off():
    """The provider beats every second and says something now and then: only a real silence is broken by us."""

    class Clocked(asyncio.SelectorEventLoop):
        now = 0.0

        def time(self):
            return self.now

    loop = Clocked()
    events = one_by_one(chat([chat_delta(f"w{n}") for n in range(20)]))
    beats = [part for event in events for part in (event, *[b""] * 3)]

    class Beating(Connection):
        async def __anext__(self):
            loop.now += 1
            return await super().__anext__()

    scene = Scene("chat_completion", beats)
    scene.connection = Beating(beats)

    async def play():
        reply = Reply(
            request=UrpRequest(model="m"),
            model="m-1",
            ids=SequentialIds(),
            created=1,
            losses=Losses(),
        )
        codec = protocol("chat_completion")
        opening = asyncio.ensure_future(scene._opened(codec))
        body = StreamBody(opening, codec.stream_encoder(reply), codec.stream_writer({}), 4.5)
        body.pass_to(scene.outlet)
        async with aclosing(body):
            return [piece async for piece in body]

    try:
        pulled = loop.run_until_complete(play())
    finally:
        loop.close()
    assert scene.connection.passed
    assert not [piece for piece in pulled if piece.startswith(b":")]
