"""CVE-2026-35030: a cache that knew keys by their first letters let one in as the other."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from fakes.management import Api, opened
from monoize.errors import DatabaseAway, Unauthorized
from monoize.store import keys
from monoize.store.vault import parse_key

FRONT = "sk-team-" + "f" * 60
FILE_ADMIN, FILE_USER = f"{FRONT}-a", f"{FRONT}-b"


class Chosen:
    """Ids that a test chooses."""

    def __init__(self, key_id: str) -> None:
        self.key_id = key_id

    def new(self, prefix: str) -> str:
        return prefix + self.key_id


class Away:
    """The database, gone."""

    async def read(self, work: object) -> object:
        raise DatabaseAway("gone")


async def twins(api: Api) -> tuple[str, str]:
    """Keys of an admin and of a user, alike in their first 21 letters."""
    made = []
    for name, role, last in (("boss", "admin", "1"), ("ann", "user", "2")):
        user = await api.user(name, role=role)
        lasting = api.house.state.lasting
        work = partial(
            keys.create,
            vault=lasting.vault,
            ids=Chosen("A" * 15 + last),
            user_id=user["id"],
            name=name,
            actor="tests",
            now=1,
        )
        made.append((await lasting.database.write(work))[1])
    await api.house.refresh()
    assert made[0][:21] == made[1][:21]
    return made[0], made[1]


def forged(one: str, other: str) -> list[str]:
    """What a look at less than the whole key would take for the first."""
    (key_id, secret), (_, others) = parse_key(one), parse_key(other)
    wrong = "0" if secret[-1] != "0" else "1"
    return [
        f"sk-mz-{key_id}-{others}",
        f"sk-mz-{key_id}-{secret[:20]}{others[20:]}",
        f"sk-mz-{key_id}-{secret[:-1]}{wrong}",
        f"sk-mz-{key_id}-{'0' * 40}",
        one[:20],
        one[:-1],
        f"{one}0",
        one.swapcase(),
    ]


async def _name(api: Api, key: str) -> str | None:
    answer = await api.call("GET", "/api/me", key=key)
    return answer.json["username"] if answer.status == 200 else None


@pytest.mark.spec("CVE-2026-35030")
async def test_cve_2026_35030_keys_of_the_database_are_told_apart_warm_and_cold(api):
    boss, ann = await twins(api)
    for _ in range(2):  # from the store, then from memory
        assert await _name(api, boss) == "boss"
        for key in forged(boss, ann):
            assert await _name(api, key) is None, key
        assert await _name(api, ann) == "ann"
        for key in forged(ann, boss):
            assert await _name(api, key) is None, key
        assert (await api.call("GET", "/api/users", key=ann)).status == 403
    assert len(api.house.state.lasting.keyring._entries) == 2  # by id: guesses take no place


@pytest.mark.spec("CVE-2026-35030")
async def test_cve_2026_35030_memory_compares_whole_keys_while_the_database_is_away(api):
    boss, ann = await twins(api)
    assert (await _name(api, boss), await _name(api, ann)) == ("boss", "ann")
    ring = api.house.state.lasting.keyring
    ring._database = Away()
    ring.forget()
    assert (await ring.caller_of(boss, None)).username == "boss"
    for key in forged(boss, ann)[:4]:
        with pytest.raises(Unauthorized):
            await ring.caller_of(key, None)


@pytest.mark.spec("CVE-2026-35030")
async def test_cve_2026_35030_an_old_secret_is_a_stranger_though_its_front_is_in_memory(api):
    made = await api.key(await api.user("ann"))
    assert await _name(api, made["key"]) == "ann"
    rotated = await api.good("POST", f"/api/keys/{made['id']}/rotate")
    assert rotated["key"][:23] == made["key"][:23]
    assert await _name(api, made["key"]) is None
    assert await _name(api, rotated["key"]) == "ann"
    assert await _name(api, made["key"]) is None


@pytest.mark.spec("CVE-2026-35030")
async def test_cve_2026_35030_keys_of_the_file_are_told_apart(tmp_path: Path):
    rows = [
        {"name": "boss", "key": FILE_ADMIN, "role": "admin", "username": "boss"},
        {"name": "ann", "key": FILE_USER, "username": "ann"},
    ]
    house = await opened(tmp_path, None, keys=rows)
    api = Api(house)
    try:
        assert (await _name(api, FILE_ADMIN), await _name(api, FILE_USER)) == ("boss", "ann")
        assert (await api.call("GET", "/api/providers", key=FILE_USER)).status == 403
        for key in (FRONT, f"{FRONT}-", f"{FRONT}-c", FILE_ADMIN[:20], f"{FILE_ADMIN}a"):
            assert await _name(api, key) is None, key
    finally:
        await house.aclose()
