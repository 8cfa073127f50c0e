"""Turns begin and end where OpenAI's `server_vad` says they do."""

from __future__ import annotations

import msgspec
import pytest

from monoize.voice_activity import SpeechStarted, SpeechStopped, Turns, TurnSettings

WINDOW = 100  # milliseconds, so that numbers are easy to read


def events(pattern: str, **settings):
    """# is speech, - is less than it takes to begin but enough to go on, . is quiet."""
    turns = Turns(TurnSettings(**settings), window_ms=WINDOW)
    likely = [{"#": 0.9, "-": 0.4, ".": 0.1}[one] for one in pattern]
    return [
        (index, found) for index, one in enumerate(likely) if (found := turns.feed(one)) is not None
    ]


def test_the_defaults_are_openais():
    assert TurnSettings() == TurnSettings(
        threshold=0.5, prefix_padding_ms=300, silence_duration_ms=500
    )


def test_a_turn_has_its_padding_before_and_its_quiet_after():
    assert events(".....####......") == [(6, SpeechStarted(200)), (13, SpeechStopped(1400))]


def test_the_beginning_of_the_stream_is_the_earliest_beginning():
    assert events("####")[0] == (1, SpeechStarted(0))


def test_one_window_is_a_click():
    assert events("...#....#....") == []


def test_a_pause_that_is_too_short_is_part_of_the_turn():
    assert events("##...##.....") == [(1, SpeechStarted(0)), (11, SpeechStopped(1200))]


def test_what_is_not_sure_neither_begins_a_turn_nor_ends_it():
    assert events("----------") == []
    assert events("##--------") == [(1, SpeechStarted(0))]


def test_once_quiet_not_sure_is_quiet_too():
    assert events("##.----") == [(1, SpeechStarted(0)), (6, SpeechStopped(700))]


def test_padding_never_reaches_into_the_turn_before():
    found = events("##.....##", silence_duration_ms=500, prefix_padding_ms=5000)
    assert found == [(1, SpeechStarted(0)), (6, SpeechStopped(700)), (8, SpeechStarted(700))]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"silence_duration_ms": 200}, [(5, SpeechStarted(100)), (9, SpeechStopped(1000))]),
        ({"silence_duration_ms": 0}, [(5, SpeechStarted(100)), (8, SpeechStopped(800))]),
        ({"prefix_padding_ms": 0}, [(5, SpeechStarted(400)), (12, SpeechStopped(1300))]),
        ({"threshold": 0.95}, []),
    ],
)
def test_each_setting_is_honoured(settings, expected):
    assert events("....####......", **settings) == expected


def test_settings_may_change_while_somebody_speaks():
    turns = Turns(TurnSettings(), window_ms=WINDOW)
    for likely in (0.9, 0.9, 0.1):
        turns.feed(likely)
    turns.settings = TurnSettings(silence_duration_ms=200)
    assert turns.feed(0.1) == SpeechStopped(400)


@pytest.mark.parametrize(
    "wrong", [{"threshold": 1.5}, {"silence_duration_ms": -1}, {"prefix_padding_ms": 10**6}]
)
def test_settings_have_bounds(wrong):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, TurnSettings)
