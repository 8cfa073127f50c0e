"""Everything without a mouse: the palette, a way past the navigation, dialogs that give the focus back."""

from __future__ import annotations

from playwright.async_api import expect


async def test_the_palette_leads_everywhere(sight):
    await sight.open("/", "Overview")
    keys = sight.page.keyboard
    await keys.press("Control+k")
    await expect(sight.field("Go to", "combobox")).to_be_focused()
    await keys.type("costs")
    await keys.press("Enter")
    await sight.settled("Costs")
    await keys.press("Control+k")
    await keys.type("gemini.text")
    await expect(sight.page.get_by_role("option", name="gemini.text")).to_be_visible()
    await keys.press("Enter")
    await sight.settled("Chat")
    await expect(sight.field("Model", "combobox")).to_have_value("gemini.text")
    await keys.press("Control+k")
    await keys.press("ArrowDown")
    chosen = sight.page.get_by_role("dialog").get_by_role("option", selected=True)
    await expect(chosen).to_contain_text("Requests")
    await keys.press("Escape")
    await expect(sight.page.get_by_role("dialog")).to_have_count(0)


async def test_a_chat_without_a_mouse(sight):
    await sight.open("/chat?model=gemini.text")
    keys = sight.page.keyboard
    await keys.press("Tab")
    await expect(sight.page.get_by_role("link", name="Skip to the page")).to_be_focused()
    await keys.press("Enter")
    message = sight.field("Message")
    for _ in range(30):
        await keys.press("Tab")
        if await message.evaluate("area => area === document.activeElement"):
            break
    await keys.type("Hello there")
    await keys.press("Enter")
    await expect(sight.main.get_by_role("list", name="Conversation")).to_contain_text("all good.")


async def test_the_theme_stays_as_chosen(sight):
    await sight.open("/")
    await sight.choose("Theme", "dark")
    dark = "getComputedStyle(document.body).backgroundColor"
    shade = await sight.page.evaluate(dark)
    await sight.page.reload()
    await sight.settled()
    assert await sight.page.evaluate(dark) == shade
    await sight.choose("Theme", "light")
    assert await sight.page.evaluate(dark) != shade
