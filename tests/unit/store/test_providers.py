"""Providers, prices and settings that were made at run time."""

from __future__ import annotations

from functools import partial

import pytest
from sqlalchemy import func, select

from monoize.clock import RandomIds
from monoize.errors import Conflict, InvalidRequest, MonoizeError, NotFound
from monoize.settings import ChannelSettings, ModelSettings, ProviderSettings
from monoize.store import audit, prices, providers, settings, tables, users
from monoize.store.vault import Vault

VAULT = Vault(b"the secret of the program")
BY = {"actor": "root", "now": 1000}
LATER = {"actor": "ops", "now": 2000}
HERE = "https://api.example.com/v1"

CLAUDE = {
    "id": "claude",
    "type": "messages",
    "models": {"claude-*": {"multiplier": "1.2"}},
    "channels": [
        {
            "id": "main",
            "base_url": HERE,
            "api_key": "sk-provider-secret-1",
            "headers": {"x-tenant": "tenant-secret"},
        },
        {"id": "spare", "base_url": HERE},
    ],
}


def create(form, **more):
    return lambda c: providers.create(c, form, vault=VAULT, **{**BY, **more})


def update(provider_id, /, **changes):
    return lambda c: providers.update(c, provider_id, changes, vault=VAULT, **LATER)


async def opened(database, vault=VAULT):
    return await database.read(lambda c: providers.opened(c, vault))


async def secret_names(database):
    return set(await database.read(lambda c: list(c.scalars(select(tables.secrets.c.name)))))


