"""A folder that no path leads out of: every step is taken from an open folder to the next, and links are read by us.

Nothing is ever opened by a whole path, so whoever swaps a folder for a link between two steps gains nothing: the link is
either read here, as text whose steps are taken one by one from the top, or it is refused.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["Jail", "JailError", "Spot"]

_LONGEST_PATH = 4096
_LONGEST_NAME = 255  # bytes, as file systems have it
_MOST_LINKS = 40  # as Linux has it
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class JailError(Exception):
    """A path that leads nowhere it may; the message is for the model."""


class Spot:
    """A name in an open folder: what a path came to. The name may not exist; it is no link."""

    def __init__(self, folder: int, name: str, path: str) -> None:
        self.folder = folder
        self.name = name  # "." for the jail itself
        self.path = path  # as it is from the top, links resolved

    def stat(self) -> os.stat_result | None:
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open_file(self) -> int:
        """To read a plain file; nothing that waits or does something when it is opened."""
        number = _open(self.name, os.O_RDONLY | _FILE, self.folder, self.path)
        if not stat.S_ISREG(os.fstat(number).st_mode):
            os.close(number)
            raise JailError(f"{self.path} is not a file")
        return number

    def open_folder(self) -> int:
        return _open(self.name, _FOLDER, self.folder, self.path)


class Jail:
    def __init__(self, root: Path) -> None:
        """Raises OSError. What the root's own path leads over is the operator's matter."""
        self.root = root.resolve(strict=True)
        self._root = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    @contextmanager
    def spot(
        self, path: str, *, make_folders: bool = False, closed: frozenset[str] = frozenset()
    ) -> Iterator[Spot]:
        """Where a path leads; over none of the names that are closed. Raises JailError."""
        walk = _Walk(self._root, path, closed)
        try:
            yield walk.walked(make_folders=make_folders)
        finally:
            walk.close()


def _steps(path: str) -> list[str]:
    if not path:
        raise JailError("the path is empty")
    if "\0" in path:
        raise JailError("a path cannot hold a NUL")
    try:
        length = len(path.encode())
    except UnicodeEncodeError:
        raise JailError("the path holds half a character") from None
    if length > _LONGEST_PATH:
        raise JailError("the path is too long")
    if path.startswith("/"):
        raise JailError(f"{path} is absolute; paths are relative to the workspace")
    steps = [step for step in path.split("/") if step not in {"", "."}]
    if any(len(step.encode()) > _LONGEST_NAME for step in steps):
        raise JailError("a name in the path is too long")
    return steps


class _Walk:
    """From the top down, and up again by the folders that were passed: never by asking for '..'."""

    def __init__(self, root: int, path: str, closed: frozenset[str]) -> None:
        self._folders = [root]
        self._names: list[str] = []
        self._steps = deque(_steps(path))
        self._asked = path
        self._closed = closed
        self._links = 0

    def close(self) -> None:
        for number in self._folders[1:]:
            os.close(number)
        del self._folders[1:]

    def walked(self, *, make_folders: bool) -> Spot:
        while self._steps:
            step = self._steps.popleft()
            if step.lower() in self._closed:  # some file systems do not tell case apart
                raise JailError(f"{step} is not to be changed")
            if step == "..":
                self._up()
            elif self._is_link(step):
                self._follow(step)
            elif not self._steps:
                return Spot(self._folders[-1], step, "/".join([*self._names, step]))
            else:
                self._down(step, make=make_folders)
        return Spot(self._folders[-1], ".", "/".join(self._names) or ".")

    def _up(self) -> None:
        if len(self._folders) == 1:
            raise JailError(f"{self._asked} leads out of the workspace")
        os.close(self._folders.pop())
        self._names.pop()

    def _down(self, step: str, *, make: bool) -> None:
        here = self._folders[-1]
        place = "/".join([*self._names, step])
        if make:
            try:
                os.mkdir(step, dir_fd=here)
            except FileExistsError:
                pass
            except OSError as error:
                raise JailError(f"{place}: {error.strerror}") from None
        self._folders.append(_open(step, _FOLDER, here, place))
        self._names.append(step)

    def _is_link(self, step: str) -> bool:
        try:
            found = os.stat(step, dir_fd=self._folders[-1], follow_symlinks=False)
        except OSError:
            return False  # whoever opens it will say
        return stat.S_ISLNK(found.st_mode)

    def _follow(self, step: str) -> None:
        self._links += 1
        if self._links > _MOST_LINKS:
            raise JailError(f"{self._asked} leads over too many links")
        try:
            target = os.readlink(step, dir_fd=self._folders[-1])
        except OSError:  # it was a link a moment ago
            raise JailError(f"{self._asked} changes while it is looked at") from None
        if target.startswith("/"):
            raise JailError(f"{self._asked} leads out of the workspace, over a link")
        self._steps.extendleft(
            reversed([part for part in target.split("/") if part not in {"", "."}])
        )


_SAYINGS = {
    errno.ENOENT: "there is no {path}",
    errno.ENOTDIR: "{path} is not a folder",
    errno.ELOOP: "{path} changes while it is looked at",  # a link that was none a moment ago
    errno.ENXIO: "{path} is not a file",
    errno.EISDIR: "{path} is a folder",
}


def _open(name: str, flags: int, folder: int, path: str) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError as error:
        saying = _SAYINGS.get(error.errno or 0, "{path}: " + (error.strerror or "cannot be opened"))
        raise JailError(saying.format(path=path)) from None
