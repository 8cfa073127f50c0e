"""One module per provider protocol: a scenario's turn as that vendor would write it, and its requests read back.

Written by hand from the vendors' descriptions; nothing of the program under test is used here.
"""

from types import ModuleType

from fakes.speakers import chat_completion, gemini, messages, responses

SPEAKERS: dict[str, ModuleType] = {
    "chat_completion": chat_completion,
    "responses": responses,
    "messages": messages,
    "gemini": gemini,
    "grok": responses,
}
