"""Transcripts as text: read strictly, every mistake named with its line; older forms are read as what they meant."""

from __future__ import annotations

import json
import os
import random
import stat
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from fakes.agent_runs import KEY, contract, entries
from monoize.agent.canonical_json import canonical, sha256
from monoize.agent.contract import contract_hash
from monoize.agent.machine.states import TRANSITIONS
from monoize.agent.record import formats, verifier
from monoize.agent.record.entry import Checkpoint, Entry, first_prev, head_of, signed_text
from monoize.agent.record.formats import (
    CONTRACT_UPGRADES,
    UnknownFormat,
    UnreadableContract,
    read_contract,
)
from monoize.agent.record.signing import SigningKey, UnusableKey
from monoize.agent.record.transcript import (
    MAX_LINE_BYTES,
    BadTranscript,
    TranscriptReader,
    check_chain,
    line_of,
    read_transcript,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "agent"
RUN = [entry for entry, _ in entries("run_1", contract(), random.Random(1), 2)]
SEAL = KEY.checkpoint("run_1", len(RUN), RUN[-1].head)
TEXT = b"".join(map(line_of, [*RUN, SEAL]))


# --- the recipe -----------------------------------------------------------------------------------


@pytest.mark.spec("D45", "S5-E", "S5-4")
def test_the_chain_is_made_as_the_interfaces_say():
    entry = RUN[1]
    written = json.loads(line_of(entry))
    assert list(written) == [
        *("v", "seq", "run_id", "step_id", "from", "to", "contract_hash", "action_hash"),
        *("result_hash", "adapter_version", "model_profile_id", "model_fingerprint", "meta_hash"),
        *("prev", "head", "observed"),
    ]
    array = [
        *(written[name] for name in ("v", "seq", "step_id", "from", "to", "contract_hash")),
        *(written[name] for name in ("action_hash", "result_hash", "adapter_version")),
        *(written[name] for name in ("model_profile_id", "model_fingerprint", "meta_hash")),
    ]
    text = json.dumps(array, separators=(",", ":"), ensure_ascii=False)
    expected = sha256(f"monoize-transcript/1\n{RUN[0].head}\n{text}".encode())
    assert written["head"] == entry.head == expected
    assert RUN[0].prev == sha256(f"monoize-transcript/1\n{entry.contract_hash}".encode())


def test_reads_what_it_writes():
    found = read_transcript(TEXT)
    assert found.lines == (*RUN, SEAL)
    assert found.entries == tuple(RUN)
    assert found.checkpoints == (SEAL,)
    assert found.torn == b""
    assert b"".join(map(line_of, found.lines)) == TEXT
    check_chain(found.lines, "run_1")


def test_bytes_may_come_one_by_one():
    reader, lines = TranscriptReader(), []
    for number in range(len(TEXT)):
        lines += reader.feed(TEXT[number : number + 1])
    assert lines == [*RUN, SEAL]


@pytest.mark.parametrize("cut", [1, 2, 40, 300])
def test_a_torn_end_is_told_apart(cut):
    found = read_transcript(TEXT[:-cut])
    assert len(found.lines) == len(RUN)
    assert found.torn == line_of(SEAL)[:-cut]


def test_zeros_at_the_end_are_a_torn_end_too():
    lost = bytes(100) + b"\n"
    found = read_transcript(TEXT + lost)
    assert (len(found.lines), found.torn) == (len(RUN) + 1, lost)


def _line(**changes) -> bytes:
    fields = json.loads(line_of(RUN[1]))
    for name, value in changes.items():
        if value is ...:
            del fields[name]
        else:
            fields[name] = value
    return json.dumps(fields).encode()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"", "no JSON"),
        (b"[]", "no JSON object"),
        (b"{", "no JSON"),
        (b"\xff", "not UTF-8"),
        (b'{"v":1,"v":1}', "stands twice"),
        (b'{"v":NaN}', "NaN is not JSON"),
        (b"[" * 100_000, "nested too deep"),
        (b" " * (MAX_LINE_BYTES + 1), "longer than"),
        (_line(v=2), "format 2 is unknown"),
        (_line(v=1.0), "format 1.0 is unknown"),
        (_line(v=True), "format True is unknown"),
        (_line(v=...), "format None is unknown"),
        (_line(seq="1"), "Expected `int`, got `str` - at `$.seq`"),
        (_line(seq=True), "Expected `int`"),
        (_line(head=None), "at `$.head`"),
        (_line(prev=...), "without 'prev'"),
        (_line(more=1), "unknown field 'more'"),
        (_line(checkpoint=True), "unknown field"),
        (line_of(SEAL).replace(b"true", b"false").strip(), "says it is none"),
    ],
)
def test_a_wrong_line_is_named(line, says):
    with pytest.raises(BadTranscript) as mistake:
        read_transcript(line_of(RUN[0]) + line + b"\n" + TEXT)
    assert mistake.value.line == 2
    assert says in mistake.value.mistake
    assert str(mistake.value).startswith("line 2: ")


