"""Every upstream client that speaks HTTP, on every loop that the program may run on."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from monoize.settings import LimitSettings, TimeoutSettings
from monoize.upstream.aiohttp_client import AiohttpClient
from monoize.upstream.lean_client import LeanClient

CLIENTS = {"aiohttp": AiohttpClient, "lean": LeanClient}


def pytest_asyncio_loop_factories(config, item):
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=CLIENTS)
async def client(request):
    made = CLIENTS[request.param](LimitSettings(), TimeoutSettings())
    yield made
    await made.aclose()


@pytest.fixture
async def lean():
    made = LeanClient(LimitSettings(), TimeoutSettings())
    yield made
    await made.aclose()
