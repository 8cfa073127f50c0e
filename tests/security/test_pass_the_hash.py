"""GHSA-69x8-hrgq-fjj8: what is stored of a key is keyed, opens nothing, and is shown to nobody."""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging

import pytest
from sqlalchemy import select

from fakes.management import ADMIN, Api
from monoize.store.tables import keys
from monoize.store.vault import Vault, parse_key


async def stored(api: Api, key_id: str) -> bytes:
    query = select(keys.c.digest).where(keys.c.id == key_id)
    return bytes(await api.house.state.lasting.database.read(lambda c: c.scalar(query)))


def spellings(digest: bytes) -> list[str]:
    return [
        digest.hex(),
        digest.hex().upper(),
        base64.b64encode(digest).decode(),
        base64.urlsafe_b64encode(digest).decode().rstrip("="),
        digest.decode("latin-1"),
    ]


@pytest.mark.spec("GHSA-69x8-hrgq-fjj8")
async def test_ghsa_69x8_the_stored_hash_is_keyed_with_the_programs_secret(api):
    made = await api.key(await api.user("ann"))
    _, secret = parse_key(made["key"])
    digest = await stored(api, made["id"])
    for text in (secret, made["key"], made["id"]):
        raw = text.encode()
        for name in ("sha256", "sha512", "blake2b", "md5"):
            assert hashlib.new(name, raw).digest()[: len(digest)] != digest
        for known in (b"", b"monoize", made["id"].encode()):
            assert hmac.digest(known, raw, "sha256") != digest
    assert Vault(b"another secret of a program").digest(secret) != digest
    again = await api.good("POST", f"/api/keys/{made['id']}/rotate")
    assert await stored(api, again["id"]) != digest


@pytest.mark.spec("GHSA-69x8-hrgq-fjj8")
async def test_ghsa_69x8_the_hash_itself_does_not_authenticate(api):
    made = await api.key(await api.user("boss", role="admin"))
    assert (await api.call("GET", "/api/users", key=made["key"])).status == 200  # it is remembered
    digest = await stored(api, made["id"])
    of_file = hashlib.sha256(ADMIN.encode()).digest()  # how keys of the file are looked up
    for text in [*spellings(digest), *spellings(of_file)]:
        for key in (text, f"sk-mz-{made['id']}-{text}", f"sk-mz-{made['id']}-{text[:40]}"):
            for name in ("x-api-key", "x-goog-api-key", "authorization"):
                value = f"Bearer {key}" if name == "authorization" else key
                answer = await api.call("GET", "/api/users", key=None, headers={name: value})
                assert answer.status == 401, (name, key)


@pytest.mark.spec("GHSA-69x8-hrgq-fjj8")
async def test_ghsa_69x8_no_answer_and_no_log_holds_a_hash_or_a_secret(api, caplog):
    caplog.set_level(logging.DEBUG)
    user = await api.user("boss", role="admin")
    made = await api.key(user, "laptop")
    secrets = [parse_key(made["key"])[1], *spellings(await stored(api, made["id"]))]
    await api.good("PATCH", f"/api/keys/{made['id']}", {"name": "desk"})
    values = {"user_id": user["id"], "key_id": made["id"], "provider_id": "of-file"}
    seen = ""
    for path, entries in (await api.good("GET", "/openapi.json"))["paths"].items():
        if "get" not in entries or path == "/api/logs/stream":
            continue
        target = path
        for name, value in values.items():
            target = target.replace(f"{{{name}}}", value)
        for key in (ADMIN, made["key"]):
            answer = await api.call("GET", target, key=key)
            text = answer.raw.decode("utf-8", "replace") + str(answer.headers)
            # The digest of an agent run is no key's: under /v1, and in the document, it is an honest word.
            assert not path.startswith("/api/") or '"digest"' not in text
            seen += text
    for target in (f"/api/keys/{made['id']}", "/api/keys/none", "/api/users/none"):
        for method, body in (("PATCH", {"digest": "00"}), ("DELETE", None)):
            seen += (await api.call(method, target, body)).raw.decode()
    seen += caplog.text
    assert "laptop" in seen
    assert "desk" in seen
    found = [secret for secret in secrets if secret in seen]
    assert found == []
