"""Slips: what is put in is found after a crash, what counts no more is not, and nobody takes what belongs to the living."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from fakes.ledger import LOG, NOON, opening
from fakes.slips_seen import slips_in
from monoize.store import left_slips, slips
from monoize.store.journal_batch import Entry, entered
from monoize.store.left_slips import LeftSlips, UnknownSlipsError
from monoize.store.slips import Slips, files_beside, slip_of


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


def left_beside(place: Path) -> list[LeftSlips]:
    found = [LeftSlips.of(file) for file in files_beside(place, but="b")]
    return [left for left in found if left is not None]


def found_by_another(place: Path) -> list[str]:
    names = []
    for left in left_beside(place):
        names += [one.reservation.request_id for one in left.entries()]
        left.close()
    return names


def test_what_is_open_when_its_process_dies_is_found(place, made):
    before = entry("r1", amount=123, user_id="u", log={"username": "ünï", "is_stream": True})
    assert made.put(slip_of(before)) == 0
    die(made)
    (left,) = left_beside(place)
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
    (held,) = left_beside(place)
    assert left_beside(place) == []
    held.close()
    assert len(left_beside(place)) == 1


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
    assert made.put(b"x" * (64 * 1024 - 16)) == 0
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
    ("damage", "unread"),
    [
        (lambda data: b"", 0),
        (lambda data: bytes(len(data)), 0),  # its process died while it made it
        (lambda data: data[:100], 0),
        (lambda data: data[:4096] + b"\xff\xff\xff\xff" + data[4100:], 1),  # its length
        (lambda data: data[:4100] + b"\xff" + data[4101:], 1),  # its checksum
        (lambda data: data[:4150] + b"\xc1" + data[4151:], 1),
        (lambda data: data[:4110], 1),
    ],
)
def test_what_is_damaged_is_not_taken_for_a_slip(damage, unread, place, made):
    made.put(slip_of(entry("r1")))
    die(made)
    file = place.with_name("store.db-slips-a")
    file.write_bytes(damage(file.read_bytes()))
    (left,) = left_beside(place)
    assert left.entries() == []
    assert left.unread == unread


def test_a_slip_of_which_the_disk_has_another_ones_half_is_not_taken_for_either(place, made):
    """A file reaches the disk page by page: after the power failed it may hold pages of two moments."""
    earlier, later = entry("r1", amount=111_111), entry("r2", amount=222_222)
    slip = bytearray(slip_of(later))
    slip[-20:] = slip_of(earlier)[-20:]
    slip[slip.index(b"r2") : slip.index(b"r2") + 2] = b"r1"
    made.put(slip_of(later))
    at = 4096 + 8
    made._memory[at : at + len(slip)] = bytes(slip)
    die(made)
    (left,) = left_beside(place)
    assert left.entries() == []
    assert left.unread == 1


@pytest.mark.parametrize(
    "slip", [b"\xc1\xc1\xc1", b"\x91" * 2000, slip_of(entry("r")).replace(b"created_at", b"created_ax")]
)  # fmt: skip
def test_one_slip_that_cannot_be_read_leaves_the_others(slip, place, made):
    made.put(slip[:-1])
    made.put(slip_of(entry("r1")))
    die(made)
    (left,) = left_beside(place)
    assert [one.reservation.request_id for one in left.entries()] == ["r1"]
    assert left.unread == 1


@pytest.mark.parametrize("data", [b"monoize slips 2\n" + bytes(5000), b"something else"])
def test_a_file_that_another_program_wrote_is_not_read(data, place, made):
    die(made)
    place.with_name("store.db-slips-a").write_bytes(data)
    (left,) = left_beside(place)
    with pytest.raises(UnknownSlipsError):
        left.entries()


def test_columns_of_another_release_are_left_out(place, made):
    before = entry("r1")
    row = type(before.log)((*before.log.names, "of_tomorrow"), (*before.log.values, "x"))
    made.put(slip_of(Entry(before.opening, before.reservation, row)))
    die(made)
    (left,) = left_beside(place)
    assert left.entries()[0].log == before.log


def test_a_file_that_was_taken_for_a_dead_ones_before_it_was_locked_is_made_again(
    place, monkeypatch
):
    lock, file = slips.fcntl.flock, place.with_name("store.db-slips-a")
    removed = []

    def locked(descriptor: int, how: int) -> None:
        if not removed:
            removed.append(file)
            file.unlink()
        lock(descriptor, how)

    monkeypatch.setattr(slips.fcntl, "flock", locked)
    made = Slips.beside(place, "a")
    made.put(slip_of(entry("r1")))
    die(made)
    assert removed
    assert found_by_another(place) == ["r1"]


def test_whoever_was_late_for_a_dead_ones_file_does_not_take_the_living_ones(place, monkeypatch):
    """Two look at a file that is just being made: the first removes it, and by then the name leads to another."""
    lock, file = left_slips.fcntl.flock, place.with_name("store.db-slips-a")
    file.touch()
    living = []

    def locked(descriptor: int, how: int) -> None:
        if not living:  # the first was here, and the process that made the file has noticed
            file.unlink()
            living.append(None)
            living[0] = Slips.beside(place, "a")
        lock(descriptor, how)

    monkeypatch.setattr(left_slips.fcntl, "flock", locked)
    assert LeftSlips.of(file) is None
    living[0].put(slip_of(entry("r1")))
    die(living[0])
    assert found_by_another(place) == ["r1"]


@pytest.mark.parametrize("name", ["my[1].db", "a*.db", "what?.db", "ünï code.db"])
def test_whatever_the_database_is_called_they_are_found(name, tmp_path):
    made = Slips.beside(tmp_path / name, "a")
    made.put(slip_of(entry("r1")))
    die(made)
    assert found_by_another(tmp_path / name) == ["r1"]


def test_they_lie_where_the_database_lies_whatever_leads_to_it(tmp_path, place):
    place.touch()
    link = tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(place)
    made = Slips.beside(link, "a")
    made.put(slip_of(entry("r1")))
    die(made)
    assert found_by_another(place) == ["r1"]
    assert found_by_another(link) == ["r1"]


@pytest.mark.parametrize("name", ["a.new", "a.unread", "mine.tar.gz", "", "b"])
def test_what_is_called_otherwise_is_none_of_them(name, place):
    place.with_name(f"store.db-slips-{name}").touch()
    assert files_beside(place, but="b") == []


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


def test_a_place_where_nothing_can_be_locked_is_none(place, monkeypatch, caplog):
    def refused(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(slips.fcntl, "flock", refused)
    assert Slips.beside(place, "a") is None
    assert "No locks available" in caplog.text
    assert list(place.parent.iterdir()) == []


def test_an_empty_file_that_cannot_be_removed_stops_no_end(place, made, monkeypatch, caplog):
    def refused(self, **_):
        raise OSError(30, "Read-only file system")

    with monkeypatch.context() as during:
        during.setattr(Path, "unlink", refused)
        made.close()
    assert "is empty and stays: Read-only file system" in caplog.text
    assert found_by_another(place) == []
    assert len(left_beside(place)) == 1, "its lock has gone with it"


def test_a_file_whose_name_did_not_reach_the_disk_is_read_all_the_same(place, made):
    made.put(slip_of(entry("r1")))
    die(made)
    file = place.with_name("store.db-slips-a")
    file.write_bytes(bytes(4096) + file.read_bytes()[4096:])
    assert found_by_another(place) == ["r1"]


def test_nor_where_the_system_cannot_take_the_room_beforehand(place, monkeypatch, caplog):
    monkeypatch.delattr(os, "posix_fallocate")
    monkeypatch.setattr(os, "pwrite", lambda *_: 100)
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
    (left,) = left_beside(place)
    words = left.entries()[0].opening.log
    assert words == {**LOG, "key_name": "k", "address": "::1", "created_at": NOON}