class TestSecrets:
    async def test_people_see_that_there_is_a_key_and_the_program_sees_it(self, database):
        provider = await database.write(create(CLAUDE))
        main, spare = provider.body["channels"]
        assert (main["has_api_key"], main["header_names"]) == (True, ["x-tenant"])
        assert (spare["has_api_key"], spare["header_names"]) == (False, [])
        assert "secret" not in str(provider)
        (found,) = await opened(database)
        assert found == ProviderSettings(
            id="claude",
            type="messages",
            models={"claude-*": ModelSettings(multiplier="1.2")},
            channels=(
                ChannelSettings(
                    id="main",
                    base_url=HERE,
                    api_key="sk-provider-secret-1",
                    headers={"x-tenant": "tenant-secret"},
                ),
                ChannelSettings(id="spare", base_url=HERE),
            ),
        )
        assert await secret_names(database) == {"channel/claude/main"}

    async def test_a_typed_provider_is_taken_as_well(self, database):
        await database.write(create(CLAUDE))
        (found,) = await opened(database)
        copy = ProviderSettings(
            id="copy", type=found.type, models=found.models, channels=found.channels
        )
        await database.write(create(copy))
        assert (await opened(database))[1] == copy

    @pytest.mark.spec("T46")
    @pytest.mark.parametrize(
        "channel",
        [
            {"id": "main", "weight": 5},
            {"id": "main", "weight": 5, "api_key": None},
            {"id": "main", "weight": 5, "api_key": "", "headers": None},
            {"id": "main", "weight": 5, "has_api_key": True, "header_names": ["x-tenant"]},
        ],
    )
    async def test_a_change_without_a_key_keeps_the_stored_one(self, database, channel):
        await database.write(create(CLAUDE))
        await database.write(update("claude", channels=[channel]))
        (found,) = await opened(database)
        (main,) = found.channels
        assert (main.weight, main.base_url) == (5, HERE)
        assert (main.api_key, main.headers) == (
            "sk-provider-secret-1",
            {"x-tenant": "tenant-secret"},
        )

    @pytest.mark.spec("T46")
    async def test_what_people_see_can_be_sent_back_and_changes_nothing(self, database):
        shown = await database.write(create(CLAUDE))
        before = await opened(database)
        again = await database.write(update("claude", **shown.body))
        assert again == shown
        assert await opened(database) == before
        assert len(await database.read(audit.page)) == 1

    @pytest.mark.spec("T46")
    @pytest.mark.parametrize("masked", ["sk-…1234", "sk-****1234", "••••••••", "sk-...1234"])
    async def test_a_masked_key_is_never_stored(self, database, masked):
        await database.write(create(CLAUDE))
        for secrets in ({"api_key": masked}, {"headers": {"x-tenant": masked}}):
            with pytest.raises(InvalidRequest):
                await database.write(update("claude", channels=[{"id": "main", **secrets}]))
            with pytest.raises(InvalidRequest):
                form = {**CLAUDE, "id": "b", "channels": [{"id": "a", "base_url": HERE, **secrets}]}
                await database.write(create(form))
        (found,) = await opened(database)
        assert found.channels[0].api_key == "sk-provider-secret-1"

    @pytest.mark.spec("T46")
    async def test_other_fields_of_the_provider_stay(self, database):
        await database.write(create({**CLAUDE, "max_retries": 3, "request_timeout_ms": 5}))
        await database.write(update("claude", enabled=False))
        (found,) = await opened(database)
        assert (found.enabled, found.max_retries, found.request_timeout_ms) == (False, 3, 5)
        assert found.channels[0].api_key == "sk-provider-secret-1"

    async def test_a_new_key_takes_the_place_of_the_old_one(self, database):
        await database.write(create(CLAUDE))
        renewed = [{"id": "main", "api_key": "sk-provider-secret-2"}]
        await database.write(update("claude", channels=renewed))
        (found,) = await opened(database)
        assert found.channels[0].api_key == "sk-provider-secret-2"
        assert found.channels[0].headers == {"x-tenant": "tenant-secret"}
        entry = (await database.read(audit.page))[0]
        assert entry.detail["new_secrets"] == ["main"]
        assert "provider-secret" not in str(entry)

    async def test_secrets_go_with_their_channel_and_their_provider(self, database):
        await database.write(create(CLAUDE))
        both = [{"id": "main"}, {"id": "spare", "api_key": "sk-provider-secret-3"}]
        await database.write(update("claude", channels=both))
        assert await secret_names(database) == {"channel/claude/main", "channel/claude/spare"}
        await database.write(update("claude", channels=[{"id": "spare"}]))
        assert await secret_names(database) == {"channel/claude/spare"}
        await database.write(lambda c: providers.delete(c, "claude", **LATER))
        assert await secret_names(database) == set()
        assert await opened(database) == ()

    @pytest.mark.spec("LL#24952", "LL#37053")
    @pytest.mark.parametrize(
        "move",
        [
            {"base_url": "https://evil.example/v1"},
            {"base_url": "http://api.example.com/v1"},
            {"base_url": "https://api.example.com:8443/v1"},
            {"base_url": "https://evil.example/v1", "api_key": "", "headers": {"x": "y"}},
            {"base_url": "https://evil.example/v1", "api_key": "sk-new-key"},
            {"proxy": "http://evil.example:3128"},
        ],
    )
    async def test_a_stored_key_goes_to_no_other_host(self, database, move):
        await database.write(create(CLAUDE))
        with pytest.raises(InvalidRequest, match="anew"):
            await database.write(update("claude", channels=[{"id": "main", **move}]))
        (found,) = await opened(database)
        assert found.channels[0].base_url == HERE

    async def test_with_its_own_secrets_a_channel_may_move(self, database):
        await database.write(create(CLAUDE))
        move = {"base_url": "https://new.example/v1", "api_key": "sk-new-key", "headers": {}}
        await database.write(update("claude", channels=[{"id": "main", **move}]))
        (found,) = await opened(database)
        assert (found.channels[0].api_key, found.channels[0].headers) == ("sk-new-key", {})
        # Another path on the same host is no other host, and a channel without secrets has none to lose.
        path = [{"id": "main", "base_url": "https://new.example/v2"}]
        await database.write(update("claude", channels=path))

    async def test_the_same_secrets_may_be_given_anew(self, database):
        """Who has them and sends them has decided that they may go there."""
        await database.write(create(CLAUDE))
        secrets = {name: CLAUDE["channels"][0][name] for name in ("api_key", "headers")}
        move = {"base_url": "https://new.example/v1", **secrets}
        await database.write(update("claude", channels=[{"id": "main", **move}]))
        (found,) = await opened(database)
        assert found.channels[0].base_url == "https://new.example/v1"
        assert found.channels[0].api_key == "sk-provider-secret-1"

    async def test_a_channel_that_is_deleted_and_made_again_has_no_key(self, database):
        await database.write(create(CLAUDE))
        await database.write(update("claude", channels=[{"id": "spare"}]))
        back = [{"id": "main", "base_url": "https://evil.example/v1"}]
        await database.write(update("claude", channels=back))
        (found,) = await opened(database)
        assert found.channels[0].api_key is None

    async def test_with_another_secret_of_the_program_it_says_so(self, database):
        await database.write(create(CLAUDE))
        with pytest.raises(MonoizeError, match="channel/claude/main"):
            await opened(database, Vault(b"another secret of the program"))

    async def test_references_to_the_environment_are_plain_text(self, database, monkeypatch):
        monkeypatch.setenv("HOME_SECRET", "secret-of-the-machine")
        channels = [{"id": "a", "base_url": HERE, "api_key": "${HOME_SECRET}"}]
        await database.write(create({**CLAUDE, "channels": channels}))
        (found,) = await opened(database)
        assert found.channels[0].api_key == "${HOME_SECRET}"


