"""An engine of one model that works in a thread of its own: options, what must be installed, loading, closing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Generic, TypeVar

import msgspec
from typing_extensions import override

from monoize.engine import Engine, EngineSetup, EngineStatus
from monoize.engines import _pinned
from monoize.engines._pinned import Package, Pinned
from monoize.errors import ConfigError, EngineError
from monoize.workshop import Workshop

__all__ = ["Options", "Threaded"]

Model = TypeVar("Model")


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    waiting: Annotated[int, msgspec.Meta(ge=0)] | None = (
        None  # pieces of work that may wait for the one at hand
    )


class Threaded(Engine, Generic[Model]):
    model: ClassVar[str]
    packages: ClassVar[tuple[Package, ...]]
    files: ClassVar[tuple[Pinned, ...]]
    waiting: ClassVar[int] = 32

    def __init__(self, setup: EngineSetup) -> None:
        try:
            options = msgspec.convert(setup.options, Options)
        except msgspec.ValidationError as mistake:
            raise ConfigError(f"engine {self.id}: {mistake}") from None
        self._folder = setup.folder
        waiting = self.waiting if options.waiting is None else options.waiting
        self._workshop = Workshop(self.id, self._loaded, slots=1, waiting=waiting)

    @override
    def models(self) -> tuple[str, ...]:
        return (self.model,)

    @override
    def available(self) -> EngineStatus:
        return _pinned.missing(self.packages, self.files) or EngineStatus(installed=True)

    @override
    async def start(self) -> None:
        await self._workshop.start()

    @override
    async def aclose(self) -> None:
        await self._workshop.aclose()

    @abstractmethod
    def _load(self, paths: Mapping[str, Path]) -> Model:
        """In the thread; `paths`: the files by the names that they have in their packages."""

    def _loaded(self) -> Model:
        status = self.available()
        if not status.installed:
            raise EngineError(f"{status.reason} Install it: {status.install}")
        paths = {file.file: _pinned.verified(file, self._folder) for file in self.files}
        try:
            return self._load(paths)
        except (ImportError, OSError, RuntimeError) as error:
            raise EngineError(f"The local engine {self.id} cannot be loaded: {error}") from error
