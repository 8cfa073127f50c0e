"""Every call goes to a client that can make it."""

import pytest

from fakes.upstream_clients import call
from monoize.settings import LimitSettings, TimeoutSettings
from monoize.upstream.client import UpstreamClient
from monoize.upstream.clients import Clients


class Named(UpstreamClient):
    def __init__(self):
        self.calls = []
        self.is_closed = False

    async def send(self, call):
        self.calls.append(call)
        return

    async def aclose(self):
        self.is_closed = True


@pytest.mark.parametrize(
    ("more", "lean"),
    [
        ({"url": "http://h/v1"}, True),
        ({"url": "https://h:8443/v1?a=b@c"}, True),
        ({"url": "HTTPS://h/v1"}, True),
        ({"url": "http://h/v1", "proxy": "http://proxy"}, False),
        ({"url": "https://user:word@h/v1"}, False),
        ({"url": "unix:///somewhere"}, False),
    ],
)
async def test_the_lean_client_is_asked_for_what_it_does(more, lean):
    quick, general = Named(), Named()
    clients = Clients(LimitSettings(), TimeoutSettings(), lean=quick, general=general)
    await clients.send(call(None, **more))
    assert (len(quick.calls), len(general.calls)) == ((1, 0) if lean else (0, 1))


async def test_closes_both():
    quick, general = Named(), Named()
    await Clients(LimitSettings(), TimeoutSettings(), lean=quick, general=general).aclose()
    assert quick.is_closed
    assert general.is_closed


async def test_makes_the_general_client_when_it_is_needed():
    clients = Clients(LimitSettings(), TimeoutSettings())
    first = clients.general()
    assert clients.general() is first
    await clients.aclose()
