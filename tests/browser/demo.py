"""A gateway with a day of ordinary work in it: what the pictures of the documentation show."""

from __future__ import annotations

import http.client
import json
import math
import sqlite3
import sys
import time
from typing import Any
from urllib.parse import quote

from browser.world import Json, Place, Stage, png, spoken

DAY_MS = 86_400_000
ROWS = 1_600  # of the last day
DAYS, ROWS_A_DAY = 29, 60  # and of those before it
# provider, protocol, model, dollars a call in nano-USD, milliseconds to the first byte
OFFERS = (
    ("openai", "responses", "gpt-5.2", 4_100_000, 420),
    ("openai", "responses", "gpt-5.2-mini", 600_000, 190),
    ("anthropic", "messages", "claude-sonnet-5", 6_900_000, 510),
    ("google", "gemini", "gemini-3-pro", 3_300_000, 350),
    ("spare", "chat_completion", "llama-4", 200_000, 260),
)
PEOPLE = (("ada", "laptop"), ("ada", "ci"), ("grace", "notebook"), ("linus", "editor"))
REPLY = "17:00. Tokyo is 8 hours ahead of Paris in winter, and 09:00 + 08:00 is 17:00."
THOUGHT = "Paris is at UTC+1 in winter, Tokyo at UTC+9: eight hours."
WORKSPACE = {"workspace": {"folder": "./project", "create": True}}
TOOL = {
    "commands": [
        {
            "name": "get_time",
            "description": "The time in a city.",
            "argv": [sys.executable, "-c", "print('\"12:00\"')"],
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
                "additionalProperties": False,
            },
            "pure": True,
            "scope": "read",
        }
    ]
}


def config(stage: Stage) -> Json:
    providers: dict[str, Json] = {}
    for name, kind, model, *_ in OFFERS:
        row = providers.setdefault(
            name,
            {
                "id": name,
                "type": kind,
                "models": {},
                "channels": [
                    {
                        "id": "main",
                        "base_url": stage.base_url(kind),
                        "api_key": "sk-1",
                        "weight": 3,
                    },
                    {"id": "reserve", "base_url": stage.base_url(kind), "api_key": "sk-2"},
                ],
            },
        )
        row["models"][model] = {}
    providers["google"]["transforms"] = [
        {"transform": "merge_consecutive_roles", "phase": "request", "config": {}}
    ]
    return {
        "server": {"host": "127.0.0.1"},
        "database": "sqlite:///./data/monoize.db",
        "providers": list(providers.values()),
        "settings": {
            "prices": {model: {"input": "2", "output": "8"} for _, _, model, *_ in OFFERS},
            "health": {"failure_threshold": 1, "probe_enabled": False, "cooldown_seconds": 600},
            "agent": {"tools": {"project": WORKSPACE, "clock": TOOL}},
        },
    }


def set_stage(stage: Stage) -> None:
    for _, _, model, *_ in OFFERS:
        stage.lines_of[model] = (spoken(REPLY, THOUGHT),)


def feed(place: Place) -> Json:
    """What happened: the calls of a day, people and their keys, files, a run, a provider that fails."""
    place.good("POST", "/api/providers", _of_database(place.stage))
    chat = {"messages": [{"role": "user", "content": "When is it noon in Tokyo?"}]}
    place.stage.failing["chat_completion"] = "the model is overloaded, come back later"
    for _, _, model, *_ in OFFERS:
        place.call("POST", "/v1/chat/completions", {"model": model, **chat})
    place.stage.failing.clear()
    called = spoken("", THOUGHT, ("get_time", {"city": "Tokyo"}))
    place.stage.lines_of["gpt-5.2"] = (called, spoken("It is 12:00 in Tokyo."))
    task = {"task": "What time is it in Tokyo?", "tools": ["clock"]}
    required = {"contract": {"tool_policy": "required", "max_inferences": 3}}
    for model, more in (("gemini-3-pro", required), ("claude-sonnet-5", {"page": "chat"})):
        place.good("POST", "/v1/agent/runs", {**task, "model": model, **more})
    run = place.good("POST", "/v1/agent/runs", {**task, "model": "gpt-5.2", **required})
    set_stage(place.stage)
    for name, colour in (("chart.png", (47, 111, 222)), ("logo.png", (222, 111, 47))):
        _store(place, name, png(*colour, side=64), "image/png")
    _store(place, "minutes.txt", b"Monday: shipped.\n" * 40, "text/plain")
    people = {}
    for user, _ in PEOPLE:
        if user not in people:
            # Keys belong to the time after the first start; these are for the lists alone.
            people[user] = {"username": user, "balance": 25_000_000_000}
    with sqlite3.connect(place.folder / "data" / "monoize.db", timeout=10) as database:
        _fill(database, int(time.time() * 1000))
    logs = place.good("GET", "/api/logs?limit=1&errors_only=true")
    return {"run": run["run_id"], "request": logs["rows"][0]["request_id"], "people": people}


