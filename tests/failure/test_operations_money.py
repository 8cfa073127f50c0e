"""Money, limits and the log of operations: reserved before, settled after, nothing for what failed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fakes.operations_place import Place, backend
from fakes.operations_upstream import (
    PNG,
    SECONDS,
    SOUND,
    no_sound,
    rest,
    says,
    silent,
    sound_then,
    status,
)
from fakes.upstream import Behaviour

Json = dict[str, Any]
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(2000)
PRICES = {
    "vectors": {"input": "0.02", "output": "0"},
    "painter": {"image": "0.04"},
    "drawer": {"input": "5", "image_input": "10", "output": "0", "image_output": "40"},
    "ear": {"audio_minute": "0.006"},
    "voice": {"million_characters": "15"},
    "talker": {"input": "0.6", "output": "0", "audio_output": "12"},
    "dear": {"image": "100"},
    "twice": {"million_characters": "15"},
    "chatty": {"input": "1", "output": "1"},
}
# What the fake provider counts, at these prices, in nano-USD.
COSTS = {
    "vectors": 7 * 20,
    "painter": 40_000_000,
    "drawer": 10 * 5000 + 40 * 10_000 + 1056 * 40_000,
    "ear": SECONDS * 100_000,
    "voice": 5 * 15_000,
}
PAYLOADS: dict[str, tuple[str, Json]] = {
    "vectors": ("embeddings", {"input": "Hello"}),
    "painter": ("image_generation", {"prompt": "Hello"}),
    "drawer": ("image_generation", {"prompt": "Hello"}),
    "ear": ("speech_to_text", {}),
    "voice": ("text_to_speech", {"input": "Hello"}),
}
ENDPOINTS = {
    "embeddings": "/v1/embeddings",
    "image_generation": "/v1/images/generations",
    "text_to_speech": "/v1/audio/speech",
}


def key(name: str, **policy: Any) -> Json:
    return {"name": name, "key": f"sk-{name}-0123456789abcdef", "username": name, **policy}


@pytest.fixture(scope="module")
def open_place() -> Iterator[Place]:
    with Place() as place:
        named: Json = {name: {} for name in (*PRICES, "unpriced", "whisper-1", "chatty")}
        named["twice"] = {"multiplier": "2"}
        providers = [
            backend("p", place.first, named),
            # Has a model of the same name, without a price, and can do nothing but chat with it.
            backend("claude", place.second, {"mixed": {"redirect": "unheard-of"}}, "messages"),
            backend("q", place.first, {"mixed": {"redirect": "vectors"}}),
        ]
        yield place.serve(
            providers,
            key("poor", budgets={"total": "0.05"}),
            key("broke", budgets={"total": "0.000001"}),
            key("hasty", requests_per_minute=2),
            key("wordy", tokens_per_minute=50),
            key("thrifty", max_multiplier="1"),
            settings={
                "health": {"probe_enabled": False, "failure_threshold": 1000, "min_samples": 1000},
                "prices": PRICES,
            },
        )
        place.assert_books_are_right()


@pytest.fixture
def place(open_place: Place) -> Iterator[Place]:
    open_place.play()
    yield open_place
    open_place.assert_nothing_is_left()


def by(place: Place, name: str) -> Any:
    return place.caller(f"sk-{name}-0123456789abcdef")


def asked(place: Place, model: str, **more: Any) -> Any:
    operation, payload = PAYLOADS[model]
    if operation == "speech_to_text":
        payload = {"audio": place.upload(WAV, "audio/wav", by=more.get("by"))}
    return place.operate(operation, {"model": model, **payload}, **more)


# --- what it costs -------------------------------------------------------------------------------


@pytest.mark.spec("D17", "S4-2.2")
@pytest.mark.parametrize("model", COSTS)
def test_an_operation_costs_what_its_provider_counted(place: Place, model: str):
    answer = asked(place, model)
    assert answer.status == 200, answer.raw
    row = place.row(answer)
    operation, _ = PAYLOADS[model]
    assert (row["status"], row["charge"], row["unpriced"]) == ("success", COSTS[model], False)
    assert (row["operation"], row["protocol"]) == (operation, "operations")
    assert (row["requested_model"], row["upstream_model"]) == (model, model)
    assert (row["provider"], row["channel"], row["http_status"]) == ("p", "p-1", 200)
    assert (row["key_name"], row["username"], row["is_stream"]) == ("me", "me", False)
    assert row["usage"]
    assert row["first_byte_ms"] is not None
    assert place.books().charges[row["request_id"]]["amount"] == COSTS[model]


@pytest.mark.spec("D26", "D17")
@pytest.mark.parametrize("model", ["vectors", "painter", "drawer", "voice"])
def test_openais_endpoints_cost_the_same(place: Place, model: str):
    operation, payload = PAYLOADS[model]
    wire = {"model": model, "voice": "alloy", **payload} if model == "voice" else payload
    answer = place.me.post(ENDPOINTS[operation], {"model": model, **wire})
    assert answer.status == 200, answer.raw
    row = place.row(answer)
    assert (row["status"], row["charge"]) == ("success", COSTS[model])
    assert (row["operation"], row["protocol"]) == (operation, operation)


@pytest.mark.spec("D17")
@pytest.mark.parametrize(
    ("model", "units"),
    [("painter", {"images": "1"}), ("ear", {"audio_seconds": "3"}), ("voice", {"characters": "5"})],
)
def test_pieces_are_counted_in_the_log(place: Place, model: str, units: Json):
    row = place.row(asked(place, model))
    assert {name: row["usage"].get(name) for name in units} == units


@pytest.mark.spec("D17")
@pytest.mark.parametrize("model", ["ear", "voice"])
def test_what_was_counted_exactly_is_no_estimate(place: Place, model: str):
    """Priced by the piece, and the pieces are known: nobody guessed."""
    assert place.row(asked(place, model))["estimated"] is False


@pytest.mark.spec("D17")
def test_a_multiplier_holds_for_pieces(place: Place):
    answer = place.operate("text_to_speech", {"model": "twice", "input": "Hello"})
    assert place.row(answer)["charge"] == 2 * COSTS["voice"]
    refused = place.operate(
        "text_to_speech", {"model": "twice", "input": "x"}, by=by(place, "thrifty")
    )
    assert (refused.status, refused.json["result"]["error"]["code"]) == (403, "Forbidden")
    lowered = place.operate(
        "text_to_speech", {"model": "twice", "input": "x"}, extra={"max_multiplier": 1}
    )
    assert lowered.status == 403


@pytest.mark.spec("D16")
def test_a_model_that_is_sold_by_the_minute_has_a_public_price(place: Place):
    heard = {"model": "whisper-1", "audio": place.upload(WAV, "audio/wav")}
    assert place.row(place.operate("speech_to_text", heard))["charge"] == SECONDS * 100_000


@pytest.mark.spec("T36")
def test_a_stream_costs_what_it_says_at_its_end(place: Place):
    spoken = {"model": "talker", "input": "Hello", "voice": "alloy", "stream_format": "sse"}
    row = place.row(place.me.post("/v1/audio/speech", spoken))
    assert (row["input_tokens"], row["output_tokens"]) == (11, 500)
    assert row["charge"] == 11 * 600 + 500 * 12_000
    assert row["estimated"] is False


@pytest.mark.spec("D17")
def test_many_at_once_are_neither_mixed_up_nor_miscounted(place: Place):
    """Every text has a length of its own, so every vector says whose it is."""
    before = place.books().total

    def ask(number: int) -> tuple[int, int]:
        text = "x" * (number + 1)
        if number % 2:
            answer = place.operate("embeddings", {"model": "vectors", "input": text})
            found = answer.json["result"]["payload"]["embeddings"][0][0]
        else:
            wire = {"model": "vectors", "input": text, "encoding_format": "float"}
            found = place.me.post("/v1/embeddings", wire).json["data"][0]["embedding"][0]
        return len(text), int(found)

    with ThreadPoolExecutor(12) as threads:
        seen = list(threads.map(ask, range(60)))
    assert all(asked == got for asked, got in seen)
    place.assert_nothing_is_left()
    assert place.books().total - before == 60 * COSTS["vectors"]


# --- what it may cost ----------------------------------------------------------------------------


@pytest.mark.spec("S4-2.3")
def test_a_budget_that_does_not_cover_it_is_told_before_anything_is_sent(place: Place):
    answer = asked(place, "painter", by=by(place, "broke"))
    assert answer.status == 402
    assert answer.json["result"]["error"]["code"] == "BudgetExceeded"
    plain = by(place, "broke").post("/v1/images/generations", {"model": "painter", "prompt": "x"})
    assert (plain.status, plain.json["error"]["code"]) == (402, "budget_exceeded")
    assert place.first.sent == []


def test_a_budget_is_used_up_by_the_piece(place: Place):
    """Five cents are one picture of four, and no second one."""
    poor = by(place, "poor")
    assert asked(place, "painter", by=poor).status == 200
    assert asked(place, "painter", by=poor).status == 402
    assert asked(place, "vectors", by=poor).status == 200


def test_what_is_reserved_is_free_again_when_it_failed(place: Place):
    place.play(status(500))
    before = len(place.first.sent)
    for _ in range(3):  # four cents of five each time
        assert asked(place, "vectors", by=by(place, "poor")).status == 502
    assert len(place.first.sent) - before == 3


@pytest.mark.spec("D16")
def test_who_has_a_budget_may_not_use_what_has_no_price(place: Place):
    poor = by(place, "poor")
    answer = place.operate("embeddings", {"model": "unpriced", "input": "x"}, by=poor)
    assert (answer.status, answer.json["result"]["error"]["code"]) == (403, "Forbidden")
    others = place.operate("embeddings", {"model": "unpriced", "input": "x"})
    assert others.status == 200
    row = place.row(others)
    assert (row["charge"], row["unpriced"]) == (0, True)


@pytest.mark.spec("D16")
def test_a_price_is_asked_only_of_those_who_can_do_it(place: Place):
    """A chat model of another provider has the same name and no price: nobody is going to ask it."""
    answer = place.operate("embeddings", {"model": "mixed", "input": "x"}, by=by(place, "poor"))
    assert answer.status == 200, answer.raw


def test_calls_of_a_minute_are_counted_over_all_operations(place: Place):
    hasty = by(place, "hasty")
    assert asked(place, "vectors", by=hasty).status == 200
    assert asked(place, "painter", by=hasty).status == 200
    answer = asked(place, "voice", by=hasty)
    assert (answer.status, answer.json["result"]["error"]["code"]) == (429, "RateLimited")
    plain = hasty.post("/v1/embeddings", {"model": "vectors", "input": "x"})
    assert plain.status == 429
    row = place.row(plain)
    assert (row["operation"], row["requested_model"], row["http_status"]) == (
        "embeddings",
        "vectors",
        429,
    )


def test_tokens_of_a_minute_are_counted(place: Place):
    wordy = by(place, "wordy")
    long = {"model": "vectors", "input": "word " * 100}
    assert wordy.post("/v1/embeddings", long).status == 429
    assert wordy.post("/v1/embeddings", {"model": "vectors", "input": "x"}).status == 200
    assert len(place.first.sent) == 1


# --- what failed ---------------------------------------------------------------------------------


@pytest.mark.parametrize("model", PAYLOADS)
@pytest.mark.parametrize(
    ("act", "code"),
    [
        (status(500), 502),
        (status(400), 400),
        (status(429), 502),
        (says(b"?", "application/json"), 502),
        (says(b"", "application/json"), 502),
    ],
    ids=["500", "400", "429", "garbage", "nothing"],
)
def test_what_failed_costs_nothing(place: Place, model: str, act: Behaviour, code: int):
    place.play(act)
    answer = asked(place, model)
    assert answer.status == code, answer.raw
    row = place.row(answer)
    assert (row["status"], row["charge"]) == ("error", 0)
    assert row["http_status"] == code
    assert row["error_code"]


@pytest.mark.parametrize(
    ("operation", "payload"),
    [
        ("embeddings", {"model": "vectors", "input": "x"}),
        ("text_to_speech", {"model": "voice", "input": "x"}),
        ("chat_completions", {"model": "chatty", "messages": [{"role": "user", "content": "x"}]}),
    ],
)
def test_patience_that_ended_costs_nothing(place: Place, operation: str, payload: Json):
    place.play(silent)
    answer = place.operate(operation, payload, timeout_ms=100)
    row = place.row(answer)
    assert (row["status"], row["http_status"], row["charge"]) == ("error", 504, 0)


def test_a_refusal_is_in_the_log_and_costs_nothing(place: Place):
    answer = place.operate("embeddings", {"model": "vectors"})
    row = place.row(answer)
    assert (row["status"], row["http_status"], row["error_code"]) == (
        "error",
        400,
        "invalid_request",
    )
    assert (row["operation"], row["protocol"], row["requested_model"]) == (
        "embeddings",
        "operations",
        "vectors",
    )


@pytest.mark.spec("S4-2.1")
def test_a_chat_in_an_envelope_is_a_chat_in_the_log(place: Place):
    chat = {"model": "chatty", "messages": [{"role": "user", "content": "x"}]}
    good = place.operate("chat_completions", chat)
    row = place.row(good)
    assert (row["operation"], row["protocol"], row["status"]) == (
        "chat_completions",
        "operations",
        "success",
    )
    assert (row["input_tokens"], row["output_tokens"]) == (12, 4)
    place.play(status(500))
    bad = place.operate("chat_completions", chat)
    assert place.row(bad)["status"] == "error"
    refused = place.operate("chat_completions", {"model": "chatty", "messages": [7]})
    assert refused.status == 400
    assert place.row(refused)["http_status"] == 400


# --- a caller that leaves ------------------------------------------------------------------------


@pytest.mark.spec("T18")
def test_a_caller_that_leaves_in_the_middle_of_the_sound_pays_for_it(place: Place):
    place.play(sound_then(rest))
    with place.open("/v1/audio/speech", {"model": "voice", "input": "Hello", "voice": "a"}) as line:
        name = line.response.getheader("x-request-id")
        line.read_until(lambda raw: len(raw) >= 2 * len(SOUND[0]))
    assert place.first.sent[0].closed.wait(25)
    row = place.row(name)
    assert (row["status"], row["http_status"], row["charge"]) == ("cancelled", 499, COSTS["voice"])


@pytest.mark.spec("T18")
def test_a_caller_that_leaves_before_the_sound_has_caused_it_all_the_same(place: Place):
    place.play(no_sound)
    with place.open("/v1/audio/speech", {"model": "voice", "input": "Hello", "voice": "a"}):
        sent = place.first.next_exchange()
    assert sent.closed.wait(25)
    (row,) = [row for row in _rows(place) if row["status"] == "cancelled" and row["charge"]][-1:]
    assert row["charge"] == COSTS["voice"]


def _rows(place: Place) -> list[Json]:
    place.assert_nothing_is_left()
    return sorted(place.books().logs.values(), key=lambda row: row["created_at"])


def test_an_upload_that_is_not_paid_for_is_not_sent(place: Place):
    """Large files are taken in before the budget is known; they do not go out."""
    boundary = "b0undary"
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="model"\r\n\r\ndear\r\n'
    prompt = f'--{boundary}\r\nContent-Disposition: form-data; name="prompt"\r\n\r\nx\r\n'
    file = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\n'
        "Content-Type: image/png\r\n\r\n"
    )
    data = (head + prompt + file).encode() + PNG + f"\r\n--{boundary}--\r\n".encode()
    poor = by(place, "broke")
    headers = {**poor.headers, "content-type": f"multipart/form-data; boundary={boundary}"}
    answer = poor.send("POST", "/v1/images/edits", data, headers)
    assert (answer.status, place.first.sent) == (402, [])
    assert json.loads(answer.raw)["error"]["code"] == "budget_exceeded"
