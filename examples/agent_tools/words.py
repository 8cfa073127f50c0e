"""A function as a tool: its type hints are its schema."""

from typing import Annotated

from msgspec import Meta

from monoize.agent.tools import tool


@tool(pure=True, scope="read")
def count_words(
    text: str, at_least: Annotated[int, Meta(ge=1, description="letters of a word")] = 1
) -> int:
    """How many words of at least so many letters a text has."""
    return sum(len(word) >= at_least for word in text.split())
