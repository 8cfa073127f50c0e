"""Who holds a session: a provider that has the model for it, or this machine with a chat model in the middle."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import partial
from typing import Literal
from typing import Protocol as Interface

import msgspec
from typing_extensions import override

from monoize.discretion import channel_secrets
from monoize.errors import ModelNotFound, MonoizeError
from monoize.pipeline.call import Incoming, Trace
from monoize.pipeline.kit import Kit
from monoize.pipeline.plan import check_model, plain_wants
from monoize.pipeline.route import check_offer, fail_forward
from monoize.realtime.attempt import OpenSession, SocketAttempt
from monoize.realtime.composed import Composed, Parts
from monoize.realtime.config import SessionConfig, Transcription, TurnDetection, Voices
from monoize.realtime.errand import TurnErrand, Turnstile, TurnTicket
from monoize.realtime.gateway import (
    GatewayEars,
    GatewayMind,
    GatewayVoice,
    first_model,
    known_voices,
)
from monoize.realtime.gauge import Gauge
from monoize.realtime.parting import Parting
from monoize.realtime.passing import Passing
from monoize.realtime.ports import Line, Listeners
from monoize.realtime.proxied import Proxied
from monoize.realtime.state import State
from monoize.realtime.turns import Turns
from monoize.routing.survey import Wanted, explained
from monoize.settings.realtime import RealtimeSettings
from monoize.upstream.websocket import SocketClient
from monoize.urp import Usage

__all__ = ["Opener", "Session"]


class Session(Interface):
    """Ready to be held. Whoever got it runs it, or abandons it."""

    headers: Mapping[str, str]  # of the handshake: the route taken

    async def run(self, line: Line) -> Parting: ...

    async def abandon(self) -> None: ...


class Opener(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    incoming: Incoming
    model: str
    ceiling: Decimal | None
    kit: Kit
    settings: RealtimeSettings
    sockets: SocketClient
    listeners: Listeners | None
    no_listeners: str = ""  # why there are none

    async def opened(self) -> Session:
        """Raises what refuses the session; nothing is left open then."""
        asks = msgspec.structs.replace(
            plain_wants("realtime_voice", self.kit),
            model=self.model,
            transports=frozenset({"websocket"}),
        )
        try:
            check_model(self.incoming, self.model)
            way = self._way(asks)
        except MonoizeError as error:
            self.kit.admission.refused(self.incoming, error)
            raise
        return await self._proxied(asks) if way == "proxied" else self._composed()

    def _way(self, asks: Wanted) -> Literal["proxied", "composed"]:
        if self._can(asks):
            return "proxied"
        if self._can(Wanted(model=self.model)):
            return "composed"
        if not any(self.kit.catalog.offers(self.model)):
            raise ModelNotFound(f"no provider has the model {self.model!r}", param="model")
        check_offer(TurnErrand(self.incoming, asks, self.ceiling, Usage()), self.kit)
        return "proxied"

    def _can(self, asks: Wanted) -> bool:
        kit = self.kit
        wanted = msgspec.structs.replace(asks, ceiling=self.ceiling)
        return explained(wanted, kit.catalog, kit.board, kit.clock.monotonic()).code is None

    # --- at a provider ---

    async def _proxied(self, asks: Wanted) -> Session:
        gauge, route = Gauge(), Trace()
        turnstile = Turnstile(self.incoming, asks, self.ceiling, self.kit)
        turn = await turnstile.open(gauge.expected())
        begun = partial(
            SocketAttempt, self.kit, route, self.sockets, self.settings, self.incoming.headers
        )
        try:
            opened = await fail_forward(turn.errand, self.kit, route, begun, SocketAttempt.opened)
        except MonoizeError as error:
            turn.serve(route)
            await turn.settle("error", error=error)
            raise
        except BaseException:
            await turn.settle("cancelled")
            raise
        turn.serve(route)
        turnstile.serve(route)
        return _AtProvider(self, opened, Turns(gauge, turnstile.open, turn), gauge, turn, route)

    # --- on this machine ---

    def _composed(self) -> Session:
        kit, settings, policy = self.kit, self.settings, self.incoming.caller.policy
        hears = settings.transcription_model or first_model(kit.catalog, "speech_to_text", policy)
        speaks = settings.speech_model or first_model(kit.catalog, "text_to_speech", policy)
        parts = Parts(
            ears=None if hears is None else GatewayEars(self.incoming, kit, hears),
            mind=GatewayMind(self.incoming, kit, self.model),
            voice=None if speaks is None else GatewayVoice(self.incoming, kit, speaks),
            listeners=self.listeners,
        )
        return _Here(self, parts, self._state(hears, speaks))

    def _state(self, hears: str | None, speaks: str | None) -> State:
        kit, settings = self.kit, self.settings
        lacks: dict[Literal["ears", "voice", "turns"], str] = {}
        if hears is None:
            lacks["ears"] = _NOBODY.format("transcribes", "transcription_model")
            lacks["turns"] = lacks["ears"]
        elif self.listeners is None:
            lacks["turns"] = self.no_listeners
        if speaks is None:
            lacks["voice"] = _NOBODY.format("speaks", "speech_model")
        known = None if speaks is None else known_voices(kit, speaks)
        usual = settings.voice or (known[0] if known else None)
        voices = Voices(usual=usual, known=known, names=settings.voices)
        return State(
            session_id=kit.ids.new("sess_"),
            conversation_id=kit.ids.new("conv_"),
            seed=kit.ids.new("")[-16:],
            expires_at=int(kit.clock.now() + settings.session_seconds),
            buffer_ms=int(settings.buffer_seconds * 1000),
            most_items=settings.items,
            most_bytes=_MOST_MESSAGES * settings.frame_bytes,
            lacks=lacks,
            voices=voices,
            config=SessionConfig(
                model=self.model,
                instructions=settings.instructions,
                modality="text" if speaks is None else "audio",
                voice=voices.chosen(None),
                transcription=Transcription(model=hears),
                turn_detection=None if "turns" in lacks else TurnDetection(),
            ),
        )


_MOST_MESSAGES = 4  # of the largest kind, that a conversation may weigh
_NOBODY = "no model here {}: name one in settings.realtime.{}, or install a local engine"


class _AtProvider(Session):
    def __init__(
        self,
        opener: Opener,
        opened: OpenSession,
        turns: Turns,
        gauge: Gauge,
        turn: TurnTicket,
        route: Trace,
    ) -> None:
        self._opener = opener
        self._opened = opened
        self._turns = turns
        self._gauge = gauge
        self.headers = {
            "x-monoize-provider": route.provider or "",
            "x-monoize-channel": route.channel or "",
            "x-monoize-attempts": str(route.attempts),
            **turn.ticket.headers,
        }

    @override
    async def run(self, line: Line) -> Parting:
        opener, opened = self._opener, self._opened
        candidate = opened.candidate
        passing = Passing(
            opener.model,
            candidate.upstream_model,
            opener.incoming.caller.policy,
            channel_secrets(candidate.channel),
        )
        proxied = Proxied(
            line, opened.socket, passing, self._turns, self._gauge, opener.settings, opener.kit.ids
        )
        return await proxied.run(opened.first)

    @override
    async def abandon(self) -> None:
        await self._turns.close()
        await self._opened.socket.close()


class _Here(Session):
    def __init__(self, opener: Opener, parts: Parts, state: State) -> None:
        self._opener = opener
        self._parts = parts
        self._state = state
        self.headers = {"x-monoize-session": "composed"}

    @override
    async def run(self, line: Line) -> Parting:
        opener = self._opener
        composed = Composed(line, self._parts, self._state, opener.settings, opener.kit.clock)
        return await composed.run()

    @override
    async def abandon(self) -> None:
        """Nothing was begun."""