def test_a_line_that_never_ends_is_refused_early():
    reader = TranscriptReader()
    with pytest.raises(BadTranscript, match="line 1: longer"):
        reader.feed(b"x" * (MAX_LINE_BYTES + 1))


def _without(number: int) -> list:
    return [*RUN[:number], *RUN[number + 1 :]]


def _changed(number: int, **fields) -> list:
    return [
        msgspec.structs.replace(entry, **fields) if entry.seq == number else entry for entry in RUN
    ]


@pytest.mark.parametrize(
    ("lines", "line", "says"),
    [
        (_without(0), 1, "seq is 1"),
        (_without(3), 4, "seq is 4 where 3 is due"),
        (_changed(2, run_id="run_2"), 3, "belongs to the run 'run_2'"),
        (_changed(2, contract_hash="0" * 64), 3, "contract changes"),
        (_changed(2, to="TERMINATE"), 3, "no way"),
        (_changed(2, to="NOWHERE"), 3, "no way"),
        (_changed(2, from_="INFER"), 3, "no way"),
        (_changed(2, prev="0" * 64), 3, "prev"),
        (_changed(2, result_hash="0" * 64), 3, "head"),
        ([SEAL], 1, "checkpoint of nothing"),
        ([*RUN[:-1], SEAL], len(RUN), "another length or head"),
    ],
)
def test_the_first_line_that_does_not_follow_is_named(lines, line, says):
    with pytest.raises(BadTranscript, match=says) as mistake:
        check_chain(lines)
    assert mistake.value.line == line


def test_another_run_is_refused():
    with pytest.raises(BadTranscript, match="belongs to the run"):
        check_chain(RUN, "run_9")


@pytest.mark.spec("D35")
def test_the_verifier_has_the_same_table_of_states():
    ours = {start.value: {end.value for end in ends} for start, ends in TRANSITIONS.items() if ends}
    assert ours == verifier.WAYS


# --- forms ----------------------------------------------------------------------------------------


def golden(pattern: str) -> list[dict]:
    return [json.loads(file.read_text("utf-8")) for file in sorted(GOLDEN.glob(pattern))]


@pytest.mark.spec("S5-4", "D51")
@pytest.mark.parametrize("case", golden("contract-*.json"), ids=lambda case: case["format"])
def test_every_form_of_a_contract_is_read(case):
    found = read_contract(case["written"])
    assert json.loads(canonical(found.contract.as_json())) == case["read"]
    assert contract_hash(found.contract) == case["hash_when_read"]
    assert {k: v.decode() for k, v in found.payloads.items()} == case["payloads"]
    current = case["format"] == formats.FORMAT_VERSION
    assert found.upgraded_from == (None if current else case["format"])


@pytest.mark.spec("S5-4", "S5-E")
@pytest.mark.parametrize("case", golden("transcript-*.json"), ids=lambda case: case["format"])
def test_every_form_of_a_transcript_is_read_and_verified(case, tmp_path):
    for name, text in case["files"].items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(text.encode())
    report = verifier.verify(tmp_path, case["public_key"])
    assert (report["faults"], report["notes"]) == ([], [])
    assert (report["entries"], report["head"]) == (case["entries"], case["head"])
    found = read_transcript(case["files"]["transcript.jsonl"].encode())
    check_chain(found.lines, case["run_id"])
    assert found.entries[-1].head == case["head"]
    if case["format"] == 1:
        written = b"".join(map(line_of, found.lines))
        assert written == case["files"]["transcript.jsonl"].encode()
    bound = read_contract(json.loads(case["files"]["contract.json"])).contract
    assert contract_hash(bound) == bound.contract_hash == found.entries[0].contract_hash


