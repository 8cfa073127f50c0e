"""CVE-2025-59146, CVE-2025-62155, CVE-2026-42339, GHSA-6qcr-qxgr-m7fv, PK#1372, LL#24952: one filter, bypassed every which way.

Each row of the table was once used to make a server call where it should not. Here each is tried as the caller's own
address and as the place that an honest host redirects to. Python's audit events say what this process really did: no
connection, and no look-up behind the policy's back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from fakes.far_host import FAR, INSIDE, NAME, FarHost, Names, listening, moved, reply
from monoize.errors import Forbidden, InvalidRequest
from monoize.media.fetch import Fetcher
from monoize.settings import HttpUrlSettings

pytestmark = pytest.mark.spec(
    "D30",
    "T27",
    "S4-3.5",
    "CVE-2025-59146",
    "CVE-2025-62155",
    "CVE-2026-42339",
    "GHSA-6qcr-qxgr-m7fv",
    "PK#1372",
    "LL#24952",
)

REFUSAL = "this address may not be fetched"
Answers = Sequence[str]

# URL, and what its host's name would answer: (), where it is never asked.
BYPASSES: tuple[tuple[str, Answers], ...] = (
    # --- other schemes than http ---
    ("gopher://127.0.0.1:6379/_*1%0d%0a$8%0d%0aflushall", ()),  # another protocol's bytes
    ("file:///etc/passwd", ()),  # a file of this machine
    ("file://localhost/etc/passwd", ()),  # the same with a host
    ("ftp://127.0.0.1/", ()),  # another protocol
    ("dict://127.0.0.1:11211/stats", ()),  # another protocol
    ("ldap://127.0.0.1/", ()),  # another protocol
    ("tftp://127.0.0.1:69/a", ()),  # another protocol
    ("jar:http://127.0.0.1!/a", ()),  # a scheme around a scheme
    ("netdoc:///etc/passwd", ()),  # Java's name for file
    ("data:text/plain,hello", ()),  # no host at all
    ("javascript:fetch('http://127.0.0.1/')", ()),  # no host at all
    ("unix:///var/run/docker.sock", ()),  # a socket of this machine
    ("http+unix://%2Fvar%2Frun%2Fdocker.sock/info", ()),  # the same, in a scheme that begins well
    ("http\u017f://example.org/", ()),  # a letter that lower-casing turns into s
    ("//127.0.0.1/", ()),  # no scheme
    ("127.0.0.1", ()),  # nothing but a host
    ("", ()),  # nothing
    # --- a scheme that is not followed by its two slashes ---
    ("http:127.0.0.1/", ()),  # browsers add the slashes
    ("http:/127.0.0.1/", ()),  # browsers add one
    ("http:///127.0.0.1/", ()),  # browsers leave one out
    ("http:////127.0.0.1/", ()),  # and another
    ("http:\\\\127.0.0.1\\", ()),  # backslashes for slashes
    ("ht\ntp://127.0.0.1/", ()),  # browsers leave out line ends
    (" http://127.0.0.1/", ()),  # blanks before it
    ("http://127.0.0.1\t/", ()),  # blanks after the host
    ("http://\u200b127.0.0.1/", ()),  # a blank of no width
    # --- loopback and the like, plainly ---
    ("http://127.0.0.1/", ()),  # loopback
    ("https://127.0.0.1/", ()),  # loopback
    ("http://127.127.127.127/", ()),  # all of 127/8 is loopback
    ("http://0.0.0.0/", ()),  # CVE-2026-42339: unspecified is this machine
    ("http://0.1.2.3/", ()),  # all of 0/8
    ("http://10.0.0.1/", ()),  # private
    ("http://172.16.0.1/", ()),  # private
    ("http://192.168.1.1/", ()),  # private
    ("http://100.64.0.1/", ()),  # carriers' NAT
    ("http://198.18.0.1/", ()),  # benchmarks
    ("http://224.0.0.251/", ()),  # multicast
    ("http://240.0.0.1/", ()),  # reserved
    ("http://255.255.255.255/", ()),  # broadcast
    # --- other spellings of IPv4 ---
    ("http://127.1/", ()),  # short
    ("http://127.0.1/", ()),  # short
    ("http://0/", ()),  # shortest: 0.0.0.0
    ("http://2130706433/", ()),  # decimal
    ("http://4294967297/", ()),  # decimal beyond 32 bits, cut by some
    ("http://0177.0.0.1/", ()),  # octal
    ("http://0177.0.0.01/", ()),  # octal
    ("http://017700000001/", ()),  # octal, whole
    ("http://0o177.0.0.1/", ()),  # octal as newer languages write it
    ("http://127.0.0.01/", ()),  # a leading zero: octal to some, decimal to others
    ("http://010.0.0.1/", ()),  # 8.0.0.1 or 10.0.0.1, according to who reads
    ("http://0x7f.0.0.1/", ()),  # hexadecimal
    ("http://0x7f000001/", ()),  # hexadecimal, whole
    ("http://0x7F.1/", ()),  # hexadecimal and short
    ("http://0x7f.0x0.0x0.0x1/", ()),  # hexadecimal in each place
    ("http://0251.0376.0251.0376/", ()),  # octal metadata
    ("http://2852039166/", ()),  # decimal metadata
    ("http://0xA9.0xFE.0xA9.0xFE/", ()),  # hexadecimal metadata
    ("http://425.510.425.510/", ()),  # metadata with 256 on each place
    ("http://127.0.0.1./", ()),  # a dot behind it
    ("http://127.0.0.1../", ()),  # two dots behind it
    ("http://127。0。0。1/", ()),  # ideographic full stops
    ("http://①②⑦.⓪.⓪.①/", ()),  # encircled digits
    ("http://\uff11\uff12\uff17.\uff10.\uff10.\uff11/", ()),  # digits of full width
    ("http://1٢7.0.0.1/", ()),  # a digit of another script
    ("http://127%2e0%2e0%2e1/", ()),  # encoded dots
    ("http://%31%32%37.0.0.1/", ()),  # encoded digits
    ("http://%6c%6f%63%61%6c%68%6f%73%74/", ()),  # an encoded name
    ("http://127.0.0.1%00.example.org/", ()),  # a zero byte that ends it for some
    ("http://127.0.0.1%2f@example.org/", ()),  # an encoded slash in what looks like a user
    # --- IPv6 ---
    ("http://[::1]/", ()),  # loopback
    ("http://[0000:0000:0000:0000:0000:0000:0000:0001]/", ()),  # loopback at length
    ("http://[::]/", ()),  # unspecified
    ("http://[0:0:0:0:0:0:0:0]/", ()),  # unspecified at length
    ("http://[::ffff:127.0.0.1]/", ()),  # IPv4-mapped
    ("http://[::ffff:7f00:1]/", ()),  # IPv4-mapped
    ("http://[0:0:0:0:0:ffff:169.254.169.254]/", ()),  # IPv4-mapped metadata
    ("http://[::ffff:8.8.8.8]/", ()),  # mapped, and public: still no address of its own
    ("http://[::127.0.0.1]/", ()),  # IPv4-compatible
    ("http://[::ffff:0:127.0.0.1]/", ()),  # IPv4-translated
    ("http://[64:ff9b::7f00:1]/", ()),  # NAT64
    ("http://[64:ff9b::169.254.169.254]/", ()),  # NAT64 metadata
    ("http://[64:ff9b:1::10.0.0.1]/", ()),  # local NAT64
    ("http://[2002:7f00:1::]/", ()),  # 6to4
    ("http://[2002:a9fe:a9fe::1]/", ()),  # 6to4 metadata
    ("http://[2001:0:53aa:64c::1]/", ()),  # Teredo
    ("http://[2001:10::1]/", ()),  # ORCHID
    ("http://[2606:4700::5efe:7f00:1]/", ()),  # ISATAP
    ("http://[fc00::1]/", ()),  # unique local
    ("http://[fd00:ec2::254]/latest/meta-data/", ()),  # Amazon's metadata
    ("http://[fe80::1]/", ()),  # link-local
    ("http://[fe80::1%25eth0]/", ()),  # with a zone
    ("http://[::1%25lo]/", ()),  # loopback with a zone
    ("http://[fec0::1]/", ()),  # site-local
    ("http://[ff02::1]/", ()),  # multicast
    ("http://[v1.127.0.0.1]/", ()),  # an address of the future
    ("http://[127.0.0.1]/", ()),  # IPv4 in brackets
    ("http://[localhost]/", ()),  # a name in brackets
    ("http://[::1]example.org/", ()),  # something behind the brackets
    ("http://::1/", ()),  # no brackets
    # --- metadata ---
    ("http://169.254.169.254/latest/meta-data/iam/", ()),  # Amazon, Azure, Google, …
    ("http://169.254.170.2/v2/credentials/", ()),  # Amazon's containers
    ("http://100.100.100.200/latest/meta-data/", ()),  # Alibaba
    ("http://192.0.0.192/latest/", ()),  # Oracle
    ("http://168.63.129.16/machine/", ()),  # Azure's platform, at a public address
    # by name, whatever a resolver in between says of them
    ("http://metadata.google.internal/computeMetadata/v1/", ("8.8.8.8",)),  # Google, by name
    ("http://METADATA.Google.Internal./", ("8.8.8.8",)),  # in capitals, with a dot
    ("http://metadata.goog/", ("8.8.8.8",)),  # Google's other name
    ("http://metadata.tencentyun.com/", ("8.8.8.8",)),  # Tencent
    ("http://instance-data.ec2.internal/", ("8.8.8.8",)),  # Amazon, by name
    ("http://metadata/", ("8.8.8.8",)),  # the resolver would add a domain
    # --- names of this machine and of its neighbours ---
    ("http://localhost/", ("8.8.8.8",)),  # this machine
    ("http://LOCALHOST./", ("8.8.8.8",)),  # in capitals, with a dot
    ("http://foo.localhost/", ("8.8.8.8",)),  # below it
    ("http://localhost.localdomain/", ("8.8.8.8",)),  # its long name
    ("http://kubernetes.default.svc/", ("8.8.8.8",)),  # a cluster's own
    ("http://redis.default.svc.cluster.local/", ("8.8.8.8",)),  # a cluster's own
    ("http://printer.local/", ("8.8.8.8",)),  # the local network's own
    ("http://redis/", ("8.8.8.8",)),  # a container beside ours
    ("http://1.0.0.127.in-addr.arpa/", ("8.8.8.8",)),  # the name of an address
    # --- public names that lead inside: GHSA-6qcr-qxgr-m7fv, the name was not looked up ---
    ("http://localtest.me/", ("127.0.0.1",)),  # a name for loopback
    ("http://127.0.0.1.nip.io/", ("127.0.0.1",)),  # a name for any address
    ("http://app-10-0-0-1.sslip.io/", ("10.0.0.1",)),  # a name for any address
    ("http://spoofed.example.org/", ("169.254.169.254",)),  # one's own name
    ("http://mapped.example.org/", ("::ffff:127.0.0.1",)),  # in the newer family
    ("http://nat64.example.org/", ("64:ff9b::7f00:1",)),  # as a resolver in front of NAT64 answers
    ("http://zero.example.org/", ("0.0.0.0",)),  # unspecified
    ("http://six.example.org/", ("::1",)),  # loopback
    ("http://zone.example.org/", ("fe80::1%eth0",)),  # with a zone
    ("http://mixed.example.org/", ("8.8.8.8", "127.0.0.1")),  # a good address, then a bad one
    ("http://mixed.example.org/", ("127.0.0.1", "8.8.8.8")),  # the other way round
    ("http://mixed.example.org/", ("8.8.8.8", "2606:4700::1", "fd00::1")),  # in the other family
    ("http://nobody.example.org/", ()),  # a name that nobody has
    ("http://none.example.org/", ("",)),  # an answer that is none
    ("http://xn--lcalhost-54a.example.org/", ("127.0.0.1",)),  # letters that look alike
    # --- two readers, two hosts ---
    ("http://example.org@127.0.0.1/", ()),  # a host that is a user
    ("http://127.0.0.1@example.org/", ("8.8.8.8",)),  # a user that is a host
    ("http://user:password@127.0.0.1/", ()),  # credentials
    ("http://@127.0.0.1/", ()),  # no user, but his sign
    ("http://example.org:80@127.0.0.1/", ()),  # a port that is a password
    ("http://a@b@127.0.0.1/", ()),  # two of them
    ("http://example.org\\@127.0.0.1/", ("8.8.8.8",)),  # the slash that some turn
    ("http://127.0.0.1\\@example.org/", ("8.8.8.8",)),  # and the other way
    ("http://example.org\\.127.0.0.1/", ("8.8.8.8",)),  # in a name
    ("http://example.org;.127.0.0.1/", ()),  # a separator of older readers
    ("http://example.org,127.0.0.1/", ()),  # two hosts
    ("http://127.0.0.1 example.org/", ()),  # two hosts
    ("http://127.0.0.1:80:80/", ()),  # two ports
    ("http://example.org:80:@127.0.0.1/", ()),  # port and user
    ("http://example.org:/", ("127.0.0.1",)),  # a port that is none
    ("http://exa mple.org/", ()),  # a blank inside
    ("http://example.org\r\nHost: 127.0.0.1/", ()),  # a header of one's own
    ("http://example.org/a\r\nX-A: b", ("8.8.8.8",)),  # a header of one's own
    ("http://example..org/", ()),  # an empty label
    ("http://.example.org/", ()),  # an empty label
    ("http://-.example.org/", ()),  # no letter
    (f"http://{'a' * 64}.example.org/", ()),  # a label that is too long
    (f"http://{'a.' * 140}example.org/", ()),  # a name that is too long
    ("http://ⓔⓧⓐⓜⓟⓛⓔ.ⓞⓡⓖ/", ()),  # encircled letters
    ("http://loc\u00adalhost/", ()),  # a hyphen that is not shown
    ("http://example.org\u2044@127.0.0.1/", ()),  # what looks like a slash
    ("http://example.org\uff0f127.0.0.1/", ()),  # a slash of full width
    ("http://ex\ud800ample.org/", ()),  # half a character
)

# Ports where something else than the web listens.
PORTS = (
    *("http://example.org:22/", "http://example.org:25/", "http://example.org:2375/"),
    *("http://example.org:3306/", "http://example.org:6379/", "http://example.org:8080/"),
    *("http://example.org:9200/", "http://example.org:11211/", "https://example.org:10250/"),
    *("http://example.org:0/", "http://example.org:65536/", "http://example.org:65616/"),
    *("http://example.org:-80/", "http://example.org:+80/", "http://example.org:\uff18\uff10/"),
    *("http://example.org:0x50/", "http://example.org:80a/", "http://example.org:000000080/"),
)


def named_ports(url: str) -> list[str]:
    """So that no row is refused for its port alone."""
    return [f"*:{port}" for port in re.findall(r":(\d{1,5})(?=/|$)", url)]


def name_server(answers: Answers) -> Names:
    return Names(**({"*": [list(answers)]} if answers else {}))


def test_there_are_enough_of_them():
    assert len({url for url, _ in BYPASSES}) >= 60
    assert len(BYPASSES) + len(PORTS) >= 150


@pytest.mark.parametrize(("url", "answers"), BYPASSES)
async def test_no_connection_is_made(url: str, answers: Answers):
    names = name_server(answers)
    settings = HttpUrlSettings(enabled=True, hosts=("*", *named_ports(url)))
    fetcher = Fetcher(settings, look_up=names)
    with listening() as heard, pytest.raises((InvalidRequest, Forbidden)) as refused:
        async with fetcher.fetched(url):
            pass
    assert (heard.connections, heard.look_ups) == ([], [])
    assert len(names.asked) <= 1
    if isinstance(refused.value, Forbidden):
        assert refused.value.message == REFUSAL
    assert not any(
        address in str(refused.value) for address in (*answers, "127.", "169.") if address
    )


@pytest.mark.parametrize("url", PORTS)
async def test_no_connection_is_made_to_other_ports(url: str):
    fetcher = Fetcher(HttpUrlSettings(enabled=True), look_up=name_server(["8.8.8.8"]))
    with listening() as heard, pytest.raises((InvalidRequest, Forbidden)):
        async with fetcher.fetched(url):
            pass
    assert (heard.connections, heard.look_ups) == ([], [])


@pytest.mark.parametrize(
    ("number", "url", "answers"), [(n, url, answers) for n, (url, answers) in enumerate(BYPASSES)]
)
async def test_cve_2025_62155_nor_where_an_honest_host_redirects_to(
    number: int, url: str, answers: Answers
):
    """Only the first host is connected to, whatever status and spelling its redirect has."""
    status = (301, 302, 303, 307, 308)[number % 5]
    place = re.sub(r"[\r\n\x00]", "", url)  # what a header cannot hold
    async with FarHost() as host:
        host.replies["/a"] = moved(place, status)
        names = name_server(answers)
        names[NAME] = [[FAR]]
        fetcher = host.fetcher(names, hosts=["*", *named_ports(url)])
        with listening() as heard, pytest.raises((InvalidRequest, Forbidden)) as refused:
            async with fetcher.fetched(host.url()):
                pass
    # A place without scheme and slashes is one of the honest host's own, where there is nothing.
    own = not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:|//|[^!-~]|$", place)
    assert heard.connections == [(FAR, host.port)] * (2 if own else 1)
    assert heard.look_ups == []
    assert own == ("404" in str(refused.value))


# --- names that change their mind ----------------------------------------------------------------


async def test_a_name_that_changes_between_the_check_and_the_connection_gains_nothing():
    """DNS rebinding: the first answer is good, every later one leads inside."""
    for bad in (INSIDE, "10.0.0.1", "169.254.169.254", "::1"):
        names = Names(**{NAME: [[FAR], [bad]]})
        async with FarHost() as host, FarHost(address=INSIDE) as inside:
            host.replies["/a"] = reply(b"good")
            with listening() as heard:
                async with host.fetcher(names).fetched(host.url()) as blob:
                    assert await blob.read(99) == b"good"
        assert names.asked == [NAME]
        assert (heard.connections, heard.look_ups) == ([(FAR, host.port)], [])
        assert inside.heads == []


async def test_a_name_that_changes_between_two_steps_of_a_redirect_is_refused_at_the_second():
    names = Names(**{NAME: [[FAR], [INSIDE]]})
    async with FarHost() as host, FarHost(address=INSIDE) as inside:
        host.replies["/a"] = moved("/b")
        host.replies["/b"] = reply(b"never")
        with listening() as heard, pytest.raises(Forbidden, match=REFUSAL):
            async with host.fetcher(names).fetched(host.url()):
                pass
    assert names.asked == [NAME, NAME]
    assert heard.connections == [(FAR, host.port)]
    assert (host.paths, inside.heads) == (["/a"], [])


async def test_a_name_with_one_bad_address_is_refused_whole():
    for answers in ([FAR, INSIDE], [INSIDE, FAR], [FAR, "::1"], [FAR, "10.0.0.1", FAR]):
        async with FarHost() as host:
            host.replies["/a"] = reply(b"never")
            with listening() as heard, pytest.raises(Forbidden, match=REFUSAL):
                async with host.fetcher(name_server(answers)).fetched(host.url()):
                    pass
        assert heard.connections == []


# --- what looks dangerous and is only what it says -----------------------------------------------

HONEST = (
    "/http://127.0.0.1/",  # a path that looks like a URL
    "/@127.0.0.1/",  # a path that looks like a host
    "/a?url=http://169.254.169.254/",  # somebody else's parameter
    "/a?@127.0.0.1",
    "/%2e%2e/%2e%2e/etc/passwd",  # the other host's affair
    "/a%0d%0aX-A:%20b",  # stays encoded
)


@pytest.mark.parametrize("path", HONEST)
async def test_what_stands_behind_the_host_leads_nowhere_else(path: str):
    async with FarHost() as host:
        host.replies[path] = reply(b"good")
        with listening() as heard:
            async with host.fetcher().fetched(host.url(path) + "#@127.0.0.1/") as blob:
                assert await blob.read(99) == b"good"
    assert heard.connections == [(FAR, host.port)]
    assert host.paths == [path]
    assert "x-a" not in host.heads[0].lower().split("\r\n", 1)[1]
