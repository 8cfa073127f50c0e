"""The doors of agent runs: preview, begin, watch, list, show, download, interrupt, verify and replay (spec 5)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Any, assert_never

import msgspec

from monoize import wirejson
from monoize.agent.live.watching import Delta, Ended, Seen, StateSeen, ToolSeen
from monoize.agent.runs.request import RunRequest, read_request
from monoize.errors import Forbidden, InvalidRequest, MonoizeError, NotFound, Unauthorized
from monoize.pipeline.call import Answer, Body
from monoize.server.agents import Agents
from monoize.server.http import HttpRequest, json_answer, read_json
from monoize.server.state import State
from monoize.store.agent_runs import LONGEST_FILTER, RunFilter
from monoize.store.paging import LARGEST_PAGE

if TYPE_CHECKING:
    from monoize.agent.runs.service import RunService, Shown

__all__ = [
    "begin",
    "contract",
    "entries",
    "events",
    "interrupt",
    "listed",
    "payload",
    "replay",
    "show",
    "stats",
    "tools",
    "transcript",
    "verify",
]

_PAGE = 50
_PIECE_BYTES = 256 * 1024
_FILTERS = ("state", "outcome", "model", "parent", "owner")
_PARAMETERS = (*_FILTERS, "running", "after", "limit")
_STREAM_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}
_ASKED_SECONDS = 1.0  # between two looks whether a watcher may still watch
_KEEP_ALIVE = b": still running\n\n"


async def begin(request: HttpRequest, state: State) -> Answer:
    """The run goes on when the caller hangs up: it has an id, and an end of its own."""
    runs, asked = await _runs(state), await _asked(request, state)
    run_id = await runs.create(asked, request.caller, request.address)
    where = {"location": f"/v1/agent/runs/{run_id}", "x-monoize-run": run_id}
    if asked.stream:
        return _streamed(runs, run_id, request, state, where)
    shown = await _ended(runs, run_id, request, state)
    status = HTTPStatus.OK if shown.has_ended else HTTPStatus.ACCEPTED
    return json_answer(shown.reply(), status, where)


async def contract(request: HttpRequest, state: State) -> Answer:
    """The contract that the same body would be bound by; no run is begun."""
    runs, asked = await _runs(state), await _asked(request, state)
    found = await runs.preview(asked, request.caller, request.address)
    return json_answer(msgspec.to_builtins(found))


async def tools(request: HttpRequest, state: State) -> Answer:
    """What the caller may name in `tools`."""
    offered = (await _runs(state)).offered(request.caller)
    return json_answer({"data": msgspec.to_builtins(offered)})


async def listed(request: HttpRequest, state: State) -> Answer:
    """Newest first."""
    query = request.query
    limit, after = _limit(query), query.get("after")
    rows = await (await _runs(state)).page(request.caller, _filter(query), after, limit)
    following = rows[-1].run_id if len(rows) == limit else None
    return json_answer({"data": [msgspec.to_builtins(row) for row in rows], "next": following})


async def show(request: HttpRequest, state: State, *, run_id: str) -> Answer:
    runs = await _runs(state)
    shown = await runs.shown(run_id, request.caller)
    waiting = await runs.waiting(run_id, request.caller)
    return json_answer(
        {
            **shown.reply(),
            "run": msgspec.to_builtins(shown.row),
            "task": await runs.task(run_id, request.caller),
            "waiting_for_approval": msgspec.to_builtins(waiting),
        }
    )


async def events(request: HttpRequest, state: State, *, run_id: str) -> Answer:
    runs = await _runs(state)
    await runs.shown(run_id, request.caller)
    known = request.headers.get("last-event-id")
    return _streamed(runs, run_id, request, state, known=known)


async def transcript(request: HttpRequest, state: State, *, run_id: str) -> Answer:
    """JSON Lines, or everything with the verifier in one zip file."""
    runs, form = await _runs(state), request.query.get("format", "jsonl")
    body: bytes | Body
    if form == "jsonl":
        body, kind = await runs.transcript(run_id, request.caller), "application/x-ndjson"
    elif form == "zip":
        body, kind = _File(await runs.export(run_id, request.caller)), "application/zip"
    else:
        raise InvalidRequest("format must be jsonl or zip", param="format")
    name = f'attachment; filename="{run_id}.{form}"'
    return Answer(status=200, content_type=kind, headers={"content-disposition": name}, body=body)


async def entries(request: HttpRequest, state: State, *, run_id: str) -> Answer:
    """The transcript a page at a time."""
    query = request.query
    _known(query, ("from", "limit", "payloads"))
    first, limit, payloads = query.get("from", "0"), _limit(query), query.get("payloads", "false")
    if not re.fullmatch("[0-9]{1,9}", first):
        raise InvalidRequest("from must be the number of an entry", param="from")
    if payloads not in ("true", "false"):
        raise InvalidRequest("payloads must be true or false", param="payloads")
    page = await (await _runs(state)).entries(
        run_id, request.caller, int(first), limit, payloads=payloads == "true"
    )
    return json_answer(msgspec.to_builtins(page))


async def payload(request: HttpRequest, state: State, *, run_id: str, digest: str) -> Answer:
    found = await (await _runs(state)).payload(run_id, request.caller, digest)
    return json_answer(msgspec.to_builtins(found))


async def interrupt(request: HttpRequest, state: State, *, run_id: str) -> Answer:
    """Answers once the run has ended, which it does as soon as its process hears of it."""
    runs = await _runs(state)
    await runs.interrupt(run_id, request.caller, "interrupted by its caller")
    shown = await _ended(runs, run_id, request, state)
    status = HTTPStatus.OK if shown.has_ended else HTTPStatus.ACCEPTED
    return json_answer(shown.reply(), status)


async def verify(request: HttpRequest, state: State, *, run_id: str) -> Answer:
    return json_answer(await (await _runs(state)).verified(run_id, request.caller))


async def replay(request: HttpRequest, state: State) -> Answer:
    _, wire = await read_json(request, state.kit.limits, state.kit.timeouts)
    run_id = wire.get("run_id")
    if not isinstance(run_id, str) or set(wire) != {"run_id"}:
        raise InvalidRequest("the body is {run_id}: the run to be replayed", param="run_id")
    return json_answer(await (await _runs(state)).replayed(run_id, request.caller))


async def stats(request: HttpRequest, state: State) -> Answer:
    """The baseline figures of the caller's runs; an admin's are of all."""
    return json_answer(msgspec.to_builtins(await (await _runs(state)).stats(request.caller)))


def _agents(state: State) -> Agents:
    if state.lasting.agents is None:
        raise NotFound("this gateway runs no agents")
    return state.lasting.agents


async def _runs(state: State) -> RunService:
    return await _agents(state).service()


async def _ended(runs: RunService, run_id: str, request: HttpRequest, state: State) -> Shown:
    """The run when it is over; as it stands when the gateway stops before that."""
    ending = asyncio.ensure_future(runs.ended(run_id))
    stopping = asyncio.ensure_future(_agents(state).stopping.wait())
    try:
        await asyncio.wait({ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return ending.result() if ending.done() else await runs.shown(run_id, request.caller)
    finally:
        for task in (ending, stopping):
            task.cancel()
        await asyncio.wait({ending, stopping})


# --- what is asked for ---


async def _asked(request: HttpRequest, state: State) -> RunRequest:
    _, wire = await read_json(request, state.kit.limits, state.kit.timeouts)
    return read_request(wire, max_task_bytes=state.settings.settings.agent.max_task_bytes)


def _known(query: Mapping[str, str], names: Sequence[str]) -> None:
    unknown = next((name for name in query if name not in names), None)
    if unknown is not None:
        known = ", ".join(names)
        raise InvalidRequest(f"{unknown[:64]!r} is no parameter here (known: {known})")


def _filter(query: Mapping[str, str]) -> RunFilter:
    _known(query, _PARAMETERS)
    running = query.get("running")
    if running not in (None, "true", "false"):
        raise InvalidRequest("running must be true or false", param="running")
    long = next((name for name, value in query.items() if len(value) > LONGEST_FILTER), None)
    if long is not None:
        raise InvalidRequest(f"{long} has more than {LONGEST_FILTER} characters", param=long)
    named = {name: query[name] for name in _FILTERS if name in query}
    return RunFilter(**named, running=None if running is None else running == "true")


def _limit(query: Mapping[str, str]) -> int:
    text = query.get("limit", str(_PAGE))
    if not re.fullmatch("[0-9]{1,4}", text) or not 1 <= int(text) <= LARGEST_PAGE:
        raise InvalidRequest(f"limit must be between 1 and {LARGEST_PAGE}", param="limit")
    return int(text)


class _File:
    """Read a piece at a time; closed when it was sent, or nobody wants it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        while piece := await asyncio.to_thread(self._file.read, _PIECE_BYTES):
            yield piece

    async def aclose(self) -> None:
        self._file.close()


