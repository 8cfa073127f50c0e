"""A request off ASGI."""

from __future__ import annotations

import pytest

from monoize.server.http import HttpRequest
from monoize.server.proxies import TrustedProxies


def request(*headers: tuple[bytes, bytes]) -> HttpRequest:
    scope = {
        "method": "GET",
        "path": "/",
        "query_string": b"",
        "headers": list(headers),
        "client": ("10.0.0.1", 5000),
    }
    return HttpRequest.from_scope(scope, None, "req_1", 0.0)


def test_the_last_of_repeated_headers_holds():
    assert request((b"X-A", b"1"), (b"x-a", b"2")).headers == {"x-a": "2"}


@pytest.mark.parametrize(
    ("lines", "address"),
    [
        ([b"198.51.100.1", b"10.0.0.2"], "198.51.100.1"),  # two proxies, a line from each
        ([b"1.1.1.1", b"198.51.100.1"], "198.51.100.1"),  # the caller wrote the first itself
        ([b"1.1.1.1", b"198.51.100.1, 10.0.0.2"], "198.51.100.1"),
    ],
)
def test_each_proxy_may_add_a_line_of_its_own(lines, address):
    found = request(*((b"X-Forwarded-For", line) for line in lines))
    ours = TrustedProxies(["10.0.0.0/8"])
    assert ours.caller_address(found.address, found.headers["x-forwarded-for"]) == address
