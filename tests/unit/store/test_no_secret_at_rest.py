"""A life full of secrets leaves none of them in the database, its files, the audit or the log."""

from __future__ import annotations

import base64
import logging

import pytest
from sqlalchemy import inspect, text
from sqlalchemy.exc import DBAPIError

from monoize.clock import RandomIds
from monoize.errors import MonoizeError
from monoize.store import audit, keys, prices, providers, settings, users, vault
from monoize.store.vault import Vault, parse_key

MASTER = "canary-of-the-program-itself"
SECRETS = ["canary-api-key-one", "canary-api-key-two", "canary-header-value"]
BY = {"actor": "root", "now": 1000}
HERE = "https://api.example.com/v1"


def life(connection) -> list[str]:
    """Everything that handles a secret, once; the texts of the keys that were shown."""
    safe = Vault(MASTER.encode())
    vault.check(connection, safe, 1)
    user = users.create(connection, ids=RandomIds(), username="ada", balance=10, **BY)
    key, first = keys.create(
        connection, vault=safe, ids=RandomIds(), user_id=user.id, name="laptop", **BY
    )
    keys.update(connection, key.id, policy={"budgets": {"day": 5}}, **BY)
    _, kept = keys.create(
        connection, vault=safe, ids=RandomIds(), user_id=user.id, name="desk", **BY
    )
    _, second = keys.rotate(connection, key.id, vault=safe, ids=RandomIds(), **BY)
    gone, third = keys.create(
        connection, vault=safe, ids=RandomIds(), user_id=user.id, name="old", **BY
    )
    keys.delete(connection, gone.id, **BY)
    channel = {"id": "main", "base_url": HERE, "api_key": SECRETS[0]}
    form = {"id": "p", "type": "messages", "models": {"*": {}}, "channels": [channel]}
    providers.create(connection, form, vault=safe, **BY)
    for changed in (
        {"api_key": SECRETS[1]},
        {"headers": {"authorization": SECRETS[2]}},
        {"weight": 3},
    ):
        channels = [{"id": "main", **changed}]
        providers.update(connection, "p", {"channels": channels}, vault=safe, **BY)
    providers.create(connection, {**form, "id": "q"}, vault=safe, **BY)
    providers.delete(connection, "q", **BY)
    prices.put(connection, "m", {"input": "1", "output": "2"}, **BY)
    settings.put(connection, "a", 1, **BY)
    users.adjust(connection, user.id, 5, reason="gift", **BY)
    return [first, second, third, kept]


def disguises(secret: str) -> list[bytes]:
    raw = secret.encode()
    return [raw, raw.hex().encode(), base64.b64encode(raw).rstrip(b"=")[:-2], raw[::-1]]


def everything(connection) -> bytes:
    """All rows of all tables, bytes as hexadecimal digits too."""
    rows = []
    for table in inspect(connection).get_table_names():
        for row in connection.execute(text(f"SELECT * FROM {table}")):
            rows += [
                bytes(v).hex() + repr(v) if isinstance(v, bytes | memoryview) else str(v)
                for v in row
            ]
    return "\n".join(rows).encode("utf-8", "replace")


@pytest.mark.spec("T46", "GHSA-69x8-hrgq-fjj8", "CVE-2026-42208")
async def test_nothing_secret_is_at_rest(database, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    shown = await database.write(life)
    content = await database.read(everything)
    entries = await database.read(audit.page)
    assert b"laptop" in content  # the search does search
    assert len(entries) == 16
    if database.dialect == "sqlite":
        files = list((tmp_path / "store").iterdir())
        content += b"".join(file.read_bytes() for file in files)
        await database.aclose()
        content += (tmp_path / "store" / "monoize.db").read_bytes()
        assert content.count(b"laptop") > 3
    content += str(entries).encode() + caplog.text.encode()
    secrets = [MASTER, *SECRETS, *shown, *(parse_key(key)[1] for key in shown)]
    found = [secret for secret in secrets for form in disguises(secret) if form in content]
    assert found == []


async def test_an_error_of_the_database_does_not_repeat_its_parameters(database):
    with pytest.raises(DBAPIError) as caught:
        await database.write(
            lambda c: c.execute(
                text("INSERT INTO nowhere VALUES (:secret)"), {"secret": SECRETS[0]}
            )
        )
    assert SECRETS[0] not in str(caught.value)


async def test_an_error_of_a_change_does_not_repeat_a_secret(database):
    safe = Vault(MASTER.encode())
    channel = {
        "id": "main",
        "base_url": "nonsense",
        "api_key": SECRETS[0],
        "headers": {"x": SECRETS[2]},
    }
    forms = [
        {"id": "p", "type": "messages", "models": {"*": {}}, "channels": [channel]},
        {"id": "p", "type": "messages", "models": {}, "channels": [{**channel, "base_url": HERE}]},
        {"id": "p", "type": SECRETS[1][:3], "models": {"*": {}}, "channels": [channel]},
    ]
    for form in forms:
        with pytest.raises(MonoizeError) as caught:
            await database.write(lambda c, form=form: providers.create(c, form, vault=safe, **BY))
        assert "canary" not in str(caught.value)
        assert "canary" not in repr(caught.value.__cause__)
