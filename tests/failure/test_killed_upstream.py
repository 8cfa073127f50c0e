"""Upstream A of two is killed under load and comes back: whoever had not heard from it yet loses nothing."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import aiohttp
import pytest

from fakes.caller import Caller, Reply, body, end_of, endings, path, text_of
from fakes.dashboard import Dashboard
from fakes.gateway import KEY, GatewayProcess, configured
from fakes.lone_upstream import LoneUpstream, words
from fakes.pair import channel, provider
from fakes.upstream import PATIENCE

RATE = 200  # requests per second: a target, not a promise
AT_MOST = 300  # at a time
SECONDS = 4.0
KILLED_AT, BACK_AT = 1.0, 2.5
# The protocols of callers and providers; A and B speak different ones.
KINDS = {"A": "chat_completion", "B": "messages"}
CALLING = ("messages", "responses", "chat_completion", "gemini")
HEALTH = {"cooldown_seconds": 0.3, "probe_interval_seconds": 0.2}


@dataclass
class Lived:
    """One request and what became of it."""

    protocol: str
    stream: bool
    began: float
    reply: Reply = field(default_factory=lambda: Reply(0, {}, b""))
    fault: str | None = None

    @property
    def provider(self) -> str:
        """Who answered. A head that named one who began and failed is set right at the end; for Gemini the text tells."""
        named = re.search(rb"^: monoize-provider (\w+);", self.reply.raw, re.MULTILINE)
        if named is not None:
            return named[1].decode()
        if self.protocol == "gemini" and self.stream and self.text == "".join(words("B")):
            return "B"
        return self.reply.headers.get("x-monoize-provider", "nobody")

    @property
    def end(self) -> str:
        """complete, error (after a beginning), or what went wrong."""
        if self.fault is not None:
            return self.fault
        if self.reply.status != 200:
            return f"{self.reply.status} {self.reply.raw[:300]!r}"
        end = end_of(self.protocol, self.reply, stream=self.stream)
        if self.stream and endings(self.protocol, self.reply) != 1:
            return "not one ending"
        return end

    @property
    def has_begun(self) -> bool:
        """Its first event is not the error."""
        first = next(event.json for event in self.reply.events if event.name != "ping")
        return not first.get("error") and first.get("type") != "error"

    @property
    def text(self) -> str:
        return text_of(self.protocol, self.reply, stream=self.stream)


@dataclass
class Scene:
    gateway: GatewayProcess
    upstreams: dict[str, LoneUpstream]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    upstreams = {name: LoneUpstream(name) for name in KINDS}
    gateway = None
    try:
        providers = [
            provider(name, kind, ["m"], channel("main", _address(upstreams[name], kind), kind))
            for name, kind in KINDS.items()
        ]
        gateway = GatewayProcess(tmp_path, configured(providers, HEALTH))
        yield Scene(gateway, upstreams)
    finally:
        if gateway is not None:
            gateway.stop()
        for upstream in upstreams.values():
            upstream.kill()


def _address(upstream: LoneUpstream, kind: str) -> str:
    return f"http://127.0.0.1:{upstream.port}/{kind}"


async def _live(session: aiohttp.ClientSession, port: int, lived: Lived) -> None:
    url = f"http://127.0.0.1:{port}{path(lived.protocol, 'm', stream=lived.stream)}"
    data = json.dumps(body(lived.protocol, "m", stream=lived.stream)).encode()
    try:
        async with session.post(url, data=data) as response:
            headers = {k.lower(): v for k, v in response.headers.items()}
            lived.reply = Reply(response.status, headers, await response.read())
    except (aiohttp.ClientError, TimeoutError) as error:
        lived.fault = repr(error)


async def _loaded(port: int, everyone: list[Lived], is_over: asyncio.Event) -> None:
    """Open loop: a request is sent when its time has come, whatever became of those before it."""
    loop = asyncio.get_running_loop()
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    async with aiohttp.ClientSession(
        headers=headers,
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=60),
    ) as session:
        start = loop.time()
        running = []
        for number in count():
            due = start + number / RATE
            await asyncio.sleep(max(0.0, due - loop.time()))
            if is_over.is_set():
                break
            if sum(not task.done() for task in running) > AT_MOST:
                continue  # too slow a machine for the rate: fewer requests, the same promise
            protocol, stream = CALLING[number // 2 % 4], number % 2 == 0
            lived = Lived(protocol, stream, loop.time() - start)
            everyone.append(lived)
            running.append(asyncio.ensure_future(_live(session, port, lived)))
        await asyncio.gather(*running)


async def _answered(everyone: list[Lived], *wanted: tuple[str, bool]) -> None:
    """Once there are whole answers of these providers, to streams or not."""
    async with asyncio.timeout(PATIENCE):
        while True:
            seen = {(one.provider, one.stream) for one in everyone if one.end == "complete"}
            if seen.issuperset(wanted):
                return
            await asyncio.sleep(0.05)


async def _pull_the_plug(
    scene: Scene, dashboard: Dashboard, everyone: list[Lived], is_over: asyncio.Event
) -> None:
    """Away from one moment to the other, and until that has been noticed."""
    await asyncio.sleep(KILLED_AT)
    await _answered(everyone, ("A", True))
    a = scene.upstreams["A"]
    row = await asyncio.to_thread(dashboard.channel, "A/main")
    assert row["health"] == "healthy"
    await asyncio.to_thread(a.kill)
    away = asyncio.sleep(BACK_AT - KILLED_AT)
    await asyncio.gather(away, asyncio.to_thread(dashboard.until, "A/main", _is_out))
    await _answered(everyone, ("B", True), ("B", False))
    scene.upstreams["A"] = await asyncio.to_thread(LoneUpstream, "A", a.port)
    await asyncio.sleep(SECONDS - BACK_AT)
    is_over.set()


def _is_out(row: dict) -> bool:
    return row["health"] != "healthy"


@pytest.mark.spec("ROUT-5", "ROUT-7", "HEALTH-2", "HEALTH-3", "D10", "D11", "T16")
async def test_killing_one_of_two_upstreams_loses_nothing_that_had_not_begun(scene: Scene):
    dashboard = Dashboard(scene.gateway.port)
    everyone: list[Lived] = []
    is_over = asyncio.Event()
    async with asyncio.TaskGroup() as both:
        both.create_task(_loaded(scene.gateway.port, everyone, is_over))
        both.create_task(_pull_the_plug(scene, dashboard, everyone, is_over))

    ends = Counter((one.provider, one.stream, one.end) for one in everyone)
    for one in everyone:
        if one.end == "error":  # had begun on A: one error event, and nothing of B behind it
            assert (one.provider, one.stream) == ("A", True), one
            assert one.has_begun, one
            assert "".join(words("A")).startswith(one.text), one
        else:
            assert one.end == "complete", one
            assert one.text == "".join(words(one.provider)), one
    assert ends["A", True, "complete"]
    assert ends["B", True, "complete"]
    assert ends["B", False, "complete"]

    back = await asyncio.to_thread(
        dashboard.until, "A/main", lambda row: row["health"] == "healthy"
    )
    assert back["eligible"]
    assert back["totals"]["failure"] >= 3
    for protocol in CALLING:
        reply = await asyncio.to_thread(Caller(scene.gateway.port).ask, protocol, "m")
        assert reply.headers["x-monoize-provider"] == "A"
        assert reply.headers["x-monoize-attempts"] == "1"
    assert "Traceback" not in scene.gateway.log_text()
