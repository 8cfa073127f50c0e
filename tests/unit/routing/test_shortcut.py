"""What a shortcut is for, and what it leaves to the waterfall; calls cannot tell which way they went."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.bench import Bench, Said, Sent, provider, status, well
from fakes.caller import body
from monoize.errors import MonoizeError
from monoize.pipeline.call import Trace
from monoize.pipeline.route import fail_forward
from monoize.pipeline.run import prepared
from monoize.routing import policy
from monoize.routing import shortcut as shortcuts
from monoize.routing.breaker import Outcome
from monoize.routing.catalog import Candidate, Catalog
from monoize.routing.health import HealthBoard
from monoize.routing.policy import LoadBoard
from monoize.routing.shortcut import Shortcuts
from monoize.routing.survey import Wanted
from monoize.settings import (
    AffinitySettings,
    CapabilitySettings,
    ChannelSettings,
    HealthSettings,
    ModelSettings,
    PolicySettings,
    ProviderSettings,
)

PLAIN = ProviderSettings(
    id="p",
    type="chat_completion",
    models={"m": ModelSettings(redirect="up", multiplier="2")},
    channels=(ChannelSettings(id="a"),),
)
HEDGED = PolicySettings(name="hedged")
STRICT = HealthSettings(failure_threshold=1, cooldown_seconds=5, probe_success_threshold=2)


def ways(
    *providers: ProviderSettings,
    board: HealthBoard | None = None,
    load: LoadBoard | None = None,
    default: PolicySettings | None = None,
) -> Shortcuts:
    return Shortcuts(Catalog(providers), board or HealthBoard(STRICT), load or LoadBoard(), default)


def changed(**fields: Any) -> ProviderSettings:
    return msgspec.structs.replace(PLAIN, **fields)


# --- who has one ---


@pytest.mark.parametrize(
    ("row", "is_there"),
    [
        (PLAIN, True),
        (changed(policy="round_robin"), True),
        (changed(max_retries=0, channel_retries=3), True),
        (changed(enabled=False), False),
        (changed(channels=(ChannelSettings(id="a"), ChannelSettings(id="b"))), False),
        (changed(channels=(ChannelSettings(id="a", enabled=False),)), False),
        (changed(channels=(ChannelSettings(id="a", weight=0),)), False),
        (changed(policy=HEDGED), False),
        (changed(affinity=AffinitySettings()), False),
        (changed(health=HealthSettings(per_model=True)), False),
        (changed(capabilities=CapabilitySettings(operations=("embeddings",))), False),
        (changed(models={"other": ModelSettings()}), False),
    ],
)
def test_only_one_channel_without_anything_to_weigh_has_a_shortcut(row, is_there):
    assert (ways(row)["m"] is not None) is is_there


def test_the_policy_of_the_operation_counts_where_the_provider_has_none():
    assert ways(PLAIN, default=HEDGED)["m"] is None
    assert ways(changed(policy="priority"), default=HEDGED)["m"] is not None


def test_the_first_provider_that_has_the_model_is_asked_first():
    found = ways(changed(id="o", models={"n": ModelSettings()}), PLAIN, changed(id="q"))["m"]
    assert found is not None
    assert (found.candidate.provider.id, found.candidate.upstream_model) == ("p", "up")
    assert ways(changed(id="q", policy=HEDGED), PLAIN)["m"] is None


def test_names_that_callers_make_up_are_not_remembered_without_end(monkeypatch):
    monkeypatch.setattr(shortcuts, "_KEPT", 5)
    of = ways(changed(models={"*": ModelSettings()}))
    for number in range(40):
        assert of[f"m{number}"] is not None
        assert len(of) <= 5
    assert of["m39"] is of["m39"]
    assert of["m" * 257] is not None
    assert "m" * 257 not in of


# --- whom it lets through ---


def test_declines_whoever_wants_more_than_a_model():
    found = ways(PLAIN)["m"]
    assert found.permit(Wanted(model="m"), None, 0.0) is None
    assert found.permit(None, Decimal("1.9"), 0.0) is None
    assert found.permit(None, Decimal(2), 0.0) is not None
    assert found.permit(None, None, 0.0) is not None


@pytest.mark.spec("HEALTH-1", "HEALTH-3", "D11")
def test_declines_while_the_channel_is_not_well():
    """Half open, too: whether somebody is inside is the breaker's affair."""
    found = ways(PLAIN)["m"]
    found.permit(None, None, 0.0).settle(Outcome.FAILURE, 1.0)
    assert found.permit(None, None, 2.0) is None
    assert found.permit(None, None, 6.0) is None  # cooled down, and not yet proved


@pytest.mark.spec("D9")
def test_declines_while_the_channel_rests():
    calm = HealthSettings(failure_threshold=9)
    found = ways(PLAIN, board=HealthBoard(calm))["m"]
    found.permit(None, None, 0.0).settle(Outcome.RATE_LIMITED, 1.0, 7.0)
    assert found.permit(None, None, 7.9) is None
    assert found.permit(None, None, 8.0) is not None


