"""A run as it lies in its folder or its export: what it began with, its entries, and the payloads that they name."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from typing_extensions import override

from monoize import wirejson
from monoize.agent.canonical_json import EMPTY_HASH
from monoize.agent.live.terms_note import terms_from
from monoize.agent.machine.run_state import Terms
from monoize.agent.manifest import ToolManifest
from monoize.agent.record.entry import Entry
from monoize.agent.record.formats import read_contract
from monoize.agent.record.transcript import check_chain, read_transcript

__all__ = ["PayloadMissing", "RecordedRun", "load"]

_HASH = re.compile(r"[0-9a-f]{64}")
Place: TypeAlias = Path | zipfile.Path


class PayloadMissing(ValueError):
    """It was erased, or never arrived: what it held cannot be told again."""


class RecordedRun(msgspec.Struct, frozen=True, kw_only=True):
    terms: Terms
    entries: tuple[Entry, ...]
    payloads: Mapping[str, bytes]

    def payload(self, digest: str) -> bytes:
        """Under that name, whatever it holds: a replay finds out."""
        if digest == EMPTY_HASH:
            return b""
        try:
            return self.payloads[digest]
        except KeyError:
            raise PayloadMissing(f"the payload {digest} is not there") from None

    def mask(self) -> tuple[float, ...] | None:
        """What the contract's `logits_mask` names."""
        digest = self.terms.contract.logits_mask
        return None if digest is None else tuple(wirejson.loads(self.payload(digest)))

    def meta(self, entry: Entry) -> dict[str, Any]:
        fields: dict[str, Any] = wirejson.loads(self.payload(entry.meta_hash))
        return fields


class _Files(Mapping[str, bytes]):
    """Payloads, read when they are asked for."""

    def __init__(self, folder: Place) -> None:
        self._folder = folder

    @override
    def __getitem__(self, digest: str) -> bytes:
        file = self._folder / digest
        if not _HASH.fullmatch(digest) or not file.is_file():
            raise KeyError(digest)
        return file.read_bytes()

    @override
    def __iter__(self) -> Iterator[str]:
        return (file.name for file in self._folder.iterdir() if _HASH.fullmatch(file.name))

    @override
    def __len__(self) -> int:
        return sum(1 for _ in self)


def load(place: Path) -> RecordedRun:
    """A run's folder or its export. Blocking; raises OSError, BadTranscript, UnreadableContract, UnreadableTerms."""
    root: Place = zipfile.Path(place) if zipfile.is_zipfile(place) else place
    contract = read_contract(wirejson.loads((root / "contract.json").read_bytes())).contract
    tools = wirejson.loads((root / "manifest.json").read_bytes())
    manifest = msgspec.convert(tools, ToolManifest)
    transcript = read_transcript((root / "transcript.jsonl").read_bytes())
    check_chain(transcript.lines)
    terms = terms_from(wirejson.loads((root / "terms.json").read_bytes()), contract, manifest)
    return RecordedRun(terms=terms, entries=transcript.entries, payloads=_Files(root / "payloads"))
