"""Which client a call goes through: the lean one where it can, aiohttp's for the rest."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from typing_extensions import override

from monoize.settings import LimitSettings, TimeoutSettings
from monoize.upstream._target import is_plain
from monoize.upstream.client import UpstreamCall, UpstreamClient, UpstreamReply
from monoize.upstream.lean_client import LeanClient

__all__ = ["Clients"]


class Clients(UpstreamClient):
    def __init__(
        self,
        limits: LimitSettings,
        timeouts: TimeoutSettings,
        *,
        lean: UpstreamClient | None = None,
        general: UpstreamClient | None = None,
    ) -> None:
        self._limits = limits
        self._timeouts = timeouts
        self._lean = lean or LeanClient(limits, timeouts)
        self._general = general

    @override
    def send(self, call: UpstreamCall) -> Coroutine[Any, Any, UpstreamReply]:
        if call.proxy is None and is_plain(call.url):
            return self._lean.send(call)
        return self.general().send(call)

    def general(self) -> UpstreamClient:
        """Made when it is first needed."""
        if self._general is None:
            from monoize.upstream.aiohttp_client import AiohttpClient  # noqa: PLC0415 - slow to import

            self._general = AiohttpClient(self._limits, self._timeouts)
        return self._general

    @override
    async def aclose(self) -> None:
        await self._lean.aclose()
        if self._general is not None:
            await self._general.aclose()
