"""The index of runs: rows of the database where there is one, else what lies in the folder."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from functools import partial
from itertools import islice

from typing_extensions import override

from monoize.agent.runs.files import RunFiles
from monoize.store import agent_runs
from monoize.store.agent_runs import RunFilter, RunRow
from monoize.store.database import Database
from monoize.store.paging import bounded

__all__ = ["DatabaseBook", "FolderBook", "RunBook"]


class RunBook(ABC):
    @abstractmethod
    async def put(self, row: RunRow) -> None: ...

    @abstractmethod
    async def find(self, run_id: str, owner: str | None) -> RunRow | None:
        """`owner` None: whoever's it is."""

    @abstractmethod
    async def page(self, wanted: RunFilter, before: str | None, limit: int) -> tuple[RunRow, ...]:
        """Newest first."""

    @abstractmethod
    async def ended(self, owner: str | None) -> tuple[RunRow, ...]: ...

    @abstractmethod
    async def old(self, ended_before: int, limit: int) -> tuple[str, ...]: ...

    @abstractmethod
    async def drop(self, run_ids: tuple[str, ...]) -> None: ...


class DatabaseBook(RunBook):
    def __init__(self, database: Database) -> None:
        self._database = database

    @override
    async def put(self, row: RunRow) -> None:
        await self._database.write(partial(agent_runs.put, row=row))

    @override
    async def find(self, run_id: str, owner: str | None) -> RunRow | None:
        return await self._database.read(partial(agent_runs.find, run_id=run_id, owner=owner))

    @override
    async def page(self, wanted: RunFilter, before: str | None, limit: int) -> tuple[RunRow, ...]:
        work = partial(agent_runs.page, wanted=wanted, before=before, limit=limit)
        return await self._database.read(work)

    @override
    async def ended(self, owner: str | None) -> tuple[RunRow, ...]:
        return await self._database.read(partial(agent_runs.totals, owner=owner))

    @override
    async def old(self, ended_before: int, limit: int) -> tuple[str, ...]:
        work = partial(agent_runs.old, ended_before=ended_before, limit=limit)
        return await self._database.read(work)

    @override
    async def drop(self, run_ids: tuple[str, ...]) -> None:
        await self._database.write(partial(agent_runs.drop, run_ids=run_ids))


class FolderBook(RunBook):
    """Summaries in the folders of the runs; whoever writes those has written everything."""

    def __init__(self, files: RunFiles) -> None:
        self._files = files

    @override
    async def put(self, row: RunRow) -> None:
        del row

    @override
    async def find(self, run_id: str, owner: str | None) -> RunRow | None:
        found = await asyncio.to_thread(self._files.summary, run_id)
        if found is None or owner not in (None, found.row.owner):
            return None
        return found.row

    @override
    async def page(self, wanted: RunFilter, before: str | None, limit: int) -> tuple[RunRow, ...]:
        return await asyncio.to_thread(self._page, wanted, before, bounded(limit))

    @override
    async def ended(self, owner: str | None) -> tuple[RunRow, ...]:
        wanted = RunFilter(owner=owner, running=False)
        return await asyncio.to_thread(self._page, wanted, None, None)

    @override
    async def old(self, ended_before: int, limit: int) -> tuple[str, ...]:
        rows = await self.ended(None)
        due = (row.run_id for row in rows if (row.ended_at or ended_before) < ended_before)
        return tuple(islice(due, limit))

    @override
    async def drop(self, run_ids: tuple[str, ...]) -> None:
        del run_ids

    def _page(self, wanted: RunFilter, before: str | None, limit: int | None) -> tuple[RunRow, ...]:
        rows = (found.row for found in self._files.newest_first(before))
        return tuple(islice((row for row in rows if _fits(row, wanted)), limit))


def _fits(row: RunRow, wanted: RunFilter) -> bool:
    for name in ("owner", "state", "outcome", "model", "parent"):
        value = getattr(wanted, name)
        if value is not None and getattr(row, name) != value:
            return False
    return wanted.running is None or wanted.running is (row.ended_at is None)
