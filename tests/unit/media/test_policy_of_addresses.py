"""Which URLs are read at all and how, and which addresses may be connected to."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monoize.errors import Forbidden, InvalidRequest
from monoize.media.policy import FetchPolicy, Target, is_public
from monoize.settings import HttpUrlSettings

OPEN = FetchPolicy(HttpUrlSettings(enabled=True))

PUBLIC = (
    "1.1.1.1",
    "8.8.8.8",
    "93.184.215.14",
    "100.63.255.255",  # the last before the carriers' NAT
    "100.128.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.1",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2001:4860:4860::8888",
    "2a00:1450:4001:81b::200e",
    "2001:200::1",  # the first after the protocol assignments
)

CLOSED = {
    "0.0.0.0": "unspecified",
    "0.1.2.3": "this network",
    "10.0.0.1": "private",
    "10.255.255.255": "private",
    "100.64.0.1": "carriers' NAT",
    "100.100.100.200": "Alibaba's metadata",
    "100.127.255.255": "carriers' NAT",
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "168.63.129.16": "Azure's platform",
    "169.254.0.23": "Tencent's metadata",
    "169.254.169.254": "metadata",
    "169.254.170.2": "credentials of Amazon's containers",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.0.0.8": "protocol assignments",
    "192.0.0.192": "Oracle's metadata",
    "192.0.2.1": "documentation",
    "192.31.196.1": "AS112",
    "192.52.193.1": "multicast tunnels",
    "192.88.99.1": "6to4 relay",
    "192.168.0.1": "private",
    "192.175.48.6": "AS112",
    "198.18.0.1": "benchmarks",
    "198.19.255.255": "benchmarks",
    "198.51.100.7": "documentation",
    "203.0.113.7": "documentation",
    "224.0.0.1": "multicast",
    "239.255.255.250": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "broadcast",
    "::": "unspecified",
    "::1": "loopback",
    "::7f00:1": "IPv4-compatible",
    "::8.8.8.8": "IPv4-compatible",
    "::ffff:127.0.0.1": "IPv4-mapped",
    "::ffff:8.8.8.8": "IPv4-mapped",
    "::ffff:0:127.0.0.1": "IPv4-translated",
    "64:ff9b::7f00:1": "NAT64",
    "64:ff9b::808:808": "NAT64",
    "64:ff9b:1::a00:1": "local NAT64",
    "100::1": "discard",
    "2001::1": "Teredo",
    "2001:0:53aa:64c:0:ffff:80ff:fffe": "Teredo",
    "2001:2::1": "benchmarks",
    "2001:10::1": "ORCHID",
    "2001:20::1": "ORCHIDv2",
    "2001:1ff:ffff::1": "protocol assignments",
    "2001:db8::1": "documentation",
    "2002:7f00:1::": "6to4 of loopback",
    "2002:a9fe:a9fe::1": "6to4 of the metadata",
    "2002:808:808::1": "6to4",
    "2606:4700::5efe:a00:1": "ISATAP of a private address",
    "2606:4700::200:5efe:a00:1": "ISATAP",
    "2620:4f:8000::1": "AS112",
    "3ffe::1": "6bone",
    "3fff::1": "documentation",
    "4000::1": "not given out",
    "5f00::1": "segment routing",
    "fc00::1": "unique local",
    "fd00:ec2::254": "Amazon's metadata",
    "fd20:ce::254": "Google's metadata",
    "fe80::1": "link-local",
    "fe80::a9fe:a9fe": "link-local",
    "febf::1": "link-local",
    "fec0::1": "site-local",
    "ff02::1": "multicast",
    "ff0e::1": "multicast",
}


@pytest.mark.spec("D30", "S4-3.5")
@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_are_open(text: str):
    assert is_public(ip_address(text))


@pytest.mark.spec("D30", "S4-3.5", "CVE-2026-42339")
@pytest.mark.parametrize("text", CLOSED)
def test_special_addresses_are_closed(text: str):
    assert not is_public(ip_address(text)), CLOSED[text]


@pytest.mark.spec("D30")
def test_the_judgement_of_the_standard_library_alone_would_not_do():
    let_pass = {text for text in CLOSED if ip_address(text).is_global}
    assert {"224.0.0.1", "168.63.129.16", "64:ff9b::7f00:1", "fec0::1", "ff02::1"} <= let_pass
    assert {"::7f00:1", "2606:4700::5efe:a00:1"} <= let_pass  # and 6to4, by the newer ones


@pytest.mark.spec("D30")
@given(st.ip_addresses(v=4))
def test_every_ipv4_address_is_closed_in_every_form_inside_another(address: IPv4Address):
    bits = int(address)
    forms = {
        "compatible": bits,
        "mapped": 0xFFFF << 32 | bits,
        "translated": 0xFFFF << 48 | bits,
        "NAT64": 0x64_FF9B << 96 | bits,
        "local NAT64": 0x64_FF9B_0001 << 80 | bits,
        "6to4": 0x2002 << 112 | bits << 80 | 1,
        "Teredo server": 0x2001 << 112 | bits << 64 | 0xFFFF << 32 | 1,
        "Teredo client": 0x2001 << 112 | (bits ^ 0xFFFF_FFFF),
        "ISATAP": 0x2606_4700 << 96 | 0x5EFE << 32 | bits,
        "unique ISATAP": 0x2606_4700 << 96 | 0x0200_5EFE << 32 | bits,
        "link-local ISATAP": 0xFE80 << 112 | 0x5EFE << 32 | bits,
    }
    assert not [name for name, form in forms.items() if is_public(IPv6Address(form))]


@pytest.mark.spec("D30")
@given(st.ip_addresses())
def test_an_open_address_is_plain_global_unicast(address: IPv4Address | IPv6Address):
    if is_public(address):
        assert address.is_global
        kinds = ("multicast", "private", "reserved", "loopback", "link_local", "unspecified")
        assert not [kind for kind in kinds if getattr(address, f"is_{kind}")]


# --- URLs ----------------------------------------------------------------------------------------

READ = {
    "https://example.org": ("https", "example.org", 443, "/"),
    "http://example.org/": ("http", "example.org", 80, "/"),
    "HTTPS://Example.ORG/A": ("https", "example.org", 443, "/A"),
    "https://example.org./a": ("https", "example.org", 443, "/a"),
    "https://example.org:443/a": ("https", "example.org", 443, "/a"),
    "https://example.org:80/a": ("https", "example.org", 80, "/a"),
    "https://example.org?a=b": ("https", "example.org", 443, "/?a=b"),
    "https://example.org/a?b=c&d=%20#there": ("https", "example.org", 443, "/a?b=c&d=%20"),
    "https://example.org/a/../b": ("https", "example.org", 443, "/a/../b"),
    "https://example.org/bücher": ("https", "example.org", 443, "/b%C3%BCcher"),
    'https://example.org/<a>"b"': ("https", "example.org", 443, "/%3Ca%3E%22b%22"),
    "https://example.org/\ud800": ("https", "example.org", 443, "/%ED%A0%80"),
    "https://xn--bcher-kva.example/": ("https", "xn--bcher-kva.example", 443, "/"),
    "https://a_b.example.org/": ("https", "a_b.example.org", 443, "/"),
    "https://1.1.1.1/": ("https", "1.1.1.1", 443, "/"),
    "https://1.1.1.1./": ("https", "1.1.1.1", 443, "/"),
    "https://[2606:4700:4700:0:0:0:0:1111]/": ("https", "2606:4700:4700::1111", 443, "/"),
    "https://[2606:4700:4700::1111]:443/": ("https", "2606:4700:4700::1111", 443, "/"),
    "https://example.org/http://127.0.0.1/": ("https", "example.org", 443, "/http://127.0.0.1/"),
    "https://example.org/@127.0.0.1/": ("https", "example.org", 443, "/@127.0.0.1/"),
    "https://3.14.example.org/": ("https", "3.14.example.org", 443, "/"),
}


@pytest.mark.spec("D30")
@pytest.mark.parametrize("url", READ)
def test_a_url_is_read_into_its_one_form(url: str):
    target = OPEN.target(url)
    assert (target.scheme, target.host, target.port, target.rest) == READ[url]
    assert OPEN.target(target.url) == target  # and its own form is read alike


@pytest.mark.spec("D30")
@given(st.text(max_size=80))
def test_whatever_is_written_is_read_or_refused(text: str):
    for url in (text, f"http://{text}", f"https://example.org{text}", f"http://1.1.1.1:{text}"):
        try:
            target = OPEN.target(url)
        except (InvalidRequest, Forbidden):
            continue
        assert target.url.isascii()
        assert target.rest.startswith("/")
        assert OPEN.target(target.url) == target


@pytest.mark.spec("D30")
def test_nothing_is_fetched_unless_the_operator_says_so():
    for settings in (HttpUrlSettings(), HttpUrlSettings(hosts=("example.org",))):
        with pytest.raises(Forbidden, match="switched off"):
            FetchPolicy(settings).target("https://example.org/")


HOSTS = (
    # globs, URL, whether it may be asked
    (("*",), "https://anybody.example.org/", True),
    (("*",), "https://anybody.example.org:8443/", False),
    (("*",), "http://anybody.example.org:22/", False),
    (("*",), "http://anybody.example.org:6379/", False),
    (("*:8443",), "https://anybody.example.org:8443/", True),
    (("*:8443",), "https://anybody.example.org/", False),
    (("files.example.org",), "https://files.example.org/", True),
    (("Files.Example.org.",), "https://files.example.org/", True),
    (("files.example.org",), "https://FILES.example.org./", True),
    (("files.example.org",), "https://example.org/", False),
    (("files.example.org",), "https://files.example.org.evil.example/", False),
    (("files.example.org",), "https://evil.example/files.example.org", False),
    (("files.example.org",), "https://evil.example/?files.example.org", False),
    (("files.example.org",), "https://filesXexample.org/", False),
    (("*.example.org",), "https://a.b.example.org/", True),
    (("*.example.org",), "https://example.org/", False),
    (("*.example.org",), "https://evilexample.org/", False),
    (("*.example.org", "example.org"), "https://example.org/", True),
    (("files.example.org:8443",), "https://files.example.org:8443/", True),
    (("files.example.org:8443",), "https://files.example.org/", False),
    (("files.example.org:8443",), "https://other.example.org:8443/", False),
    (("files.example.org", "files.example.org:8443"), "https://files.example.org/", True),
    (("1.1.1.1",), "https://1.1.1.1/", True),
    (("example.org",), "https://1.1.1.1/", False),
    (("[2606:4700::1]:8443",), "https://[2606:4700::1]:8443/", True),
    (("[2606:4700::1]",), "https://[2606:4700::1]/", True),
    (("2606:4700::1",), "https://[2606:4700::1]/", True),
    ((), "https://example.org/", False),
)


@pytest.mark.spec("D30")
@pytest.mark.parametrize(("globs", "url", "may"), HOSTS)
def test_the_operator_names_hosts_and_ports(globs: tuple[str, ...], url: str, may: bool):
    policy = FetchPolicy(HttpUrlSettings(enabled=True, hosts=globs))
    if may:
        assert policy.target(url)
    else:
        with pytest.raises(Forbidden, match="may not be fetched"):
            policy.target(url)


@pytest.mark.spec("D30", "S4-3.5")
def test_no_glob_opens_what_lies_inside():
    for inside in ("127.0.0.1", "169.254.169.254", "localhost", "db.internal", "[::1]"):
        policy = FetchPolicy(HttpUrlSettings(enabled=True, hosts=(inside, f"{inside}:80", "*")))
        with pytest.raises(Forbidden, match="may not be fetched"):
            policy.target(f"http://{inside}/")


WORDS = {
    "http://user:password@example.org/": "a user or a password",
    "http://@example.org/": "a user or a password",
    "ftp://example.org/": "must begin with http:// or https://",
    "http://bücher.example/": "xn--",
    "http://127.1/": "not in its usual form",
    "http://exam ple.org/": "a blank",
    "http://example.org:80:80/": "no plain host",
    "http://example.org:0/": "no port",
    f"http://example.org/{'a' * 9000}": "too long",
}


@pytest.mark.parametrize("url", WORDS)
def test_a_url_that_is_none_is_told_why(url: str):
    with pytest.raises(InvalidRequest, match=WORDS[url]):
        OPEN.target(url)


@pytest.mark.spec("D30")
def test_a_name_without_a_dot_is_somebodys_own():
    for name in ("redis", "metadata", "localhost", "redis.", "xn--bcher-kva"):
        with pytest.raises(Forbidden, match="may not be fetched"):
            OPEN.target(f"http://{name}/")


@pytest.mark.spec("D30")
def test_every_address_of_a_name_must_be_open():
    good, bad = ip_address("1.1.1.1"), ip_address("10.0.0.1")
    OPEN.check((good,))
    OPEN.check((good, ip_address("2606:4700::1")))
    for addresses in ((), (bad,), (good, bad), (bad, good)):
        with pytest.raises(Forbidden, match="may not be fetched"):
            OPEN.check(addresses)


@pytest.mark.spec("D30", "CVE-2025-62155")
def test_a_redirect_is_joined_and_checked_like_an_address_of_its_own():
    here = OPEN.target("https://example.org/a/b?c")
    assert OPEN.follow(here, "d").url == "https://example.org/a/d"
    assert OPEN.follow(here, "/d?e=f#g").url == "https://example.org/d?e=f"
    assert OPEN.follow(here, "//other.example/d").url == "https://other.example/d"
    assert OPEN.follow(here, "https://other.example").url == "https://other.example/"
    for inside in ("//127.0.0.1/", "http://example.org/", "https://10.0.0.1/", "//[::1]/"):
        with pytest.raises(Forbidden):
            OPEN.follow(here, inside)
    for broken in ("file:///etc/passwd", "https:\t//127.0.0.1/", "\\\\127.0.0.1\\a", "//[", "a b"):
        with pytest.raises(InvalidRequest):
            OPEN.follow(here, broken)
    plain = OPEN.target("http://example.org/")
    assert OPEN.follow(plain, "https://example.org/").scheme == "https"


@pytest.mark.spec("D30")
def test_a_refusal_sounds_the_same_whatever_is_there():
    said = set()
    for url in ("http://127.0.0.1/", "http://10.0.0.1/", "http://db.internal/", "http://x.org:22/"):
        with pytest.raises(Forbidden) as refused:
            OPEN.target(url)
        said.add((refused.value.message, refused.value.http_status, refused.value.error_code))
    assert said == {("this address may not be fetched", 403, "forbidden")}


def test_a_target_writes_an_ipv6_host_in_brackets():
    target = Target(scheme="http", host="::1", port=8080, rest="/a", address=IPv6Address("::1"))
    assert target.url == "http://[::1]:8080/a"
