"""The edge: address, sizes and times."""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta

from monoize.settings.section import PositiveInt, Seconds, Section

__all__ = ["ConsoleSettings", "LimitSettings", "ServerSettings", "TimeoutSettings"]

_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")


class LimitSettings(Section, frozen=True, kw_only=True):
    """Sizes. Reaching one gives a clear error, never an endless buffer."""

    body_bytes: PositiveInt = 64 * 1024**2  # a caller's request
    header_bytes: PositiveInt = 64 * 1024
    reply_bytes: PositiveInt = 256 * 1024**2  # a provider's unary reply
    event_bytes: PositiveInt = 16 * 1024**2  # one server-sent event of a provider
    connections: PositiveInt = 4096  # callers at a time
    upstream_connections: PositiveInt = 1024  # to all providers together


class TimeoutSettings(Section, frozen=True, kw_only=True):
    """Seconds."""

    body: Seconds = 60  # until a caller's request has arrived
    connect: Seconds = 10  # to a provider
    first_byte: Seconds = 600  # until a provider answers; a provider's request_timeout_ms wins
    idle: Seconds = 300  # between two chunks of a provider's stream
    keep_alive: Seconds = 15  # silence on a caller's stream before a keep-alive goes out (D10, T13)
    drain: Seconds = 30  # streams that still run when the program is told to stop


class ConsoleSettings(Section, frozen=True, kw_only=True):
    """Signing in to the console, the gateway's own page."""

    # On this machine nobody signs in as long as there is no user. null: where no key is needed either; false: never.
    local: bool | None = None
    session_seconds: Seconds = 7 * 24 * 3600  # after which one signs in again, whatever one does
    idle_seconds: Seconds = 24 * 3600  # without a request
    # The header by which a proxy of server.trusted_proxies says who the user is. The proxy must set or remove it itself.
    user_header: str | None = None

    def __post_init__(self) -> None:
        if self.user_header is not None and not _HEADER.fullmatch(self.user_header):
            raise ValueError("user_header must be the name of a header, such as X-Remote-User")


class ServerSettings(Section, frozen=True, kw_only=True):
    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8080
    # Names beside the address itself under which callers reach the gateway; checked against Host and Origin.
    hosts: tuple[str, ...] = ()
    # Proxies in front whose X-Forwarded-For is believed: addresses and ranges.
    trusted_proxies: tuple[str, ...] = ()
    limits: LimitSettings = LimitSettings()
    timeouts: TimeoutSettings = TimeoutSettings()
    console: ConsoleSettings = ConsoleSettings()

    def __post_init__(self) -> None:
        if self.console.user_header is not None and not self.trusted_proxies:
            raise ValueError("console.user_header needs trusted_proxies: nobody else is believed")
