"""Operations when a provider fails: who is asked next, what the breaker learns, and what cannot be mended."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from fakes.forwarding import HASTE, HEARING
from fakes.operations_place import Place, backend, channel
from fakes.operations_upstream import (
    PNG,
    SOUND,
    WORDS,
    hang_up,
    no_sound,
    reset,
    says,
    silent,
    sound_then,
    status,
    vector,
    well,
)
from fakes.pair import UNMOVED
from fakes.upstream import Behaviour

Json = dict[str, Any]
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(range(256)) * 200
SPEECH = {"model": "m", "input": "Hello", "voice": "alloy"}
LONG = 300.0


@pytest.fixture(scope="module")
def open_place() -> Iterator[Place]:
    with Place() as place:
        first, second = place.first, place.second
        trips = {"failure_threshold": 2, "cooldown_seconds": LONG, "probe_enabled": False}
        rests = {"retry_after_limit_seconds": 60, "probe_enabled": False}
        fan = [channel("fan-1", first), channel("fan-2", second)]
        named = {"redirect": "upstream-name"}
        providers = [
            backend("first", first, {"m": named}, health=UNMOVED),
            backend("hasty", first, {"hasty": named}, health=UNMOVED, **HASTE),
            backend("hearing", first, {"hearing": named}, health=UNMOVED, **HEARING),
            backend("second", second, ["m", "hasty", "hearing"], health=UNMOVED),
            backend("trips", first, ["trips"], health=trips),
            backend("breaks", first, ["breaks"], health=trips),
            backend("rests", first, ["rests"], health=rests),
            backend("well", second, ["trips", "rests", "breaks"], health=UNMOVED),
            backend("fan", first, ["fan"], channels=fan, health=UNMOVED),
        ]
        price = {"input": "1", "output": "1", "million_characters": "15"}
        fan[0]["weight"] = 10**9  # so that it is asked first, whatever the dice say
        yield place.serve(
            providers,
            settings={
                "prices": {
                    **dict.fromkeys(("m", "hasty", "hearing"), price),
                    "fan": {"million_characters": "15"},
                },
                "operations": {"text_to_speech": {"request_policies": ["hedged"]}},
            },
        )
        place.assert_books_are_right()


@pytest.fixture
def place(open_place: Place) -> Iterator[Place]:
    open_place.play()
    yield open_place
    open_place.assert_nothing_is_left()


# --- before the first byte -----------------------------------------------------------------------


def cut_json(exchange: Any) -> Any:
    """Half of what its length says."""

    async def act(exchange: Any) -> None:
        await exchange.head(200, {"content-type": "application/json", "content-length": "100"})
        await exchange.bytes(b'{"data": [')
        exchange.hang_up()

    return act(exchange)


FAILURES: dict[str, Behaviour] = {
    "500": status(500),
    "503": status(503),
    "429": status(429),
    "hangs up": hang_up,
    "resets": reset,
    "says nothing": silent,
    "is cut": cut_json,
    "is empty": says(b""),
    "is no JSON": says(b"oops"),
    "redirects": status(302, location="http://127.0.0.1:1/"),
}
CALLS: dict[str, tuple[str, Json]] = {
    "embeddings": ("/v1/embeddings", {"model": "m", "input": "Hello"}),
    "pictures": ("/v1/images/generations", {"model": "m", "prompt": "Hello"}),
    "speech": ("/v1/audio/speech", SPEECH),
}


@pytest.mark.spec("ROUT-5", "D9", "D10")
@pytest.mark.parametrize(
    ("call", "failure"),
    [(c, f) for c in CALLS for f in FAILURES if (c, f) != ("speech", "is no JSON")],
)
def test_the_next_provider_answers(place: Place, call: str, failure: str):
    place.play(FAILURES[failure])
    model, first = ("hasty", "hasty") if failure == "says nothing" else ("m", "first")
    target, wire = CALLS[call]
    answer = place.me.post(target, {**wire, "model": model})
    assert answer.status == 200, answer.raw
    assert (answer.headers["x-monoize-provider"], answer.headers["x-monoize-attempts"]) == (
        "second",
        "2",
    )
    (sent,), (again,) = place.first.sent, place.second.sent
    assert (sent.model, again.model) == ("upstream-name", model)
    assert {k: v for k, v in sent.body.items() if k != "model"} == {
        k: v for k, v in again.body.items() if k != "model"
    }
    row = place.row(answer)
    assert (row["status"], row["provider"]) == ("success", "second")
    assert [(one["provider"], one["channel"]) for one in row["attempts"]] == [(first, f"{first}-1")]


@pytest.mark.spec("ROUT-5", "S4-3.5")
def test_a_form_is_sent_whole_to_whoever_is_next(place: Place):
    boundary = "b0undary"
    file = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n'
        "Content-Type: audio/wav\r\n\r\n"
    )
    model = f'--{boundary}\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n'
    large = WAV * 40  # it lies on the disk, and is read twice from its beginning
    data = (model + file).encode() + large + f"\r\n--{boundary}--\r\n".encode()
    place.play(status(500))
    headers = {**place.me.headers, "content-type": f"multipart/form-data; boundary={boundary}"}
    answer = place.me.send("POST", "/v1/audio/transcriptions", data, headers)
    assert answer.json["text"] == WORDS
    for upstream in (place.first, place.second):
        (sent,) = upstream.sent
        assert (sent.file("file").data, sent.file("file").filename) == (large, "a.wav")


@pytest.mark.spec("ROUT-5", "S4-3.5")
def test_a_stored_recording_is_sent_whole_to_whoever_is_next(place: Place):
    place.play(reset)
    audio = place.upload(WAV, "audio/wav")
    answer = place.operate("speech_to_text", {"model": "m", "audio": audio})
    assert answer.json["result"]["payload"]["text"] == WORDS
    assert answer.json["backend"]["attempts"] == 2
    (sent,) = place.second.sent
    assert sent.file("file").data == WAV


@pytest.mark.spec("D10")
def test_sound_that_does_not_begin_in_time_is_made_by_another(place: Place):
    place.play(no_sound)
    answer = place.me.post("/v1/audio/speech", {**SPEECH, "model": "hasty"})
    assert (answer.raw, answer.headers["x-monoize-provider"]) == (b"".join(SOUND), "second")
    assert place.first.sent[0].closed.wait(25)


@pytest.mark.spec("ROUT-6")
@pytest.mark.parametrize("code", [400, 401, 403, 404, 413, 422])
@pytest.mark.parametrize("call", CALLS)
def test_the_providers_own_no_is_final(place: Place, call: str, code: int):
    place.play(status(code, "not like this"))
    target, wire = CALLS[call]
    answer = place.me.post(target, wire)
    assert (answer.status, answer.json["error"]["message"]) == (code, "not like this")
    assert place.second.sent == []


@pytest.mark.spec("ROUT-8")
@pytest.mark.parametrize("call", CALLS)
def test_when_nobody_is_left_all_are_named(place: Place, call: str):
    place.play(status(500), second=[status(503)])
    target, wire = CALLS[call]
    answer = place.me.post(target, wire)
    assert answer.status == 502
    message = answer.json["error"]["message"]
    assert "first/first-1" in message
    assert "second/second-1" in message
    assert "127.0.0.1" not in message


@pytest.mark.spec("ROUT-8", "S4-2.3")
def test_when_all_are_busy_the_caller_is_told_for_how_long(place: Place):
    place.play(status(429, retry_after="7"), second=[status(429, retry_after="9")])
    answer = place.operate("embeddings", {"model": "m", "input": "x"})
    assert (answer.status, answer.headers["retry-after"]) == (502, "7")
    error = answer.json["result"]["error"]
    assert (error["code"], error["retryable"]) == ("BackendError", True)


# --- health --------------------------------------------------------------------------------------


@pytest.mark.spec("HEALTH-1", "D11")
def test_a_channel_that_fails_twice_is_left_alone(place: Place):
    place.play(status(500))
    served = []
    for _ in range(4):
        answer = place.operate("embeddings", {"model": "trips", "input": "x"})
        served.append(answer.json["backend"]["name"])
    assert served == ["well"] * 4
    assert len(place.first.sent) == 2
    assert place.dashboard.channel("trips/trips-1")["health"] == "unhealthy"
    place.play()
    assert place.me.post("/v1/embeddings", {"model": "trips", "input": "x"}).status == 200
    assert place.first.sent == []


@pytest.mark.spec("HEALTH-2", "D11")
def test_a_channel_that_asks_for_rest_gets_it(place: Place):
    place.play(status(429, retry_after="30"))
    for _ in range(3):
        answer = place.me.post("/v1/audio/speech", {**SPEECH, "model": "rests"})
        assert answer.headers["x-monoize-provider"] == "well"
    assert len(place.first.sent) == 1


@pytest.mark.spec("D11", "D10")
def test_a_channel_that_breaks_off_in_the_middle_is_unwell(place: Place):
    """Its first byte is no proof of health: twice it has left its caller with half a sentence."""
    for _ in range(2):
        place.play(sound_then(reset))
        with place.open("/v1/audio/speech", {**SPEECH, "model": "breaks"}) as line:
            line.read_until(lambda raw: len(raw) >= 2 * len(SOUND[0]))
            place.first.sent[0].allow()
            with pytest.raises((http.client.IncompleteRead, ConnectionError)):
                line.read_rest()
    row = place.dashboard.until("breaks/breaks-1", lambda row: row["totals"]["failure"] >= 2)
    assert row["health"] == "unhealthy"


@pytest.mark.spec("D11")
def test_success_and_failure_are_counted(place: Place):
    before = place.dashboard.totals()
    place.play(status(500))
    place.me.post("/v1/embeddings", {"model": "m", "input": "x"})
    place.dashboard.assert_outcomes(
        before, ("first/first-1", "failure"), ("second/second-1", "success")
    )


@pytest.mark.spec("D11")
def test_a_callers_mistake_says_nothing_about_a_channel(place: Place):
    before = place.dashboard.totals()
    place.play(status(400))
    place.me.post("/v1/embeddings", {"model": "m", "input": "x"})
    place.me.post("/v1/embeddings", {"model": "m"})
    counted = place.dashboard.outcomes(before)
    assert ("first/first-1", "failure") not in counted


# --- in the middle -------------------------------------------------------------------------------


@pytest.mark.spec("D10")
@pytest.mark.parametrize("act", [reset, hang_up, silent], ids=["reset", "close", "silence"])
def test_sound_that_breaks_off_does_not_look_complete(place: Place, act: Behaviour):
    place.play(sound_then(act))
    model = "hearing" if act is silent else "m"
    with place.open("/v1/audio/speech", {**SPEECH, "model": model}) as line:
        name = line.response.getheader("x-request-id")
        line.read_until(lambda raw: len(raw) >= 2 * len(SOUND[0]))
        place.first.sent[0].allow()
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            line.read_rest()
    row = place.row(name)
    assert (row["status"], row["charge"]) == ("error", 0)
    assert place.second.sent == []


@pytest.mark.spec("D10")
@pytest.mark.parametrize("act", [reset, silent], ids=["reset", "silence"])
def test_an_envelope_is_told_that_its_sound_broke_off(place: Place, act: Behaviour):
    async def speak(exchange: Any) -> None:
        await exchange.open_stream("audio/mpeg")
        await exchange.chunk(SOUND[0])
        await act(exchange)

    place.play(speak)
    model = "hearing" if act is silent else "m"
    answer = place.operate("text_to_speech", {"model": model, "input": "Hello"})
    assert answer.status == 502
    assert answer.json["result"]["error"]["code"] in ("BackendError", "Timeout")
    row = place.row(answer)
    assert (row["status"], row["charge"]) == ("error", 0)
    listed = place.me.get("/v1/media").json["data"]
    assert not [one for one in listed if one["mime"] == "audio/mpeg" and one["size"] <= 700]


@pytest.mark.spec("D10")
def test_a_broken_event_stream_does_not_look_complete(place: Place):
    async def half(exchange: Any) -> None:
        await exchange.open_stream()
        await exchange.chunk(b'data: {"type":"speech.audio.delta","audio":"AAAA"}\n\n')
        await exchange.step()
        exchange.reset()

    place.play(half)
    with place.open("/v1/audio/speech", {**SPEECH, "stream_format": "sse"}) as line:
        line.read_until(lambda raw: raw.endswith(b"\n\n"))
        place.first.sent[0].allow()
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            line.read_rest()


# --- hedged --------------------------------------------------------------------------------------


def test_a_slow_voice_is_hedged_and_both_are_in_the_books(place: Place):
    place.play(no_sound, second=[well])
    hedged = {"model": "fan", "input": "Hello"}
    answer = place.operate("text_to_speech", hedged, policy={"name": "hedged"})
    assert answer.status == 200, answer.raw
    assert answer.json["backend"]["instance"] == "fan-2"
    assert place.first.sent[0].closed.wait(25)
    row = place.row(answer)
    assert row["charge"] == 2 * 5 * 15_000
    assert row["estimated"] is True


def test_pictures_of_a_hedge_are_not_mixed_up(place: Place):
    """Whoever answers first answers; what the other one sends is never seen."""
    other = json.dumps({"created": 1, "data": [{"b64_json": "AAAA"}]}).encode()

    async def late(exchange: Any) -> None:
        await exchange.step()
        await exchange.whole(other)

    place.play(late)
    answer = place.me.post("/v1/images/generations", {"model": "hasty", "prompt": "x"})
    assert answer.status == 200
    assert len(answer.json["data"][0]["b64_json"]) > len(PNG)


def test_vectors_come_back_in_the_order_of_their_texts(place: Place):
    """Some providers number them and send them as they please."""
    rows = [
        {"object": "embedding", "index": 1, "embedding": vector("bb")},
        {"object": "embedding", "index": 0, "embedding": vector("a")},
    ]
    usage = {"prompt_tokens": 2, "total_tokens": 2}
    place.play(says({"object": "list", "data": rows, "model": "m", "usage": usage}))
    answer = place.operate("embeddings", {"model": "m", "input": ["a", "bb"]})
    assert answer.json["result"]["payload"]["embeddings"] == [vector("a"), vector("bb")]