def test_asks_count_and_are_timed_like_all_others():
    board, load = HealthBoard(STRICT), LoadBoard()
    found = ways(PLAIN, board=board, load=load)["m"]
    first, second = found.permit(None, None, 0.0), found.permit(None, None, 1.0)
    assert load.in_flight(found.candidate) == 2
    first.settle(Outcome.SUCCESS, 3.0)
    second.began(2.0)
    second.settle(Outcome.SUCCESS, 9.0)
    assert load.in_flight(found.candidate) == 0
    assert load.pace(found.candidate) == pytest.approx(3.0 + 0.3 * (1.0 - 3.0))
    (row,) = board.snapshot([PLAIN], 9.0)
    assert (row.totals["success"], row.samples) == (2, 2)


def test_what_the_load_board_forgot_is_noted_anew(monkeypatch):
    monkeypatch.setattr(policy, "LATENCIES_KEPT", 1)
    load = LoadBoard()
    found = ways(PLAIN, changed(id="q", models={"n": ModelSettings()}), load=load)
    for at, model in enumerate("mnm"):
        found[model].permit(None, None, at)
    assert not load.is_unheard(found["m"].candidate, 9.0)
    assert load.is_unheard(found["n"].candidate, 9.0)


@pytest.mark.spec("HEALTH-1a")
def test_two_configurations_share_a_channel_and_each_has_its_own_limits():
    board = HealthBoard(HealthSettings())
    lenient = ways(changed(health=HealthSettings(failure_threshold=3)), board=board)["m"]
    strict = ways(changed(health=HealthSettings(failure_threshold=1)), board=board)["m"]
    for _ in range(2):
        lenient.permit(None, None, 0.0)
        strict.permit(None, None, 0.0)
    lenient.permit(None, None, 0.0).settle(Outcome.FAILURE, 0.0)
    assert strict.permit(None, None, 0.0) is not None
    strict.permit(None, None, 0.0).settle(Outcome.FAILURE, 0.0)
    assert lenient.permit(None, None, 0.0) is None


def test_whoever_is_only_looked_at_is_not_used():
    board = HealthBoard(STRICT)
    found = ways(PLAIN, board=board)["m"]
    assert found.permit(None, Decimal(1), 0.0) is None
    assert board.breakers(PLAIN, PLAIN.channels[0]) == []


# --- calls ---

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def breaks_off(sent: Sent) -> Said:
    said = well(sent)
    said.pieces = (*said.pieces[:2], MonoizeError("gone"))
    return said


def leaves(sent: Sent) -> Said:
    raise asyncio.CancelledError


def is_broken(sent: Sent) -> Said:
    raise RuntimeError("a defect")


def breaks_while_read(sent: Sent) -> Said:
    return Said(pieces=(RuntimeError("a defect"),))


ENDS = {
    "well": well,
    "busy": status(503),
    "limited": status(429, retry_after="7"),
    "refused": status(400),
    "unknown": status(404),
    "breaks off": breaks_off,
    "caller leaves": leaves,
    "defect": is_broken,
    "defect while it is read": breaks_while_read,
}
ONE = st.sampled_from(sorted(ENDS))


class World:
    """The same calls at a gateway with shortcuts and at one without."""

    def __init__(self, providers: list[dict[str, Any]], *, is_short: bool) -> None:
        self.ends: list[str] = []
        hosts = [row["id"] for row in providers]
        health = {"failure_threshold": 2, "cooldown_seconds": 5}
        self.bench = Bench(
            {"providers": providers, "settings": {"health": health}},
            dict.fromkeys(hosts, self.answers),
        )
        self.bench.use(load=LoadBoard())
        if not is_short:
            vars(self.bench.kit)["shortcuts"] = defaultdict(lambda: None)

    def answers(self, sent: Sent) -> Said:
        self.bench.clock.moment += 0.5
        return ENDS[self.ends.pop(0) if self.ends else "well"](sent)

    async def told(self, model: str, ends: list[str], *, stream: bool, dearest: str | None) -> Any:
        self.ends = [*ends]
        headers = {} if dearest is None else {"x-max-multiplier": dearest}
        try:
            reply = await self.bench.ask(model, stream=stream, headers=headers)
        except MonoizeError as error:
            return type(error), error.message, error.http_status, error.headers, error.error_code
        except (asyncio.CancelledError, RuntimeError) as error:
            return repr(error)
        return reply.status, reply.headers, reply.raw

    def left(self) -> Any:
        kit, bench, now = self.bench.kit, self.bench, self.bench.clock.monotonic()
        traffic = kit.load._traffic.items()
        return (
            msgspec.to_builtins(kit.board.snapshot(kit.catalog.configured, now)),
            kit.board._last_succeeded,
            {way: (lane.touched, lane.seconds) for way, lane in kit.load._lanes.items()},
            {place: seen.in_flight for place, seen in traffic if seen.in_flight},
            (kit.budget.requests, kit.budget.repeats),
            [(sent.host, sent.call.body, sent.reply and sent.reply.closed) for sent in bench.sent],
            shown(bench.trace),
            now,
        )