WRONG = [
    ({"id": ""}, "id"),
    ({"id": "a/b"}, "id"),
    ({"id": "a" * 65}, "id"),
    ({"id": 5}, "id"),
    ({"type": "telepathy"}, "type"),
    ({"models": {}}, "models is empty"),
    ({"models": {"m": {"multiplier": "0"}}}, "multiplier"),
    ({"models": {"m": {"multiplier": "cheap"}}}, "multiplier"),
    ({"channels": []}, "channels is empty"),
    ({"channels": "all"}, "channels"),
    ({"channels": [5]}, "channels"),
    ({"channels": [{"id": "a/../b", "base_url": HERE}]}, "channels"),
    ({"channels": [{"id": "a", "base_url": HERE}, {"id": "a", "base_url": HERE}]}, "appears twice"),
    ({"channels": [{"id": "a", "base_url": "ftp://x"}]}, "base_url"),
    ({"channels": [{"id": "a", "base_url": "https://user:pass@x"}]}, "base_url"),
    ({"channels": [{"id": "a"}]}, "base_url"),
    ({"channels": [{"id": "a", "base_url": HERE, "weight": -1}]}, "weight"),
    ({"channels": [{"id": "a", "base_url": HERE, "api_key": "a\nb"}]}, "api_key"),
    ({"channels": [{"id": "a", "base_url": HERE, "api_key": 5}]}, "api_key"),
    ({"channels": [{"id": "a", "base_url": HERE, "headers": {"x": "a\r\nb: c"}}]}, "headers"),
    ({"channels": [{"id": "a", "base_url": HERE, "headers": {"x y": "a"}}]}, "headers"),
    ({"channels": [{"id": "a", "base_url": HERE, "headers": [1]}]}, "headers"),
    ({"channels": [{"id": "a", "base_url": HERE, "proxy": "http://u:p@proxy:1"}]}, "proxy"),
    ({"channels": [{"id": "a", "base_url": HERE, "colour": "red"}]}, "colour"),
    ({"colour": "red"}, "colour"),
    ({"transforms": [{"transform": "no_such", "phase": "request"}]}, "no_such"),
    ({"request_timeout_ms": 0}, "request_timeout_ms"),
]


class TestProviders:
    async def test_what_no_provider_can_be(self, database):
        for wrong, named in WRONG:
            with pytest.raises(InvalidRequest, match=named):
                await database.write(create({**CLAUDE, **wrong}))
        assert await database.read(providers.page) == ()
        kept = await database.write(create(CLAUDE))
        for wrong, _ in WRONG:
            with pytest.raises(InvalidRequest):
                await database.write(update("claude", **wrong))
        assert await database.read(lambda c: providers.get(c, "claude")) == kept
        count = select(func.count()).select_from(tables.secrets)
        assert await database.read(lambda c: c.scalar(count)) == 1

    async def test_an_id_is_given_once_and_stays(self, database):
        await database.write(create(CLAUDE))
        with pytest.raises(Conflict):
            await database.write(create(CLAUDE))
        with pytest.raises(InvalidRequest, match="cannot be changed"):
            await database.write(update("claude", id="other"))

    async def test_they_are_asked_in_the_order_that_was_given(self, database):
        for name in ("b", "a", "c"):
            await database.write(create({**CLAUDE, "id": name}))
        assert [p.id for p in await opened(database)] == ["b", "a", "c"]
        await database.write(lambda c: providers.reorder(c, ["c", "a", "b"], **LATER))
        assert [p.id for p in await opened(database)] == ["c", "a", "b"]
        first = await database.read(partial(providers.page, limit=2))
        rest = await database.read(partial(providers.page, after=first[-1].id))
        assert [p.id for p in (*first, *rest)] == ["c", "a", "b"]
        await database.write(create({**CLAUDE, "id": "d"}))
        assert [p.id for p in await opened(database)] == ["c", "a", "b", "d"]

    @pytest.mark.parametrize("order", [[], ["a"], ["a", "a"], ["a", "b", "c"]])
    async def test_an_order_names_every_provider_once(self, database, order):
        for name in ("a", "b"):
            await database.write(create({**CLAUDE, "id": name}))
        with pytest.raises(InvalidRequest):
            await database.write(lambda c: providers.reorder(c, order, **LATER))

    @pytest.mark.parametrize(
        "work",
        [
            lambda c: providers.get(c, "nobody"),
            update("nobody", enabled=False),
            lambda c: providers.delete(c, "nobody", **LATER),
            lambda c: providers.page(c, after="nobody"),
        ],
    )
    async def test_nobody_is_not_found(self, database, work):
        with pytest.raises(NotFound):
            await database.write(work)

    async def test_the_audit_holds_every_change_and_no_secret(self, database):
        await database.write(create(CLAUDE))
        await database.write(update("claude", max_retries=2))
        await database.write(lambda c: providers.delete(c, "claude", **LATER))
        entries = await database.read(audit.page)
        assert [e.action for e in entries] == [
            "provider.delete",
            "provider.update",
            "provider.create",
        ]
        assert entries[1].detail["changed"] == {"max_retries": {"from": -1, "to": 2}}
        assert "secret" not in str([entry.detail for entry in entries]).replace("new_secrets", "")


