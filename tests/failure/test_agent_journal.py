"""Transcripts under a full disk, a kill at any moment, two writers, and cancellation: a valid chain, no half line, no gap."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import random
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from typing_extensions import override

from fakes.agent_runs import KEY, MANIFEST, contract, entries, write_run
from fakes.agent_writer import go_on
from monoize.agent.canonical_json import sha256
from monoize.agent.record import verifier
from monoize.agent.record.folder_journal import (
    Disk,
    FolderJournal,
    JournalBroken,
    OutOfOrder,
    PayloadTooLarge,
    RunFolder,
    RunIsHeld,
)
from monoize.agent.record.transcript import BadTranscript, check_chain, read_transcript

KILLS = 200 if os.environ.get("MONOIZE_SOAK") == "1" else 10
TESTS = Path(__file__).parents[1]
RUN = "run_1"


# --- killed ---------------------------------------------------------------------------------------


def killed_at(root: Path, seed: int, rounds: int, touch: int) -> tuple[int, bool]:
    """Entries that were said to be safe before the writer died at its n-th touch of the disk; and whether it had ended."""
    source = os.pathsep.join((str(TESTS), str(TESTS.parent / "src")))
    writer = subprocess.Popen(
        [sys.executable, "-m", "fakes.agent_writer", str(root), RUN, str(seed), str(rounds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": source},
    )
    safe = touched = 0
    with writer:
        while True:
            letter = os.read(writer.stdout.fileno(), 1)
            if letter in (b"", b"e"):
                return safe, True
            if letter == b"a":
                safe += 1
            else:
                touched += 1
                if touched == touch:
                    writer.kill()
                    return safe, False
                os.write(writer.stdin.fileno(), b"g")


@pytest.mark.soak
@pytest.mark.spec("S5-E")
@pytest.mark.parametrize("seed", range(KILLS))
def test_killed_at_any_touch_of_the_disk(seed, tmp_path):
    dice = random.Random(seed)
    rounds = 11 if seed % 10 == 0 else 2  # the longer ones have a checkpoint in their middle
    safe, ended = killed_at(tmp_path, seed, rounds, dice.randrange(1, 500 if rounds > 2 else 300))
    found = read_transcript((tmp_path / RUN / "transcript.jsonl").read_bytes())
    assert found.torn.count(b"\n") == 0
    check_chain(found.lines, RUN)
    assert safe <= len(found.entries) <= safe + 1
    if found.entries:
        report = verifier.verify(tmp_path / RUN, KEY.public_key, unfinished=True)
        torn = [fault for fault in report["faults"] if "torn" in fault["fault"]]
        others = [fault for fault in report["faults"] if fault["line"] != len(found.lines) + 1]
        assert others == []
        assert bool(torn) == bool(found.torn)
        assert not [note for note in report["notes"] if note.startswith("erased")]
    # Another process goes on where this one died, and nobody sees a difference in the end.
    folder = go_on(tmp_path, RUN, seed, rounds)
    report = verifier.verify(folder, KEY.public_key)
    assert report["faults"] == []
    assert report["notes"] == []
    if found.torn and not ended:
        (kept,) = (folder / "torn.jsonl").read_text("utf-8").splitlines()
        assert json.loads(kept)["line"] == len(found.lines) + 1
    undisturbed = write_run(tmp_path / "quiet", RUN, seed, rounds)
    assert report["head"] == verifier.verify(undisturbed, KEY.public_key)["head"]


# --- no room --------------------------------------------------------------------------------------


class FullDisk(Disk):
    """Has room for so many touches, and then, at one of them, half of what is wanted."""

    def __init__(self, room: int, *, stays_broken: bool = False) -> None:
        self.room = room
        self.stays_broken = stays_broken

    def _spend(self) -> bool:
        self.room -= 1
        return self.room < 0

    @override
    def write(self, handle: int, data: bytes) -> None:
        if self._spend():
            super().write(handle, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write(handle, data)

    @override
    def sync(self, handle: int) -> None:
        if self._spend() and self.stays_broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync(handle)

    @override
    def truncate(self, handle: int, size: int) -> None:
        if self.stays_broken and self.room < 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().truncate(handle, size)


@pytest.mark.parametrize("stays_broken", [False, True])
@pytest.mark.parametrize("room", range(6, 60, 3))
def test_a_full_disk_is_said_and_leaves_no_half_line(tmp_path, room, stays_broken):
    disk = FullDisk(10**9)
    folder = RunFolder(tmp_path, RUN, signer=KEY, disk=disk)
    bound = contract()
    folder.note("contract", bound)
    folder.note("manifest", MANIFEST)
    disk.room, disk.stays_broken = room, stays_broken
    made = entries(RUN, bound, random.Random(1), 2)
    safe = 0
    with pytest.raises(OSError) as failure:
        for entry, payloads in made:
            folder.append(entry, payloads)
            safe += 1
    assert failure.value.errno in (errno.ENOSPC, errno.EIO)
    if stays_broken and safe:
        with pytest.raises(OSError):
            folder.append(*made[safe])
    folder.close()
    whole = go_on(tmp_path, RUN, 1, 2)
    assert verifier.verify(whole, KEY.public_key)["ok"]
    assert len(read_transcript((whole / "transcript.jsonl").read_bytes()).entries) == len(made)


def test_a_write_is_possible_again_once_there_is_room(tmp_path):
    disk = FullDisk(10**9)
    folder = RunFolder(tmp_path, RUN, signer=KEY, disk=disk)
    made = entries(RUN, contract(), random.Random(1), 1)
    folder.append(*made[0])
    disk.room = 0
    with pytest.raises(OSError, match="No space"):
        folder.append(*made[1])
    disk.room = 10**9
    folder.append(*made[1])
    folder.close()
    reopened = RunFolder(tmp_path, RUN)
    assert reopened.transcript.torn == b""
    assert [entry.seq for entry in reopened.transcript.entries] == [0, 1]
    reopened.close()


def test_a_journal_whose_state_is_unknown_writes_no_more(tmp_path):
    class Failing(Disk):
        fails = False

        @override
        def write(self, handle: int, data: bytes) -> None:
            super().write(handle, data[:5] if self.fails else data)
            self._maybe()

        @override
        def truncate(self, handle: int, size: int) -> None:
            self._maybe()

        def _maybe(self) -> None:
            if self.fails:
                raise OSError(errno.EIO, "gone")

    disk = Failing()
    folder = RunFolder(tmp_path, RUN, disk=disk)
    made = entries(RUN, contract(), random.Random(1), 1)
    folder.append(made[0][0], {})
    disk.fails = True
    with pytest.raises(OSError, match="gone"):
        folder.append(made[1][0], {})
    disk.fails = False
    with pytest.raises(JournalBroken, match="could not be taken back: gone"):
        folder.append(made[1][0], {})
    folder.close()
    again = RunFolder(tmp_path, RUN)
    assert len(again.transcript.torn) == 5
    assert json.loads((again.path / "torn.jsonl").read_text("utf-8"))["line"] == 2
    again.append(made[1][0], {})
    again.close()


# --- who may write --------------------------------------------------------------------------------


def test_two_processes_never_write_one_run(tmp_path):
    first = RunFolder(tmp_path, RUN)
    source = os.pathsep.join((str(TESTS), str(TESTS.parent / "src")))
    script = (
        "import sys; from pathlib import Path; from monoize.agent.record.folder_journal import RunFolder\n"
        f"RunFolder(Path(sys.argv[1]), {RUN!r})"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": source}
    second = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "RunIsHeld" in second.stderr
    with pytest.raises(RunIsHeld):
        RunFolder(tmp_path, RUN)
    first.close()
    RunFolder(tmp_path, RUN).close()


def test_files_are_for_their_owner_only(tmp_path):
    mask = os.umask(0)
    try:
        folder = write_run(tmp_path / "runs", RUN, 1, 1)
    finally:
        os.umask(mask)
    for place in (tmp_path / "runs", folder, *folder.rglob("*")):
        expected = 0o700 if place.is_dir() else 0o600
        assert stat.S_IMODE(place.stat().st_mode) == expected, place


@pytest.mark.parametrize(
    "run_id", ["", ".", "..", "../x", "a/b", "a\\b", "-x", "a.b", "a\n", "ä", "x" * 129, "a\0"]
)
def test_an_id_cannot_leave_its_folder(tmp_path, run_id):
    with pytest.raises(ValueError, match="no id of a run"):
        RunFolder(tmp_path / "runs", run_id)
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_place_of_a_transcript_is_not_followed(tmp_path):
    (tmp_path / RUN / "payloads").mkdir(parents=True)
    (tmp_path / "elsewhere").write_text("", "utf-8")
    (tmp_path / RUN / "transcript.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        RunFolder(tmp_path, RUN)


# --- what it refuses ------------------------------------------------------------------------------


def test_an_entry_out_of_order_is_refused(tmp_path):
    folder = RunFolder(tmp_path, RUN)
    made = [entry for entry, _ in entries(RUN, contract(), random.Random(1), 1)]
    for wrong in (made[1], made[0].__class__(**{**_fields(made[0]), "run_id": "run_2"})):
        with pytest.raises(OutOfOrder):
            folder.append(wrong, {})
    folder.append(made[0], {})
    with pytest.raises(OutOfOrder):
        folder.append(made[0], {})
    with pytest.raises(OutOfOrder):
        folder.append(made[1].chained("0" * 64), {})
    with pytest.raises(OutOfOrder):
        folder.seal(KEY.checkpoint(RUN, 2, made[1].head))
    folder.close()


def _fields(entry):
    return {name: getattr(entry, name) for name in entry.__struct_fields__}


def test_a_tampered_transcript_is_not_gone_on_with(tmp_path):
    folder = write_run(tmp_path, RUN, 1, 1)
    file = folder / "transcript.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"step_0"', b'"step_9"', 1))
    with pytest.raises(BadTranscript, match="line 1: its content does not give its head"):
        RunFolder(tmp_path, RUN)


def test_a_payload_must_be_what_its_hash_says(tmp_path):
    folder = RunFolder(tmp_path, RUN)
    (entry, _), *_ = entries(RUN, contract(), random.Random(1), 1)
    for digest in ("0" * 64, "../../x", sha256(b"other")):
        with pytest.raises(ValueError, match="not what its hash"):
            folder.append(entry, {digest: b"data"})
    with pytest.raises(ValueError, match="no hash"):
        folder.payload("../contract.json")
    with pytest.raises(ValueError, match="no hash"):
        folder.erase("../contract.json")
    folder.append(entry, {sha256(b"data"): b"data"})
    assert folder.payload(sha256(b"data")) == b"data"
    with pytest.raises(PayloadTooLarge):
        folder.payload(sha256(b"data"), 3)
    assert folder.payload(sha256(b"nothing")) is None
    folder.close()


def test_a_closed_folder_does_nothing_more(tmp_path):
    folder = RunFolder(tmp_path, RUN)
    (entry, payloads), *_ = entries(RUN, contract(), random.Random(1), 1)
    folder.append(entry, payloads)
    handles = len(list(Path("/proc/self/fd").iterdir()))
    folder.close()
    folder.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == handles - 3
    for act in (
        lambda: folder.append(entry, {}),
        lambda: folder.seal(KEY.checkpoint(RUN, 1, entry.head)),
        lambda: folder.note("stats", {}),
        lambda: folder.payload(entry.action_hash),
        lambda: folder.erase(entry.action_hash),
    ):
        with pytest.raises(JournalBroken, match="is closed"):
            act()


def test_the_contract_of_a_run_stays(tmp_path):
    folder = RunFolder(tmp_path, RUN)
    folder.note("contract", contract())
    folder.note("contract", contract())
    with pytest.raises(ValueError, match="another contract already"):
        folder.note("contract", contract(max_inferences=3))
    folder.note("stats", {"a": 1})
    folder.note("stats", {"a": 2})
    assert json.loads((folder.path / "stats.json").read_bytes()) == {"a": 2}
    with pytest.raises(ValueError, match="no name"):
        folder.note("../x", {})
    folder.close()


def test_a_missing_checkpoint_is_made_up_for(tmp_path):
    """The last writer died between the 64th entry and its seal."""
    made = entries(RUN, contract(), random.Random(1), 11)
    folder = RunFolder(tmp_path, RUN, signer=KEY)
    for entry, payloads in made[:66]:
        folder.append(entry, payloads)
    folder.seal(KEY.checkpoint(RUN, 66, made[65][0].head))
    folder.seal(KEY.checkpoint(RUN, 66, made[65][0].head))  # once is enough
    folder.close()
    found = read_transcript((tmp_path / RUN / "transcript.jsonl").read_bytes())
    assert [checkpoint.size for checkpoint in found.checkpoints] == [64, 66]


# --- behind the event loop ------------------------------------------------------------------------


async def test_a_journal_is_written_and_read_off_the_event_loop(tmp_path):
    bound = contract()
    journal = await FolderJournal.open(tmp_path, RUN, signer=KEY)
    await journal.note("contract", bound)
    await journal.note("manifest", MANIFEST)
    made = entries(RUN, bound, random.Random(1), 1)
    for entry, payloads in made:
        await journal.append(entry, payloads)
    await journal.seal(KEY.checkpoint(RUN, len(made), made[-1][0].head))
    await journal.aclose()
    await journal.aclose()
    with pytest.raises(JournalBroken):
        await journal.append(*made[0])
    assert verifier.verify(journal.path, KEY.public_key)["ok"]

    again = await FolderJournal.open(tmp_path, RUN)
    assert again.transcript.entries == tuple(entry for entry, _ in made)
    digest = made[0][0].action_hash
    assert sha256(await again.payload(digest) or b"") == digest
    assert await again.erase(digest)
    assert not await again.erase(digest)
    assert await again.payload(digest) is None
    await again.aclose()
    report = verifier.verify(journal.path, KEY.public_key)
    assert report["ok"]
    assert report["notes"] == [f"erased: payloads/{digest} of line 1"]


async def test_cancelling_a_writer_leaves_no_gap(tmp_path):
    journal = await FolderJournal.open(tmp_path, RUN, signer=KEY)
    made = entries(RUN, contract(), random.Random(1), 3)
    for entry, payloads in made:
        writing = asyncio.ensure_future(journal.append(entry, payloads))
        await asyncio.sleep(0)  # it is asked for
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
    await journal.aclose()
    found = read_transcript((tmp_path / RUN / "transcript.jsonl").read_bytes())
    assert len(found.entries) == len(made)


async def test_cancelling_while_it_opens_releases_the_run(tmp_path):
    opening = asyncio.ensure_future(FolderJournal.open(tmp_path, RUN))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    for _ in range(10_000):
        try:
            journal = await FolderJournal.open(tmp_path, RUN)
            break
        except RunIsHeld:
            await asyncio.sleep(0)
    else:
        pytest.fail("the run stays held")
    await journal.aclose()


async def test_a_full_disk_reaches_whoever_appends(tmp_path):
    disk = FullDisk(10**9)
    journal = await FolderJournal.open(tmp_path, RUN, disk=disk)
    disk.room = 0
    with pytest.raises(OSError, match="No space"):
        await journal.append(*entries(RUN, contract(), random.Random(1), 1)[0])
    await journal.aclose()
