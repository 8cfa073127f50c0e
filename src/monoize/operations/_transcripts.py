"""A transcript in the shapes that OpenAI's endpoint answers in: JSON, plain text, subtitles, events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from monoize import wirejson
from monoize.operation import Json, Made, WireReply
from monoize.operations._streams import SSE
from monoize.operations._usage import seconds_of, token_counts
from monoize.sse import serialized
from monoize.urp import WireEvent

__all__ = ["IN_LINES", "TIMED", "as_events", "as_form"]

IN_LINES = frozenset({"text", "srt", "vtt"})  # no JSON
TIMED = frozenset({"verbose_json", "srt", "vtt"})
_PLAIN = "text/plain; charset=utf-8"


def as_form(made: Made, form: str, *, language: str | None) -> WireReply:
    """`language`: what the caller said it is, where nobody else says."""
    result = made.result
    match form:
        case "text":
            return _lines(f"{result['text']}\n")
        case "srt":
            return _lines(_srt(_cues(result)))
        case "vtt":
            return _lines(_vtt(_cues(result)))
        case "verbose_json":
            return _json(made, _verbose(result, language))
        case _:
            return _json(made, {"text": result["text"]})


def as_events(made: Made) -> WireReply:
    """A stream of what is known already: a piece for each segment, then the whole."""
    text = made.result["text"]
    pieces = [str(segment.get("text", "")).strip() for segment in _segments(made.result)]
    if " ".join(pieces) != text:
        pieces = [text] if text else []
    events: list[dict[str, Any]] = [
        {"type": "transcript.text.delta", "delta": piece if i == 0 else f" {piece}"}
        for i, piece in enumerate(pieces)
    ]
    events.append({"type": "transcript.text.done", "text": text, **_usage(made)})
    body = b"".join(serialized(WireEvent(wirejson.dumps(event).decode())) for event in events)
    return WireReply(body=body, content_type=SSE)


def _json(made: Made, body: dict[str, Any]) -> WireReply:
    return WireReply(body=wirejson.dumps({**body, **_usage(made)}))


def _lines(text: str) -> WireReply:
    return WireReply(body=text.encode("utf-8", "replace"), content_type=_PLAIN)


def _usage(made: Made) -> dict[str, Any]:
    if made.usage is not None:
        return {"usage": {"type": "tokens", **token_counts(made.usage)}}
    if made.units.audio_seconds:
        return {"usage": {"type": "duration", "seconds": float(made.units.audio_seconds)}}
    return {}


def _segments(result: Json) -> Sequence[Mapping[str, Any]]:
    segments = result.get("segments")
    return (
        [one for one in segments if isinstance(one, Mapping)] if isinstance(segments, list) else []
    )


def _verbose(result: Json, language: str | None) -> dict[str, Any]:
    body = {
        "task": "transcribe",
        "language": result.get("language") or language or "",
        "duration": result.get("duration") or 0.0,
        "text": result["text"],
    }
    segments = _segments(result)
    if segments:
        body["segments"] = [_measured(i, one) for i, one in enumerate(segments)]
    return body


def _measured(i: int, segment: Mapping[str, Any]) -> dict[str, Any]:
    """With the measurements that OpenAI's schema wants; 0 where an engine makes none."""
    return {
        "id": i,
        "seek": 0,
        "tokens": [],
        "temperature": 0.0,
        "avg_logprob": 0.0,
        "compression_ratio": 0.0,
        "no_speech_prob": 0.0,
        **segment,
    }


def _cues(result: Json) -> list[tuple[float, float, str]]:
    """Without segments the whole recording is one cue."""
    cues = [
        (_seconds(one.get("start")), _seconds(one.get("end")), str(one.get("text", "")).strip())
        for one in _segments(result)
    ]
    if not cues and result["text"]:
        cues = [(0.0, _seconds(result.get("duration")), str(result["text"]).strip())]
    return [(start, end, _one_cue(text)) for start, end, text in cues if text]


def _seconds(value: Any) -> float:
    return float(seconds_of(value) or 0)


def _one_cue(text: str) -> str:
    """An empty line would end the cue, and an arrow begin another."""
    lines = (line.strip().replace("-->", "→") for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def _srt(cues: Sequence[tuple[float, float, str]]) -> str:
    return "".join(
        f"{i}\n{_clock(start, ',')} --> {_clock(end, ',')}\n{text}\n\n"
        for i, (start, end, text) in enumerate(cues, 1)
    )


def _vtt(cues: Sequence[tuple[float, float, str]]) -> str:
    blocks = (
        f"{_clock(start, '.')} --> {_clock(end, '.')}\n{text}\n\n" for start, end, text in cues
    )
    return "WEBVTT\n\n" + "".join(blocks)


def _clock(seconds: float, point: str) -> str:
    thousandths = round(max(0.0, seconds) * 1000)
    minutes, rest = divmod(thousandths, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}{point}{rest % 1000:03}"
