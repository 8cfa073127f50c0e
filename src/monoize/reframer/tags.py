"""Protocol tags: a table of rules, applied from left to right (spec 3, 5)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntFlag, StrEnum
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from monoize.errors import ConfigError
from monoize.reframer.codes import found
from monoize.reframer.finding import Finding, Notes, Path, Severity
from monoize.reframer.privacy import quoted, shown

__all__ = [
    "TAG_RULES",
    "MaskBit",
    "Role",
    "TagEffects",
    "TagFlag",
    "TagPlace",
    "TagRule",
    "TagTable",
    "is_tag",
    "tag_table",
]


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    CODE = "code"
    DATA = "data"

    __hash__ = (
        str.__hash__
    )  # an enum's own is written in Python, and every message is looked up by its role


class MaskBit(IntFlag):
    CAUSAL = 1
    SEGMENT = 2
    TOOL_SCOPE = 4
    SAFETY_SCOPE = 8
    RET_SCOPE = 16


BitName: TypeAlias = Literal["CAUSAL", "SEGMENT", "TOOL_SCOPE", "SAFETY_SCOPE", "RET_SCOPE"]


class TagRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a tag does to its message. Effects add up; a role is overridden by the next one."""

    role: Role | None = None  # that the message gets
    names_role: bool = False  # the message gets the role that the tag's identifier names
    keeps_role: bool = False  # a later tag must not name another role (D24)
    mask_bits: tuple[BitName, ...] = ()
    gating_feature: str | None = None  # gets the identifier as its value
    starts_segment: bool = False
    mark: str | None = None  # what downstream is to do with the message
    counter: str | None = None  # counts the messages that have the tag


# Patterns are `<category:identifier>`, with `*` for any identifier.
TAG_RULES: Mapping[str, TagRule] = MappingProxyType(
    {
        "<tool:*>": TagRule(
            role=Role.TOOL, keeps_role=True, mask_bits=("TOOL_SCOPE",), gating_feature="tool_id"
        ),
        "<safety:restricted>": TagRule(
            mask_bits=("SAFETY_SCOPE",), mark="safety_review", counter="safety_restricted_messages"
        ),
        "<retrieval:context>": TagRule(
            mask_bits=("RET_SCOPE",), mark="retrieval_context", counter="retrieval_weight"
        ),
        "<segment:*>": TagRule(mask_bits=("SEGMENT",), starts_segment=True),
        "<role:*>": TagRule(names_role=True),
    }
)
UNKNOWN_COUNTER = "unknown_protocol_tags"

# What a flag may say of a pattern: unknown tags of it are errors, or still warnings, or they have a rule now.
TagFlag: TypeAlias = Literal["error", "warning"] | TagRule
_PATTERN = re.compile(r"<(?P<category>[^:<>*\s]+):(?P<identifier>[^<>\s]+)>|<\*>")


class TagEffects(msgspec.Struct, frozen=True, gc=False):
    """All that the tags of one message do; `role` is None as long as its own is not a role."""

    role: Role | None
    bits: int = int(MaskBit.CAUSAL)
    gating_features: dict[str, tuple[str, ...]] = {}
    tools: tuple[str, ...] = ()  # registered for the tool budget
    segment: str | None = None  # the boundary that stands before this message
    marks: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()
    unknown: int = 0


def is_tag(value: Any) -> bool:
    """As the schema's pattern says it: `^<[^>]+>$`."""
    return isinstance(value, str) and value[:1] == "<" and value.find(">") == len(value) - 1 > 1


class TagPlace(NamedTuple):
    """Where a list of tags stands, and what sentences call the message that it belongs to."""

    path: Path
    owner: Callable[[], str]


_NOWHERE = TagPlace((), str)
_TOOLS = "tool_id"  # the gating feature that names tools
_USUAL_TAGS = 8
_USUAL_LETTERS = 256
_REMEMBERED = 4096


class _Bound(msgspec.Struct, frozen=True):
    """A rule with its bits as a number."""

    rule: TagRule
    bits: int


