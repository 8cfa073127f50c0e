"""What the documents say is what the program does."""

import json
import re
from pathlib import Path

import pytest

from monoize.settings import LimitSettings, TimeoutSettings, schema

ROOT = Path(__file__).parents[2]


def test_the_published_schema_is_fresh():
    published = (ROOT / "docs" / "reference" / "config.schema.json").read_text("utf-8")
    assert json.loads(published) == json.loads(json.dumps(schema())), "run `make docs`"


@pytest.mark.parametrize("section", [LimitSettings, TimeoutSettings])
def test_every_limit_is_documented_with_its_default(section):
    page = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    for name in section.__struct_fields__:
        default = getattr(section(), name)
        assert f"| `{name}` | {default} |" in page


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: p.name
)
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text("utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("number", range(1, 36))
def test_every_pitfall_has_a_test_that_names_it(number):
    name = re.compile(rf'["\']T{number}["\']')
    tests = (p for p in (ROOT / "tests").rglob("*.py") if p != Path(__file__))
    assert any(name.search(p.read_text("utf-8")) for p in tests)
