"""The model of a live run: is somebody there to ask, by which profile, and as whom."""

from __future__ import annotations

import pytest

from monoize.account import KeyPolicy
from monoize.agent.ports import ModelCall
from monoize.agent.runs.live_model import LiveModel, usual_profile
from monoize.clock import RandomIds, SystemClock, SystemDice
from monoize.errors import ModelNotFound, NotFound, Unauthorized
from monoize.limits.memory import MemoryLimiter
from monoize.pipeline.call import Caller
from monoize.pipeline.kit import Kit
from monoize.routing.affinity import Affinity
from monoize.routing.breaker import Outcome
from monoize.routing.budget import RetryBudget
from monoize.routing.health import HealthBoard
from monoize.server.state import Lasting, Stored, build
from monoize.settings import parse
from monoize.upstream.engine_client import EngineClient

TYPES = ("chat_completion", "responses", "messages", "gemini", "grok")
CONFIG = "database: null\nproviders:\n" + "".join(
    f"""
  - id: {kind}
    type: {kind}
    models: {{{kind}-model: {{redirect: up}}}}
    channels: [{{id: main, base_url: "http://127.0.0.1:9"}}]
"""
    for kind in TYPES
)


@pytest.fixture
def kit() -> Kit:
    settings = parse(CONFIG, {})
    clock = SystemClock()
    lasting = Lasting(
        clock=clock,
        ids=RandomIds(),
        dice=SystemDice(),
        client=EngineClient({}),
        engines={},
        engine_client=EngineClient({}),
        board=HealthBoard(settings.settings.health),
        budget=RetryBudget(),
        affinity=Affinity(),
        limiter=MemoryLimiter(),
        provider_models=None,
    )
    return build(settings, Stored(), lasting).kit


SOMEBODY = Caller(key="k")


def model_of(kit: Kit, caller: Caller | Exception = SOMEBODY) -> LiveModel:
    async def asked() -> Caller:
        if isinstance(caller, Exception):
            raise caller
        return caller

    return LiveModel("run_1", lambda: kit, asked)


@pytest.mark.parametrize("kind", TYPES)
def test_the_type_of_the_provider_names_the_usual_profile(kind, kit):
    profile = usual_profile(f"{kind}-model", kit)
    assert profile is not None
    assert (profile.id, profile.protocol) == (f"native_{kind}", kind)
    assert usual_profile(f"{kind}-model-high", kit) is profile  # an effort is no part of the name
    assert usual_profile("nobody", kit) is None


async def test_somebody_is_there(kit):
    assert await model_of(kit).probe("messages-model") is None


async def test_nobody_has_it(kit):
    assert await model_of(kit).probe("nobody") == "no provider has the model 'nobody'"


@pytest.mark.parametrize(
    ("outcome", "is_away"), [(Outcome.FAILURE, True), (Outcome.RATE_LIMITED, False)]
)
async def test_all_who_have_it_are_unhealthy(outcome, is_away, kit):
    provider = next(p for p in kit.catalog.providers if p.id == "messages")
    breaker = kit.board.breaker(provider, provider.channels[0], "up")
    now = kit.clock.monotonic()
    while breaker.eligible(now):
        breaker.admit(now).settle(outcome, now, None if is_away else 5.0)
    said = await model_of(kit).probe("messages-model")
    assert (said == "every channel for the model 'messages-model' is unhealthy") is is_away


async def test_a_key_that_is_revoked_or_may_not_use_the_model_is_told_before(kit):
    assert await model_of(kit, Unauthorized("gone")).probe("messages-model") == "gone"
    narrow = Caller(key="k", policy=KeyPolicy(models=("gemini-*",)))
    assert "may not use" in str(await model_of(kit, narrow).probe("messages-model"))
    assert await model_of(kit, narrow).probe("gemini-model") is None


async def test_a_revoked_key_asks_nobody(kit):
    call = ModelCall(
        protocol="chat_completion", model="x", body=b'{"model":"x","messages":[]}', stream=False
    )
    with pytest.raises(Unauthorized):
        await model_of(kit, Unauthorized("gone")).open(call)
    with pytest.raises((ModelNotFound, NotFound)):
        await model_of(kit).open(call)
