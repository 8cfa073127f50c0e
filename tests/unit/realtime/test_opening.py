"""Who holds a session: a provider that has the model for it, or this machine; and what a provider is asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fakes.bench import Bench, provider
from fakes.operation_engines import Speaker
from fakes.realtime import FakeLine, FakeListeners
from monoize.errors import Forbidden, ModelNotFound, MonoizeError, NoBackend, UpstreamExhausted
from monoize.realtime.opening import Opener, _AtProvider, _Here
from monoize.routing.capability import of_engines
from monoize.routing.catalog import Catalog
from monoize.settings.realtime import RealtimeSettings
from monoize.upstream.websocket import (
    Closed,
    HandshakeRefused,
    SocketCall,
    SocketClient,
    UpstreamSocket,
)

pytestmark = pytest.mark.spec("S4-2.1", "D27")

SESSION = {"type": "realtime", "object": "realtime.session", "id": "s", "model": "x"}
CREATED = json.dumps({"type": "session.created", "event_id": "e", "session": SESSION})


class FakeSocket(UpstreamSocket):
    def __init__(self, *frames: str | bytes | Closed) -> None:
        self.frames = [*frames, Closed(1000)]
        self.closed = 0

    async def receive(self) -> str | bytes | Closed:
        return self.frames.pop(0)

    async def send(self, frame: str | bytes) -> None:
        return

    async def close(self, code: int = 1000, reason: str = "") -> None:
        self.closed += 1


class FakeSockets(SocketClient):
    """Gives what it was given, one after the other; an exception is raised."""

    def __init__(self, *found: FakeSocket | Exception) -> None:
        self.found = list(found)
        self.calls: list[SocketCall] = []

    async def open(self, call: SocketCall) -> UpstreamSocket:
        self.calls.append(call)
        found = self.found.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


def opener(made: Bench, sockets: FakeSockets, model: str = "m", **more: Any) -> Opener:
    headers = more.pop("headers", {})
    return Opener(
        incoming=made.incoming({"model": model}, headers=headers, key=more.pop("key", None)),
        model=model,
        ceiling=None,
        kit=made.kit,
        settings=RealtimeSettings(**more.pop("settings", {})),
        sockets=sockets,
        listeners=more.pop("listeners", FakeListeners()),
        no_listeners="nothing listens",
    )


async def test_a_provider_with_the_model_holds_the_session():
    row = provider("there", models={"m": {"redirect": "their model/1"}})
    row["channels"][0] |= {
        "base_url": "https://there/openai/v1",
        "headers": {"X-Org": "ours"},
        "forward_headers": ["x-trace"],
        "proxy": "http://proxy:1",
    }
    made = Bench({"providers": [row]})
    sockets = FakeSockets(FakeSocket(CREATED))
    headers = {"x-trace": "1", "x-other": "2", "openai-beta": "realtime=v1"}
    session = await opener(made, sockets, headers=headers).opened()
    assert isinstance(session, _AtProvider)
    (call,) = sockets.calls
    assert call.url == "wss://there/openai/v1/realtime?model=their%20model%2F1"
    assert call.headers == {
        "authorization": "Bearer sk-there",
        "openai-beta": "realtime=v1",
        "x-trace": "1",
        "x-org": "ours",
    }
    assert call.proxy == "http://proxy:1"
    line = FakeLine()
    assert (await session.run(line)).code == 1000
    assert line.sent[0]["session"]["model"] == "m"


async def test_a_session_that_nobody_runs_is_closed():
    made, socket = Bench({"providers": [provider("there")]}), FakeSocket(CREATED)
    session = await opener(made, FakeSockets(socket)).opened()
    await session.abandon()
    assert socket.closed == 1


@pytest.mark.parametrize(
    "found",
    [
        HandshakeRefused(503, {}),
        HandshakeRefused(302, {}),
        HandshakeRefused(200, {}),
        FakeSocket(),
        FakeSocket(b"binary"),
        FakeSocket(json.dumps({"type": "error", "error": {"type": "server_error"}})),
        FakeSocket('{"type":"error"}'),
    ],
)
async def test_the_next_provider_is_asked_and_nothing_is_left_of_the_first(found):
    made = Bench({"providers": [provider("one"), provider("two")]})
    sockets = FakeSockets(found, FakeSocket(CREATED))
    session = await opener(made, sockets).opened()
    assert session.headers["x-monoize-provider"] == "two"
    assert getattr(found, "closed", 1) == 1


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"type": "invalid_request_error", "code": "model_not_found", "message": "no"}, 404),
        ({"type": "invalid_request_error", "code": None, "message": "no"}, 400),
        ({"type": "authentication_error", "message": "no sk-one"}, 401),
    ],
)
async def test_a_providers_own_no_is_not_asked_of_others(error, status):
    made = Bench({"providers": [provider("one"), provider("two")]})
    sockets = FakeSockets(FakeSocket(json.dumps({"type": "error", "error": error})))
    with pytest.raises(MonoizeError) as refused:
        await opener(made, sockets).opened()
    assert refused.value.http_status == status
    assert len(sockets.calls) == 1


async def test_nobody_left_is_502():
    made = Bench({"providers": [provider("one"), provider("two")]})
    sockets = FakeSockets(HandshakeRefused(500, {}), HandshakeRefused(429, {"retry-after": "3"}))
    with pytest.raises(UpstreamExhausted):
        await opener(made, sockets).opened()


@pytest.mark.parametrize("kind", ["messages", "gemini"])
async def test_a_chat_model_of_a_provider_without_sessions_is_held_here(kind):
    made = Bench({"providers": [provider("there", kind)]})
    sockets = FakeSockets()
    session = await opener(made, sockets).opened()
    assert isinstance(session, _Here)
    assert sockets.calls == []


async def test_what_is_not_to_be_had_here_is_known_from_the_beginning():
    made = Bench({"providers": [provider("there", "messages")]})
    session = await opener(made, FakeSockets()).opened()
    state = session._state
    assert set(state.lacks) == {"ears", "voice", "turns"}
    assert (state.config.modality, state.config.turn_detection) == ("text", None)


async def test_who_hears_and_speaks_is_found_and_shown():
    ears = {"capabilities": {"operations": ["speech_to_text"]}}
    rows = [
        provider("there", "messages"),
        provider("ears", models={"whisper": ears}),
        {"id": "voice", "type": "local", "engine": "speaker", "models": {"here": {}}},
    ]
    rows[2]["channels"] = [{"id": "engine"}]
    made = Bench({"providers": rows})
    speaker = Speaker()
    catalog = Catalog(made.settings.providers, of_engines({"speaker": Speaker}))
    made.use(catalog=catalog, local={"speaker": speaker})
    session = await opener(made, FakeSockets(), settings={"voices": {"alloy": "nobody"}}).opened()
    config = session._state.config
    assert config.transcription.model == "whisper"
    assert config.voice == speaker.voices()[0]
    assert config.turn_detection is not None
    assert session._state.lacks == {}
    assert session._state.voices.known == speaker.voices()


async def test_without_anybody_who_listens_turns_are_committed_by_hand():
    ears = {"capabilities": {"operations": ["speech_to_text"]}}
    rows = [provider("there", "messages"), provider("ears", models={"whisper": ears})]
    session = await opener(Bench({"providers": rows}), FakeSockets(), listeners=None).opened()
    assert session._state.lacks["turns"] == "nothing listens"
    assert session._state.config.turn_detection is None


# --- refusals ---


async def test_an_unknown_model_is_not_found():
    with pytest.raises(ModelNotFound):
        await opener(Bench({"providers": [provider("there")]}), FakeSockets(), "other").opened()


async def test_a_model_that_neither_chats_nor_speaks_says_who_was_looked_at():
    row = provider("there", capabilities={"operations": ["embeddings"]})
    with pytest.raises(NoBackend) as refused:
        await opener(Bench({"providers": [row]}), FakeSockets()).opened()
    assert refused.value.rejected == {"there": "missing operation: realtime_voice"}


async def test_a_key_that_may_not_use_the_model_is_refused():
    key = {"name": "k", "key": "sk-0123456789", "models": ["other"]}
    made = Bench({"providers": [provider("there")], "keys": [key]})
    with pytest.raises(Forbidden):
        await opener(made, FakeSockets(), key="k").opened()
