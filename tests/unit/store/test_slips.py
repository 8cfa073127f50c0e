"""Slips: what is put in is found after a crash, what counts no more is not, and nobody takes what belongs to the living."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from fakes.ledger import LOG, NOON, opening
from fakes.slips_seen import slips_in
from monoize.store import slips
from monoize.store.journal_batch import Entry, entered
from monoize.store.slips import LeftSlips, Slips, slip_of


def entry(name: str, **more) -> Entry:
    return entered(opening(name, **more), NOON)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def made(place: Path) -> Slips:
    found = Slips.beside(place, "a")
    assert found is not None
    return found


def die(dead: Slips) -> None:
    """As the system ends a process: without a word to the file."""
    dead._memory.close()
    os.close(dead._descriptor)


def found_by_another(place: Path) -> list[str]:
    another = Slips.beside(place, "b")
    assert another is not None
    names = []
    for left in another.left():
        names += [one.reservation.request_id for one in left.entries()]
        left.close()
    another.close()
    return names


def test_what_is_open_when_its_process_dies_is_found(place, made):
    before = entry("r1", amount=123, user_id="u", log={"username": "ünï", "is_stream": True})
    assert made.put(slip_of(before)) == 0
    die(made)
    another = Slips.beside(place, "b")
    assert another is not None
    (left,) = another.left()
    (after,) = left.entries()
    assert after.reservation == before.reservation
    assert after.log == before.log
    assert after.admitted, "it has been told that it may begin"


def test_it_is_in_the_file_at_once_and_needs_no_other_process_to_read_it(tmp_path, made):
    made.put(slip_of(entry("r1", amount=5)))
    assert slips_in(tmp_path) == {"r1": 5}


def test_the_slips_of_the_living_are_their_own(place, made):
    made.put(slip_of(entry("r1")))
    assert found_by_another(place) == []


def test_only_one_finds_them_at_a_time(place, made):
    made.put(slip_of(entry("r1")))
    die(made)
    another, third = Slips.beside(place, "b"), Slips.beside(place, "c")
    assert another is not None
    assert third is not None
    (held,) = another.left()
    assert list(third.left()) == []
    held.close()
    assert len(list(third.left())) == 1


def test_a_piece_in_which_nothing_is_open_is_empty(place, made):
    for name in ("r1", "r2"):
        made.put(slip_of(entry(name)))
    made.drop(0)
    made.drop(0)
    made.put(slip_of(entry("r3")))
    die(made)
    assert found_by_another(place) == ["r3"]


def test_a_file_in_which_nothing_is_open_goes_with_its_process(tmp_path, made):
    made.put(slip_of(entry("r1")))
    made.drop(0)
    made.close()
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_which_something_is_open_stays(place, made):
    made.put(slip_of(entry("r1")))
    made.close()
    assert found_by_another(place) == ["r1"]


def test_without_room_there_is_no_place_until_a_piece_is_empty(made, monkeypatch, place):
    die(made)
    monkeypatch.setattr(slips, "_PIECE", 512)
    monkeypatch.setattr(slips, "_PIECES", 2)
    little = Slips.beside(place, "little")
    assert little is not None
    places = []
    while (piece := little.put(slip_of(entry(f"r{len(places)}")))) is not None:
        places.append(piece)
    assert {*places} == {0, 1}
    for piece in [piece for piece in places if piece == 0]:
        assert little.put(slip_of(entry("no room"))) is None
        little.drop(piece)
    assert little.put(slip_of(entry("room again"))) == 0
    die(little)
    left = [f"r{n}" for n, piece in enumerate(places) if piece == 1]
    assert found_by_another(place) == ["room again", *left]


def test_what_fits_into_no_piece_has_no_place(made):
    assert made.put(b"x" * 70_000) is None
    assert made.put(b"x" * (64 * 1024 - 8)) == 0
    assert made.put(b"x") == 1


@pytest.mark.parametrize("seed", range(30))
def test_any_order_of_coming_and_going_leaves_what_is_open(seed, monkeypatch, place):
    """Beside what is open only such as has a neighbour that is."""
    monkeypatch.setattr(slips, "_PIECE", 700)
    monkeypatch.setattr(slips, "_PIECES", 5)
    dice, made = random.Random(seed), Slips.beside(place, "random")
    assert made is not None
    lies: dict[str, int] = {}
    for number in range(300):
        if lies and dice.random() < 0.5:
            made.drop(lies.pop(dice.choice([*lies])))
        name = f"r{number}"
        piece = made.put(slip_of(entry(name, key="k" * dice.randint(1, 60))))
        if piece is not None:
            lies[name] = piece
    die(made)
    found = found_by_another(place)
    assert len(found) == len({*found})
    assert {*found} >= lies.keys()


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:100],
        lambda data: b"something else\n" + data[15:],
        lambda data: data[:4096] + b"\xff\xff\xff\xff" + data[4100:],
        lambda data: data[:4100] + b"\xc1" * 40 + data[4140:],
        lambda data: data[:4110],
    ],
)
def test_a_damaged_file_stops_nobody(damage, place, made, caplog):
    made.put(slip_of(entry("r1")))
    die(made)
    file = place.with_name("store.db-slips-a")
    file.write_bytes(damage(file.read_bytes()))
    assert found_by_another(place) == []


def test_one_slip_that_cannot_be_read_leaves_the_others(place, made, caplog):
    made.put(b"\xc1\xc1\xc1")
    made.put(slip_of(entry("r1")))
    die(made)
    assert found_by_another(place) == ["r1"]
    assert "cannot be read" in caplog.text


def test_columns_of_another_release_are_left_out(place, made):
    before = entry("r1")
    row = type(before.log)((*before.log.names, "of_tomorrow"), (*before.log.values, "x"))
    made.put(slip_of(Entry(before.opening, before.reservation, row)))
    die(made)
    (left,) = Slips.beside(place, "b").left()
    assert left.entries()[0].log == before.log


def test_a_file_that_just_begins_is_nobodys_to_take(place, made):
    (place.parent / "store.db-slips-c.new").touch()
    assert found_by_another(place) == []


def test_a_folder_that_takes_no_files_is_no_place(tmp_path, caplog):
    assert Slips.beside(tmp_path / "missing" / "store.db", "a") is None
    assert "no slips beside the database" in caplog.text


def test_a_disk_without_room_is_no_place_and_nothing_is_left_on_it(place, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert Slips.beside(place, "a") is None
    assert "No space left on device" in caplog.text
    assert list(place.parent.iterdir()) == []


def test_only_its_owner_may_read_it(place, made):
    assert place.with_name("store.db-slips-a").stat().st_mode & 0o777 == 0o600


def test_what_has_gone_meanwhile_is_not_there(place):
    assert LeftSlips.of(place.with_name("store.db-slips-gone")) is None


def test_the_words_of_the_log_are_those_of_the_opening(place, made):
    made.put(slip_of(entry("r1", log={"key_name": "k", "address": "::1"})))
    die(made)
    (left,) = Slips.beside(place, "b").left()
    words = left.entries()[0].opening.log
    assert words == {**LOG, "key_name": "k", "address": "::1", "created_at": NOON}
