"""One document reframed for a caller: what it gets, what is counted, and what may be logged of it."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, get_args

import msgspec

from monoize.clock import Clock
from monoize.errors import InvalidRequest, MonoizeError
from monoize.reframer import Finding, Mode, Reframed, Refused, TagTable, reframe
from monoize.reframer.finding import MAX_FINDINGS
from monoize.reframer.into import TARGETS, converted
from monoize.reframer.privacy import discreet, quoted
from monoize.telemetry.reframing import Reframing

__all__ = ["Asked", "Done", "Work", "log_refusals", "room_for"]

log = logging.getLogger("monoize.reframer")

# Texts are whole and numbers finite: the reader saw to it. Structs are written as they are.
_ENCODER = msgspec.json.Encoder()
_PARAMETERS = ("mode", "into", "model")
_LONGEST_MODEL = 256
_ALL_FINDINGS = 10_000  # of one batch
_FEWEST_FINDINGS = 20  # of one request in it
_UNKNOWN_TAGS = "unknown_protocol_tags"  # counters of the tags
_RESTRICTED = "safety_restricted_messages"
_LOGGED_DOCUMENTS = 3  # of a batch
_LOGGED_FINDINGS = 5  # of a document
_LOGGED_LETTERS = 4096


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the query says."""

    mode: Mode = "strict"
    into: str | None = None
    model: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Asked:
        """InvalidRequest for what is unknown: a misspelt name would change the meaning in silence."""
        for name in query:
            if name not in _PARAMETERS:
                known = ", ".join(_PARAMETERS)
                raise _refused(name[:64], f"is no parameter of this path (known: {known})")
        into, model = query.get("into"), query.get("model")
        if into is not None:
            _one_of("into", into, TARGETS)
            if not model:
                raise _refused("model", "is missing: into needs the name of a model")
            if len(model) > _LONGEST_MODEL:
                raise _refused("model", f"is longer than {_LONGEST_MODEL} letters")
        elif model is not None:
            raise _refused("model", "says for which model into is; there is no into")
        mode = query.get("mode", "strict")
        _one_of("mode", mode, get_args(Mode))
        return cls(mode="lenient" if mode == "lenient" else "strict", into=into, model=model or "")


def _one_of(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise _refused(name, f"must be one of {', '.join(known)}, not {quoted(value)}")


def _refused(name: str, what: str) -> InvalidRequest:
    return InvalidRequest(f"{quoted(name)} {what}", param=f"?{name}", code="invalid_query")


class Done(msgspec.Struct, frozen=True, kw_only=True):
    status: int
    body: bytes  # a ReframeResponse or a ValidationError, or an envelope around it
    counted: Reframing
    refused: Refused | None = None


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """How the documents of one call are to be reframed."""

    asked: Asked
    tags: TagTable
    clock: Clock
    room: int = MAX_FINDINGS

    def done(self, raw: bytes, index: int | None = None) -> Done:
        """`index`: of an item in a batch."""
        start = self.clock.monotonic()
        result = reframe(raw, mode=self.asked.mode, flags=self.tags, room=self.room)
        result, value = self._valued(result)
        refused = result if isinstance(result, Refused) else None
        status = HTTPStatus.OK if refused is None else HTTPStatus.BAD_REQUEST
        if index is not None:
            envelope = {"index": index, "status": status, "request_id": result.request_id}
            value = {**envelope, "response" if refused is None else "error": value}
        body = _ENCODER.encode(value)
        counted = self._counted(result, self.clock.monotonic() - start)
        return Done(status=status, body=body, counted=counted, refused=refused)

    def _valued(self, result: Reframed | Refused) -> tuple[Reframed | Refused, dict[str, Any]]:
        """With what the caller gets; a call that its protocol cannot say is a refusal of its own."""
        if isinstance(result, Refused):
            return result, result.as_json()
        value = result.reply()
        if self.asked.into is None:
            return result, value
        try:
            call = converted(result.normalized, target=self.asked.into, model=self.asked.model)
        except MonoizeError as error:
            refused = _not_converted(error, result.request_id)
            return refused, refused.as_json()
        return result, {**value, "into": call.as_json()}

    def _counted(self, result: Reframed | Refused, seconds: float) -> Reframing:
        if isinstance(result, Refused):
            codes = tuple(finding.code for finding in (*result.findings, *result.warnings))
            tags = {_UNKNOWN_TAGS: codes.count("UNKNOWN_PROTOCOL_TAG")}
        else:
            codes = tuple(finding.code for finding in result.warnings)
            tags = result.counts.tags
        return Reframing(
            mode=self.asked.mode,
            result="refused" if isinstance(result, Refused) else "reframed",
            seconds=seconds,
            codes=codes,
            restricted_messages=tags.get(_RESTRICTED, 0),
            unknown_tags=tags.get(_UNKNOWN_TAGS, 0),
        )


def room_for(documents: int) -> int:
    """Findings that each document of a batch may have: a thousand times a thousand would be too many to send."""
    return max(_FEWEST_FINDINGS, min(MAX_FINDINGS, _ALL_FINDINGS // max(documents, 1)))


def _not_converted(error: MonoizeError, request_id: str) -> Refused:
    finding = Finding(
        code=error.error_code.upper(),
        message=error.message,
        details={} if error.param is None else {"parameter": error.param},
    )
    return Refused(findings=(finding,), request_id=request_id)


def log_refusals(refusals: Sequence[Refused], documents: int) -> None:
    """One line for a call, however much was wrong with it; nothing personal is in it (spec 3, 3.1)."""
    if not refusals or not log.isEnabledFor(logging.INFO):
        return
    shown = [_for_log(refused) for refused in refusals[:_LOGGED_DOCUMENTS]]
    text = json.dumps(shown, ensure_ascii=False)
    if len(text) > _LOGGED_LETTERS:
        text = f"{text[:_LOGGED_LETTERS]}…"
    log.info("refused %s of %s documents: %s", len(refusals), documents, text)


def _for_log(refused: Refused) -> dict[str, Any]:
    findings = [finding.for_log() for finding in refused.findings[:_LOGGED_FINDINGS]]
    named = refused.request_id
    return {
        "request_id": None if named is None else discreet(named),
        "errors": len(refused.findings),
        "findings": findings,
    }
