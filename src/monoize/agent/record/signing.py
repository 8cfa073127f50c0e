"""The key that signs checkpoints: made at first use, kept in the data folder, readable by its owner only."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from monoize.agent.record.entry import Checkpoint, signed_text

__all__ = ["CHECKPOINT_EVERY", "SigningKey", "UnusableKey"]

CHECKPOINT_EVERY = 64  # entries; the verifier misses a checkpoint that is not there
_MODE = 0o600
_MAX_KEY_BYTES = 4096


class UnusableKey(ValueError):
    """The file is there and holds no Ed25519 key."""


class SigningKey:
    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public_key = private.public_key().public_bytes_raw().hex()

    @classmethod
    def from_seed(cls, seed: bytes) -> SigningKey:
        """Of 32 bytes."""
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @classmethod
    def kept_at(cls, file: Path) -> SigningKey:
        """Of two programs that start together, one makes the key and both use it. Blocking."""
        if not file.exists():
            _make(file)
        return cls(_read(file))

    def checkpoint(self, run_id: str, size: int, head: str) -> Checkpoint:
        signature = self._private.sign(signed_text(run_id, size, head))
        return Checkpoint(
            size=size, head=head, public_key=self.public_key, signature=signature.hex()
        )


def _make(file: Path) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    part = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(pem)
            stream.flush()
            os.fsync(stream.fileno())
        try:
            os.link(part, file)  # fails where somebody else was first: his key is the key
        except FileExistsError:
            return
        folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        part.unlink(missing_ok=True)


def _read(file: Path) -> Ed25519PrivateKey:
    handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(handle, "rb") as stream:
        if os.fstat(handle).st_mode & 0o077:
            os.fchmod(handle, _MODE)
        pem = stream.read(_MAX_KEY_BYTES)
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as mistake:
        raise UnusableKey(f"{file.name} holds no private key: {mistake}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UnusableKey(f"{file.name} holds a key that is not Ed25519")
    return key
