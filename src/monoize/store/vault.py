"""The program's own secret: seals what providers entrust to it and turns API keys into digests."""

from __future__ import annotations

import contextlib
import hmac
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from sqlalchemy import Connection, select

from monoize.clock import IdSource
from monoize.errors import ConfigError, MonoizeError
from monoize.store import tables
from monoize.store.upsert import upsert

__all__ = ["NewKey", "Vault", "check", "parse_key"]

VARIABLE = "MONOIZE_SECRET_KEY"
FILE = "secret-key"
_SHORTEST = 16  # letters of a secret that a person chose

# A key is `sk-mz-<id>-<secret>`. Whatever does not fit never gets near a statement (CVE-2026-42208).
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ID_LENGTH = 16
_SECRET_LENGTH = 40  # 238 bits
_KEY = re.compile(rf"sk-mz-([0-9A-Za-z]{{{_ID_LENGTH}}})-([0-9A-Za-z]{{{_SECRET_LENGTH}}})")

_VERSION = b"\x01"
_NONCE = 12


class NewKey(msgspec.Struct, frozen=True):
    id: str
    secret: str
    text: str  # what its owner is shown, once

    @property
    def hint(self) -> str:
        """What a list may show of it: nothing of the secret."""
        return f"sk-mz-{self.id[:6]}…"


def parse_key(text: str) -> tuple[str, str] | None:
    """Id and secret of a key of the database; None: it is none."""
    found = _KEY.fullmatch(text)
    return None if found is None else (found[1], found[2])


class Vault:
    """Two keys, derived from one secret: what seals cannot be used to digest and the other way round."""

    def __init__(self, secret: bytes) -> None:
        self._seal = AESGCM(_derived(secret, b"monoize/seal/1"))
        self._digest_key = _derived(secret, b"monoize/api-key/1")

    @classmethod
    def load(cls, folder: Path, environment: Mapping[str, str]) -> Vault:
        """From MONOIZE_SECRET_KEY, else from the file `secret-key` in the data folder, made at first use."""
        given = environment.get(VARIABLE)
        if given is None:
            return cls(_from_file(folder / FILE))
        if len(given) < _SHORTEST:
            raise ConfigError(f"{VARIABLE} is too short: it needs at least {_SHORTEST} characters")
        return cls(given.encode("utf-8", "surrogateescape"))

    def seal(self, name: str, text: str) -> bytes:
        """Bound to its name: a sealed text that is moved to another row cannot be opened there."""
        nonce = secrets.token_bytes(_NONCE)
        return _VERSION + nonce + self._seal.encrypt(nonce, text.encode(), _bound(name))

    def opened(self, name: str, sealed: bytes) -> str:
        version, nonce, rest = sealed[:1], sealed[1 : 1 + _NONCE], sealed[1 + _NONCE :]
        if version != _VERSION:
            raise MonoizeError(f"the secret {name!r} was sealed by another version of this program")
        try:
            return self._seal.decrypt(nonce, rest, _bound(name)).decode()
        except (InvalidTag, ValueError):
            raise MonoizeError(
                f"the secret {name!r} cannot be opened: it was sealed with another {VARIABLE} "
                f"or {FILE} file, or it was altered"
            ) from None

    def digest(self, secret: str) -> bytes:
        """What is kept of an API key: useless without the program's secret (GHSA-69x8-hrgq-fjj8)."""
        return hmac.digest(self._digest_key, secret.encode(), "sha256")

    def matches(self, secret: str, digest: bytes) -> bool:
        return hmac.compare_digest(self.digest(secret), digest)

    def new_key(self, ids: IdSource, key_id: str | None = None) -> NewKey:
        """With the id of an old one: a new secret for it."""
        key_id = key_id or ids.new("")[-_ID_LENGTH:]
        secret = "".join(secrets.choice(_ALPHABET) for _ in range(_SECRET_LENGTH))
        return NewKey(key_id, secret, f"sk-mz-{key_id}-{secret}")


_CHECK = "vault"
_CHECK_TEXT = "this is the right secret"


def check(connection: Connection, vault: Vault, now: int) -> None:
    """Refuses a database that was used with another secret: every key would look like a stranger's."""
    query = select(tables.secrets.c.sealed).where(tables.secrets.c.name == _CHECK)
    sealed = connection.scalar(query)
    if sealed is None:
        row = {"name": _CHECK, "sealed": vault.seal(_CHECK, _CHECK_TEXT), "updated_at": now}
        upsert(connection, tables.secrets, row, replace=False)  # another process may be faster
        sealed = connection.scalar(query) or b""
    try:
        vault.opened(_CHECK, sealed)
    except MonoizeError:
        raise ConfigError(
            f"this database belongs to another secret: set the {VARIABLE} it was used with, or put its "
            f"{FILE} file back"
        ) from None


def _derived(secret: bytes, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(secret)


def _bound(name: str) -> bytes:
    return b"monoize/secret/" + name.encode()


def _from_file(file: Path) -> bytes:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not file.exists():
            _make(file)
        text = file.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not the text it should be"
        raise ConfigError(f"{file}: {reason}") from None
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise ConfigError(
            f"{file}: must hold 64 hexadecimal digits; put the right file back, or set {VARIABLE}"
        )
    return bytes.fromhex(text)


def _make(file: Path) -> None:
    """Whole or not at all, and never over another: several processes may start at once."""
    draft = file.with_name(f".{FILE}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as handle:
        handle.write(secrets.token_hex(32).encode() + b"\n")
        handle.flush()
        os.fsync(handle.fileno())
    try:
        with contextlib.suppress(FileExistsError):
            os.link(draft, file)
    finally:
        draft.unlink()
