"""A request off the wire."""

from __future__ import annotations

import pytest

from fakes.asking import arriving, asked, here
from monoize.errors import InvalidRequest, PayloadTooLarge
from monoize.server import http
from monoize.server.http import HttpRequest, read_body, read_json
from monoize.server.proxies import TrustedProxies
from monoize.settings import LimitSettings, TimeoutSettings


def request(*headers: tuple[bytes, bytes]) -> HttpRequest:
    return HttpRequest.of_wire("GET", b"/", b"", headers, address="10.0.0.1")


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


def test_names_that_strangers_make_up_do_not_fill_the_memory():
    for number in range(5000):
        assert request((f"X-Made-Up-{number}".encode(), b"1")).headers == {
            f"x-made-up-{number}": "1"
        }
    assert len(http.names_known) <= 512


@pytest.mark.parametrize(
    ("raw", "path"), [(b"/a%2Fb%C3%A9", "/a/bé"), (b"/%FF", "/\ufffd"), (b"//a", "//a")]
)
def test_a_path_is_read_as_it_was_meant(raw, path):
    assert HttpRequest.of_wire("GET", raw, b"", ()).path == path


def test_a_query_keeps_blank_values_and_the_last_of_repeated_ones():
    assert HttpRequest.of_wire("GET", b"/", b"a=1&b=&a=2&c", ()).query == {
        "a": "2",
        "b": "",
        "c": "",
    }


async def test_a_body_is_read_at_once_where_it_is_here_and_in_its_time_where_it_is_not():
    limits, timeouts = LimitSettings(body_bytes=10), TimeoutSettings(body=5)
    for body in (here(b'{"a":1}'), arriving([b'{"a"', b":1}"])):
        given = asked("POST", "/", {}, body)
        assert await read_json(given, limits, timeouts) == (b'{"a":1}', {"a": 1})


@pytest.mark.parametrize("pieces", [[b"x" * 11], [b"x" * 5, b"x" * 6]])
async def test_either_way_a_body_has_its_limit(pieces):
    limits, timeouts = LimitSettings(body_bytes=10), TimeoutSettings(body=5)
    for body in (here(b"".join(pieces)), arriving(pieces)):
        with pytest.raises(PayloadTooLarge, match="10 bytes"):
            await read_body(asked("POST", "/", {}, body), limits, timeouts)


async def test_either_way_a_compressed_body_is_refused():
    limits, timeouts = LimitSettings(), TimeoutSettings()
    for body in (here(b"{}"), arriving([b"{}"])):
        with pytest.raises(InvalidRequest, match="uncompressed"):
            await read_json(
                asked("POST", "/", {"content-encoding": "gzip"}, body), limits, timeouts
            )
