"""Stored media in chat requests of every protocol, for providers of every protocol."""

from __future__ import annotations

import base64
import json
import re
from itertools import product
from typing import Any

import pytest

from fakes.far_host import FarHost, answers, listening, reply
from fakes.media_parts import FILES, PARTS, answered, chat, said, takes
from fakes.media_shelf import MemoryShelf
from monoize.errors import Forbidden, InvalidRequest, PayloadTooLarge
from monoize.media.desk import MediaDesk
from monoize.media.fetch import Fetcher
from monoize.media.resolve import Known, resolved
from monoize.protocol import protocol, protocol_ids
from monoize.settings import MediaSettings
from monoize.urp import (
    Audio,
    Base64,
    File,
    FileId,
    Image,
    Losses,
    Message,
    Part,
    Role,
    ToolCall,
    ToolResult,
    Url,
    UrpRequest,
)

Json = dict[str, Any]
ME, STRANGER = "user:me", "user:stranger"
CALLERS = ("chat_completion", "responses", "messages", "gemini")


def lit(*kinds: str) -> tuple[MemoryShelf, dict[str, str]]:
    shelf = MemoryShelf(chunk=7)
    return shelf, {kind: shelf.lay(ME, *FILES[kind]) for kind in kinds or FILES}


def desk(shelf: MemoryShelf, fetcher: Fetcher | None = None, **settings: Any) -> MediaDesk:
    chosen = MediaSettings(**settings)
    return MediaDesk(shelf, chosen, fetcher or Fetcher(chosen.http_urls))


def decoded(caller: str, wire: Json) -> UrpRequest:
    return protocol(caller).decode_request({"model": "gemini-3-pro", **wire}, model="gemini-3-pro")


CASES = [
    (caller, kind, place, target)
    for caller, kind, target in product(CALLERS, FILES, protocol_ids())
    for place in range(len(PARTS[caller](kind, "")))
]


@pytest.mark.spec("S4-3.5", "D30")
@pytest.mark.parametrize(("caller", "kind", "place", "target"), CASES)
async def test_a_stored_file_reaches_every_provider_as_bytes(
    caller: str, kind: str, place: int, target: str
):
    shelf, uris = lit(kind)
    request = decoded(caller, said(caller, PARTS[caller](kind, uris[kind])[place]))
    losses = Losses()
    found = await resolved(request, ME, desk(shelf), target)
    body = json.dumps(protocol(target).encode_request(found, losses).body)
    data, mime = FILES[kind]
    there = base64.b64encode(data).decode() in body
    assert there == takes(target, caller, kind), body
    assert "smsfile" not in body
    assert body.index("look") < body.index("well?")
    if there:
        # of the type that it was stored with
        assert re.search(rf'{mime}[";]|"format": "wav"', body), body
        assert not [path for path in losses.dropped if path.endswith("parts[1]")]
    else:
        assert losses.dropped == ("messages[0].parts[1]",)
    assert shelf.read == [uris[kind][10:]]


@pytest.mark.spec("T27", "S4-3.5")
@pytest.mark.parametrize(
    ("caller", "kind", "place", "target"), [case for case in CASES if case[1] != "audio"]
)
async def test_so_does_one_that_a_tool_gave(caller: str, kind: str, place: int, target: str):
    shelf, uris = lit(kind)
    request = decoded(caller, answered(caller, PARTS[caller](kind, uris[kind])[place]))
    losses = Losses()
    found = await resolved(request, ME, desk(shelf), target)
    body = json.dumps(protocol(target).encode_request(found, losses).body)
    assert base64.b64encode(FILES[kind][0]).decode() in body
    assert "smsfile" not in body
    assert "here" in body
    assert "go" in body


# --- what is touched, and what is not ------------------------------------------------------------


@pytest.mark.spec("S4-3.5")
@pytest.mark.parametrize("caller", CALLERS)
async def test_a_request_without_references_is_the_very_same_and_nothing_is_read(caller: str):
    shelf, _ = lit()
    data = base64.b64encode(b"smsfile:// is only a word here").decode()
    for part in PARTS[caller]("image", "https://example.org/a.png")[:1]:
        request = decoded(caller, said(caller, part))
        for target in protocol_ids():
            with listening() as heard:
                assert await resolved(request, ME, desk(shelf), target) is request
            assert heard.connections == []
    plain = Message(role=Role.USER, parts=(Image(media=Base64(data=data, media_type="image/png")),))
    request = UrpRequest(model="m", messages=(plain,))
    assert await resolved(request, ME, desk(shelf), "messages") is request
    assert shelf.read == []


