"""The way of an operation through the gateway, in one process: who is asked, what it is sent, and what is settled."""

import asyncio
import base64
import json

import pytest

from fakes.bench import Said, provider, status
from fakes.operation_engines import Embedder, Speaker, Transcriber
from fakes.operations_bench import OperationsBench, embedded, reply, streams
from fakes.operations_upstream import parts_of
from fakes.scenarios import SCENARIOS
from monoize.audio import wav
from monoize.engine import Sound
from monoize.errors import UpstreamFailed, UpstreamTimeout
from monoize.money.meter import Metered
from monoize.pipeline.admission import Admission, Ticket
from monoize.server import operations

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(40)
PICTURE = {"created": 1, "data": [{"b64_json": base64.b64encode(PNG).decode()}]}
USAGE = {"input_tokens": 11, "output_tokens": 500, "total_tokens": 511}
SPOKEN = (
    b'data: {"type":"speech.audio.delta","audio":"AAAA"}\n\n',
    b'data: {"type":"speech.audio.done","usage":' + json.dumps(USAGE).encode() + b"}\n\n",
)


class Books(Admission):
    """Lets everybody in and remembers how each call ended."""

    def __init__(self):
        self.endings = []
        self.turned_away = []

    async def admit(self, call, trace):
        return _Ticket(self, call)

    def refused(self, incoming, error):
        self.turned_away.append((incoming, error))

    @property
    def last(self) -> Metered:
        (ending,) = self.endings
        assert ending.status == "success"
        return ending.metered


class _Ticket(Ticket):
    def __init__(self, books, call):
        self._books = books
        self._call = call
        self._done = False

    async def settle(self, ending):
        if not self._done:
            self._done = True
            self._books.endings.append(ending)


def bench(*rows, engines=(), **scripts):
    made = OperationsBench({"providers": list(rows) or [provider("p")]}, scripts, *engines)
    made.books = Books()
    made.use(admission=made.books)
    return made


def payload_of(answer):
    assert answer.status == 200, answer.raw
    return answer.json["result"]["payload"]


# --- once, and in the right order ----------------------------------------------------------------


@pytest.mark.spec("S4-2.2", "D26")
async def test_both_doors_ask_the_same_provider_for_the_same_thing():
    of = bench(p=embedded)
    enveloped = await of.operate("embeddings", {"model": "m", "input": ["a", "b"]})
    plain = await of.http("POST", "/v1/embeddings", {"model": "m", "input": ["a", "b"]})
    assert payload_of(enveloped) == {"embeddings": [[1.0], [1.0]]}
    assert [item["embedding"] for item in plain.json["data"]] == [[1.0], [1.0]]
    first, second = of.sent
    assert (first.call.url, first.body) == (second.call.url, second.body)
    assert first.call.headers["authorization"] == "Bearer sk-p"
    assert [ending.status for ending in of.books.endings] == ["success", "success"]


@pytest.mark.spec("S4-2.1")
async def test_a_redirect_names_the_model_for_the_provider_and_nowhere_else():
    of = bench(provider("p", models={"m": {"redirect": "theirs"}}), p=embedded)
    answer = await of.http("POST", "/v1/embeddings", {"model": "m", "input": "a"})
    assert of.sent[0].body["model"] == "theirs"
    assert answer.json["model"] == "m"


@pytest.mark.spec("D28")
async def test_a_batch_is_taken_apart_where_that_is_allowed():
    """The backend takes one text at a time, so as many calls are made as there are texts."""
    one = {"operations": ["embeddings"], "features": []}
    of = bench(provider("p", capabilities=one), p=embedded)
    texts = {"model": "m", "input": ["a", "b", "c"]}
    refused = await of.operate("embeddings", texts)
    assert refused.json["result"]["error"]["code"] == "MissingCapabilities"
    done = await of.operate("embeddings", texts, policy={"degradation": "allow"})
    assert payload_of(done) == {"embeddings": [[1.0], [1.0], [1.0]]}
    assert [sent.body["input"] for sent in of.sent] == ["a", "b", "c"]
    (told,) = done.json["downgraded"]
    assert "3 calls" in told
    assert of.books.last.usage.input_tokens == 21


