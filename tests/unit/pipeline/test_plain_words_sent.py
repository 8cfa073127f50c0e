"""A request of plain words goes out as the caller wrote it; what encoding would have written is the same."""

import json

import msgspec
import pytest

from fakes.bench import Bench, provider
from monoize.pipeline.attempt import Attempt
from monoize.protocol import protocol
from monoize.urp import Losses, renamed
from monoize.wirejson import Unread

WORDS = {
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "é 🌏"}],
    "temperature": 1,
    "max_tokens": 100,
}


def raw_of(wire):
    return json.dumps(wire, indent=1).encode()  # bytes that no encoder of ours would write


@pytest.fixture(params=[False, True], ids=["decoded", "passing"])
def sent(request):
    """`passing`: read from its bytes by its shape, as the doors do where no rule looks inside."""

    async def sent(model, wire=WORDS, **models):
        bench = Bench({"providers": [provider("p", models=models or {"m": {}})]})
        incoming = bench.incoming({"model": model, **wire})
        raw = raw_of(incoming.wire)
        incoming = msgspec.structs.replace(incoming, raw=raw)
        plain = protocol("chat_completion").passing_request(raw) if request.param else None
        if plain is not None:
            incoming = msgspec.structs.replace(incoming, plain=plain, wire=Unread(raw))
        return bench, await bench.send(incoming)

    return sent


@pytest.mark.spec("PIPE-1")
async def test_the_callers_own_bytes_are_sent(sent, monkeypatch):
    monkeypatch.setattr(Attempt, "encoded", None)  # nobody encodes
    bench, reply = await sent("m")
    assert bench.sent[0].call.body == raw_of({"model": "m", **WORDS})
    assert bench.sent[0].call.url == "http://p/v1/chat/completions"
    assert reply.headers["x-monoize-translation"] == "lossless"


async def test_only_the_name_of_the_model_is_another(sent, monkeypatch):
    expected = protocol("chat_completion").encode_request(
        renamed(protocol("chat_completion").decode_request({"model": "m", **WORDS}), "upstream"),
        Losses(),
    )
    monkeypatch.setattr(Attempt, "encoded", None)
    bench, _ = await sent("m", m={"redirect": "upstream"})
    assert bench.sent[0].body == expected.body
    assert list(bench.sent[0].body) == list(expected.body)


@pytest.mark.parametrize(
    "more",
    [
        {"stream": True},  # the gateway asks for the usage, asked or not
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
    ],
)
async def test_everything_else_is_encoded(sent, monkeypatch, more):
    seen = []
    encoded = Attempt.encoded
    monkeypatch.setattr(Attempt, "encoded", lambda self: seen.append(1) or encoded(self))
    bench, reply = await sent("m", {**WORDS, **more})
    assert seen
    assert reply.status == 200
    assert more.items() <= bench.sent[0].body.items()


async def test_half_a_character_is_sent_under_another_name(sent):
    wire = {"messages": [{"role": "user", "content": "x\ud83d"}]}
    bench, _ = await sent("m", wire, m={"redirect": "upstream"})
    assert bench.sent[0].body == {"model": "upstream", **wire}


@pytest.mark.spec("MSUF-1")
async def test_what_is_written_anew_for_an_effort_keeps_its_messages_as_they_came(sent):
    words = [{"content": "x", "role": "user"}]
    bench, _ = await sent("m-high", {"messages": words})
    body = bench.sent[0].body
    assert (body["model"], body["reasoning_effort"]) == ("m", "high")
    assert json.dumps(body["messages"]) == json.dumps(words)
