"""`monoize transforms`: which there are, what they want, and what rules would do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import orjson
import yaml
from cyclopts import App, Parameter
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from monoize import wirejson
from monoize.errors import InvalidRequest, MonoizeError
from monoize.transform import transform, transforms
from monoize.transform_docs import description, example_rule, options, page, summary
from monoize.transform_trial import Step, TrialReport, tried

__all__ = ["app"]

app = App(name="transforms", help="The transforms that rules may use, and a dry run of rules.")

AsJson = Annotated[bool, Parameter(name="--json", help="one JSON object instead of a page")]
_PLAIN: dict[str, Any] = {"box": None, "pad_edge": False}
_LONG = 160  # letters of a value that fit beside its path


@app.command(name="list")
def show_all(*, as_json: AsJson = False) -> int:
    """List every transform, the built-in ones and those of installed packages."""
    try:
        found = transforms()
    except MonoizeError as error:
        return _failed(error.message)
    if as_json:
        return _json([_entry(name) for name in found])
    table = Table(Column("transform", no_wrap=True), "phase", "what it does", **_PLAIN)
    for name, kind in found.items():
        table.add_row(name, ", ".join(kind.supported_phases()), escape(summary(kind)))
    Console().print(table)
    return 0


@app.command
def show(
    id: Annotated[str, Parameter(help="of the transform")],  # noqa: A002 - `id` is the word for it
    *,
    as_json: AsJson = False,
) -> int:
    """Explain one transform: what it does, its options, a rule to copy."""
    try:
        found = transform(id)
    except MonoizeError as error:
        return _failed(error.message)
    if as_json:
        return _json(_entry(id))
    console = Console(highlight=False)
    console.print(f"[bold]{found.id}[/bold]  ({', '.join(found.supported_phases())})\n")
    for paragraph in description(found).split("\n\n"):
        console.print(escape(" ".join(paragraph.split())) + "\n")
    if listed := options(found):
        table = Table("option", "type", "required or default", "", **_PLAIN)
        for option in listed:
            words = (option.name, option.type, option.presence, option.description)
            table.add_row(*(escape(word.replace("`", "")) for word in words))
        console.print(table)
        console.print()
    print(example_rule(found), end="")
    return 0


@app.command(name="try")
def dry_run(
    file: Annotated[
        Path,
        Parameter(
            help="YAML or JSON: from, one of request, response and stream, rules; also to, model and username. "
            "- reads standard input",
            allow_leading_hyphen=True,
        ),
    ],
    *,
    as_json: AsJson = False,
) -> int:
    """Apply rules to a request, a reply or a stream; show what each changes and the result. Nothing is sent."""
    try:
        report = tried(_read(file))
    except OSError as error:
        return _failed(f"{file}: {error.strerror or error}")
    except MonoizeError as error:
        return _failed(f"{file}: {error.message}")
    if as_json:
        return _json(report.as_json())
    _print_report(report)
    return 0


@app.command(show=False)
def docs() -> None:
    """Print docs/reference/transforms.md."""
    sys.stdout.buffer.write(page(transforms()).encode())


def _entry(name: str) -> dict[str, Any]:
    found = transform(name)
    return {
        "id": name,
        "phases": list(found.supported_phases()),
        "description": description(found),
        "needs_whole_response": found.needs_whole_response,
        "config_schema": found.config_schema(),
        "example_config": found.example_config(),
    }


def _read(file: Path) -> Any:
    raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    try:
        # To JSON and back: YAML knows dates and numbers as keys, the wire does not.
        read = yaml.safe_load(raw.decode("utf-8"))
        return wirejson.loads(orjson.dumps(read, option=orjson.OPT_NON_STR_KEYS))
    except TypeError as error:
        raise InvalidRequest(f"holds what JSON cannot: {error}") from None
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"not UTF-8 text ({error.reason})") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}: " if mark is not None else ""
        raise InvalidRequest(f"{place}{getattr(error, 'problem', None) or error}") from None


def _print_report(report: TrialReport) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for step in report.steps:
        console.print(
            f"[bold]{escape(step.rule)} {escape(step.transform)}[/bold]: {_verdict(step)}"
        )
        for change in step.changes or ():
            sides = change.as_json()
            console.print(f"  {escape(sides['path'])}")
            for sign, side, colour in (("-", "before", "red"), ("+", "after", "green")):
                if side in sides:
                    console.print(f"    [{colour}]{sign} {escape(_short(sides[side]))}[/{colour}]")
    console.print(f"\n[bold]{report.to}[/bold]")
    sys.stdout.flush()
    sys.stdout.buffer.write(orjson.dumps(report.result, option=orjson.OPT_INDENT_2) + b"\n")
    sys.stdout.flush()
    if report.dropped:
        print(f"lost: {', '.join(report.dropped)}", file=sys.stderr)


def _verdict(step: Step) -> str:
    if step.changes is None:
        return "did not run (switched off, another phase or another model)"
    return "no change" if not step.changes else f"{len(step.changes)} changed"


def _short(value: Any) -> str:
    text = wirejson.dumps(value).decode()
    return text if len(text) <= _LONG else f"{text[:_LONG]}… ({len(text)} letters)"


def _json(value: Any) -> int:
    sys.stdout.buffer.write(wirejson.dumps(value) + b"\n")
    return 0


def _failed(sentence: str) -> int:
    print(f"monoize: {' '.join(sentence.split())}", file=sys.stderr)
    return 1