@pytest.mark.spec("D28", "S4-4")
async def test_what_a_dialect_has_no_place_for_is_reported():
    google = reply({"embedding": {"values": [1.0]}})
    of = bench(provider("p", "gemini"), p=google)
    answer = await of.operate("embeddings", {"model": "m", "input": "a", "user": "ann"})
    assert payload_of(answer) == {"embeddings": [[1.0]]}
    assert "user" not in json.dumps(of.sent[0].body)
    assert "user" in answer.headers["x-monoize-translation"]


@pytest.mark.spec("D28", "S4-4")
async def test_what_an_engine_has_no_use_for_is_reported():
    here = {"id": "here", "type": "local", "engine": "embedder", "models": {"m": {}}}
    of = bench(here, engines=[Embedder()])
    answer = await of.operate("embeddings", {"model": "m", "input": "a", "user": "ann"})
    assert payload_of(answer) == {"embeddings": [[1.0, 0.5, -1.0]]}
    assert "user" in answer.headers["x-monoize-translation"]


@pytest.mark.spec("D28")
@pytest.mark.parametrize("door", ["plain", "envelope"])
async def test_a_strict_caller_loses_nothing(door):
    """Whoever would lose something is passed over; where all would, nothing is sent."""
    google, strict = provider("p", "gemini"), {"x-monoize-strict": "true"}
    here = {"id": "here", "type": "local", "engine": "embedder", "models": {"m": {}}}
    asked = {"model": "m", "input": "a", "user": "ann"}

    async def ask(of):
        if door == "plain":
            return await of.http("POST", "/v1/embeddings", asked, headers=strict)
        return await of.operate("embeddings", asked, headers=strict)

    for of in (bench(google), bench(here, engines=[Embedder()])):
        answer = await ask(of)
        assert answer.status == 400, answer.raw
        assert b"user" in answer.raw
        assert of.sent == []
        (ending,) = of.books.endings
        assert ending.status == "error"
    of = bench(google, provider("q"), q=embedded)
    answer = await ask(of)
    assert (answer.status, answer.headers["x-monoize-translation"]) == (200, "lossless")
    assert [sent.host for sent in of.sent] == ["q"]


# --- media ---------------------------------------------------------------------------------------


@pytest.mark.spec("S4-3.5")
async def test_a_stored_recording_is_sent_as_a_file_of_a_form():
    of = bench(p=reply({"text": "hi"}))
    audio = of.lay(WAV, "audio/wav")
    answer = await of.operate("speech_to_text", {"model": "m", "audio": audio, "language": "zh"})
    assert payload_of(answer) == {"text": "hi"}
    (sent,) = of.sent
    boundary = sent.call.headers["content-type"].partition("boundary=")[2]
    parts = parts_of(sent.call.body, boundary.encode())
    assert [(part.name, part.data) for part in parts if part.filename is None] == [
        ("model", b"m"),
        ("language", b"zh"),
        ("response_format", b"json"),
    ]
    (file,) = [part for part in parts if part.filename is not None]
    assert (file.name, file.data, file.mime) == ("file", WAV, "audio/wav")


@pytest.mark.spec("S4-3.5", "S4-3.3")
async def test_a_file_is_read_once_for_each_provider_that_is_asked():
    of = bench(provider("p"), provider("q"), p=status(500), q=reply({"text": "hi"}))
    audio = of.lay(WAV, "audio/wav")
    answer = await of.operate("speech_to_text", {"model": "m", "audio": audio})
    assert payload_of(answer) == {"text": "hi"}
    for sent in of.sent:
        assert WAV in sent.call.body
    assert answer.json["backend"]["attempts"] == 2


