from contextlib import suppress
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monoize.errors import Forbidden, Unauthorized
from monoize.pipeline.call import NOBODY
from monoize.server import app, paths
from monoize.server.access import Access
from monoize.settings import KeySettings, RuleSettings, ServerSettings
from monoize.transform import compiled

KEY = KeySettings(name="dev", key="sk-0123456789", username="ann", max_multiplier="1.5")
OFF = KeySettings(name="off", key="sk-disabled-key", enabled=False)


def access(host="127.0.0.1", hosts=(), keys=(KEY, OFF)):
    return Access(ServerSettings(host=host, hosts=hosts), keys)


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer sk-0123456789"},
        {"authorization": "bearer  sk-0123456789"},
        {"x-api-key": "sk-0123456789"},
        {"x-goog-api-key": "sk-0123456789"},
    ],
)
async def test_takes_the_key_from_whichever_header_the_sdk_sends(headers):
    assert (await access().caller_of(headers)).key_name == "dev"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Basic eDp5"},
        {"x-api-key": "sk-012345678"},
        {"x-api-key": "sk-disabled-key"},
        {"x-api-key": "sk-0123456789\x00"},
    ],
)
async def test_refuses_what_is_no_caller_of_ours(headers):
    with pytest.raises(Unauthorized):
        await access().caller_of(headers)


@pytest.mark.spec("CTX-3", "PIPE-2")
async def test_a_key_brings_its_user_its_ceiling_and_its_rules():
    rules = compiled([RuleSettings(transform="strip_reasoning", phase="response")], "keys")
    gate = Access(ServerSettings(), (KEY,), {"dev": rules})
    caller = await gate.caller_of({"x-api-key": KEY.key})
    assert (caller.username, caller.max_multiplier, caller.rules) == ("ann", Decimal("1.5"), rules)
    nameless = Access(ServerSettings(), (KeySettings(name="ci", key="sk-9876543210"),))
    assert (await nameless.caller_of({"x-api-key": "sk-9876543210"})).username is None


async def test_without_keys_nobody_is_asked():
    assert await access(keys=()).caller_of({}) is NOBODY


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "localhost", "[::1]:8080"])
def test_loopback_names_are_served(host):
    access().check_site({"host": host})


@pytest.mark.parametrize(
    "host", ["evil.example:8080", "127.0.0.1.evil.example", "evil.example:80@127.0.0.1", "", "["]
)
def test_a_name_that_was_rebound_to_loopback_is_refused(host):
    with pytest.raises(Forbidden):
        access().check_site({"host": host})


def test_the_operator_may_name_hosts():
    access(hosts=("gw.example",)).check_site({"host": "GW.example"})


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1.evil.example"]
)
def test_pages_from_elsewhere_are_refused(origin):
    with pytest.raises(Forbidden):
        access().check_site({"host": "127.0.0.1:8080", "origin": origin})


def test_our_own_pages_are_served():
    access().check_site({"host": "127.0.0.1:8080", "origin": "http://127.0.0.1:8080"})
    access(host="0.0.0.0").check_site({"host": "gw.example", "origin": "https://gw.example"})


async def test_a_key_may_be_bound_to_addresses():
    bound = KeySettings(name="here", key="sk-0123456789", addresses=("10.0.0.0/8", "::1"))
    gate = access(keys=(bound,))
    for address in ("10.1.2.3", "::1"):
        assert (await gate.caller_of({"x-api-key": bound.key}, address)).key_name == "here"
    for address in ("11.1.2.3", "nonsense", None):
        with pytest.raises(Forbidden) as told:
            await gate.caller_of({"x-api-key": bound.key}, address)
        assert told.value.error_code == "address_not_allowed"


@pytest.mark.parametrize("name", ["authorization", "x-api-key"])
async def test_however_a_key_is_shown_its_addresses_hold(name):
    bound = KeySettings(name="here", key="sk-0123456789", addresses=("10.0.0.0/8",))
    gate = access(keys=(bound,))
    shown = {name: f"Bearer {bound.key}" if name == "authorization" else bound.key}
    assert (await gate.caller_of(shown, "10.1.2.3")).key_name == "here"
    with pytest.raises(Forbidden):
        await gate.caller_of(shown, "11.1.2.3")


def test_a_host_that_was_served_lets_no_page_from_elsewhere_in():
    gate = access()
    gate.check_site({"host": "localhost:8080"})
    with pytest.raises(Forbidden):
        gate.check_site({"host": "localhost:8080", "origin": "https://evil.example"})
    gate.check_site({"host": "localhost:8080"})


def test_a_host_that_was_refused_is_refused_again():
    gate = access()
    for _ in range(2):
        with pytest.raises(Forbidden):
            gate.check_site({"host": "evil.example"})


def test_many_names_of_one_host_do_not_fill_the_memory():
    gate = access()
    for port in range(10_000):
        gate.check_site({"host": f"localhost:{port}"})
    assert len(gate._good_hosts) < 100


HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "host": st.sampled_from(["localhost", "localhost:1", "evil.example", "gw.example", ""]),
        "origin": st.sampled_from(["http://localhost", "https://evil.example", "null"]),
        "sec-fetch-site": st.sampled_from(["same-origin", "cross-site", "none"]),
        "authorization": st.sampled_from(
            ["Bearer sk-0123456789", "Bearer sk-bound-key", "Bearer sk-other", "Basic eDp5", ""]
        ),
        "x-api-key": st.just("sk-0123456789"),
    },
)
BOUND = KeySettings(name="bound", key="sk-bound-key", addresses=("10.0.0.0/8",))


@given(st.lists(HEADERS, min_size=1, max_size=6), st.sampled_from(["127.0.0.1", "0.0.0.0"]))
async def test_a_regular_caller_is_one_whom_the_long_way_lets_in_too(asked, host):
    gate = access(host=host, keys=(KEY, OFF, BOUND))
    for headers in (one for given_ in asked for one in (given_, given_)):
        caller = gate.regular(headers)
        with suppress(Forbidden):
            gate.check_site(headers)
        if caller is not None:
            access(host=host).check_site(headers)
            assert await gate.caller_of(headers, "192.0.2.1") is caller


def test_a_program_that_came_before_is_a_regular_caller():
    gate, headers = access(), {"host": "localhost", "authorization": f"Bearer {KEY.key}"}
    assert gate.regular(headers) is None, "its host was not looked at yet"
    gate.check_site(headers)
    assert gate.regular(headers).key_name == "dev"
    for more in ({"origin": "http://localhost"}, {"sec-fetch-site": "none"}, {"host": "other"}):
        assert gate.regular({**headers, **more}) is None


def test_no_plain_path_is_the_managements():
    assert not [path for _, path in app._PLAIN if paths.is_managements(path)]
