"""One call on its way through the gateway: what came in, what is known about it, what goes out."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping
from decimal import Decimal
from functools import partial
from typing import Any
from typing import Protocol as Interface

import msgspec

from monoize.account import KeyPolicy, Role
from monoize.media.resolve import Known
from monoize.money.estimate import input_bound, output_bound, reserved
from monoize.money.meter import Meter, Metered
from monoize.money.rates import Rates
from monoize.protocol import Protocol
from monoize.routing.affinity import conversation
from monoize.routing.survey import Wanted
from monoize.settings import OperationId
from monoize.telemetry.tracing import AttemptReport
from monoize.transform import Observer, Rule
from monoize.urp import Losses, ResponseStart, UrpRequest

__all__ = [
    "NOBODY",
    "Answer",
    "Body",
    "Call",
    "Caller",
    "Errand",
    "HedgedLeg",
    "Incoming",
    "Outlet",
    "PassingBody",
    "Trace",
]


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who calls, as far as the API key tells (PIPE-2)."""

    key: str | None = None  # the key's id, never the key itself
    key_name: str | None = None
    user: str | None = None  # the user's id, where the database knows one
    username: str | None = None
    role: Role = "user"
    policy: KeyPolicy = KeyPolicy()
    prepaid: bool = False  # the user's balance must cover the call
    max_multiplier: Decimal | None = None
    rules: tuple[Rule, ...] = ()


NOBODY = Caller(role="admin")  # a gateway without keys serves its own machine only


class Incoming(msgspec.Struct, frozen=True, kw_only=True):
    """A caller's request as the edge took it off the wire."""

    protocol: Protocol
    raw: bytes
    wire: Mapping[str, Any]
    headers: Mapping[str, str]  # names in lower case
    query: Mapping[str, str] = {}
    model: str | None = None  # where the URL names it
    stream: bool | None = None
    caller: Caller = NOBODY
    address: str | None = None  # where the call comes from
    request_id: str
    started: float  # monotonic seconds
    plain: UrpRequest | None = None  # what it says, where it was read by its shape (plain words)
    operation: OperationId = "chat_completions"
    asks: Wanted | None = None  # what an envelope needs and prefers, beside the model
    enveloped: bool = False

    @property
    def spoken(self) -> str:
        """What the log says that the caller spoke."""
        if self.enveloped:
            return "operations"
        return self.protocol.id if self.operation == "chat_completions" else self.operation

    @property
    def strict(self) -> bool:
        """Nothing that the caller said may be lost on the way (INTERFACES)."""
        said = self.headers.get("x-monoize-strict", "").strip().lower()
        return said in ("true", "1", "yes")


class Errand(Interface):
    """What routing and admission need to know of a call, whatever it asks for."""

    @property
    def incoming(self) -> Incoming: ...

    @property
    def requested_model(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def ceiling(self) -> Decimal | None: ...

    @property
    def wants_stream(self) -> bool: ...

    @property
    def service_tier(self) -> str | None: ...

    @property
    def effort(self) -> str | None: ...

    @property
    def asks(self) -> Wanted | None:
        """What was asked for beside the model; None: nothing in particular."""
        ...

    def wanted(self) -> Wanted: ...

    def reserved(self, rates: Rates, multiplier: Decimal, output_cap: int) -> int:
        """Nano-USD to hold back."""
        ...

    def token_bound(self, output_cap: int) -> int:
        """Tokens that it will hardly exceed, for limits per minute."""
        ...

    def metered(self, meter: Meter | None) -> Metered:
        """What it used: counted, or estimated as far as it came."""
        ...


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A decoded call. Its `request` changes on the way; what the caller sent stays beside it."""

    incoming: Incoming
    sent: UrpRequest  # as the caller sent it
    request: UrpRequest  # as the rules so far have made it
    ceiling: Decimal | None = None  # the dearest multiplier that may be used (D17)
    left_out: tuple[
        str, ...
    ] = ()  # fields that are the gateway's own and were not the caller's to set

    @property
    def requested_model(self) -> str:
        """What replies and logs name, whatever the provider calls it (PIPE-1b, D16)."""
        return self.sent.model

    @property
    def model(self) -> str:
        """The name that is routed and that rules are matched with: after step 3, before the redirect (D16)."""
        return self.request.model

    @property
    def wants_stream(self) -> bool:
        """How the caller is answered, whatever way a rule makes the provider answer."""
        return self.sent.stream

    def wanted(self) -> Wanted:
        incoming = self.incoming
        asked = partial(conversation, self.request, incoming.caller.key)
        if incoming.asks is None:
            return Wanted(model=self.model, ceiling=self.ceiling, conversation=asked)
        return msgspec.structs.replace(
            incoming.asks, model=self.model, ceiling=self.ceiling, conversation=asked
        )

    @property
    def asks(self) -> Wanted | None:
        return self.incoming.asks

    @property
    def service_tier(self) -> str | None:
        return self.request.service_tier

    @property
    def effort(self) -> str | None:
        return self.request.reasoning.effort if self.request.reasoning is not None else None

    def reserved(self, rates: Rates, multiplier: Decimal, output_cap: int) -> int:
        return reserved(self.request, rates, multiplier, output_cap=output_cap)

    def token_bound(self, output_cap: int) -> int:
        bound = input_bound(self.request)
        if self.request.max_output_tokens is not None:
            bound += output_bound(self.request, output_cap)
        return bound

    def metered(self, meter: Meter | None) -> Metered:
        return (meter or Meter()).read(self.request)

    @property
    def strict(self) -> bool:
        return self.incoming.strict


class HedgedLeg(msgspec.Struct, frozen=True, kw_only=True):
    """A channel that was asked and then cut off, because another one answered: it costs all the same."""

    provider: str
    channel: str
    upstream_model: str


class Trace(msgspec.Struct, kw_only=True):
    """What happened to a call; it becomes reply headers, and a row of the log."""

    provider: str | None = None
    channel: str | None = None
    upstream_model: str | None = None
    attempts: int = 0
    upstream_seconds: float = 0.0  # waiting for providers
    request_losses: Losses = msgspec.field(default_factory=Losses)  # of the last attempt
    response_losses: Losses = msgspec.field(default_factory=Losses)
    tried: list[dict[str, Any]] = []  # attempts that failed: provider, channel, message, status
    asked: list[AttemptReport] = []  # every attempt with its time
    legs: list[HedgedLeg] = []  # beside the one that answered
    first_byte: float | None = None  # monotonic seconds, when a provider began to answer
    observe: Observer | None = None  # sees what each request rule does (dry run)
    media: Known = {}  # read for an earlier attempt, so that nothing is read twice
    # Told of the first stream that begins, for whoever waits to say so; None: nobody does.
    begun: asyncio.Future[ResponseStart] | None = None


class Body(Interface):
    """A body that is written as it comes; whoever got it closes it, read or not."""

    __slots__ = ()

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


class Outlet(Interface):
    """The way out to a caller."""

    def is_free(self) -> bool:
        """Whether the caller has taken what was written, so that something may be pushed now."""
        ...

    def push(self, data: bytes) -> None: ...


class PassingBody(Body):
    """A body that can also push some of its bytes, between those that are asked for and in their order."""

    __slots__ = ()

    @abstractmethod
    def pass_to(self, outlet: Outlet) -> None:
        """Said before it is read, or not at all."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the edge writes to the caller."""

    status: int
    content_type: str
    headers: Mapping[str, str]
    body: bytes | Body