@pytest.mark.spec("S4-3.5")
@pytest.mark.parametrize("caller", CALLERS)
async def test_only_the_message_with_the_reference_is_written_anew(caller: str):
    shelf, uris = lit("image")
    wire = said(caller, PARTS[caller]("image", uris["image"])[0])
    listed = next(name for name in ("messages", "input", "contents") if name in wire)
    key = "parts" if caller == "gemini" else "content"
    odd = {"role": "user", key: [{"text": "hi", "type": "input_text", "odd": 1}], "strange": [None]}
    if caller in ("chat_completion", "messages"):
        odd[key][0]["type"] = "text"
    wire[listed].append(odd)
    request = decoded(caller, wire)
    found = await resolved(request, ME, desk(shelf), caller)
    assert found.messages[1] is request.messages[1]
    (first, second) = protocol(caller).encode_request(found, Losses()).body[listed]
    assert second is odd  # byte for byte
    before = wire[listed][0][key]
    assert [first[key][0], first[key][2]] == [before[0], before[2]]  # the parts beside it as well
    assert first[key][1] != before[1]
    assert "smsfile" in json.dumps(before)  # and what the caller sent is as it was


@pytest.mark.spec("S4-3.5")
async def test_what_stands_beside_the_data_stays():
    shelf, uris = lit("image", "file")
    mark = {"cache_control": {"type": "ephemeral"}}
    source = {"type": "url", "url": uris["file"]}
    part = {"type": "document", "source": source, "title": "t", "context": "c", **mark}
    request = decoded("messages", said("messages", part))
    found = await resolved(request, ME, desk(shelf), "messages")
    body = protocol("messages").encode_request(found, Losses()).body
    data = base64.b64encode(FILES["file"][0]).decode()
    inline = {"type": "base64", "media_type": "application/pdf", "data": data}
    assert body["messages"][0]["content"][1] == {**part, "source": inline}
    held = {"fileUri": uris["image"], "mimeType": "image/png", "displayName": "d"}
    part = {"fileData": held, "videoMetadata": {"fps": 1}}
    request = decoded("gemini", said("gemini", part))
    found = await resolved(request, ME, desk(shelf), "gemini")
    body = protocol("gemini").encode_request(found, Losses()).body
    data = base64.b64encode(FILES["image"][0]).decode()
    assert body["contents"][0]["parts"][1] == {
        "inlineData": {"mimeType": "image/png", "data": data, "displayName": "d"},
        "videoMetadata": {"fps": 1},
    }


async def test_a_file_of_which_nothing_was_said_is_what_its_type_says():
    shelf, uris = lit()
    for kind, made in (("image", Image), ("audio", Audio), ("file", File)):
        part: Part = File(media=FileId(protocol="gemini", id=uris[kind]))
        request = UrpRequest(model="m", messages=(Message(role=Role.USER, parts=(part,)),))
        found = (await resolved(request, ME, desk(shelf), "messages")).messages[0].parts[0]
        assert type(found) is made
        named = File(media=Url(url=uris[kind]), filename="a")  # a name says that it is a file
        request = UrpRequest(model="m", messages=(Message(role=Role.USER, parts=(named,)),))
        found = (await resolved(request, ME, desk(shelf), "messages")).messages[0].parts[0]
        assert type(found) is File


@pytest.mark.parametrize(
    ("stored", "data", "said_type", "sent"),
    [
        ("image/png", b"x", "image/gif", "image/png"),
        ("text/plain; charset=utf-8", b"x", None, "text/plain"),
        ("application/octet-stream", b"x", "image/gif", "image/gif"),
        ("application/octet-stream", b"GIF89a", "image/png", "image/gif"),
        ("application/octet-stream", b"x", None, "application/octet-stream"),
    ],
)
async def test_the_stored_type_counts_where_it_says_something(
    stored: str, data: bytes, said_type: str | None, sent: str
):
    shelf = MemoryShelf()
    part = Image(media=Url(url=shelf.lay(ME, data, stored), media_type=said_type))
    request = UrpRequest(model="m", messages=(Message(role=Role.USER, parts=(part,)),))
    (message,) = (await resolved(request, ME, desk(shelf), "gemini")).messages
    assert message.parts[0].media == Base64(data=base64.b64encode(data).decode(), media_type=sent)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 6, 7, 8, 20, 21, 22, 1000])
async def test_base64_does_not_depend_on_how_the_bytes_come(size: int):
    shelf = MemoryShelf(chunk=7)
    data = bytes(number % 251 for number in range(size))
    part = Image(media=Url(url=shelf.lay(ME, data, "image/png").replace("smsfile", "SmsFile")))
    request = UrpRequest(model="m", messages=(Message(role=Role.USER, parts=(part,)),))
    (message,) = (await resolved(request, ME, desk(shelf), "gemini")).messages
    assert base64.b64decode(message.parts[0].media.data, validate=True) == data


