"""Signing in and out, what a member sees, and keys: made, used, revoked while they are used."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import pytest
from playwright.async_api import expect

from browser.sight import tab
from browser.world import Place, Stage, config
from fakes.gateway import GatewayProcess

ADMIN = "sk-admin-0123456789abcdef"
TITLE = "Sign in to Monoize"
PASSWORDS = {"ada": "ada's own pass phrase", "bob": "bob's own pass phrase"}


@pytest.fixture(scope="module")
def peopled(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """An admin and a member with passwords, a key of each, a call of each."""
    folder = tmp_path_factory.mktemp("peopled")
    keys = [{"name": "root", "key": ADMIN, "role": "admin", "username": "root"}]
    process = GatewayProcess(folder, config(stage, keys=keys))
    place = Place(process, stage, folder)
    for name, role in (("ada", "admin"), ("bob", "user")):
        row = {"username": name, "role": role, "password": PASSWORDS[name]}
        user = place.good("POST", "/api/users", row, ADMIN)
        made = {"user_id": user["id"], "name": f"{name}-key"}
        key = place.good("POST", "/api/keys", made, ADMIN)["key"]
        call = {"model": f"chat_completion.{'text' if name == 'ada' else 'tools'}"}
        said = {"messages": [{"role": "user", "content": "Hi"}]}
        place.good("POST", "/v1/chat/completions", call | said, key)
    yield place
    process.stop()


async def enter(sight, name: str, password: str | None = None) -> None:
    await sight.field("Username").fill(name)
    await sight.page.get_by_label("Password", exact=True).fill(password or PASSWORDS[name])
    await sight.button("Sign in").first.click()


async def test_a_page_is_there_after_signing_in_and_gone_after_signing_out(browser, peopled):
    async with tab(browser, peopled.url) as sight:
        sight.excuse("status of 401")
        await sight.open("/costs", TITLE)
        await enter(sight, "ada", "a wrong pass phrase")
        await expect(sight.main.get_by_role("alert")).to_be_visible()
        await enter(sight, "ada")
        await sight.settled("Costs")
        (cookie,) = await sight.page.context.cookies()
        assert cookie["httpOnly"]
        assert cookie["sameSite"] == "Strict"
        await sight.button("Sign out").click()
        await sight.settled(TITLE)
        await sight.open("/requests", TITLE)


async def test_a_member_sees_their_own_things_only(browser, peopled):
    async with tab(browser, peopled.url) as sight:
        await sight.sign_in(username="bob", password=PASSWORDS["bob"])
        await sight.open("/requests", "Requests")
        await sight.shows("chat_completion.tools")
        await expect(sight.main).not_to_contain_text("chat_completion.text")
        navigation = sight.page.get_by_role("navigation")
        await expect(navigation.get_by_role("link", name="Users")).to_be_hidden()
        await sight.go("Keys")
        await sight.shows("bob-key")
        await expect(sight.main).not_to_contain_text("ada-key")
        sight.excuse("status of 403")
        for path in (
            "/users",
            "/providers",
            "/settings",
            "/",
            "/costs",
            "/transforms",
            "/code",
            "/media",
        ):
            await sight.open(path)
            body = await sight.page.locator("body").inner_text()
            assert "ada" not in re.findall(r"\w+", body), path


async def test_a_key_that_is_revoked_while_it_is_used_ends_there(browser, peopled):
    """The stream under way ends, or goes on to its end; the next call is refused; the page shows both."""
    peopled.stage.forget()
    async with tab(browser, peopled.url) as sight:
        await sight.sign_in(username="ada", password=PASSWORDS["ada"])
        await sight.open("/keys", "Keys")
        key = await _made(sight, "laptop")
        call = {
            "model": "messages.gated",
            "stream": True,
            "messages": [{"role": "user", "content": "Hi"}],
        }
        answers = []
        using = threading.Thread(
            target=lambda: answers.append(peopled.call("POST", "/v1/chat/completions", call, key))
        )
        using.start()
        exchange = peopled.stage.next_exchange()
        row = sight.main.get_by_role("row").filter(has_text="laptop")
        await row.get_by_role("link", name="laptop").click()
        await sight.settled("Key")
        await sight.button("Revoke").click()
        await sight.page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        await sight.settled("Keys")
        await expect(row).to_have_count(0)
        assert peopled.call("POST", "/v1/chat/completions", call, key)[0] == 401
        exchange.allow(50)
        using.join(10)
        assert answers[0][0] == 200


async def _made(sight, name: str) -> str:
    """What the page shows of it this once."""
    await sight.button("New key").first.click()
    await sight.field("Name").fill(name)
    await sight.button("Make the key").click()
    secret = sight.page.get_by_role("dialog").get_by_text(re.compile("^sk-mz-"))
    await expect(secret).to_be_visible()
    made = await secret.inner_text()
    await sight.page.keyboard.press("Escape")
    return made
