"""The Reframer's health: its schemas, its flags and its tokenizer, and what the gateway around it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import msgspec
from sqlalchemy import select

from monoize import __version__
from monoize.pipeline.call import Answer
from monoize.reframer.schemas import FILES, SCHEMA_VERSION, checksum, validator
from monoize.reframer.tags import Role
from monoize.server.checkup import Probe
from monoize.server.http import HttpRequest, json_answer
from monoize.server.state import State
from monoize.tokenizer import token_count

__all__ = ["health"]

_SMALLEST = {
    "request_id": "health-check",
    "created_at": "2025-01-01T00:00:00Z",
    "channels": [{"channel_id": "health", "role": "system"}],
    "payload": {"messages": [{"id": "health", "role": "system", "content": ""}]},
}
_SENTENCE = "Is every word counted?"
_TAGS = ("<safety:restricted>",)
_NO_OBJECT = "health"  # nothing is stored under this name


async def health(request: HttpRequest, state: State) -> Answer:
    """503 when something is away without which no document can be reframed; no key is needed."""
    del request
    report = await state.lasting.checkup.report(_probes(state), state.lasting.clock)
    body = {
        "service": "reframer",
        "version": __version__,
        "schema_version": SCHEMA_VERSION,
        **msgspec.to_builtins(report),
    }
    is_away = report.status == "error"
    return json_answer(body, HTTPStatus.SERVICE_UNAVAILABLE if is_away else HTTPStatus.OK)


def _probes(state: State) -> tuple[Probe, ...]:
    return (
        Probe(name="schema_registry", ask=_schemas, trouble="the schemas cannot be used"),
        Probe(name="feature_flags", ask=_flags(state), trouble="the tag flags cannot be used"),
        Probe(name="tokenizer", ask=_tokenizer, trouble="the tokenizer cannot be used"),
        # Documents are reframed without them, so nobody is to be sent elsewhere on their account.
        Probe(
            name="database",
            ask=_database(state),
            trouble="the database cannot be reached",
            needed=False,
        ),
        Probe(
            name="media_store",
            ask=_media(state),
            trouble="the media store cannot be reached",
            needed=False,
        ),
    )


async def _schemas() -> None:
    """Compiled, and they still tell a request from what is none."""
    for name in FILES:
        checksum(name)
        validator(name)
    judge = validator("request")
    if not judge.is_valid(_SMALLEST) or judge.is_valid({}):
        raise RuntimeError("the schema of requests does not judge as it should")


def _flags(state: State) -> Callable[[], Awaitable[object]]:
    async def ask() -> None:
        state.tags.usual(_TAGS, Role.USER)

    return ask


async def _tokenizer() -> None:
    """In a thread: the first look reads the vocabulary."""
    if not await asyncio.to_thread(token_count, _SENTENCE):
        raise RuntimeError("the tokenizer finds no tokens")


def _database(state: State) -> Callable[[], Awaitable[object]] | None:
    database = state.lasting.database
    if database is None:
        return None
    return lambda: database.read(lambda connection: connection.execute(select(1)).scalar())


def _media(state: State) -> Callable[[], Awaitable[object]] | None:
    store = state.lasting.media_store
    return None if store is None else lambda: store.has(_NO_OBJECT)
