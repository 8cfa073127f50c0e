"""The console: the same shell for every page's path, and its files under addresses that never change what they mean."""

from __future__ import annotations

from functools import cache

import msgspec

from monoize import console
from monoize.errors import NotFound
from monoize.pipeline.call import Answer
from monoize.server import sessions
from monoize.server.http import HttpRequest
from monoize.server.state import State

__all__ = ["asset", "page"]

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' data: blob:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_DENIED = ("accelerometer", "camera", "display-capture", "geolocation", "gyroscope", "magnetometer")
_MORE_DENIED = ("midi", "payment", "usb", "serial", "hid", "screen-wake-lock")
_PERMISSIONS = ", ".join(
    (*(f"{name}=()" for name in (*_DENIED, *_MORE_DENIED)), "microphone=(self)")
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": _PERMISSIONS,
}
_SHELL_HEADERS = {**_HEADERS, "cache-control": "no-store", "vary": "accept"}
_KEPT = {"cache-control": "public, max-age=31536000, immutable", "vary": "accept-encoding"}
_ASSET_HEADERS = {**_HEADERS, **_KEPT}
_PACKED_HEADERS = {**_ASSET_HEADERS, "content-encoding": "gzip"}


async def page(request: HttpRequest, state: State) -> Answer:
    arrival = await _arrival(request, state)
    cookie = {} if arrival.cookie is None else {"set-cookie": arrival.cookie}
    return Answer(
        status=200,
        content_type="text/html; charset=utf-8",
        headers={**_SHELL_HEADERS, **cookie},
        body=_filled(request.path, arrival.view),
    )


async def _arrival(request: HttpRequest, state: State) -> sessions.Arrival:
    if request.method == "HEAD":  # nobody will read it: no session begins with it
        return sessions.Arrival(view=await sessions.look(request, state))
    return await sessions.arrive(request, state)


async def asset(request: HttpRequest, state: State, version: str, name: str) -> Answer:
    del state
    bundle = console.bundle()
    if name not in bundle.assets or version != bundle.version:
        raise NotFound("the console has no such file; reload the page if it was open for long")
    headers, content = _ASSET_HEADERS, bundle.assets[name]
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers, content = _PACKED_HEADERS, bundle.packed[name]
    return Answer(status=200, content_type=bundle.kind(name), headers=headers, body=content)


def _filled(path: str, session: sessions.SessionView) -> bytes:
    """Whatever a name may hold, it ends neither an attribute nor the script element."""
    data = msgspec.json.encode(session).decode().replace("<", "\\u003c")
    text = _frame(path.split("/")[1] or "overview").replace("{{role}}", session.role or "")
    return text.replace("{{session}}", data).encode()  # last: what it holds is replaced no more


@cache
def _frame(segment: str) -> str:
    """The shell with what is the same for everybody."""
    bundle = console.bundle()
    prefix = f"/console/{bundle.version}"
    early = bundle.with_imports("core/app.js", f"pages/{segment}.js")
    preloads = "\n".join(f'<link rel="modulepreload" href="{prefix}/{name}">' for name in early)
    title = f"{segment.replace('-', ' ').capitalize()} · Monoize"
    text = bundle.page.replace("{{preloads}}", preloads).replace("{{assets}}", prefix)
    return text.replace("{{title}}", title)
