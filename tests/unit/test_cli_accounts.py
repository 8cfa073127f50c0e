"""Users, keys, providers, prices, logs and usage on the command line: tables for people, JSON for machines."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from monoize.cli import app
from monoize.cli._desk import moment, nano
from monoize.errors import InvalidRequest

CONFIG = """
database: sqlite:///./store/accounts.db
providers:
  - id: of-file
    type: chat_completion
    models: {gpt-4o: {multiplier: "1.5"}, closed: {redirect: gpt-4o}}
    channels: [{id: main, base_url: "http://127.0.0.1:9/v1", api_key: sk-upstream-canary}]
keys:
  - {name: app, key: sk-file-key-canary, budgets: {day: "2.50"}}
settings:
  prices: {"file-*": {input: "1", output: "2"}}
"""


@pytest.fixture
def monoize(tmp_path, monkeypatch, capsys):
    """Runs a command in a folder that has a monoize.yaml; (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "monoize.yaml").write_text(CONFIG)

    def run(*words):
        code = app(list(words), exit_on_error=False, result_action="return_value")
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def good(monoize):
    """The JSON of a command that must succeed."""

    def run(*words):
        code, out, err = monoize(*words, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    return run


@pytest.fixture
def refused(monoize):
    """The sentence of a command that must fail."""

    def run(*words):
        code, out, err = monoize(*words)
        assert (code, out) == (1, "")
        assert err.startswith("monoize: ")
        assert len(err.strip().splitlines()) == 1
        return err

    return run


def test_a_user_is_made_changed_and_removed(good, refused):
    made = good("users", "create", "alice", "--balance", "5.50")
    assert (made["role"], made["balance_usd"]) == ("user", "5.5")
    assert (
        good("users", "adjust", "alice", "-1.25", "--reason", "refund")["balance"] == 4_250_000_000
    )
    assert good("users", "update", "alice", "--role", "admin", "--no-enabled")["enabled"] is False
    assert (
        good("users", "update", made["id"], "--rename", "al", "--balance", "none")["balance"]
        is None
    )
    assert [user["username"] for user in good("users", "list")["data"]] == ["al"]
    assert good("users", "show", "al")["role"] == "admin"
    assert good("users", "delete", "al") == {"id": made["id"], "deleted": True}
    assert "monoize users create al" in refused("users", "show", "al")


def test_a_key_is_made_with_limits_and_keeps_what_is_not_changed(good):
    good("users", "create", "alice")
    made = good(
        *("keys", "create", "laptop", "--user", "alice", "--model", "gpt-*", "--model", "o3"),
        *("--budget-day", "2.5", "--budget-total", "10", "--requests-per-minute", "5"),
        *("--address", "10.0.0.0/8", "--max-multiplier", "1.5", "--capture", "abnormal"),
        *("--expires", "90d"),
    )
    assert re.fullmatch(r"sk-mz-\w{16}-\w{40}", made["key"])
    policy = made["policy"]
    assert policy["models"] == ["gpt-*", "o3"]
    assert policy["budgets"] == {"day": 2_500_000_000, "month": None, "total": 10_000_000_000}
    changed = good(
        *("keys", "update", made["id"], "--clear", "models", "--clear", "expires"),
        *("--budget-day", "3", "--name", "desktop", "--no-enabled"),
    )
    assert (changed["name"], changed["enabled"], changed["expires_at"]) == ("desktop", False, None)
    assert changed["policy"] == {
        **policy,
        "models": None,
        "budgets": {**policy["budgets"], "day": 3 * 10**9},
    }
    assert changed["spend"]["total"]["spent"] == 0
    cleared = good("keys", "update", made["id"], "--clear", "budgets")
    assert cleared["budgets_usd"] == {"day": None, "month": None, "total": None}


@pytest.mark.spec("GHSA-69x8-hrgq-fjj8")
def test_a_key_is_shown_once(good, monoize):
    good("users", "create", "alice")
    made = good("keys", "create", "laptop", "--user", "alice")
    rotated = good("keys", "rotate", made["id"])
    assert rotated["id"] == made["id"]
    assert rotated["key"] != made["key"]
    for words in (("keys", "list"), ("keys", "show", made["id"]), ("keys", "list", "--json")):
        code, out, _ = monoize(*words)
        assert code == 0
        assert rotated["key"].rpartition("-")[2] not in out
        assert "canary" not in out
    assert good("keys", "revoke", made["id"])["deleted"]


def test_keys_of_the_file_are_listed_and_read_only(good, refused):
    (key,) = good("keys", "list")["data"]
    assert (key["id"], key["source"], key["budgets_usd"]["day"]) == ("file:app", "file", "2.5")
    assert good("keys", "show", "file:app")["name"] == "app"
    for words in (
        ("update", "file:app", "--name", "x"),
        ("rotate", "file:app"),
        ("revoke", "file:app"),
    ):
        assert "config file" in refused("keys", *words)


def test_providers_are_shown_without_secrets(good, monoize, refused):
    (listed,) = good("providers", "list")["data"]
    assert (listed["id"], listed["source"]) == ("of-file", "file")
    assert listed["channels"][0]["has_api_key"] is True
    code, out, _ = monoize("providers", "show", "of-file")
    assert code == 0
    assert "http://127.0.0.1:9/v1" in out
    assert "canary" not in out
    assert "nobody" in refused("providers", "show", "nobody")


def test_a_channel_that_does_not_answer_fails_the_command(monoize):
    code, out, err = monoize("providers", "test", "of-file", "main", "--json")
    (result,) = json.loads(out)["data"]
    assert code == 1
    assert (result["channel"], result["success"], result["model"]) == ("main", False, "gpt-4o")
    assert "Connection refused" in result["error"]
    assert err == "monoize: no answer over main\n"


def test_a_price_is_set_shown_and_taken_back(good, refused):
    public = good("prices", "show", "gpt-4o")
    assert public["offers"][0]["origin"] == "public"
    put = good("prices", "set", "gpt-4o", "input=0.10", "output=0.3", "cached_read=0.05")
    assert put["rates"] == {"input": "0.1", "cached_read": "0.05", "output": "0.3"}
    shown = good("prices", "show", "closed")["offers"][0]
    assert (shown["upstream_model"], shown["rates"]) == ("gpt-4o", put["rates"])
    assert [(p["model"], p["source"]) for p in good("prices", "list")["data"]] == [
        ("file-*", "file"),
        ("gpt-4o", "database"),
    ]
    assert good("prices", "unset", "gpt-4o")["deleted"]
    assert good("prices", "show", "gpt-4o") == public
    assert "config file" in refused("prices", "set", "file-*", "input=1", "output=1")
    assert "class=USD" in refused("prices", "set", "m", "input")
    assert "output is missing" in refused("prices", "set", "m", "input=1")
    assert "no price" in refused("prices", "unset", "m")


def test_an_empty_log_is_no_mistake(good, monoize):
    assert good("logs")["data"] == []
    assert good("usage", "--by", "day", "--by", "key", "--since", "7d")["total"]["calls"] == 0
    assert monoize("logs")[1] == "No request fits.\n"
    assert monoize("usage")[1] == "No request fits.\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("users", "create", "a", "--balance", "lots"), "--balance must be a number of USD"),
        (("users", "create", "a", "--balance", "0.0000000001"), "9 digits"),
        (("users", "create", " a"), "username"),
        (("keys", "create", "k", "--user", "nobody"), "there is no user 'nobody'"),
        (("keys", "show", "0000000000000000"), "there is no key"),
        (("logs", "--since", "yesterday"), "--since must be a date"),
        (("logs", "req_none"), "no request with this id"),
        (("usage", "--limit", "0"), "limit"),
        (("users", "list", "--config", "missing.yaml"), "missing.yaml"),
    ],
)
def test_a_mistake_is_one_sentence(refused, words, said):
    assert said in refused(*words)


