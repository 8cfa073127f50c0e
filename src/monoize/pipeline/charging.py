"""Admission by the ledger: what a call may cost is reserved before it is sent, and what it cost is settled."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Any

import msgspec
from typing_extensions import override

from monoize import limiter as limits
from monoize.clock import Clock
from monoize.errors import MonoizeError
from monoize.limiter import Grant, Limiter
from monoize.money.meter import Metered
from monoize.pipeline.admission import Admission, Ending, Ticket
from monoize.pipeline.call import Errand, Incoming, Trace
from monoize.pipeline.log_rows import (
    ANONYMOUS,
    caller_columns,
    error_columns,
    usage_columns,
)
from monoize.pipeline.tariff import Bill, Tariff
from monoize.store.capture_writer import CaptureWriter
from monoize.store.journal import Closing, Journal, Opening
from monoize.telemetry.requests import RequestCounts
from monoize.telemetry.tracing import SILENT, CallReport, Tracer

__all__ = ["Captures", "Desk", "LedgerAdmission"]

log = logging.getLogger("monoize.ledger")

_EDGE = 4096
_STATUSES = {"success": 200, "cancelled": 499, "error": 500}


class Captures(msgspec.Struct, frozen=True):
    """Where bodies are kept for keys that ask for it."""

    writer: CaptureWriter
    longest: int  # bytes of one exchange


class Desk(msgspec.Struct, frozen=True, kw_only=True):
    """What admission stands on. The tariff is that of one configuration; the others outlive it."""

    clock: Clock
    journal: Journal
    limiter: Limiter
    counts: RequestCounts
    tracer: Tracer = SILENT
    captures: Captures | None = None
    tariff: Tariff


class LedgerAdmission(Admission):
    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    @property
    @override
    def wants_reports(self) -> bool:
        return self.desk.tracer.active

    @override
    async def admit(self, call: Errand, trace: Trace) -> Ticket:
        desk = self.desk
        amount = desk.tariff.reserved(call)
        policy = call.incoming.caller.policy
        if policy.requests_per_minute is None and policy.tokens_per_minute is None:
            await desk.journal.open(self._opening(call, amount))
            return _LedgerTicket(desk, call, trace)
        grant = await self._granted(call)
        try:
            await desk.journal.open(self._opening(call, amount))
        except BaseException:  # refused, away, or the caller left: it is as if it had not asked
            await desk.limiter.release(grant, desk.clock.now())
            raise
        return _LedgerTicket(desk, call, trace, grant)

    @override
    def refused(self, incoming: Incoming, error: MonoizeError) -> None:
        caller = incoming.caller
        self.desk.journal.note(
            {
                **caller_columns(incoming, self.desk.clock.now()),
                "status": "error",
                "is_stream": bool(incoming.stream or incoming.wire.get("stream")),
                "requested_model": str(incoming.model or incoming.wire.get("model") or "")[:256],
                "key_id": caller.key or ANONYMOUS,
                **error_columns(error),
                "duration_ms": _milliseconds(self.desk.clock.monotonic() - incoming.started),
            }
        )

    def _granted(self, call: Errand) -> Awaitable[Grant]:
        caller, tokens = call.incoming.caller, 0
        policy = caller.policy
        if policy.tokens_per_minute is not None:  # weighing costs time
            tokens = call.token_bound(self.desk.tariff.output_cap)
        return self.desk.limiter.take(
            caller.key or ANONYMOUS,
            requests_per_minute=policy.requests_per_minute,
            tokens_per_minute=policy.tokens_per_minute,
            tokens=tokens,
            now=self.desk.clock.now(),
        )

    # --- rows ---

    def _opening(self, call: Errand, amount: int) -> Opening:
        incoming = call.incoming
        caller = incoming.caller
        columns = caller_columns(incoming, self.desk.clock.now())
        columns["is_stream"] = call.wants_stream
        columns["requested_model"] = call.requested_model
        columns["effort"] = call.effort
        return Opening(
            request_id=incoming.request_id,
            key_id=caller.key or ANONYMOUS,
            user_id=caller.user,
            amount=amount,
            budgets=caller.policy.budgets,
            prepaid=caller.prepaid,
            log=columns,
        )


class _LedgerTicket(Ticket):
    __slots__ = (
        "_call",
        "_desk",
        "_ended_well",
        "_grant",
        "_is_open",
        "_trace",
        "captures",
        "headers",
    )

    def __init__(self, desk: Desk, call: Errand, trace: Trace, grant: Grant | None = None) -> None:
        self._desk = desk
        self._call = call
        self._trace = trace
        self._grant = grant  # None: its key has no limits
        self._is_open, self._ended_well = True, False
        self.headers = Ticket.headers if grant is None else limits.headers(grant)
        self.captures = desk.captures is not None and self._capture != "off"

    @property
    def _capture(self) -> str:
        return self._call.incoming.caller.policy.capture

    @override
    def keep(self, reply: bytes) -> None:
        captures, incoming = self._desk.captures, self._call.incoming
        if captures is None or (self._capture == "abnormal" and self._ended_well):
            return
        body = {
            "headers": dict(incoming.headers),
            "request": dict(incoming.wire),
            # More than is kept: a secret at the edge is found before it is cut.
            "reply": reply[: captures.longest + _EDGE].decode("utf-8", "replace"),
        }
        captures.writer.keep(incoming.request_id, body, captures.longest)

    @override
    async def settle(self, ending: Ending) -> None:
        if not self._is_open:
            return
        self._is_open = False
        self._ended_well = ending.status == "success"
        metered: Metered | None = None
        try:
            metered = self._metered(ending)
            closing = self._closing(ending, metered)
        except Exception:  # a defect of ours costs the caller nothing, and nothing stays reserved
            log.exception("the request could not be added up")
            closing = self._free_closing()
        try:
            settled = self._desk.journal.close(closing)
            del closing
            await settled  # and it is, even if this is cancelled meanwhile
        except Exception:  # its reservation is settled at its estimate when this process has ended
            log.exception("the request could not be settled")
        finally:
            if self._grant is not None:
                await self._end_grant(self._grant, metered)

    def _closing(self, ending: Ending, metered: Metered | None) -> Closing:
        desk, trace, incoming = self._desk, self._trace, self._call.incoming
        seconds, first = desk.clock.monotonic() - incoming.started, trace.first_byte
        if first is not None:
            first -= incoming.started
        bill = desk.tariff.billed(self._call, trace, metered)
        closing = Closing(
            request_id=incoming.request_id,
            charge=bill.amount,
            estimated=bill.estimated,
            unpriced=bill.unpriced,
            detail=bill.detail,
            log=_columns(ending, metered, bill, trace, seconds, first),
        )
        self._tell(ending, metered, bill.amount, seconds, first)
        return closing

    def _free_closing(self) -> Closing:
        columns = {"status": "error", **error_columns(MonoizeError("internal error"))}
        return Closing(request_id=self._call.incoming.request_id, charge=0, log=columns)

    def _tell(
        self,
        ending: Ending,
        metered: Metered | None,
        charge: int,
        seconds: float,
        first: float | None,
    ) -> None:
        desk, call = self._desk, self._call
        try:
            provider = self._trace.provider or ""
            labels = (call.incoming.spoken, provider, call.model, ending.status)
            usage = None if metered is None else metered.usage
            desk.counts.add(labels, usage, charge, seconds, first)
            if desk.tracer.active:
                desk.tracer.record(self._report(ending, metered, charge))
        except Exception:  # whoever watches must not cost anybody money
            log.exception("the request could not be reported")

    def _report(self, ending: Ending, metered: Metered | None, charge: int) -> CallReport:
        incoming, trace, clock = self._call.incoming, self._trace, self._desk.clock
        seconds, first = clock.monotonic() - incoming.started, trace.first_byte
        error = ending.error
        return CallReport(
            request_id=incoming.request_id,
            protocol=incoming.spoken,
            model=self._call.requested_model,
            stream=self._call.wants_stream,
            started=clock.now() - seconds,
            seconds=seconds,
            first_chunk_seconds=None if first is None else first - incoming.started,
            status=_STATUSES[ending.status] if error is None else error.http_status,
            error=None if error is None else error.error_code,
            attempts=tuple(trace.asked),
            response_model=trace.upstream_model,
            usage=metered.usage if metered is not None else None,
            estimated=metered is not None and metered.estimated,
            charge=charge,
            key=incoming.caller.key_name,
            headers=incoming.headers,
        )

    def _metered(self, ending: Ending) -> Metered | None:
        """What is charged for: a good reply, and what a caller that left had caused; failures cost nothing."""
        status = ending.status
        if status != "success" and (status == "error" or not self._trace.attempts):
            return None
        return ending.metered or self._call.metered(ending.meter)

    async def _end_grant(self, grant: Grant, metered: Metered | None) -> None:
        desk = self._desk
        if metered is None and not self._trace.attempts:
            await desk.limiter.release(grant, desk.clock.now())
            return
        tokens = 0
        if metered is not None:
            tokens = metered.usage.input_tokens + metered.usage.output_tokens
        await desk.limiter.settle(grant, tokens, desk.clock.now())


def _columns(
    ending: Ending,
    metered: Metered | None,
    bill: Bill,
    trace: Trace,
    seconds: float,
    first: float | None,
) -> dict[str, Any]:
    total = _milliseconds(seconds)
    columns = {
        "status": ending.status,
        "provider": trace.provider,
        "channel": trace.channel,
        "upstream_model": trace.upstream_model,
        "attempts": trace.tried or None,
        **usage_columns(metered),
        "multiplier": bill.multiplier,
        "charge": bill.amount,
        "estimated": bill.estimated,
        "unpriced": bill.unpriced,
        "http_status": _STATUSES[ending.status],
        "first_byte_ms": None if first is None else _milliseconds(first),
        "duration_ms": total,
        "overhead_ms": max(0, total - round(trace.upstream_seconds * 1000)),
        "losses": _losses(trace),
    }
    if ending.error is not None:
        columns |= error_columns(ending.error)
    return columns


def _milliseconds(seconds: float) -> int:
    return max(0, round(seconds * 1000))


def _losses(trace: Trace) -> list[str] | None:
    asked, answered = trace.request_losses, trace.response_losses
    if not (asked.dropped or answered.dropped):
        return None
    return list(asked.and_(answered).dropped)
