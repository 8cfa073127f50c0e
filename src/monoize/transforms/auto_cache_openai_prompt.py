"""OpenAI finds a cached prompt more often when the calls of a conversation carry the same key."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Annotated, Any, Literal, assert_never

from msgspec import Meta
from typing_extensions import override

from monoize import wirejson
from monoize.transform import Config, Context, RequestTransform
from monoize.transforms._server_state import continues_on_server
from monoize.transforms._username import username_of
from monoize.urp import (
    Audio,
    Base64,
    File,
    FileId,
    Image,
    Media,
    Message,
    Role,
    Text,
    Url,
    UrpRequest,
    replace,
)

__all__ = ["AutoCacheOpenaiPrompt", "AutoCacheOpenaiPromptConfig"]

_KEY = "prompt_cache_key"
_RETENTION = "prompt_cache_retention"
_PROTOCOLS = ("chat_completion", "responses")  # the others' providers refuse these fields
_INSTRUCTING = (Role.SYSTEM, Role.DEVELOPER)
_DIGITS = 40  # with its beginning well below the 64 letters that OpenAI takes


class AutoCacheOpenaiPromptConfig(Config, frozen=True, kw_only=True):
    per: Annotated[
        Literal["conversation", "user"],
        Meta(
            description=(
                "conversation: one key for the calls that begin alike. user: one key for all calls of a user."
            ),
            examples=["conversation"],
        ),
    ] = "conversation"
    retention: Annotated[
        Literal["in_memory", "24h"] | None,
        Meta(
            description="How long OpenAI keeps the cached prompt; its default when left out.",
            examples=["24h"],
        ),
    ] = None


class AutoCacheOpenaiPrompt(RequestTransform[AutoCacheOpenaiPromptConfig]):
    """Send OpenAI providers a stable prompt_cache_key, so that the calls of a conversation meet the same cache.

    The key is a hash and never shows the user's name. What the caller set itself is kept, and providers of
    other protocols never get these fields.
    """

    id = "auto_cache_openai_prompt"
    config = AutoCacheOpenaiPromptConfig

    @override
    def apply(
        self, value: UrpRequest, state: None, context: Context[AutoCacheOpenaiPromptConfig]
    ) -> UrpRequest:
        if (context.provider_protocol or value.origin) not in _PROTOCOLS:
            return value
        wanted = {
            _KEY: _key(value, context.config.per),
            _RETENTION: context.config.retention,
        }
        added = {
            field: found
            for field, found in wanted.items()
            if found is not None and value.extra_body.get(field) is None
        }
        if not added:
            return value
        # They count as words of the caller's protocol and do not travel everywhere: OpenAI's two protocols
        # take them from any caller, the others leave them out, whichever provider is chosen later.
        inherited = value.inherited | added.keys()
        return replace(value, extra_body={**value.extra_body, **added}, inherited=inherited)


def _key(request: UrpRequest, per: Literal["conversation", "user"]) -> str | None:
    user = username_of(request) or request.user
    match per:
        case "user":
            return None if user is None else _hashed(["user", user])
        case "conversation":
            beginning = list(_beginning(request))
            # Where earlier turns lie on the server, what is here changes with every call.
            if not beginning or continues_on_server(request):
                return None
            return _hashed(["conversation", user, beginning])
        case _:
            assert_never(per)


def _hashed(material: list[Any]) -> str:
    digest = hashlib.sha256(wirejson.dumps(material)).hexdigest()
    return f"monoize-{digest[:_DIGITS]}"


def _beginning(request: UrpRequest) -> Iterator[list[str]]:
    """What every call of a conversation begins with: the leading instructions and the first question."""
    leading = True
    for message in request.messages:
        if message.role is Role.USER:
            yield [message.role, *_content(message)]
            return
        leading = leading and message.role in _INSTRUCTING
        if leading:
            yield [message.role, *_content(message)]


def _content(message: Message) -> Iterator[str]:
    for part in message.parts:
        match part:
            case Text():
                yield part.content
            case Image(media=media) | File(media=media) | Audio(media=media) if media is not None:
                yield _place(media)
            case _:
                pass


def _place(media: Media) -> str:
    match media:
        case Url():
            return media.url
        case Base64():
            return media.data
        case FileId():
            return media.id
        case _:
            assert_never(media)