def test_without_a_database_it_says_so(refused, tmp_path):
    (tmp_path / "bare.yaml").write_text("database: null")
    assert "database: null" in refused("users", "list", "--config", "bare.yaml")


def test_the_store_of_the_config_is_used_wherever_the_command_runs(good, tmp_path, monkeypatch):
    good("users", "create", "alice")
    assert (tmp_path / "store" / "accounts.db").exists()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    listed = good("users", "list", "--config", str(tmp_path / "monoize.yaml"))["data"]
    assert [user["username"] for user in listed] == ["alice"]
    assert (
        good("users", "list")["data"] == []
    )  # here is no config: the default store of this folder
    assert (tmp_path / "elsewhere" / "data" / "monoize.db").exists()


def test_a_store_of_another_secret_is_refused(good, refused, tmp_path):
    good("users", "create", "alice")
    (tmp_path / "data" / "secret-key").write_text("ab" * 32 + "\n")
    assert "belongs to another secret" in refused("users", "list")


def test_tables_are_not_cut_in_a_pipe(monoize):
    monoize("users", "create", "a" * 100)
    code, out, _ = monoize("users", "list")
    assert code == 0
    assert "a" * 100 in out


def test_every_group_is_in_the_help_and_says_what_it_is_for():
    done = subprocess.run(
        [sys.executable, "-m", "monoize", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    for group in ("users", "keys", "providers", "prices", "logs", "usage", "import"):
        assert re.search(rf"│ {group} +\w{{3,}}", done.stdout), group


@pytest.mark.parametrize(
    ("text", "ahead", "expected"),
    [
        ("90s", False, 1_000_000_000_000 - 90_000),
        ("2d", True, 1_000_000_000_000 + 172_800_000),
        ("2026-11-15", False, 1_794_700_800_000),
        ("2026-11-15T12:00:00Z", False, 1_794_744_000_000),
        ("2026-11-15T12:00:00+02:00", False, 1_794_736_800_000),
    ],
)
def test_moments_are_read_as_people_write_them(text, ahead, expected):
    assert moment(text, 1_000_000_000_000, "--since", ahead=ahead) == expected


@pytest.mark.parametrize("text", ["NaN", "inf", "1,5", "", "1e-10", "1e30", "1e999999"])
def test_what_is_no_amount_is_refused(text):
    with pytest.raises(InvalidRequest):
        nano(text, "--balance")


@pytest.mark.spec("T39")
def test_amounts_are_exact():
    assert nano("0.1", "x") == 100_000_000
    assert nano("1234567.123456789", "x") == 1_234_567_123_456_789
    assert nano("-1.25", "x") == -1_250_000_000
