"""Messages on their way between a caller and a provider: names exchanged, secrets kept, everything else untouched."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from monoize import wirejson
from monoize.account import KeyPolicy, model_refusal
from monoize.discretion import MASK, forms
from monoize.protocol import with_model
from monoize.realtime.mistake import Mistake

__all__ = ["Passing", "Seen"]

_SESSION_MODEL = (("session", "model"),)
_SESSION = '"session"'


class Seen(msgspec.Struct, frozen=True):
    """What has to be known of an event; the rest of it is never read."""

    type: str = ""
    response_id: str = ""
    response: msgspec.Raw = msgspec.Raw()
    delta: msgspec.Raw = msgspec.Raw()

    @property
    def size(self) -> int:
        """Letters of what it adds to a response; 0 where it adds nothing."""
        return len(memoryview(self.delta))

    def whole_response(self) -> dict[str, Any]:
        try:
            found = wirejson.loads(bytes(self.response) or b"{}")
        except wirejson.JsonError:
            return {}
        return found if isinstance(found, dict) else {}


_SEEN = msgspec.json.Decoder(Seen)
_NOTHING = Seen()


class Passing:
    """Of one session: what the caller calls the model, and what this provider does."""

    def __init__(
        self, requested: str, upstream: str, policy: KeyPolicy, secrets: Iterable[str] = ()
    ) -> None:
        self._requested = requested
        self._upstream = upstream
        self._policy = policy
        self._secrets = tuple(form for secret in secrets for form in forms(secret))

    @staticmethod
    def seen(text: str) -> Seen:
        try:
            return _SEEN.decode(text)
        except (msgspec.DecodeError, UnicodeError):  # the other side will judge it
            return _NOTHING

    def to_caller(self, text: str) -> str:
        """Some providers repeat the key that they were sent (D18)."""
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, MASK)
        return with_model(text, _SESSION_MODEL, self._requested)

    def to_provider(self, text: str) -> str:
        """Whatever model a session names, it is the one that was asked for. Raises Mistake."""
        if _SESSION not in text:
            return text
        self._check(text)
        return with_model(text, _SESSION_MODEL, self._upstream)

    def _check(self, text: str) -> None:
        """The model that transcribes is the caller's choice, among those that its key may use."""
        try:
            session = wirejson.loads(text).get("session")
        except (wirejson.JsonError, AttributeError):
            return
        for path in (("audio", "input", "transcription"), ("input_audio_transcription",)):
            found = session
            for step in (*path, "model"):
                found = found.get(step) if isinstance(found, dict) else None
            refused = model_refusal(self._policy, found) if isinstance(found, str) else None
            if refused is not None:
                param = ".".join(("session", *path, "model"))
                raise Mistake(refused.message, code=refused.error_code, param=param)
