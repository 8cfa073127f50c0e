"""The file and the database change by turns: each change is taken over as soon as both fit together."""

from __future__ import annotations

import asyncio
import logging
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from fakes.management import ADMIN, config
from monoize.errors import Unauthorized
from monoize.server import house as houses
from monoize.server.house import House
from monoize.settings import load
from monoize.store import keys, prices, providers, settings, users
from monoize.store.upsert import upsert

BY = {"actor": "root", "now": 1000}
GOOD, BAD = {"input": "1", "output": "2"}, {"input": "much"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "monoize.yaml"


@pytest.fixture
async def house(file, monkeypatch):
    monkeypatch.setattr(houses, "_SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(houses, "_LOOK_SECONDS", 3600.0)  # a test looks itself
    write(file, suffix="-first")
    opened = House(partial(load, file, {}), folder=file.parent, file=file, environment={})
    await opened.start()
    yield opened
    await opened.aclose()


def write(file: Path, *, suffix: str, **changes: Any) -> None:
    form = {**config("sqlite:///./m.db"), **changes}
    form["settings"] = {**form["settings"], "reasoning_suffix_map": {suffix: "high"}}
    file.write_text(yaml.safe_dump(form))
    moment = file.stat().st_mtime_ns + len(suffix) * 1_000_000
    os.utime(file, ns=(moment, moment))


def suffixes(house: House) -> list[str]:
    return list(house.state.kit.suffixes)


async def put_price(house: House, rates: dict[str, Any]) -> None:
    """As another release of the program might write it: nobody checks."""

    def work(connection):
        upsert(connection, prices.prices, {"model": "m", "rates": rates, "updated_at": 1000})
        settings.raise_revision(connection, 1000)

    await house.state.lasting.database.write(work)


@pytest.mark.spec("T46")
async def test_a_good_file_waits_for_the_database_to_be_mended(house, file, caplog):
    await put_price(house, BAD)
    assert not await house.refresh()
    write(file, suffix="-second")
    assert not await house.refresh()
    assert suffixes(house) == ["-first"]
    assert "not used" in caplog.text
    await put_price(house, GOOD)
    assert await house.refresh()
    assert suffixes(house) == ["-second"]


async def test_a_bad_file_does_not_hold_up_the_database(house, file):
    file.write_text("providers: 7")
    assert not await house.refresh()
    await put_price(house, GOOD)
    assert await house.refresh()
    assert suffixes(house) == ["-first"]


async def test_what_a_newer_release_stored_stops_neither_the_file_nor_the_keys(house, file, caplog):
    """While replicas are replaced one by one."""
    text = await make_key(house)
    await house.refresh()
    access = house.state.access
    assert (await access.caller_of({"x-api-key": text})).username == "ada"

    def work(connection):
        body = {"id": "new", "type": "of-next-year", "models": {}, "channels": []}
        row = {"id": "new", "position": 0, "body": body, "updated_at": 1000}
        upsert(connection, providers.providers, row)
        keys.update(connection, text.split("-")[2], enabled=False, **BY)

    await house.state.lasting.database.write(work)
    for _ in range(3):
        assert not await house.refresh()
    assert caplog.text.count("the provider 'new' of the database cannot be read") == 1
    with pytest.raises(Unauthorized):
        await house.state.access.caller_of({"x-api-key": text})
    write(file, suffix="-second")
    assert await house.refresh()
    assert suffixes(house) == ["-second"]


async def test_whoever_needs_no_key_is_told_so_at_start(file, caplog):
    """And not when the database has one."""
    write(file, suffix="-x", keys=[])
    caplog.set_level(logging.WARNING)
    for has_key in (False, True):
        caplog.clear()
        house = House(partial(load, file, {}), folder=file.parent, file=file, environment={})
        await house.start()
        assert house.state.access.is_open is not has_key
        assert ("there are no keys" in caplog.text) is not has_key
        if not has_key:
            await make_key(house)
        await house.aclose()


async def make_key(house: House) -> str:
    lasting = house.state.lasting
    user = await lasting.database.write(
        partial(users.create, ids=lasting.ids, username="ada", **BY)
    )
    work = partial(
        keys.create, vault=lasting.vault, ids=lasting.ids, user_id=user.id, name="k", **BY
    )
    _, text = await lasting.database.write(work)
    return text


async def test_a_change_of_both_at_once_is_taken_over_whole(house, file):
    write(file, suffix="-third", keys=[{"name": "root", "key": ADMIN, "role": "user"}])
    await put_price(house, GOOD)
    await asyncio.gather(*(house.refresh() for _ in range(5)))
    assert suffixes(house) == ["-third"]
    caller = await house.state.access.caller_of({"x-api-key": ADMIN})
    assert caller.role == "user"
