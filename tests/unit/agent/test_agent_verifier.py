"""The stand-alone verifier: one sentence per fault, with its line; and an export that carries it along."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import zipfile
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from fakes.agent_runs import KEY, write_run
from fakes.agent_scenarios import SCENARIOS
from fakes.agent_steps import Run
from monoize.agent.canonical_json import EMPTY_HASH
from monoize.agent.contract import contract_hash
from monoize.agent.record import export, verifier
from monoize.agent.record.export import ExportTooLarge, export_bytes
from monoize.agent.record.folder_journal import RunFolder
from monoize.agent.record.signing import SigningKey
from monoize.agent.record.transcript import line_of, read_transcript

KEYS = ["--public-key", KEY.public_key]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "runs", "run_1", 1, 1)


@pytest.fixture
def long_run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "runs", "run_long", 1, 11)


def verified(*arguments: object, program: str = verifier.__file__) -> subprocess.CompletedProcess:
    command = [sys.executable, "-I", "-S", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def edit(folder: Path, number: int, **fields) -> None:
    file = folder / "transcript.jsonl"
    lines = file.read_text("utf-8").splitlines()
    lines[number - 1] = json.dumps({**json.loads(lines[number - 1]), **fields})
    file.write_text("\n".join(lines) + "\n", "utf-8")


def faults(folder: Path, **options) -> list[tuple[int | None, str]]:
    report = verifier.verify(folder, KEY.public_key, **options)
    assert report["ok"] == (not report["faults"])
    return [(fault["line"], fault["fault"]) for fault in report["faults"]]


def test_it_imports_nothing_but_the_standard_library():
    tree = ast.parse(Path(verifier.__file__).read_text("utf-8"))
    names = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or "." * node.level]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert names <= set(sys.stdlib_module_names)


@pytest.mark.spec("S5-E")
def test_a_whole_run(run):
    done = verified(run, *KEYS)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("whole: run run_1, 9 entries, head ")
    assert verified(run).stdout.startswith(f"note: signed by {KEY.public_key}")


def test_as_json(run):
    done = verified(run, "--json", *KEYS)
    report = json.loads(done.stdout)
    last = read_transcript((run / "transcript.jsonl").read_bytes()).entries[-1]
    assert report == {
        "ok": True,
        "run_id": "run_1",
        "entries": 9,
        "head": last.head,
        "public_key": KEY.public_key,
        "faults": [],
        "notes": [],
    }
    edit(run, 2, step_id="other")
    done = verified(run, "--json", *KEYS)
    assert done.returncode == 1
    assert json.loads(done.stdout)["faults"] == [
        {"line": 2, "fault": "the content does not give the head"}
    ]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"seq": 7}, "seq is 7 where 2 is due"),
        ({"run_id": "run_2"}, "run_id is not that of the run"),
        ({"to": "TERMINATE"}, "no way leads from VALIDATE_CALLS by VALIDATE_CALLS to TERMINATE"),
        ({"prev": "0" * 64}, "prev is not the head of the entry before"),
        ({"action_hash": "0" * 64}, "the content does not give the head"),
        ({"contract_hash": "0" * 64}, "contract_hash is not that of the run"),
        ({"seq": "2"}, "seq is not of its form"),
        ({"seq": True}, "seq is not of its form"),
        ({"head": "X" * 64}, "head is not of its form"),
        ({"head": "A" * 64}, "head is not of its form"),
        ({"v": 2}, "format 2 is unknown"),
        ({"extra": 1}, "an unknown or missing field: extra"),
    ],
)
def test_a_fault_is_said_with_its_line(run, fields, says):
    edit(run, 3, **fields)
    assert (3, says) in faults(run)
    done = verified(run)
    assert done.returncode == 1
    assert f"line 3: {says}\n" in done.stdout
    assert "NOT WHOLE" in done.stdout


def test_lines_that_are_no_entries(run):
    file = run / "transcript.jsonl"
    whole = file.read_bytes()
    for junk, says in (
        (b"\n", "Expecting value"),
        (b"{\n", "Expecting property name"),
        (b"[1]\n", "no JSON object"),
        (b"\xff\n", "'utf-8' codec can't decode"),
        (b'{"v":1,"v":1}\n', "a field stands twice"),
        (b'{"v":1e999}\n', "1e999 is no finite number"),
        (b'{"v":NaN}\n', "NaN is no finite number"),
        (b'{"v":-0}\n', "-0 is not how"),
        (b"[" * 100_000 + b"\n", "nested too deep"),
        (b"x" * 2**21, "the line is torn"),
    ):
        file.write_bytes(whole + junk)
        found = faults(run)
        assert any(line == 11 and text.startswith(says) for line, text in found), (junk[:9], found)


def test_a_deleted_line_is_one_place_not_a_hundred(run):
    file = run / "transcript.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:3] + lines[4:]))
    assert {line for line, _ in faults(run)} == {4, 9}  # where it was, and the checkpoint's size


@pytest.mark.spec("D45")
def test_a_cut_is_seen_by_the_missing_checkpoint(run):
    file = run / "transcript.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    says = "no closing checkpoint: the run has not ended, or its end was cut off"
    for count in range(1, len(lines)):
        file.write_bytes(b"".join(lines[:count]))
        assert faults(run) == [(count, says)]
        assert faults(run, unfinished=True) == []
    file.write_bytes(b"")
    assert faults(run) == [(None, "the transcript has no entry")]


def test_checkpoints_stand_where_they_are_due(long_run):
    file = long_run / "transcript.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    assert b'"checkpoint"' in lines[64]
    file.write_bytes(b"".join(lines[:64] + lines[65:]))
    assert faults(long_run) == [(65, "no checkpoint stands before entry 64")]
    file.write_bytes(b"".join([*lines[:65], lines[64], *lines[65:]]))
    assert faults(long_run) == [(66, "the checkpoint stands twice")]
    file.write_bytes(b"".join([lines[64], *lines]))
    assert faults(long_run) == [(1, "a checkpoint of nothing")]


def test_signatures(run):
    edit(run, 10, signature="00" * 64)
    assert faults(run) == [(10, "the signature of the checkpoint is wrong")]
    found = read_transcript((run / "transcript.jsonl").read_bytes())
    thief = SigningKey.from_seed(b"t" * 32).checkpoint("run_1", 9, found.entries[-1].head)
    lines = b"".join(map(line_of, (*found.entries, thief)))
    (run / "transcript.jsonl").write_bytes(lines)
    assert faults(run) == [(10, "the checkpoint is signed by another key")]
    assert verifier.verify(run)["ok"], "without a key to go by, any key will do"


@pytest.mark.spec("D35", "S5-5")
@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("PRECHECK", "INFER", "TERMINATE"), 2),
        (("PRECHECK", "TERMINATE"), 1),
        (("INFER", "COMMIT", "TERMINATE"), 1),
        (("PRECHECK", "COMMIT", "TERMINATE", "TERMINATE"), 3),
        (("PRECHECK", "INFER", "VALIDATE_CALLS", "OBSERVE", "COMMIT", "TERMINATE"), 3),
    ],
)
def test_a_way_that_no_run_can_go_is_a_fault_even_if_it_is_signed(run, path, line):
    found = read_transcript((run / "transcript.jsonl").read_bytes()).entries
    prev, made = found[0].prev, []
    for seq, (start, end) in enumerate(pairwise(path)):
        step = msgspec.structs.replace(found[seq], from_=start, to=end).chained(prev)
        prev = step.head
        made.append(step)
    seal = KEY.checkpoint("run_1", len(made), prev)
    (run / "transcript.jsonl").write_bytes(b"".join(map(line_of, [*made, seal])))
    ((where, says),) = faults(run)
    assert where == line
    assert says.startswith("no way leads from")


def test_the_contract_beside_it(run):
    file = run / "contract.json"
    fields = json.loads(file.read_bytes())
    for changed, says in (
        ({**fields, "max_inferences": 99}, "contract.json is not what its own id and hash name"),
        ({**fields, "contract_id": "ctr_x"}, "contract.json is not what its own id and hash name"),
        ({**fields, "max_tokens_consumed": 2**60}, "contract.json: an integer beyond 2^53-1"),
    ):
        file.write_text(json.dumps(changed), "utf-8")
        assert (None, says) in faults(run)
    file.write_text(json.dumps(fields, indent=8), "utf-8")
    assert faults(run) == []  # spaces are no values
    file.unlink()
    assert faults(run) == [(None, "contract.json is not there")]


def test_the_manifest_beside_it(run):
    file = run / "manifest.json"
    fields = json.loads(file.read_bytes())
    fields["tools"][0]["description"] = "Reads nothing."
    file.write_text(json.dumps(fields), "utf-8")
    assert faults(run) == [(None, "manifest.json is not the one that the contract names")]
    file.write_text("{", "utf-8")
    assert "manifest.json: Expecting" in faults(run)[0][1]
    file.unlink()
    report = verifier.verify(run, KEY.public_key)
    assert (report["faults"], report["notes"]) == ([], ["manifest.json is not there"])


def test_payloads(run):
    entry = read_transcript((run / "transcript.jsonl").read_bytes()).entries[3]
    file = run / "payloads" / entry.action_hash
    (run / "payloads" / ".left-over").write_bytes(b"half")
    assert faults(run) == []
    data = file.read_bytes()
    file.write_bytes(data + b" ")
    assert faults(run) == [(4, f"payloads/{file.name} is not what its name says")]
    file.unlink()
    report = verifier.verify(run, KEY.public_key)
    assert (report["faults"], report["notes"]) == (
        [],
        [f"erased: payloads/{file.name} of line 4"],
    )


def test_nothing_to_check(tmp_path, run):
    for place in (tmp_path / "nowhere", tmp_path):
        done = verified(place)
        assert done.returncode == 2
        assert "cannot be read" in done.stderr
    assert verified(run, "--public-key", "XYZ").returncode == 2
    assert verified().returncode == 2
    (tmp_path / "bad.zip").write_bytes(b"PK\x05\x06" + bytes(30))
    assert verified(tmp_path / "bad.zip").returncode == 2


def test_main_says_what_the_program_says(run, capsys):
    assert verifier.main([str(run), *KEYS]) == 0
    assert capsys.readouterr().out == verified(run, *KEYS).stdout
    assert verifier.main([str(run / "nowhere")]) == 2
    edit(run, 1, step_id="x")
    assert verifier.main([str(run)]) == 1
    assert "line 1:" in capsys.readouterr().out


@pytest.mark.spec("S5-E", "S5-B")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_what_the_reducer_writes_is_whole(scenario, tmp_path):
    terms = scenario.of
    made = Run(terms).tell(*scenario.events)
    folder = RunFolder(tmp_path, terms.run_id, signer=KEY)
    folder.note("contract", terms.contract)
    folder.note("manifest", terms.manifest)
    for entry in made.entries:
        named = (entry.action_hash, entry.result_hash, entry.meta_hash)
        folder.append(entry, {name: made.payloads[name] for name in named if name != EMPTY_HASH})
    folder.seal(KEY.checkpoint(terms.run_id, len(made.entries), made.entries[-1].head))
    folder.close()
    report = verifier.verify(folder.path, KEY.public_key)
    is_what_it_says = contract_hash(terms.contract) == terms.contract.contract_hash
    assert report["ok"] == is_what_it_says  # a changed contract is seen here as well
    assert report["notes"] == [] or not is_what_it_says


# --- exports --------------------------------------------------------------------------------------


def test_an_export_is_one_file_that_anybody_can_check(tmp_path, run):
    data = export_bytes(run.parent, "run_1")
    assert data == export_bytes(run.parent, "run_1")
    file = tmp_path / "run_1.zip"
    file.write_bytes(data)
    assert verified(file, *KEYS).returncode == 0
    with zipfile.ZipFile(file) as archive:
        archive.extractall(tmp_path / "out")
    there = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert there == [
        "contract.json",
        "manifest.json",
        "payloads",
        "transcript.jsonl",
        "verifier.py",
    ]
    done = verified(tmp_path / "out", *KEYS, program=str(tmp_path / "out" / "verifier.py"))
    assert done.returncode == 0


def test_an_edited_export_is_seen(tmp_path, run):
    file = tmp_path / "run_1.zip"
    edit(run, 4, step_id="other")
    file.write_bytes(export_bytes(run.parent, "run_1"))
    assert verified(file).returncode == 1
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(file, "a") as archive:
        archive.writestr("transcript.jsonl", (run / "transcript.jsonl").read_bytes())
    assert "a file stands twice" in verified(file).stdout


def test_an_export_has_a_limit_and_needs_a_run(run, monkeypatch):
    monkeypatch.setattr(export, "MAX_EXPORT_BYTES", 100)
    with pytest.raises(ExportTooLarge):
        export.export_run(run.parent, "run_1", BytesIO())
    with pytest.raises(FileNotFoundError):
        export_bytes(run.parent, "run_2")
    with pytest.raises(ValueError, match="no id"):
        export_bytes(run.parent, "../runs/run_1")
