"""Transcripts in folders: on disk before anything else happens, whole after every crash, written by one process at a time."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import fcntl
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from typing_extensions import override

from monoize.agent.canonical_json import canonical, sha256
from monoize.agent.ports import Journal
from monoize.agent.record.entry import Checkpoint, Entry
from monoize.agent.record.signing import CHECKPOINT_EVERY, SigningKey
from monoize.agent.record.transcript import Line, Transcript, check_chain, line_of, read_transcript

__all__ = [
    "MAX_PAYLOAD_BYTES",
    "RUN_ID",
    "Disk",
    "FolderJournal",
    "JournalBroken",
    "OutOfOrder",
    "PayloadTooLarge",
    "RunFolder",
    "RunIsHeld",
    "folder_of",
]

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")  # a name that cannot leave its folder
MAX_PAYLOAD_BYTES = 64 * 1024**2
MAX_TRANSCRIPT_BYTES = 256 * 1024**2
_HASH = re.compile(r"[0-9a-f]{64}")
_NOTE = re.compile(r"[a-z][a-z_]{0,31}")
_FIXED = ("contract", "manifest")  # a run keeps what it began with (invariant B)
_FILE, _FOLDER = 0o600, 0o700  # prompts and results are nobody else's
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC

T = TypeVar("T")


class RunIsHeld(OSError):
    """Another process, or another journal of this one, writes this run."""


class JournalBroken(OSError):
    """An earlier write failed in a way that leaves the file's state unknown; open the run anew."""


class OutOfOrder(ValueError):
    """An entry that does not follow the last one: something before it never arrived."""


class PayloadTooLarge(ValueError):
    pass


class Disk:
    """The few calls that may fail for want of room; a test puts its own in place."""

    def write(self, handle: int, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]

    def sync(self, handle: int) -> None:
        os.fsync(handle)

    def truncate(self, handle: int, size: int) -> None:
        os.ftruncate(handle, size)

    def rename(self, folder: int, old: str, new: str) -> None:
        os.rename(old, new, src_dir_fd=folder, dst_dir_fd=folder)


def folder_of(root: Path, run_id: str) -> Path:
    if not RUN_ID.fullmatch(run_id):
        raise ValueError(f"{run_id!r} is no id of a run")
    return root / run_id


