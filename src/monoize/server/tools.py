"""Doors beside the model calls: health, and the dry run of a translation."""

from __future__ import annotations

from monoize import __version__
from monoize.pipeline.call import Answer
from monoize.pipeline.translate import translated
from monoize.server.http import HttpRequest, json_answer, read_json
from monoize.server.late import Late
from monoize.server.state import State

__all__ = ["alive", "ready", "root", "translate"]


console = Late("monoize.server.console")


async def root(request: HttpRequest, state: State) -> Answer:
    """The console for browsers; programs read which program this is."""
    if "text/html" in request.headers.get("accept", ""):
        return await console.page(request, state)
    return json_answer({"name": "monoize", "version": __version__}, headers={"vary": "accept"})


async def alive(request: HttpRequest, state: State) -> Answer:
    del request, state
    return json_answer({"status": "ok"})


async def ready(request: HttpRequest, state: State) -> Answer:
    """Ready means: there is somebody to answer."""
    del request
    providers = len(state.catalog.providers)  # their names are not everybody's affair
    status = 200 if providers else 503
    return json_answer(
        {"status": "ok" if providers else "no providers", "providers": providers}, status
    )


async def translate(request: HttpRequest, state: State) -> Answer:
    _, wire = await read_json(request, state.kit.limits, state.kit.timeouts)
    return json_answer(translated(wire, state.kit, request.caller, request.request_id))
