"""A transcript a page at a time, with what its entries name."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from fakes.agent_runs import write_run
from monoize.agent.canonical_json import EMPTY_HASH
from monoize.agent.record.signing import CHECKPOINT_EVERY
from monoize.agent.runs.entries import entry_page, is_hash, payload_of

ROUNDS = 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs"), "run_1", seed=7, rounds=ROUNDS)


def pages(folder: Path, limit: int) -> list[dict]:
    lines, first, written = [], 0, (folder / "transcript.jsonl").read_bytes()
    while first is not None:
        page = entry_page(folder, written, first, limit, payloads=False)
        assert page.payloads is None
        assert sum("seq" in line for line in page.data) <= limit
        lines += page.data
        first = page.next
    return lines


@pytest.mark.parametrize("limit", [1, 50, CHECKPOINT_EVERY, 1000])
def test_all_pages_together_are_the_transcript(folder, limit):
    written = [
        json.loads(line) for line in (folder / "transcript.jsonl").read_text("utf-8").splitlines()
    ]
    found = pages(folder, limit)
    assert [line["line"] for line in found] == list(range(1, len(written) + 1))
    assert [{k: v for k, v in line.items() if k != "line"} for line in found] == written


def test_beyond_the_end_there_is_nothing(folder):
    page = entry_page(folder, (folder / "transcript.jsonl").read_bytes(), 10**6, 10, payloads=True)
    assert (page.data, page.payloads, page.next) == ((), {}, None)


def test_a_line_that_is_none_is_left_to_the_verifier(folder):
    written = b'{"half": \n[1]\n' + (folder / "transcript.jsonl").read_bytes()
    page = entry_page(folder, written, 0, 1, payloads=False)
    assert [(line["line"], line["seq"]) for line in page.data] == [(3, 0)]


def test_payloads_come_along_and_what_was_erased_is_said(tmp_path):
    folder = write_run(tmp_path, "run_2", seed=1, rounds=1)
    written = (folder / "transcript.jsonl").read_bytes()
    first = json.loads(written.splitlines()[0])
    (folder / "payloads" / first["result_hash"]).unlink()
    page = entry_page(folder, written, 0, 1, payloads=True)
    assert EMPTY_HASH not in page.payloads
    assert page.payloads[first["result_hash"]] is None
    found = page.payloads[first["action_hash"]]
    assert hashlib.sha256(found.text.encode()).hexdigest() == first["action_hash"]
    assert (found.bytes, found.cut) == (len(found.text.encode()), False)


def test_a_long_payload_is_cut_and_its_size_told(tmp_path):
    (tmp_path / "payloads").mkdir()
    (tmp_path / "payloads" / "x").write_bytes(b"\xff" + b"a" * 99)
    found = payload_of(tmp_path, "x", 10)
    assert (found.bytes, found.cut, found.text) == (
        100,
        True,
        "\N{REPLACEMENT CHARACTER}" + "a" * 9,
    )
    assert payload_of(tmp_path, "x", 100).cut is False
    assert payload_of(tmp_path, "y") is None


@pytest.mark.parametrize("name", ["", "../contract.json", "A" * 64, "a" * 63, "a" * 65, "." * 64])
def test_only_a_hash_names_a_payload(name):
    assert not is_hash(name)
    assert is_hash("0a" * 32)
