"""Stored media in chat calls through the whole pipeline: every protocol of a caller, every protocol of a provider."""

from __future__ import annotations

import base64
import json
from itertools import product
from typing import Any

import msgspec
import pytest

from fakes.bench import Bench, Said, Sent, provider, status
from fakes.caller import CALLERS, Reply, assert_error_dialect, body
from fakes.far_host import FarHost, listening, reply
from fakes.media_parts import FILES, PARTS, answered, said, takes
from fakes.media_shelf import MemoryShelf
from monoize.errors import MonoizeError
from monoize.media.desk import MediaDesk
from monoize.media.fetch import Fetcher
from monoize.media.owner import owner_of
from monoize.protocol import protocol, protocol_ids
from monoize.settings import MediaSettings

Json = dict[str, Any]
KEYS = [
    {"name": "me", "key": "sk-me-0123456789abcdef", "username": "me"},
    {"name": "stranger", "key": "sk-stranger-0123456789abcdef", "username": "stranger"},
]


class MediaBench(Bench):
    """A provider of each protocol (`m-<protocol>`), and media in memory."""

    def __init__(self, fetcher: Fetcher | None = None, **settings: Any) -> None:
        rows = [provider(kind, kind, models={f"m-{kind}": {}}) for kind in protocol_ids()]
        super().__init__({"providers": rows, "keys": KEYS})
        chosen = MediaSettings(**settings)
        self.shelf = MemoryShelf()
        self.use(media=MediaDesk(self.shelf, chosen, fetcher or Fetcher(chosen.http_urls)))

    def lay(self, kind: str, key: str = "me") -> str:
        return self.shelf.lay(owner_of(self.caller(key)), *FILES[kind])

    async def call(self, caller: str, target: str, wire: Json, **more: Any) -> Reply:
        model = f"m-{target}"
        url = {"model": model, "stream": False} if caller == "gemini" else {}
        sent = body(caller, model) | wire
        incoming = self.incoming(sent, caller, key=more.pop("key", "me"), **url, **more)
        try:
            return await self.send(incoming)
        except MonoizeError as error:
            written = protocol(caller).encode_error(error, "req_1")
            kind = {"content-type": "application/json"}
            return Reply(error.http_status, kind, json.dumps(written).encode())


def data_of(kind: str) -> str:
    return base64.b64encode(FILES[kind][0]).decode()


@pytest.mark.spec("S4-3.5", "D30")
@pytest.mark.parametrize(
    ("caller", "kind", "target"), list(product(CALLERS, FILES, protocol_ids()))
)
async def test_every_provider_is_sent_the_bytes(caller: str, kind: str, target: str):
    for place in range(len(PARTS[caller](kind, ""))):
        bench = MediaBench()
        wire = said(caller, PARTS[caller](kind, bench.lay(kind))[place])
        answer = await bench.call(caller, target, wire)
        assert answer.status == 200, answer.raw
        (sent,) = bench.sent
        text = json.dumps(sent.body)
        assert (data_of(kind) in text) == takes(target, caller, kind)
        assert "smsfile" not in text
        assert "smsfile" in json.dumps(wire)  # what was logged and captured is the reference


@pytest.mark.spec("T27", "S4-3.5")
@pytest.mark.parametrize(("caller", "target"), list(product(CALLERS, protocol_ids())))
async def test_so_are_those_that_a_tool_gave(caller: str, target: str):
    bench = MediaBench()
    wire = answered(caller, PARTS[caller]("image", bench.lay("image"))[0])
    answer = await bench.call(caller, target, wire)
    assert answer.status == 200, answer.raw
    text = json.dumps(bench.sent[0].body)
    assert data_of("image") in text
    assert "smsfile" not in text


@pytest.mark.spec("S4-3.5")
@pytest.mark.parametrize(("caller", "target"), list(product(CALLERS, protocol_ids())))
async def test_a_strict_caller_loses_nothing_by_a_reference(caller: str, target: str):
    bench = MediaBench()
    wire = said(caller, PARTS[caller]("image", bench.lay("image"))[0])
    strict = {"x-monoize-strict": "true"}
    answer = await bench.call(caller, target, wire, headers=strict)
    assert (answer.status, answer.headers["x-monoize-translation"]) == (200, "lossless")


