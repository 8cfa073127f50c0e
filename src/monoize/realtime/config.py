"""What a session is set to: OpenAI's session object in, the same object with what is really in force out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from monoize.realtime.mistake import Mistake

__all__ = [
    "PCM_RATE",
    "Common",
    "Format",
    "Modality",
    "SessionConfig",
    "Transcription",
    "TurnDetection",
    "Voices",
    "converted",
    "modern",
    "updated",
    "with_common",
]

Modality: TypeAlias = Literal["text", "audio"]
FormatType: TypeAlias = Literal["audio/pcm", "audio/pcmu", "audio/pcma"]

PCM_RATE = 24_000
_TELEPHONE_RATE = 8_000


class Format(msgspec.Struct, frozen=True):
    """Mono sound on the wire: 16 bit samples, or one of the telephone's two laws."""

    type: FormatType = "audio/pcm"

    @property
    def rate(self) -> int:
        return PCM_RATE if self.type == "audio/pcm" else _TELEPHONE_RATE

    @property
    def sample_bytes(self) -> int:
        return 2 if self.type == "audio/pcm" else 1

    @property
    def bytes_per_ms(self) -> int:
        return self.rate * self.sample_bytes // 1000

    def wire(self) -> dict[str, Any]:
        return {"type": self.type, **({"rate": PCM_RATE} if self.type == "audio/pcm" else {})}


class TurnDetection(msgspec.Struct, frozen=True, kw_only=True):
    """When the caller's turn begins and ends, by listening."""

    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_duration_ms: int = 500
    create_response: bool = True
    interrupt_response: bool = True

    def wire(self) -> dict[str, Any]:
        return {"type": "server_vad", **msgspec.to_builtins(self), "idle_timeout_ms": None}


class Transcription(msgspec.Struct, frozen=True, kw_only=True):
    model: str | None = None
    language: str | None = None
    prompt: str | None = None

    def wire(self) -> dict[str, Any]:
        return {"model": self.model, "language": self.language, "prompt": self.prompt}


class Voices(msgspec.Struct, frozen=True, kw_only=True):
    """Which voice is used for which name: callers know those of OpenAI."""

    usual: str | None = None
    known: tuple[str, ...] | None = None  # None: whoever speaks will say
    names: Mapping[str, str] = {}

    def chosen(self, name: str | None) -> str | None:
        """A name that nobody here knows is the usual voice, which the session then shows."""
        wanted = self.usual if name is None else self.names.get(name, name)
        return wanted if self.known is None or wanted in self.known else self.usual


