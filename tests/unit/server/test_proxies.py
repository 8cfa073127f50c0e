import pytest

from monoize.server.proxies import TrustedProxies

OURS = TrustedProxies(["10.0.0.0/8", "::1", "192.0.2.7"])


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("203.0.113.9", "", "203.0.113.9"),
        ("203.0.113.9", "198.51.100.1", "203.0.113.9"),  # a stranger may write what it likes
        ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "1.1.1.1, 198.51.100.1", "198.51.100.1"),  # what stands before it is hearsay
        ("10.0.0.1", "1.1.1.1, 198.51.100.1, 192.0.2.7, 10.9.9.9", "198.51.100.1"),
        ("10.0.0.1", "10.0.0.2", "10.0.0.2"),
        ("10.0.0.1", "198.51.100.1, nonsense", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1:4711", "198.51.100.1"),
        ("10.0.0.1", "[2001:db8::5]:443", "2001:db8::5"),
        ("::1", "2001:db8::5", "2001:db8::5"),
        ("::ffff:10.0.0.1", "::ffff:198.51.100.1", "198.51.100.1"),
        (None, "198.51.100.1", None),
        ("/run/monoize.sock", "198.51.100.1", None),
    ],
)
def test_only_a_trusted_proxy_says_who_calls(peer, forwarded, address):
    assert OURS.caller_address(peer, forwarded) == address


def test_without_trusted_proxies_the_peer_is_the_caller():
    assert TrustedProxies(()).caller_address("127.0.0.1", "8.8.8.8") == "127.0.0.1"


def test_what_is_known_of_a_peer_does_not_stand_for_those_behind_it():
    ours = TrustedProxies(["10.0.0.0/8"])
    for _ in range(2):
        assert ours.caller_address("10.0.0.1", "") == "10.0.0.1"
        assert ours.caller_address("10.0.0.1", "198.51.100.1") == "198.51.100.1"
        assert ours.caller_address("10.0.0.1", "198.51.100.2") == "198.51.100.2"


def test_many_peers_do_not_fill_the_memory():
    ours = TrustedProxies(())
    for number in range(20_000):
        assert ours.caller_address(f"10.1.{number >> 8}.{number & 255}", "") is not None
    assert len(ours._peers) < 5000