@pytest.mark.spec("S4-3.5", "D29")
@pytest.mark.parametrize(("caller", "target"), list(product(CALLERS, protocol_ids())))
async def test_a_strangers_media_are_answered_like_media_that_do_not_exist(
    caller: str, target: str
):
    bench = MediaBench()
    theirs = bench.lay("image", "stranger")
    answers = []
    for uri in (theirs, f"{theirs[:-1]}9"):
        answer = await bench.call(caller, target, said(caller, PARTS[caller]("image", uri)[0]))
        assert answer.status == 400
        assert_error_dialect(caller, answer)
        answers.append(answer.raw.replace(uri[10:].encode(), b"..."))
    assert answers[0] == answers[1]
    assert (bench.sent, bench.shelf.read) == ([], [])


@pytest.mark.spec("S4-3.5")
async def test_media_are_read_once_though_two_providers_are_asked():
    rows = [
        provider("first", "chat_completion", models={"m": {}}),
        provider("second", "messages", models={"m": {}}),
    ]
    bench = MediaBench()
    both = Bench({"providers": rows, "keys": KEYS}, {"first": status(500)})
    both.use(media=bench.kit.media)
    wire = said("gemini", PARTS["gemini"]("image", bench.lay("image"))[0])
    answer = await both.send(both.incoming(wire, "gemini", key="me", model="m", stream=False))
    assert answer.status == 200
    assert [sent.host for sent in both.sent] == ["first", "second"]
    assert all(data_of("image") in json.dumps(sent.body) for sent in both.sent)
    assert len(bench.shelf.read) == 1


@pytest.mark.spec("S4-3.5")
@pytest.mark.parametrize(
    "spelled", ["\\u0073msfile:", "smsfile\\u003a", "SMSFile:", "smsfile:\\/\\/"]
)
async def test_a_reference_is_one_however_json_spells_it(spelled: str):
    bench = MediaBench()
    wire = said("chat_completion", PARTS["chat_completion"]("image", bench.lay("image"))[0])
    raw = json.dumps(body("chat_completion", "m-chat_completion") | wire)
    old = "smsfile://" if spelled.endswith("/") else "smsfile:"
    raw = raw.replace(old, spelled)
    incoming = bench.incoming(json.loads(raw), key="me")
    incoming = msgspec.structs.replace(incoming, raw=raw.encode())
    assert (await bench.send(incoming)).status == 200
    assert data_of("image") in json.dumps(bench.sent[0].body)
    assert "smsfile" not in bench.sent[0].call.body.decode().lower()


@pytest.mark.spec("S4-3.5")
async def test_too_much_for_one_request_is_refused_before_anything_is_sent():
    bench = MediaBench(resolve_bytes=10)
    wire = said("messages", PARTS["messages"]("image", bench.lay("image"))[0])
    answer = await bench.call("messages", "gemini", wire)
    assert answer.status == 413
    assert_error_dialect("messages", answer)
    assert (bench.sent, bench.shelf.read) == ([], [])


async def test_tokens_are_counted_of_the_bytes():
    def counting(sent: Sent) -> Said:
        return Said(pieces=(json.dumps({"input_tokens": len(json.dumps(sent.body))}).encode(),))

    bench = MediaBench()
    bench.client.scripts["messages"] = counting
    wire = said("messages", PARTS["messages"]("image", bench.lay("image"))[0])
    sent = body("messages", "m-messages") | wire
    answer = await bench.count(bench.incoming(sent, "messages", key="me"))
    assert answer.status == 200, answer.raw
    assert data_of("image") in json.dumps(bench.sent[0].body)


@pytest.mark.spec("D30")
async def test_a_web_address_is_the_providers_to_fetch_unless_it_takes_only_bytes():
    async with FarHost() as host:
        host.replies["/a"] = reply(FILES["file"][0], content_type="application/pdf")
        bench = MediaBench(host.fetcher())
        wire = said("messages", PARTS["messages"]("file", host.url())[0])
        for target in ("messages", "responses", "gemini", "grok"):
            assert (await bench.call("messages", target, wire)).status == 200
            assert host.url() in json.dumps(bench.sent[-1].body)
        assert host.heads == []
        assert (await bench.call("messages", "chat_completion", wire)).status == 200
        assert data_of("file") in json.dumps(bench.sent[-1].body)
        assert host.paths == ["/a"]
    assert bench.shelf.files == {}


@pytest.mark.spec("D30")
async def test_where_nothing_is_fetched_the_loss_is_told():
    bench = MediaBench()
    wire = said("messages", PARTS["messages"]("file", "https://example.org/a.pdf")[0])
    with listening() as heard:
        answer = await bench.call("messages", "chat_completion", wire)
    assert answer.status == 200
    assert "messages[0].parts[1]" in answer.headers["x-monoize-translation"]
    assert heard.connections == []
