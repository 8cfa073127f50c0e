"""What is imported before the port opens, and what a moment later, so that a start is short and few callers wait for an import."""

from __future__ import annotations

from monoize.media import late_fetch
from monoize.protocol import protocol, protocol_ids
from monoize.settings import Settings

__all__ = ["LATER_SECONDS", "import_first", "imported_later"]

LATER_SECONDS = 1.0  # after the start: the first callers have the processor to themselves

_COMMON = "chat_completion"  # what most callers speak
_GENERAL_CLIENT = "monoize.upstream.aiohttp_client"


def import_first(settings: Settings) -> None:
    """What the first call needs: the protocols of the providers, and that of most callers."""
    spoken = {provider.type for provider in settings.providers} & set(protocol_ids())
    for name in sorted({_COMMON, *spoken}):
        protocol(name)


def imported_later(settings: Settings) -> tuple[str, ...]:
    """What takes long, and some call will need it with these settings; other protocols take a few milliseconds."""
    wanted = []
    channels = [channel for provider in settings.providers for channel in provider.channels]
    if any(channel.proxy is not None for channel in channels):
        wanted.append(_GENERAL_CLIENT)
    if settings.media.http_urls.enabled:
        wanted.append(late_fetch.MODULE)
    return tuple(wanted)