class TestPrices:
    RATES = {"input": "3", "output": "15.50", "cached_read": "0.3"}

    async def test_a_price_is_put_found_and_deleted(self, database):
        price = await database.write(lambda c: prices.put(c, "gpt-*", self.RATES, **BY))
        assert price.rates == {"input": "3", "output": "15.5", "cached_read": "0.3"}
        assert await database.read(lambda c: prices.get(c, "gpt-*")) == price
        assert await database.read(prices.everything) == (price,)
        dearer = {**self.RATES, "input": "4"}
        await database.write(lambda c: prices.put(c, "gpt-*", dearer, **LATER))
        assert (await database.read(lambda c: prices.get(c, "gpt-*"))).rates["input"] == "4"
        await database.write(lambda c: prices.delete(c, "gpt-*", **LATER))
        assert await database.read(lambda c: prices.find(c, "gpt-*")) is None
        for work in (prices.get, partial(prices.delete, **LATER)):
            with pytest.raises(NotFound):
                await database.write(lambda c, work=work: work(c, "gpt-*"))

    async def test_what_no_price_can_be(self, database):
        for model, rates in (
            ("", self.RATES),
            ("a\0b", self.RATES),
            ("m", {}),
            ("m", {"input": "-1", "output": "1"}),
            ("m", {"input": "x", "output": "1"}),
            ("m", {**self.RATES, "colour": "1"}),
        ):
            with pytest.raises(InvalidRequest):
                await database.write(partial(prices.put, model=model, rates=rates, **BY))
        assert await database.read(prices.everything) == ()

    async def test_they_are_paged(self, database):
        for model in ("c", "a", "b"):
            await database.write(lambda c, model=model: prices.put(c, model, self.RATES, **BY))
        first = await database.read(partial(prices.page, limit=2))
        rest = await database.read(partial(prices.page, after="b"))
        assert [price.model for price in (*first, *rest)] == ["a", "b", "c"]


class TestSettings:
    async def test_a_setting_is_put_read_and_deleted(self, database):
        value = {"-thinking": "high"}
        await database.write(lambda c: settings.put(c, "reasoning_suffix_map", value, **BY))
        assert await database.read(lambda c: settings.get(c, "reasoning_suffix_map")) == value
        assert await database.read(settings.everything) == {"reasoning_suffix_map": value}
        await database.write(lambda c: settings.delete(c, "reasoning_suffix_map", **LATER))
        assert await database.read(settings.everything) == {}
        with pytest.raises(NotFound):
            await database.write(lambda c: settings.delete(c, "reasoning_suffix_map", **LATER))

    async def test_what_no_setting_can_be(self, database):
        wrong = [("revision", 5), ("", 1), ("A", 1), ("a b", 1), ("a\0", 1), ("a", None)]
        for name, value in wrong:
            with pytest.raises(InvalidRequest):
                await database.write(partial(settings.put, name=name, value=value, **BY))
        assert await database.read(settings.everything) == {}

    @pytest.mark.spec("T45")
    async def test_every_change_raises_the_revision(self, database):
        user = []
        changes = [
            lambda c: user.append(users.create(c, ids=RandomIds(), username="ada", **BY)),
            lambda c: users.update(c, user[0].id, role="admin", **BY),
            create(CLAUDE),
            update("claude", enabled=False),
            lambda c: providers.delete(c, "claude", **BY),
            lambda c: prices.put(c, "m", TestPrices.RATES, **BY),
            lambda c: prices.delete(c, "m", **BY),
            lambda c: settings.put(c, "a", 1, **BY),
            lambda c: settings.delete(c, "a", **BY),
            lambda c: users.delete(c, user[0].id, **BY),
        ]
        assert await database.read(settings.revision) == 0
        for expected, change in enumerate(changes, 1):
            await database.write(change)
            assert await database.read(settings.revision) == expected
        assert len(await database.read(audit.page)) == len(changes)

    async def test_what_is_the_same_already_is_no_change(self, database):
        for _ in range(2):
            await database.write(lambda c: settings.put(c, "a", [1], **BY))
            await database.write(lambda c: prices.put(c, "m", TestPrices.RATES, **BY))
        assert await database.read(settings.revision) == 2