# --- whose they are, and how much ----------------------------------------------------------------


@pytest.mark.spec("S4-3.5", "D29")
@pytest.mark.parametrize("caller", CALLERS)
async def test_a_strangers_media_are_answered_like_media_that_do_not_exist(caller: str):
    shelf = MemoryShelf()
    theirs = shelf.lay(STRANGER, b"secret", "image/png")
    said_of = set()
    for uri in (theirs, f"{theirs[:-1]}9"):
        request = decoded(caller, said(caller, PARTS[caller]("image", uri)[0]))
        for target in protocol_ids():
            with pytest.raises(InvalidRequest) as refused:
                await resolved(request, ME, desk(shelf), target)
            error = refused.value
            message = error.message.replace(uri[10:], "…")
            said_of.add((message, error.param, error.error_code, error.http_status))
    place = "messages[0].parts[1]"
    assert said_of == {(f"{place}: there is no media '…'", place, "media_not_found", 400)}
    assert shelf.read == []


@pytest.mark.spec("S4-3.5")
async def test_one_request_reads_only_so_much():
    shelf = MemoryShelf()
    uris = [shelf.lay(ME, bytes(400), "image/png") for _ in range(3)]

    def asking(*named: str) -> UrpRequest:
        parts = tuple(Image(media=Url(url=uri)) for uri in named)
        return UrpRequest(model="m", messages=(Message(role=Role.USER, parts=parts),))

    await resolved(asking(*uris[:2]), ME, desk(shelf, resolve_bytes=800), "messages")
    shelf.read.clear()
    for named in (uris, [uris[0]] * 3):  # it is sent as often as it is named
        with pytest.raises(PayloadTooLarge, match="1000 bytes") as refused:
            await resolved(asking(*named), ME, desk(shelf, resolve_bytes=1000), "messages")
        assert refused.value.param == "messages[0].parts[2]"
    with pytest.raises(PayloadTooLarge):
        await resolved(asking(uris[0]), ME, desk(shelf, resolve_bytes=399), "messages")
    assert shelf.read == [
        uris[0][10:],
        uris[1][10:],
        uris[0][10:],
    ]  # what is too large is not begun


async def test_a_file_that_is_named_twice_is_read_once():
    shelf, uris = lit("image")
    message = Message(role=Role.USER, parts=(Image(media=Url(url=uris["image"])),) * 2)
    request = UrpRequest(model="m", messages=(message, message))
    found = await resolved(request, ME, desk(shelf), "messages")
    assert len({part.media.data for message in found.messages for part in message.parts}) == 1
    assert len(shelf.read) == 1


async def test_another_attempt_of_the_same_call_reads_nothing_again():
    shelf, uris = lit("image")
    request = decoded("chat_completion", said("chat_completion", chat("image", uris["image"])[0]))
    known: Known = {}
    first = await resolved(request, ME, desk(shelf), "messages", known)
    second = await resolved(request, ME, desk(shelf), "gemini", known)
    assert first.messages == second.messages
    assert len(shelf.read) == 1
    with pytest.raises(PayloadTooLarge):  # what is known counts as well
        await resolved(request, ME, desk(shelf, resolve_bytes=9), "gemini", known)


@pytest.mark.parametrize(
    "kind", ["audio/mpeg", "audio/mp3", "audio/wav", "audio/x-wav", "audio/wave"]
)
async def test_a_sound_has_the_vendors_word_for_its_format(kind: str):
    shelf = MemoryShelf()
    uri = shelf.lay(ME, b"x", kind)
    for caller, listed in (("responses", "input"), ("chat_completion", "messages")):
        request = decoded(caller, said(caller, PARTS[caller]("audio", uri)[0]))
        found = await resolved(request, ME, desk(shelf), caller)
        sound = protocol(caller).encode_request(found, Losses()).body[listed][0]["content"][1]
        assert sound["input_audio"]["format"] == ("mp3" if "p" in kind else "wav")


# --- addresses -----------------------------------------------------------------------------------

REMOTE: tuple[Image | Audio | File, ...] = tuple(
    made(media=Url(url=f"https://example.org/{n}", media_type=mime))
    for n, (made, mime) in enumerate(
        (
            *((Image, None), (Image, "image/png"), (Audio, None), (Audio, "audio/wav")),
            *((File, None), (File, "application/pdf"), (File, "text/plain"), (File, "text/csv")),
            *((File, "application/json"), (File, "image/png"), (File, "application/zip")),
            *((File, "video/mp4"), (File, "audio/mp3")),
        )
    )
)


def loses(target: str, part: Part) -> bool:
    request = UrpRequest(model="m", messages=(Message(role=Role.USER, parts=(part,)),))
    losses = Losses()
    protocol(target).encode_request(request, losses)
    return "messages[0].parts[0]" in losses.dropped


