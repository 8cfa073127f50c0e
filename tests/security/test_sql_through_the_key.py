"""CVE-2026-42208: what stands where the key should be never becomes SQL, on either database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, event, func, select

from fakes.management import Api
from monoize.store.tables import keys

MARK = "q7zq"
HOSTILE = [
    f"{MARK}' OR '1'='1",
    f"{MARK}'; DROP TABLE keys; --",
    f'{MARK}" OR ""="',
    f"{MARK}') UNION SELECT digest FROM keys --",
    f"{MARK}\\' OR 1=1 --",
    f"{MARK} $1 :id %(id)s ? {{id}} %s",
    f"{MARK}/**/OR/**/1=1",
    f"{MARK}\x00' OR 1=1",
    f"{MARK}\u02bc OR 1=1",  # a letter that some drivers fold into a quote
    f"sk-mz-{MARK}' OR 1=1 --",
    f"sk-mz-{MARK}%-%",
    "sk-mz-{id}' OR '{mark}'='{mark}-" + "a" * 40,
    "sk-mz-{id}-{mark}' OR 1=1 --" + "a" * 23,
    "{key}' OR '{mark}'='{mark}",
    "{key};SELECT '{mark}'",
    "{key}\n{mark}",
    f"{MARK}'" * 5000,
]
# SQL in the letters that an id and a secret may have: only here a question is asked at all.
WELL_FORMED = f"sk-mz-UNION{MARK}SELECTs-OR1e1{MARK}DROPTABLEkeysSELECTdigestFROMke"
HEADERS = {
    "bearer": lambda text: {"authorization": f"Bearer {text}"},
    "basic": lambda text: {"authorization": f"Basic {text}"},
    "bare": lambda text: {"authorization": text},
    "x-api-key": lambda text: {"x-api-key": text},
    "x-goog-api-key": lambda text: {"x-goog-api-key": text},
}
CALLS = [
    ("GET", "/api/me", None),
    ("GET", "/v1/models", None),
    ("POST", "/v1/chat/completions", {"model": "gpt-4o", "messages": []}),
]


@pytest.fixture
def statements() -> Iterator[list[tuple[str, str]]]:
    """Every statement that any engine is about to run, with its parameters."""
    seen: list[tuple[str, str]] = []

    def note(_c: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        seen.append((statement, repr(parameters)))

    event.listen(Engine, "before_cursor_execute", note)
    yield seen
    event.remove(Engine, "before_cursor_execute", note)


async def _count(api: Api) -> int:
    work = lambda c: c.scalar(select(func.count()).select_from(keys))  # noqa: E731
    return await api.house.state.lasting.database.read(work)


@pytest.mark.spec("CVE-2026-42208")
async def test_cve_2026_42208_no_letter_of_a_hostile_header_reaches_the_database(api, statements):
    made = await api.key(await api.user("alice"))
    before = await _count(api)
    statements.clear()
    for written in HOSTILE:
        text = (
            written.replace("{id}", made["id"])
            .replace("{key}", made["key"])
            .replace("{mark}", MARK)
        )
        for form, headers in HEADERS.items():
            for method, target, body in CALLS:
                answer = await api.call(method, target, body, key=None, headers=headers(text))
                assert answer.status == 401, (form, text[:80], answer.raw)
                assert MARK.encode() not in answer.raw
    assert [s for s, p in statements if MARK in s or MARK in p] == []
    # It was not even looked up: only the watch over the configuration has asked anything.
    assert [s for s, _ in statements if "digest" in s] == []
    assert await _count(api) == before
    assert (await api.call("GET", "/api/me", key=made["key"])).status == 200
    assert [s for s, _ in statements if "digest" in s] != []  # the recorder does record


@pytest.mark.spec("CVE-2026-42208")
async def test_cve_2026_42208_a_well_formed_id_is_a_parameter_and_the_secret_is_none(
    api, statements
):
    key_id, secret = WELL_FORMED.removeprefix("sk-mz-").split("-")
    assert (len(key_id), len(secret)) == (16, 40)
    statements.clear()
    assert (await api.call("GET", "/api/me", key=WELL_FORMED)).status == 401
    assert [s for s, _ in statements if MARK in s or key_id in s] == []
    assert [p for s, p in statements if key_id in p] != []  # asked, by its id
    assert [p for _, p in statements if secret in p] == []


@pytest.mark.spec("CVE-2026-42208")
async def test_cve_2026_42208_other_words_of_a_caller_are_parameters_too(api, statements):
    """The log keeps a caller's model and address, and filters come from its query."""
    word = f"{MARK}'); DROP TABLE request_logs; --"
    asked = {"model": word, "messages": [{"role": "user", "content": word}]}
    assert (await api.call("POST", "/v1/chat/completions", asked)).status == 404
    for name in ("text", "model", "username", "provider", "request_id"):
        target = f"/api/logs?{name}={MARK}'%20OR%20'1'='1"
        assert (await api.good("GET", target))["rows"] == []
    assert (await api.call("GET", f"/api/keys/{MARK}'--")).status == 404
    assert [s for s, _ in statements if MARK in s or "DROP" in s] == []
    assert [p for _, p in statements if MARK in p] != []
