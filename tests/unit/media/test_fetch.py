"""The fetcher against a real server on loopback that stands for a host on the internet."""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fakes.far_host import (
    EMPTY_FAR,
    FAR,
    INSIDE,
    NAME,
    FarHost,
    Names,
    answers,
    listening,
    moved,
    reply,
)
from monoize.errors import Forbidden, InvalidRequest, PayloadTooLarge
from monoize.media.blob import Blob
from monoize.media.fetch import Fetcher
from monoize.settings import HttpUrlSettings

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40


async def fetched(fetcher: Fetcher, url: str) -> tuple[Blob, bytes]:
    async with fetcher.fetched(url) as blob:
        return blob, await blob.read(10**9)


# --- what is got ---------------------------------------------------------------------------------


@pytest.mark.spec("D30", "S4-3.5")
async def test_reads_a_file_with_its_type_and_its_size():
    async with FarHost() as host:
        host.replies["/a"] = reply(PICTURE, content_type="Image/PNG; q=1")
        blob, data = await fetched(host.fetcher(), host.url())
    assert (data, blob.mime, blob.size) == (PICTURE, "image/png", len(PICTURE))


@pytest.mark.parametrize("said", [None, "", "picture", "image/png/evil", "text/<script>", "é/è"])
async def test_a_type_that_is_none_is_unknown(said: str | None):
    async with FarHost() as host:
        host.replies["/a"] = reply(PICTURE, content_type=said)
        blob, _ = await fetched(host.fetcher(), host.url())
    assert blob.mime == "application/octet-stream"


async def test_reads_chunked_bodies_as_they_come():
    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for part in (b"abc", b"defg"):
            writer.write(b"%x\r\n%b\r\n" % (len(part), part))
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    async with FarHost() as host:
        host.replies["/a"] = drip
        blob, data = await fetched(host.fetcher(), host.url())
    assert (data, blob.size) == (b"abcdefg", None)


@pytest.mark.spec("D30", "LL#24952")
async def test_sends_nothing_of_the_callers_and_nothing_secret(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (tmp_path / "netrc").write_text(f"machine {NAME} login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    async with FarHost() as host:
        host.replies["/a?b=%20c"] = reply(PICTURE)
        await fetched(host.fetcher(), host.url("/a?b=%20c#d"))
    (head,) = host.heads
    line, *headers = head.strip().split("\r\n")
    assert line == "GET /a?b=%20c HTTP/1.1"
    assert {name.lower() for name, _, _ in (header.partition(":") for header in headers)} <= {
        *("host", "accept", "accept-encoding", "user-agent", "connection")
    }
    assert f"Host: {NAME}:{host.port}" in headers
    assert "accept-encoding: identity" in [header.lower() for header in headers]


async def test_goes_through_no_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch):
    async with FarHost() as host, FarHost() as proxy:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://{FAR}:{proxy.port}")
            monkeypatch.setenv(name.upper(), f"http://{FAR}:{proxy.port}")
        host.replies["/a"] = reply(PICTURE)
        _, data = await fetched(host.fetcher(), host.url())
    assert (data, proxy.heads) == (PICTURE, [])


# --- where it goes -------------------------------------------------------------------------------


@pytest.mark.spec("D30", "GHSA-6qcr-qxgr-m7fv")
async def test_looks_a_name_up_once_and_connects_to_what_was_checked():
    names = Names(**{NAME: [[FAR], [INSIDE]]})  # the second answer would lead inside
    async with FarHost() as host:
        host.replies["/a"] = reply(PICTURE)
        with listening() as heard:
            await fetched(host.fetcher(names), host.url())
    assert names.asked == [NAME]
    assert heard.connections == [(FAR, host.port)]
    assert heard.look_ups == []  # nor did anybody else look it up


async def test_tries_the_other_addresses_of_a_name():
    async with FarHost() as host:
        host.replies["/a"] = reply(PICTURE)
        with listening() as heard:
            fetcher = host.fetcher(answers(EMPTY_FAR, FAR))
            assert (await fetched(fetcher, host.url()))[1] == PICTURE
    assert heard.connections == [(EMPTY_FAR, host.port), (FAR, host.port)]


@pytest.mark.spec("D30")
async def test_a_host_that_is_an_address_is_not_looked_up():
    names = Names()
    async with FarHost() as host:
        host.replies["/a"] = reply(PICTURE)
        assert (await fetched(host.fetcher(names), host.url(name=FAR)))[1] == PICTURE
    assert names.asked == []


@pytest.mark.spec("D30")
async def test_the_last_look_is_at_the_very_socket(monkeypatch: pytest.MonkeyPatch):
    """Should the library ever ask another address than it was told, its socket does not open."""
    async with FarHost() as host, FarHost(address=INSIDE) as inside:

        async def elsewhere(*_: object, **__: object) -> list[dict[str, object]]:
            return [
                {"hostname": NAME, "host": INSIDE, "port": inside.port, "family": 2}
                | {"proto": 6, "flags": 0}
            ]

        monkeypatch.setattr("monoize.media.fetch._Pinned.resolve", elsewhere)
        with listening() as heard, pytest.raises(InvalidRequest, match="could not be read"):
            await fetched(host.fetcher(), host.url())
    assert heard.connections == []


async def test_the_systems_own_look_up_is_asked_in_a_thread_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
):
    asked = []

    def known(host: str, port: int, **_: object) -> list[object]:
        asked.append((host, port))
        return [(2, 1, 6, "", ("10.0.0.7", port)), (10, 1, 6, "", ("2606:4700::1", port, 0, 0))]

    monkeypatch.setattr("socket.getaddrinfo", known)
    fetcher = Fetcher(HttpUrlSettings(enabled=True))
    with listening() as heard, pytest.raises(Forbidden, match="may not be fetched"):
        await fetched(fetcher, "https://files.example.org/a")
    fetcher.close()
    assert (asked, heard.connections) == ([("files.example.org", 443)], [])


