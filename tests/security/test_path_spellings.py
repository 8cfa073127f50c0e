"""BF#5763: however a protected path is spelled, over a raw socket to the real server, it stays protected."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from fakes.gateway import GatewayProcess, configured

ADMIN, USER = "sk-admin-0123456789abcdef", "sk-user-0123456789abcdef"
PROTECTED = ("/api/users", "/api/settings", "/api/audit", "/api/logs.csv", "/metrics", "/v1/models")
FOR_ADMINS = ("/api/users", "/api/settings", "/api/audit")
WAYS_IN = ("/healthz", "/readyz", "/docs", "/openapi.json", "/v1/models")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory) -> Iterator[GatewayProcess]:
    config = configured([], {"probe_enabled": False})
    config["keys"] = [
        {"name": "admin", "key": ADMIN, "role": "admin"},
        {"name": "user", "key": USER},
    ]
    process = GatewayProcess(tmp_path_factory.mktemp("spelled"), config)
    yield process
    process.stop()


def said(port: int, raw: bytes) -> tuple[int, bytes]:
    """The status of the first answer and everything that came; 0: the server hung up without a word."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as line:
        line.sendall(raw)
        got = b""
        with suppress(ConnectionResetError):
            while piece := line.recv(65536):
                got += piece
    return (int(got[9:12]) if got.startswith(b"HTTP/1.") else 0), got


def request(target: bytes, key: str | None, *headers: str, method: str = "GET") -> bytes:
    keyed = [f"authorization: Bearer {key}"] if key else []
    lines = ["host: 127.0.0.1", "connection: close", *keyed, *headers, "", ""]
    return method.encode() + b" " + target + b" HTTP/1.1\r\n" + "\r\n".join(lines).encode()


def spellings(path: str) -> list[bytes]:
    first, _, rest = path.removeprefix("/").partition("/")
    last = rest or first
    front = path.removesuffix(last)
    odd = [
        path,
        f"/{path}",
        f"//{path}",
        path.replace("/", "//"),
        f"{path}/",
        f"{path}//",
        f"{path}/.",
        f"{path}/..",
        f"{path}/../{last}",
        f"/.{path}",
        f"/..{path}",
        f"/x/..{path}",
        f"{front}./{last}",
        f"{front}x/../{last}",
        f"/%2e{path}",
        f"/%2e%2e{path}",
        f"/x/%2e%2e{path}",
        f"/x/%252e%252e{path}",
        path.upper(),
        path.title(),
        f"/%2f{path[1:]}",
        path[0] + path[1:].replace("/", "%2f"),
        path[0] + path[1:].replace("/", "%2F"),
        path[0] + path[1:].replace("/", "%252f"),
        path[0] + path[1:].replace("/", "%5c"),
        path.replace("/", "\\"),
        f"/{''.join(f'%{ord(letter):02x}' for letter in path[1:])}",
        f"/%{ord(path[1]):02x}{path[2:]}",
        f"/%25{ord(path[1]):02x}{path[2:]}",
        f"{path};a=b",
        f"{path};/healthz",
        f"{path}%00",
        f"{path}%00.css",
        f"{path}%0a",
        f"{path}%20",
        f"{path}%09",
        f"{path}.json",
        f"{path}.css",
        f"{path}?",
        f"{path}?x=/healthz",
        f"{path}#",
        f"{path}#/healthz",
        f"{path}?#",
        f"{path}%3f",
        f"{path}%23",
        f"{path}%c0%af",
        f"/%c0%ae%c0%ae{path}",
        f"/\u2025{path}",
        f"http://127.0.0.1{path}",
        f"http://127.0.0.1/x/..{path}",
        f"HTTP://127.0.0.1{path}",
        f"http://elsewhere.example{path}",
        f"http:{path}",
        f"//127.0.0.1{path}",
        path[1:],
        "*",
    ]
    for way in WAYS_IN:
        odd += [
            f"{way}/..{path}",
            f"{way}/../..{path}",
            f"{way}/%2e%2e{path}",
            f"{way}%2f..{path}",
            f"{way};/..{path}",
            f"{way}/..;{path}",
            f"{way}\\..{path}",
            f"{way}{path}",
            f"{way}%00{path}",
        ]
    return [text.encode() for text in odd]


