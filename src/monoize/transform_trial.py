"""A dry run of rules: what each of them changes in a request, a reply or a stream, and what goes out after it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import msgspec
from typing_extensions import override

from monoize import wirejson
from monoize.clock import SequentialIds
from monoize.errors import CallerError, ConfigError, InvalidRequest, MonoizeError
from monoize.protocol import Json, Protocol, Reply, protocol, protocol_ids
from monoize.settings import RuleSettings
from monoize.transform import (
    Events,
    Phase,
    ResponseChain,
    Rule,
    compiled,
    request_applied,
)
from monoize.urp import (
    USERNAME_FIELD,
    Frame,
    Losses,
    ResponseStart,
    StreamFailed,
    UrpRequest,
    UrpResponse,
    WireEvent,
    fold,
    unfold,
)
from monoize.urp.diff import Change, changes

__all__ = ["Step", "Trial", "TrialReport", "Veto", "rehearsed", "tried"]

Veto = Callable[[RuleSettings], str | None]  # why somebody may not use a rule


class Trial(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"source": "from"}
):
    """What to try: one of `request`, `response` and `stream` as `source` writes it, and the rules."""

    source: str
    rules: tuple[RuleSettings, ...]
    request: dict[str, Any] | None = None
    response: dict[str, Any] | None = None
    stream: tuple[dict[str, Any] | str, ...] | None = None
    model: str | None = None  # that rules match and that a Google URL names
    username: str | None = None  # who calls (DEF-4)
    to: str | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One rule of the list, and what it changed; None when it did not run."""

    rule: str
    transform: str
    changes: tuple[Change, ...] | None
    why_not: str | None = None  # it did not run
    path: str | None = None  # where in the rule the reason stands: `config.tag`
    body: Any = None  # what would go out were this the last rule; None: the same as before it

    def as_json(self) -> Json:
        found = None if self.changes is None else [change.as_json() for change in self.changes]
        return {"rule": self.rule, "transform": self.transform, "changes": found}


class TrialReport(msgspec.Struct, frozen=True, kw_only=True):
    steps: tuple[Step, ...]
    to: str
    before: Any = None  # what would go out without any rule
    result: Any  # the wire body, or the payloads of a stream; None: `refused` says why
    dropped: tuple[str, ...]  # what the target's protocol has no place for
    refused: str | None = None

    def as_json(self) -> Json:
        return {
            "steps": [step.as_json() for step in self.steps],
            "to": self.to,
            "result": self.result,
            "dropped": list(self.dropped),
        }


def tried(raw: Any) -> TrialReport:
    """Raises InvalidRequest or ConfigError with one sentence when the trial cannot be read."""
    try:
        trial = msgspec.convert(raw, Trial)
    except msgspec.ValidationError as error:
        raise InvalidRequest(str(error)) from None
    compiled(trial.rules, "rules")
    run = _run(trial)
    steps = tuple(run.step(index, rule) for index, rule in enumerate(trial.rules))
    losses = Losses()
    result = run.encoded(losses)
    return TrialReport(steps=steps, to=run.target.id, result=result, dropped=losses.dropped)


def rehearsed(trial: Trial, veto: Veto, is_late: Callable[[], bool] = lambda: False) -> TrialReport:
    """The same for rules that are still being written: one that is wrong says so, and the others are tried until it is late."""
    run = _run(trial)
    before = last = run.seen()
    steps = []
    for index, rule in enumerate(trial.rules):
        if is_late():
            steps.append(
                _idle(index, rule, "the rules before it took too long: try fewer, or less text")
            )
            continue
        step = _vetoed(index, rule, veto(rule)) or _attempted(run, index, rule)
        if step.changes:
            seen = run.seen()
            step = msgspec.structs.replace(step, body=None if seen == last else seen.body)
            last = seen
        steps.append(step)
    return TrialReport(
        steps=tuple(steps),
        to=run.target.id,
        before=before.body,
        result=last.body,
        dropped=last.dropped,
        refused=last.refused,
    )


class _Seen(msgspec.Struct, frozen=True):
    """A value as the target writes it, or why it cannot."""

    body: Any
    dropped: tuple[str, ...]
    refused: str | None = None


def _vetoed(index: int, setting: RuleSettings, reason: str | None) -> Step | None:
    return None if reason is None else _idle(index, setting, reason, "transform")


def _attempted(run: _Run, index: int, setting: RuleSettings) -> Step:
    try:
        return run.step(index, setting)
    except ConfigError as error:
        path, _, message = error.message.partition(": ")
        return _idle(index, setting, message, path.partition("].")[2])
    except MonoizeError as error:  # a transform that refuses what it is given
        return _idle(index, setting, error.message)


def _idle(index: int, setting: RuleSettings, why_not: str, path: str | None = None) -> Step:
    return Step(
        rule=f"rules[{index}]",
        transform=setting.transform,
        changes=None,
        why_not=why_not,
        path=path,
    )


def _run(trial: Trial) -> _Run:
    given = [name for name in ("request", "response", "stream") if getattr(trial, name) is not None]
    if len(given) != 1:
        raise InvalidRequest("give one of `request`, `response` and `stream`")
    match given[0]:
        case "request":
            return _RequestRun(trial)
        case "response":
            return _ResponseRun(trial)
        case _:
            return _StreamRun(trial)


