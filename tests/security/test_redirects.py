"""CVE-2025-62155 and its kin: a provider that points elsewhere is not followed, least of all with its key."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from fakes.caller import CALLERS, Caller, assert_error_dialect, body
from fakes.gateway import GatewayThread, configured
from fakes.pair import UNMOVED, Actor, good
from fakes.speakers import SPEAKERS
from fakes.upstream import Behaviour, Exchange

ADMIN = "sk-admin-0123456789abcdef"
STATUSES = (300, 301, 302, 303, 305, 307, 308)
SECOND = "sk-of-the-second"


def locations(trap: Any, provider: Actor) -> list[str]:
    return [
        f"{trap.url}/v1/steal",
        f"https://{trap.host}/v1/steal",
        f"//{trap.host}/v1/steal",
        f"http://0.0.0.0:{trap.port}/steal",
        f"http://localhost:{trap.port}/steal",
        f"http://user:password@{trap.host}/steal",
        f"http://127.0.0.1:{provider.port}/chat_completion/steal",
        "/chat_completion/steal",
        "steal",
        "",
    ]


def points_to(status: int, place: str) -> Behaviour:
    async def redirect(exchange: Exchange) -> None:
        refresh = {"refresh": f"0; url={place}", "content_location": place}
        said = exchange.speaker.error(status, f"moved to {place}")
        await exchange.json(said, status, location=place, **refresh)

    return redirect


@pytest.fixture(scope="module")
def provider() -> Iterator[Actor]:
    with Actor(good) as upstream:
        yield upstream


@pytest.fixture(scope="module")
def other() -> Iterator[Actor]:
    with Actor(good) as upstream:
        yield upstream


@pytest.fixture(scope="module")
def port(provider: Actor, other: Actor) -> Iterator[int]:
    def row(name: str, kind: str, at: Actor, models: Any, key: str) -> dict[str, Any]:
        channel = {"id": "main", "base_url": at.base_url(kind), "api_key": key}
        return {"id": name, "type": kind, "models": models, "channels": [channel]}

    rows = [row(kind, kind, provider, {f"{kind}-m": {}}, f"sk-of-{kind}") for kind in SPEAKERS]
    rows[0]["models"] |= {"both": {}, "globbed-*": {}}
    rows.append(row("second", "chat_completion", other, {"both": {}}, SECOND))
    config = configured(rows, UNMOVED)
    config["keys"].append({"name": "admin", "key": ADMIN, "role": "admin"})
    gateway = GatewayThread(config)
    yield gateway.port
    gateway.stop()


@pytest.mark.spec("CVE-2025-62155", "CVE-2026-42339", "LL#24952")
@pytest.mark.parametrize("status", STATUSES)
def test_cve_2025_62155_a_redirect_is_a_failure_and_is_not_followed(port, provider, trap, status):
    caller = Caller(port)
    pairs = list(product(locations(trap, provider), SPEAKERS))
    for number, (place, kind) in enumerate(pairs):
        protocol = CALLERS[number % len(CALLERS)]
        provider.forget()
        provider.play(points_to(status, place))
        reply = caller.ask(protocol, f"{kind}-m", stream=number % 3 == 0)
        assert reply.status == 502, (place, reply.raw)
        assert_error_dialect(protocol, reply)
        assert not {"location", "refresh", "content-location"} & set(reply.headers)
        (exchange,) = provider.exchanges  # once, and nothing after it
        assert "steal" not in exchange.target
    assert trap.is_untouched


@pytest.mark.spec("CVE-2025-62155", "LL#24952")
def test_cve_2025_62155_a_redirect_is_somebody_elses_turn_with_their_own_key(port, provider, other):
    other.play(good)
    for status in STATUSES:
        provider.forget()
        other.forget()
        provider.play(points_to(status, f"http://127.0.0.1:{other.port}/chat_completion/steal"))
        reply = Caller(port).ask("messages", "both")
        assert (reply.status, reply.headers["x-monoize-provider"]) == (200, "second")
        (exchange,) = other.exchanges
        assert exchange.path == "v1/chat/completions"
        assert exchange.headers["authorization"] == f"Bearer {SECOND}"


@pytest.mark.spec("CVE-2025-62155", "LL#24952")
def test_cve_2025_62155_nor_is_it_followed_by_counts_lists_and_tests(port, provider, trap):
    caller, admin = Caller(port), Caller(port, {"x-api-key": ADMIN})
    for status, place in product(STATUSES, locations(trap, provider)[:4]):
        provider.forget()
        provider.play(points_to(status, place))
        for protocol, target in (
            ("messages", "/v1/messages/count_tokens"),
            ("gemini", "/v1beta/models/gemini-m:countTokens"),
        ):
            reply = caller.post(target, body(protocol, f"{protocol}-m"))
            assert reply.status in (200, 502), reply.raw  # 200: estimated by ourselves
        caller.get("/v1/models")
        tested = admin.post("/api/providers/chat_completion/channels/main/test", {})
        assert (tested.status, tested.json["success"]) == (200, False)
        assert all("steal" not in exchange.target for exchange in provider.exchanges)
        assert len(provider.exchanges) >= 3
    assert trap.is_untouched
