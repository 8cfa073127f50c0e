"""A dry run of rules: what each of them changes in a request, a reply or a stream, and what goes out in the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from monoize import wirejson
from monoize.clock import SequentialIds
from monoize.errors import InvalidRequest
from monoize.protocol import Json, Protocol, Reply, protocol, protocol_ids
from monoize.settings import RuleSettings
from monoize.transform import (
    Events,
    Phase,
    ResponseChain,
    Rule,
    compiled,
    matching,
    request_applied,
)
from monoize.urp import (
    USERNAME_FIELD,
    Frame,
    Losses,
    ResponseStart,
    StreamFailed,
    UrpRequest,
    WireEvent,
    fold,
    unfold,
)
from monoize.urp.diff import Change, changes

__all__ = ["Step", "Trial", "TrialReport", "tried"]


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

    def as_json(self) -> Json:
        found = None if self.changes is None else [change.as_json() for change in self.changes]
        return {"rule": self.rule, "transform": self.transform, "changes": found}


class TrialReport(msgspec.Struct, frozen=True, kw_only=True):
    steps: tuple[Step, ...]
    result: Any  # the wire body, or the payloads of a stream
    to: str
    dropped: tuple[str, ...]  # what the target's protocol has no place for

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
    given = [name for name in ("request", "response", "stream") if getattr(trial, name) is not None]
    if len(given) != 1:
        raise InvalidRequest("give one of `request`, `response` and `stream`")
    run = _Run(trial)
    match given[0]:
        case "request":
            result: Any = run.request(trial.request or {})
        case "response":
            result = run.response(trial.response or {})
        case _:
            result = run.stream(trial.stream or ())
    steps = tuple(
        Step(rule=place, transform=setting.transform, changes=run.changed.get(place))
        for index, setting in enumerate(trial.rules)
        for place in [f"rules[{index}]"]
    )
    return TrialReport(steps=steps, result=result, to=run.target.id, dropped=run.losses.dropped)


class _Run:
    """Decode, apply rule by rule, encode."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._rules = compiled(trial.rules, "rules")
        self.source = _protocol(trial.source, "from")
        self.target = _protocol(trial.to or trial.source, "to")
        self.losses = Losses()
        self.changed: dict[str, tuple[Change, ...]] = {}  # by the place of the rule

    def request(self, wire: Json) -> Json:
        decoded = self.source.decode_request(wire, model=self._trial.model)
        request = self._named(decoded)
        after = request_applied(
            request,
            self._rules,
            model=self._trial.model,
            provider_protocol=self.target.id,
            observe=self._note,
        )
        after = decoded if after is request else _anonymous(after)
        if self.target.dialect != self.source.dialect:
            self.source.refuse_untranslatable(after)
        return self.target.encode_request(after, self.losses).body

    def response(self, wire: Json) -> Json:
        response = self.source.decode_response(wire, SequentialIds())
        for rule in self._response_rules(response.model):
            after = self._chain(rule, response.model).response(response)
            self._note(rule, response, after)
            response = after
        return self.target.encode_response(response, self._reply(response.model))

    def stream(self, payloads: Sequence[Json | str]) -> list[Any]:
        events = self._decoded(payloads)
        model = next((e.model for e in events if isinstance(e, ResponseStart)), "")
        for rule in self._response_rules(model):
            after = _streamed(self._chain(rule, model), events)
            self._note(rule, events, after)
            events = after
        encoder = self.target.stream_encoder(self._reply(model))
        wires = [wire for event in events for wire in encoder.frame(Frame((event,)))]
        return [_payload(wire) for wire in (*wires, *encoder.finish())]

    def _note(self, rule: Rule, before: Any, after: Any) -> None:
        self.changed[rule.place] = tuple(changes(before, after))

    def _named(self, request: UrpRequest) -> UrpRequest:
        if self._trial.username is None:
            return request
        extra = {**request.extra_body, USERNAME_FIELD: self._trial.username}
        return msgspec.structs.replace(request, extra_body=extra)

    def _response_rules(self, model: str) -> tuple[Rule, ...]:
        return matching(self._rules, Phase.RESPONSE, self._trial.model or model)

    def _chain(self, rule: Rule, model: str) -> ResponseChain:
        name = self._trial.model or model
        return ResponseChain([rule], model=name, provider_protocol=self.source.id)

    def _decoded(self, payloads: Sequence[Json | str]) -> Events:
        decoder = self.source.stream_decoder(SequentialIds())
        frames = [decoder.decode(_wire_event(payload)) for payload in payloads]
        return tuple(event for frame in (*frames, decoder.finish()) for event in frame.events)

    def _reply(self, model: str) -> Reply:
        asked = {"stream_options": {"include_usage": True}}  # so that the counts are shown
        name = self._trial.model or model
        return Reply(
            request=UrpRequest(model=name, extra_body=asked),
            model=name,
            ids=SequentialIds(),
            created=0,
            losses=self.losses,
        )


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
