"""Where a text comes from and how likely its tokens were: Google keeps both beside the content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from monoize.protocols.gemini.spelling import found, listed
from monoize.urp import Citation, Text

__all__ = [
    "citations_of",
    "decode_logprobs",
    "gather",
    "write_grounding",
    "write_logprobs",
]

_CHUNK_KINDS = ("web", "retrievedContext", "maps", "image")


# --- citations ------------------------------------------------------------------------------------


def citations_of(
    candidate: Mapping[str, Any], texts: Sequence[str]
) -> Iterator[tuple[int, Citation]]:
    """(which text, citation) of a candidate, each once; Google counts bytes, a Citation counts characters."""
    seen: set[tuple[Any, ...]] = set()
    for url, title, quote, segment in _references(candidate):
        number, start, end = _located(segment, quote, texts)
        key = (number, url, title, start, end)
        if (url or title) and key not in seen:
            seen.add(key)
            yield number, Citation(url=url, title=title, quote=quote, start=start, end=end)


def _references(
    candidate: Mapping[str, Any],
) -> Iterator[tuple[str | None, str | None, str | None, Any]]:
    """(url, title, words, segment) of everything that a candidate refers to."""
    grounding = found(candidate, "groundingMetadata")
    chunks = listed(found(grounding, "groundingChunks"))
    for support in listed(found(grounding, "groundingSupports")):
        segment = found(support, "segment")
        for index in listed(found(support, "groundingChunkIndices")):
            if isinstance(index, int) and 0 <= index < len(chunks):
                yield *_place(chunks[index]), _words(found(segment, "text")), segment
    recited = found(candidate, "citationMetadata")
    for item in listed(found(recited, "citationSources") or found(recited, "citations")):
        yield _words(found(item, "uri")), _words(found(item, "title")), None, item


def _place(chunk: Any) -> tuple[str | None, str | None]:
    for kind in _CHUNK_KINDS:
        place = found(chunk, kind)
        if place is not None:
            return _words(found(place, "uri")), _words(found(place, "title"))
    return None, None


def _words(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _located(
    segment: Any, quote: str | None, texts: Sequence[str]
) -> tuple[int, int | None, int | None]:
    """(which text, first character, end). Where its words stand elsewhere than its numbers say, the words are right."""
    last = len(texts) - 1
    start, end = found(segment, "startIndex") or 0, found(segment, "endIndex")
    known = isinstance(start, int) and isinstance(end, int) and 0 <= start <= end
    if known and quote is None:
        return last, *_characters(texts[last], start, end)
    for number, text in enumerate(texts) if known else ():
        first, after = _characters(text, start, end)
        if first is not None and text[first:after] == quote:
            return number, first, after
    for number, text in enumerate(texts) if quote else ():
        position = text.find(quote or "")
        if position >= 0:
            return number, position, position + len(quote or "")
    return last, None, None


def _characters(text: str, start: int, end: int) -> tuple[int | None, int | None]:
    coded = text.encode("utf-8", "surrogatepass")
    if end > len(coded):
        return None, None
    return len(coded[:start].decode("utf-8", "ignore")), len(coded[:end].decode("utf-8", "ignore"))


def write_grounding(texts: Sequence[Text]) -> dict[str, Any] | None:
    """The groundingMetadata for citations from elsewhere; None where there are none."""
    chunks: list[dict[str, Any]] = []
    supports: list[dict[str, Any]] = []
    places: dict[tuple[str | None, str | None], int] = {}
    for part_index, text in enumerate(texts):
        for citation in text.citations:
            place = (citation.url, citation.title)
            if place == (None, None):
                continue
            if place not in places:
                places[place] = len(chunks)
                web = {"uri": citation.url, "title": citation.title}
                chunks.append({"web": {k: v for k, v in web.items() if v is not None}})
            segment = _segment(citation, text.content, part_index)
            if segment is not None:
                supports.append({"segment": segment, "groundingChunkIndices": [places[place]]})
    if not chunks:
        return None
    return {"groundingChunks": chunks, **({"groundingSupports": supports} if supports else {})}


def _segment(citation: Citation, text: str, part_index: int) -> dict[str, Any] | None:
    if citation.start is None or citation.end is None:
        return {"text": citation.quote} if citation.quote else None
    ahead = text[: citation.start].encode("utf-8", "surrogatepass")
    words = text[citation.start : citation.end]
    end = len(ahead) + len(words.encode("utf-8", "surrogatepass"))
    place = {"partIndex": part_index} if part_index else {}
    return {**place, "startIndex": len(ahead), "endIndex": end, "text": words}


# --- log probabilities ----------------------------------------------------------------------------


def decode_logprobs(candidate: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...] | None:
    result = found(candidate, "logprobsResult")
    chosen = listed(found(result, "chosenCandidates"))
    tops = listed(found(result, "topCandidates"))
    if not chosen:
        return None
    return tuple(
        {
            **_token(item),
            "top_logprobs": [
                _token(top)
                for top in listed(found(tops[n], "candidates") if n < len(tops) else None)
            ],
        }
        for n, item in enumerate(chosen)
    )


def _token(item: Any) -> dict[str, Any]:
    token = _words(found(item, "token")) or ""
    number = found(item, "logProbability")
    return {
        "token": token,
        "logprob": number if isinstance(number, int | float) else 0.0,
        "bytes": list(token.encode("utf-8", "surrogatepass")),
    }


def write_logprobs(texts: Sequence[Text]) -> dict[str, Any] | None:
    """The logprobsResult for the tokens of all texts; None where nobody asked for them."""
    tokens = [token for text in texts for token in text.logprobs or ()]
    if not tokens:
        return None
    return {
        "chosenCandidates": [_candidate(token) for token in tokens],
        "topCandidates": [
            {"candidates": [_candidate(top) for top in listed(token.get("top_logprobs"))]}
            for token in tokens
        ],
    }


def _candidate(token: Any) -> dict[str, Any]:
    return {"token": token.get("token", ""), "logProbability": token.get("logprob", 0.0)}


# --- pieces of a stream ---------------------------------------------------------------------------


def gather(known: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Fields of a candidate over several chunks: lists inside an object go on, everything else is the latest.

    The lists in `known` are its own, so that a long stream costs no more than its length.
    """
    for key, value in more.items():
        if not isinstance(value, dict):
            known[key] = value
            continue
        if not isinstance(known.get(key), dict):
            known[key] = {}
        for name, inner in value.items():
            _gather_inner(known[key], name, inner)


def _gather_inner(known: dict[str, Any], name: str, value: Any) -> None:
    if not isinstance(value, list):
        known[name] = value
    elif isinstance(known.get(name), list):
        known[name] += value
    else:
        known[name] = list(value)
