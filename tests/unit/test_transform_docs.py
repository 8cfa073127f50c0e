"""The reference page of transforms says what the transforms say."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from monoize.settings import RuleSettings
from monoize.transform import compiled, transforms
from monoize.transform_docs import example_rule, options, page

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "transforms.md"


def test_the_published_page_is_fresh() -> None:
    assert PAGE.read_text("utf-8") == page(transforms()), "run `make docs`"


def test_a_transform_of_another_package_is_not_on_the_page() -> None:
    class Foreign(type(transforms()["force_stream"])):  # type: ignore[misc]
        """Somebody else's."""

    assert page({**transforms(), "foreign": Foreign()}) == page(transforms())


@pytest.mark.spec("D3")
@pytest.mark.parametrize("name", sorted(transforms()))
def test_the_rule_that_the_page_shows_is_a_good_one(name: str) -> None:
    (shown,) = yaml.safe_load(example_rule(transforms()[name]))
    compiled([RuleSettings(**shown)], "rules")


@pytest.mark.parametrize("name", sorted(transforms()))
def test_every_option_is_listed_with_its_type(name: str) -> None:
    found = transforms()[name]
    listed = {option.name: option for option in options(found)}
    assert listed.keys() >= found.config_schema().get("properties", {}).keys()
    assert all(option.type and option.presence for option in listed.values())


def test_options_of_nested_objects_are_listed_below_their_own() -> None:
    listed = options(transforms()["reasoning_effort_to_model_suffix"])
    assert [option.name for option in listed] == ["rules", "rules[].pattern", "rules[].suffix"]
    assert listed[0].type == "list of object"
