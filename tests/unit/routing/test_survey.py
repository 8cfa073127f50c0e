"""The dry run: everybody who has the model, with the reason why not."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monoize.routing.breaker import Outcome
from monoize.routing.catalog import Catalog
from monoize.routing.health import HealthBoard
from monoize.routing.survey import explained, is_anybody_able
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


states = st.sampled_from(
    [
        ("well", {}),
        ("sick", {}),
        ("off", {"enabled": False}),
        ("light", {"weight": 0}),
    ]
)
places = st.builds(
    lambda number, models, multiplier, states, enabled: (
        number,
        models,
        multiplier,
        states,
        enabled,
    ),
    st.integers(0, 3),
    st.sampled_from(["m", "*", "n"]),
    st.sampled_from([None, "3"]),
    st.lists(states, min_size=1, max_size=2),
    st.sampled_from([True, True, False]),
)


@pytest.mark.spec("D27", "ROUT-2", "ROUT-3")
@settings(max_examples=60, deadline=None)
@given(
    st.lists(places, max_size=4, unique_by=lambda place: place[0]),
    st.sampled_from([None, Decimal(2)]),
    st.sampled_from(["chat_completions", "embeddings"]),
    st.sampled_from([None, "1"]),
)
def test_somebody_is_able_exactly_where_the_explanation_has_no_objection(
    specs, ceiling, operation, backend
):
    providers, board = [], HealthBoard(LIMITS)
    for number, model, multiplier, kinds, enabled in specs:
        channels = [
            ChannelSettings(id=f"{name}{n}", **fields) for n, (name, fields) in enumerate(kinds)
        ]
        models = {model: ModelSettings(multiplier=multiplier)}
        providers.append(provider(str(number), channels, models, enabled=enabled))
        for channel in channels:
            for _ in range(3 if channel.id.startswith("sick") else 0):
                board.breaker(providers[-1], channel, "m").admit(0).settle(Outcome.FAILURE, 0)
    catalog = Catalog(tuple(providers))
    wanted = Wanted(model="m", ceiling=ceiling, operation=operation, backend=backend)
    expected = explained(wanted, catalog, board, 1.0).code is None
    assert is_anybody_able(wanted, catalog) is expected