@pytest.mark.spec("S4-3.5")
async def test_a_provider_that_wants_base64_gets_base64():
    drawn = {"content": {"parts": [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0K"}}]}}
    of = bench(provider("p", "gemini"), p=reply({"candidates": [drawn]}))
    answer = await of.operate(
        "image_generation", {"model": "m", "prompt": "x", "image": of.lay(PNG, "image/png")}
    )
    (image,) = payload_of(answer)["images"]
    assert image["kind"] == "sms_file"
    parts = of.sent[0].body["contents"][0]["parts"]
    assert base64.b64decode(parts[1]["inlineData"]["data"]) == PNG


@pytest.mark.spec("D29", "S4-3.3")
async def test_large_base64_of_an_envelope_is_stored_and_small_base64_is_not():
    of = bench(p=reply({"text": "hi"}))
    for data, files in ((WAV, 0), (WAV + bytes(300_000), 1)):
        inline = {
            "kind": "inline_base64",
            "mime": "audio/wav",
            "data": base64.b64encode(data).decode(),
        }
        answer = await of.operate("speech_to_text", {"model": "m", "audio": inline})
        assert payload_of(answer) == {"text": "hi"}
        assert len(of.shelf.files) == files
        assert data in of.sent[-1].call.body


@pytest.mark.spec("S4-3.2")
async def test_media_of_an_answer_are_stored_for_whoever_asked():
    of = bench(p=reply(PICTURE))
    answer = await of.operate("image_generation", {"model": "m", "prompt": "x"})
    (image,) = payload_of(answer)["images"]
    (stored,) = of.shelf.files.values()
    assert image == {"kind": "sms_file", "uri": f"smsfile://{stored.id}", "mime": "image/png"}
    assert (stored.owner, stored.data) == ("nobody", PNG)


# --- sound ---------------------------------------------------------------------------------------


@pytest.mark.spec("S4-3.2")
async def test_sound_is_stored_whole_and_its_letters_are_counted():
    of = bench(p=streams(b"one", b"two"))
    answer = await of.operate("text_to_speech", {"model": "m", "input": "Hello"})
    assert payload_of(answer)["audio"]["mime"] == "audio/mpeg"
    assert [one.data for one in of.shelf.files.values()] == [b"onetwo"]
    assert answer.json["usage"]["characters"] == 5
    assert of.books.last.units.characters == 5
    assert of.sent[0].reply.closed


@pytest.mark.spec("D10")
async def test_sound_that_breaks_off_before_its_first_byte_is_anothers_to_make():
    of = bench(
        provider("p"),
        provider("q"),
        p=streams(UpstreamFailed("it broke off")),
        q=streams(b"sound"),
    )
    answer = await of.http("POST", "/v1/audio/speech", {"model": "m", "input": "x", "voice": "a"})
    assert (answer.status, answer.raw) == (200, b"sound")
    assert answer.headers["x-monoize-provider"] == "q"
    assert all(sent.reply.closed for sent in of.sent)


@pytest.mark.spec("T36")
async def test_what_a_stream_says_of_its_cost_at_its_end_is_what_it_costs():
    of = bench(p=streams(*SPOKEN, kind="text/event-stream"))
    said = {"model": "m", "input": "x", "voice": "a", "stream_format": "sse"}
    answer = await of.http("POST", "/v1/audio/speech", said)
    assert answer.raw == b"".join(SPOKEN)
    metered = of.books.last
    assert (metered.usage.input_tokens, metered.usage.output_tokens) == (11, 500)
    assert metered.estimated is False


@pytest.mark.spec("T36")
async def test_so_does_a_transcript_as_it_comes():
    done = {"type": "transcript.text.done", "text": "hi", "usage": {"type": "tokens", **USAGE}}
    events = (b"data: " + json.dumps(done).encode() + b"\n\n",)
    of = bench(p=streams(*events, kind="text/event-stream"))
    form, kind = _form(model="m", stream="true", file=WAV)
    answer = await of.http("POST", "/v1/audio/transcriptions", form, headers={"content-type": kind})
    assert answer.raw == events[0]
    assert of.books.last.usage.output_tokens == 500
    assert of.books.last.estimated is False


@pytest.mark.spec("T36")
async def test_and_pictures_as_they_come():
    done = {"type": "image_generation.completed", "b64_json": "iVBORw0K", "usage": USAGE}
    events = (b"data: " + json.dumps(done).encode() + b"\n\n",)
    of = bench(p=streams(*events, kind="text/event-stream"))
    said = {"model": "m", "prompt": "x", "stream": True}
    answer = await of.http("POST", "/v1/images/generations", said)
    assert answer.raw == events[0]
    assert of.books.last.usage.output_tokens == 500


@pytest.mark.spec("T18")
async def test_nothing_stays_open_when_the_sound_cannot_be_kept():
    """The store is full: the provider is told to stop, now and not some day."""
    of = bench(p=streams(b"one", b"two"))
    of.shelf.limit = 3
    answer = await of.operate("text_to_speech", {"model": "m", "input": "Hello"})
    assert answer.status == 413
    assert of.sent[0].reply.closed


@pytest.mark.spec("T18")
async def test_nothing_stays_open_when_there_is_no_store_at_all():
    of = bench(p=streams(b"one", b"two"))
    of.use(media=None)
    answer = await of.operate("text_to_speech", {"model": "m", "input": "Hello"})
    assert answer.status == 501
    assert of.sent == [] or of.sent[0].reply.closed


@pytest.mark.spec("S4-2.1")
async def test_the_time_of_a_request_covers_all_of_its_answer():
    """The first sound is not the whole: who gave two seconds is not kept waiting for a minute."""
    begun = asyncio.Event()

    async def forever():
        begun.set()
        await asyncio.Event().wait()

    class Stuck(Said):
        async def coming(self):
            yield b"one"
            await forever()

    stuck = Stuck(headers={"content-type": "audio/mpeg"})
    of = bench(p=lambda _: stuck)
    asking = of.operate("text_to_speech", {"model": "m", "input": "x"}, timeout_ms=50)
    answer = await asyncio.wait_for(asking, 5)
    assert begun.is_set()
    assert answer.status == 504
    assert answer.json["result"]["error"]["code"] == "Timeout"
    assert stuck.closed


@pytest.mark.spec("T18")
async def test_a_caller_that_leaves_before_the_first_byte_leaves_nothing_open():
    """Its answer is closed before it was begun: then nobody has read a byte, and all must be settled."""
    of = bench(p=streams(b"one", b"two"))
    answer = await of.door(operations.speech, {"model": "m", "input": "Hello", "voice": "a"})
    assert not of.sent[0].reply.closed
    await answer.body.aclose()
    assert of.sent[0].reply.closed
    (ending,) = of.books.endings
    assert (ending.status, ending.metered.units.characters) == ("cancelled", 5)


@pytest.mark.spec("T18")
async def test_a_caller_that_leaves_in_the_middle_has_used_what_was_made():
    of = bench(p=streams(b"one", b"two", b"three"))
    answer = await of.door(operations.speech, {"model": "m", "input": "Hello", "voice": "a"})
    chunks = aiter(answer.body)
    assert await anext(chunks) == b"one"
    await answer.body.aclose()
    assert of.sent[0].reply.closed
    (ending,) = of.books.endings
    assert (ending.status, ending.metered.units.characters) == ("cancelled", 5)


@pytest.mark.spec("D10")
@pytest.mark.parametrize("door", ["plain", "envelope"])
async def test_sound_that_breaks_off_in_the_middle_costs_nothing(door):
    """Another channel cannot be asked any more: some of it may have been heard."""
    of = bench(provider("p"), provider("q"), p=streams(b"one", UpstreamFailed("it broke off")))
    if door == "plain":
        answer = await of.door(operations.speech, {"model": "m", "input": "Hello", "voice": "a"})
        with pytest.raises(UpstreamFailed):
            [chunk async for chunk in answer.body]
        await answer.body.aclose()
    else:
        answer = await of.operate("text_to_speech", {"model": "m", "input": "Hello"})
        assert answer.status == 502
        assert answer.json["result"]["error"]["code"] == "BackendError"
    (ending,) = of.books.endings
    assert ending.status == "error"
    assert len(of.sent) == 1
    assert of.sent[0].reply.closed


async def test_an_answer_that_cannot_be_written_is_settled():
    """The provider's transcript has no times, and the caller wants subtitles."""
    of = bench(p=reply({"text": 7}))
    form, kind = _form(model="m", file=WAV)
    answer = await of.http("POST", "/v1/audio/transcriptions", form, headers={"content-type": kind})
    assert answer.status == 502
    (ending,) = of.books.endings
    assert ending.status == "error"


# --- chat ----------------------------------------------------------------------------------------

CHAT = {"model": "m", "messages": [{"role": "user", "content": "x"}]}


@pytest.mark.spec("S4-2.2")
async def test_a_chat_stream_comes_in_envelopes():
    of = bench()
    asked = {**CHAT, "generation": {"stream": True}}
    answer = await of.operate("chat_completions", asked, request_id=7)
    assert answer.headers["content-type"].startswith("text/event-stream")
    *events, done = [event for event in answer.events if event.data]
    assert done.data == "[DONE]"
    envelopes = [event.json for event in events]
    assert {(one["request_id"], one["operation"]) for one in envelopes} == {
        ("7", "chat_completions")
    }
    deltas = [one["result"]["delta"] for one in envelopes]
    text = "".join(d["choices"][0]["delta"].get("content") or "" for d in deltas if d["choices"])
    assert text == SCENARIOS["text"].turns[0].text
    assert envelopes[0]["backend"]["name"] == "p"


@pytest.mark.spec("S4-2.3")
@pytest.mark.parametrize(
    ("broke", "code"),
    [(UpstreamFailed("it broke off"), "BackendError"), (UpstreamTimeout("silence"), "Timeout")],
)
async def test_a_chat_stream_that_breaks_off_ends_with_an_error_of_the_envelope(broke, code):
    chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunk["choices"] = [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}]
    first = b"data: " + json.dumps(chunk).encode() + b"\n\n"
    of = bench(p=streams(first, broke, kind="text/event-stream"))
    asked = {**CHAT, "generation": {"stream": True}}
    answer = await of.operate("chat_completions", asked)
    errors = [one.json for one in answer.events if one.data != "[DONE]"]
    error = errors[-1]["result"]["error"]
    assert (error["code"], error["operation"], error["retryable"]) == (
        code,
        "chat_completions",
        True,
    )
    assert isinstance(error["message"], str)


@pytest.mark.spec("S4-2.3")
async def test_a_chat_that_fails_is_told_once():
    of = bench(p=status(500))
    answer = await of.operate("chat_completions", CHAT)
    assert (answer.status, answer.json["result"]["error"]["code"]) == (502, "BackendError")
    assert [ending.status for ending in of.books.endings] == ["error"]
    assert of.books.turned_away == []


async def test_a_chat_that_is_refused_is_told_once():
    of = bench()
    for payload in (
        {"model": "m"},
        {"model": "m", "messages": [{"role": "user", "content_parts": ["x"]}]},
        {"model": "other", "messages": []},
    ):
        of.books.turned_away.clear()
        answer = await of.operate("chat_completions", payload)
        assert answer.status in (400, 404), answer.raw
        assert len(of.books.turned_away) == 1
    assert (of.books.endings, of.sent) == ([], [])


# --- engines -------------------------------------------------------------------------------------


@pytest.mark.spec("S4-2.2")
async def test_engines_of_this_machine_are_asked_in_the_same_way():
    rows = [
        {"id": f"here-{one.id}", "type": "local", "engine": one.id, "models": {f"m-{one.id}": {}}}
        for one in (Embedder, Transcriber, Speaker)
    ]
    of = bench(*rows, engines=[Embedder(), Transcriber(), Speaker()])
    vectors = await of.operate("embeddings", {"model": "m-embedder", "input": ["ab"]})
    assert payload_of(vectors)["embeddings"] == [[2.0, 0.5, -1.0]]
    assert vectors.json["backend"]["name"] == "here-embedder"
    spoken = await of.operate(
        "text_to_speech", {"model": "m-speaker", "input": "Hi", "format": "wav"}
    )
    assert payload_of(spoken)["audio"]["mime"] == "audio/wav"
    audio = of.lay(wav(Sound(pcm=b"\1\0" * 16000, rate=16000)), "audio/wav")
    heard = await of.operate("speech_to_text", {"model": "m-transcriber", "audio": audio})
    assert payload_of(heard)["text"] == "Good morning. Where is the station?"
    assert heard.json["usage"]["audio_seconds"] == 3.25
    assert of.sent == []


async def test_a_voice_stops_when_its_sound_cannot_be_kept():
    speaker = Speaker()
    here = {"id": "here", "type": "local", "engine": "speaker", "models": {"m": {}}}
    of = bench(here, engines=[speaker])
    of.shelf.limit = 1
    answer = await of.operate("text_to_speech", {"model": "m", "input": "One. Two. Three"})
    assert answer.status == 413
    assert speaker.asked[-1] == "closed"


@pytest.mark.spec("D27")
async def test_an_engine_that_is_not_there_is_a_failure_of_the_backend():
    here = {"id": "here", "type": "local", "engine": "embedder", "models": {"m": {}}}
    of = bench(here, engines=[Embedder()])
    of.use(local={})
    answer = await of.operate("embeddings", {"model": "m", "input": "a"})
    assert answer.status in (502, 503)
    assert answer.json["result"]["error"]["code"] == "BackendError"


# --- refused before anybody is asked ------------------------------------------------------------


@pytest.mark.spec("D27")
async def test_a_refusal_is_noted_in_the_log_with_its_model():
    of = bench()
    await of.operate("embeddings", {"model": "nobody-has-it", "input": "a"})
    await of.operate("embeddings", {"model": "m"})
    await of.http("POST", "/v1/embeddings", {"model": "m"})
    noted = [
        (
            incoming.operation,
            incoming.spoken,
            incoming.model or incoming.wire["model"],
            error.error_code,
        )
        for incoming, error in of.books.turned_away
    ]
    assert noted == [
        ("embeddings", "operations", "nobody-has-it", "no_candidate_backend"),
        ("embeddings", "operations", "m", "invalid_request"),
        ("embeddings", "embeddings", "m", "invalid_request"),
    ]
    assert of.sent == []


@pytest.mark.spec("S4-2.1")
async def test_an_envelope_that_cannot_be_read_is_answered_in_an_envelope():
    of = bench()
    for raw in (b"", b"{", b"[]", b"7", b'{"operation": "embeddings"}', b"\xff"):
        answer = await of.http("POST", "/v1/operations", raw)
        assert answer.status == 400, raw
        assert answer.json["result"]["error"]["code"] == "InvalidRequest", raw
        assert answer.json["version"] == 1
        assert answer.json["request_id"] == answer.headers["x-request-id"]


async def test_ceilings_of_an_envelope_hold_for_every_operation():
    dear = provider("p", models={"m": {"multiplier": "3"}})
    of = bench(dear, p=embedded)
    for name, payload in (
        ("embeddings", {"model": "m", "input": "a"}),
        ("chat_completions", {"model": "m", "messages": [{"role": "user", "content": "x"}]}),
    ):
        answer = await of.operate(name, payload, extra={"max_multiplier": "2"})
        assert answer.status == 403, (name, answer.raw)
        assert answer.json["result"]["error"]["code"] == "Forbidden"
    assert of.sent == []


def _form(**fields):
    boundary = "x-boundary-x"
    pieces = []
    for name, value in fields.items():
        data = value if isinstance(value, bytes) else value.encode()
        more = '; filename="a.wav"\r\nContent-Type: audio/wav' if isinstance(value, bytes) else ""
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'
        pieces += [head.encode(), data, b"\r\n"]
    return b"".join([*pieces, f"--{boundary}--\r\n".encode()]), (
        f"multipart/form-data; boundary={boundary}"
    )
