"""What lies beside the transcripts: who asked for a run, how it stands, which runs have not ended. Every call blocks."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from monoize.agent.live.terms_note import terms_json
from monoize.agent.machine.digest import StateDigest
from monoize.agent.machine.run_state import Terms
from monoize.agent.record.folder_journal import RUN_ID, RunFolder, folder_of
from monoize.store.agent_runs import RunRow

__all__ = ["RunFiles", "RunRecord", "Summary", "ToolsProblem"]

_OPEN = ".open"
_SUMMARY = "run.json"
_STOP = "interrupt"
_PREFIX = "run_"  # of every id that we give; other names in the folder are somebody else's


class ToolsProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why the tools could not be asked for their manifest when the run was made."""

    code: str
    reason: str


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the run's own files do not say: whose it is, and which tools it is to be given."""

    run_id: str
    owner: str
    key: str | None  # whose calls its inferences are
    created_at: int
    page: str | None = None
    tools: tuple[str, ...] = ()
    parent: str | None = None
    address: str | None = None
    tools_problem: ToolsProblem | None = None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    row: RunRow
    digest: StateDigest | None = None  # None: nobody has begun it


class RunFiles:
    def __init__(self, root: Path) -> None:
        self.root = root

    # --- a new run ---

    def create(
        self, terms: Terms, record: RunRecord, summary: Summary, payloads: Mapping[str, bytes]
    ) -> None:
        """All that a process needs to run it, safe before anybody is told of it by `open`."""
        folder = RunFolder(self.root, terms.run_id)
        try:
            folder.note("contract", terms.contract.as_json())
            folder.note("manifest", {"tools": [tool.as_json() for tool in terms.manifest.tools]})
            folder.note("terms", terms_json(terms))
            folder.note("request", msgspec.to_builtins(record))
            for digest, data in payloads.items():
                (folder.path / "payloads" / digest).write_bytes(data)
        finally:
            folder.close()
        self.save(summary)

    def record(self, run_id: str) -> RunRecord:
        raw = (folder_of(self.root, run_id) / "request.json").read_bytes()
        return msgspec.json.decode(raw, type=RunRecord)

    # --- how it stands ---

    def save(self, summary: Summary) -> None:
        self._put(folder_of(self.root, summary.row.run_id) / _SUMMARY, msgspec.json.encode(summary))

    def summary(self, run_id: str) -> Summary | None:
        if not RUN_ID.fullmatch(run_id):
            return None
        try:
            raw = (folder_of(self.root, run_id) / _SUMMARY).read_bytes()
            return msgspec.json.decode(raw, type=Summary)
        except (OSError, msgspec.MsgspecError):
            return None

    def newest_first(self, before: str | None = None) -> Iterator[Summary]:
        """Ids begin with their moment, so that their order is that of their age."""
        try:
            names = [file.name for file in self.root.iterdir()]
        except FileNotFoundError:
            return
        for name in sorted((name for name in names if name.startswith(_PREFIX)), reverse=True):
            if before is None or name < before:
                found = self.summary(name)
                if found is not None:
                    yield found

    def contract(self, run_id: str) -> dict[str, Any]:
        raw = (folder_of(self.root, run_id) / "contract.json").read_bytes()
        fields: dict[str, Any] = msgspec.json.decode(raw)
        return fields

    def task(self, run_id: str) -> str:
        raw = (folder_of(self.root, run_id) / "terms.json").read_bytes()
        return str(msgspec.json.decode(raw)["task"])

    def transcript(self, run_id: str) -> bytes:
        """Whole lines only: the rest is still being written."""
        try:
            data = (folder_of(self.root, run_id) / "transcript.jsonl").read_bytes()
        except FileNotFoundError:  # nobody has begun it
            return b""
        return data[: data.rfind(b"\n") + 1]

    # --- which have not ended ---

    def unfinished(self) -> list[str]:
        try:
            names = [file.name for file in (self.root / _OPEN).iterdir()]
        except FileNotFoundError:
            return []
        return sorted(name for name in names if RUN_ID.fullmatch(name))

    def open(self, run_id: str) -> None:
        """From here on whoever looks may run it."""
        self._put(self._open_folder() / run_id, b"")

    def close(self, run_id: str) -> None:
        """It has ended, and everybody may know."""
        (self.root / _OPEN / run_id).unlink(missing_ok=True)
        (folder_of(self.root, run_id) / _STOP).unlink(missing_ok=True)

    def ask_to_stop(self, run_id: str, reason: str) -> None:
        """For whichever process runs it."""
        self._put(folder_of(self.root, run_id) / _STOP, reason.encode("utf-8", "replace"))

    def asked_to_stop(self, run_id: str) -> str | None:
        try:
            return (folder_of(self.root, run_id) / _STOP).read_text("utf-8", "replace")
        except FileNotFoundError:
            return None

    def remove(self, run_id: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder_of(self.root, run_id))
        (self.root / _OPEN / run_id).unlink(missing_ok=True)

    def _open_folder(self) -> Path:
        folder = self.root / _OPEN
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def _put(self, file: Path, data: bytes) -> None:
        """All or nothing; not worth a sync: the transcript is the truth, and this can be made from it."""
        part = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            part.rename(file)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
