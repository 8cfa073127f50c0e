"""A fetcher for gateways that may never fetch: its HTTP client takes a tenth of a second to import, and 15 MB."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from monoize.media.blob import Blob
from monoize.media.policy import FetchPolicy
from monoize.settings import HttpUrlSettings

if TYPE_CHECKING:
    from monoize.media.fetch import Fetcher

__all__ = ["MODULE", "LateFetcher"]

MODULE = "monoize.media.fetch"


class LateFetcher:
    """Like `media.fetch.Fetcher`, which it makes for the first address that may be fetched."""

    def __init__(self, settings: HttpUrlSettings) -> None:
        self._settings = settings
        self._policy = FetchPolicy(settings)
        self._fetcher: Fetcher | None = None

    @property
    def enabled(self) -> bool:
        return self._policy.enabled

    @asynccontextmanager
    async def fetched(self, url: str) -> AsyncIterator[Blob]:
        """The file, to be read once and within the block. Raises InvalidRequest, Forbidden or PayloadTooLarge."""
        self._policy.target(url)
        if self._fetcher is None:
            await asyncio.to_thread(import_module, MODULE)  # others are answered meanwhile
            self._fetcher = self._made()
        async with self._fetcher.fetched(url) as blob:
            yield blob

    def _made(self) -> Fetcher:
        from monoize.media.fetch import Fetcher  # noqa: PLC0415 - what this module is for

        return Fetcher(self._settings, policy=self._policy)