@pytest.mark.spec("D30")
@pytest.mark.parametrize("known", [OSError("not known"), UnicodeError("no name"), TimeoutError()])
async def test_a_name_that_is_not_known_sounds_like_one_that_is_known_inside_only(known: Exception):
    async def unknown(_: str, __: int) -> list[str]:
        raise known

    async with FarHost() as host:
        said = set()
        for look_up in (unknown, answers(INSIDE), answers("fe80::1%eth0"), answers("nonsense")):
            with pytest.raises(Forbidden) as refused:
                await fetched(host.fetcher(look_up), host.url())
            said.add(str(refused.value))
    assert said == {"this address may not be fetched"}


# --- redirects -----------------------------------------------------------------------------------


@pytest.mark.spec("D30", "CVE-2025-62155")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_follows_redirects_and_looks_each_step_up(status: int):
    names = answers(FAR)
    async with FarHost() as host:
        host.replies["/a"] = moved("/b", status, set_cookie="a=b", refresh="0; url=/evil")
        host.replies["/b"] = moved(host.url("/c", "other.example.org"), status)
        host.replies["/c"] = reply(PICTURE)
        _, data = await fetched(host.fetcher(names), host.url())
    assert (data, host.paths) == (PICTURE, ["/a", "/b", "/c"])
    assert names.asked == [NAME, NAME, "other.example.org"]
    assert not [head for head in host.heads if "cookie" in head.lower() or "refer" in head.lower()]


async def test_follows_only_so_often():
    async with FarHost() as host:
        host.replies |= {f"/{n}": moved(f"/{n + 1}") for n in range(10)}
        with pytest.raises(InvalidRequest, match="more than 2 times"):
            await fetched(host.fetcher(redirects=2), host.url("/0"))
        assert host.paths == ["/0", "/1", "/2"]
        with pytest.raises(InvalidRequest, match="more than 0 times"):
            await fetched(host.fetcher(redirects=0), host.url("/0"))


@pytest.mark.parametrize("places", [None, [""], ["/b", "/c"]])
async def test_a_redirect_that_does_not_say_where_is_a_failure(places: list[str] | None):
    async with FarHost() as host:
        host.replies["/a"] = reply(status="302 Found", location=places)
        with pytest.raises(InvalidRequest, match="does not say where"):
            await fetched(host.fetcher(), host.url())
    assert host.paths == ["/a"]


@pytest.mark.spec("D30")
async def test_the_operators_hosts_hold_for_redirects_too():
    async with FarHost() as host:
        host.replies["/a"] = moved(host.url("/b", "other.example.org"))
        with pytest.raises(Forbidden):
            await fetched(host.fetcher(hosts=[NAME]), host.url())
    assert host.paths == ["/a"]


# --- limits --------------------------------------------------------------------------------------


