"""What a caller may name as tools, and to whom; nothing is started to find out."""

from __future__ import annotations

import pytest

from monoize.agent.runs.configured_tools import chosen_tools, opened_tools, tools_for
from monoize.agent.runs.offered import offered_tools
from monoize.embedded import embedded_settings
from monoize.errors import InvalidRequest
from monoize.settings import AgentSettings

WORKSPACE = {"workspace": {"folder": "project", "tools": ["read_file", "run_command"]}}
MIXED = {
    "python": [{"module": "no.such.module", "functions": ["count_words"]}],
    "commands": [{"name": "sort", "argv": ["/nowhere"], "description": "Sorts.", "scope": "read"}],
    "mcp": [
        {
            "name": "tickets",
            "argv": ["/nowhere"],
            "only": ["find", "close"],
            "tools": {"find": {"rename": "search", "pure": True, "scope": "read"}},
        }
    ],
}
OPEN = {"mcp": [{"name": "wiki", "url": "https://wiki.example.org/mcp"}]}


def test_tools_are_told_as_far_as_the_configuration_says():
    (mixed,) = offered_tools({"mixed": MIXED}, folders=True)
    assert (mixed.kinds, mixed.complete, mixed.folder) == (
        ("python", "commands", "mcp"),
        True,
        None,
    )
    assert [(tool.name, tool.scope, tool.pure) for tool in mixed.tools] == [
        ("count_words", None, None),
        ("sort", "read", False),
        ("tickets__search", "read", True),
        ("tickets__close", "execute", False),
    ]


def test_a_server_that_may_have_more_is_said_to():
    (wiki,) = offered_tools({"wiki": OPEN}, folders=True)
    assert (wiki.tools, wiki.complete) == ((), False)


@pytest.mark.parametrize(("folders", "folder"), [(True, "project"), (False, None)])
def test_where_a_workspace_lies_is_told_to_those_who_may_know(folders, folder):
    (found,) = offered_tools({"w": WORKSPACE}, folders=folders)
    assert found.folder == folder
    assert [(tool.name, tool.scope) for tool in found.tools] == [
        ("read_file", "read"),
        ("run_command", "execute"),
    ]


def test_what_is_for_admins_is_not_there_for_others():
    settings = AgentSettings(tools={"mine": WORKSPACE, "all": MIXED}, admin_tools=("mine",))
    assert set(tools_for(settings, "admin")) == {"mine", "all"}
    assert set(tools_for(settings, "user")) == {"all"}
    with pytest.raises(InvalidRequest, match="'mine' is not configured here"):
        chosen_tools(("mine",), tools_for(settings, "user"))


async def test_the_embedded_default_has_a_workspace_for_admins_that_is_made_at_first_use(tmp_path):
    agent = embedded_settings("sk-0123456789", [], {}).settings.agent
    assert dict(tools_for(agent, "user")) == {}
    assert [source.name for source in offered_tools(tools_for(agent, "admin"), folders=True)] == [
        "workspace"
    ]
    assert not (tmp_path / "data").exists()
    made = tmp_path / "data/workspace"
    for text in ("", "mine"):
        box = opened_tools(("workspace",), agent.tools, tmp_path)
        try:
            assert "run_command" in (await box.manifest()).names()
        finally:
            await box.aclose()
        assert [file.name for file in made.iterdir()] == ["hello.txt"]
        assert text in (made / "hello.txt").read_text("utf-8")
        (made / "hello.txt").write_text("mine", "utf-8")  # and it stays
    assert made.stat().st_mode & 0o777 == 0o700
