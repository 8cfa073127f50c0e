"""Tool calls that a model writes into its text: three ways to write them, read in one way (S5-2a).

`<tool_call>{"name": …, "arguments": …}</tool_call>`, a fenced `json` block, or a text that is nothing but the call. What a prompt
shows, what a grammar allows and what is read here come from the one table below.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from monoize.agent.boundary.strict_json import NotStrict, members

__all__ = ["SYNTAXES", "LocalCall", "Reading", "Syntax", "TextSyntax", "call_at", "read", "written"]

TextSyntax: TypeAlias = Literal["xml", "json_block", "grammar"]

_CODES = {"not_json": "malformed_call", "malformed_call": "malformed_call"}
_BLANK = re.compile(r"[ \t\r\n]*")


class Syntax(msgspec.Struct, frozen=True, kw_only=True):
    """`opens` and `closes` stand around a call; without them the call is the whole text."""

    opens: str
    closes: str


SYNTAXES: Mapping[TextSyntax, Syntax] = {
    "xml": Syntax(opens="<tool_call>", closes="</tool_call>"),
    "json_block": Syntax(opens="```json", closes="```"),
    "grammar": Syntax(opens="", closes=""),
}


class LocalCall(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    arguments: Mapping[str, Any]
    raw_arguments: str


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What a text says. With a `problem`, `calls` are those that could be read all the same; `text` is the prose around."""

    text: str
    calls: tuple[LocalCall, ...] = ()
    problem: str | None = None
    detail: str = ""
    mendable: bool = False  # every call was whole: only what stands around them is wrong


def written(name: str, raw_arguments: str, syntax: TextSyntax) -> str:
    """A call as the model is asked to write it."""
    form = SYNTAXES[syntax]
    body = f'{{"name": {msgspec.json.encode(name).decode()}, "arguments": {raw_arguments or "{}"}}}'
    gap = "\n" if syntax == "json_block" else ""
    return f"{form.opens}{gap}{body}{gap}{form.closes}"


def read(text: str, syntax: TextSyntax) -> Reading:
    """The calls of a text. A text that never begins a call is prose, whatever else it looks like."""
    form = SYNTAXES[syntax]
    start = _opening(text, form, 0)
    if start < 0:
        return Reading(text=text)
    calls: list[LocalCall] = []
    prose, at = text[:start], start
    while True:
        at += len(form.opens)
        try:
            call, at = call_at(text, at)
        except NotStrict as mistake:
            code = _CODES.get(mistake.code, f"call_{mistake.code}")
            return Reading(text=prose, calls=tuple(calls), problem=code, detail=mistake.reason)
        calls.append(call)
        at = _after_blank(text, at)
        if not text.startswith(form.closes, at):
            return _unclosed(prose, calls, text, at)
        at = _after_blank(text, at + len(form.closes))
        if at == len(text):
            return Reading(text=prose.rstrip(), calls=tuple(calls))
        if not (form.opens and text.startswith(form.opens, at)):
            return _trailing(prose, calls, text, at, form)


def _unclosed(prose: str, calls: list[LocalCall], text: str, at: int) -> Reading:
    return Reading(
        text=prose.rstrip(),
        calls=tuple(calls),
        problem="unclosed_call",
        detail="a call is not closed",
        mendable=at == len(text),
    )


def _trailing(prose: str, calls: list[LocalCall], text: str, at: int, form: Syntax) -> Reading:
    return Reading(
        text=f"{prose}{text[at:]}".strip(),
        calls=tuple(calls),
        problem="trailing_text",
        detail="text follows a call",
        # Another call in there was not read: leaving it out in silence would be no recovery.
        mendable=_opening(text, form, at) < 0 if form.opens else True,
    )


def call_at(text: str, at: int) -> tuple[LocalCall, int]:
    """The call whose object begins at `at`. Raises NotStrict."""
    fields, end = members(text, at)
    match {name: member.value for name, member in fields.items()}:
        case {"name": str(name), "arguments": dict(arguments), **more} if name and not more:
            raw = fields["arguments"].text
            return LocalCall(name=name, arguments=arguments, raw_arguments=raw), end
        case _:
            raise NotStrict(
                "malformed_call", 'a call is an object of exactly "name" and "arguments"'
            )


def _opening(text: str, form: Syntax, start: int) -> int:
    if form.opens:
        return text.find(form.opens, start)
    first = _after_blank(text, start)
    return first if text.startswith("{", first) else -1


def _after_blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return at if match is None else match.end()