async def chunked(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    writer.write(b"3e8\r\n" + bytes(1000) + b"\r\n" + b"1\r\nx\r\n0\r\n\r\n")
    await writer.drain()


@pytest.mark.spec("D30")
async def test_a_size_that_is_told_is_judged_before_anything_is_read():
    async with FarHost() as host:
        host.replies["/a"] = reply(bytes(1001))
        with pytest.raises(PayloadTooLarge, match="1000 bytes"):
            async with host.fetcher(max_bytes=1000).fetched(host.url()):
                pytest.fail("it was opened")
        host.replies["/a"] = reply(bytes(1000))
        assert len((await fetched(host.fetcher(max_bytes=1000), host.url()))[1]) == 1000


@pytest.mark.spec("D30")
async def test_a_size_that_is_not_told_is_counted():
    async with FarHost() as host:
        host.replies["/a"] = chunked
        with pytest.raises(PayloadTooLarge, match="1000 bytes"):
            await fetched(host.fetcher(max_bytes=1000), host.url())
        assert len((await fetched(host.fetcher(max_bytes=1001), host.url()))[1]) == 1001


@pytest.mark.parametrize(
    "status", ["204 No Content", "206 Partial", "304 Same", "404 No", "500 Oh"]
)
async def test_other_answers_than_a_file_are_failures(status: str):
    async with FarHost() as host:
        host.replies["/a"] = reply(status=status)
        with pytest.raises(InvalidRequest, match=f"status {status[:3]}"):
            await fetched(host.fetcher(), host.url())


@pytest.mark.spec("D30")
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "identity, gzip"])
async def test_takes_no_packed_bytes(coding: str):
    async with FarHost() as host:
        host.replies["/a"] = reply(b"x", content_encoding=coding)
        with pytest.raises(InvalidRequest, match="encoding"):
            await fetched(host.fetcher(), host.url())


async def test_refuses_when_switched_off():
    fetcher = Fetcher(HttpUrlSettings())
    assert not fetcher.enabled
    with listening() as heard, pytest.raises(Forbidden, match="switched off"):
        await fetched(fetcher, "https://example.org/")
    assert (heard.connections, heard.look_ups) == ([], [])


# --- TLS -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ssl.SSLContext]:
    """A server's context by the name on its certificate; `""` gives the context of a client that believes them."""
    folder = tmp_path_factory.mktemp("tls")
    begun = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    ended = dt.datetime(2120, 1, 1, tzinfo=dt.UTC)
    authority = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])

    def signed(name: str, key: ec.EllipticCurvePrivateKey, *, ca: bool) -> bytes:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return (
            x509.CertificateBuilder()
            .subject_name(issuer if ca else subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begun)
            .not_valid_after(ended)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .sign(authority, hashes.SHA256())
            .public_bytes(serialization.Encoding.PEM)
        )

    def context(name: str) -> ssl.SSLContext:
        if not name:
            made = ssl.create_default_context()
            made.load_verify_locations(cadata=signed("ca.test", authority, ca=True).decode())
            return made
        key = ec.generate_private_key(ec.SECP256R1())
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        (folder / name).write_bytes(secret + signed(name, key, ca=False))
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(folder / name)
        return made

    return context


@pytest.mark.spec("D30")
async def test_tls_is_for_the_name_though_the_socket_goes_to_an_address(certificates):
    shown: list[str | None] = []
    server = certificates(NAME)
    server.sni_callback = lambda _, name, __: shown.append(name)
    async with FarHost(server) as host:
        host.replies["/a"] = reply(PICTURE)
        _, data = await fetched(host.fetcher(tls=certificates("")), host.url())
    assert (data, shown) == (PICTURE, [NAME])
    assert f"Host: {NAME}:{host.port}" in host.heads[0]


@pytest.mark.spec("D30")
async def test_a_certificate_must_be_for_the_name_and_believed(certificates):
    async with FarHost(certificates("other.example.org")) as host:
        host.replies["/a"] = reply(PICTURE)
        with pytest.raises(InvalidRequest, match="could not be read"):
            await fetched(host.fetcher(tls=certificates("")), host.url())
    async with FarHost(certificates(NAME)) as host:
        host.replies["/a"] = reply(PICTURE)
        with pytest.raises(InvalidRequest, match="could not be read"):
            await fetched(host.fetcher(), host.url())
    assert host.heads == []


@pytest.mark.spec("D30", "CVE-2025-62155")
async def test_what_began_in_secret_does_not_go_on_in_plain_text(certificates):
    async with FarHost(certificates(NAME)) as host, FarHost() as plain:
        host.replies["/a"] = moved(plain.url("/b"))
        plain.replies["/b"] = reply(PICTURE)
        globs = [NAME, f"{NAME}:{plain.port}"]
        with pytest.raises(Forbidden):
            await fetched(host.fetcher(tls=certificates(""), hosts=globs), host.url())
        assert plain.heads == []
        plain.replies["/c"] = moved(host.url("/d"))  # the other way round is an improvement
        host.replies["/d"] = reply(PICTURE)
        fetcher = host.fetcher(tls=certificates(""), hosts=globs)
        assert (await fetched(fetcher, plain.url("/c")))[1] == PICTURE
