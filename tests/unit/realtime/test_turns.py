"""The money of a provider's session: what is reserved, what is settled, and what nobody saw the end of."""

from __future__ import annotations

import asyncio

import pytest

from monoize.errors import BudgetExceeded, UpstreamFailed
from monoize.realtime.gauge import Gauge, usage_of
from monoize.realtime.turns import Turns
from monoize.urp import Usage

pytestmark = pytest.mark.spec("T47")

USAGE = {"input_tokens": 100, "output_tokens": 30, "input_token_details": {"audio_tokens": 80}}


class Reserved:
    def __init__(self, expected: Usage) -> None:
        self.expected = expected
        self.began = False
        self.settled: list[tuple] = []

    def begin(self) -> None:
        self.began = True

    async def settle(self, status, usage=None, *, estimated=False, error=None) -> None:
        self.settled.append((status, usage and usage.output_tokens, estimated, error))


class Till:
    """Opens reservations until it is told not to."""

    def __init__(self, most: int = 100) -> None:
        self.most = most
        self.opened: list[Reserved] = []

    async def open(self, expected: Usage) -> Reserved:
        if len(self.opened) >= self.most:
            raise BudgetExceeded("nothing is left")
        self.opened.append(Reserved(expected))
        return self.opened[-1]


async def begun(most: int = 100) -> tuple[Till, Turns, Gauge]:
    till, gauge = Till(most), Gauge()
    return till, Turns(gauge, till.open, await till.open(gauge.expected())), gauge


async def test_each_response_is_settled_by_itself_and_the_next_is_covered_before_it_starts():
    till, turns, _ = await begun()
    for number in range(3):
        await turns.began(f"r{number}")
        assert len(till.opened) == number + 1
        await turns.ended({"id": f"r{number}", "status": "completed", "usage": USAGE})
        await turns.renew()
        assert len(till.opened) == number + 2
    await turns.close()
    assert [turn.settled for turn in till.opened] == [
        *[[("success", 30, False, None)]] * 3,
        [("cancelled", None, False, None)],
    ]
    assert [turn.began for turn in till.opened] == [True, True, True, False]


async def test_nothing_reaches_the_provider_while_the_next_response_is_not_covered():
    _, turns, _ = await begun()
    await turns.began("r")
    await asyncio.wait_for(turns.ready(), 1)  # the one that runs is
    await turns.ended({"id": "r", "status": "completed", "usage": USAGE})
    waiting = asyncio.create_task(turns.ready())
    await asyncio.sleep(0)
    assert not waiting.done()
    await turns.renew()
    await asyncio.wait_for(waiting, 25)


async def test_a_refused_reservation_is_raised_after_the_response_was_settled():
    till, turns, _ = await begun(most=1)
    await turns.began("r")
    await turns.ended({"id": "r", "status": "completed", "usage": USAGE})
    with pytest.raises(BudgetExceeded):
        await turns.renew()
    assert till.opened[0].settled == [("success", 30, False, None)]
    await turns.close()
    assert len(till.opened[0].settled) == 1


async def test_responses_beside_one_another_each_have_their_own():
    till, turns, _ = await begun()
    await turns.began("a")
    await turns.began("b")
    await turns.began("b")  # said twice
    assert len(till.opened) == 2
    await turns.ended({"id": "b", "status": "completed", "usage": USAGE})
    await turns.ended({"id": "a", "status": "completed", "usage": USAGE})
    assert all(len(turn.settled) == 1 for turn in till.opened)


async def test_a_response_whose_beginning_was_left_out_is_settled_all_the_same():
    till, turns, _ = await begun()
    await turns.ended({"id": "r", "status": "completed", "usage": USAGE})
    assert till.opened[0].settled == [("success", 30, False, None)]


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ({"status": "completed", "usage": USAGE}, ("success", 30, False)),
        ({"status": "incomplete", "usage": USAGE}, ("success", 30, False)),
        ({"status": "cancelled", "usage": USAGE}, ("cancelled", 30, False)),
        ({"status": "failed", "usage": USAGE}, ("success", 30, False)),
        ({"status": "completed", "usage": None}, ("success", 5, True)),
        ({"status": "completed", "usage": {"input_tokens": 0}}, ("success", 5, True)),
        ({"status": "cancelled"}, ("cancelled", 5, True)),
        ({"status": "failed"}, ("error", None, False)),
    ],
)
async def test_how_a_response_ended_decides_what_it_costs(response, expected):
    till, turns, gauge = await begun()
    await turns.began("r")
    gauge.provider_said("r", "response.output_audio.delta", 3 * 3200)
    gauge.provider_said("r", "response.output_audio_transcript.delta", 8)
    await turns.ended({"id": "r", **response})
    assert till.opened[0].settled[0][:3] == expected


async def test_a_provider_that_died_is_not_paid():
    till, turns, gauge = await begun()
    await turns.began("r")
    gauge.provider_said("r", "response.output_audio.delta", 10_000)
    died = UpstreamFailed("gone")
    await turns.close(died)
    assert till.opened[0].settled == [("error", None, False, died)]


async def test_a_session_without_a_response_that_broke_off_is_no_success():
    till, turns, _ = await begun()
    died = UpstreamFailed("gone")
    await turns.close(died)
    assert till.opened[0].settled == [("error", None, False, died)]


async def test_a_caller_that_left_pays_for_what_was_said():
    till, turns, gauge = await begun()
    await turns.began("r")
    gauge.provider_said("r", "response.audio.delta", 6400)
    await turns.close()
    assert till.opened[0].settled == [("cancelled", 2, True, None)]


# --- counting ---


@pytest.mark.parametrize(
    ("wire", "usage"),
    [
        (None, None),
        ("many", None),
        ({}, None),
        ({"input_tokens": -5, "output_tokens": True}, None),
        (
            {
                "input_tokens": 10,
                "output_tokens": 4,
                "input_token_details": {
                    "audio_tokens": 6,
                    "cached_tokens": 3,
                    "image_tokens": 1,
                },
                "output_token_details": {"audio_tokens": 2},
            },
            Usage(
                input_tokens=10,
                output_tokens=4,
                cached_read=3,
                audio_input=6,
                image_input=1,
                audio_output=2,
            ),
        ),
    ],
)
def test_a_providers_count_is_read(wire, usage):
    assert usage_of(wire) == usage


def test_the_next_turn_is_expected_to_read_all_that_was_said():
    gauge = Gauge()
    first = gauge.expected().input_tokens
    gauge.caller_sent("input_audio_buffer.append", 64_000)
    assert gauge.expected().input_tokens == first + 10
    gauge.ended("r", Usage(input_tokens=500, output_tokens=100))
    assert gauge.expected().input_tokens == first + 600


def test_what_the_caller_sent_is_part_of_an_estimate():
    gauge = Gauge()
    gauge.caller_sent("input_audio_buffer.append", 64_000)
    gauge.caller_sent("conversation.item.create", 400)
    estimate = gauge.estimate("r")
    assert (estimate.input_tokens, estimate.audio_input) == (110, 10)
