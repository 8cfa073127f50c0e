"""Tools by name: what the operator has configured, and nothing else."""

from __future__ import annotations

import pytest

from monoize.agent.ports import ToolAway
from monoize.agent.runs.configured_tools import check_tools, chosen_tools, opened_tools
from monoize.errors import ConfigError, InvalidRequest

ECHO = {"commands": [{"name": "echo", "argv": ["/bin/cat"]}]}
DATE = {"commands": [{"name": "date", "argv": ["/bin/date"], "output": "text"}]}


async def names(chosen: tuple[str, ...], configured: dict, folder) -> tuple[str, ...]:
    box = opened_tools(chosen, configured, folder)
    try:
        return (await box.manifest()).names()
    finally:
        await box.aclose()


async def test_several_sources_are_one_toolbox(tmp_path):
    found = await names(("echo", "date"), {"echo": ECHO, "date": DATE}, tmp_path)
    assert found == ("echo", "date")
    assert await names((), {"echo": ECHO}, tmp_path) == ()


def test_a_name_that_nobody_has_configured_is_refused():
    assert chosen_tools(("a", "a"), {"a": ECHO}) == ("a",)
    with pytest.raises(InvalidRequest, match="'/bin/sh' is not configured"):
        chosen_tools(("/bin/sh",), {"a": ECHO})


async def test_what_is_gone_from_the_configuration_is_away_and_not_replaced(tmp_path):
    with pytest.raises(ToolAway, match="not configured any more"):
        await names(("old",), {"new": ECHO}, tmp_path)


async def test_a_run_has_one_workspace_at_most(tmp_path):
    workspace = {"workspace": {"folder": "."}}
    with pytest.raises(ToolAway, match="one workspace"):
        await names(("a", "b"), {"a": workspace, "b": workspace}, tmp_path)


@pytest.mark.parametrize(
    "wrong", [{"command": []}, {"commands": [{"name": "x"}]}, {"python": [{"functions": ["f"]}]}]
)
def test_a_mistake_in_the_config_is_named_with_its_place(wrong):
    with pytest.raises(ConfigError, match=r"settings\.agent\.tools\.mine"):
        check_tools({"fine": ECHO, "mine": wrong})
