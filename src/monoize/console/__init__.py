"""The files of the console, as they are served: their bytes, what they are, and the version that they make together."""

from __future__ import annotations

import gzip
import hashlib
import posixpath
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec

__all__ = ["Bundle", "bundle", "bundled"]

_KINDS = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_SHELL = "shell.html"
_IMPORT = re.compile(rb'^import .* from "(.+)";$', re.MULTILINE)
_HEX = 12  # letters of the digest that tell versions apart


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    page: str  # what the server fills in and sends for every page
    assets: Mapping[str, bytes]  # by path, such as core/app.js
    packed: Mapping[str, bytes]  # the same, gzipped once for all
    version: str  # changes whenever a file does: addresses with it may be kept for ever

    def kind(self, name: str) -> str:
        return _KINDS[name.rpartition(".")[2]]

    def with_imports(self, *names: str) -> list[str]:
        """These modules and all that they import, so that a browser can ask for them at once, not one after the other."""
        found: dict[str, None] = {}
        left = list(names)
        while left:
            name = left.pop()
            if name not in found and name in self.assets:
                found[name] = None
                folder = posixpath.dirname(name)
                named = (match.decode() for match in _IMPORT.findall(self.assets[name]))
                left += [posixpath.normpath(posixpath.join(folder, target)) for target in named]
        return sorted(found)


@cache
def bundle() -> Bundle:
    return bundled(files("monoize.console"))


def bundled(folder: Traversable) -> Bundle:
    assets = dict(sorted(_found(folder, "")))
    page = folder.joinpath(_SHELL).read_text("utf-8")
    digest = hashlib.sha256(page.encode())
    for name, content in assets.items():
        digest.update(b"%b\0%d\0%b" % (name.encode(), len(content), content))
    packed = {name: gzip.compress(content, mtime=0) for name, content in assets.items()}
    return Bundle(page=page, assets=assets, packed=packed, version=digest.hexdigest()[:_HEX])


def _found(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        name = f"{prefix}{entry.name}"
        if entry.is_dir():
            found += _found(entry, f"{name}/")
        elif entry.name.rpartition(".")[2] in _KINDS:
            found.append((name, entry.read_bytes()))
    return found
