"""The model of a live run: the gateway's own pipeline, called in process by the run's key, charged and logged like any call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from http import HTTPStatus

from typing_extensions import override

from monoize import wirejson
from monoize.account import model_refusal
from monoize.agent.ports import Model, ModelCall, ModelReply
from monoize.agent.profile import Profile, profiles
from monoize.errors import MonoizeError, UpstreamFailed
from monoize.pipeline.call import Answer, Caller, Incoming, Trace
from monoize.pipeline.kit import Kit
from monoize.pipeline.run import run
from monoize.pipeline.suffix import resolved
from monoize.protocol import protocol
from monoize.routing.breaker import Health
from monoize.routing.catalog import Catalog
from monoize.urp import UrpRequest

__all__ = ["LiveModel", "usual_profile"]


class LiveModel(Model):
    """`kit` is that of the configuration in force; `caller` is asked anew for every call, so that a revoked key ends a run."""

    def __init__(
        self,
        run_id: str,
        kit: Callable[[], Kit],
        caller: Callable[[], Awaitable[Caller]],
        address: str | None = None,
    ) -> None:
        self._run_id = run_id
        self._kit = kit
        self._caller = caller
        self._address = address

    @override
    async def open(self, call: ModelCall) -> ModelReply:
        kit = self._kit()
        wire = wirejson.loads(call.body)
        incoming = Incoming(
            protocol=protocol(call.protocol),
            raw=call.body,
            wire=wire,
            headers=dict(call.headers),
            model=None if "model" in wire else call.model,  # where the URL would name it
            stream=call.stream,
            caller=await self._caller(),
            address=self._address,
            # The log of requests finds all calls of a run by the beginning of their ids.
            request_id=kit.ids.new(f"{self._run_id}_"),
            started=kit.clock.monotonic(),
        )
        answer = await run(incoming, kit, Trace())
        if answer.status != HTTPStatus.OK:
            await _closed(answer)
            raise UpstreamFailed(f"the gateway answered its own call with {answer.status}")
        return _Reply(answer, streamed=call.stream)

    @override
    async def probe(self, model: str) -> str | None:
        kit = self._kit()
        try:
            caller = await self._caller()
        except MonoizeError as error:
            return error.message
        routed = _routed(model, kit)
        refused = model_refusal(caller.policy, model) and model_refusal(caller.policy, routed)
        if refused is not None:
            return refused.message
        candidates = list(kit.catalog.candidates(routed))
        if not candidates:
            return f"no provider has the model {model!r}"
        rows = kit.board.snapshot(kit.catalog.providers, kit.clock.monotonic())
        names = {(one.provider.id, one.channel.id): one.upstream_model for one in candidates}
        known = [
            row
            for row in rows
            if row.model in (None, names.get((row.provider, row.channel)))
            and (row.provider, row.channel) in names
        ]
        # One that only rests after a 429, or is just being probed, may answer in a moment.
        if known and all(row.health is Health.UNHEALTHY for row in known):
            return f"every channel for the model {model!r} is unhealthy"
        return None


def usual_profile(model: str, kit: Kit) -> Profile | None:
    """That of the first provider that has the model; None: nobody has it."""
    offer = next(kit.catalog.offers(_routed(model, kit)), None)
    return None if offer is None else _of_type(offer[0].type)


def _of_type(provider_type: str) -> Profile | None:
    usual = (one for one in profiles().values() if provider_type in one.provider_types)
    return min(usual, key=lambda one: one.provider_types.index(provider_type), default=None)


def _routed(model: str, kit: Kit) -> str:
    """Without an effort behind its name (MSUF)."""
    catalog: Catalog = kit.catalog
    suffixes: Mapping[str, str] = kit.suffixes
    return resolved(UrpRequest(model=model, messages=()), catalog, suffixes).model


class _Reply(ModelReply):
    def __init__(self, answer: Answer, *, streamed: bool) -> None:
        self._answer = answer
        self.streamed = streamed

    @override
    async def chunks(self) -> AsyncIterator[bytes]:
        body = self._answer.body
        if isinstance(body, bytes):
            yield body
            return
        async for chunk in body:
            yield chunk

    @override
    async def aclose(self) -> None:
        await _closed(self._answer)


async def _closed(answer: Answer) -> None:
    if not isinstance(answer.body, bytes):
        await answer.body.aclose()
