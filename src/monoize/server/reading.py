"""Bytes of a connection as requests: each is handed on when its head is complete, while its body may still come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus

import httptools
import msgspec

from monoize.server.arriving import ArrivingBody, Line
from monoize.server.http import FORWARDED, HttpRequest, name_of, names_known, path_of, query_of
from monoize.server.repeated_head import RepeatedHead

__all__ = ["Malformed", "RequestReader", "Turn", "WebSocketWanted"]

# Beside the headers, for the address and for what separates them.
_AROUND_HEADERS = 64 * 1024
_INVALID = "Invalid HTTP request received."
# Addresses without a query, as callers write them: nearly always the same few. See `names_known`.
_paths: dict[bytes, str] = {}
_PATHS_KEPT = 512
_LONGEST_KEPT = 256  # bytes
_TRIES = 4  # heads in a row of which none comes again: then no more are remembered
_METHODS = {name.encode(): name for name in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")}


class Malformed(Exception):
    """What came cannot be read as HTTP; nothing after it can be, either."""

    def __init__(self, status: HTTPStatus, words: str) -> None:
        super().__init__(words)
        self.status = status


class WebSocketWanted(Exception):
    """The connection is to become a WebSocket; `opening` is all that came for it."""

    def __init__(self, opening: bytes) -> None:
        super().__init__()
        self.opening = opening


class Turn(msgspec.Struct, eq=False):
    """A request in its place among those of its connection."""

    request: HttpRequest
    body: ArrivingBody
    keeps_alive: bool  # as far as the caller is concerned
    is_answering: bool = False
    is_written: bool = False  # the head of its answer is out, or about to depart
    refusal: bytes | None = None  # what is said instead of an answer
    task: asyncio.Task[None] | None = None


class RequestReader:
    """`take` gets each request; `header_bytes` says how large a head may be that does not come to its end."""

    __slots__ = (
        "_address",
        "_came_bytes",
        "_earlier",
        "_fields",
        "_has_read_head",
        "_header_bytes",
        "_known_head",
        "_latest",
        "_line",
        "_parser",
        "_take",
        "_target",
        "_tries",
        "_turn",
        "in_head",
        "late_bytes",
    )

    def __init__(
        self,
        line: Line,
        take: Callable[[Turn], None],
        header_bytes: Callable[[], int],
        address: str | None,
    ) -> None:
        self._line = line
        self._take = take
        self._header_bytes = header_bytes
        self._address = address
        self._parser = httptools.HttpRequestParser(self)
        self._target = b""
        self._fields: dict[str, str] = {}
        self._earlier: list[tuple[str, str]] = []  # what stood in a field before it was repeated
        self._turn: Turn | None = None  # whose body is being read
        self._latest: Turn | None = None  # that the parser has seen to its end
        self._known_head: RepeatedHead | None = None
        self._tries = _TRIES
        self._came_bytes = 0
        self._has_read_head = False  # to its end, in what has just come
        self.in_head = False
        self.late_bytes = 0  # of a head that did not come in one piece: all but the first

    @property
    def arriving(self) -> Turn | None:
        """The request whose body is not complete yet."""
        return self._turn

    def feed(self, data: bytes) -> None:
        """Raises Malformed or WebSocketWanted: it is not to be called again after that."""
        if self.in_head or self._turn is not None:
            self._parse(data)
            self._latest = None
            return
        known = self._known_head
        if known is not None:
            again = known.again(data)
            if again is not None:
                self._tries = _TRIES
                self._took(known, *again, len(data))
                return
        self._parse(data)
        latest, self._latest = self._latest, None
        if latest is not None and self._tries:
            self._tries -= 1
            self._known_head = RepeatedHead.of(data, latest.request)

    def _took(self, head: RepeatedHead, length: str, data: bytes, came_bytes: int) -> None:
        """A whole request, as the parser would have brought it."""
        body = ArrivingBody(self._line)
        request = HttpRequest(
            method=head.method,
            path=head.path,
            query=head.query,
            headers={**head.headers, "content-length": length},
            came_bytes=came_bytes,
            body=body,
            address=self._address,
        )
        self._take(Turn(request, body, keeps_alive=True))
        if data:
            body.feed(data)
        body.finish()

    def _parse(self, data: bytes) -> None:
        was_in_head, self._has_read_head = self.in_head, False
        self._came_bytes = len(data) if not was_in_head else self._came_bytes + len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            raise Malformed(HTTPStatus.BAD_REQUEST, _INVALID) from None
        if self.in_head and was_in_head and not self._has_read_head:
            self.late_bytes += len(data)
            if self.late_bytes > self._header_bytes() + _AROUND_HEADERS:
                raise Malformed(
                    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The head is too large."
                )

    def close(self) -> None:
        """Nothing more will come. It holds the connection that holds it, and so does its parser: the collector need not find out."""
        self._turn = self._latest = None
        del self._parser, self._line, self._take, self._header_bytes

    # --- of the parser ---

    def on_message_begin(self) -> None:
        self.in_head = True

    def on_url(self, piece: bytes) -> None:
        self._target += piece

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.in_head:  # behind a body in chunks there may be more of them: nobody asked
            self._known_head, self._tries = None, 0  # but the parser may end with them
            return
        known, fields = names_known.get(name) or name_of(name), self._fields
        if known in fields:
            self._repeated(known, value.decode("latin-1"))
        else:
            fields[known] = value.decode("latin-1")

    def _repeated(self, name: str, value: str) -> None:
        """The last stands; but each proxy on the way may add a line of its own."""
        before = self._fields[name]
        if name == FORWARDED:
            value = f"{before},{value}"
        else:
            self._earlier.append((name, before))
        self._fields[name] = value

    def on_headers_complete(self) -> None:
        self.in_head = False
        self._has_read_head = True
        self.late_bytes = 0
        parser, target = self._parser, self._target
        if parser.should_upgrade():  # `feed` hears of it in a moment
            return
        method, path, query = parser.get_method(), _paths.get(target), b""
        if path is None:
            path, query = _path_and_query(target)
        headers, body = self._fields, ArrivingBody(self._line)
        request = HttpRequest(
            method=_METHODS.get(method) or method.decode("ascii"),
            path=path,
            query=query_of(query) if query else {},
            headers=headers,
            came_bytes=self._came_bytes,
            body=body,
            address=self._address,
        )
        keeps_alive = parser.should_keep_alive()
        if "connection" in headers or "expect" in headers:  # of 1.0 neither is understood
            is_old = parser.get_http_version() == "1.0"
            keeps_alive = keeps_alive and not is_old
            if not is_old and headers.get("expect", "").lower() == "100-continue":
                body.wait_to_be_asked()
        self._target, self._fields = b"", {}
        if self._earlier:
            self._earlier = []
        if not keeps_alive:  # nothing comes after it
            self._known_head, self._tries = None, 0
        self._turn = turn = Turn(request, body, keeps_alive)
        self._take(turn)

    def on_body(self, data: bytes) -> None:
        if self._turn is not None:
            self._turn.body.feed(data)

    def on_message_complete(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            self._latest = turn
            turn.body.finish()

    # --- other protocols ---

    def _upgrade(self, rest: bytes) -> None:
        """A WebSocket is opened, whatever else a caller would like to speak it is answered in HTTP/1.1 (RFC 9110, 7.8)."""
        method = self._parser.get_method()
        if method == b"CONNECT":
            raise Malformed(HTTPStatus.BAD_REQUEST, _INVALID)
        pairs = self._lines()
        if any(name == "upgrade" and value.lower() == "websocket" for name, value in pairs):
            raise WebSocketWanted(self._written(method, pairs) + rest)
        plain = self._written(method, [pair for pair in pairs if pair[0] != "upgrade"])
        self._parser = httptools.HttpRequestParser(self)
        self._target, self._fields, self._earlier = b"", {}, []
        self._parse(plain + rest)

    def _lines(self) -> list[tuple[str, str]]:
        """All headers, repeated ones together."""
        values: dict[str, list[str]] = {name: [] for name in self._fields}
        for name, value in (*self._earlier, *self._fields.items()):
            values[name].append(value)
        return [(name, value) for name, said in values.items() for value in said]

    def _written(self, method: bytes, pairs: list[tuple[str, str]]) -> bytes:
        lines = "".join([f"{name}: {value}\r\n" for name, value in pairs]).encode("latin-1")
        return b"%b %b HTTP/1.1\r\n%b\r\n" % (method, self._target, lines)


def _path_and_query(target: bytes) -> tuple[str, bytes]:
    if not target.startswith(b"/") or b"#" in target:
        url = httptools.parse_url(target)  # of the whole address, as a proxy is asked
        if url.path is None:
            raise ValueError("an address without a path")
        return path_of(url.path), url.query or b""
    raw, mark, query = target.partition(b"?")
    path = path_of(raw)
    if not mark and len(target) <= _LONGEST_KEPT and len(_paths) < _PATHS_KEPT:
        _paths[target] = path
    return path, query
