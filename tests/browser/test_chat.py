"""Chat: any model through any protocol, streamed, each part shown as what it is."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from browser.world import PROTOCOLS

# Each protocol of a caller before another protocol of a provider: nothing is passed on as it came.
CROSSED = list(zip(PROTOCOLS, (*PROTOCOLS[2:], *PROTOCOLS[:2]), strict=True))
GREETING = "Grüße aus 東京 🌏: all good."


async def say(sight, protocol: str, model: str, text: str) -> None:
    await sight.choose("Protocol", protocol)
    await sight.field("Model", "combobox").fill(model)
    await sight.field("Message").fill(text)
    await sight.button("Send").click()


def talk(sight):
    return sight.main.get_by_role("list", name="Conversation")


@pytest.mark.parametrize(("protocol", "provider"), CROSSED)
async def test_an_answer_grows_as_it_comes_and_its_parts_are_shown_as_such(
    sight, opened, protocol, provider
):
    opened.stage.forget()
    await sight.open("/chat", "Chat")
    await say(sight, protocol, f"{provider}.gated", "Where are you?")
    exchange = opened.stage.next_exchange()
    frames = exchange.frames("text")
    first = next(n for n, frame in enumerate(frames) if "Grüße".encode() in frame)
    exchange.allow(first + 1)
    await expect(talk(sight)).to_contain_text("Grüße aus")
    await expect(talk(sight)).not_to_contain_text("all good")
    await expect(sight.button("Stop")).to_be_visible()
    exchange.allow(len(frames))
    await expect(talk(sight)).to_contain_text(GREETING)
    assert exchange.heard.said[-1][1] == "Where are you?"

    await sight.button("New conversation").click()
    await say(sight, protocol, f"{provider}.reasoning", "How is the weather?")
    thought = talk(sight).get_by_role("group").filter(has_text="Reasoning").first
    await thought.get_by_text("Reasoning", exact=True).click()
    await expect(thought).to_contain_text("First the weather, 先に天気.")
    call = talk(sight).get_by_role("group").filter(has_text="Tool call")
    await expect(call).to_contain_text("get_weather")
    await expect(call).to_contain_text("Zürich")


async def test_a_picture_is_shown_as_a_picture(sight):
    """In the protocols that have a place for one."""
    await sight.open("/chat")
    for protocol in ("chat_completion", "gemini", "responses"):
        await say(sight, protocol, "gemini.picture", "Draw a square.")
        picture = talk(sight).get_by_role("img")
        await expect(picture).to_be_visible()
        assert await picture.evaluate("img => img.decode().then(() => img.naturalWidth)") == 24
        await sight.button("New conversation").click()


async def test_stops_when_told_to(sight, opened):
    opened.stage.forget()
    await sight.open("/chat")
    await say(sight, "messages", "chat_completion.gated", "Go on for ever.")
    exchange = opened.stage.next_exchange()
    exchange.allow(2)
    await sight.button("Stop").click()
    await expect(sight.button("Send")).to_be_visible()
    assert exchange.closed.wait(25), "the provider was not told"


async def test_a_refusal_says_the_servers_sentence_and_the_talk_goes_on(sight, opened):
    sight.excuse("status of 502", "status of 500", "status of 503")
    opened.stage.failing["messages"] = "the kitchen is on fire"
    await sight.open("/chat")
    await say(sight, "chat_completion", "messages.text", "Hello?")
    await expect(talk(sight).get_by_role("alert")).to_contain_text("the kitchen is on fire")
    opened.stage.failing.clear()
    await say(sight, "chat_completion", "gemini.text", "And you?")
    await expect(talk(sight)).to_contain_text(GREETING)


async def test_the_same_call_as_code_and_what_goes_upstream(sight):
    sight.excuse("/capture]")  # its bodies were not kept, and the page asks
    await sight.open("/chat")
    await say(sight, "messages", "gemini.text", "Say it in code.")
    await talk(sight).get_by_role("button", name="As code").click()
    dialog = sight.page.get_by_role("dialog")
    for way, mark in (
        ("curl", "/v1/messages"),
        ("openai", "from openai import OpenAI"),
        ("anthropic", "from anthropic import Anthropic"),
        ("google-genai", "generate_content_stream"),
    ):
        await dialog.get_by_role("tab", name=way, exact=True).click()
        panel = dialog.get_by_role("tabpanel")
        await expect(panel).to_contain_text(mark)
        await expect(panel).to_contain_text("Say it in code.")
    await sight.page.keyboard.press("Escape")
    await talk(sight).get_by_role("button", name="What went upstream").click()
    await expect(dialog).to_contain_text("gemini / gemini-main")
    await expect(dialog).to_contain_text("contents")


async def test_the_conversation_is_there_after_a_reload_and_is_sent_again(sight, opened):
    await sight.open("/chat")
    await say(sight, "responses", "messages.text", "First.")
    await expect(talk(sight)).to_contain_text(GREETING)
    await sight.page.reload()
    await expect(talk(sight)).to_contain_text(GREETING)
    opened.stage.forget()
    await sight.field("Message").fill("Second.")
    await sight.field("Message").press("Enter")
    await expect(talk(sight).get_by_text(GREETING)).to_have_count(2)
    said = [text for _, text in opened.stage.next_exchange().heard.said]
    assert said == ["First.", GREETING, "Second."]
