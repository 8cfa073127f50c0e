"""CPU of the upstream clients per call and per streamed chunk, side by side in one run: `python bench/clients.py`.

The provider is a process of its own; what is measured is the CPU time of this one. The machine may be busy, so
the clients take turns, and the ratios are what counts. `--tls` asks over TLS with a throw-away certificate.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
import ssl
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from monoize.settings import LimitSettings, TimeoutSettings
from monoize.upstream.aiohttp_client import AiohttpClient
from monoize.upstream.client import UpstreamCall, UpstreamClient
from monoize.upstream.lean_client import LeanClient

REPLY = json.dumps({"id": "x", "choices": [{"message": {"content": "word " * 250}}]}).encode()
WHOLE = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-request-id: 1\r\n"
    b"date: Thu, 01 Jan 2026 00:00:00 GMT\r\ncontent-length: %d\r\n\r\n%b" % (len(REPLY), REPLY)
)
EVENT = b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'
CHUNK = b"%x\r\n%b\r\n" % (len(EVENT), EVENT)
OPENING = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
EVENTS = 100
PACE = 0.002
HEADERS = {
    "authorization": "Bearer sk-0123456789abcdef0123456789abcdef",
    "content-type": "application/json",
    "accept": "application/json",
}
BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x" * 700}]}).encode()


class Provider(asyncio.Protocol):
    """Answers as soon as a whole request has come; all of ours come in one piece or end alike."""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        if not data.endswith(BODY[-20:]):
            return
        line = data[:40]
        if b"/paced" in line:
            self.transport.write(OPENING)
            asyncio.get_running_loop().call_later(PACE, self.step, 1)
        elif b"/burst" in line:
            self.transport.write(OPENING)
            for _ in range(EVENTS):
                self.transport.write(CHUNK)
            self.transport.write(b"0\r\n\r\n")
        else:
            self.transport.write(WHOLE)

    def step(self, number):
        if self.transport.is_closing():
            return
        self.transport.write(CHUNK)
        if number == EVENTS:
            self.transport.write(b"0\r\n\r\n")
        else:
            asyncio.get_running_loop().call_later(PACE, self.step, number + 1)


def provide(ready, files) -> None:
    async def serve():
        tls = None
        if files is not None:
            tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            tls.load_cert_chain(*files)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Provider, "127.0.0.1", 0, ssl=tls, backlog=1024)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(serve())


def certificate(folder: str) -> tuple[str, str]:
    chain, key = f"{folder}/chain.pem", f"{folder}/key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    made += ["-nodes", "-days", "1", "-subj", "/CN=localhost", "-keyout", key, "-out", chain]
    subprocess.run(
        [*made, "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True
    )
    return chain, key


def call(base: str, path: str) -> UpstreamCall:
    return UpstreamCall(
        url=base + path, headers=HEADERS, body=BODY, first_byte_seconds=600, idle_seconds=300
    )


async def unary(client: UpstreamClient, asked: UpstreamCall, count: int) -> int:
    for _ in range(count):
        reply = await client.send(asked)
        try:
            await reply.read(1 << 20)
        finally:
            await reply.close()
    return count


async def stream(client: UpstreamClient, asked: UpstreamCall, count: int) -> int:
    for _ in range(count):
        reply = await client.send(asked)
        try:
            async for _chunk in reply.chunks():
                pass
        finally:
            await reply.close()
    return count * EVENTS


Work = Callable[[UpstreamClient, UpstreamCall, int], Awaitable[int]]
LOADS: tuple[tuple[str, str, Work, int, int], ...] = (
    # name, path, what, callers, calls of each
    ("call, 1 caller", "/unary", unary, 1, 3000),
    ("call, 64 callers", "/unary", unary, 64, 60),
    ("event, burst, 32 streams", "/burst", stream, 32, 12),
    ("event, paced, 32 streams", "/paced", stream, 32, 2),
)


async def measured(client: UpstreamClient, base: str) -> dict[str, float]:
    """Microseconds of CPU of this process."""
    found = {}
    for name, path, work, callers, count in LOADS:
        asked = call(base, path)
        await asyncio.gather(*(work(client, asked, 1) for _ in range(callers)))
        gc.collect()
        begin = time.process_time()
        done = await asyncio.gather(*(work(client, asked, count) for _ in range(callers)))
        found[name] = (time.process_time() - begin) / sum(done) * 1e6
    return found


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--tls", action="store_true")
    given = asked.parse_args()
    clients = {"aiohttp": AiohttpClient, "lean": LeanClient}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in clients}
    with tempfile.TemporaryDirectory() as folder:
        files = certificate(folder) if given.tls else None
        if files is not None:
            trusting = ssl.create_default_context(cafile=files[0])
            clients["lean"] = lambda limits, times: LeanClient(limits, times, trusting)
            import aiohttp.connector  # noqa: PLC0415

            aiohttp.connector._SSL_CONTEXT_VERIFIED = trusting  # noqa: SLF001
        mine, theirs = multiprocessing.Pipe()
        provider = multiprocessing.Process(target=provide, args=(theirs, files), daemon=True)
        provider.start()
        base = f"{'https' if files else 'http'}://localhost:{mine.recv()}"

        async def one(make) -> dict[str, float]:
            client = make(LimitSettings(), TimeoutSettings())
            try:
                return await measured(client, base)
            finally:
                await client.aclose()

        for _ in range(given.rounds):
            for name, make in clients.items():
                found[name].append(uvloop.run(one(make)))
        provider.terminate()
        provider.join()
    report(found, Path("/proc/loadavg").read_text().split()[0])


def report(found: dict[str, list[dict[str, float]]], load: str) -> None:
    print(f"CPU us, least of the rounds (median); load average {load}")
    print(f"{'per':28}{'aiohttp':>18}{'lean':>18}{'lean/aiohttp, by round':>34}")
    for name, *_ in LOADS:
        each = {client: [r[name] for r in rounds] for client, rounds in found.items()}
        cells = [f"{min(v):.1f} ({statistics.median(v):.1f})" for v in each.values()]
        ratios = [b / a for a, b in zip(each["aiohttp"], each["lean"], strict=True)]
        shown = " ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{name:28}{cells[0]:>18}{cells[1]:>18}{shown:>34}")


if __name__ == "__main__":
    main()
