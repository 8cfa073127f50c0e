"""Contract of a transform, the rules that use it, and the ordered loop that applies them (TF-1 to TF-6).

A transform is a module in `transforms/` that defines one subclass of `Transform`; its `id` is the module's name.
Packages outside register theirs under the entry-point group `monoize.transforms` (D2).
Transforms are pure and synchronous: they return new values and never change the ones they got (D4).
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar, get_type_hints

import msgspec
from typing_extensions import override

from monoize.errors import ConfigError, MonoizeError
from monoize.globs import glob_matches
from monoize.settings import RuleSettings
from monoize.urp import (
    Frame,
    StreamFailed,
    UrpRequest,
    UrpResponse,
    UrpStreamEvent,
    fold,
    unfold,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "NO_CHAIN",
    "Config",
    "Context",
    "Events",
    "NoConfig",
    "Observer",
    "Phase",
    "RequestTransform",
    "ResponseChain",
    "ResponseTransform",
    "Rule",
    "Transform",
    "WholeResponseTransform",
    "compiled",
    "discovered",
    "matching",
    "request_applied",
    "transform",
    "transforms",
]

ENTRY_POINTS = "monoize.transforms"
_ID = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")

Events: TypeAlias = tuple[UrpStreamEvent, ...]


class Phase(StrEnum):
    REQUEST = "request"
    RESPONSE = "response"


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a transform. Schema, docs and example derive from its fields and their `Meta`."""


class NoConfig(Config, frozen=True, kw_only=True):
    """Nothing to configure."""


C = TypeVar("C", bound=Config)


class Context(msgspec.Struct, Generic[C], frozen=True, kw_only=True):
    """What a transform may know beside the value."""

    config: C
    model: str  # the name that rules are matched with (D16)
    # The protocol that the value goes to or came from; None before a provider is chosen.
    provider_protocol: str | None = None


class Transform(ABC, Generic[C]):
    """TF-1's six members. A plain transform names its `id` and its `Config` and writes `apply`."""

    id: ClassVar[str]
    config: ClassVar[type[Config]] = NoConfig
    phases: ClassVar[tuple[Phase, ...]]
    # True: works on the UrpResponse, so that a stream has to be buffered for it (PIPE-1a, D5).
    needs_whole_response: ClassVar[bool] = False

    def type_id(self) -> str:
        return self.id

    def supported_phases(self) -> tuple[Phase, ...]:
        return self.phases

    def config_schema(self) -> dict[str, Any]:
        """JSON Schema of the config; a key that it does not name is refused."""
        (schema,), definitions = msgspec.json.schema_components([self.config])
        own = definitions.pop(schema["$ref"].rpartition("/")[2])
        own.pop("description", None)  # the docstring of the struct, not of the transform
        return {**own, "$defs": definitions} if definitions else own

    def example_config(self) -> dict[str, Any]:
        """The first example that the fields give; fields with a default and no example are left out."""
        found = {}
        for field in msgspec.structs.fields(self.config):
            examples = _examples(self.config, field.name)
            if examples:
                found[field.encode_name] = examples[0]
        return found

    def parse_config(self, raw: Mapping[str, Any]) -> C:
        """Raises ConfigError with the path of the mistake (D3)."""
        try:
            parsed: Any = msgspec.convert(raw, self.config)
        except msgspec.ValidationError as error:
            message, _, path = str(error).partition(" - at `$")
            raise ConfigError(f"config{path.rstrip('`')}: {message}") from None
        return parsed  # type: ignore[no-any-return]

    def check(self, config: C, phase: Phase) -> None:
        """Raises ConfigError for a config that makes no sense in this phase."""

    def init_state(self, config: C) -> Any:
        """What `apply` may keep between two events of one response (STR-4); fresh for every attempt (T17)."""
        del config

    @abstractmethod
    def apply(self, value: Any, state: Any, context: Context[C]) -> Any:
        """Request phase: UrpRequest -> UrpRequest. Response phase: one event -> the events that take its place.

        What is not changed is returned as the very same object, so that it keeps its source.
        """


class RequestTransform(Transform[C]):
    phases = (Phase.REQUEST,)

    @abstractmethod
    @override
    def apply(self, value: UrpRequest, state: Any, context: Context[C]) -> UrpRequest: ...