def gives_away(got: bytes) -> bool:
    """Anything that only the real endpoint says."""
    return any(word in got for word in (b'"data":[', b'"rows":[', b"monoize_", b"request_id,"))


@pytest.mark.spec("BF#5763")
@pytest.mark.parametrize("path", PROTECTED)
def test_bf5763_no_spelling_opens_a_protected_path_without_a_key(gateway, path):
    status, got = said(gateway.port, request(path.encode(), ADMIN))
    assert status == 200, got  # with the right key it is there
    for target in spellings(path):
        for method in ("GET", "HEAD"):
            status, got = said(gateway.port, request(target, None, method=method))
            assert status in (0, 400, 401, 403, 404, 405), (target, got)
            assert not gives_away(got), (target, got)


@pytest.mark.spec("BF#5763", "CVE-2026-35029")
@pytest.mark.parametrize("path", FOR_ADMINS)
def test_bf5763_no_spelling_opens_an_admins_path_to_a_user(gateway, path):
    for target in spellings(path):
        status, got = said(gateway.port, request(target, USER))
        assert status in (0, 400, 403, 404, 405), (target, got)
        assert not gives_away(got), (target, got)


@pytest.mark.spec("BF#5763")
@pytest.mark.parametrize(
    "header",
    [
        *(f"{name}: /api/users" for name in ("x-original-url", "x-rewrite-url", "x-original-uri")),
        *(f"{name}: /api" for name in ("x-forwarded-prefix", "x-forwarded-path", "x-script-name")),
        "x-http-method-override: DELETE",
        "x-forwarded-for: 127.0.0.1",
        "x-forwarded-user: admin",
        "x-remote-user: admin",
        "connection: authorization, close",
    ],
)
def test_bf5763_no_header_turns_one_path_into_another_or_a_caller_into_an_admin(gateway, header):
    _, plain = said(gateway.port, request(b"/healthz", None))
    _, got = said(gateway.port, request(b"/healthz", None, header))
    assert got.rpartition(b"\r\n\r\n")[2] == plain.rpartition(b"\r\n\r\n")[2]
    assert said(gateway.port, request(b"/api/users", None, header))[0] == 401
    assert said(gateway.port, request(b"/api/users", USER, header))[0] == 403


SMUGGLED = b"GET /api/users HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"


@pytest.mark.spec("BF#5763")
@pytest.mark.parametrize(
    "raw",
    [
        b"GET /api/users\r\n\r\n",
        b"GET /api/users HTTP/1.0\r\n\r\n",
        b"GET  /api/users HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n",
        b"GET\t/api/users HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n",
        b"get /api/users HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n",
        b"GET /api/users HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization:\r\nconnection: close\r\n\r\n",
        b"GET /api/users HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer\r\nconnection: close\r\n\r\n",
        b"GET /api/users HTTP/1.1\r\nhost: 127.0.0.1\r\n authorization: Bearer x\r\nconnection: close\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" + SMUGGLED,
        b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 0\r\ncontent-length: 68\r\n\r\n"
        + SMUGGLED,
        b"POST /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n"
        b"\r\n0\r\n\r\n" + SMUGGLED,
        b"POST /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n"
        + SMUGGLED,
        b"OPTIONS /api/users HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n",
        b"TRACE /api/users HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n",
        b"CONNECT 127.0.0.1:80 HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n",
    ],
)
def test_bf5763_what_bends_http_itself_gets_no_further(gateway, raw):
    _, got = said(gateway.port, raw)
    assert not gives_away(got), got
    for head in got.split(b"HTTP/1.1 ")[1:]:
        is_open = b'"status"' in head and head.startswith(b"200")  # /healthz itself
        assert is_open or head[:3] in (b"400", b"401", b"403", b"404", b"405"), got


@pytest.mark.spec("BF#5763")
def test_bf5763_one_connection_carries_no_key_over_to_the_next_call(gateway):
    line = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=30)
    try:
        for key, status in ((ADMIN, 200), (None, 401), (USER, 403), (ADMIN, 200), (None, 401)):
            line.request("GET", "/api/users", headers={"x-api-key": key} if key else {})
            answer = line.getresponse()
            answer.read()
            assert answer.status == status
    finally:
        line.close()
