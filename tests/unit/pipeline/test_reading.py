"""A run of plain deltas in one piece: the caller gets the very bytes that event by event would have been, and as much is counted."""

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.plain_streams import STREAMS, chat, chat_delta, cut, streams, written
from fakes.two_ways import said
from monoize.clock import SequentialIds
from monoize.money.meter import Meter
from monoize.pipeline.reading import RunReader, frame_reader
from monoize.pipeline.received import opened
from monoize.pipeline.streaming import StreamBody
from monoize.protocol import Reply, protocol
from monoize.sse import SseError, SseParser
from monoize.sse_runs import Run
from monoize.urp import Losses, UrpRequest

CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "open"
RELAXED = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

# --- both ways ------------------------------------------------------------------------------------------


def reading(id, *, runs, limit=2**20):
    codec = protocol(id)
    decoder = codec.stream_decoder(SequentialIds())
    return frame_reader(SseParser(limit), decoder, replays=runs), decoder


def batches_of(id, chunks, *, runs):
    reader, decoder = reading(id, runs=runs)
    return [*map(reader.feed, chunks), [*reader.close(), decoder.finish()]]


def one_by_one(batches):
    frames = [frame for batch in batches for frame in batch]
    return [one for f in frames for one in (f.frames() if isinstance(f, Run) else [f])]


def metered(batches):
    meter = Meter()
    for batch in batches:
        for frame in batch:
            for event in frame.events:
                meter.add(event)
    return repr(meter.read(UrpRequest(model="m")))


def sent(id, batches, model):
    """All that the caller gets, what was counted of it, and how it ended."""

    async def provider():
        for batch in batches:
            yield [frame for frame in batch if frame.readable]

    async def scene():
        codec = protocol(id)
        reply = Reply(
            request=UrpRequest(model="m"),
            model=model,
            ids=SequentialIds(),
            created=1,
            losses=Losses(),
        )
        opening = asyncio.ensure_future(opened(provider(), replays=True))
        body = StreamBody(opening, codec.stream_encoder(reply), codec.stream_writer({}), 9.0)
        data = b"".join([piece async for piece in body])
        await body.aclose()
        if opening.exception() is not None:
            return data, repr(opening.exception())
        live = opening.result()
        return data, repr(live.meter.read(UrpRequest(model="m"))), repr(live.end)

    return asyncio.run(scene())


def assert_both_ways_agree(id, chunks, model="some-model"):
    """Gives how many events were read in runs."""
    long, short = (batches_of(id, chunks, runs=runs) for runs in (False, True))
    assert said(one_by_one(short)) == said(one_by_one(long))
    assert metered(short) == metered(long)
    assert sent(id, short, model) == sent(id, long, model)
    return sum(len(f.pieces) for batch in short for f in batch if isinstance(f, Run))


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("model", ["m-1", "some-model"])
@pytest.mark.parametrize("size", [None, 1, 7, 1000])
def test_nearly_all_of_a_long_text_is_read_in_runs(kind, model, size):
    """However many events a chunk holds; a chunk that begins or ends within one costs that one."""
    caller, stream, delta = STREAMS[kind]
    deltas = [delta(f" wörd{n}") for n in range(100)]
    body = written(stream(deltas))
    blocks = [block + b"\n\n" for block in body.split(b"\n\n") if block]
    chunks = [b"".join(blocks[i : i + (size or 200)]) for i in range(0, len(blocks), size or 200)]
    assert assert_both_ways_agree(caller, chunks, model) > 90
    assert assert_both_ways_agree(caller, cut(body, range(0, len(body), 2000)), model) > 60


@pytest.mark.parametrize("kind", STREAMS)
def test_a_read_of_one_event_is_one_run(kind):
    """Once three have shown what may differ: the first begins the part, the next two are compared."""
    caller, stream, delta = STREAMS[kind]
    reader, _ = reading(caller, runs=True)
    begin = stream([])[: 1 if caller == "chat_completion" else 2]
    for payload in [*begin, *map(delta, ("one", "three", "eleven"))]:
        reader.feed(written([payload]))
    [run] = reader.feed(written([delta("seventeen")]))
    assert isinstance(run, Run)
    assert run.events[0].delta.content == "seventeen"


ODD = [b"x\\", b'x","y', b"", b"\\ud83d", b"\xff", b'x","z":"y', b"x\ty", b'x","y","z', b'x",["y']