class ResponseTransform(Transform[C]):
    """Works event by event on live streams; a unary reply is the fold of its events."""

    phases = (Phase.RESPONSE,)

    @abstractmethod
    @override
    def apply(self, value: UrpStreamEvent, state: Any, context: Context[C]) -> Events: ...


class WholeResponseTransform(Transform[C]):
    """For what cannot be decided before the last word is known; streams are then synthesised (PIPE-1a)."""

    phases = (Phase.RESPONSE,)
    needs_whole_response = True

    @abstractmethod
    @override
    def apply(self, value: UrpResponse, state: Any, context: Context[C]) -> UrpResponse: ...


def _examples(config: type[Config], name: str) -> Sequence[Any]:
    hint = get_type_hints(config, include_extras=True)[name]
    for extra in getattr(hint, "__metadata__", ()):
        if isinstance(extra, msgspec.Meta) and extra.examples:
            return extra.examples
    return ()


# --- registry ------------------------------------------------------------------------------------


@cache
def transforms() -> Mapping[str, Transform[Any]]:
    """Every transform by id: the files of `transforms/` and the entry points of installed packages (TF-5)."""
    # By name: the plug-ins import this contract, never the other way round.
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and many have no rules

    folder = importlib.import_module("monoize.transforms")
    return discovered([folder], entry_points(group=ENTRY_POINTS))


def transform(id: str) -> Transform[Any]:  # noqa: A002 - `id` is the word for it everywhere
    found = transforms().get(id)
    if found is None:
        raise ConfigError(f"there is no transform {id!r}; there are {', '.join(transforms())}")
    return found


def discovered(
    packages: Iterable[ModuleType], entries: Iterable[EntryPoint] = ()
) -> Mapping[str, Transform[Any]]:
    """The transforms of every module that is not underscored, and of entry points; a bad one fails now (D2)."""
    found: dict[str, Transform[Any]] = {}
    for place, kind in (*_in_packages(packages), *_in_entries(entries)):
        _check_config(kind, place)
        if not _ID.fullmatch(kind.id):
            raise ConfigError(f"{place}: the transform id {kind.id!r} does not fit {_ID.pattern}")
        if kind.id in found:
            raise ConfigError(f"{place}: a transform {kind.id!r} is already registered")
        found[kind.id] = kind()
    return dict(sorted(found.items()))


def _in_packages(packages: Iterable[ModuleType]) -> Iterator[tuple[str, type[Transform[Any]]]]:
    for package in packages:
        for module in pkgutil.iter_modules(package.__path__):
            if module.name.startswith("_"):
                continue
            name = f"{package.__name__}.{module.name}"
            kind = _defined_in(importlib.import_module(name))
            if _id_of(kind) != module.name:
                raise ConfigError(
                    f"{name}: its transform is called {_id_of(kind)!r}, not as its file"
                )
            yield name, kind


def _in_entries(entries: Iterable[EntryPoint]) -> Iterator[tuple[str, type[Transform[Any]]]]:
    for entry in entries:
        place = f"entry point {entry.name} = {entry.value}"
        try:
            loaded = entry.load()
        except Exception as error:
            raise ConfigError(f"{place} cannot be loaded: {error}") from error
        kind = _defined_in(loaded) if isinstance(loaded, ModuleType) else loaded
        if not (isinstance(kind, type) and issubclass(kind, Transform)):
            raise ConfigError(f"{place} is no transform")
        if _id_of(kind) != entry.name:
            raise ConfigError(f"{place}: its transform is called {_id_of(kind)!r}")
        yield place, kind


def _id_of(kind: type[Transform[Any]]) -> str | None:
    return getattr(kind, "id", None)


def _check_config(kind: type[Transform[Any]], place: str) -> None:
    try:
        kind().config_schema()
    except TypeError as error:  # a field that msgspec cannot read, or a class that cannot be made
        raise ConfigError(f"{place}: {error}") from None


def _defined_in(module: ModuleType) -> type[Transform[Any]]:
    own = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, Transform)
        and kind.__module__ == module.__name__
        and not inspect.isabstract(kind)
    ]
    if len(own) != 1:
        raise ConfigError(f"{module.__name__} defines {len(own)} transforms; one is due")
    return own[0]


