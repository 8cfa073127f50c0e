"""Canaries: secrets in every place where one may stand, and none of them in anything that leaves the gateway."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from fakes.caller import CALLERS, Caller, Reply, body, path
from fakes.gateway import GatewayProcess
from fakes.speakers import SPEAKERS
from fakes.upstream import Exchange, FakeUpstream

# No prefix that a pattern could know: these are found because they are known, or because nobody writes them down.
CANARY = "c4n4ry"
CALLER_KEY = f"{CANARY}/caller+0123456789"
OTHER_KEY = "a-second-caller-0123456789"


def channel_key(kind: str) -> str:
    return f"{CANARY}/channel+{kind}"


def header_key(kind: str) -> str:
    return f"{CANARY}.header.{kind}"


def _repeated(exchange: Exchange) -> str:
    """As providers do: "Incorrect API key provided: …", with the address that was called."""
    names = ("authorization", "x-api-key", "x-goog-api-key", "x-subscription-key")
    said = [exchange.headers[name] for name in names if name in exchange.headers]
    secret = said[0].removeprefix("Bearer ")
    return f"wrong key {' '.join(said)}; https://example.com/v1?key={quote(secret, safe='')}&a=b"


def _refuses(status: int):
    async def refuse(exchange: Exchange) -> None:
        await exchange.json(exchange.speaker.error(status, _repeated(exchange)), status)

    return refuse


async def says_plain_text(exchange: Exchange) -> None:
    await exchange.whole(_repeated(exchange).encode(), 500, "text/plain")


async def hides_in_a_200(exchange: Exchange) -> None:
    await exchange.json(exchange.speaker.error(503, _repeated(exchange)))


async def says_it_in_the_stream(exchange: Exchange) -> None:
    if not exchange.stream:
        await hides_in_a_200(exchange)
        return
    await exchange.open_stream()
    for frame in exchange.frames("text")[:3]:
        await exchange.chunk(frame)
    await exchange.chunk(exchange.speaker.error_frame(_repeated(exchange)))
    await exchange.end_stream()


async def answers_in_html(exchange: Exchange) -> None:
    await exchange.whole(f"<html>{_repeated(exchange)}</html>".encode(), 200, "text/html")


BEHAVIOURS = {
    **{f"refuses_{status}": _refuses(status) for status in (400, 401, 403, 429, 500, 503)},
    "says_plain_text": says_plain_text,
    "hides_in_a_200": hides_in_a_200,
    "says_it_in_the_stream": says_it_in_the_stream,
    "answers_in_html": answers_in_html,
}


def _config(upstream: FakeUpstream) -> dict:
    return {
        "server": {"host": "127.0.0.1"},
        "providers": [
            {
                "id": kind,
                "type": kind,
                "models": {f"{kind}.{name}": {"redirect": name} for name in BEHAVIOURS},
                "channels": [
                    {
                        "id": "main",
                        "base_url": upstream.base_url(kind),
                        "api_key": channel_key(kind),
                        "headers": {"x-subscription-key": header_key(kind)},
                    }
                ],
            }
            for kind in SPEAKERS
        ],
        "keys": [{"name": "one", "key": CALLER_KEY}, {"name": "two", "key": OTHER_KEY}],
        # Every call is to reach the provider and to fail there.
        "settings": {
            "health": {"failure_threshold": 100_000, "probe_enabled": False, "min_samples": 100_000}
        },
    }


@pytest.fixture(scope="module")
def provider() -> Iterator[FakeUpstream]:
    with FakeUpstream(BEHAVIOURS) as upstream:
        yield upstream
        assert not upstream.faults


@pytest.fixture(scope="module", params=["text", "json"])
def gateway(
    provider: FakeUpstream,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
):
    config = _config(provider)
    config["settings"]["logs"] = {"format": request.param}
    process = GatewayProcess(tmp_path_factory.mktemp("canary"), config)
    yield process
    process.stop()


@pytest.fixture
def caller(gateway: GatewayProcess) -> Caller:
    return Caller(gateway.port, {"authorization": f"Bearer {CALLER_KEY}"})


def _clean(reply: Reply) -> None:
    for text in (reply.raw.decode("utf-8", "replace"), str(reply.headers)):
        assert CANARY not in text


@pytest.mark.parametrize("name", BEHAVIOURS)
@pytest.mark.parametrize("kind", SPEAKERS)
@pytest.mark.spec("D18")
def test_a_provider_that_repeats_its_key_tells_it_to_nobody(
    gateway: GatewayProcess, caller: Caller, provider: FakeUpstream, kind: str, name: str
) -> None:
    provider.forget()
    replies = [
        caller.ask(protocol, f"{kind}.{name}", stream=stream)
        for protocol in CALLERS
        for stream in (False, True)
    ]
    assert len(provider.exchanges) == len(replies)
    assert CANARY in str(provider.last.headers)  # the canary lives
    for reply in replies:
        assert reply.status >= 400 or b"error" in reply.raw
        _clean(reply)
    assert CANARY not in gateway.log_text()


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {CANARY}-unknown"},
        {"authorization": f"Basic {CANARY}-unknown"},
        {"authorization": f"{CANARY}-unknown"},
        {"x-api-key": f"{CANARY}-unknown"},
        {"x-goog-api-key": f"{CANARY}-unknown"},
        {"cookie": f"session={CANARY}-unknown"},
        {"authorization": f"Bearer {CALLER_KEY}", "origin": f"https://{CANARY}.example"},
        {"x-monoize-strict": CANARY},
    ],
)
def test_what_a_refused_caller_sent_is_written_nowhere(
    gateway: GatewayProcess, caller: Caller, headers: dict[str, str]
) -> None:
    for protocol in CALLERS:
        target, wire = path(protocol, "x"), body(protocol, "x")
        reply = Caller(gateway.port, headers).post(target, wire)
        assert reply.status in (401, 403)
        if "origin" not in headers:
            _clean(reply)
    assert CANARY not in gateway.log_text()


def test_keys_in_addresses_and_bodies_are_written_nowhere(
    gateway: GatewayProcess, caller: Caller
) -> None:
    model = path("gemini", "x")
    assert caller.post(f"{model}?key={CANARY}-query", body("gemini", "x")).status == 404
    assert Caller(gateway.port, {}).post(f"{model}?key={quote(CALLER_KEY)}", {}).status == 401
    for target in ("/v1/chat/completions", f"/v1/{CANARY}-path", f"/healthz?key={CANARY}"):
        caller.send("POST", target, f'{{"key": "{CANARY}-body"'.encode())
    assert CANARY not in gateway.log_text()


@pytest.mark.parametrize(
    "raw",
    [
        f"GET /?key={CANARY} HTTP/9.9\r\n\r\n",
        f"{CANARY} {CANARY} {CANARY}\r\n\r\n",
        f"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {CANARY}\r\n\x00{CANARY}\r\n\r\n",
        f"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\nx-api-key: {CANARY}\r\ncontent-length: 9x\r\n\r\n{CANARY}",
    ],
)
def test_what_is_not_even_http_is_written_nowhere(gateway: GatewayProcess, raw: str) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as line:
        line.sendall(raw.encode())
        line.shutdown(socket.SHUT_WR)
        while line.recv(65536):
            pass
    assert CANARY not in gateway.log_text()


def test_other_callers_and_the_operator_see_no_canary(
    gateway: GatewayProcess, caller: Caller
) -> None:
    """After everything above: what another key's holder, a dashboard and a scraper read."""
    caller.ask("messages", "messages.refuses_500")
    other = Caller(gateway.port, {"x-api-key": OTHER_KEY})
    for target in (
        "/metrics",
        "/api/health/channels",
        "/v1/models",
        "/v1beta/models",
        "/readyz",
        "/",
    ):
        _clean(other.get(target))
    _clean(other.ask("messages", "messages.refuses_500"))
    gateway.stop()
    assert "wrong key" in gateway.log_text()  # the log is not just empty
    assert CANARY not in gateway.log_text()
    assert OTHER_KEY not in gateway.log_text()
    kept = [f for f in gateway.log.parent.rglob("*") if f.is_file() and f.name != "monoize.yaml"]
    assert len(kept) > 1  # the database, with a log row for every call
    for file in kept:
        assert CANARY.encode() not in file.read_bytes(), file