class RunFolder:
    """One run's files; every call blocks."""

    def __init__(
        self, root: Path, run_id: str, *, signer: SigningKey | None = None, disk: Disk | None = None
    ) -> None:
        self.run_id = run_id
        self.path = folder_of(root, run_id)
        self._signer = signer
        self._disk = disk or Disk()
        self._broken: str | None = None
        self._closed = False
        root.mkdir(mode=_FOLDER, parents=True, exist_ok=True)
        for folder in (self.path, self.path / "payloads"):
            folder.mkdir(mode=_FOLDER, exist_ok=True)
        self._handles = contextlib.ExitStack()
        with contextlib.ExitStack() as opened:
            self._folder = opened.enter_context(_opened_folder(self.path))
            self._payloads = opened.enter_context(_opened_folder(self.path / "payloads"))
            self._handle = opened.enter_context(self._locked())
            self.transcript = self._recovered()
            self._size = os.fstat(self._handle).st_size
            self._kept = self._payloads_there()
            with _opened_folder(root) as above:
                self._disk.sync(above)
            self._disk.sync(self._folder)
            self._handles = opened.pop_all()
        lines = self.transcript.lines
        self._count = len(self.transcript.entries)
        self._last = self.transcript.entries[-1] if self._count else None
        self._sealed = bool(lines) and isinstance(lines[-1], Checkpoint)

    def close(self) -> None:
        """Releases the run. A journal that is closed twice stays closed."""
        self._closed = True
        self._handles.close()

    def _check_open(self) -> None:
        if self._closed:  # its handles may be somebody else's by now
            raise JournalBroken(f"the run {self.run_id} is closed")

    def append(self, entry: Entry, payloads: Mapping[str, bytes]) -> None:
        self._check_open()
        last = "" if self._last is None else self._last.head
        if entry.seq != self._count or entry.run_id != self.run_id or (last and entry.prev != last):
            raise OutOfOrder(f"entry {entry.seq} does not follow the {self._count} that are there")
        self._keep(payloads)
        due = self._count > 0 and self._count % CHECKPOINT_EVERY == 0 and not self._sealed
        if due and self._signer is not None and self._last is not None:
            # A crash came between the last entry and its checkpoint.
            self.seal(self._signer.checkpoint(self.run_id, self._count, self._last.head))
        self._write(entry)
        self._count += 1
        self._last = entry
        self._sealed = False

    def seal(self, checkpoint: Checkpoint) -> None:
        """Once for each length: a second checkpoint there would say nothing new."""
        self._check_open()
        if self._sealed:
            return
        if self._last is None or (checkpoint.size, checkpoint.head) != (
            self._count,
            self._last.head,
        ):
            raise OutOfOrder(f"the checkpoint is not of the {self._count} entries that are there")
        self._write(checkpoint)
        self._sealed = True

    def note(self, name: str, body: Any) -> None:
        self._check_open()
        if not _NOTE.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a note")
        data = canonical(msgspec.to_builtins(body)) + b"\n"
        file = f"{name}.json"
        if name in _FIXED:
            with contextlib.suppress(FileNotFoundError):
                if _read(self._folder, file, len(data) + 1) != data:
                    raise ValueError(f"the run has another {name} already")
                return
        self._put(self._folder, file, data)
        self._disk.sync(self._folder)

    def payload(self, digest: str, limit: int = MAX_PAYLOAD_BYTES) -> bytes | None:
        """None where it was erased."""
        self._check_open()
        if not _HASH.fullmatch(digest):
            raise ValueError(f"{digest!r} is no hash of a payload")
        try:
            data = _read(self._payloads, digest, limit + 1)
        except FileNotFoundError:
            return None
        if len(data) > limit:
            raise PayloadTooLarge(f"the payload {digest} has more than {limit} bytes")
        return data

    def erase(self, digest: str) -> bool:
        """Takes a payload away for good; the chain holds its hash only and stays whole."""
        self._check_open()
        if not _HASH.fullmatch(digest):
            raise ValueError(f"{digest!r} is no hash of a payload")
        try:
            os.unlink(digest, dir_fd=self._payloads)
        except FileNotFoundError:
            return False
        self._kept.discard(digest)
        self._disk.sync(self._payloads)
        return True

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open("transcript.jsonl", flags, _FILE, dir_fd=self._folder)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield handle
        except BlockingIOError:
            raise RunIsHeld(f"the run {self.run_id} is being written by somebody else") from None
        finally:
            os.close(handle)

    def _payloads_there(self) -> set[str]:
        """Only whole ones: what a crash left half-written goes."""
        names = set(os.listdir(self._payloads))  # noqa: PTH208 - by handle
        for left in (name for name in names if name.startswith(".")):
            os.unlink(left, dir_fd=self._payloads)
        return names

    def _recovered(self) -> Transcript:
        size = os.fstat(self._handle).st_size
        if size > MAX_TRANSCRIPT_BYTES:
            raise PayloadTooLarge(f"the transcript has more than {MAX_TRANSCRIPT_BYTES} bytes")
        with open(os.dup(self._handle), "rb") as stream:  # noqa: PTH123 - a handle, no path
            stream.seek(0)
            found = read_transcript(stream.read())
        check_chain(found.lines, self.run_id)
        if found.torn:
            self._set_aside(found, size - len(found.torn))
        return found

    def _set_aside(self, found: Transcript, whole: int) -> None:
        """A cut-off line is never just dropped: it is kept in torn.jsonl, then cut away."""
        record = {
            "line": len(found.lines) + 1,
            "offset": whole,
            "bytes": base64.b64encode(found.torn).decode(),
        }
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open("torn.jsonl", flags, _FILE, dir_fd=self._folder)
        try:
            self._disk.write(handle, json.dumps(record).encode() + b"\n")
            self._disk.sync(handle)
        finally:
            os.close(handle)
        self._disk.truncate(self._handle, whole)
        self._disk.sync(self._handle)

    def _keep(self, payloads: Mapping[str, bytes]) -> None:
        missing = []
        for digest, data in payloads.items():
            if sha256(data) != digest:
                raise ValueError(f"a payload is not what its hash {digest[:64]!r} says")
            if len(data) > MAX_PAYLOAD_BYTES:
                raise PayloadTooLarge(f"a payload has more than {MAX_PAYLOAD_BYTES} bytes")
            if digest not in self._kept:
                missing.append((digest, data))
        for digest, data in missing:
            self._put(self._payloads, digest, data)
        if missing:
            self._disk.sync(self._payloads)
            self._kept.update(digest for digest, _ in missing)

    def _write(self, line: Line) -> None:
        if self._broken is not None:
            raise JournalBroken(self._broken)
        data = line_of(line)
        try:
            self._disk.write(self._handle, data)
            self._disk.sync(self._handle)
        except OSError as failure:
            self._take_back(failure)
            raise
        self._size += len(data)

    def _take_back(self, failure: OSError) -> None:
        """Half a line must not stay before a next one."""
        try:
            self._disk.truncate(self._handle, self._size)
            self._disk.sync(self._handle)
        except OSError:
            self._broken = f"a write failed and could not be taken back: {failure.strerror}"

    def _put(self, folder: int, name: str, data: bytes) -> None:
        """All of it or nothing, under its name; whoever calls syncs the folder."""
        part = f".{name}"  # nobody else writes here
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(part, flags, _FILE, dir_fd=folder)
        try:
            try:
                self._disk.write(handle, data)
                self._disk.sync(handle)
            finally:
                os.close(handle)
            self._disk.rename(folder, part, name)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(part, dir_fd=folder)
            raise