# --- events ---


def _streamed(
    runs: RunService,
    run_id: str,
    request: HttpRequest,
    state: State,
    headers: Mapping[str, str] | None = None,
    known: str | None = None,
) -> Answer:
    async def may_watch() -> bool:
        """A key may be revoked, a session end, a user be turned off or lose the role while they watch."""
        who = request.headers, request.address, request.method, request.peer
        try:
            await runs.shown(run_id, await state.access.caller_of(*who))
        except (Unauthorized, Forbidden, NotFound):
            return False
        except MonoizeError:  # nobody can say at this moment
            return True
        return True

    return Answer(
        status=200,
        content_type="text/event-stream",
        headers={**(headers or {}), **_STREAM_HEADERS},
        body=_Events(runs.watched(run_id), state, may_watch, known),
    )


class _Events:
    """`known` is the id of the last event that the caller has seen: a state that it has drawn is not sent again."""

    def __init__(
        self,
        seen: AsyncGenerator[Seen, None],
        state: State,
        may_watch: Callable[[], Awaitable[bool]],
        known: str | None,
    ) -> None:
        self._seen = seen
        self._stopping = _agents(state).stopping
        self._silence = state.kit.timeouts.keep_alive
        self._clock = state.kit.clock
        self._may_watch = may_watch
        self._asked_at = self._clock.monotonic()
        self._known = known
        self._written = self._write()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._written

    async def aclose(self) -> None:
        await self._written.aclose()

    async def _write(self) -> AsyncGenerator[bytes, None]:
        seen = self._seen
        stopping = asyncio.ensure_future(self._stopping.wait())
        coming: asyncio.Task[Seen] | None = None
        try:
            while not stopping.done():
                coming = coming or asyncio.create_task(_next(seen))
                either: set[asyncio.Future[Any]] = {coming, stopping}
                await asyncio.wait(
                    either, timeout=self._silence, return_when=asyncio.FIRST_COMPLETED
                )
                if not await self._is_admitted():
                    return
                if not coming.done():
                    yield _KEEP_ALIVE
                    continue
                event, coming = coming.result(), None
                if not self._is_known(event):
                    yield _event(event)
                if isinstance(event, Ended):
                    return
        finally:
            stopping.cancel()
            if coming is not None:
                coming.cancel()
                await asyncio.wait({coming})
            await seen.aclose()

    async def _is_admitted(self) -> bool:
        now = self._clock.monotonic()
        if now - self._asked_at < _ASKED_SECONDS:
            return True
        self._asked_at = now
        return await self._may_watch()

    def _is_known(self, event: Seen) -> bool:
        return isinstance(event, StateSeen) and str(event.digest.seq) == self._known


async def _next(seen: AsyncGenerator[Seen, None]) -> Seen:
    return await anext(seen)


def _event(seen: Seen) -> bytes:
    match seen:
        case StateSeen(digest=digest):
            said = {"run_id": digest.run_id, "digest": msgspec.to_builtins(digest)}
            return _frame("state", said, digest.seq)
        case Delta():
            return _frame("delta", _plain(seen))
        case ToolSeen():
            return _frame("tool", _plain(seen))
        case Ended():
            said = {name: value for name, value in _plain(seen).items() if name != "reason"}
            return _frame("outcome", said, seen.digest.seq)
        case _:
            assert_never(seen)


def _plain(seen: Seen) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(seen)
    fields.pop("event")
    return fields


def _frame(name: str, said: Mapping[str, Any], number: int | None = None) -> bytes:
    numbered = b"" if number is None else b"id: %d\n" % number
    return b"event: %s\n%sdata: %s\n\n" % (name.encode(), numbered, wirejson.dumps(said))
