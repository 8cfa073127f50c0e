"""API keys: shown once, found by id, limited by a policy that was checked when it was written."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from sqlalchemy import select, update

from monoize.account import Budgets, Key, KeyPolicy
from monoize.clock import RandomIds, SequentialIds
from monoize.errors import Conflict, Forbidden, InvalidRequest, NotFound
from monoize.settings import RuleSettings
from monoize.store import audit, key_rules, keys, settings, tables, users
from monoize.store.vault import Vault, parse_key
from monoize.transform import transforms

BY = {"actor": "root", "now": 1000}
LATER = {"actor": "ops", "now": 2000}
VAULT = Vault(b"the secret of the program")

SET_FIELD = {"transform": "set_field", "phase": "request", "config": {"path": "a", "value": 1}}
PROMPT = {
    "transform": "inject_system_prompt",
    "phase": "request",
    "config": {"content": "Be brief.", "position": "append"},
}


@pytest.fixture
async def user(database):
    return await database.write(lambda c: users.create(c, ids=RandomIds(), username="ada", **BY))


@pytest.fixture
async def admin(database):
    return await database.write(
        lambda c: users.create(c, ids=RandomIds(), username="root", role="admin", **BY)
    )


def made(user, **more):
    given = {"ids": RandomIds(), "name": "laptop", **BY, **more}
    return lambda c: keys.create(c, vault=VAULT, user_id=user.id, **given)


class TestLife:
    async def test_a_key_is_shown_once_and_found_by_its_id(self, database, user):
        key, text = await database.write(made(user, expires_at=5000))
        id_, secret = parse_key(text)
        assert key == Key(
            id=id_,
            user_id=user.id,
            name="laptop",
            hint=key.hint,
            expires_at=5000,
            created_at=1000,
            updated_at=1000,
        )
        found = await database.read(lambda c: keys.credential(c, id_))
        assert (found.key, found.user) == (key, user)
        assert VAULT.matches(secret, found.digest)
        assert await database.read(lambda c: keys.get(c, id_)) == key
        assert await database.read(lambda c: keys.credential(c, "0" * 16)) is None

    async def test_what_is_stored_is_not_the_key(self, database, user):
        _, text = await database.write(made(user))
        row = await database.read(lambda c: c.execute(select(tables.keys)).mappings().one())
        assert parse_key(text)[1] not in str(dict(row))
        assert text not in str(dict(row))

    @pytest.mark.spec("T46")
    async def test_only_what_is_given_changes(self, database, user):
        policy = {"models": ["gpt-*"], "budgets": {"day": 5, "month": 50}, "requests_per_minute": 3}
        key, _ = await database.write(made(user, policy=policy))
        changed = await database.write(
            lambda c: keys.update(c, key.id, policy={"budgets": {"day": 6}}, **LATER)
        )
        assert changed.policy == KeyPolicy(
            models=("gpt-*",), budgets=Budgets(day=6, month=50), requests_per_minute=3
        )
        changed = await database.write(
            lambda c: keys.update(c, key.id, policy={"models": None}, **LATER)
        )
        assert changed.policy.models is None
        assert changed.policy.requests_per_minute == 3
        changed = await database.write(lambda c: keys.update(c, key.id, enabled=False, **LATER))
        assert (changed.enabled, changed.name, changed.updated_at) == (False, "laptop", 2000)
        changed = await database.write(
            lambda c: keys.update(c, key.id, policy=KeyPolicy(capture="all"), expires_at=9, **LATER)
        )
        assert changed.policy == KeyPolicy(capture="all")
        assert await database.read(lambda c: keys.get(c, key.id)) == changed

    async def test_a_change_to_what_it_is_already_is_none(self, database, user):
        key, _ = await database.write(made(user))
        before = await database.read(settings.revision)
        assert await database.write(lambda c: keys.update(c, key.id, name="laptop", **LATER)) == key
        assert await database.read(settings.revision) == before

    async def test_a_new_secret_ends_the_old_one(self, database, user):
        key, old = await database.write(made(user))
        again, new = await database.write(
            lambda c: keys.rotate(c, key.id, vault=VAULT, ids=RandomIds(), **LATER)
        )
        assert again.id == key.id
        found = await database.read(lambda c: keys.credential(c, key.id))
        assert VAULT.matches(parse_key(new)[1], found.digest)
        assert not VAULT.matches(parse_key(old)[1], found.digest)

    async def test_a_deleted_key_is_gone(self, database, user):
        key, _ = await database.write(made(user))
        await database.write(lambda c: keys.delete(c, key.id, **LATER))
        assert await database.read(lambda c: keys.credential(c, key.id)) is None
        for work in (
            lambda c: keys.get(c, key.id),
            lambda c: keys.update(c, key.id, name="x", **LATER),
            lambda c: keys.delete(c, key.id, **LATER),
            lambda c: keys.rotate(c, key.id, vault=VAULT, ids=RandomIds(), **LATER),
        ):
            with pytest.raises(NotFound):
                await database.write(work)

    async def test_use_is_noted_for_many_at_once_and_is_no_change(self, database, user):
        made_keys = [(await database.write(made(user)))[0] for _ in range(3)]
        before = await database.read(settings.revision)
        await database.write(
            lambda c: keys.used(c, {made_keys[0].id: 7, made_keys[2].id: 8, "x": 9})
        )
        await database.write(lambda c: keys.used(c, {}))
        seen = [
            (await database.read(lambda c, k=key: keys.get(c, k.id))).last_used_at
            for key in made_keys
        ]
        assert seen == [7, None, 8]
        assert await database.read(settings.revision) == before

    async def test_lists_go_by_owner_and_page(self, database, user, admin):
        for owner in (user, user, user, admin):
            await database.write(made(owner))
        mine = await database.read(lambda c: keys.page(c, user_id=user.id, limit=2))
        rest = await database.read(lambda c: keys.page(c, user_id=user.id, after=mine[-1].id))
        assert [len(mine), len(rest)] == [2, 1]
        assert len(await database.read(keys.page)) == 4

    async def test_an_id_is_given_once(self, database, user):
        await database.write(made(user, ids=SequentialIds()))
        with pytest.raises(Conflict):
            await database.write(made(user, ids=SequentialIds()))

    async def test_nobody_owns_no_key(self, database, user):
        await database.write(lambda c: users.delete(c, user.id, **LATER))
        with pytest.raises(NotFound):
            await database.write(made(user))

    @pytest.mark.spec("T38")
    async def test_nobody_has_more_keys_than_allowed_even_in_a_race(
        self, database, user, monkeypatch
    ):
        monkeypatch.setattr(keys, "MOST_KEYS", 2)
        done = await asyncio.gather(
            *(database.write(made(user)) for _ in range(6)), return_exceptions=True
        )
        refused = [result for result in done if isinstance(result, Forbidden)]
        assert len(refused) == 4
        assert refused[0].error_code == "max_api_keys_reached"
        assert len(await database.read(keys.page)) == 2


LONG_PROMPT = {
    "transform": "inject_system_prompt",
    "phase": "request",
    "config": {"content": "x" * 300_000, "position": "append"},
}
WRONG = [
    ({"models": [""]}, "policy.models[0]"),
    ({"models": ["a\0"]}, "policy.models[0]"),
    ({"models": "*"}, "policy"),
    ({"models": ["m"] * 1001}, "policy.models"),
    ({"transforms": [LONG_PROMPT]}, "policy"),
    ({"addresses": ["10.0.0.0/8", "here"]}, "policy.addresses[1]"),
    ({"addresses": ["10.0.0.0/33"]}, "policy.addresses[0]"),
    ({"requests_per_minute": 0}, "policy"),
    ({"tokens_per_minute": 1.5}, "policy"),
    ({"tokens_per_minute": 10**15}, "policy.tokens_per_minute"),
    ({"budgets": {"day": -1}}, "policy"),
    ({"budgets": {"day": 2**63}}, "policy.budgets.day"),
    ({"budgets": {"week": 1}}, "policy"),
    ({"budgets": None}, "policy"),
    ({"max_multiplier": "0"}, "policy.max_multiplier"),
    ({"max_multiplier": "-1"}, "policy.max_multiplier"),
    ({"max_multiplier": "NaN"}, "policy.max_multiplier"),
    ({"max_multiplier": "1e9"}, "policy.max_multiplier"),
    ({"max_multiplier": "0.0000000001"}, "policy.max_multiplier"),
    ({"max_multiplier": 1.5}, "policy"),
    ({"capture": "everything"}, "policy"),
    ({"no_such_field": 1}, "policy"),
    ({"transforms": [{"transform": "no_such", "phase": "request"}]}, "policy.transforms"),
    ({"transforms": [{**PROMPT, "phase": "response"}]}, "policy.transforms"),
    ({"transforms": [{**PROMPT, "config": {}}]}, "policy.transforms"),
]


class TestPolicy:
    @pytest.mark.spec("PIPE-2", "T39")
    async def test_a_policy_is_checked_when_it_is_written(self, database, user):
        key, _ = await database.write(made(user))
        for policy, param in WRONG:
            with pytest.raises(InvalidRequest) as caught:
                await database.write(made(user, policy=policy))
            assert caught.value.param == param
            assert param in caught.value.message
            with pytest.raises(InvalidRequest):
                await database.write(partial(keys.update, key_id=key.id, policy=policy, **LATER))
        assert await database.read(keys.page) == (key,)
        assert await database.read(lambda c: keys.get(c, key.id)) == key

    async def test_a_policy_comes_back_as_it_was_written(self, database, user):
        policy = KeyPolicy(
            models=("gpt-*", "claude-?"),
            addresses=("10.0.0.0/8", "::1"),
            requests_per_minute=5,
            tokens_per_minute=10**9,
            budgets=Budgets(day=0, total=2**62),
            max_multiplier="1.000000001",
            transforms=(RuleSettings(**PROMPT),),
            capture="abnormal",
        )
        key, _ = await database.write(made(user, policy=policy))
        assert key.policy == policy
        assert (await database.read(lambda c: keys.get(c, key.id))).policy == policy

    async def test_names_and_moments_are_checked_too(self, database, user):
        for wrong in ({"name": ""}, {"name": "a\nb"}, {"expires_at": -1}, {"expires_at": 10**18}):
            with pytest.raises(InvalidRequest) as caught:
                await database.write(made(user, **wrong))
            assert caught.value.param in wrong


class TestRules:
    """Which transforms a key may carry (seed 1.4)."""

    def test_every_transform_was_thought_of(self):
        withheld = {
            "force_stream",
            "override_max_tokens",
            "reasoning_effort_to_budget",
            "reasoning_effort_to_model_suffix",
            "remove_field",
            "set_field",
        }
        assert set(transforms()) == withheld | key_rules.ALLOWED
        assert not withheld & key_rules.ALLOWED

    @pytest.mark.parametrize("enabled", [True, False])
    async def test_what_could_change_the_price_or_the_route_is_for_admins(
        self, database, user, admin, enabled
    ):
        policy = {"transforms": [PROMPT, {**SET_FIELD, "enabled": enabled}]}
        with pytest.raises(Forbidden, match="'set_field'") as caught:
            await database.write(made(user, policy=policy))
        assert caught.value.param == "policy.transforms[1].transform"
        key, _ = await database.write(made(admin, policy=policy))
        assert len(key.policy.transforms) == 2
        plain, _ = await database.write(made(user))
        with pytest.raises(Forbidden):
            await database.write(lambda c: keys.update(c, plain.id, policy=policy, **LATER))

    async def test_an_admin_no_longer_loses_them(self, database, admin):
        policy = {"transforms": [SET_FIELD, PROMPT]}
        key, _ = await database.write(made(admin, policy=policy))
        await database.write(lambda c: users.update(c, admin.id, role="user", **LATER))
        found = await database.read(lambda c: keys.credential(c, key.id))
        assert [rule.transform for rule in found.key.policy.transforms] == ["inject_system_prompt"]
        # What was written is still there to be seen.
        assert len((await database.read(lambda c: keys.get(c, key.id))).policy.transforms) == 2


async def test_the_audit_names_what_changed(database, user):
    key, _ = await database.write(made(user, policy={"budgets": {"day": 5}}))
    await database.write(lambda c: keys.update(c, key.id, name="desk", **LATER))
    await database.write(lambda c: keys.rotate(c, key.id, vault=VAULT, ids=RandomIds(), **LATER))
    await database.write(lambda c: keys.delete(c, key.id, **LATER))
    entries = await database.read(lambda c: audit.page(c, subject=key.id))
    assert [entry.action for entry in entries] == [
        "key.delete",
        "key.rotate",
        "key.update",
        "key.create",
    ]
    assert entries[1].detail is None
    assert entries[2].detail == {"name": {"from": "laptop", "to": "desk"}}
    assert entries[3].detail["policy"]["budgets"] == {"day": 5, "month": None, "total": None}


async def test_use_that_is_noted_meanwhile_survives_a_change(database, user):
    key, _ = await database.write(made(user))
    await database.write(lambda c: c.execute(update(tables.keys).values(last_used_at=77)))
    await database.write(lambda c: keys.update(c, key.id, name="desk", **LATER))
    assert (await database.read(lambda c: keys.get(c, key.id))).last_used_at == 77