class TagTable:
    """The rules in force, and how loudly an unknown tag is reported."""

    def __init__(self, rules: Mapping[str, TagRule], flags: Mapping[str, str]) -> None:
        self._rules = {
            pattern[1:-1]: _Bound(rule, sum(MaskBit[name] for name in rule.mask_bits))
            for pattern, rule in rules.items()
        }
        self._flags = {pattern[1:-1]: flag for pattern, flag in flags.items()}
        self._usual: dict[tuple[str, ...], TagEffects] = {}
        self.counters = tuple(
            dict.fromkeys(rule.counter for rule in rules.values() if rule.counter)
        )

    def apply(
        self, tags: Sequence[str], role: Role | None, place: TagPlace, notes: Notes
    ) -> TagEffects:
        effects = _Effects(role)
        keeper = ""  # the tag whose role stays
        for number, tag in enumerate(tags):
            bound, identifier = self._rule(tag)
            if bound is None:
                effects.unknown += 1
                self._note_unknown(tag, number, place, notes)
                continue
            effects.add(bound, identifier)
            if bound.rule.role is None and not bound.rule.names_role:
                continue
            wanted = _role(bound.rule, identifier)
            if wanted is None:
                notes.add("error", lambda: _no_role(tag, number, place))  # noqa: B023
            elif keeper and wanted is not effects.role:
                notes.add("error", lambda: _forbidden(tag, keeper, number, place))  # noqa: B023
            else:
                effects.role = wanted
                keeper = tag if bound.rule.keeps_role else keeper
        return effects.together()

    def usual(self, tags: Sequence[str], role: Role) -> TagEffects | None:
        """The same for a few tags about which there is nothing to say, which is how nearly all messages are.

        They are remembered, since the same few stand on every message of a conversation. None: not such tags.
        """
        if len(tags) > _USUAL_TAGS:
            return None
        key = (role, *tags)
        effects = self._usual.get(key)
        if effects is None:
            if not all(map(is_tag, tags)):
                return None
            notes = Notes(room=0)
            effects = self.apply(tags, role, _NOWHERE, notes)
            has_findings = notes.is_cut("error") or notes.is_cut("warning")
            if has_findings or sum(map(len, tags)) > _USUAL_LETTERS:
                return None
            if len(self._usual) >= _REMEMBERED:
                self._usual.clear()
            self._usual[key] = effects
        return effects

    def _rule(self, tag: str) -> tuple[_Bound | None, str]:
        inside = tag[1:-1]
        category, _, identifier = inside.partition(":")
        bound = self._rules.get(inside) or self._rules.get(f"{category}:*")
        return (bound, identifier) if identifier else (None, "")

    def _note_unknown(self, tag: str, number: int, place: TagPlace, notes: Notes) -> None:
        inside = tag[1:-1]
        category = inside.partition(":")[0]
        flags = (self._flags.get(key) for key in (inside, f"{category}:*", "*"))
        is_error = next((flag for flag in flags if flag), "warning") == "error"
        severity: Severity = "error" if is_error else "warning"
        notes.add(severity, lambda: self._unknown(tag, category, severity, number, place))

    def _unknown(
        self, tag: str, category: str, severity: Severity, number: int, place: TagPlace
    ) -> Finding:
        known = [f"<{key}>" for key in self._rules if key.startswith(f"{category}:")]
        advice = f" (known: {', '.join(known)})" if known else ""
        return found(
            "UNKNOWN_PROTOCOL_TAG",
            f"{place.owner()} tag {quoted(tag)} is unknown{advice}",
            (*place.path, number),
            severity=severity,
            value=shown(tag),
        )


class _Effects:
    """Effects while they add up; sets and mappings, since a message may have a hundred thousand tags."""

    def __init__(self, role: Role | None) -> None:
        self.role = role
        self.unknown = 0
        self._bits = int(MaskBit.CAUSAL)
        self._features: dict[str, dict[str, None]] = {}
        self._segment: str | None = None
        self._marks: dict[str, None] = {}
        self._counters: dict[str, None] = {}

    def add(self, bound: _Bound, identifier: str) -> None:
        rule = bound.rule
        self._bits |= bound.bits
        if rule.gating_feature is not None:
            self._features.setdefault(rule.gating_feature, {})[identifier] = None
        if rule.starts_segment:
            self._segment = identifier
        if rule.mark is not None:
            self._marks[rule.mark] = None
        if rule.counter is not None:
            self._counters[rule.counter] = None

    def together(self) -> TagEffects:
        features = {name: tuple(values) for name, values in self._features.items()}
        return TagEffects(
            role=self.role,
            bits=self._bits,
            gating_features=features,
            tools=features.get(_TOOLS, ()),
            segment=self._segment,
            marks=tuple(self._marks),
            counters=tuple(self._counters),
            unknown=self.unknown,
        )


_ROLES = {role.value: role for role in Role}


def _role(rule: TagRule, identifier: str) -> Role | None:
    return _ROLES.get(identifier) if rule.names_role else rule.role


def _no_role(tag: str, number: int, place: TagPlace) -> Finding:
    return found(
        "INVALID_ROLE_TAG",
        f"{place.owner()} tag {quoted(tag)} names no role (known: {', '.join(_ROLES)})",
        (*place.path, number),
        limit=list(_ROLES),
        value=shown(tag),
    )


def _forbidden(tag: str, keeper: str, number: int, place: TagPlace) -> Finding:
    return found(
        "FORBIDDEN_ROLE_OVERRIDE",
        f"{place.owner()} tag {quoted(tag)} must not override the role that {quoted(keeper)} gave",
        (*place.path, number),
        value=shown(tag),
        kept_by=shown(keeper),
    )


# --- flags ---------------------------------------------------------------------------------------


def tag_table(flags: Mapping[str, Any] | None = None) -> TagTable:
    """The table of section 5 with what the operator's flags add to it; a ConfigError names a bad flag."""
    rules = dict(TAG_RULES)
    levels: dict[str, str] = {}
    for pattern, flag in (flags or {}).items():
        match = _PATTERN.fullmatch(pattern)
        if match is None:
            raise ConfigError(
                f"tag flag {pattern!r}: must be <category:identifier>, <category:*> or <*>"
            )
        rule = _flag(pattern, flag)
        if isinstance(rule, str):
            _check_unruled(pattern, rules)
            levels[pattern] = rule
        elif pattern == "<*>":
            raise ConfigError("tag flag '<*>': takes error or warning, not a rule")
        else:
            rules[pattern] = rule
    return TagTable(rules, levels)


def _flag(pattern: str, flag: Any) -> TagRule | str:
    if isinstance(flag, TagRule):
        return flag
    try:
        return msgspec.convert(flag, TagFlag)  # type: ignore[no-any-return]
    except msgspec.ValidationError as error:
        raise ConfigError(f"tag flag {pattern!r}: {error}") from None


def _check_unruled(pattern: str, rules: Iterable[str]) -> None:
    if pattern in rules:
        raise ConfigError(f"tag flag {pattern!r}: this tag has a rule and is never unknown")
