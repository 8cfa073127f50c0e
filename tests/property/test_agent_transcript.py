"""Nobody changes a transcript unseen: random edits of everything that is covered, judged by the stand-alone verifier.

What is covered is every value of every line but `observed`, the contract, the manifest and the payloads. `observed` holds
times and is by definition not hashed (D45); how JSON is spaced is no value either. An edit that leaves all covered values as they were
(rfc8785 is the judge of that) is therefore no edit and is drawn again.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.agent_runs import KEY, entries, write_run
from fakes.agent_runs import contract as some_contract
from monoize.agent.canonical_json import MAX_INTEGER, canonical
from monoize.agent.record import verifier
from monoize.agent.record.entry import Entry, first_prev, head_of
from monoize.agent.record.signing import SigningKey
from monoize.agent.record.transcript import line_of, read_transcript

pytestmark = pytest.mark.soak

SOAK = os.environ.get("MONOIZE_SOAK") == "1"
BATCHES = 10
EDITS = 1_000 if SOAK else 50  # a batch
THIEF = SigningKey.from_seed(b"somebody else's key".ljust(32))

Files = dict[str, bytes]

# --- what is covered ------------------------------------------------------------------------------


def covered_value(raw: bytes, *, without: str | None = None) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("twice")
        return dict(pairs)

    try:
        value = json.loads(raw, object_pairs_hook=once)
        if isinstance(value, dict):
            value.pop(without, None)
        return rfc8785.dumps(value)
    except (ValueError, RecursionError, rfc8785.CanonicalizationError):
        return raw


def covered(files: Files) -> Any:
    lines = files.get("transcript.jsonl", b"").split(b"\n")
    return (
        [covered_value(line, without="observed") for line in lines],
        {
            name: covered_value(data) if name.endswith(".json") else data
            for name, data in files.items()
            if name != "transcript.jsonl"
        },
    )


# --- edits ----------------------------------------------------------------------------------------

Edit = Callable[[Files, random.Random], None]
TRANSCRIPT = "transcript.jsonl"


def lines_of(files: Files) -> list[bytes]:
    return files[TRANSCRIPT].splitlines(keepends=True)


def other(value: Any, dice: random.Random) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return value + dice.choice([-1, 1, 64, 2**40])
        case float():
            return value / 2
        case str() if value and dice.random() < 0.7:
            place = dice.randrange(len(value))
            letter = dice.choice([c for c in "0123456789abcdefXYZ_é" if c != value[place]])
            return value[:place] + letter + value[place + 1 :]
        case str():
            return value + dice.choice("abc0")
        case list():
            return [*value, "more"] if dice.random() < 0.5 or not value else value[:-1]
        case dict() if value:
            name = dice.choice(sorted(value))
            return {**value, name: other(value[name], dice)}
        case dict():
            return {"more": 1}
        case _:
            return dice.choice(["x", 0, False])


def edit_a_field(files: Files, dice: random.Random) -> None:
    lines = lines_of(files)
    number = dice.randrange(len(lines))
    fields = json.loads(lines[number])
    name = dice.choice([name for name in fields if name != "observed"])
    fields[name] = other(fields[name], dice)
    lines[number] = json.dumps(fields).encode() + b"\n"
    files[TRANSCRIPT] = b"".join(lines)


def add_or_drop_a_field(files: Files, dice: random.Random) -> None:
    lines = lines_of(files)
    number = dice.randrange(len(lines))
    fields = json.loads(lines[number])
    if dice.random() < 0.5:
        fields["note"] = "added"
    else:
        del fields[dice.choice([name for name in fields if name != "observed"])]
    lines[number] = json.dumps(fields).encode() + b"\n"
    files[TRANSCRIPT] = b"".join(lines)


def edit_and_chain_anew(files: Files, dice: random.Random) -> None:
    """By somebody who knows the recipe and lacks the key."""
    found = read_transcript(files[TRANSCRIPT]).lines
    steps = [line for line in found if isinstance(line, Entry)]
    victim = dice.randrange(len(steps))
    prev, made = first_prev(steps[0].contract_hash), []
    for line in found:
        if isinstance(line, Entry):
            fields = json.loads(line_of(line))
            if line.seq == victim:
                name = dice.choice(["step_id", "action_hash", "result_hash", "meta_hash"])
                fields[name] = other(fields[name], dice)
            fields["prev"] = prev
            fields["head"] = prev = verifier.head_of(fields)
            made.append(fields)
        else:
            made.append({**json.loads(line_of(line)), "head": prev})
    files[TRANSCRIPT] = b"".join(json.dumps(fields).encode() + b"\n" for fields in made)


def end_early_and_seal_with_another_key(files: Files, dice: random.Random) -> None:
    whole = read_transcript(files[TRANSCRIPT])
    kept = list(whole.entries[: dice.randrange(1, len(whole.entries))])
    end = kept[-1]
    seal = THIEF.checkpoint(end.run_id, len(kept), end.head)
    files[TRANSCRIPT] = b"".join(map(line_of, [*kept, seal]))


def delete_lines(files: Files, dice: random.Random) -> None:
    lines = lines_of(files)
    start = dice.randrange(len(lines))
    del lines[start : start + dice.choice([1, 1, 1, 2, 5])]
    files[TRANSCRIPT] = b"".join(lines)


def duplicate_a_line(files: Files, dice: random.Random) -> None:
    lines = lines_of(files)
    lines.insert(dice.randrange(len(lines) + 1), dice.choice(lines))
    files[TRANSCRIPT] = b"".join(lines)


def swap_lines(files: Files, dice: random.Random) -> None:
    lines = lines_of(files)
    a, b = dice.randrange(len(lines)), dice.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    files[TRANSCRIPT] = b"".join(lines)


def cut_anywhere(files: Files, dice: random.Random) -> None:
    data = files[TRANSCRIPT]
    files[TRANSCRIPT] = data[: dice.choice([dice.randrange(len(data)), len(data) - 1])]


def cut_after_a_line(files: Files, dice: random.Random) -> None:
    lines = lines_of(files)
    files[TRANSCRIPT] = b"".join(lines[: dice.randrange(len(lines))])


def cut_the_front(files: Files, dice: random.Random) -> None:
    lines = lines_of(files)
    files[TRANSCRIPT] = b"".join(lines[dice.randrange(1, len(lines)) :])


def borrow_a_line(files: Files, dice: random.Random) -> None:
    """Of another run under the same contract."""
    lines = lines_of(files)
    foreign = entries("run_other", some_contract(), dice, 2)
    number = dice.randrange(min(len(lines), len(foreign)))
    lines[number] = line_of(foreign[number][0])
    files[TRANSCRIPT] = b"".join(lines)


def rename_the_run(files: Files, dice: random.Random) -> None:
    files[TRANSCRIPT] = files[TRANSCRIPT].replace(b'"run_id":"run_', b'"run_id":"Run_')


def some_file(files: Files, dice: random.Random) -> str:
    kinds = [TRANSCRIPT, TRANSCRIPT, "contract.json", "manifest.json", *sorted(files)[:4]]
    return dice.choice([name for name in kinds if name in files])


def flip_a_bit(files: Files, dice: random.Random) -> None:
    name = some_file(files, dice)
    data = bytearray(files[name])
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    files[name] = bytes(data)


def put_bytes_in(files: Files, dice: random.Random) -> None:
    name = some_file(files, dice)
    place = dice.randrange(len(files[name]) + 1)
    some = dice.choice([b"\n", b"\0", b" ", b"0", b"\xff", b'"', dice.randbytes(3)])
    files[name] = files[name][:place] + some + files[name][place:]


def take_bytes_out(files: Files, dice: random.Random) -> None:
    name = some_file(files, dice)
    place = dice.randrange(len(files[name]))
    files[name] = files[name][:place] + files[name][place + dice.randrange(1, 40) :]


def edit_the_contract(files: Files, dice: random.Random) -> None:
    files["contract.json"] = json.dumps(other(json.loads(files["contract.json"]), dice)).encode()


def edit_the_contract_and_its_hash(files: Files, dice: random.Random) -> None:
    """By somebody who computes the hash anew."""
    fields = other(json.loads(files["contract.json"]), dice)
    plain = {k: v for k, v in fields.items() if k not in ("contract_id", "contract_hash")}
    digest = verifier.sha256(verifier.canonical(plain))
    files["contract.json"] = json.dumps(
        {**plain, "contract_id": f"ctr_{digest[:24]}", "contract_hash": digest}
    ).encode()


def lose_the_contract(files: Files, dice: random.Random) -> None:
    del files["contract.json"]


def edit_the_manifest(files: Files, dice: random.Random) -> None:
    files["manifest.json"] = json.dumps(other(json.loads(files["manifest.json"]), dice)).encode()


def swap_payloads(files: Files, dice: random.Random) -> None:
    a, b = dice.sample(sorted(name for name in files if name.startswith("payloads/")), 2)
    files[a], files[b] = files[b], files[a]


EDITS_OF_ALL_KINDS: tuple[Edit, ...] = (
    edit_a_field,
    edit_a_field,
    add_or_drop_a_field,
    edit_and_chain_anew,
    end_early_and_seal_with_another_key,
    delete_lines,
    duplicate_a_line,
    swap_lines,
    cut_anywhere,
    cut_after_a_line,
    cut_the_front,
    borrow_a_line,
    rename_the_run,
    flip_a_bit,
    flip_a_bit,
    put_bytes_in,
    take_bytes_out,
    edit_the_contract,
    edit_the_contract_and_its_hash,
    lose_the_contract,
    edit_the_manifest,
    swap_payloads,
)


class Place:
    """A run on disk that takes an edit and is mended again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = {
            file.relative_to(folder).as_posix(): file.read_bytes()
            for file in sorted(folder.rglob("*"))
            if file.is_file()
        }
        self.meaning = covered(self.files)

    def edited(self, dice: random.Random) -> tuple[str, Files]:
        while True:
            edit, files = dice.choice(EDITS_OF_ALL_KINDS), dict(self.files)
            edit(files, dice)
            if covered(files) != self.meaning:
                return edit.__name__, files

    def put(self, files: Files) -> None:
        for name in self.files.keys() | files.keys():
            if name not in files:
                (self.folder / name).unlink()
            elif files[name] != self.files.get(name):
                (self.folder / name).write_bytes(files[name])

    def mend(self, files: Files) -> None:
        for name, data in self.files.items():
            if files.get(name) != data:
                (self.folder / name).write_bytes(data)