def shown(trace: Trace) -> dict[str, Any]:
    fields = msgspec.structs.asdict(trace)
    lost = (fields.pop("request_losses").dropped, fields.pop("response_losses").dropped)
    begun = fields.pop("begun")
    start = begun.result() if begun is not None and begun.done() else None
    return {**fields, "lost": lost, "begun": start}


@st.composite
def rows(draw: st.DrawFn, name: str) -> dict[str, Any]:
    row = provider(
        name,
        models={"m": {"multiplier": draw(st.sampled_from([1, 3]))}, "x*": {"redirect": "up"}},
        max_retries=draw(st.sampled_from([-1, 0])),
        channel_retries=draw(st.sampled_from([1, 0])),
        fail_forward_on=draw(st.sampled_from([[], [404]])),
        policy=draw(st.sampled_from([None, None, "round_robin"])),
    )
    if draw(st.integers(0, 7)) == 7:
        row["channels"] = [*row["channels"], {**row["channels"][0], "id": "more"}]
    if draw(st.integers(0, 7)) == 7:
        row["affinity"] = {}
    return row


calls = st.lists(
    st.tuples(
        st.sampled_from(["m", "m", "m", "x1", "nobody"]),
        st.lists(ONE, min_size=1, max_size=4),
        st.booleans(),
        st.sampled_from([None, None, "2"]),
        st.sampled_from([0.0, 1.0, 6.0]),
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.spec("ROUT-1", "ROUT-5", "ROUT-6", "ROUT-7", "ROUT-8", "HEALTH-1", "D9", "D10", "D11")
@pytest.mark.soak
@PATIENT
@given(rows("p"), rows("q"), st.booleans(), calls)
def test_a_call_is_told_and_leaves_the_same_either_way(p, q, is_alone, asked):
    async def both() -> None:
        providers = [p] if is_alone else [p, q]
        short, long = World(providers, is_short=True), World(providers, is_short=False)
        for model, ends, stream, dearest, pause in asked:
            told = [
                await world.told(model, ends, stream=stream, dearest=dearest)
                for world in (short, long)
            ]
            assert told[0] == told[1]
            assert short.left() == long.left()
            short.bench.clock.moment += pause
            long.bench.clock.moment += pause

    asyncio.run(both())


@pytest.mark.parametrize("stream", [False, True])
async def test_a_plain_call_that_goes_well_makes_no_course(monkeypatch, stream):
    world = World([provider("p")], is_short=True)
    monkeypatch.setattr("monoize.pipeline.route._Course", None)
    status, *_ = await world.told("m", [], stream=stream, dearest=None)
    assert status == 200
    assert world.bench.kit.budget.requests == 0
    assert world.bench.trace.first_byte == world.bench.clock.monotonic()


class Attempted:
    """An attempt that knows whether it was closed."""

    was_sent = True

    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate
        self.upstream_model = candidate.upstream_model
        self.closed = 0

    async def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("is_short", [True, False])
@pytest.mark.parametrize("error", [asyncio.CancelledError(), RuntimeError(), MonoizeError("no")])
async def test_whatever_ends_an_attempt_it_is_closed_once_and_its_place_is_free(is_short, error):
    world = World([provider("p")], is_short=is_short)
    kit, begun = world.bench.kit, []

    def begin(candidate: Candidate) -> Attempted:
        begun.append(Attempted(candidate))
        return begun[-1]

    async def fails(attempt: Attempted) -> None:
        assert kit.budget.requests == 1
        assert kit.load.in_flight(attempt.candidate) == 1
        raise error

    trace = Trace()
    call = prepared(world.bench.incoming(body("chat_completion", "m")), kit, trace)
    with pytest.raises(type(error)):
        await fail_forward(call, kit, trace, begin, fails)
    assert [attempt.closed for attempt in begun] == [1]
    assert kit.load.in_flight(begun[0].candidate) == 0
    assert kit.budget.requests == 0
    (row,) = kit.board.snapshot(kit.catalog.providers, 0.0)
    assert row.totals == {"success": 0, "failure": 0, "rate_limited": 0, "neutral": 1}


async def test_another_part_in_the_kit_makes_other_shortcuts():
    world = World([provider("p")], is_short=True)
    await world.told("m", [], stream=False, dearest=None)
    used = world.bench.kit.shortcuts
    world.bench.use(board=HealthBoard(STRICT))
    assert world.bench.kit.shortcuts is not used
