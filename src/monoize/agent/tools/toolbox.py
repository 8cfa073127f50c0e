"""Several sources of tools as one: checked when the manifest is taken, watched for changes, their results in envelopes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, assert_never

from typing_extensions import override

from monoize.agent.canonical_json import NotCanonical, hash_of
from monoize.agent.machine.schema import compile_problem
from monoize.agent.manifest import TOOL_NAME, ToolManifest, ToolSpec
from monoize.agent.message import ToolInvocation
from monoize.agent.outcome import FailureCode
from monoize.agent.ports import ToolAway, Toolbox
from monoize.agent.tools._capture import Capture
from monoize.agent.tools.source import (
    MOST_BYTES,
    Failed,
    Outcome,
    Returned,
    SourceAway,
    ToolSource,
)

__all__ = ["Tools"]

_SCOPES = ("read", "write", "execute")
_LONGEST_MESSAGE = 4096  # characters of an error
_NOTES = 256  # bytes in which a source says what it has done to a text


class Tools(Toolbox):
    """For one run: the first manifest that is taken is the one that every later call is held against."""

    def __init__(self, sources: Sequence[ToolSource]) -> None:
        self._sources = tuple(sources)
        self._snapshot: tuple[tuple[ToolSpec, ...], ...] | None = None

    @override
    async def manifest(self) -> ToolManifest:
        """In the order of the sources. Raises ToolAway with a code of FAILED_PREFLIGHT."""
        found: list[tuple[ToolSpec, ...]] = []
        for source in self._sources:
            try:
                found.append(await source.specs())
            except SourceAway as away:
                raise ToolAway(
                    FailureCode.TOOLS_UNAVAILABLE, f"{source.name} is not there: {away}"
                ) from None
        _check(self._sources, found)
        if self._snapshot is None:
            self._snapshot = tuple(found)
        return ToolManifest(tools=tuple(spec for specs in found for spec in specs))

    @override
    async def call(self, call: ToolInvocation, timeout_seconds: float) -> bytes:
        async with asyncio.timeout(timeout_seconds):
            if self._snapshot is None:
                await self.manifest()
            source, spec, expected = self._placed(call.name)
            try:
                _hold_against(expected, await source.specs(), source.name)
                outcome = await source.call(call.name, call.arguments)
            except SourceAway as away:
                outcome = Failed(
                    code="transport_error", message=f"{source.name} is not there: {away}"
                )
        return _envelope(call, spec, outcome)

    @override
    async def aclose(self) -> None:
        """Every source, whatever becomes of the others."""
        closed = await asyncio.gather(
            *(source.aclose() for source in self._sources), return_exceptions=True
        )
        for problem in closed:
            if isinstance(problem, BaseException):
                raise problem

    def _placed(self, name: str) -> tuple[ToolSource, ToolSpec, tuple[ToolSpec, ...]]:
        for source, specs in zip(self._sources, self._snapshot or (), strict=True):
            for spec in specs:
                if spec.name == name:
                    return source, spec, specs
        raise ToolAway(FailureCode.UNKNOWN_TOOL, f"there is no tool {name}")


# --- before --------------------------------------------------------------------------------------


def _check(sources: Sequence[ToolSource], found: Sequence[Sequence[ToolSpec]]) -> None:
    """Names that every provider takes, each of them once, with schemas that can be held against values."""
    owners: dict[str, str] = {}
    for source, specs in zip(sources, found, strict=True):
        for spec in specs:
            if not TOOL_NAME.fullmatch(spec.name):
                raise ToolAway(
                    FailureCode.TOOLS_UNAVAILABLE,
                    f"{source.name} names a tool {spec.name[:80]!r}: a name has 1 to 64 letters, digits, _ or -",
                )
            if spec.name in owners:
                raise ToolAway(
                    FailureCode.TOOLS_UNAVAILABLE,
                    f"two tools are called {spec.name}: one of {owners[spec.name]} and one of {source.name}",
                )
            owners[spec.name] = source.name
            if spec.scope not in _SCOPES:
                raise ToolAway(
                    FailureCode.TOOLS_UNAVAILABLE,
                    f"{spec.name} of {source.name}: the scope {spec.scope!r} is none of {', '.join(_SCOPES)}",
                )
            for problem in _schema_problems(spec):
                raise ToolAway(
                    FailureCode.SCHEMA_UNSUPPORTED, f"{spec.name} of {source.name}: {problem}"
                )


def _schema_problems(spec: ToolSpec) -> Iterator[str]:
    if spec.parameters.get("type") != "object":
        yield 'the schema of its arguments must have "type": "object"'
    for what, schema in (("arguments", spec.parameters), ("result", spec.result_schema)):
        if schema is None:
            continue
        if (problem := compile_problem(schema)) is not None:
            yield f"the schema of its {what} is not usable: {problem}"
        elif (place := _remote_reference(schema)) is not None:
            yield f"the schema of its {what} refers to {place!r}, which is outside of it"
    try:
        hash_of(spec.as_json())
    except NotCanonical as error:
        yield f"it cannot be hashed: {error}"


def _remote_reference(schema: Any) -> str | None:
    """Nothing is fetched, and a reference that cannot be followed would only show when a value comes."""
    match schema:
        case Mapping():
            for name in ("$ref", "$dynamicRef"):
                place = schema.get(name)
                if isinstance(place, str) and not place.startswith("#"):
                    return place
            return next(filter(None, map(_remote_reference, schema.values())), None)
        case list() | tuple():
            return next(filter(None, map(_remote_reference, schema)), None)
        case _:
            return None


def _hold_against(expected: Sequence[ToolSpec], now: Sequence[ToolSpec], source: str) -> None:
    """Any difference ends the run: what was agreed to is not what would be called."""
    before = {spec.name: hash_of(spec.as_json()) for spec in expected}
    after = {spec.name: _digest(spec) for spec in now}
    for problem, names in (
        ("no longer has", before.keys() - after.keys()),
        ("has a new tool", after.keys() - before.keys()),
        (
            "has changed",
            {name for name in before.keys() & after.keys() if before[name] != after[name]},
        ),
    ):
        if names:
            raise ToolAway(FailureCode.MANIFEST_CHANGED, f"{source} {problem} {min(names)}")


def _digest(spec: ToolSpec) -> str | None:
    try:
        return hash_of(spec.as_json())
    except NotCanonical:  # then it is not what it was
        return None


# --- after ---------------------------------------------------------------------------------------


def _envelope(call: ToolInvocation, spec: ToolSpec, outcome: Outcome) -> bytes:
    match outcome:
        case Returned(value=value):
            try:
                result = _written(value)
            except (ValueError, TypeError, RecursionError) as problem:
                failed = Failed(code="protocol_error", message=f"its result is no JSON: {problem}")
                return _envelope(call, spec, failed)
            return _assembled(call, "ok", result, b"null", retryable=False)
        case Failed(code=code, message=message):
            error = _written({"code": code, "message": message[:_LONGEST_MESSAGE]})
            # Lost on the way: trying again is safe only where the first try cannot have done anything.
            retryable = code == "transport_error" and spec.pure
            return _assembled(call, "error", b"null", error, retryable=retryable)
        case _:
            assert_never(outcome)


def _written(value: Any) -> bytes:
    """Strict JSON within the room; half a character (a lone surrogate) becomes a question mark."""
    data = _dumped(value)
    # A text is measured as it is, not as JSON escapes it: a source that cut it has told its size in it.
    measured = value.encode("utf-8", "replace") if isinstance(value, str) else data
    if len(measured) <= MOST_BYTES + _NOTES:
        return data
    capture = Capture(MOST_BYTES)
    capture.feed(measured)
    return _dumped(capture.captured().text)


def _dumped(value: Any) -> bytes:
    written = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return written.encode("utf-8", "replace")


def _assembled(
    call: ToolInvocation, status: str, result: bytes, error: bytes, *, retryable: bool
) -> bytes:
    return b"".join(
        (
            b'{"status":"%s","tool":' % status.encode(),
            _written(call.name),
            b',"tool_call_id":',
            _written(call.id),
            b',"result":',
            result,
            b',"error":',
            error,
            b',"retryable":%s}' % (b"true" if retryable else b"false"),
        )
    )
