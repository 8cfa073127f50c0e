"""The page of rules lists what the specifications say, and the table of rules and tests tells the truth."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from rule_table import cited, folded, main, problems, read_page, table

ROOT = Path(__file__).parents[2]
SPECIFICATIONS = ROOT.parent / "shared" / "spec"
ON_THE_PAGE = ("1-urp-transform-system.md", "2-auto-cache-transforms.md")
PAGE = """\
# Rules

| rule | what the program does |
|---|---|
| AB-1 | Opens the door. |
| AB-1a | Closes it again. |
| CDE-12 | Rings | once. |
"""


def of_page(*ids):
    return "".join(f"| {rule} | Does something. |\n" for rule in ids)


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """The script on an invented page and invented tests: its exit code and what it printed."""
    monkeypatch.setenv("COLUMNS", "90")

    def check(page, **sources):
        (tmp_path / "rules.md").write_text(page, "utf-8")
        for name, source in sources.items():
            file = tmp_path / "tests" / "unit" / f"{name}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(textwrap.dedent(source), "utf-8")
        where = ["--page", str(tmp_path / "rules.md"), "--tests", str(tmp_path / "tests")]
        return main(where), capsys.readouterr().out

    return check


# --- the page of this project ----------------------------------------------------------------------


def sections(name: str, prefix: str) -> list[str]:
    """The sections of a specification without rules of its own; one that has parts says nothing itself."""
    text = (SPECIFICATIONS / name).read_text("utf-8")
    found = re.findall(r"^#{2,3} (\d(?:\.\d)?)\.? ", text, re.MULTILINE)
    parts = {section[0] for section in found if "." in section}
    return [f"{prefix}-{section}" for section in found if section not in parts]


def agent_contract() -> list[str]:
    """Its invariants, objects, states with COMMIT's groups of predicates, phases (S5-1 to S5-4), overlays, corpus and last word.

    Purpose, goals, what to keep or remove and what is no goal ask for nothing that these do not.
    """
    text = (SPECIFICATIONS / "5-agent-contract.md").read_text("utf-8")
    predicates = text.partition("## COMMIT transition predicates")[2].partition("\n---")[0]
    found = [
        *re.findall(r"^### Invariant ([A-Z])\b", text, re.MULTILINE),
        *re.findall(r"^## (4\.\d) ", text, re.MULTILINE),
        "5",
        *(f"5.{n}" for n in re.findall(r"^(\d)\. \*\*", predicates, re.MULTILINE)),
        *re.findall(r"^## Phase (\d[ab]?) ", text, re.MULTILINE),
        *("7", "9", "11"),
    ]
    return [f"S5-{section}" for section in found]


DECIDED = [f"D{number}" for number in (*range(31, 47), 51)]  # about the agent contract


@pytest.mark.skipif(not SPECIFICATIONS.is_dir(), reason="the specifications are not at hand")
def test_the_page_lists_every_rule_of_the_specifications_and_no_other():
    page, unread = read_page((ROOT / "docs" / "rules.md").read_text("utf-8"))
    specified = [
        rule
        for name in ON_THE_PAGE
        for rule in re.findall(
            r"^([A-Z]+-\d+[a-z]?)\.", (SPECIFICATIONS / name).read_text("utf-8"), re.MULTILINE
        )
    ]
    assert {"URP-1", "HEALTH-1c", "PIPE-1a", "ACTU-11", "INV-3"} < set(specified)
    assert sorted(rule.id for rule in page) == sorted(
        [
            *specified,
            *sections("3-reframer-service.md", "S3"),
            *sections("4-canonical-ir.md", "S4"),
            *agent_contract(),
            *DECIDED,
        ]
    )
    assert unread == []


# --- reading the page --------------------------------------------------------------------------------


def test_reads_every_row_and_passes_over_headings():
    rules, unread = read_page(PAGE)
    assert rules == [
        ("AB-1", "Opens the door."),
        ("AB-1a", "Closes it again."),
        ("CDE-12", "Rings | once."),
    ]
    assert unread == []


@pytest.mark.parametrize(
    "row", ["| AB-1 | No end.", "| AB-1 |  |", "| ab-1 | Small. |", "| AB-1 |"]
)
def test_a_row_that_cannot_be_read_is_not_passed_over(row):
    assert read_page(row) == ([], [row])


# --- reading the tests -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "pairs"),
    [
        pytest.param(
            """
            @pytest.mark.spec("AB-1", "T3")
            def test_one(): ...
            """,
            [("AB-1", "test_one"), ("T3", "test_one")],
            id="a decorator with several ids",
        ),
        pytest.param(
            """
            @mark.spec("AB-1")
            @mark.spec("AB-1", "AB-2")
            async def test_one(): ...
            """,
            [("AB-1", "test_one"), ("AB-2", "test_one")],
            id="an id named twice counts once",
        ),
        pytest.param(
            """
            pytestmark = pytest.mark.spec("AB-1")
            def test_one(): ...
            @pytest.mark.spec("AB-2")
            def test_two(): ...
            """,
            [("AB-1", "test_one"), ("AB-1", "test_two"), ("AB-2", "test_two")],
            id="a mark of the whole module",
        ),
        pytest.param(
            """
            pytestmark = [pytest.mark.slow, pytest.mark.spec("AB-1")]
            def test_one(): ...
            """,
            [("AB-1", "test_one")],
            id="a list of marks of the module",
        ),
        pytest.param(
            """
            @pytest.mark.parametrize("x", [1, pytest.param(2, marks=pytest.mark.spec("AB-1"))])
            def test_one(x): ...
            """,
            [("AB-1", "test_one")],
            id="a mark of one case",
        ),
        pytest.param(
            """
            CASES: list = [pytest.param(2, marks=[pytest.mark.spec("AB-1")])]
            def more():
                return [*CASES, pytest.param(3, marks=pytest.mark.spec("AB-2"))]
            @pytest.mark.parametrize("x", more())
            def test_one(x): ...
            def test_two(): ...
            """,
            [("AB-1", "test_one"), ("AB-2", "test_one")],
            id="cases that stand elsewhere in the module",
        ),
        pytest.param(
            """
            @pytest.mark.spec("AB-1")
            class TestDoor:
                pytestmark = pytest.mark.spec("AB-2")
                @pytest.mark.spec("AB-3")
                def test_one(self): ...
            def test_two(): ...
            """,
            [(rule, "TestDoor::test_one") for rule in ("AB-1", "AB-2", "AB-3")],
            id="marks of a class",
        ),
        pytest.param(
            """
            UNUSED = [pytest.param(2, marks=pytest.mark.spec("AB-1"))]
            @pytest.mark.spec("AB-2")
            def no_test(): ...
            @other.spec("AB-3")
            @pytest.mark.spec(*row.rules)
            def test_one():
                '''@pytest.mark.spec("AB-4")'''
            """,
            [],
            id="what no test shows does not count",
        ),
    ],
)
def test_finds_the_rules_that_tests_cite(source, pairs):
    assert sorted(cited(textwrap.dedent(source))) == pairs


# --- what is wrong -----------------------------------------------------------------------------------


def test_is_content_when_every_rule_has_a_test(run):
    code, out = run(
        of_page("AB-1", "AB-2"),
        test_door="""
        @pytest.mark.spec("AB-1", "AB-2", "T7")
        def test_opens(): ...
        """,
    )
    assert code == 0
    assert out.endswith("\n2 of 2 rules are cited by a test\n")
    assert "AB-1 | Does something." in out
    assert "tests/unit/test_door.py::test_opens" in out


def test_names_each_rule_without_a_test(run):
    code, out = run(
        of_page("AB-1", "AB-2", "AB-3"),
        test_door="""
        @pytest.mark.spec("AB-2")
        def test_opens(): ...
        """,
    )
    assert code == 1
    assert out.endswith(
        "\n1 of 3 rules are cited by a test\nAB-1: no test cites it\nAB-3: no test cites it\n"
    )


def test_a_citation_in_a_file_that_pytest_does_not_collect_does_not_count(run):
    source = '@pytest.mark.spec("AB-1")\ndef test_opens(): ...\n'
    assert run(of_page("AB-1"), rows=source)[0] == 1
    assert run(of_page("AB-1"), test_rows=source)[0] == 0


@pytest.mark.parametrize(
    ("page", "shown_by", "wrong"),
    [
        (of_page("AB-1"), {"AB-1": ["t"]}, []),
        (of_page("AB-1", "AB-1"), {"AB-1": ["t"]}, ["AB-1: 2 times on the page"]),
        (
            of_page("AB-1"),
            {"AB-1": ["t"], "AB-9": ["x", "y"], "T9": ["x"], "ZZ-1": ["x"]},
            ["AB-9: not on the page, but cited by x, y"],
        ),
        (of_page("D31", "S5-A"), {"D31": ["t"], "S5-A": ["t"], "D7": ["t"]}, []),
        (
            of_page("S5-A"),
            {"S5-A": ["t"], "S5-B": ["t"]},
            ["S5-B: not on the page, but cited by t"],
        ),
        (
            of_page("AB-1"),
            {"AB-1a": ["t"]},
            ["AB-1: no test cites it", "AB-1a: not on the page, but cited by t"],
        ),
        (
            "| AB-1 | Half",
            {},
            ["the page has no rules", "no row of the form | ID | sentence |: | AB-1 | Half"],
        ),
    ],
)
def test_says_what_is_wrong(page, shown_by, wrong):
    assert problems(*read_page(page), shown_by) == wrong


# --- how it is shown ---------------------------------------------------------------------------------

LONG = (
    "tests/unit/protocols/some_protocol/test_some_protocol.py::test_a_long_story_told_in_one_name"
)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_table_fits_its_width_and_its_columns_stand_below_one_another(width):
    rules, _ = read_page(PAGE.replace("Opens the door.", "Opens the door wide. " * 8))
    lines = table(rules, {"AB-1": [LONG, LONG], "CDE-12": ["t"]}, width)
    assert max(map(len, lines)) <= width
    bar = lines[0].index(" | ")
    assert all(line[bar:].startswith((" | ", "-+-")) for line in lines)
    joined = re.sub(r"\s+", "", "".join(line.rpartition(" | ")[2] for line in lines))
    assert joined.count(LONG) == 2
    assert joined.endswith("(none)t")


def test_a_long_name_is_cut_between_its_words():
    assert folded(LONG, 45) == [
        "tests/unit/protocols/some_protocol/",
        "  test_some_protocol.py",
        "  ::test_a_long_story_told_in_one_name",
    ]
    assert folded(LONG, 30)[-2:] == ["  ::test_a_long_story_", "  told_in_one_name"]
    assert folded(LONG, 100) == [LONG]


def test_every_rule_is_cited_by_a_test():
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "rule_table.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-600:] + done.stderr
