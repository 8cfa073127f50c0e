"""Words become sound and the same words again, over HTTP, on the engines of this machine."""

from __future__ import annotations

import io
import re
import wave
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from fakes.operations_place import KEYS, Place
from monoize.engine import engines
from monoize.server.state import local_engines

SENTENCE = "The capital of France is Paris."
VOICE, EAR = "hibari-heart", "moonshine-base-en"


def _missing() -> str:
    built = local_engines({})
    known = {name: built[name].available() for name in ("hibari", "moonshine") if name in engines()}
    absent = [f"{name}: {one.install}" for name, one in known.items() if not one.installed]
    return "; ".join(absent) or (
        "" if len(known) == 2 else "the engines are not part of this build"
    )


MISSING = _missing()
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"not installed here: {MISSING}"),
    pytest.mark.spec("S4-2.2", "S4-3.2", "S4-3.5"),
]


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with Place() as found:
        providers = [
            {"id": name, "type": "local", "engine": name, "models": {model: {}}}
            for name, model in (("hibari", VOICE), ("moonshine", EAR))
        ]
        found.serve(providers, settings={"health": {"probe_enabled": False}})
        found.me.patience = 120.0  # the models are loaded with the first call, on two busy cores
        yield found


def words(text: str) -> list[str]:
    return re.findall(r"[a-z']+", text.lower())


def spoken(place: Place, text: str, **more: Any) -> dict[str, Any]:
    answer = place.operate("text_to_speech", {"model": VOICE, "input": text, **more})
    assert answer.status == 200, answer.raw
    found: dict[str, Any] = answer.json
    return found


def test_words_are_spoken_stored_and_heard_again(place: Place):
    said = spoken(place, SENTENCE, format="wav")
    audio = said["result"]["payload"]["audio"]
    assert (audio["kind"], audio["mime"]) == ("sms_file", "audio/wav")
    assert said["backend"] | {"latency_ms": 0} == {
        "name": "hibari",
        "instance": "engine",
        "latency_ms": 0,
    }
    assert said["usage"]["characters"] == len(SENTENCE)

    answer = place.operate("speech_to_text", {"model": EAR, "audio": audio, "timestamps": True})

    assert answer.status == 200, answer.raw
    heard = answer.json["result"]["payload"]
    assert words(heard["text"]) == words(SENTENCE)
    assert 1 < heard["duration"] < 5
    assert heard["segments"]
    assert answer.json["backend"]["name"] == "moonshine"


def test_what_is_stored_is_sound_of_its_owners(place: Place):
    audio = spoken(place, "Good morning.", format="wav")["result"]["payload"]["audio"]
    with wave.open(io.BytesIO(place.fetch(audio).raw)) as sound:
        assert (sound.getnchannels(), sound.getsampwidth()) == (1, 2)
        assert sound.getframerate() >= 16000
    assert place.fetch(audio, by=place.stranger).status == 404
    asked = {"model": EAR, "audio": audio}
    assert place.operate("speech_to_text", asked, by=place.stranger).status == 400


def test_the_same_through_openais_endpoints(place: Place):
    url = f"http://127.0.0.1:{place.gateway.port}/v1"
    with openai.OpenAI(base_url=url, api_key=KEYS["me"], max_retries=0, timeout=60) as client:
        sound = client.audio.speech.create(
            model=VOICE, input=SENTENCE, voice="heart", response_format="mp3"
        ).read()
        heard = client.audio.transcriptions.create(file=("s.mp3", sound), model=EAR)
        assert words(heard.text) == words(SENTENCE)
        told = client.audio.transcriptions.create(
            file=("s.mp3", sound), model=EAR, response_format="srt"
        )
        assert words(str(told).split("\n")[2]) == words(SENTENCE)


def test_both_doors_meet_in_the_store(place: Place):
    """A recording that was uploaded by itself, heard through the envelope; a picture of both ways in one."""
    url = f"http://127.0.0.1:{place.gateway.port}/v1"
    with openai.OpenAI(base_url=url, api_key=KEYS["me"], max_retries=0, timeout=60) as client:
        sound = client.audio.speech.create(
            model=VOICE, input=SENTENCE, voice="heart", response_format="wav"
        ).read()
    audio = place.upload(sound, "audio/wav")
    answer = place.operate("speech_to_text", {"model": EAR, "audio": audio})
    assert words(answer.json["result"]["payload"]["text"]) == words(SENTENCE)


def test_what_is_spoken_here_costs_nothing_and_is_in_the_log(place: Place):
    answer = place.operate("text_to_speech", {"model": VOICE, "input": "Hello."})
    row = place.row(answer)
    assert (row["operation"], row["status"], row["charge"]) == ("text_to_speech", "success", 0)
    assert row["unpriced"] is False
    assert row["usage"]["characters"] == "6"
    place.assert_nothing_is_left()
    place.assert_books_are_right()