class SessionConfig(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    instructions: str = ""
    modality: Modality = "audio"
    voice: str | None = None
    speed: float = 1.0
    input_format: Format = Format()
    output_format: Format = Format()
    transcription: Transcription | None = Transcription()  # None: it is not told to the caller
    turn_detection: TurnDetection | None = TurnDetection()
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: str | Mapping[str, Any] = "auto"
    parallel_tool_calls: bool | None = None
    max_output_tokens: int | None = None  # None: as many as the model likes

    def wire(self, session_id: str, expires_at: int) -> dict[str, Any]:
        turns, transcription = self.turn_detection, self.transcription
        return {
            "type": "realtime",
            "object": "realtime.session",
            "id": session_id,
            "model": self.model,
            "expires_at": expires_at,
            "output_modalities": [self.modality],
            "instructions": self.instructions,
            "tools": list(self.tools),
            "tool_choice": self.tool_choice,
            "max_output_tokens": self.max_output_tokens or "inf",
            "tracing": None,
            "truncation": "disabled",
            "prompt": None,
            "include": None,
            "audio": {
                "input": {
                    "format": self.input_format.wire(),
                    "transcription": None if transcription is None else transcription.wire(),
                    "noise_reduction": None,
                    "turn_detection": None if turns is None else turns.wire(),
                },
                "output": {
                    "format": self.output_format.wire(),
                    "voice": self.voice,
                    "speed": self.speed,
                },
            },
        }


# --- the object that a caller sends -----------------------------------------------------------------


class _Format(msgspec.Struct, frozen=True):
    type: FormatType = "audio/pcm"
    rate: Literal[24000, 8000] | None = None


class _Turns(msgspec.Struct, frozen=True):
    type: Literal["server_vad", "semantic_vad"] = "server_vad"
    threshold: Annotated[float, Meta(ge=0, le=1)] | UnsetType | None = UNSET
    prefix_padding_ms: Annotated[int, Meta(ge=0, le=10000)] | UnsetType | None = UNSET
    silence_duration_ms: Annotated[int, Meta(ge=50, le=10000)] | UnsetType | None = UNSET
    create_response: bool | UnsetType | None = UNSET
    interrupt_response: bool | UnsetType | None = UNSET


class _Input(msgspec.Struct, frozen=True):
    format: _Format | UnsetType | None = UNSET
    transcription: Transcription | UnsetType | None = UNSET
    turn_detection: _Turns | UnsetType | None = UNSET


class _VoiceId(msgspec.Struct, frozen=True):
    id: str


class _Output(msgspec.Struct, frozen=True):
    """Of a session, and of one response."""

    format: _Format | UnsetType | None = UNSET
    voice: str | _VoiceId | UnsetType | None = UNSET
    speed: Annotated[float, Meta(ge=0.25, le=4)] | UnsetType | None = UNSET


class _Audio(msgspec.Struct, frozen=True):
    input: _Input | UnsetType = UNSET
    output: _Output | UnsetType = UNSET


class _Tool(msgspec.Struct, frozen=True):
    name: Annotated[str, Meta(min_length=1)]
    type: Literal["function"] = "function"


class Common(msgspec.Struct, frozen=True):
    """What a session and one response both have."""

    instructions: str | UnsetType | None = UNSET
    output_modalities: tuple[Modality, ...] | UnsetType | None = UNSET
    audio: _Audio | UnsetType = UNSET
    tools: tuple[dict[str, Any], ...] | UnsetType | None = UNSET
    tool_choice: str | dict[str, Any] | UnsetType | None = UNSET
    parallel_tool_calls: bool | UnsetType | None = UNSET
    max_output_tokens: Annotated[int, Meta(ge=1)] | Literal["inf"] | UnsetType | None = UNSET


class _Session(Common, frozen=True):
    type: Literal["realtime"] = "realtime"
    model: str | UnsetType | None = UNSET


def converted(wire: Any, kind: type[Any], place: str) -> Any:
    """Raises Mistake with the path of what does not fit."""
    try:
        return msgspec.convert(wire, kind)
    except msgspec.ValidationError as error:
        told, _, path = str(error).partition(" - at `$")
        path = path.rstrip("`").lstrip(".")
        param = ".".join(filter(None, (place, path))) or None
        raise Mistake(told if param is None else f"{param}: {told}", param=param) from None


def updated(config: SessionConfig, wire: Any) -> SessionConfig:
    """A `session.update`: what is named is set, the rest stays. Raises Mistake."""
    session: _Session = converted(modern(wire), _Session, "session")
    if isinstance(session.model, str) and session.model != config.model:
        raise Mistake("the model of a session cannot be changed", param="session.model")
    config = with_common(config, session, "session")
    heard = session.audio.input if isinstance(session.audio, _Audio) else UNSET
    if isinstance(heard, _Input):
        config = _with_input(config, heard)
    return config


def _with_input(config: SessionConfig, heard: _Input) -> SessionConfig:
    changes: dict[str, Any] = {}
    if heard.format is not UNSET:
        changes["input_format"] = _format(heard.format, "session.audio.input.format")
    if heard.transcription is not UNSET:
        changes["transcription"] = heard.transcription
    if isinstance(heard.turn_detection, _Turns):
        changes["turn_detection"] = _turns(config.turn_detection, heard.turn_detection)
    elif heard.turn_detection is None:
        changes["turn_detection"] = None
    return msgspec.structs.replace(config, **changes)


def _turns(before: TurnDetection | None, wanted: _Turns) -> TurnDetection:
    """Semantic detection is not to be had here: its place is taken by silence, which `session.updated` says."""
    named = {
        name: value
        for name in TurnDetection.__struct_fields__
        if (value := getattr(wanted, name)) is not UNSET and value is not None
    }
    return msgspec.structs.replace(before or TurnDetection(), **named)


def with_common(config: SessionConfig, wanted: Common, place: str) -> SessionConfig:
    changes: dict[str, Any] = {}
    if wanted.instructions is not UNSET:
        changes["instructions"] = wanted.instructions or ""
    if wanted.output_modalities is not UNSET:
        changes["modality"] = _modality(wanted.output_modalities, f"{place}.output_modalities")
    if wanted.tools is not UNSET:
        changes["tools"] = _tools(wanted.tools or (), f"{place}.tools")
    if wanted.tool_choice is not UNSET:
        changes["tool_choice"] = wanted.tool_choice or "auto"
    if wanted.parallel_tool_calls is not UNSET:
        changes["parallel_tool_calls"] = wanted.parallel_tool_calls
    if wanted.max_output_tokens is not UNSET:
        most = wanted.max_output_tokens
        changes["max_output_tokens"] = most if isinstance(most, int) else None
    output = wanted.audio.output if isinstance(wanted.audio, _Audio) else UNSET
    if isinstance(output, _Output):
        changes |= _output_changes(output, f"{place}.audio.output")
    return msgspec.structs.replace(config, **changes)


def _output_changes(output: _Output, place: str) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if output.format is not UNSET:
        changes["output_format"] = _format(output.format, f"{place}.format")
    if output.voice is not UNSET:
        changes["voice"] = output.voice.id if isinstance(output.voice, _VoiceId) else output.voice
    if isinstance(output.speed, float | int):
        changes["speed"] = float(output.speed)
    return changes


def _format(wanted: _Format | UnsetType | None, param: str) -> Format:
    if not isinstance(wanted, _Format):
        return Format()
    found = Format(wanted.type)
    if wanted.rate not in (None, found.rate):
        raise Mistake(f"{param}.rate: {wanted.type} has {found.rate}", param=f"{param}.rate")
    return found


def _modality(wanted: tuple[Modality, ...] | UnsetType | None, param: str) -> Modality:
    """Sound always has its text beside it; both together is how older clients ask for that."""
    if not wanted:
        raise Mistake(f'{param}: must be ["audio"] or ["text"]', param=param)
    return "audio" if "audio" in wanted else "text"


def _tools(wanted: tuple[dict[str, Any], ...], param: str) -> tuple[dict[str, Any], ...]:
    for index, tool in enumerate(wanted):
        converted(tool, _Tool, f"{param}[{index}]")
    return wanted


# --- the shape before the interface was generally available -----------------------------------------

_OLD_FORMATS = {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}
_OLD = {
    "modalities": ("output_modalities",),
    "max_response_output_tokens": ("max_output_tokens",),
    "voice": ("audio", "output", "voice"),
    "speed": ("audio", "output", "speed"),
    "output_audio_format": ("audio", "output", "format"),
    "input_audio_format": ("audio", "input", "format"),
    "input_audio_transcription": ("audio", "input", "transcription"),
    "turn_detection": ("audio", "input", "turn_detection"),
}


def modern(wire: Any) -> Any:
    if not isinstance(wire, Mapping) or not _OLD.keys() & wire.keys():
        return wire
    modern = {name: value for name, value in wire.items() if name not in _OLD}
    for name, path in _OLD.items():
        if name not in wire:
            continue
        value = wire[name]
        if name.endswith("_format") and isinstance(value, str):
            value = {"type": _OLD_FORMATS.get(value, value)}
        place = modern
        for step in path[:-1]:
            inner = place.get(step)
            place[step] = dict(inner) if isinstance(inner, Mapping) else {}
            place = place[step]
        place.setdefault(path[-1], value)
    return modern
