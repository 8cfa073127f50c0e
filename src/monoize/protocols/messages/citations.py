"""Citations of a text block <-> URP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from monoize.protocol import Json
from monoize.protocols.messages.dialect import DIALECT
from monoize.urp import Citation, Source
from monoize.urp.extra_body import rest

__all__ = ["citation_of", "citations_of", "is_foreign", "native_citations", "shown_citation"]

_NAMED = frozenset({"cited_text", "document_title", "title", "url"})
_WEB = "web_search_result_location"


def citations_of(wire: Any) -> tuple[Citation, ...]:
    if not isinstance(wire, list):
        return ()
    return tuple(citation_of(item) for item in wire if isinstance(item, dict))


def citation_of(wire: Mapping[str, Any]) -> Citation:
    if is_foreign(wire):
        return Citation(
            url=_text(wire, "url"),
            title=_text(wire, "title"),
            quote=_text(wire, "cited_text") or None,
        )
    url = _text(wire, "url")
    if url is None and (_text(wire, "source") or "").startswith(("http://", "https://")):
        url = wire["source"]
    return Citation(
        url=url,
        title=_text(wire, "title") or _text(wire, "document_title"),
        quote=_text(wire, "cited_text"),
        extra_body=rest(wire, _NAMED),
        source=Source(DIALECT, wire),
    )


def is_foreign(wire: Any) -> bool:
    """A web citation of another provider, as `shown_citation` writes it: the vendor's own always have an index."""
    if not isinstance(wire, Mapping):
        return False
    return wire.get("type") == _WEB and wire.get("encrypted_index") == ""


def native_citations(citations: Iterable[Citation]) -> list[Json]:
    """Those that the vendor itself made; it refuses any other in a request."""
    return [
        citation.source.wire
        for citation in citations
        if citation.source is not None and citation.source.protocol == DIALECT
    ]


def shown_citation(citation: Citation) -> Json | None:
    """A citation for a caller; one of another provider needs a URL to be shown."""
    if citation.source is not None and citation.source.protocol == DIALECT:
        wire: Json = citation.source.wire
        return wire
    if citation.url is None:
        return None
    return {
        "type": _WEB,
        "url": citation.url,
        "title": citation.title,
        "cited_text": citation.quote or "",
        "encrypted_index": "",
    }


def _text(wire: Mapping[str, Any], key: str) -> str | None:
    value = wire.get(key)
    return value if isinstance(value, str) else None
