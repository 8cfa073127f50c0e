"""What the documents say is what the program does."""

import importlib
import json
import re
from pathlib import Path

import pytest

from monoize.pipeline.rulebook import check_rules, rulebook
from monoize.settings import LimitSettings, TimeoutSettings, load, parse, schema
from monoize.transform import Context, discovered
from monoize.urp import Message, Role, Text, UrpRequest

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


@pytest.mark.parametrize("number", range(1, 47))
def test_every_pitfall_has_a_test_that_names_it(number):
    name = re.compile(rf'["\']T{number}["\']')
    tests = (p for p in (ROOT / "tests").rglob("*.py") if p != Path(__file__))
    assert any(name.search(p.read_text("utf-8")) for p in tests)


# --- examples ---


def yaml_blocks(page):
    return re.findall(r"```yaml\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)


CONFIGS = [  # test_cli_transforms runs the trials of rules
    file
    for file in sorted((ROOT / "examples").glob("*.yaml"))
    if not file.name.startswith("transforms-")
]


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.name)
def test_every_example_config_is_good(file):
    check_rules(load(file, {}), file.name)


@pytest.mark.parametrize("block", yaml_blocks("docs/transforms.md"))
def test_the_rules_on_the_page_about_transforms_are_good(block):
    keys = {"CHAT_KEY": "sk-chat-0123456789", "ANTHROPIC_API_KEY": "sk-ant"}
    book = rulebook(parse(block, keys))
    assert [len(rules) for rules in (*book.keys.values(), *book.providers.values())] == [1, 3]


@pytest.mark.spec("ORD-1", "ORD-2")
def test_the_page_about_transforms_caches_the_system_prompt_first():
    (block,) = yaml_blocks("docs/transforms.md")
    assert block.index("auto_cache_system") < block.index("auto_cache_tool_use")


@pytest.mark.spec("TF-6", "D2")
def test_the_transform_on_the_page_works_as_it_stands(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "transforms.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "acme_transforms").mkdir()
    (tmp_path / "acme_transforms" / "__init__.py").touch()
    (tmp_path / "acme_transforms" / "shout.py").write_text(code, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    found = discovered([importlib.import_module("acme_transforms")])
    shout = found["shout"]
    assert shout.example_config() == {"mark": "!"}
    request = UrpRequest(
        model="m", messages=(Message(role=Role.USER, parts=(Text(content="hi"),)),)
    )
    context = Context(config=shout.parse_config({"mark": "!"}), model="m")
    assert shout.apply(request, None, context).messages[0].parts == (Text(content="HI!"),)
