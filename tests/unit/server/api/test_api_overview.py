"""The overview over HTTP: whose figures, what needs attention, and the lists beside it."""

from __future__ import annotations

import pytest
from sqlalchemy import insert

from fakes.behaviours import BEHAVIOURS
from fakes.databases import database_url_of_doors  # noqa: F401 - a fixture
from fakes.management import FILE_USER
from fakes.upstream import FakeUpstream
from monoize.server.api.overview_attention import Attention, ranked
from monoize.store.tables import request_logs, spend

pytestmark = pytest.mark.soak  # on both databases

HOUR = 3_600_000


def log_row(number, now, **values):
    return {
        "request_id": f"r{number}",
        "status": "success",
        "created_at": now - 60_000,
        "operation": "chat",
        "is_stream": False,
        "duration_ms": 1200,
        "charge": 1_500_000_000,
        "user_id": None,
        "key_id": None,
        **values,
    }


async def add(api, table, *rows):
    database = api.house.state.lasting.database
    await database.write(lambda c: c.execute(insert(table), list(rows)) and None)


def now(api):
    return round(api.house.state.lasting.clock.now() * 1000)


@pytest.mark.parametrize(
    ("span", "size", "count"),
    [("1h", 60_000, 60), ("24h", HOUR, 24), ("7d", HOUR, 168), ("30d", 24 * HOUR, 30)],
)
async def test_an_overview_has_every_step_of_its_time(api, span, size, count):
    await add(
        api, request_logs, *(log_row(n, now(api), key_id="k", key_name="mine") for n in range(3))
    )
    found = await api.good("GET", f"/api/overview?range={span}")
    assert (found["bucket_ms"], len(found["buckets"])) == (size, count)
    assert found["since"] == found["buckets"][0]["at"]
    assert sum(bucket["calls"] for bucket in found["buckets"]) == found["total"]["calls"] == 3
    assert found["total"]["charge_usd"] == "4.5"
    assert 1000 <= found["total"]["latency_p95_ms"] <= 1500
    assert (found["before"]["calls"], found["change"]["calls"]) == (0, None)
    assert [key["key_name"] for key in found["keys"]] == ["mine"]
    assert found["models"][0]["charge"] == 4_500_000_000


async def test_the_change_is_against_the_time_before(api):
    moment = now(api)
    await add(
        api,
        request_logs,
        *(log_row(n, moment) for n in range(3)),
        *(log_row(10 + n, moment, created_at=moment - 24 * HOUR - 60_000) for n in range(2)),
    )
    found = await api.good("GET", "/api/overview")
    assert (found["range"], found["change"]["calls"], found["before"]["calls"]) == ("24h", 0.5, 2)


async def test_a_range_that_nobody_knows_is_refused(api):
    assert (await api.call("GET", "/api/overview?range=2d")).status == 400


async def test_without_a_database_it_says_so(storeless):
    answer = await storeless.call("GET", "/api/overview")
    assert (answer.status, answer.error["code"]) == (409, "no_database")


async def test_a_normal_user_sees_their_own(api):
    ann, bob = await api.user("ann"), await api.user("bob", balance=1)
    key = await api.key(ann, policy={"budgets": {"total": 10}})
    await api.key(bob, policy={"budgets": {"total": 10}})
    moment = now(api)
    await add(
        api,
        request_logs,
        log_row(1, moment, user_id=ann["id"], key_id=key["id"]),
        log_row(2, moment, user_id=bob["id"]),
        log_row(3, moment, key_id="file:app"),
    )
    await add(api, spend, {"key_id": key["id"], "window": "total", "spent": 10, "reserved": 0})
    mine = await api.good("GET", "/api/overview", key=key["key"])
    assert mine["total"]["calls"] == 1
    assert [(a["what"], a["link"]) for a in mine["attention"]] == [
        ("key_spent", f"/keys?search={key['id']}")
    ]
    assert (await api.good("GET", "/api/overview", key=FILE_USER))["total"]["calls"] == 1
    everything = await api.good("GET", "/api/overview")
    assert everything["total"]["calls"] == 3
    assert {"balance_low", "key_spent"} <= {a["what"] for a in everything["attention"]}


