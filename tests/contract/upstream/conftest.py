"""Every upstream client that speaks HTTP; on uvloop, as the program runs, and with `make soak` on asyncio's own loop too."""

from __future__ import annotations

import asyncio
import os

import pytest
import uvloop

from monoize.settings import LimitSettings, TimeoutSettings
from monoize.upstream.aiohttp_client import AiohttpClient
from monoize.upstream.lean_client import LeanClient

SOAK = os.environ.get("MONOIZE_SOAK") == "1"
CLIENTS = {"aiohttp": AiohttpClient, "lean": LeanClient}


def pytest_asyncio_loop_factories(config, item):
    loops = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
    return loops if SOAK else {"uvloop": loops["uvloop"]}


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