# --- rules ---------------------------------------------------------------------------------------


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of an ordered rule list, checked and ready to run (TF-2, TF-3)."""

    transform: Transform[Any]
    phase: Phase
    models: tuple[str, ...] | None
    config: Config
    place: str  # where the operator wrote it

    def matches(self, phase: Phase, model: str) -> bool:
        """TF-4; rules that are not enabled were left out when the list was compiled."""
        return self.phase is phase and (
            self.models is None or any(glob_matches(glob, model) for glob in self.models)
        )


def compiled(settings: Iterable[RuleSettings], place: str) -> tuple[Rule, ...]:
    """The enabled rules in order. Every rule is checked, enabled or not, and a mistake names its path (D3)."""
    rules = []
    for index, setting in enumerate(settings):
        where = f"{place}[{index}]"
        rule = _compiled(setting, where)
        if setting.enabled:
            rules.append(rule)
    return tuple(rules)


def _compiled(setting: RuleSettings, where: str) -> Rule:
    try:
        kind = transform(setting.transform)
    except ConfigError as error:
        raise ConfigError(f"{where}.transform: {error}") from None
    phase = Phase(setting.phase)
    if phase not in kind.supported_phases():
        supported = ", ".join(kind.supported_phases())
        raise ConfigError(f"{where}.phase: {kind.id} works in phase {supported}, not {phase}")
    try:
        config = kind.parse_config(setting.config)
        kind.check(config, phase)
    except ConfigError as error:
        raise ConfigError(f"{where}.{error}") from None
    return Rule(transform=kind, phase=phase, models=setting.models, config=config, place=where)


def matching(rules: Iterable[Rule], phase: Phase, model: str) -> tuple[Rule, ...]:
    return tuple(rule for rule in rules if rule.matches(phase, model))


# --- the loop ------------------------------------------------------------------------------------

Observer: TypeAlias = Callable[[Rule, UrpRequest, UrpRequest], None]


def request_applied(
    request: UrpRequest,
    rules: Iterable[Rule],
    *,
    model: str | None = None,
    provider_protocol: str | None = None,
    observe: Observer | None = None,
) -> UrpRequest:
    """The output of rule i is the input of rule i+1 (TF-3).

    Rules match `model`; without one they match the name as it stands when their turn comes (D16).
    """
    for rule in rules:
        name = request.model if model is None else model
        if not rule.matches(Phase.REQUEST, name):
            continue
        context = Context(config=rule.config, model=name, provider_protocol=provider_protocol)
        state = rule.transform.init_state(rule.config)
        after = rule.transform.apply(request, state, context)
        if observe is not None:
            observe(rule, request, after)
        request = after
    return request


class ResponseChain:
    """The matching response rules of one reply, each with its state (STR-4); made anew for every attempt."""

    def __init__(
        self, rules: Iterable[Rule], *, model: str, provider_protocol: str | None = None
    ) -> None:
        self._steps = [
            (
                rule.transform,
                rule.transform.init_state(rule.config),
                Context(config=rule.config, model=model, provider_protocol=provider_protocol),
            )
            for rule in matching(rules, Phase.RESPONSE, model)
        ]
        self.needs_whole_response = any(kind.needs_whole_response for kind, _, _ in self._steps)

    def __bool__(self) -> bool:
        return bool(self._steps)

    def frame(self, frame: Frame) -> Frame:
        """One frame of a live stream; untouched, it is the same frame."""
        events = self._events(frame.events)
        if _same(events, frame.events):
            return frame
        return Frame(events, readable=frame.readable)

    def response(self, response: UrpResponse) -> UrpResponse:
        """A unary reply: rule by rule, event-wise ones over its events."""
        for kind, state, context in self._steps:
            if kind.needs_whole_response:
                response = kind.apply(response, state, context)
            else:
                before = tuple(unfold(response))
                events = tuple(e for event in before for e in kind.apply(event, state, context))
                if not _same(events, before):
                    response = _refolded(events)
        return response

    def _events(self, events: Events) -> Events:
        for kind, state, context in self._steps:
            events = tuple(e for event in events for e in kind.apply(event, state, context))
        return events


NO_CHAIN = ResponseChain(
    (), model=""
)  # of whoever has no rules: it holds no state, so all may share it


def _same(events: Events, before: Events) -> bool:
    return len(events) == len(before) and all(
        new is old for new, old in zip(events, before, strict=True)
    )


def _refolded(events: Events) -> UrpResponse:
    try:
        return fold(events)
    except StreamFailed as failed:  # a transform that refuses a reply ends it with an Error event
        event = failed.event
        raise MonoizeError(event.message, code=event.code, http_status=event.status) from None
