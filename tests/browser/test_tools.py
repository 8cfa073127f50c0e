"""The Reframer, the media and the logs, as somebody uses them."""

from __future__ import annotations

import re

from playwright.async_api import expect

from browser.world import png


async def test_a_bad_reframer_document_is_shown_where_it_is_wrong(sight):
    sight.excuse("status of 400", "status of 422")
    await sight.open("/reframer", "Reframer")
    await expect(sight.main).to_contain_text("parcel-4711 is good")
    await expect(sight.main).to_contain_text("Where is parcel 4711?")
    document = sight.field("Request")
    text = await document.input_value()
    at = text.index('"role": "user",\n        "content"')
    wrong = text[:at] + text[at:].replace('"role": "user"', '"role": "reader"', 1)
    await document.fill(wrong)
    line = wrong[: wrong.index("reader")].count("\n") + 1
    finding = sight.main.get_by_role("button", name=re.compile(f"line {line}, column"))
    await expect(finding.first).to_contain_text("reader")
    await finding.first.click()
    selected = await document.evaluate(
        "area => area.value.slice(area.selectionStart, area.selectionEnd)"
    )
    assert "reader" in selected
    await document.fill("{")
    await expect(
        sight.main.get_by_role("button", name=re.compile("line 1, column"))
    ).to_be_visible()
    await document.fill(text)
    await expect(sight.main).to_contain_text("parcel-4711 is good")


async def test_a_reframed_request_goes_to_the_chat(sight):
    await sight.open("/reframer")
    await expect(sight.main).to_contain_text("parcel-4711 is good")
    await sight.choose("Into", "gemini")
    await expect(sight.page.get_by_role("tab", name="As gemini")).to_be_visible()
    await sight.field("Model", "combobox").fill("gemini.text")
    async with sight.page.expect_response(re.compile("model=gemini.text")):
        await sight.field("Model", "combobox").press("Tab")
    await sight.page.get_by_role("tab", name="As gemini").click()
    await sight.button("Send to chat").click()
    await sight.settled("Chat")
    await sight.button("Send", exact=True).click()
    await expect(sight.main).to_contain_text("It is 21 °C.")


async def test_a_file_is_stored_shown_and_deleted(sight):
    await sight.open("/media", "Media")
    data = {"name": "square.png", "mimeType": "image/png", "buffer": png(10, 120, 60)}
    await sight.page.locator("input[type=file]").set_input_files([data])
    picture = sight.main.get_by_role("img", name="square.png")
    await expect(picture).to_be_visible()
    assert await picture.evaluate("img => img.decode().then(() => img.naturalWidth)") == 24
    await sight.button("Delete").first.click()
    await sight.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(picture).to_have_count(0)


async def test_requests_come_in_live_are_filtered_and_have_a_page_each(sight, opened):
    sight.excuse("status of 404")
    await sight.open("/requests", "Requests")
    call = {"model": "gemini.text", "messages": [{"role": "user", "content": "Hi"}]}
    opened.good("POST", "/v1/chat/completions", call)
    rows = sight.main.get_by_role("region", name="Requests").get_by_role("row")
    await expect(rows.filter(has_text="gemini.text").first).to_be_visible()
    opened.call("POST", "/v1/chat/completions", {**call, "model": "nobody-has-this"})
    await expect(rows.filter(has_text="nobody-has-this").first).to_be_visible()
    await sight.choose("Status", "error")
    await expect(rows.filter(has_text="gemini.text")).to_have_count(0)
    await expect(sight.page).to_have_url(re.compile("status=error"))
    await rows.filter(has_text="nobody-has-this").first.get_by_role("link").first.click()
    await sight.settled()
    await expect(sight.main).to_contain_text("no provider has the model")
    await expect(sight.main).to_contain_text("model_not_found")