@pytest.mark.spec("S5-E", "D45")
@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_edit_of_a_transcript_is_seen(batch, tmp_path):
    dice = random.Random(batch)
    # Every fifth batch has runs with checkpoints in their middle.
    rounds = 13 if batch % 5 == 0 else dice.randrange(1, 4)
    place = Place(write_run(tmp_path, f"run_{batch}", batch, rounds))
    assert verifier.verify(place.folder, KEY.public_key)["ok"]
    unseen = []
    for number in range(EDITS):
        name, files = place.edited(dice)
        place.put(files)
        try:
            report = verifier.verify(place.folder, KEY.public_key)
            if report["ok"] or not all(fault["fault"] for fault in report["faults"]):
                unseen.append((number, name))
            if number % (EDITS // 2) == 0:
                assert standalone(place.folder) == 1, name
        except FileNotFoundError:
            assert TRANSCRIPT not in files
        finally:
            place.mend(files)
    assert unseen == []
    assert verifier.verify(place.folder, KEY.public_key)["ok"]


def standalone(folder: Path) -> int:
    command = [sys.executable, "-I", "-S", verifier.__file__, str(folder)]
    done = subprocess.run(
        [*command, "--public-key", KEY.public_key], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    return done.returncode


@pytest.mark.parametrize("seed", range(200 if SOAK else 10))
def test_our_hashes_and_those_of_the_verifier_are_the_same(seed):
    for entry, _ in entries("run_x", some_contract(), random.Random(seed), 2):
        fields = json.loads(line_of(entry))
        assert verifier.head_of(fields) == entry.head == head_of(entry, entry.prev)


def test_edits_of_what_was_observed_are_not_covered(tmp_path):
    """Times are beside the chain, so that a replay has the same head (D45)."""
    folder = write_run(tmp_path, "run_1", 1, 1)
    lines = (folder / TRANSCRIPT).read_bytes().splitlines()
    first = json.loads(lines[0])
    first["observed"] = {"elapsed_ms": 10**6}
    lines[0] = json.dumps(first).encode()
    (folder / TRANSCRIPT).write_bytes(b"\n".join(lines) + b"\n")
    assert verifier.verify(folder, KEY.public_key)["ok"]


def test_each_payload_may_be_erased_alone_or_with_all_others(tmp_path):
    folder = write_run(tmp_path, "run_1", 2, 2)
    names = {file.name for file in (folder / "payloads").iterdir()}
    next((folder / "payloads").iterdir()).unlink()
    report = verifier.verify(folder, KEY.public_key)
    assert report["ok"]
    assert len(report["notes"]) == 1
    shutil.rmtree(folder / "payloads")
    report = verifier.verify(folder, KEY.public_key)
    assert report["ok"]
    assert {note.split()[1] for note in report["notes"]} == {f"payloads/{name}" for name in names}


# --- RFC 8785 -------------------------------------------------------------------------------------

WHOLE = st.integers(-MAX_INTEGER, MAX_INTEGER)
NUMBERS = WHOLE | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=20,
)


@pytest.mark.spec("D44")
@settings(
    max_examples=5_000 if SOAK else 250,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(VALUES)
def test_canonical_is_rfc_8785(value):
    assert canonical(value) == rfc8785.dumps(value) == verifier.canonical(value).encode()


@pytest.mark.spec("D44")
def test_every_double_is_written_as_rfc_8785_says():
    dice = random.Random(8785)
    for _ in range(200_000 if SOAK else 10_000):
        (number,) = struct.unpack("<d", dice.randbytes(8))
        if math.isfinite(number):
            expected = rfc8785.dumps(number)
            assert canonical(number) == expected
            assert verifier.canonical(number).encode() == expected


# --- Ed25519 --------------------------------------------------------------------------------------


def library_says(key: bytes, message: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def corrupted(data: bytes, dice: random.Random) -> bytes:
    changed = bytearray(data)
    changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def test_signatures_are_judged_as_the_library_judges_them():
    dice = random.Random(25519)
    good = 0
    for _ in range(2_000 if SOAK else 100):
        private = Ed25519PrivateKey.from_private_bytes(dice.randbytes(32))
        key = private.public_key().public_bytes_raw()
        message = dice.randbytes(dice.randrange(200))
        signature = private.sign(message)
        match dice.randrange(6):
            case 0:
                key = corrupted(key, dice)
            case 1:
                message += b"."
            case 2:
                signature = corrupted(signature, dice)
            case 3:  # the same point with a scalar beyond the order: RFC 8032 refuses it
                scalar = int.from_bytes(signature[32:], "little") + verifier.Q
                signature = signature[:32] + scalar.to_bytes(32, "little")
        verdict = verifier.signature_is_good(key, message, signature)
        assert verdict == library_says(key, message, signature)
        good += verdict
    assert good
