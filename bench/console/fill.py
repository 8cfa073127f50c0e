"""A large gateway's database in a fresh SQLite file: log rows, keys, users and runs of the last 30 days, from a fixed seed.

`python bench/console/fill.py FOLDER [--rows 1000000 --keys 1000 --runs 10000]` leaves in FOLDER the database, a config
that `monoize serve --config FOLDER/monoize.yaml` takes, and an admin's and a member's key in `keys.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import sqlite3
import time
from collections.abc import Iterator
from functools import partial
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from monoize.clock import RandomIds
from monoize.store import keys, users
from monoize.store.database import Database
from monoize.store.vault import Vault, check

DAY = 86_400_000
DAYS = 30
# name, provider, channels, share, dollars of a million tokens in and out, middle of the latency in ms
MODELS = (
    ("gpt-4o", "openai", ("main", "spare"), 22, 2.5, 10, 1400),
    ("gpt-4o-mini", "openai", ("main", "spare"), 30, 0.15, 0.6, 700),
    ("gpt-5", "openai", ("main",), 8, 1.25, 10, 5200),
    ("o4-mini", "openai", ("main",), 3, 1.1, 4.4, 7000),
    ("claude-sonnet-4-5", "anthropic", ("main", "batch"), 14, 3, 15, 2600),
    ("claude-haiku-4-5", "anthropic", ("main",), 8, 1, 5, 900),
    ("claude-opus-4-1", "anthropic", ("main",), 1, 15, 75, 6100),
    ("gemini-2.5-flash", "google", ("main",), 7, 0.3, 2.5, 800),
    ("gemini-2.5-pro", "google", ("main",), 2, 1.25, 10, 3900),
    ("text-embedding-3-small", "openai", ("main",), 3, 0.02, 0, 120),
    ("smollm2-135m", "local", ("engine",), 2, 0, 0, 300),
)
PROTOCOLS = ("chat_completion", "chat_completion", "messages", "responses", "gemini")
OUTCOMES = (
    (930, "success", 200, None, None),
    (25, "error", 502, "upstream_error", "every provider failed; the last one answered with status 500"),
    (15, "error", 429, "rate_limited", "this key may send 60 requests a minute"),
    (6, "error", 402, "budget_exceeded", "the key's budget of the day is spent"),
    (4, "error", 400, "invalid_request", "messages[2].content: must be a text or a list of parts"),
    (18, "cancelled", 499, None, None),
    (2, "interrupted", None, "interrupted", "the gateway ended before this request did"),
)  # fmt: skip
STATES = (("SUCCEEDED", 70), ("FAILED", 20), ("INTERRUPTED", 10))
CONFIG = """\
server: {port: 0}
database: sqlite:///./monoize.db
providers:
  - {id: openai, type: chat_completion, models: {"gpt-*": {}, "o4-mini": {}, "text-embedding-3-small": {}}, channels: [{id: main, base_url: "http://127.0.0.1:9/v1", api_key: sk-bench}, {id: spare, base_url: "http://127.0.0.1:9/v1", api_key: sk-bench}]}
  - {id: anthropic, type: messages, models: {"claude-*": {}}, channels: [{id: main, base_url: "http://127.0.0.1:9/v1", api_key: sk-bench}, {id: batch, base_url: "http://127.0.0.1:9/v1", api_key: sk-bench}]}
  - {id: google, type: gemini, models: {"gemini-*": {}}, channels: [{id: main, base_url: "http://127.0.0.1:9/v1", api_key: sk-bench}]}
