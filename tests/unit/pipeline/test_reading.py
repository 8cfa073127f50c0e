"""A run of plain deltas in one piece: the caller gets the very bytes that event by event would have been, and as much is counted."""

import asyncio
import json
from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.plain_streams import STREAMS, chat, chat_delta, cut, streams, written
from fakes.two_ways import CALLERS, said
from monoize.clock import SequentialIds
from monoize.money.meter import Meter
from monoize.pipeline.reading import RunReader, frame_reader
from monoize.pipeline.received import opened
from monoize.pipeline.streaming import StreamBody
from monoize.protocol import Reply, protocol
from monoize.protocols._plain_text import PlainTextEncoder
from monoize.sse import SseError, SseParser
from monoize.sse_runs import Run
from monoize.urp import Losses, UrpRequest

CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "open"
RELAXED = settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

# --- both ways ------------------------------------------------------------------------------------------


def reading(id, *, runs, limit=2**20):
    codec = protocol(id)
    decoder = codec.stream_decoder(SequentialIds())
    return frame_reader(SseParser(limit), decoder, runs=runs), decoder


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


def sent(id, batches, model, caller=None):
    """All that the caller gets, what was counted of it, and how it ended. `caller`: one of another protocol."""

    async def provider():
        for batch in batches:
            yield [frame for frame in batch if frame.readable]

    async def scene():
        codec = protocol(caller or id)
        reply = Reply(
            request=UrpRequest(model="m"),
            model=model,
            ids=SequentialIds(),
            created=1,
            losses=Losses(),
        )
        opening = asyncio.ensure_future(opened(provider(), replays=caller is None))
        writer = codec.stream_writer({"alt": "sse"})
        body = StreamBody(opening, codec.stream_encoder(reply), writer, 9.0)
        data = b"".join([piece async for piece in body])
        await body.aclose()
        if opening.exception() is not None:
            return data, repr(opening.exception())
        live = opening.result()
        return data, repr(live.meter.read(UrpRequest(model="m"))), repr(live.end)

    return asyncio.run(scene())


def assert_both_ways_agree(id, chunks, model="some-model", callers=CALLERS):
    """Gives how many events were read in runs."""
    long, short = (batches_of(id, chunks, runs=runs) for runs in (False, True))
    assert said(one_by_one(short)) == said(one_by_one(long))
    assert metered(short) == metered(long)
    assert sent(id, short, model) == sent(id, long, model)
    for caller in callers:
        if caller != id:
            assert sent(id, short, model, caller) == sent(id, long, model, caller)
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


@pytest.mark.parametrize(("end", "in_runs"), [("\n", 18), ("\r\n", 18), ("\r", 0)])
@pytest.mark.parametrize("size", [1, 5, 100])
def test_lines_may_end_otherwise(end, in_runs, size):
    """As Google ends them; with a carriage return alone nobody does."""
    blocks = [written([one], end=end) for one in chat([chat_delta(f"w{n}") for n in range(20)])]
    chunks = [b"".join(blocks[at : at + size]) for at in range(0, len(blocks), size)]
    assert assert_both_ways_agree("chat_completion", chunks) == in_runs
    body = b"".join(blocks)
    assert_both_ways_agree("chat_completion", cut(body, range(0, len(body), 177)))


def test_ends_of_lines_may_change_on_the_way():
    blocks = [
        written([one], end="\r\n" if n % 7 < 3 else "\n")
        for n, one in enumerate(chat([chat_delta(f"w{n}") for n in range(40)]))
    ]
    assert_both_ways_agree("chat_completion", blocks)
    assert_both_ways_agree("chat_completion", [b"".join(blocks)])


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


@pytest.mark.parametrize("id", CALLERS)
def test_who_looks_at_single_events_gets_no_runs(id):
    assert isinstance(reading(id, runs=True)[0], RunReader)
    assert not isinstance(reading(id, runs=False)[0], RunReader)


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("caller", CALLERS)
def test_nearly_all_of_a_long_text_is_written_in_runs(kind, caller, monkeypatch):
    """Whoever wrote it, and whoever reads it."""
    provider, stream, delta = STREAMS[kind]
    alone = []
    frame = PlainTextEncoder.frame
    monkeypatch.setattr(
        PlainTextEncoder, "frame", lambda self, one: alone.append(one) or frame(self, one)
    )
    blocks = [written([payload]) for payload in stream([delta(f" wörd{n}") for n in range(100)])]
    chunks = [b"".join(blocks[at : at + 10]) for at in range(0, len(blocks), 10)]
    batches = batches_of(provider, chunks, runs=True)
    data, *_ = sent(provider, batches, "m-1", None if caller == provider else caller)
    assert len(alone) < 20
    assert all(f" wörd{n}".encode() in data for n in range(100))


@pytest.mark.parametrize("caller", CALLERS)
def test_half_an_emoji_is_written_as_ever(caller):
    """Only the tolerant writer takes it; in a run it would be refused together with its neighbours."""
    head, _, tail = written([chat_delta("@")]).partition(b"@")
    begin = written(chat([chat_delta(words) for words in ("a", "b", "c")])[:-1])
    run = b"".join(head + piece + tail for piece in (b"p", b"\\ud83d", b"\\ude00", b"q"))
    chunks = [begin, run, run, written(chat([])[-1:])]
    assert_both_ways_agree("chat_completion", chunks, callers=[caller])


@pytest.mark.spec("T11")
def test_an_event_that_is_too_large_is_refused_in_a_run_too():
    reader, _ = reading("chat_completion", runs=True, limit=400)
    for words in ("a", "b", "c"):
        reader.feed(written([chat_delta(words)]))
    with pytest.raises(SseError):
        reader.feed(written([chat_delta("x" * 500)]))


# --- generated ------------------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.spec("T12")
@pytest.mark.parametrize("kind", STREAMS)
def test_both_ways_say_the_same_whatever_comes_between_and_wherever_it_is_cut(kind):
    @RELAXED
    @given(streams(kind), st.sampled_from(["m-1", "some-model"]), st.sampled_from(CALLERS))
    def check(chunks, model, caller):
        assert_both_ways_agree(STREAMS[kind][0], chunks, model, [caller])

    check()


# --- recorded -------------------------------------------------------------------------------------------


@pytest.mark.skipif(not CORPUS.exists(), reason="no recorded traffic here")
@pytest.mark.parametrize("id", CALLERS)
def test_both_ways_say_the_same_of_recorded_streams(id):
    """Each of them to one of the callers, in turn."""
    in_runs, others = 0, cycle([*CALLERS, CALLERS[0]])  # not always the same for a size
    for line in (CORPUS / "index.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        if row["tier"] != "core" or row["protocol"] != id or not row["stream"]:
            continue
        text = json.loads((CORPUS / row["path"]).read_text("utf-8")).get("sse")
        if text:
            body = text.encode("utf-8", "surrogatepass")
            for size in (len(body), 1500, 97):
                chunks = cut(body, range(0, len(body), size))
                callers = [next(others)]
                in_runs += assert_both_ways_agree(id, chunks, row["model"] or "m", callers)
            end = b"\r\n\r\n" if b"\r\n\r\n" in body else b"\n\n"
            blocks = [block + end for block in body.split(end)]
            in_runs += assert_both_ways_agree(id, blocks, callers=[next(others)])
    assert in_runs > (5 if id == "gemini" else 100)  # Google sends few and large pieces