def _read(folder: int, name: str, limit: int) -> bytes:
    with os.fdopen(os.open(name, _READ, dir_fd=folder), "rb") as stream:
        return stream.read(limit)


@contextlib.contextmanager
def _opened_folder(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


class FolderJournal(Journal):
    """A run's folder behind one thread of its own: the event loop never waits for the disk, and order is kept.

    A write that was asked for happens even if whoever asked is cancelled: the chain has no gap.
    """

    def __init__(self, folder: RunFolder, thread: ThreadPoolExecutor) -> None:
        self._folder = folder
        self._thread = thread
        self._closed = False
        self.transcript = folder.transcript  # as it was found when it was opened

    @classmethod
    async def open(
        cls, root: Path, run_id: str, *, signer: SigningKey | None = None, disk: Disk | None = None
    ) -> FolderJournal:
        """Makes the run, or goes on with it. Raises RunIsHeld, BadTranscript."""
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="transcript")
        opening = thread.submit(RunFolder, root, run_id, signer=signer, disk=disk)
        try:
            return cls(await asyncio.shield(asyncio.wrap_future(opening)), thread)
        except BaseException:
            opening.add_done_callback(_close_unwanted)  # cancelled: nobody else would release it
            thread.shutdown(wait=False)
            raise

    @property
    def path(self) -> Path:
        return self._folder.path

    @override
    async def append(self, entry: Entry, payloads: Mapping[str, bytes]) -> None:
        await self._do(lambda: self._folder.append(entry, payloads))

    @override
    async def seal(self, checkpoint: Checkpoint) -> None:
        await self._do(lambda: self._folder.seal(checkpoint))

    @override
    async def note(self, name: str, body: Any) -> None:
        await self._do(lambda: self._folder.note(name, body))

    async def payload(self, digest: str, limit: int = MAX_PAYLOAD_BYTES) -> bytes | None:
        return await self._do(lambda: self._folder.payload(digest, limit))

    async def erase(self, digest: str) -> bool:
        return await self._do(lambda: self._folder.erase(digest))

    async def aclose(self) -> None:
        """Once everything that was asked for is written. A second time does nothing."""
        if not self._closed:
            self._closed = True
            closing = self._thread.submit(self._folder.close)
            self._thread.shutdown(wait=False)
            await asyncio.shield(asyncio.wrap_future(closing))

    async def _do(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise JournalBroken(f"the journal of {self._folder.run_id} is closed")
        return await asyncio.shield(asyncio.wrap_future(self._thread.submit(work)))


def _close_unwanted(opening: Future[RunFolder]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