@pytest.mark.spec("T15")
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("other", [b"fine", b',"y', b'y"},{"z":"', b'y"],"z', b"y\\"])
def test_each_event_must_be_of_the_mould_on_its_own(odd, other):
    """Also where several of them, put together, would look as if they were."""
    begin = written(chat([chat_delta(words) for words in ("a", "b")])[:-1])
    head, _, tail = written([chat_delta("@")]).partition(b"@")
    run = b"".join(head + piece + tail for piece in (b"p", odd, other, b"q"))
    assert_both_ways_agree("chat_completion", [begin, run, written(chat([])[-1:])])


@pytest.mark.parametrize(
    "half", [b"event: x\n", b": a com", b"data: 1\n", b"data: [", b"\n", b"\r"]
)
def test_what_ends_an_event_that_has_begun_is_not_of_the_run(half):
    begin = written(chat([chat_delta(words) for words in ("a", "b")])[:-1])
    event = written([chat_delta("c")])
    end = written(chat([])[-1:])
    assert_both_ways_agree("chat_completion", [begin + half, event, event, end])
    assert_both_ways_agree("chat_completion", [begin, half, event + event, end])


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_lines_that_end_otherwise_are_read_one_by_one(end):
    body = written(chat([chat_delta(f"w{n}") for n in range(20)]), end=end)
    assert assert_both_ways_agree("chat_completion", [body]) == 0


def test_a_name_that_one_event_has_is_not_given_to_others():
    """The mould is the same, and was learned from the named one, which came in two pieces."""

    def event(words, name="", model="m-1"):
        return name.encode() + written([chat_delta(words, model=model)])

    named = event("b", name="event: x\n")
    begin, end = chat([])
    chunks = [
        *(written([begin]), event("z"), event("a", model="m-2"), named[:60], named[60:]),
        *(event("c"), event("d"), event("e"), written([end])),
    ]
    one_by_one, in_runs = (
        sent("chat_completion", batches_of("chat_completion", chunks, runs=runs), "m-1")
        for runs in (False, True)
    )
    assert in_runs == one_by_one
    assert one_by_one[0].count(b"event: x") == 1


def test_only_a_caller_that_gets_the_providers_own_events_gets_runs():
    for caller in ("chat_completion", "messages"):
        assert isinstance(reading(caller, runs=True)[0], RunReader)
        assert not isinstance(reading(caller, runs=False)[0], RunReader)
    assert not isinstance(reading("gemini", runs=True)[0], RunReader)


@pytest.mark.spec("T11")
def test_an_event_that_is_too_large_is_refused_in_a_run_too():
    reader, _ = reading("chat_completion", runs=True, limit=400)
    for words in ("a", "b", "c"):
        reader.feed(written([chat_delta(words)]))
    with pytest.raises(SseError):
        reader.feed(written([chat_delta("x" * 500)]))


# --- generated ------------------------------------------------------------------------------------------


@pytest.mark.spec("T12")
@pytest.mark.parametrize("kind", STREAMS)
def test_both_ways_say_the_same_whatever_comes_between_and_wherever_it_is_cut(kind):
    @RELAXED
    @given(streams(kind), st.sampled_from(["m-1", "some-model"]))
    def check(chunks, model):
        assert_both_ways_agree(STREAMS[kind][0], chunks, model)

    check()


# --- recorded -------------------------------------------------------------------------------------------


@pytest.mark.skipif(not CORPUS.exists(), reason="no recorded traffic here")
@pytest.mark.parametrize("id", ["chat_completion", "messages"])
def test_both_ways_say_the_same_of_recorded_streams(id):
    in_runs = 0
    for line in (CORPUS / "index.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        if row["tier"] != "core" or row["protocol"] != id or not row["stream"]:
            continue
        text = json.loads((CORPUS / row["path"]).read_text("utf-8")).get("sse")
        if text:
            body = text.encode("utf-8", "surrogatepass")
            for size in (len(body), 1500, 97):
                chunks = cut(body, range(0, len(body), size))
                in_runs += assert_both_ways_agree(id, chunks, row["model"] or "m")
            blocks = [block + b"\n\n" for block in body.split(b"\n\n")]
            in_runs += assert_both_ways_agree(id, blocks)
    assert in_runs > 100
