"""What the workspace tools do to files, in a thread: bounded, to be stopped between two steps, and whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from typing import Any

from monoize.agent.tools._capture import Capture, Captured
from monoize.agent.tools._patch import Edit, PatchError, patched
from monoize.agent.tools._search import glob_fits
from monoize.agent.tools.jail import Jail, JailError, Spot

__all__ = ["Files", "Stop"]

Stop = Callable[[], None]  # raises when the work is no longer wanted

_MODE = 0o644
_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
_DEEPEST = 32
_LONGEST_LINE = 400  # characters of a line that was found


class Files:
    """`protected` are names of folders that are not written to and not searched: a hook in .git is a command."""

    def __init__(
        self,
        jail: Jail,
        *,
        most_bytes: int,
        most_entries: int,
        protected: tuple[str, ...],
    ) -> None:
        self._jail = jail
        self._most_bytes = most_bytes
        self._most_entries = most_entries
        self._protected = frozenset(protected)

    # --- looking ---

    def listed(self, path: str, depth: int, stop: Stop) -> dict[str, Any]:
        with self._jail.spot(path) as spot:
            entries: list[dict[str, Any]] = []
            for name, found in self._entries(spot, min(depth, _DEEPEST), stop):
                if len(entries) == self._most_entries:
                    return {"path": spot.path, "entries": entries, "complete": False}
                kind = _KINDS.get(stat.S_IFMT(found.st_mode), "special")
                entry: dict[str, Any] = {"path": name, "kind": kind}
                if kind == "file":
                    entry["bytes"] = found.st_size
                entries.append(entry)
            return {"path": spot.path, "entries": entries, "complete": True}

    def read(self, path: str, first_line: int, lines: int, most_bytes: int) -> dict[str, Any]:
        with self._jail.spot(path) as spot:
            data = self._bytes(spot)
        all_lines = data.splitlines(keepends=True)
        chosen = all_lines[first_line - 1 : first_line - 1 + lines]
        capture = Capture(most_bytes)
        for line in chosen:
            capture.feed(line)
        captured = capture.captured()
        return {
            "path": spot.path,
            "content": captured.text,
            "first_line": first_line,
            "last_line": first_line + len(chosen) - 1,
            "total_lines": len(all_lines),
            "total_bytes": len(data),
            **_marks(captured),
        }

    def searched(
        self, path: str, matches: Callable[[str], bool], glob: str | None, stop: Stop
    ) -> dict[str, Any]:
        found: list[dict[str, Any]] = []
        files = skipped = 0
        with self._jail.spot(path) as spot:
            for place in self._plain_files(spot, glob, stop):
                try:
                    with self._jail.spot(place) as file:
                        text = self._bytes(file).decode()
                except (JailError, UnicodeDecodeError):  # too large, not text, or just gone
                    skipped += 1
                    continue
                files += 1
                for number, line in enumerate(text.splitlines(), 1):
                    stop()
                    if not matches(line):
                        continue
                    if len(found) == self._most_entries:
                        return {"matches": found, "complete": False}
                    found.append({"path": place, "line": number, "text": line[:_LONGEST_LINE]})
        return {"matches": found, "files": files, "skipped": skipped, "complete": True}

    def _plain_files(self, spot: Spot, glob: str | None, stop: Stop) -> Iterator[str]:
        found = spot.stat()
        if found is not None and stat.S_ISREG(found.st_mode):
            yield spot.path
            return
        prefix = "" if spot.path == "." else f"{spot.path}/"
        for name, entry in self._entries(spot, _DEEPEST, stop):
            fits = glob is None or any(
                glob_fits(glob, part) for part in (name, name.rpartition("/")[2])
            )
            if fits and stat.S_ISREG(entry.st_mode):
                yield prefix + name

    def _entries(
        self, spot: Spot, depth: int, stop: Stop, prefix: str = ""
    ) -> Iterator[tuple[str, os.stat_result]]:
        """Sorted, folders before what is in them; links are named and not followed."""
        folder = spot.open_folder()
        try:
            for name in sorted(os.listdir(folder)):  # noqa: PTH208 - of an open folder, not of a path
                stop()
                here = Spot(folder, name, f"{prefix}{name}")
                found = here.stat()
                if found is None or not _is_text(name):  # gone, or a name that JSON cannot say
                    continue
                yield here.path, found
                if depth > 1 and stat.S_ISDIR(found.st_mode) and name not in self._protected:
                    try:
                        yield from self._entries(here, depth - 1, stop, f"{here.path}/")
                    except JailError:  # gone, or closed to us
                        continue
        finally:
            os.close(folder)

    def _bytes(self, spot: Spot) -> bytes:
        number = spot.open_file()
        with os.fdopen(number, "rb") as file:
            data = file.read(self._most_bytes + 1)
        if len(data) > self._most_bytes:
            raise JailError(f"{spot.path} is larger than {self._most_bytes} bytes")
        return data

    # --- changing ---

    def written(self, path: str, content: str) -> dict[str, Any]:
        data = _encoded(content)
        if len(data) > self._most_bytes:
            raise JailError(f"the content is larger than {self._most_bytes} bytes")
        with self._jail.spot(path, make_folders=True, closed=self._protected) as spot:
            found = spot.stat()
            _replace(spot, data, found)
            return {"path": spot.path, "bytes": len(data), "created": found is None}

    def patched(self, path: str, edits: tuple[Edit, ...]) -> dict[str, Any]:
        with self._jail.spot(path, closed=self._protected) as spot:
            try:
                text = self._bytes(spot).decode()
            except UnicodeDecodeError:
                raise JailError(f"{spot.path} is not UTF-8 text") from None
            try:
                data = _encoded(patched(text, edits))
            except PatchError as error:
                raise JailError(f"{spot.path} is unchanged: {error}") from None
            if len(data) > self._most_bytes:
                raise JailError(f"{spot.path} would be larger than {self._most_bytes} bytes")
            _replace(spot, data, spot.stat())
            return {"path": spot.path, "bytes": len(data), "edits": len(edits)}


def _replace(spot: Spot, data: bytes, found: os.stat_result | None) -> None:
    """A new file under the old name: readers see the old or the new one, and other names of the old file keep it."""
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise JailError(f"{spot.path} is not a file")
    mode = _MODE if found is None else stat.S_IMODE(found.st_mode) & 0o777
    beside = f".monoize-{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        number = os.open(beside, flags, mode, dir_fd=spot.folder)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            os.replace(beside, spot.name, src_dir_fd=spot.folder, dst_dir_fd=spot.folder)
        except BaseException:
            os.unlink(beside, dir_fd=spot.folder)
            raise
        os.fsync(spot.folder)
    except OSError as error:
        raise JailError(f"{spot.path}: {error.strerror}") from None


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise JailError("the text holds half a character, which no file can") from None


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _marks(captured: Captured) -> dict[str, bool]:
    return {
        name: True
        for name, is_so in (("cut", captured.cut), ("replaced", captured.replaced))
        if is_so
    }