@pytest.mark.spec("D30")
@pytest.mark.parametrize("target", protocol_ids())
@pytest.mark.parametrize("part", REMOTE)
def test_a_protocol_says_rightly_that_it_takes_only_bytes(target: str, part: Image | Audio | File):
    """What it says of itself is what its encoder does."""
    assert part.media is not None
    usual = {Image: "image/png", Audio: "audio/wav", File: "application/pdf"}[type(part)]
    data = Base64(
        data=base64.b64encode(b"words").decode(), media_type=part.media.media_type or usual
    )
    in_bytes = type(part)(media=data)
    assert protocol(target).takes_only_bytes(part) == (
        loses(target, part) and not loses(target, in_bytes)
    )


@pytest.mark.spec("D30")
async def test_an_address_goes_on_untouched_where_the_provider_fetches_it_itself():
    async with FarHost() as host:
        for caller, target in product(CALLERS, protocol_ids()):
            request = decoded(caller, said(caller, PARTS[caller]("image", host.url())[0]))
            found = await resolved(request, ME, desk(MemoryShelf(), host.fetcher()), target)
            assert found is request
    assert host.heads == []


@pytest.mark.spec("D30")
async def test_an_address_is_fetched_where_only_bytes_are_taken_and_is_not_stored():
    shelf = MemoryShelf()
    async with FarHost() as host:
        host.replies["/a"] = reply(FILES["file"][0], content_type="application/pdf")
        part = {"type": "document", "source": {"type": "url", "url": host.url()}, "title": "a.pdf"}
        request = decoded("messages", said("messages", part))
        found = await resolved(request, ME, desk(shelf, host.fetcher()), "chat_completion")
        losses = Losses()
        body = protocol("chat_completion").encode_request(found, losses).body
        assert await resolved(request, ME, desk(shelf, host.fetcher()), "messages") is request
    data = base64.b64encode(FILES["file"][0]).decode()
    assert body["messages"][0]["content"][1] == {
        "type": "file",
        "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{data}"},
    }
    assert not losses.dropped
    assert host.paths == ["/a"]
    assert shelf.files == {}  # wire calls are never stored (D29)


@pytest.mark.spec("D30")
async def test_where_fetching_is_switched_off_the_loss_is_reported_as_ever():
    part = {"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}}
    request = decoded("messages", said("messages", part))
    found = await resolved(request, ME, desk(MemoryShelf()), "chat_completion")
    losses = Losses()
    protocol("chat_completion").encode_request(found, losses)
    assert (found, losses.dropped) == (request, ("messages[0].parts[1]",))


@pytest.mark.spec("D30", "LL#24952")
async def test_the_policy_holds_for_addresses_in_chat():
    async with FarHost() as host:
        for fetcher, url in (
            (host.fetcher(answers("10.0.0.1")), host.url()),
            (host.fetcher(hosts=["other.example.org"]), host.url()),
            (host.fetcher(), "http://127.0.0.1/"),
        ):
            part = {"type": "document", "source": {"type": "url", "url": url}}
            request = decoded("messages", said("messages", part))
            with listening() as heard, pytest.raises(Forbidden) as refused:
                await resolved(request, ME, desk(MemoryShelf(), fetcher), "chat_completion")
            assert refused.value.message == "messages[0].parts[1]: this address may not be fetched"
            assert heard.connections == []


@pytest.mark.spec("D30")
async def test_a_request_fetches_only_so_many_addresses():
    async with FarHost() as host:
        host.replies |= {f"/{n}": reply(b"x", content_type="audio/wav") for n in range(20)}

        def asking(count: int) -> UrpRequest:
            parts = tuple(Audio(media=Url(url=host.url(f"/{n}"))) for n in range(count))
            twice = Message(role=Role.USER, parts=parts)  # again: nothing is fetched twice
            return UrpRequest(model="m", messages=(twice, twice))

        chosen = desk(MemoryShelf(), host.fetcher())
        await resolved(asking(16), ME, chosen, "chat_completion")
        assert len(host.heads) == 16
        with pytest.raises(InvalidRequest, match="16 addresses"):
            await resolved(asking(17), ME, chosen, "chat_completion")


async def test_parts_that_are_no_media_are_not_looked_at():
    shelf, _ = lit()
    message = Message(
        role=Role.TOOL,
        parts=(
            ToolResult(call_id="smsfile://a"),
            ToolCall(call_id="a", name="smsfile://a", arguments='{"a": "smsfile://a"}'),
            Audio(media=None, id="smsfile://a"),
        ),
    )
    request = UrpRequest(model="m", messages=(message,))
    assert await resolved(request, ME, desk(shelf), "messages") is request