"""
COLUMNS = (
    "request_id", "status", "created_at", "key_id", "key_name", "user_id", "username", "address", "protocol", "operation",
    "is_stream", "requested_model", "upstream_model", "provider", "channel", "attempts", "input_tokens", "cached_tokens",
    "cache_write_tokens", "output_tokens", "reasoning_tokens", "usage", "multiplier", "charge", "estimated", "unpriced",
    "http_status", "error_code", "error_message", "first_byte_ms", "duration_ms", "overhead_ms", "losses",
)  # fmt: skip


class Keys:
    """Whose they are, and how often each is used: a few do most of the work."""

    def __init__(self, rng: random.Random, count: int) -> None:
        people = max(1, count // 5)
        self.people = [(f"user_{n:020d}", f"person {n:04d}") for n in range(people)]
        self.rows = [
            (f"{rng.getrandbits(64):016x}", f"{rng.choice(('laptop', 'ci', 'agent', 'batch', 'app'))} {n:04d}",
             *self.people[int(people * rng.random() ** 1.7)])
            for n in range(count)
        ]  # fmt: skip
        self.weights = list(accumulate(1 / (n + 3) ** 0.8 for n in range(count)))


def moments(rng: random.Random, rows: int, now: int) -> list[int]:
    """More by day than by night, and less on two days of seven."""
    hours = [
        (0.4 + math.sin(math.pi * (hour % 24) / 24) ** 2) * (0.5 if hour // 24 % 7 in (5, 6) else 1)
        for hour in range(24 * DAYS)
    ]
    first = now - DAYS * DAY
    chosen = rng.choices(range(24 * DAYS), cum_weights=list(accumulate(hours)), k=rows)
    return sorted(first + hour * 3_600_000 + rng.randrange(3_600_000) for hour in chosen)


def log_rows(rng: random.Random, some: Keys, rows: int, now: int) -> Iterator[tuple[Any, ...]]:
    shares = list(accumulate(model[3] for model in MODELS))
    fates = list(accumulate(outcome[0] for outcome in OUTCOMES))
    picked_keys = rng.choices(some.rows, cum_weights=some.weights, k=rows)
    picked_models = rng.choices(MODELS, cum_weights=shares, k=rows)
    picked_fates = rng.choices(OUTCOMES, cum_weights=fates, k=rows)
    for number, at in enumerate(moments(rng, rows, now)):
        key, key_name, user, username = picked_keys[number]
        model, provider, channels, _, dear_in, dear_out, middle = picked_models[number]
        _, status, http, code, message = picked_fates[number]
        channel = rng.choice(channels)
        answered = status in ("success", "cancelled", "interrupted")
        given = int(rng.lognormvariate(6.5, 1.1)) if answered else None
        made = int(rng.lognormvariate(5.3, 0.9)) if answered and dear_out else None
        cached = (given or 0) // 3 if rng.random() < 0.3 else 0
        charge = round(((given or 0) * dear_in + (made or 0) * dear_out) * 1000)
        took = (
            int(rng.lognormvariate(math.log(middle), 0.6))
            if answered or http == 502
            else rng.randrange(3)
        )
        yield (
            f"req_{number:024d}", status, at, key, key_name, user, username, f"192.0.2.{number % 250}",
            PROTOCOLS[number % 5], "embeddings" if "embedding" in model else "chat", number % 3 == 0, model, model,
            provider if answered else None, channel if answered else None,
            json.dumps([{"provider": provider, "channel": channel, "error": code, "status": http}]) if answered else None,
            given, cached if answered else None, 0 if answered else None, made, (made or 0) // 4 if answered else None,
            json.dumps({"input": (given or 0) - cached, "cached_read": cached, "output": made or 0}) if answered else None,
            "1" if answered else None, charge, status == "interrupted", answered and number % 997 == 0, http, code, message,
            took // 4 if answered else None, took, 2, '["temperature"]' if number % 11 == 0 else None,
        )  # fmt: skip


def run_rows(rng: random.Random, some: Keys, count: int, now: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        at = now - DAYS * DAY + number * (DAYS * DAY // count)
        (state,) = rng.choices([s for s, _ in STATES], [w for _, w in STATES])
        is_open = number >= count - 3
        yield {
            "run_id": f"run_{at:013d}{number:010d}",
            "owner": f"user:{rng.choice(some.people)[0]}",
            "model": rng.choice(MODELS)[0],
            "profile": "default",
            "page": rng.choice(("chat", "code", None)),
            "policy": rng.choice(("forbidden", "allowed", "required")),
            "state": "RUNNING" if is_open else state,
            "outcome": None if is_open else state.lower(),
            "failure_code": "budget" if state == "FAILED" and not is_open else None,
            "head": f"{rng.getrandbits(256):064x}",
            "contract_hash": f"{rng.getrandbits(256):064x}",
            "parent": None,
            "inferences": rng.randint(1, 12),
            "tokens": rng.randint(500, 60_000),
            "tool_calls": rng.randint(0, 20),
            "format_retries": rng.randint(0, 2),
            "elapsed_ms": rng.randint(800, 240_000),
            "created_at": at,
            "ended_at": None if is_open else at + 60_000,
        }


async def people(folder: Path, now: int) -> dict[str, str]:
    """The tables, an admin and a member who own usable keys."""
    vault, ids = Vault.load(folder / "data", {}), RandomIds()
    database = await Database.open("sqlite:///./monoize.db", folder)
    await database.write(partial(check, vault=vault, now=now))
    made = {}
    for role in ("admin", "user"):
        about = {"ids": ids, "actor": "bench", "now": now}
        user = await database.write(
            partial(users.create, username=f"the {role}", role=role, **about)
        )
        work = partial(keys.create, vault=vault, user_id=user.id, name=f"{role}'s key", **about)
        key, text = await database.write(work)
        made |= {role: text, f"{role}_id": key.id, f"{role}_user": user.id}
    await database.aclose()
    return made


def insert(connection: sqlite3.Connection, table: str, rows: Iterator[dict[str, Any]]) -> None:
    for part in iter(lambda: list(islice(rows, 500)), []):
        names = ", ".join(f'"{name}"' for name in part[0])
        places = ", ".join("?" * len(part[0]))
        connection.executemany(
            f"INSERT INTO {table} ({names}) VALUES ({places})",
            [tuple(row.values()) for row in part],
        )


def fill(folder: Path, rows: int, count: int, runs: int, made: dict[str, str], now: int) -> None:
    rng = random.Random(9)
    some = Keys(rng, count)
    # The member is one of the busy people, so that their pages have something to add up.
    busy = some.rows[0]
    some.rows[0] = (made["user_id"], "user's key", made["user_user"], "the user")
    some.rows[1:40:8] = [
        (f"{rng.getrandbits(64):016x}", f"member {n}", made["user_user"], "the user")
        for n in range(len(some.rows[1:40:8]))
    ]
    del busy
    connection = sqlite3.connect(folder / "monoize.db", isolation_level=None)
    for pragma in ("synchronous = OFF", "cache_size = -400000"):
        connection.execute(f"PRAGMA {pragma}")
    indexes = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE tbl_name = 'request_logs' AND type = 'index' AND sql IS NOT NULL"
    ).fetchall()
    connection.execute("BEGIN")
    for name, _ in indexes:
        connection.execute(f"DROP INDEX {name}")
    places = ", ".join("?" * len(COLUMNS))
    connection.executemany(
        f"INSERT INTO request_logs ({', '.join(COLUMNS)}) VALUES ({places})",
        log_rows(rng, some, rows, now),
    )
    for _, sql in indexes:
        connection.execute(sql)
    made_at = {"created_at": now - DAYS * DAY, "updated_at": now - DAYS * DAY}
    insert(connection, "users", (
        {"id": user, "username": name, "role": "user", "enabled": 1, "reserved": 0,
         "balance": rng.choice((None, 5_000_000_000, 300_000_000)), **made_at}
        for user, name in some.people
    ))  # fmt: skip
    insert(connection, "keys", (
        {"id": key, "user_id": user, "name": name, "hint": f"sk-mz-{key[:6]}…", "digest": b"", "enabled": 1,
         "expires_at": now + rng.randint(-5, 400) * DAY if n % 9 == 0 else None,
         "policy": json.dumps({"budgets": {"month": 5_000_000_000}} if n % 5 == 0 else {}), **made_at}
        for n, (key, name, user, _) in enumerate(some.rows[1:])
    ))  # fmt: skip
    connection.execute(
        'INSERT INTO spend (key_id, "window", spent, reserved)'
        " SELECT key_id, w, sum(charge), 0 FROM (SELECT key_id, charge, 'total' AS w FROM request_logs UNION ALL"
        "  SELECT key_id, charge, strftime('day:%Y-%m-%d', created_at / 1000, 'unixepoch') FROM request_logs UNION ALL"
        "  SELECT key_id, charge, strftime('month:%Y-%m', created_at / 1000, 'unixepoch') FROM request_logs)"
        " GROUP BY 1, 2"
    )
    insert(connection, "agent_runs", run_rows(rng, some, runs, now))
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    for name, default in (("rows", 1_000_000), ("keys", 1_000), ("runs", 10_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    began, now = time.monotonic(), round(time.time() * 1000)
    asked.folder.mkdir(parents=True)
    (asked.folder / "monoize.yaml").write_text(CONFIG)
    made = asyncio.run(people(asked.folder, now))
    (asked.folder / "keys.json").write_text(json.dumps(made))
    fill(asked.folder, asked.rows, asked.keys, asked.runs, made, now)
    size = (asked.folder / "monoize.db").stat().st_size / 1e6
    print(
        f"{asked.rows} log rows, {asked.keys} keys, {asked.runs} runs: {size:.0f} MB in {time.monotonic() - began:.0f} s"
    )


if __name__ == "__main__":
    main()
