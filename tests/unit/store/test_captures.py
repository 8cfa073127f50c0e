"""Bodies are kept redacted, or not at all."""

import pytest

from monoize.errors import NotFound
from monoize.store.captures import Capture, get, save
from monoize.telemetry.redact import redacted


async def test_a_body_is_found_again(database):
    body = {
        "request": {
            "body": {"messages": [{"role": "user", "content": "hé\u2028"}], "n": 1.5, "x": None}
        }
    }
    await database.write(lambda c: save(c, "r1", redacted(body, longest=1000), 5))
    found = await database.read(lambda c: get(c, "r1"))
    assert found == Capture(request_id="r1", body=body, created_at=5)


async def test_the_last_word_about_a_request_holds(database):
    for text in ("first", "second"):
        await database.write(lambda c, text=text: save(c, "r1", redacted(text, longest=10), 5))
    assert (await database.read(lambda c: get(c, "r1"))).body == "second"


async def test_what_was_not_kept_is_not_found(database):
    with pytest.raises(NotFound):
        await database.read(lambda c: get(c, "r1"))


async def test_anything_that_callers_send_can_be_kept(database):
    body = {
        "a\0": "\0 \ud800 \U0001f600",
        "deep": [[[["x"]]]],
        "n": float("nan"),
        "i": 10**40,
        "b": b"\xff\0",
    }
    await database.write(lambda c: save(c, "r1", redacted(body, longest=1000), 5))
    found = (await database.read(lambda c: get(c, "r1"))).body
    assert found == {
        "a\ufffd": "\ufffd ? \U0001f600",
        "deep": [[[["x"]]]],
        "n": None,
        "i": 10**40,
        "b": "\ufffd\ufffd",
    }


async def test_no_secret_reaches_the_table(database):
    body = {"headers": {"Authorization": "Bearer canary-0123456789"}}
    await database.write(lambda c: save(c, "r1", redacted(body, longest=1000), 5))
    assert "canary" not in str((await database.read(lambda c: get(c, "r1"))).body)
