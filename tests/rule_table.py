"""Print every rule of docs/rules.md beside the tests that cite it; `make spec` runs it.

A test cites a rule with `pytest.mark.spec("TF-3")`: as decorator of the function or its class, as `pytestmark`, or as
mark of a `pytest.param`. The marks are read from the source, nothing is imported, so only ids written as plain
strings count. Exit 1: a rule has no test, stands twice on the page, or is cited without standing there.
"""

from __future__ import annotations

import argparse
import ast
import re
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple, TypeAlias

ROOT = Path(__file__).resolve().parent.parent
NARROWEST, WIDEST = 60, 160

# URP-7, HEALTH-1c, S3-6.1; S5-A is an invariant, D31 a decision
_ID = r"[A-Z]+\d?(?:-[A-Z]+)*-\d+(?:\.\d+)?[a-z]?|S\d-[A-Z]|D\d+"
_ROW = re.compile(rf"\| *({_ID}) *\| *(\S.*?) *\|")
_HEADING = re.compile(r"\| *rule *\|.*|\|[-:| ]+\|")

Definitions: TypeAlias = Mapping[str, Sequence[ast.AST]]
Citations: TypeAlias = Mapping[str, Sequence[str]]  # rule -> tests


class Rule(NamedTuple):
    id: str
    sentence: str


# --- the page ------------------------------------------------------------------------------------


def read_page(text: str) -> tuple[list[Rule], list[str]]:
    """The rows of all tables, and the lines of tables that are no row."""
    rules, unread = [], []
    for line in text.splitlines():
        row = line.strip()
        if not row.startswith("|") or _HEADING.fullmatch(row):
            continue
        if found := _ROW.fullmatch(row):
            rules.append(Rule(found[1], found[2]))
        else:
            unread.append(row)
    return rules, unread


def family(rule: str) -> str:
    """Rules of one family stand on the page together; decisions stand there one by one."""
    return rule.rpartition("-")[0] or rule


# --- the tests -----------------------------------------------------------------------------------


def citations(folder: Path) -> dict[str, list[str]]:
    """Which tests cite a rule, as `tests/unit/test_x.py::test_y`; pytest collects test_*.py and nothing else."""
    found: dict[str, list[str]] = {}
    for file in sorted(folder.rglob("test_*.py")):
        path = file.relative_to(folder.parent).as_posix()
        for rule, test in cited(file.read_text("utf-8")):
            found.setdefault(rule, []).append(f"{path}::{test}")
    return found


def cited(source: str) -> Iterator[tuple[str, str]]:
    """Pairs of rule and test of one module, in its order."""
    module = ast.parse(source)
    defined = definitions(module.body)
    everywhere = defined.get("pytestmark", ())
    for test, marks in marked_tests(module.body):
        rules = (rule for mark in (*everywhere, *marks) for rule in named_by(mark, defined))
        yield from ((rule, test) for rule in dict.fromkeys(rules))


def definitions(body: Iterable[ast.stmt]) -> dict[str, list[ast.AST]]:
    """What stands behind a name that a decorator may mention: lists of cases, and functions that make them."""
    found: dict[str, list[ast.AST]] = {}
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.setdefault(name, []).append(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found.setdefault(name, []).append(value)
            case ast.FunctionDef(name=name) if not name.startswith("test"):
                found.setdefault(name, []).append(statement)
            case _:
                pass
    return found


def marked_tests(body: Iterable[ast.stmt]) -> Iterator[tuple[str, Sequence[ast.AST]]]:
    """Every test with the expressions in which its marks stand."""
    for statement in body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if statement.name.startswith("test"):
                yield statement.name, statement.decorator_list
            case ast.ClassDef(name=name) if name.startswith("Test"):
                of_class = definitions(statement.body).get("pytestmark", ())
                for test, marks in marked_tests(statement.body):
                    yield f"{name}::{test}", (*statement.decorator_list, *of_class, *marks)
            case _:
                pass


def named_by(node: ast.AST, defined: Definitions, seen: frozenset[str] = frozenset()) -> list[str]:
    """The ids in `pytest.mark.spec(...)` below a node, and below the definitions that it mentions."""
    rules: list[str] = []
    for inner in ast.walk(node):
        match inner:
            case ast.Call(
                func=ast.Attribute(
                    attr="spec", value=ast.Attribute(attr="mark") | ast.Name(id="mark")
                )
            ):
                rules += [
                    argument.value
                    for argument in inner.args
                    if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
                ]
            case ast.Name(id=name) if name in defined and name not in seen:
                for definition in defined[name]:
                    rules += named_by(definition, defined, seen | {name})
            case _:
                pass
    return rules


# --- what is wrong, and how it is shown ----------------------------------------------------------


def problems(rules: Sequence[Rule], unread: Sequence[str], shown_by: Citations) -> list[str]:
    times = Counter(rule.id for rule in rules)
    families = {family(rule) for rule in times}
    found = [] if rules else ["the page has no rules"]
    found += [f"no row of the form | ID | sentence |: {line}" for line in unread]
    found += [f"{rule}: {count} times on the page" for rule, count in times.items() if count > 1]
    found += [f"{rule}: no test cites it" for rule in times if rule not in shown_by]
    found += [
        f"{rule}: not on the page, but cited by {', '.join(cited_by)}"
        for rule, cited_by in sorted(shown_by.items())
        if rule not in times and family(rule) in families
    ]
    return found


def table(rules: Sequence[Rule], shown_by: Citations, width: int) -> list[str]:
    """Rule, sentence and tests in three columns; no line is longer than the width."""
    first = max([len("rule"), *(len(rule.id) for rule in rules)])
    second = (width - first - len(" | ") * 2) * 2 // 5
    third = width - first - second - len(" | ") * 2
    lines = [_line("rule", "what the program does", "tests that cite it", first, second)]
    lines.append("-+-".join("-" * column for column in (first, second, third)))
    for rule in rules:
        sentence = textwrap.wrap(rule.sentence, second)
        shown = [line for test in shown_by.get(rule.id, ["(none)"]) for line in folded(test, third)]
        cells = zip_longest([rule.id], sentence, shown, fillvalue="")
        lines += [_line(*row, first, second) for row in cells]
    return lines


def folded(test: str, width: int) -> list[str]:
    """The name of a test, cut after folders and between words where it is too long for one line."""
    if len(test) <= width:
        return [test]
    path, _, name = test.partition("::")
    first, *more = [*_cut(path, "/", width - 2), *_cut(f"::{name}", "_", width - 2)]
    return [first, *(f"  {line}" for line in more)]


def _cut(text: str, after: str, width: int) -> list[str]:
    pieces = text.replace(after, f"{after} ")
    lines = textwrap.wrap(pieces, width, break_on_hyphens=False)
    return [line.replace(" ", "") for line in lines]


def _line(rule: str, sentence: str, shown: str, first: int, second: int) -> str:
    return f"{rule:<{first}} | {sentence:<{second}} | {shown}".rstrip()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "rules.md")
    parser.add_argument("--tests", type=Path, default=ROOT / "tests")
    options = parser.parse_args(arguments)
    rules, unread = read_page(options.page.read_text("utf-8"))
    shown_by = citations(options.tests.resolve())
    columns = shutil.get_terminal_size((120, 24)).columns
    print("\n".join(table(rules, shown_by, min(max(columns, NARROWEST), WIDEST))))
    ids = {rule.id for rule in rules}
    print(f"\n{len(ids & shown_by.keys())} of {len(ids)} rules are cited by a test")
    wrong = problems(rules, unread, shown_by)
    print("".join(f"{problem}\n" for problem in wrong), end="")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
