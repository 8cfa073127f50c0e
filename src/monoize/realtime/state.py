"""The vocabulary of a session: what it knows, what may happen to it, what it asks to be done; values only."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Literal, TypeAlias

import msgspec

from monoize.realtime.config import SessionConfig, TurnDetection, Voices
from monoize.realtime.items import Item
from monoize.realtime.mistake import Trouble
from monoize.urp import Usage

__all__ = [
    "ArgumentsCame",
    "Buffer",
    "CallCame",
    "Drop",
    "Effect",
    "Event",
    "FromCaller",
    "Hear",
    "Hush",
    "ListenAnew",
    "Listened",
    "NotTranscribed",
    "Output",
    "Prompt",
    "Reply",
    "Response",
    "Send",
    "Sentence",
    "SentenceEnded",
    "SoundCame",
    "Speak",
    "SpeechStarted",
    "SpeechStopped",
    "State",
    "TextCame",
    "Think",
    "ThinkingFailed",
    "ThoughtEnded",
    "Transcribe",
    "Transcribed",
    "Turn",
    "TurnsFailed",
    "Unreadable",
    "Wish",
]

Json: TypeAlias = Mapping[str, Any]
Finish: TypeAlias = Literal["stop", "length", "content_filter"]


class Turn(Enum):
    """Whether the caller is heard speaking."""

    QUIET = "quiet"
    TALKING = "talking"


class Reply(Enum):
    """How far the answer is."""

    IDLE = "idle"
    HEARING = "hearing"  # asked for, but what it answers is still being transcribed
    THINKING = "thinking"  # the model writes; finished sentences are spoken already
    SPEAKING = "speaking"  # the model is done, its last sentences are not


class Buffer(msgspec.Struct, frozen=True, kw_only=True):
    """The caller's sound that is no item yet: places in the stream, counted in bytes of the input format."""

    start: int = 0
    end: int = 0
    origin: int = 0  # the place at which the format began, and its moment
    origin_ms: int = 0
    speech: int = 0  # where the speech that is being heard began
    item_id: str = ""  # that it will become


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """What a chat model is asked."""

    messages: tuple[Json, ...]
    tools: tuple[Json, ...] = ()
    tool_choice: str | Json = "auto"
    parallel_tool_calls: bool | None = None
    max_output_tokens: int | None = None


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """One response as it was asked for: the session's settings with its own over them."""

    config: SessionConfig
    in_conversation: bool = True
    input: tuple[Item, ...] | None = None  # instead of the conversation
    metadata: Json | None = None
    by_turn: bool = False  # nobody asked: the caller stopped speaking


class Sentence(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    ms: int = 0  # of its sound that has been sent
    rest_ms: int | None = None  # of its sound that was made and not sent; None: not known
    begun: bool = False
    ended: bool = False


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """An item that a response makes; `index` is its place there."""

    item: Item
    index: int
    call: int = -1  # of a function call: the model's number for it
    text: str = ""  # words or arguments so far


class Response(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    wish: Wish
    outputs: tuple[Output, ...] = ()
    unsaid: str = ""  # words that are no sentence yet
    sentences: tuple[Sentence, ...] = ()
    finish: Finish = "stop"
    usage: Usage | None = None


class State(msgspec.Struct, frozen=True, kw_only=True):
    session_id: str
    conversation_id: str
    seed: str  # of all ids that are made here
    count: int = 0  # of them
    expires_at: int = 0  # seconds since the epoch, for the caller to see
    buffer_ms: int  # of sound that may wait
    most_items: int
    most_bytes: int  # letters, of all items together
    lacks: Mapping[
        Literal["ears", "voice", "turns"], str
    ] = {}  # what is not to be had here, and why
    voices: Voices = Voices()
    config: SessionConfig
    items: tuple[Item, ...] = ()
    buffer: Buffer = Buffer()
    turn: Turn = Turn.QUIET
    unheard: frozenset[str] = frozenset()  # items that are being transcribed
    reply: Reply = Reply.IDLE
    response: Response | None = None


# --- what may happen --------------------------------------------------------------------------------


class FromCaller(msgspec.Struct, frozen=True):
    event: Json


class Unreadable(msgspec.Struct, frozen=True):
    """A message that is no event at all."""

    reason: str


class SpeechStarted(msgspec.Struct, frozen=True):
    ms: int  # padding included


class SpeechStopped(msgspec.Struct, frozen=True):
    ms: int  # silence included


class Listened(msgspec.Struct, frozen=True):
    """Everything before that moment has been listened to."""

    ms: int


class TurnsFailed(msgspec.Struct, frozen=True):
    """Nobody can listen for turns any more."""

    trouble: Trouble


class Transcribed(msgspec.Struct, frozen=True):
    item_id: str
    text: str
    seconds: float


class NotTranscribed(msgspec.Struct, frozen=True):
    item_id: str
    trouble: Trouble


class TextCame(msgspec.Struct, frozen=True):
    response_id: str
    text: str


class CallCame(msgspec.Struct, frozen=True):
    """The model calls a function; `index` tells its calls apart."""

    response_id: str
    index: int
    call_id: str
    name: str


class ArgumentsCame(msgspec.Struct, frozen=True):
    response_id: str
    index: int
    arguments: str


class ThoughtEnded(msgspec.Struct, frozen=True):
    response_id: str
    finish: Finish = "stop"
    usage: Usage | None = None


class ThinkingFailed(msgspec.Struct, frozen=True):
    """The model or the voice broke off."""

    response_id: str
    trouble: Trouble


class SoundCame(msgspec.Struct, frozen=True):
    """A piece of a sentence that is due to be sent, in the response's output format."""

    response_id: str
    number: int
    sound: bytes
    ms: int
    rest_ms: int | None = None


class SentenceEnded(msgspec.Struct, frozen=True):
    response_id: str
    number: int


Event: TypeAlias = (
    FromCaller
    | Unreadable
    | SpeechStarted
    | SpeechStopped
    | Listened
    | TurnsFailed
    | Transcribed
    | NotTranscribed
    | TextCame
    | CallCame
    | ArgumentsCame
    | ThoughtEnded
    | ThinkingFailed
    | SoundCame
    | SentenceEnded
)


# --- what is to be done -----------------------------------------------------------------------------


class Send(msgspec.Struct, frozen=True):
    """To the caller."""

    event: Json


class Hear(msgspec.Struct, frozen=True):
    """Sound of the caller in the input format: keep it, and listen to it where turns are detected."""

    sound: bytes


class Drop(msgspec.Struct, frozen=True):
    """Sound before this place is not needed any more."""

    before: int


class ListenAnew(msgspec.Struct, frozen=True):
    """From here on, with these settings; None: nobody listens for turns."""

    turns: TurnDetection | None
    place: int
    ms: int  # of that place


class Transcribe(msgspec.Struct, frozen=True):
    """Either a stretch of the kept sound, or `given`."""

    item_id: str
    start: int = 0
    end: int = 0
    given: bytes | None = None


class Think(msgspec.Struct, frozen=True):
    response_id: str
    prompt: Prompt


class Speak(msgspec.Struct, frozen=True):
    response_id: str
    number: int
    text: str


class Hush(msgspec.Struct, frozen=True):
    """Whatever still runs for that response is of no use any more."""

    response_id: str


Effect: TypeAlias = Send | Hear | Drop | ListenAnew | Transcribe | Think | Speak | Hush
