"""Who an earlier call came from: for runs that outlast it, by the keys as they stand now."""

from __future__ import annotations

from functools import partial

import pytest

from fakes.databases import database, database_url, postgresql
from monoize.account import KeyPolicy
from monoize.clock import RandomIds, SystemClock
from monoize.errors import Unauthorized
from monoize.pipeline.call import NOBODY
from monoize.server.access import Access
from monoize.server.keyring import Keyring
from monoize.settings import KeySettings, ServerSettings
from monoize.store import keys, users
from monoize.store.vault import Vault

__all__ = ["database", "database_url", "postgresql"]

OWN = KeySettings(name="dev", key="sk-dev-0123456789abcdef", username="dev")


async def test_a_key_of_the_file_is_found_by_its_id_until_it_is_gone():
    access = Access(ServerSettings(), (OWN,))
    assert (await access.caller_by_id("file:dev")).username == "dev"
    with pytest.raises(Unauthorized, match="any more"):
        await Access(ServerSettings(), (), has_keys=True).caller_by_id("file:dev")


async def test_where_nobody_needs_a_key_nobody_has_one():
    assert await Access(ServerSettings(), ()).caller_by_id(None) is NOBODY
    with pytest.raises(Unauthorized, match="without a key"):
        await Access(ServerSettings(), (OWN,)).caller_by_id(None)


async def test_a_key_of_the_database_is_asked_for_anew(database, tmp_path):
    vault, clock = Vault.load(tmp_path, {}), SystemClock()
    change = {"actor": "test", "now": 1}
    user = await database.write(partial(users.create, ids=RandomIds(), username="ada", **change))
    key, _ = await database.write(
        partial(
            keys.create,
            vault=vault,
            ids=RandomIds(),
            user_id=user.id,
            name="k",
            policy=KeyPolicy(addresses=("10.0.0.1",)),
            **change,
        )
    )
    ring = Keyring(database, vault, clock, grace_seconds=60)
    caller = await ring.caller_by_id(key.id)  # from where it came was asked when it came
    assert caller is not None
    assert caller.username == "ada"
    await database.write(partial(keys.update, key_id=key.id, enabled=False, **change))
    ring.forget()
    assert await ring.caller_by_id(key.id) is None
    assert await ring.caller_by_id("nothing") is None
