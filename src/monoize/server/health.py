"""How the channels are, as metrics for Prometheus."""

from __future__ import annotations

from monoize.pipeline.call import Answer
from monoize.routing.health import ChannelHealth
from monoize.server.http import HttpRequest
from monoize.server.state import State

__all__ = ["metrics"]


async def metrics(request: HttpRequest, state: State) -> Answer:
    # Imported by the first who asks: most starts never need it.
    from monoize.telemetry.metrics import CONTENT_TYPE, exposition  # noqa: PLC0415

    lasting = state.lasting
    charges = request.caller.role == "admin"
    body = exposition(
        _rows(state), lasting.counts, lasting.reframes, lasting.run_counts, charges=charges
    )
    return Answer(status=200, content_type=CONTENT_TYPE, headers={}, body=body)


def _rows(state: State) -> list[ChannelHealth]:
    """Every enabled provider's channels."""
    return state.kit.board.snapshot(state.catalog.providers, state.kit.clock.monotonic())
