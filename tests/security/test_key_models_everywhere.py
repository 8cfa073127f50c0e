"""T38: a road on which nobody looks at the key's policy is a way around it (LL#34732, LL#40095)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fakes.caller import CALLERS, Caller, body, path
from fakes.gateway import GatewayThread, configured
from fakes.pair import UNMOVED, Actor, good
from fakes.speakers import SPEAKERS

HELD = "sk-held-0123456789abcdef"


@pytest.fixture(scope="module")
def provider() -> Iterator[Actor]:
    with Actor(good) as upstream:
        yield upstream


@pytest.fixture(scope="module", params=["with a store", "without"])
def caller(provider: Actor, request: pytest.FixtureRequest) -> Iterator[Caller]:
    rows = [
        {
            "id": kind,
            "type": kind,
            "models": {f"{kind}-cheap": {}, f"{kind}-dear": {}},
            "channels": [{"id": "c", "base_url": provider.base_url(kind), "api_key": "sk-c"}],
        }
        for kind in SPEAKERS
    ]
    config = configured(rows, UNMOVED)
    config["keys"] = [{"name": "held", "key": HELD, "models": ["*-cheap"]}]
    if request.param == "without":
        config["database"] = None
    gateway = GatewayThread(config)
    yield Caller(gateway.port, {"x-api-key": HELD})
    gateway.stop()


@pytest.mark.spec("T38", "PIPE-2")
@pytest.mark.parametrize("kind", SPEAKERS)
def test_a_key_held_to_some_models_calls_and_counts_with_no_other(caller, provider, kind):
    cheap, dear = f"{kind}-cheap", f"{kind}-dear"
    counts = [
        ("messages", lambda model: "/v1/messages/count_tokens"),
        ("gemini", "/v1beta/models/{}:countTokens".format),
    ]
    for protocol in CALLERS:
        for stream in (False, True):
            assert caller.ask(protocol, cheap, stream=stream).status == 200
    provider.forget()
    refused = [
        caller.post(path(protocol, dear, stream=stream), body(protocol, dear, stream=stream))
        for protocol in CALLERS
        for stream in (False, True)
    ]
    refused += [caller.post(place(dear), body(protocol, dear)) for protocol, place in counts]
    assert {reply.status for reply in refused} == {403}
    assert provider.exchanges == []
