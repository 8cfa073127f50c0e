"""The benchmark's own logic: what it counts, what it concludes, and where it writes that."""

from __future__ import annotations

import asyncio
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench"))
from gateway import growth, mock, page, plot, replies, report, run, single
from gateway.cells import BURST, PROTOCOLS, Cell, Pace, text_of, text_of_stream
from gateway.costs import Entry
from gateway.curves import Curve, Series, exponent, verdict
from gateway.load import KEY_PLACE, Job, tallied
from gateway.targets import Absent

# --- conclusions ---

SIZES = (1, 10, 100, 1_000)


@pytest.mark.parametrize(
    ("cost_of", "words", "is_good"),
    [
        (lambda _: 200, "flat", True),
        (lambda n: 200 + 0.05 * n, "flat", True),
        (lambda n: 300 - n / 10, "flat", True),
        (lambda n: 100 * n**0.5, "better than linear", True),
        (lambda n: 20 + 3 * n, "linear", True),
        (lambda n: 5 * n, "linear", True),
        (lambda n: n**1.4, "cliff between 1 and 10", False),
        (lambda n: 100 if n < 1_000 else 3_000, "cliff between 100 and 1,000", False),
    ],
)
def test_says_how_a_cost_grows(cost_of, words, is_good):
    found = verdict([(size, cost_of(size)) for size in SIZES])
    assert found.is_good is is_good
    assert found.words.startswith(words), found


def test_small_steps_hide_no_growth_that_is_worse_than_linear():
    found = verdict([(n, n**1.3) for n in (100, 150, 200, 300, 400)])
    assert (found.words, found.is_good) == ("worse than linear (n^1.30 at the end)", False)


def test_one_point_is_no_curve():
    assert not verdict([(1, 1)]).is_good


def test_finds_the_power_of_a_curve():
    assert exponent([(n, 7 * n**1.5) for n in SIZES]) == pytest.approx(1.5)


def entry(number: int, target: str, cost: float, cell: str = "chat-chat") -> Entry:
    return Entry(number, cell, target, dict.fromkeys(report._RATIOS, cost))


def ratio_row(entries) -> list[str]:
    return report._ratios(entries).splitlines()[-1].strip("| ").split(" | ")


def test_ratios_are_of_the_same_round():
    entries = [
        entry(1, "monoize", 300), entry(1, "nginx", 100),
        entry(2, "monoize", 800), entry(2, "nginx", 200),
    ]  # fmt: skip
    assert ratio_row(entries)[:3] == ["chat-chat", "nginx", "3.5 (3 to 4)"]


def test_what_one_round_or_a_small_difference_says_is_not_established():
    assert ratio_row([entry(1, "monoize", 300), entry(1, "nginx", 100)])[2] == "~3"
    entries = [
        entry(1, "monoize", 120), entry(1, "nginx", 100),
        entry(2, "monoize", 200), entry(2, "nginx", 100),
    ]  # fmt: skip
    assert ratio_row(entries)[2].startswith("~")


def test_nginx_stands_in_for_protocols_that_it_does_not_know_and_nobody_else_does():
    entries = [
        entry(1, "nginx", 100), entry(1, "litellm", 900),
        entry(1, "monoize", 300, "messages-chat"),
    ]  # fmt: skip
    assert ratio_row(entries)[:3] == ["messages-chat", "nginx", "~3"]


def test_what_could_not_be_measured_is_told():
    broken = Entry(1, "chat-chat", "monoize", {"cold_s": 0.5}, ["could not be measured: it ended"])
    told = report.costs([broken], [Absent("nginx", "it is not installed")])
    assert "could not be measured: it ended: chat-chat monoize round 1" in told
    assert "nginx was not measured: it is not installed." in told


# --- the page ---


def test_the_page_has_a_place_for_everything_that_is_measured():
    text = page.PAGE.read_text("utf-8")
    for part in (*run.USUALLY, *growth.CURVES):
        assert "something else" in page.replaced(text, part, "something else")


def test_only_what_is_between_the_marks_changes():
    before = "a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n<!-- y: begin -->\n<!-- y: end -->\n"
    after = page.replaced(before, "x", "new\n")
    assert after == before.replace("old", "new")
    assert page.replaced(after, "x", "new") == after


def test_a_page_without_the_marks_is_not_touched():
    with pytest.raises(ValueError, match="no part 'z'"):
        page.replaced("nothing", "z", "text")


@pytest.mark.parametrize("costs", [(100, 100, 100), (3, 40, 9_000)])
def test_a_picture_holds_all_points(costs):
    series = [Series(name, list(zip((1, 50, 5_000), costs, strict=True))) for name in ("a", "<b>")]
    picture = ET.fromstring(plot.drawn(Curve("id", "Title & more", "size", "cost", series)))
    space = "{http://www.w3.org/2000/svg}"
    dots = picture.findall(f"{space}circle")
    assert len(dots) == 6
    for dot in dots:
        assert plot._LEFT <= float(dot.get("cx")) <= plot._WIDTH - plot._RIGHT
        assert plot._TOP <= float(dot.get("cy")) <= plot._HEIGHT - plot._BOTTOM
    assert "prefers-color-scheme: dark" in picture.find(f"{space}style").text


