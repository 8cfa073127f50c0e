"""The active prober: a small request in the provider's own protocol to a channel that may be well again (HEALTH-2)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from monoize.errors import MonoizeError, UpstreamTimeout
from monoize.pipeline.attempt import Attempt
from monoize.pipeline.call import Call, Incoming, Trace
from monoize.pipeline.kit import Kit
from monoize.pipeline.run import attempted
from monoize.protocol import protocol
from monoize.routing.breaker import Outcome
from monoize.routing.catalog import Candidate, model_row
from monoize.routing.prober import Probe, due, started
from monoize.routing.verdict import Verdict, judged
from monoize.urp import Message, Role, Text, UrpRequest

__all__ = ["Prober", "asked"]

log = logging.getLogger("monoize.health")

_LOOK_AROUND_SECONDS = 1.0
_ABOUT_THE_PROBE = (400, 422)
_TOKENS = 16  # the fewest that every vendor takes


class Prober:
    """Looks around once a second; one probe at a time for each channel."""

    def __init__(self, kit: Callable[[], Kit]) -> None:
        self._kit = kit  # that of the configuration in force
        self._running: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until it is cancelled."""
        try:
            while True:
                try:
                    self.look_around()
                except Exception:  # the outermost loop of a task: the next look may go well
                    log.exception("looking for channels to probe failed")
                await asyncio.sleep(_LOOK_AROUND_SECONDS)
        finally:
            for task in self._running:
                task.cancel()
            if self._running:
                await asyncio.wait(self._running)

    def look_around(self) -> None:
        kit = self._kit()
        for probe in due(kit.catalog.providers, kit.board, kit.clock.monotonic()):
            if not _chats(probe, kit):
                continue
            task = asyncio.ensure_future(probed(probe, kit))
            self._running.add(task)
            task.add_done_callback(self._running.discard)


def _chats(probe: Probe, kit: Kit) -> bool:
    """A probe is a small chat: channels for other operations come back with a caller's own request."""
    row = model_row(probe.provider.models, probe.model)
    return "chat_completions" in kit.catalog.capabilities(probe.provider, row).operations


async def probed(probe: Probe, kit: Kit) -> None:
    """Send one probe, unless a caller's request came first; its result is the channel's, and nobody else's."""
    candidate = Candidate(
        provider=probe.provider, channel=probe.channel, upstream_model=probe.upstream_model
    )
    attempt, name = Attempt(_call(probe, kit), kit, Trace(), candidate), _name(probe)
    permit = started(probe, kit.board, kit.clock.monotonic())
    if permit is None:
        return
    patience = kit.board.limits(probe.provider, probe.channel).probe_interval_seconds
    try:
        await _in_time(attempt, patience)
    except MonoizeError as error:
        verdict = judged(error, (), kit.clock.now())
        permit.settle(_outcome(verdict), kit.clock.monotonic(), verdict.retry_after)
        log.info("channel %s is still unwell: %s", name, error)
    else:
        permit.settle(Outcome.SUCCESS, kit.clock.monotonic())
        log.info("channel %s answered its probe", name)
    finally:
        permit.settle(Outcome.NEUTRAL, kit.clock.monotonic())
        await attempt.close()


async def asked(probe: Probe, kit: Kit, seconds: float) -> None:
    """Send a probe because somebody wants to know; MonoizeError: why it got no answer. Health is left alone."""
    candidate = Candidate(
        provider=probe.provider, channel=probe.channel, upstream_model=probe.upstream_model
    )
    attempt = Attempt(_call(probe, kit), kit, Trace(), candidate)
    try:
        await _in_time(attempt, seconds)
    finally:
        await attempt.close()


def _outcome(verdict: Verdict) -> Outcome:
    """A refusal is no proof of health, except of the probe's own words: then it proves nothing at all."""
    if verdict.outcome is Outcome.NEUTRAL and verdict.status not in _ABOUT_THE_PROBE:
        return Outcome.FAILURE
    return verdict.outcome


async def _in_time(attempt: Attempt, seconds: float) -> None:
    """A probe that hangs must not keep callers out for as long as a caller's own request may take."""
    try:
        async with asyncio.timeout(seconds):
            await attempted(attempt)
    except TimeoutError:
        raise UpstreamTimeout(f"no answer to a probe within {seconds:g} s") from None


def _name(probe: Probe) -> str:
    return f"{probe.provider.id}/{probe.channel.id}"


def _call(probe: Probe, kit: Kit) -> Call:
    kind = "chat_completion" if probe.provider.type == "local" else probe.provider.type
    request = UrpRequest(
        model=probe.model,
        messages=(Message(role=Role.USER, parts=(Text(content="hi"),)),),
        max_output_tokens=_TOKENS,
        # Whoever keeps replies is asked not to; the others have no such field (D13).
        extra_body={"store": False},
        inherited=frozenset({"store"}),
        origin="responses",
    )
    incoming = Incoming(
        protocol=protocol(kind),
        raw=b"",
        wire={},
        headers={},
        request_id=kit.ids.new("probe_"),
        started=kit.clock.monotonic(),
    )
    return Call(incoming=incoming, sent=request, request=request)
