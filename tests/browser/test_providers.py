"""Providers and their rules: seen failing and recovering, added, reordered, edited, tried."""

from __future__ import annotations

import json
import re

import pytest
from playwright.async_api import expect

from browser.world import Place


def entry(sight, name: str):
    return sight.main.get_by_role("listitem").filter(
        has=sight.page.get_by_role("link", name=name, exact=True)
    )


@pytest.fixture
def of_database(opened: Place):
    """Two providers that may be changed here; those of the file may not."""
    channel = {
        "id": "main",
        "base_url": opened.stage.base_url("chat_completion"),
        "api_key": "sk-x",
    }
    row = {"type": "chat_completion", "channels": [channel]}
    rule = {"transform": "override_max_tokens", "phase": "request", "config": {"value": 7}}
    _clear(opened)
    for name in ("first", "second"):
        body = {"id": name, "models": {f"{name}-1": {"redirect": "text"}}, **row}
        opened.good(
            "POST", "/api/providers", body | ({"transforms": [rule]} if name == "second" else {})
        )
    yield opened
    _clear(opened)


def _clear(place: Place) -> None:
    for row in place.good("GET", "/api/providers")["data"]:
        if row["source"] == "database":
            place.good("DELETE", f"/api/providers/{row['id']}")


async def test_a_provider_is_seen_failing_and_recovering(sight, opened):
    """On the page of all providers and on its own; both look again by themselves."""
    sight.excuse("status of 500", "status of 502", "status of 503")
    call = {"model": "responses.text", "messages": [{"role": "user", "content": "Hi"}]}
    opened.good("POST", "/v1/chat/completions", call)
    await sight.open("/providers", "Providers")
    await expect(entry(sight, "responses")).to_contain_text("healthy")
    opened.stage.failing["responses"] = "the kitchen is on fire"
    assert opened.call("POST", "/v1/chat/completions", call)[0] >= 500
    await expect(entry(sight, "responses")).to_contain_text(re.compile("unhealthy|probing"))
    await sight.main.get_by_role("link", name="responses", exact=True).click()
    await sight.settled("responses")
    await expect(sight.main).to_contain_text("the kitchen is on fire")
    await sight.button("Test").click()
    await expect(sight.main.get_by_role("group", name="responses-main")).to_contain_text("500")
    opened.stage.failing.clear()
    await sight.button("Test").click()
    await expect(sight.main).to_contain_text(re.compile(r"answered in \d"))
    light = sight.main.get_by_role("group", name="responses-main")
    await expect(light).to_contain_text(re.compile("(?<!un)healthy"))


async def test_a_provider_is_added_and_answers(sight, opened):
    await sight.open("/providers")
    await sight.button("Add provider").click()
    await sight.choose("Provider", "another (chat_completion)")
    await sight.field("Id").fill("workshop")
    await (
        sight.page.get_by_role("dialog")
        .get_by_role("textbox", name="Address")
        .fill(opened.stage.base_url("chat_completion"))
    )
    await sight.page.get_by_role("dialog").get_by_role("textbox", name="Models").fill("text")
    await sight.button("Add", exact=True).click()
    await sight.settled("workshop")
    await sight.button("Test").click()
    await expect(sight.main).to_contain_text(re.compile(r"text answered in \d"))
    await sight.button("Delete").first.click()
    await sight.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await sight.settled("Providers")
    await expect(entry(sight, "workshop")).to_have_count(0)


async def test_the_order_is_changed_by_keyboard_and_by_buttons(sight, of_database):
    def order() -> list[str]:
        rows = of_database.good("GET", "/api/providers")["data"]
        return [row["id"] for row in rows if row["source"] == "database"]

    await sight.open("/providers")
    assert order() == ["first", "second"]
    await sight.main.get_by_role("link", name="second", exact=True).focus()
    await sight.page.keyboard.press("Alt+ArrowUp")
    await expect(sight.main).to_contain_text(re.compile("second is number 5 of 6"))
    await expect(sight.page.get_by_text("The order holds")).to_be_visible()
    assert order() == ["second", "first"]
    await sight.button("Move second down").click()
    await expect(sight.main).to_contain_text("second is number 6 of 6")
    await expect(sight.page.get_by_text("The order holds")).to_have_count(2)
    assert order() == ["first", "second"]


async def test_a_rule_is_edited_tried_and_saved(sight, of_database):
    await sight.open("/transforms?provider=second", "Transforms")
    rule = sight.main.get_by_role("listitem").filter(has_text="override_max_tokens")
    await rule.get_by_text("1. override_max_tokens").click()
    amount = rule.get_by_role("spinbutton")
    await expect(amount).to_have_value("7")
    await amount.fill("-3")
    await sight.button("Save rules").click()
    await expect(amount).to_have_attribute("aria-invalid", "true")
    await amount.fill("99")
    await sight.choose("Transform to add", "inject_system_prompt")
    await sight.button("Add rule").click()
    added = sight.main.get_by_role("listitem").filter(has_text="inject_system_prompt")
    await added.get_by_role("textbox").filter(visible=True).last.fill("Answer in rhymes.")
    await sight.field("Body").fill(
        json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}]})
    )
    await sight.button("Run", exact=True).click()
    await expect(sight.main.get_by_role("heading", name="2. inject_system_prompt")).to_be_visible()
    changes = sight.main.get_by_role("region", name="Changes")
    await expect(changes.first).to_contain_text("99")
    await expect(changes.last).to_contain_text("Answer in rhymes.")
    await sight.button("Save rules").click()
    await expect(sight.page.get_by_text("The rules hold")).to_be_visible()
    kept = of_database.good("GET", "/api/providers/second")["transforms"]
    assert [row["transform"] for row in kept] == ["override_max_tokens", "inject_system_prompt"]
    assert kept[0]["config"]["value"] == 99
    of_database.stage.forget()
    call = {"model": "second-1", "messages": [{"role": "user", "content": "Hi"}]}
    of_database.good("POST", "/v1/chat/completions", call)
    assert "Answer in rhymes." in of_database.stage.last.raw.decode()
