"""The API about itself: its OpenAPI document, and a page that shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from monoize.pipeline.call import Answer
from monoize.server.api.endpoint import Context, Endpoint, Given, endpoint
from monoize.server.api.openapi import document

__all__ = ["endpoints"]

# The page is all of our own: nothing from elsewhere is fetched, and what a description says is never run.
_PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
}


def endpoints(rows: Sequence[Endpoint]) -> tuple[Endpoint, ...]:
    """Those that show all the others."""

    @cache
    def written() -> bytes:
        return msgspec.json.encode(document((*rows, *own)))

    @endpoint("GET", "/openapi.json", role=None, answer=Mapping[str, Any])
    async def show_openapi(context: Context, given: Given[None, None]) -> Answer:
        """The OpenAPI document of everything that is served here."""
        del context, given
        return Answer(status=200, content_type="application/json", headers={}, body=written())

    @endpoint("GET", "/docs", role=None, answer=str, content_type="text/html")
    async def show_docs(context: Context, given: Given[None, None]) -> Answer:
        """The same document as a page for people."""
        del context, given
        return Answer(
            status=200,
            content_type="text/html; charset=utf-8",
            headers=_PAGE_HEADERS,
            body=_page(),
        )

    own = (show_openapi, show_docs)
    return own


@cache
def _page() -> bytes:
    return files("monoize.server.api").joinpath("docs.html").read_bytes()
