"""Secrets at rest: sealed for providers, digested for keys."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monoize.clock import RandomIds, SequentialIds
from monoize.errors import ConfigError, MonoizeError
from monoize.store import vault as vault_module
from monoize.store.vault import Vault, parse_key

SECRET = "a-secret-of-the-operator"
OTHER = "another-secret-of-somebody"


@pytest.fixture
def vault(tmp_path) -> Vault:
    return Vault.load(tmp_path, {"MONOIZE_SECRET_KEY": SECRET})


class TestWhereTheSecretComesFrom:
    def test_the_environment_wins_and_leaves_no_file(self, tmp_path, vault):
        assert list(tmp_path.iterdir()) == []
        again = Vault.load(tmp_path, {"MONOIZE_SECRET_KEY": SECRET})
        assert again.opened("n", vault.seal("n", "text")) == "text"

    def test_a_short_one_is_refused_without_being_repeated(self, tmp_path):
        with pytest.raises(ConfigError, match="at least 16") as caught:
            Vault.load(tmp_path, {"MONOIZE_SECRET_KEY": "too-short-a-key"})
        assert "too-short" not in caught.value.message

    def test_else_a_file_is_made_once_for_its_owner_only(self, tmp_path):
        folder = tmp_path / "data"
        first, second = Vault.load(folder, {}), Vault.load(folder, {})
        file = folder / "secret-key"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert len(bytes.fromhex(file.read_text().strip())) == 32
        assert [entry.name for entry in folder.iterdir()] == ["secret-key"]
        assert second.opened("n", first.seal("n", "text")) == "text"

    def test_two_folders_have_two_secrets(self, tmp_path):
        one, two = Vault.load(tmp_path / "a", {}), Vault.load(tmp_path / "b", {})
        assert one.digest("x") != two.digest("x")

    @pytest.mark.parametrize("content", [b"", b"abc", b"\xff" * 64, b"g" * 64, b"0" * 63])
    def test_a_spoilt_file_is_one_sentence_and_stays(self, tmp_path, content):
        file = tmp_path / "secret-key"
        file.write_bytes(content)
        with pytest.raises(ConfigError, match="secret-key"):
            Vault.load(tmp_path, {})
        assert file.read_bytes() == content

    def test_a_place_that_cannot_be_written_is_one_sentence(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(ConfigError, match=r"Not a directory|File exists"):
            Vault.load(tmp_path / "file", {})

    def test_processes_that_start_at_once_agree(self, tmp_path):
        script = (
            "import pathlib, sys; from monoize.store.vault import Vault; "
            "print(Vault.load(pathlib.Path(sys.argv[1]), {}).digest('x').hex())"
        )
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", script, str(tmp_path)],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(3)
        ]
        assert len({process.communicate(timeout=60)[0] for process in processes}) == 1


class TestSealing:
    @given(text=st.text(), name=st.text(min_size=1))
    def test_what_is_sealed_comes_back(self, text, name):
        text, name = (value.encode("utf-8", "ignore").decode() for value in (text, name))
        vault = Vault(b"x" * 32)
        assert vault.opened(name, vault.seal(name, text)) == text

    def test_the_same_text_never_looks_the_same(self, vault):
        assert vault.seal("n", "text") != vault.seal("n", "text")

    def test_the_text_cannot_be_seen(self, vault):
        assert b"sk-provider" not in vault.seal("n", "sk-provider-key")

    @pytest.mark.parametrize(
        "spoilt",
        [
            lambda sealed: sealed[:-1],
            lambda sealed: sealed[:-1] + bytes([sealed[-1] ^ 1]),
            lambda sealed: sealed[:5],
            lambda sealed: sealed[:1],
            lambda sealed: b"",
            lambda sealed: b"\x02" + sealed[1:],
        ],
    )
    def test_what_was_altered_is_refused(self, vault, spoilt):
        with pytest.raises(MonoizeError, match="'n'"):
            vault.opened("n", spoilt(vault.seal("n", "text")))

    def test_a_sealed_text_cannot_be_moved_to_another_name(self, vault):
        with pytest.raises(MonoizeError, match="'b'"):
            vault.opened("b", vault.seal("a", "text"))

    def test_another_secret_says_so(self, vault):
        with pytest.raises(MonoizeError, match="another MONOIZE_SECRET_KEY") as caught:
            Vault(OTHER.encode()).opened("n", vault.seal("n", "the-text"))
        assert "the-text" not in caught.value.message


class TestKeys:
    def test_a_new_key_is_its_id_and_its_secret(self, vault):
        key = vault.new_key(RandomIds())
        assert key.text == f"sk-mz-{key.id}-{key.secret}"
        assert parse_key(key.text) == (key.id, key.secret)
        assert len(key.secret) == 40
        assert key.secret[:6] not in key.hint

    def test_keys_differ_even_when_ids_are_not_random(self, vault):
        one, two = vault.new_key(SequentialIds()), vault.new_key(SequentialIds())
        assert one.id == two.id
        assert one.secret != two.secret

    @pytest.mark.spec("CVE-2026-35030")
    def test_only_the_whole_secret_matches(self, vault):
        secret = vault.new_key(RandomIds()).secret
        digest = vault.digest(secret)
        assert vault.matches(secret, digest)
        for near in (secret[:-1], secret + "a", secret.swapcase(), "", secret[:20] + "0" * 20):
            assert not vault.matches(near, digest)

    @pytest.mark.spec("GHSA-69x8-hrgq-fjj8")
    def test_a_digest_is_worth_nothing_without_the_programs_secret(self, vault):
        import hashlib

        secret = vault.new_key(RandomIds()).secret
        digest = vault.digest(secret)
        assert digest != hashlib.sha256(secret.encode()).digest()
        assert digest != Vault(OTHER.encode()).digest(secret)
        assert not vault.matches(digest.hex(), digest)  # nor can it be passed as the key
        assert parse_key(digest.hex()) is None

    @pytest.mark.spec("CVE-2026-42208")
    @pytest.mark.parametrize(
        "text",
        [
            "",
            "sk-mz-",
            "sk-mz-' OR 1=1 --",
            "sk-mz-0123456789abcde'-" + "a" * 40,
            "sk-mz-0123456789abcdef-" + "a" * 39,
            "sk-mz-0123456789abcdef-" + "a" * 41,
            "sk-mz-0123456789abcdef-" + "a" * 40 + "\n",
            " sk-mz-0123456789abcdef-" + "a" * 40,
            "SK-MZ-0123456789abcdef-" + "a" * 40,
            "sk-mz-0123456789abcde\u0660-" + "a" * 40,
            "sk-mz-0123456789abcdeé-" + "a" * 40,
            "sk-mz-0123456789abcdef-" + "a" * 39 + "\0",
            "sk-mz-0123456789abcdef-" + "a" * 100_000,
        ],
    )
    def test_what_is_no_key_is_never_looked_up(self, text):
        assert parse_key(text) is None

    @given(st.text())
    def test_any_text_is_a_key_or_none(self, text):
        found = parse_key(text)
        assert found is None or f"sk-mz-{found[0]}-{found[1]}" == text


async def test_a_database_belongs_to_the_secret_it_was_first_used_with(database, vault):
    for _ in range(2):
        await database.write(lambda c: vault_module.check(c, vault, 1))
    with pytest.raises(ConfigError, match="belongs to another secret"):
        await database.write(lambda c: vault_module.check(c, Vault(OTHER.encode()), 2))
