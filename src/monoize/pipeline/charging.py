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
from monoize.telemetry.requests import Finished, RequestCounts
from monoize.telemetry.tracing import SILENT, CallReport, Tracer
from monoize.urp import Usage

__all__ = ["Captures", "Desk", "LedgerAdmission"]

log = logging.getLogger("monoize.ledger")

_EDGE = 4096
_STATUSES = {"success": 200, "cancelled": 499, "error": 500}
_NOTHING_USED = Usage()


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
        amount = self.desk.tariff.reserved(call)
        policy = call.incoming.caller.policy
        if policy.requests_per_minute is None and policy.tokens_per_minute is None:
            grant = Grant(key_id=call.incoming.caller.key or ANONYMOUS)  # nothing to count
        else:
            grant = await self._granted(call)
        try:
            await self.desk.journal.open(self._opening(call, amount))
        except BaseException:  # refused, away, or the caller left: it is as if it had not asked
            await self.desk.limiter.release(grant, self.desk.clock.now())
            raise
        return _LedgerTicket(self, call, trace, grant)

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
    def __init__(
        self, admission: LedgerAdmission, call: Errand, trace: Trace, grant: Grant
    ) -> None:
        desk = admission.desk
        self.headers = limits.headers(grant)
        self._desk = desk
        self._call = call
        self._trace = trace
        self._grant = grant
        self._is_open = True
        self._ended_well = False
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
            "request": incoming.wire,
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
            ended = self._desk.clock.monotonic()
            metered = self._metered(ending)
            closing = self._closing(ending, metered, ended)
            self._tell(ending, metered, closing.charge, ended)
        except Exception:  # a defect of ours costs the caller nothing, and nothing stays reserved
            log.exception("the request could not be added up")
            closing = self._free_closing()
        try:
            await self._desk.journal.close(closing)  # settled even if this is cancelled meanwhile
        except Exception:  # its reservation is settled at its estimate when this process has ended
            log.exception("the request could not be settled")
        finally:
            if self._grant.is_limited:
                await self._end_grant(metered)

    @property
    def _request_id(self) -> str:
        return self._call.incoming.request_id

    def _closing(self, ending: Ending, metered: Metered | None, ended: float) -> Closing:
        bill = self._desk.tariff.billed(self._call, self._trace, metered)
        return Closing(
            request_id=self._request_id,
            charge=bill.amount,
            estimated=bill.estimated,
            unpriced=bill.unpriced,
            detail=bill.detail,
            log=self._columns(ending, metered, bill, ended),
        )

    def _free_closing(self) -> Closing:
        columns = {"status": "error", **error_columns(MonoizeError("internal error"))}
        return Closing(request_id=self._request_id, charge=0, log=columns)

    def _tell(self, ending: Ending, metered: Metered | None, charge: int, ended: float) -> None:
        try:
            self._desk.counts.add(self._finished(ending, metered, charge, ended))
            if self._desk.tracer.active:
                self._desk.tracer.record(self._report(ending, metered, charge))
        except Exception:  # whoever watches must not cost anybody money
            log.exception("the request could not be reported")

    def _finished(
        self, ending: Ending, metered: Metered | None, charge: int, ended: float
    ) -> Finished:
        trace, incoming = self._trace, self._call.incoming
        usage = metered.usage if metered is not None else _NOTHING_USED
        first = trace.first_byte
        return Finished(
            protocol=incoming.spoken,
            provider=trace.provider or "",
            model=self._call.model,
            status=ending.status,
            input_tokens=usage.input_tokens,
            cached_tokens=usage.cached_read or 0,
            output_tokens=usage.output_tokens,
            charge=charge,
            seconds=ended - incoming.started,
            first_byte_seconds=None if first is None else first - incoming.started,
        )

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
        if ending.status == "error" or (ending.status == "cancelled" and not self._trace.attempts):
            return None
        return ending.metered or self._call.metered(ending.meter)

    async def _end_grant(self, metered: Metered | None) -> None:
        desk = self._desk
        if metered is None and not self._trace.attempts:
            await desk.limiter.release(self._grant, desk.clock.now())
            return
        usage = metered.usage if metered is not None else _NOTHING_USED
        tokens = usage.input_tokens + usage.output_tokens
        await desk.limiter.settle(self._grant, tokens, desk.clock.now())

    def _columns(
        self, ending: Ending, metered: Metered | None, bill: Bill, ended: float
    ) -> dict[str, Any]:
        trace, started = self._trace, self._call.incoming.started
        first, total = trace.first_byte, _milliseconds(ended - started)
        columns = {
            "status": ending.status,
            "provider": trace.provider,
            "channel": trace.channel,
            "upstream_model": trace.upstream_model,
            "attempts": trace.tried or None,
            **usage_columns(metered),
            "multiplier": str(bill.multiplier),
            "charge": bill.amount,
            "estimated": bill.estimated,
            "unpriced": bill.unpriced,
            "http_status": _STATUSES[ending.status],
            "first_byte_ms": None if first is None else _milliseconds(first - started),
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