async def test_what_needs_attention_is_said_worst_first(api):
    with FakeUpstream(BEHAVIOURS) as upstream:
        bad = {
            "id": "bad",
            "base_url": upstream.base_url("chat_completion"),
            "health": {"failure_threshold": 1},
        }
        far = {"id": "far", "base_url": "https://api.example.com/v1"}
        for name, channel, more in (
            ("ill", bad, {}),
            ("keyless", far, {}),
            ("off", far, {"enabled": False}),
        ):
            form = {"id": name, "type": "chat_completion", "channels": [channel], **more}
            await api.good(
                "POST",
                "/api/providers",
                {**form, "models": {f"m-{name}": {"redirect": "status_503"}}},
            )
        chat = {"model": "m-ill", "messages": [{"role": "user", "content": "hi"}]}
        assert (await api.call("POST", "/v1/chat/completions", chat)).status >= 500
    rows = (
        log_row(n, now(api), status="error" if n % 2 else "success", unpriced=True)
        for n in range(20)
    )
    await add(api, request_logs, *rows)
    found = (await api.good("GET", "/api/overview"))["attention"]
    levels = [each["level"] for each in found]
    assert levels == sorted(levels, key=("error", "warning", "notice").index)
    by_what = {each["what"]: each for each in found}
    assert set(by_what) == {
        "channel_failing",
        "error_rate",
        "provider_disabled",
        "provider_without_key",
        "unpriced_calls",
    }
    assert by_what["channel_failing"]["sentence"].startswith("The channel ill/bad is unhealthy for")
    assert by_what["channel_failing"]["link"] == "/providers?provider=ill"
    assert by_what["error_rate"]["level"] == "error"
    assert (
        by_what["provider_without_key"]["sentence"] == "The provider keyless has no api_key on far."
    )
    own = await api.good("GET", "/api/overview", key=FILE_USER)
    assert own["attention"] == []


def test_many_of_a_kind_are_counted():
    some = [
        Attention(what="key_expired", level="notice", sentence=f"{n}", link=f"/keys?search={n}")
        for n in range(9)
    ]
    shown = ranked(some)
    assert [each.sentence for each in shown] == [*"01234", "4 more like this: key expired."]
    assert shown[-1].link == "/keys"


async def test_the_rows_behind_a_filter_are_counted(api):
    await add(
        api,
        request_logs,
        *(log_row(n, now(api), status="error" if n % 3 else "success") for n in range(9)),
    )
    assert await api.good("GET", "/api/logs/count") == {"count": 9, "more": False}
    assert await api.good("GET", "/api/logs/count?status=error") == {"count": 6, "more": False}
    assert (await api.good("GET", "/api/logs/count?request_id=r1"))["count"] == 1
    assert (await api.good("GET", "/api/logs/count?text=nothing"))["count"] == 0
    assert (await api.good("GET", "/api/logs/count", key=FILE_USER))["count"] == 0
    await add(api, request_logs, *(log_row(n, now(api)) for n in range(100, 1100)))
    assert await api.good("GET", "/api/logs/count") == {"count": 1000, "more": True}


async def test_keys_are_found_by_name_and_by_how_they_begin(api):
    ann = await api.user("ann")
    made = {name: await api.key(ann, name) for name in ("Laptop 100%", "ci-batch")}

    async def names(text, **more):
        found = await api.good("GET", f"/api/keys?search={text}", **more)
        return [key["name"] for key in found["data"]]

    assert await names("lapTOP") == ["Laptop 100%"]
    assert await names("0%25") == ["Laptop 100%"]  # no wildcard
    assert await names("ci-") == ["ci-batch"]
    key = made["ci-batch"]
    assert await names(key["id"]) == await names(key["id"][:8]) == ["ci-batch"]
    assert await names(key["key"]) == await names(f"sk-mz-{key['id'][:6]}%E2%80%A6") == ["ci-batch"]
    assert await names("roo") == ["root"]  # of the file
    assert await names("nobody") == []
    assert await names("lap", key=key["key"]) == ["Laptop 100%"]
    assert (await api.call("GET", "/api/keys?search=")).status == 400