def settle(place: Place, people: Json) -> str:
    """The first user ends the time without sign-in: an admin's key is needed from here on."""
    admin = place.good("POST", "/api/users", {"username": "root", "role": "admin"})
    key = place.good("POST", "/api/keys", {"user_id": admin["id"], "name": "console"})["key"]
    ids = {name: place.good("POST", "/api/users", row, key)["id"] for name, row in people.items()}
    for user, name in PEOPLE:
        policy = {"models": ["gpt-*", "claude-*"], "budgets": {"day": 5_000_000_000}}
        body = {"user_id": ids[user], "name": name, "policy": policy if name != "ci" else {}}
        place.good("POST", "/api/keys", body, key)
    return str(key)


def _of_database(stage: Stage) -> Json:
    channel = {"id": "main", "base_url": stage.base_url("chat_completion"), "api_key": "sk-3"}
    return {
        "id": "workshop",
        "type": "chat_completion",
        "models": {"draft-*": {}, "draft-1": {"multiplier": "0.5"}},
        "channels": [channel],
        "transforms": [
            {
                "transform": "inject_system_prompt",
                "phase": "request",
                "config": {"content": "Answer in plain words.", "position": "prepend"},
            }
        ],
    }


def _store(place: Place, name: str, data: bytes, kind: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=30)
    connection.request("POST", f"/v1/media?name={quote(name)}", data, {"content-type": kind})
    assert connection.getresponse().status == 201
    connection.close()


def _fill(database: sqlite3.Connection, now: int) -> None:
    """A day with its morning, its noon and one bad quarter of an hour."""
    columns = [row[1] for row in database.execute("PRAGMA table_info(request_logs)")]
    plain: Json = {
        "address": "192.0.2.7",
        "protocol": "chat_completion",
        "operation": "chat_completions",
        "multiplier": "1",
        "losses": None,
    }
    for number in range(-DAYS * ROWS_A_DAY, ROWS):
        row = {**plain, **_row(number, now)}
        named = {name: value for name, value in row.items() if name in columns}
        marks = ", ".join("?" for _ in named)
        database.execute(
            f"INSERT INTO request_logs ({', '.join(named)}) VALUES ({marks})", [*named.values()]
        )


def _row(number: int, now: int) -> dict[str, Any]:
    share = number / (ROWS if number >= 0 else ROWS_A_DAY)  # of a day
    busy = share + 0.06 * math.sin(share * 2 * math.pi)
    provider, _, model, charge, first = OFFERS[(number * 7 + number // 11) % len(OFFERS)]
    user, key = PEOPLE[(number * 5 + number // 3) % len(PEOPLE)]
    failed = 1_120 < number < 1_160 if provider == "spare" else number % 97 == 5
    wave = 1 + 0.4 * math.sin(number / 40) + (number * 37 % 100) / 250
    wave *= 1 if number >= 0 else 12  # those days are told by fewer rows
    return {
        "request_id": f"req_demo{number + DAYS * ROWS_A_DAY:06d}",
        "status": "error" if failed else "success",
        "created_at": int(now - DAY_MS + busy * DAY_MS),
        "key_id": f"k-{key}",
        "key_name": key,
        "user_id": f"u-{user}",
        "username": user,
        "is_stream": number % 3 != 0,
        "requested_model": model,
        "upstream_model": model,
        "provider": provider,
        "channel": "main" if number % 4 else "reserve",
        "attempts": json.dumps(
            [{"provider": provider, "channel": "main", "message": "no answer", "status": 503}]
        )
        if failed
        else None,
        "input_tokens": 900 + number * 13 % 1_700,
        "cached_tokens": 300 + number * 7 % 500,
        "output_tokens": 120 + number * 11 % 400,
        "reasoning_tokens": 40,
        "usage": json.dumps({"input": 900, "cached_read": 300, "output": 160, "reasoning": 40}),
        "charge": 0 if failed else int(charge * wave),
        "estimated": False,
        "unpriced": False,
        "http_status": 502 if failed else 200,
        "error_code": "upstream_error" if failed else None,
        "error_message": "the model is overloaded, come back later" if failed else None,
        "first_byte_ms": int(first * min(wave, 2)),
        "duration_ms": int(first * min(wave, 2) * 4),
        "overhead_ms": 2,
    }


__all__ = ["config", "feed", "set_stage", "settle"]