@pytest.mark.parametrize(
    "given", [["--only", "logs"], ["--growth", "--only", "cells"], ["--cells", "chat-smoke"]]
)
def test_what_cannot_be_measured_is_refused_before_anything_starts(given, capsys):
    with pytest.raises(SystemExit):
        run.arguments(given)
    assert "is n" in capsys.readouterr().err


def test_every_question_is_asked_unless_some_are_named():
    assert run.arguments([]).only == ["cells", *single.QUESTIONS]
    assert run.arguments(["--growth", "--only", "keys,logs"]).only == ["keys", "logs"]


# --- the mock provider and the callers ---


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_the_provider_says_is_read_as_it_was_meant(protocol):
    assert text_of(protocol, replies.unary(protocol)) == replies.REPLY
    stream = b"".join(replies.stream(protocol, 7))
    assert text_of_stream(protocol, stream) == replies.streamed_text(7)


async def asked(cell: Cell, pace: Pace | None = None, **given):
    loop = asyncio.get_running_loop()
    server = await loop.create_server(mock.Provider, "127.0.0.1", 0)
    request = cell.request(pace, key=KEY_PLACE if "keys" in given else "sk")
    job = Job(
        port=server.sockets[0].getsockname()[1],
        path=request.path,
        headers=request.headers,
        body=request.body,
        stream=pace is not None,
        **given,
    )
    try:
        return await tallied(job)
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_callers_count_what_they_get(protocol):
    cell = Cell(protocol, protocol)
    before = mock.Provider.calls[protocol]
    unary = await asked(cell, callers=3, requests=10)
    assert (unary.requests, unary.errors, unary.events) == (10, {}, 0)
    events = len(replies.stream(protocol, BURST.events))
    burst = await asked(cell, BURST, callers=3, requests=10)
    assert (burst.requests, burst.errors, burst.events) == (10, {}, 10 * events)
    paced = await asked(cell, Pace(50, 5), callers=4, requests=4)
    expected = len(replies.stream(protocol, 5))
    assert (paced.requests, paced.errors, paced.events) == (4, {}, 4 * expected)
    assert paced.most_at_once == 4
    ahead = [text_of_stream(protocol, event) for event in replies.stream(protocol, 5)].index(
        replies.word(0)
    )
    assert unary.word_ms == 0 < burst.word_ms
    assert paced.word_ms > 49 * ahead
    assert mock.Provider.calls[protocol] == before + 24


async def test_callers_may_leave_in_the_middle_of_a_stream():
    tally = await asked(Cell("chat", "chat"), Pace(1, 500), callers=2, requests=6, leave_after=3)
    assert (tally.requests, tally.left, tally.errors) == (6, 6, {})
    assert 18 <= tally.events < 6 * 500


async def test_nobody_begins_when_the_time_is_over():
    tally = await asked(Cell("chat", "chat"), callers=2, seconds=1.0)
    assert tally.requests > 0
    assert tally.errors == {}


async def test_a_wrong_path_is_an_error_and_each_key_has_its_turn():
    tally = await asked(Cell("chat", "chat"), callers=1, requests=3, keys=["a", "b"])
    assert (tally.requests, tally.errors) == (3, {})
    request = Cell("chat", "chat").request()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(mock.Provider, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    lost = Job(
        port=port, path="/nowhere", headers=request.headers, body=b"{}", callers=2, requests=4
    )
    tally = await tallied(lost)
    server.close()
    await server.wait_closed()
    assert tally.errors == {"status 404": 4}


@pytest.mark.parametrize("last", [b"", b"connection: close\r\n"], ids=["kept", "closed"])
async def test_a_caller_asks_again_where_it_was_answered(last):
    connections = requests = 0

    async def answer(reader, writer):
        nonlocal connections, requests
        connections += 1
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n{}")
                requests += 1
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n" + last + b"\r\nok")
                if last:
                    break
        except asyncio.IncompleteReadError:
            pass
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    job = Job(port=port, path="/", headers={}, body=b"{}", callers=3, requests=30)
    tally = await tallied(job)
    server.close()
    await server.wait_closed()
    assert not tally.errors
    assert requests == tally.requests == 30
    assert connections == (30 if last else 3)


def test_the_front_page_gets_the_first_cell_of_everybody_who_was_measured_whole():
    whole = {"unary_64_us": 2.0, "burst_64_us": 3, "paced_64_us": 4, "cold_s": 0.5, "idle_mb": 70}
    entries = [
        Entry(1, "chat-chat", "monoize", whole),
        Entry(1, "chat-chat", "nginx", {**whole, "unary_64_us": 1.0}),
        Entry(1, "chat-chat", "broken", {"unary_64_us": 9.0}),
        Entry(1, "messages-chat", "monoize", {**whole, "unary_64_us": 99.0}),
        Entry(2, "chat-chat", "monoize", {**whole, "unary_64_us": 4.0}),
    ]
    table = report.brief(entries)
    assert "| monoize | 3 (2 to 4) | 3 | 4 | 0.5 | 70 |" in table
    assert "| nginx | 1 |" in table
    assert "broken" not in table
    assert "99" not in table
    assert report.brief(entries[1:3]) == ""


def test_the_front_page_has_a_place_for_it():
    assert "x\n<!-- speed: end -->" in page.replaced(page.README.read_text("utf-8"), "speed", "x")