def test_there_is_a_golden_file_for_every_form():
    assert {case["format"] for case in golden("contract-*.json")} == {
        *CONTRACT_UPGRADES,
        formats.FORMAT_VERSION,
    }
    assert {case["format"] for case in golden("transcript-*.json")} == {
        *formats.TRANSCRIPT_UPGRADES,
        formats.VERSION,
    }


@pytest.mark.parametrize("version", ["3.0", "2.0", "", 2.2, None, ["2.2"]])
def test_a_form_that_nobody_knows_is_refused(version):
    with pytest.raises(UnknownFormat, match=r"this reads 2\.1, 2\.2"):
        read_contract({"format_version": version})


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"max_inferences": 0}, "max_inferences"),
        ({"surprise": 1}, "surprise"),
        ({"logits_mask": [float("nan")]}, "not JSON"),
        ({"format_version": "2.2", "logits_mask": [0.5]}, "logits_mask"),
    ],
)
def test_a_contract_with_a_wrong_field_is_refused(fields, says):
    with pytest.raises(UnreadableContract, match=says):
        read_contract(fields)


@pytest.mark.spec("D38")
def test_an_old_strict_contract_wants_a_success_as_proof():
    assert read_contract({"strict_mode": True}).contract.required_proof == "succeeded"
    assert read_contract({"strict_mode": False}).contract.required_proof == "executed"


def test_an_older_line_goes_through_its_upgrade(monkeypatch):
    def upgraded(fields):
        return {**fields, "v": 1, "step_id": fields["step_id"].upper()}

    monkeypatch.setattr(formats, "TRANSCRIPT_UPGRADES", {0: upgraded})
    (line,) = read_transcript(_line(v=0) + b"\n").lines
    assert isinstance(line, Entry)
    assert line.step_id == "STEP_0"


# --- the key --------------------------------------------------------------------------------------


def test_the_key_is_made_once_and_kept_private(tmp_path):
    file = tmp_path / "data" / "transcript.key"
    first = SigningKey.kept_at(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [left.name for left in file.parent.iterdir()] == [file.name]
    file.chmod(0o644)
    assert SigningKey.kept_at(file).public_key == first.public_key
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_whoever_is_first_makes_the_key(tmp_path, monkeypatch):
    file, made = tmp_path / "transcript.key", []

    def late(part, target):
        monkeypatch.undo()
        made.append(SigningKey.kept_at(target).public_key)
        os.link(part, target)

    monkeypatch.setattr(os, "link", late)
    assert SigningKey.kept_at(file).public_key == made[0]


@pytest.mark.parametrize("text", [b"", b"not a key", b"-----BEGIN PRIVATE KEY-----\n"])
def test_a_file_that_holds_no_key_is_said(tmp_path, text):
    file = tmp_path / "transcript.key"
    file.write_bytes(text)
    with pytest.raises(UnusableKey, match=r"transcript\.key holds no private key"):
        SigningKey.kept_at(file)


def test_another_kind_of_key_is_said(tmp_path):
    file = tmp_path / "transcript.key"
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    file.write_bytes(X25519PrivateKey.generate().private_bytes(*form, serialization.NoEncryption()))
    with pytest.raises(UnusableKey, match="not Ed25519"):
        SigningKey.kept_at(file)


@pytest.mark.spec("D45")
def test_a_checkpoint_signs_run_length_and_head():
    made = KEY.checkpoint("run_1", 7, "ab" * 32)
    assert made == Checkpoint(
        size=7, head="ab" * 32, public_key=KEY.public_key, signature=made.signature
    )
    text = signed_text("run_1", 7, "ab" * 32)
    assert text == f"monoize-checkpoint/1\nrun_1\n7\n{'ab' * 32}".encode()
    key, signature = bytes.fromhex(made.public_key), bytes.fromhex(made.signature)
    assert verifier.signature_is_good(key, text, signature)
    assert not verifier.signature_is_good(key, text + b"0", signature)
    assert head_of(RUN[0], first_prev(RUN[0].contract_hash)) == RUN[0].head
