"""`monoize reframe`: every mistake of a request where it stands, or what the request becomes."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from json import dumps
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml
from cyclopts import Parameter

from monoize import wirejson
from monoize.cli._findings import Origin, Page, Piece, counted, safe
from monoize.errors import MonoizeError
from monoize.reframer import (
    Finding,
    Mode,
    Reframed,
    Refused,
    TagTable,
    reframe,
    reframe_batch,
    tag_table,
)
from monoize.reframer.constraints import Constraints
from monoize.reframer.into import Converted, converted
from monoize.reframer.reader import read
from monoize.reframer.source import array_items

__all__ = ["reframe_file"]

Target = Literal["chat_completion", "responses", "messages", "gemini"]
_SPACE = " \t\r\n"
_REFUSED, _UNUSABLE = 1, 2  # exit codes


class _UsageError(Exception):
    """The command cannot be done as it was given, whatever the requests are."""


def reframe_file(
    file: Annotated[
        Path,
        Parameter(help="the request as JSON; - reads standard input", allow_leading_hyphen=True),
    ],
    *,
    lenient: Annotated[
        bool, Parameter(help="repair what can be repaired", negative="", show_default=False)
    ] = False,
    into: Annotated[
        Target | None, Parameter(help="print the call of a model, in this protocol")
    ] = None,
    model: Annotated[str | None, Parameter(help="the model of --into")] = None,
    batch: Annotated[
        bool,
        Parameter(
            help="many requests: a JSON array, or one of them a line",
            negative="",
            show_default=False,
        ),
    ] = False,
    flags: Annotated[Path | None, Parameter(help="tag flags, as a YAML or JSON mapping")] = None,
    json: Annotated[
        bool,
        Parameter(
            help="what the API answers, and nothing else; of a batch the results, one a line",
            negative="",
            show_default=False,
        ),
    ] = False,
) -> int:
    """Show every mistake of a request where it stands, or what the request becomes."""
    mode: Mode = "lenient" if lenient else "strict"
    try:
        call, table, raw = _call(into, model), _table(flags), _bytes(file)
        origin = Origin("<stdin>" if str(file) == "-" else str(file), raw)
        writer = _Writer(origin, call, as_json=json)
        if not batch:
            return writer.one(Piece(raw), reframe(raw, mode=mode, flags=table))
        pieces = list(_pieces(raw))
        if not pieces and isinstance(refusal := reframe_batch(raw), Refused):
            return writer.one(Piece(raw), refusal)
        results = (reframe(piece.raw, mode=mode, flags=table) for piece in pieces)
        return writer.many(zip(pieces, results, strict=True))
    except (_UsageError, MonoizeError) as error:  # MonoizeError: no protocol takes such a model
        print(f"monoize: {safe(str(error))}", file=sys.stderr)
        return _UNUSABLE


# --- what is given -------------------------------------------------------------------------------


def _call(into: Target | None, model: str | None) -> tuple[Target, str] | None:
    if into is None and model is not None:
        raise _UsageError("--model says for which model --into is; there is no --into")
    if into is not None and not model:
        raise _UsageError(f"--into {into} needs the name of a model: --model NAME")
    return (into, model) if into and model else None


def _table(flags: Path | None) -> TagTable:
    if flags is None:
        return tag_table()
    try:
        given = yaml.safe_load(_bytes(flags).decode("utf-8"))
        if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
            raise _UsageError(f"{flags}: must be a mapping of tags to flags")
        return tag_table(given)
    except MonoizeError as error:
        raise _UsageError(f"{flags}: {error.message}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise _UsageError(f"{flags}: {' '.join(str(error).split())}") from None


def _bytes(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise _UsageError(f"{file}: {getattr(error, 'strerror', None) or error}") from None


def _pieces(raw: bytes) -> Iterator[Piece]:
    """The requests of a file; none if it looks like an array and is none."""
    text = raw.decode("utf-8", "surrogateescape")
    if text.lstrip("\ufeff" + _SPACE).startswith("["):
        return _array(text)
    if isinstance(read(raw).document, dict):  # a single one, on as many lines as it likes
        return iter([Piece(raw)])
    return (
        Piece(line, number) for number, line in enumerate(raw.split(b"\n"), start=1) if line.strip()
    )


def _array(text: str) -> Iterator[Piece]:
    line, column = 1, 1
    begun = text[: len(text) - len(text.lstrip(_SPACE))] + "["
    for item in array_items(text) or ():
        # The comma of the item before goes with it; letters count as they are shown.
        shown = begun.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        breaks = shown.count("\n")
        line += breaks
        column = len(shown) - shown.rfind("\n") if breaks else column + len(shown)
        yield Piece(item.encode("utf-8", "surrogateescape"), line, column)
        begun = item + ","


# --- what is printed -----------------------------------------------------------------------------


class _Writer:
    """Tells people about results, or with `as_json` programs."""

    def __init__(self, origin: Origin, call: tuple[Target, str] | None, *, as_json: bool) -> None:
        self._origin = origin
        self._call = call
        self._as_json = as_json
        # Where the call itself goes to standard output, what is said about it goes elsewhere.
        self._page = Page(sys.stdout if call is None else sys.stderr)

    def one(self, piece: Piece, result: Reframed | Refused) -> int:
        call = self._converted(result)
        if self._as_json:
            _print_json(_answer(result, call))
        else:
            self._show_findings(piece, result)
            self._conclude(piece, result)
            if call is not None:
                self._show_remarks(call)
                _print_json(call.body, indented=True)
        return _REFUSED if isinstance(result, Refused) else 0

    def many(self, results: Iterable[tuple[Piece, Reframed | Refused]]) -> int:
        """One line of JSON for each request, where JSON is wanted: null in place of a call that cannot be made."""
        seen: Counter[str] = Counter()
        for index, (piece, result) in enumerate(results):
            call = self._converted(result)
            if self._as_json:
                _print_json(_envelope(index, result, call))
            elif self._call is not None:
                _print_json(None if call is None else call.body)
            if not self._as_json:
                self._show_findings(piece, result)
            seen["good" if isinstance(result, Reframed) else "refused"] += 1
            seen["errors"] += len(_errors(result))
            seen["warnings"] += len(result.warnings)
        if not self._as_json:
            found = counted([(seen["errors"], "error"), (seen["warnings"], "warning")])
            verdict = f"{seen['good']:,} good, {seen['refused']:,} refused"
            self._say(not seen["refused"], verdict, f"; {found}" if found else "")
        return _REFUSED if seen["refused"] else 0

    def _converted(self, result: Reframed | Refused) -> Converted | None:
        if self._call is None or isinstance(result, Refused):
            return None
        target, model = self._call
        return converted(result.normalized, target=target, model=model)

    def _show_findings(self, piece: Piece, result: Reframed | Refused) -> None:
        self._page.show((*_errors(result), *result.warnings), piece, self._origin)

    def _conclude(self, piece: Piece, result: Reframed | Refused) -> None:
        found = counted([(len(_errors(result)), "error"), (len(result.warnings), "warning")])
        if isinstance(result, Reframed):
            more = " and more" if result.has_more_warnings else ""
            self._say(True, "good", f", with {found}{more}" if found else "")
            for name, value in _summary(result):
                self._page.write(f"  {name:<10}", safe(value))
            return
        self._say(False, "refused", f": {found}", " and more" if result.has_more else "")
        if result.findings[0].code == "NOT_AN_OBJECT" and piece.raw.lstrip().startswith(b"["):
            self._page.write("An array of requests is read with --batch.")

    def _say(self, is_good: bool, verdict: str, *more: str) -> None:
        style = "good" if is_good else "error"
        self._page.write(f"{safe(self._origin.name)}: ", self._page.styled(style, verdict), *more)

    def _show_remarks(self, call: Converted) -> None:
        for heading, remarks in (("dropped", call.dropped), ("added", call.added)):
            for remark in remarks:
                self._page.write(f"  {heading:<10}{safe(remark.field_path)}: {safe(remark.reason)}")
        self._page.write(f"POST {safe(call.path)}")


def _answer(result: Reframed | Refused, call: Converted | None) -> dict[str, Any]:
    """What POST /v1/reframe answers."""
    body = result.as_json()
    return body if call is None else {**body, "into": call.as_json()}


def _envelope(index: int, result: Reframed | Refused, call: Converted | None) -> dict[str, Any]:
    """The same as one of the results of POST /v1/reframe/batch."""
    name, status = ("response", 200) if isinstance(result, Reframed) else ("error", 400)
    answer = _answer(result, call)
    return {"index": index, "status": status, "request_id": result.request_id, name: answer}


def _errors(result: Reframed | Refused) -> tuple[Finding, ...]:
    return result.findings if isinstance(result, Refused) else ()


def _summary(result: Reframed) -> Iterator[tuple[str, str]]:
    """What somebody wants to see of a good request before it is sent on."""
    normalized, hints = result.normalized, result.mask_hints
    owner = f" of {normalized.tenant}" if normalized.tenant else ""
    parts = (
        (len(normalized.channels), "channel"),
        (len(normalized.payload.attachments), "attachment"),
    )
    yield "request", f"{result.request_id}{owner}: {counted(parts)}"
    yield "messages", f"{len(hints):,}: {_listed(hint.role for hint in hints)}"
    segments = counted([(len({hint.segment for hint in hints}), "segment")])
    yield "tokens", f"{result.counts.tokens:,} of {result.tokenizer}, in {segments}"
    if bits := _listed(bit for hint in hints for bit in hint.mask_bits if bit != "CAUSAL"):
        yield "masks", bits
    if result.counts.tools:
        yield "tools", ", ".join(f"{name} {n:,}" for name, n in result.counts.tools.items())
    limits = normalized.constraints
    yield "limits", "none" if limits is None else _limits(limits)


def _limits(constraints: Constraints) -> str:
    safety = constraints.safety
    words = [
        f"{constraints.tool_budget.total} tool calls",
        f"retrieval from {constraints.retrieval.precision_threshold:g}",
    ]
    if safety.content_filters:
        words.append(f"filters {' '.join(safety.content_filters)}")
    if safety.requires_human_review:
        words.append("review by a person")
    return ", ".join(words)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in Counter(names).items())


def _print_json(value: Any, *, indented: bool = False) -> None:
    written = wirejson.dumps(value)
    if indented:
        written = msgspec.json.format(written, indent=2)
    if sys.stdout.isatty():  # outside texts, JSON is printable
        letters = written.decode("utf-8")
        written = "".join(
            letter if letter.isprintable() or letter == "\n" else dumps(letter)[1:-1]
            for letter in letters
        ).encode()
    sys.stdout.flush()
    sys.stdout.buffer.write(written + b"\n")
    sys.stdout.flush()
