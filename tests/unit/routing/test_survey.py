"""The dry run: everybody who has the model, with the reason why not."""

from decimal import Decimal

import pytest

from monoize.routing.breaker import Outcome
from monoize.routing.catalog import Catalog
from monoize.routing.health import HealthBoard
from monoize.routing.waterfall import Wanted, surveyed
from monoize.settings import ChannelSettings, HealthSettings, ModelSettings, ProviderSettings

ROW = {"m": ModelSettings(redirect="upstream-m")}
LIMITS = HealthSettings(cooldown_seconds=12.5)


def provider(id, channels=("a",), models=None, **fields):
    seats = tuple(ChannelSettings(id=c) if isinstance(c, str) else c for c in channels)
    return ProviderSettings(
        id=id, type="messages", models=ROW if models is None else models, channels=seats, **fields
    )


@pytest.mark.spec("ROUT-1", "ROUT-2", "ROUT-3", "D17")
def test_tells_the_reason_of_everybody_in_configured_order():
    off, light = ChannelSettings(id="off", enabled=False), ChannelSettings(id="light", weight=0)
    providers = (
        provider("gone", enabled=False),
        provider("other", models={"n": ModelSettings()}),
        provider("dear", models={"m": ModelSettings(multiplier="2")}),
        provider("p", (off, light, "sick", "tired", "busy", "well")),
        ProviderSettings(id="here", type="local", models={"*": ModelSettings()}),
    )
    board = HealthBoard(LIMITS)
    sick, tired, busy = (board.breaker(providers[3], c, "") for c in providers[3].channels[2:5])
    for _ in range(3):
        busy.admit(-12.5).settle(Outcome.FAILURE, -12.5)
        sick.admit(0).settle(Outcome.FAILURE, 0)
    tired.admit(0).settle(Outcome.RATE_LIMITED, 0, 3.0)
    busy.admit(0)
    wanted = Wanted(model="m", ceiling=Decimal("1.5"))
    found = surveyed(wanted, Catalog(providers), board, 0.75)
    assert [
        (o.provider.id, o.channel and o.channel.id, o.upstream_model, o.reason) for o in found
    ] == [
        ("gone", None, "upstream-m", "provider is disabled"),
        ("dear", None, "m", "multiplier 2 is above the ceiling 1.5"),
        ("p", "off", "upstream-m", "channel is disabled"),
        ("p", "light", "upstream-m", "weight is 0"),
        ("p", "sick", "upstream-m", "unhealthy for 12 s more"),
        ("p", "tired", "upstream-m", "resting for 3 s more (Retry-After)"),
        ("p", "busy", "upstream-m", "probing: another request is on its way"),
        ("p", "well", "upstream-m", None),
        ("here", "engine", "m", None),
    ]


def test_looking_reserves_nothing():
    place = provider("p")
    board, catalog = HealthBoard(LIMITS), Catalog((place,))
    breaker = board.breaker(place, place.channels[0], "")
    for _ in range(3):
        breaker.admit(0).settle(Outcome.FAILURE, 0)
    for _ in range(2):
        assert surveyed(Wanted(model="m"), catalog, board, 12.5)[0].reason is None
    assert breaker.eligible(12.5)
