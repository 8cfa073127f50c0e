"""Users, and the money of prepaid ones."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from sqlalchemy import select, update

from monoize.account import User
from monoize.clock import RandomIds, SequentialIds
from monoize.errors import Conflict, InvalidRequest, NotFound
from monoize.store import audit, keys, settings, tables, users
from monoize.store.vault import Vault

BY = {"actor": "root", "now": 1000}
LATER = {"actor": "ops", "now": 2000}


def made(username="ada", **more):
    return lambda c: users.create(c, ids=RandomIds(), username=username, **{**BY, **more})


def ledger(connection):
    columns = tables.ledger.c
    query = select(columns.kind, columns.amount, columns.balance_after).order_by(columns.id)
    return [tuple(row) for row in connection.execute(query)]


async def test_a_user_is_made_found_and_listed(database):
    user = await database.write(made(role="admin", balance=5))
    assert user == User(
        id=user.id, username="ada", role="admin", balance=5, created_at=1000, updated_at=1000
    )
    assert user.id.startswith("user_")
    assert await database.read(lambda c: users.get(c, user.id)) == user
    assert await database.read(lambda c: users.find(c, "ada")) == user
    assert await database.read(lambda c: users.find(c, "bob")) is None
    assert await database.read(users.page) == (user,)


WRONG = [
    ({"username": ""}, "username"),
    ({"username": " ada"}, "username"),
    ({"username": "a\nb"}, "username"),
    ({"username": "a\0b"}, "username"),
    ({"username": "half \ud83d"}, "username"),
    ({"username": "a" * 129}, "username"),
    ({"username": "_monoize_probe"}, "username"),
    ({"role": "super_admin"}, "role"),
    ({"balance": -1}, "balance"),
    ({"balance": 2**63}, "balance"),
]


async def test_what_no_user_can_be(database):
    user = await database.write(made())
    for wrong, param in WRONG:
        with pytest.raises(InvalidRequest) as caught:
            await database.write(made(**{"username": "bob", **wrong}))
        assert caught.value.param == param
        with pytest.raises(InvalidRequest):
            await database.write(partial(users.update, user_id=user.id, **wrong, **LATER))
    assert await database.read(users.page) == (user,)


async def test_a_name_is_given_once_even_in_a_race(database):
    done = await asyncio.gather(*(database.write(made()) for _ in range(8)), return_exceptions=True)
    assert sum(isinstance(result, User) for result in done) == 1
    assert sum(isinstance(result, Conflict) for result in done) == 7
    bob = await database.write(made("bob"))
    with pytest.raises(Conflict):
        await database.write(lambda c: users.update(c, bob.id, username="ada", **LATER))
    assert await database.read(settings.revision) == 2


@pytest.mark.spec("T45")
async def test_no_change_hides_behind_another(database):
    await asyncio.gather(*(database.write(made(f"u{i}")) for i in range(20)))
    assert await database.read(settings.revision) == 20


async def test_pages_go_by_id_and_are_bounded(database):
    await database.write(lambda c: [made(f"u{i}")(c) for i in range(7)])
    seen, after = [], None
    while page := await database.read(partial(users.page, after=after, limit=3)):
        assert len(page) <= 3
        seen += page
        after = page[-1].id
    assert [user.id for user in seen] == sorted(user.id for user in seen)
    assert {user.username for user in seen} == {f"u{i}" for i in range(7)}
    for limit in (0, -1, 1001):
        with pytest.raises(InvalidRequest):
            await database.read(lambda c, limit=limit: users.page(c, limit=limit))


@pytest.mark.spec("T46")
async def test_only_what_is_given_changes(database):
    user = await database.write(made(role="admin", balance=7))
    changed = await database.write(lambda c: users.update(c, user.id, enabled=False, **LATER))
    assert changed == User(
        id=user.id,
        username="ada",
        role="admin",
        enabled=False,
        balance=7,
        created_at=1000,
        updated_at=2000,
    )
    assert await database.read(lambda c: users.get(c, user.id)) == changed


async def test_a_change_to_what_it_is_already_is_none(database):
    user = await database.write(made())
    same = await database.write(
        lambda c: users.update(c, user.id, username="ada", role="user", enabled=True, **LATER)
    )
    assert same == user
    assert await database.read(settings.revision) == 1
    assert len(await database.read(audit.page)) == 1


@pytest.mark.parametrize(
    "work",
    [
        lambda c: users.get(c, "user_nobody"),
        lambda c: users.update(c, "user_nobody", enabled=False, **LATER),
        lambda c: users.delete(c, "user_nobody", **LATER),
        lambda c: users.adjust(c, "user_nobody", 1, reason="x", **LATER),
    ],
)
async def test_nobody_is_not_found(database, work):
    with pytest.raises(NotFound):
        await database.write(work)


async def test_a_user_goes_with_all_keys_and_the_ledger_stays(database):
    vault = Vault(b"x" * 32)
    user = await database.write(made(balance=9))

    def with_keys(connection):
        for name in ("a", "b"):
            keys.create(connection, vault=vault, ids=RandomIds(), user_id=user.id, name=name, **BY)

    await database.write(with_keys)
    await database.write(lambda c: users.delete(c, user.id, **LATER))
    assert await database.read(users.page) == ()
    assert await database.read(keys.page) == ()
    assert await database.read(ledger) == [("adjustment", 9, 9)]
    assert (await database.read(audit.page))[0].action == "user.delete"


class TestMoney:
    @pytest.mark.spec("T39")
    async def test_every_change_of_a_balance_is_in_the_ledger(self, database):
        user = await database.write(made(balance=100))
        await database.write(lambda c: users.adjust(c, user.id, 50, reason="gift", **LATER))
        await database.write(lambda c: users.adjust(c, user.id, -30, reason="mistake", **LATER))
        await database.write(lambda c: users.update(c, user.id, balance=10, **LATER))
        await database.write(lambda c: users.update(c, user.id, balance=None, **LATER))
        assert await database.read(ledger) == [
            ("adjustment", 100, 100),
            ("adjustment", 50, 150),
            ("adjustment", -30, 120),
            ("adjustment", -110, 10),
            ("adjustment", -10, None),
        ]
        assert (await database.read(lambda c: users.get(c, user.id))).balance is None

    @pytest.mark.parametrize("delta", [-101, -71, 2**62, -(2**70)])
    async def test_what_is_reserved_or_not_there_cannot_be_taken(self, database, delta):
        user = await database.write(made(balance=100))
        await database.write(lambda c: c.execute(update(tables.users).values(reserved=30)))
        with pytest.raises(InvalidRequest):
            await database.write(lambda c: users.adjust(c, user.id, delta, reason="x", **LATER))
        assert (await database.read(lambda c: users.get(c, user.id))).balance == 100
        taken = await database.write(lambda c: users.adjust(c, user.id, -70, reason="x", **LATER))
        assert taken.balance == 30

    async def test_who_is_not_prepaid_has_no_balance_to_adjust(self, database):
        user = await database.write(made())
        with pytest.raises(Conflict) as caught:
            await database.write(lambda c: users.adjust(c, user.id, 1, reason="x", **LATER))
        assert caught.value.error_code == "not_prepaid"

    @pytest.mark.spec("T38")
    async def test_adjustments_at_once_all_count(self, database):
        user = await database.write(made(balance=0))

        def added(connection):
            return users.adjust(connection, user.id, 1, reason="x", **LATER)

        await asyncio.gather(*(database.write(added) for _ in range(40)))
        assert (await database.read(lambda c: users.get(c, user.id))).balance == 40
        after = [row[2] for row in await database.read(ledger)]
        assert sorted(after) == list(range(41))

    async def test_taking_at_once_never_goes_below_nothing(self, database):
        user = await database.write(made(balance=10))

        def taken(connection):
            return users.adjust(connection, user.id, -3, reason="x", **LATER)

        done = await asyncio.gather(
            *(database.write(taken) for _ in range(9)), return_exceptions=True
        )
        assert sum(isinstance(result, User) for result in done) == 3
        assert (await database.read(lambda c: users.get(c, user.id))).balance == 1


class TestAudit:
    async def test_who_changed_what_and_when(self, database):
        user = await database.write(made(balance=1))
        await database.write(lambda c: users.update(c, user.id, role="admin", **LATER))
        await database.write(lambda c: users.adjust(c, user.id, 4, reason="gift", **LATER))
        entries = await database.read(audit.page)
        assert [(e.action, e.subject, e.actor, e.created_at) for e in entries] == [
            ("user.adjust", user.id, "ops", 2000),
            ("user.update", user.id, "ops", 2000),
            ("user.create", user.id, "root", 1000),
        ]
        assert entries[0].detail == {"delta": 4, "balance": 5, "reason": "gift"}
        assert entries[1].detail == {"role": {"from": "user", "to": "admin"}}

    async def test_a_change_that_fails_leaves_no_row(self, database):
        await database.write(made())
        with pytest.raises(Conflict):
            await database.write(made())
        assert len(await database.read(audit.page)) == 1

    async def test_it_is_paged_and_filtered(self, database):
        one = await database.write(made("one"))
        two = await database.write(made("two", actor="ops"))
        for role in ("admin", "user"):
            await database.write(lambda c, role=role: users.update(c, one.id, role=role, **LATER))
        first = await database.read(lambda c: audit.page(c, limit=2))
        rest = await database.read(lambda c: audit.page(c, before=first[-1].id))
        assert [entry.id for entry in (*first, *rest)] == [4, 3, 2, 1]
        for wanted, count in (
            ({"actor": "ops"}, 3),
            ({"subject": two.id}, 1),
            ({"action": "user.create"}, 2),
            ({"action": "user.create", "actor": "root"}, 1),
        ):
            found = await database.read(lambda c, wanted=wanted: audit.page(c, **wanted))
            assert len(found) == count


async def test_sequential_ids_are_fine_in_tests(database):
    user = await database.write(
        lambda c: users.create(c, ids=SequentialIds(), username="ada", **BY)
    )
    assert user.id == "user_" + "1".zfill(24)