class _Run(ABC):
    """A value that goes from rule to rule: decoded once, encoded as often as somebody looks."""

    phase = Phase.RESPONSE

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.source = _protocol(trial.source, "from")
        self.target = _protocol(trial.to or trial.source, "to")
        self.value = self.decoded()

    @property
    @abstractmethod
    def model(self) -> str:
        """As the value itself says it."""

    @abstractmethod
    def decoded(self) -> Any: ...

    @abstractmethod
    def applied(self, rule: Rule) -> Any: ...

    @abstractmethod
    def encoded(self, losses: Losses) -> Any: ...

    @property
    def name(self) -> str:
        """That rules match."""
        return self.trial.model or self.model

    def seen(self) -> _Seen:
        losses = Losses()
        try:
            body = self.encoded(losses)
        except CallerError as error:
            return _Seen(None, (), error.message)
        return _Seen(body, losses.dropped)

    def step(self, index: int, setting: RuleSettings) -> Step:
        """ConfigError: the rule is wrong."""
        found = compiled([setting], "rules")
        if not found:
            return _idle(index, setting, "it is switched off")
        (rule,) = found
        if not rule.matches(self.phase, self.name):
            return _idle(index, setting, self._objection(rule))
        before, self.value = self.value, self.applied(rule)
        made = tuple(changes(before, self.value))
        return Step(rule=f"rules[{index}]", transform=setting.transform, changes=made)

    def _objection(self, rule: Rule) -> str:
        if rule.phase is not self.phase:
            return f"it works in phase {rule.phase}, and this is a {self.phase}"
        return f"none of its models fits {self.name!r}"

    def reply(self, losses: Losses) -> Reply:
        asked = {"stream_options": {"include_usage": True}}  # so that the counts are shown
        return Reply(
            request=UrpRequest(model=self.name, extra_body=asked),
            model=self.name,
            ids=SequentialIds(),
            created=0,
            losses=losses,
        )

    def chain(self, rule: Rule) -> ResponseChain:
        return ResponseChain([rule], model=self.name, provider_protocol=self.source.id)


class _RequestRun(_Run):
    phase = Phase.REQUEST
    value: UrpRequest

    @property
    @override
    def model(self) -> str:
        return self.value.model

    @override
    def decoded(self) -> UrpRequest:
        trial = self.trial
        request = self.source.decode_request(trial.request or {}, model=trial.model)
        self._decoded, self._named = request, _named(request, trial.username)
        return self._named

    @override
    def applied(self, rule: Rule) -> UrpRequest:
        return request_applied(
            self.value, [rule], model=self.trial.model, provider_protocol=self.target.id
        )

    @override
    def encoded(self, losses: Losses) -> Json:
        # Untouched it keeps its source, and goes out as it came.
        after = self._decoded if self.value is self._named else _anonymous(self.value)
        if self.target.dialect != self.source.dialect:
            self.source.refuse_untranslatable(after)
        return self.target.encode_request(after, losses).body


class _ResponseRun(_Run):
    value: UrpResponse

    @property
    @override
    def model(self) -> str:
        return self.value.model

    @override
    def decoded(self) -> UrpResponse:
        return self.source.decode_response(self.trial.response or {}, SequentialIds())

    @override
    def applied(self, rule: Rule) -> UrpResponse:
        return self.chain(rule).response(self.value)

    @override
    def encoded(self, losses: Losses) -> Json:
        return self.target.encode_response(self.value, self.reply(losses))


class _StreamRun(_Run):
    value: Events

    @property
    @override
    def model(self) -> str:
        return next((event.model for event in self.value if isinstance(event, ResponseStart)), "")

    @override
    def decoded(self) -> Events:
        decoder = self.source.stream_decoder(SequentialIds())
        frames = [decoder.decode(_wire_event(payload)) for payload in self.trial.stream or ()]
        return tuple(event for frame in (*frames, decoder.finish()) for event in frame.events)

    @override
    def applied(self, rule: Rule) -> Events:
        return _streamed(self.chain(rule), self.value)

    @override
    def encoded(self, losses: Losses) -> list[Any]:
        encoder = self.target.stream_encoder(self.reply(losses))
        wires = [wire for event in self.value for wire in encoder.frame(Frame((event,)))]
        return [_payload(wire) for wire in (*wires, *encoder.finish())]


def _named(request: UrpRequest, username: str | None) -> UrpRequest:
    if username is None:
        return request
    extra = {**request.extra_body, USERNAME_FIELD: username}
    return msgspec.structs.replace(request, extra_body=extra)


def _streamed(chain: ResponseChain, events: Events) -> Events:
    if not chain.needs_whole_response:
        return tuple(out for event in events for out in chain.frame(Frame((event,))).events)
    try:
        return tuple(unfold(chain.response(fold(events))))
    except StreamFailed as failed:
        return (failed.event,)


def _anonymous(request: UrpRequest) -> UrpRequest:
    if USERNAME_FIELD not in request.extra_body:
        return request
    extra = {key: value for key, value in request.extra_body.items() if key != USERNAME_FIELD}
    return msgspec.structs.replace(request, extra_body=extra)


def _wire_event(payload: Json | str) -> WireEvent:
    if isinstance(payload, str):
        return WireEvent(payload)
    kind = payload.get("type")  # the vendors that name their events name them alike inside
    data = wirejson.dumps(payload).decode("utf-8", "surrogatepass")
    return WireEvent(data, kind if isinstance(kind, str) else None)


def _payload(wire: WireEvent) -> Any:
    try:
        return wirejson.loads(wire.data)
    except wirejson.JsonError:
        return wire.data  # `[DONE]`


def _protocol(name: str, field: str) -> Protocol:
    if name not in protocol_ids():
        raise InvalidRequest(f"{field}: must be one of {', '.join(protocol_ids())}", param=field)
    return protocol(name)
