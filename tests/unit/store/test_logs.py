"""Pages of the request log: whatever the filter, they hold what a plain look at every row finds, newest first."""

import os
import random

import pytest
from sqlalchemy import delete, insert, select

from monoize.errors import InvalidRequest, NotFound
from monoize.store import log_walk
from monoize.store.log_filter import conditions
from monoize.store.logs import LogFilter, LogRow, page, row, row_of, usd
from monoize.store.tables import request_logs

SOAK = os.environ.get("MONOIZE_SOAK") == "1"
NOON = 1_794_744_000_000


def log_row(number, **values):
    return {
        "request_id": f"req_{number}",
        "status": "success",
        "created_at": NOON + number,
        "operation": "chat",
        "is_stream": False,
        **values,
    }


async def add(database, rows):
    await database.write(lambda c: c.execute(insert(request_logs), rows) and None)


async def pages(database, wanted, limit=7):
    """Every page, until there are no more."""
    found, before = [], None
    while True:
        one = await database.read(lambda c, before=before: page(c, wanted, before, limit))
        assert len(one.rows) <= limit
        found.append(one)
        if one.next is None:
            return found
        assert before is None or one.next != before, "it does not go on"
        before = one.next


async def names(database, wanted, limit=7):
    return [row.request_id for one in await pages(database, wanted, limit) for row in one.rows]


# --- against a naive model -----------------------------------------------------------------------

STATUSES = ("success", "success", "success", "error", "cancelled", "interrupted", "pending")
CHOICES = {
    "key_id": ("k1", "k2", "k3", None),
    "user_id": ("u1", "u2", None),
    "username": ("ann", "Ann", "bob_", None),
    "provider": ("p1", "p2", None),
    "channel": ("main", "spare", None),
    "protocol": ("messages", "gemini", None),
    "operation": ("chat", "embeddings"),
    "requested_model": ("gpt-5", "gpt-5-mini", "gpt_5", "claude", "GPT-5", "ünï", None),
    "upstream_model": ("up", "Needle-1", None),
    "error_message": ("a NEEDLE here", "100% lost", "100 lost", None),
    "error_code": ("upstream_error", None),
}
MODELS = ("gpt-5", "gpt-5*", "gpt-*", "gpt_*", "claude", "ü*", "none", "none*", "*")


def random_row(rng, number):
    values = {name: rng.choice(choices) for name, choices in CHOICES.items()}
    # Some come late: they waited while the database was away. Some share their moment.
    created = NOON + number // 2 - rng.choice((0, 0, 0, 5, 100))
    return log_row(number, **{**values, "status": rng.choice(STATUSES), "created_at": created})


def random_filter(rng):
    wanted = {}
    for name in ("key_id", "user_id", "username", "provider", "channel", "protocol", "operation"):
        if rng.random() < 0.2:
            wanted[name] = rng.choice([value for value in CHOICES[name] if value] + ["none"])
    if rng.random() < 0.3:
        wanted["models"] = tuple(rng.sample(MODELS, rng.randint(1, 3)))
    if rng.random() < 0.2:
        wanted["status"] = rng.choice(STATUSES)
    if rng.random() < 0.2:
        wanted["errors_only"] = True
    if rng.random() < 0.2:
        wanted["text"] = rng.choice(("needle", "100%", "LOST", "t_5", "\\", "gpt"))
    if rng.random() < 0.2:
        wanted["since"] = NOON + rng.randint(-10, 100)
    if rng.random() < 0.2:
        wanted["until"] = NOON + rng.randint(0, 160)
    if rng.random() < 0.03:
        wanted["request_id"] = f"req_{rng.randint(0, 220)}"
    return LogFilter(**wanted)


def passes(wanted, row):
    def is_model(model):
        name = row["requested_model"]
        if name is None:
            return False
        return name.startswith(model[:-1]) if model.endswith("*") else name == model

    texts = ("error_message", "error_code", "requested_model", "upstream_model")
    return all(
        (
            *(
                getattr(wanted, name) in (None, row[name])
                for name in ("key_id", "user_id", "username", "provider", "channel")
            ),
            wanted.protocol in (None, row["protocol"]),
            wanted.operation in (None, row["operation"]),
            wanted.request_id in (None, row["request_id"]),
            wanted.status in (None, row["status"]),
            not wanted.errors_only or row["status"] in ("error", "interrupted"),
            not wanted.models or any(is_model(model) for model in wanted.models),
            wanted.text is None
            or any(wanted.text.lower() in (row[name] or "").lower() for name in texts),
            wanted.since is None or row["created_at"] >= wanted.since,
            wanted.until is None or row["created_at"] < wanted.until,
        )
    )


@pytest.mark.soak
@pytest.mark.parametrize("lengths", [(1_000, 5_000), (9, 30), (1, 2)])
async def test_pages_hold_what_a_plain_look_at_every_row_finds(database, monkeypatch, lengths):
    monkeypatch.setattr(log_walk, "_SHORT", lengths[0])
    monkeypatch.setattr(log_walk, "_LONG", lengths[1])
    rng = random.Random(str(lengths))
    rows = [random_row(rng, number) for number in range(200)]
    await add(database, rows)
    newest_first = sorted(enumerate(rows), key=lambda pair: (-pair[1]["created_at"], -pair[0]))
    for _ in range((40 if SOAK else 12) if lengths[0] > 1 else 8):
        wanted = random_filter(rng)
        expected = [row["request_id"] for _, row in newest_first if passes(wanted, row)]
        assert await names(database, wanted, rng.choice((1, 7, 200))) == expected, wanted


async def test_names_that_are_too_many_for_an_index_each_are_searched_for(database, monkeypatch):
    monkeypatch.setattr(log_walk, "_MOST_NAMES", 20)
    monkeypatch.setattr(log_walk, "_NAMES", log_walk._names())
    await add(database, [log_row(n, requested_model=f"m{n % 40:02d}") for n in range(80)])
    expected = [f"req_{n}" for n in reversed(range(80)) if n % 40 < 10]
    assert await names(database, LogFilter(models=("m0*",))) == expected


# --- pages ---------------------------------------------------------------------------------------


# PostgreSQL reads a small table as it lies: tests/failure/test_log_size.py.
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("field", "value", "index"),
    [
        ("key_id", "k", "request_logs_key"),
        ("user_id", "u", "request_logs_user"),
        ("username", "n", "request_logs_username"),
        ("provider", "p", "request_logs_provider"),
        ("channel", "c", "request_logs_channel"),
        ("status", "error", "request_logs_status"),
        ("status", "pending", "request_logs_status"),
        ("errors_only", True, "request_logs_status"),
    ],
)
async def test_each_filter_that_can_be_rare_is_answered_by_its_index(database, field, value, index):
    tests = conditions(LogFilter(**{field: value}), request_logs.c).values()
    plain = select(request_logs.c.charge).where(*tests)
    lead = log_walk._leads(None, LogFilter(**{field: value}))[0]
    walked = lead.arms(log_walk._Span(log_walk._NEWEST, log_walk._OLDEST), log_walk._PLACE, 9)

    def plan(connection, query):
        text = str(query.compile(connection, compile_kwargs={"literal_binds": True}))
        return str([row[-1] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}")])

    for query in (plain, select(walked)):
        found = await database.read(lambda c, query=query: plan(c, query))
        assert f"INDEX {index} (" in found, found


async def test_a_row_has_everything_that_was_written(database):
    values = {
        "key_id": "k",
        "key_name": "my key",
        "user_id": "u",
        "username": "ann",
        "address": "192.0.2.1",
        "protocol": "messages",
        "is_stream": True,
        "requested_model": "m",
        "upstream_model": "m-1",
        "provider": "p",
        "channel": "c",
        "attempts": [{"provider": "p", "channel": "c", "error": None, "status": 200}],
        "effort": "high",
        "input_tokens": 1,
        "cached_tokens": 2,
        "cache_write_tokens": 3,
        "output_tokens": 4,
        "reasoning_tokens": 5,
        "usage": {"input": 1},
        "multiplier": "1.2",
        "charge": 1_500_000_000,
        "estimated": False,
        "unpriced": True,
        "http_status": 200,
        "error_code": "e",
        "error_message": "said so",
        "first_byte_ms": 6,
        "duration_ms": 7,
        "overhead_ms": 8,
        "losses": ["seed"],
    }
    await add(database, [log_row(1, **values)])
    found = await database.read(lambda c: row(c, "req_1"))
    assert found == LogRow(**log_row(1, **values), id=found.id, charge_usd="1.5")
    assert (await pages(database, LogFilter()))[0].rows == [found]
    assert set(LogRow.__struct_fields__) == {*request_logs.c.keys(), "charge_usd"}


async def test_an_unknown_request_is_not_found(database):
    with pytest.raises(NotFound):
        await database.read(lambda c: row(c, "nobody"))


def test_a_row_of_the_live_view_has_no_number_yet():
    assert row_of(log_row(1, charge=1)) == LogRow(**log_row(1, charge=1), charge_usd="0.000000001")


async def test_a_page_is_bounded(database):
    for limit in (0, -1, 201):
        with pytest.raises(InvalidRequest, match="limit"):
            await database.read(lambda c, limit=limit: page(c, LogFilter(), None, limit))


async def test_the_last_page_says_so_even_when_it_is_full(database):
    await add(database, [log_row(n) for n in range(14)])
    assert [len(one.rows) for one in await pages(database, LogFilter(), 7)] == [7, 7]


async def test_rows_that_come_in_between_do_not_move_the_pages(database):
    await add(database, [log_row(n) for n in range(6)])
    first = await database.read(lambda c: page(c, LogFilter(), None, 3))
    await add(database, [log_row(n) for n in range(6, 9)])
    second = await database.read(lambda c: page(c, LogFilter(), first.next, 3))
    assert [r.request_id for r in (*first.rows, *second.rows)] == [
        f"req_{n}" for n in (5, 4, 3, 2, 1, 0)
    ]


async def test_a_page_goes_on_where_retention_took_its_last_row_away(database):
    await add(database, [log_row(n) for n in range(6)])
    first = await database.read(lambda c: page(c, LogFilter(), None, 3))
    await database.write(
        lambda c: c.execute(delete(request_logs).where(request_logs.c.id == first.next)) and None
    )
    second = await database.read(lambda c: page(c, LogFilter(), first.next, 3))
    assert [r.request_id for r in second.rows] == ["req_2", "req_1", "req_0"]


@pytest.mark.spec("T39")
async def test_any_number_is_taken_as_a_place_or_a_moment(database):
    await add(database, [log_row(1)])
    for number in (-(10**30), -1, 0, 10**30):
        found = await database.read(lambda c, number=number: page(c, LogFilter(), number))
        assert len(found.rows) == (number > 0)
        assert len(await names(database, LogFilter(since=number))) == (number < NOON)
        assert len(await names(database, LogFilter(until=number))) == (number > NOON)


# --- what callers may ask ------------------------------------------------------------------------

HOSTILE = ("' OR 1=1 --", "%", "_", "\\", "x'; DROP TABLE request_logs; --", "$1", ":id", "é\u202e")


@pytest.mark.spec("CVE-2026-42208")
async def test_no_value_is_anything_but_a_value(database):
    await add(database, [log_row(1, key_id="k", requested_model="m")])
    for text in HOSTILE:
        for field in ("key_id", "user_id", "username", "provider", "channel", "request_id", "text"):
            assert await names(database, LogFilter(**{field: text})) == []
        assert await names(database, LogFilter(models=(text, f"{text}*"))) == []
    assert await names(database, LogFilter()) == ["req_1"]


@pytest.mark.parametrize(
    "field", ["key_id", "username", "protocol", "text", "models", "request_id"]
)
@pytest.mark.parametrize("text", ["a\0b", "\ud800x", "x" * 1000])
def test_what_no_row_can_hold_is_refused(field, text):
    with pytest.raises(InvalidRequest) as refused:
        LogFilter(**{field: (text,) if field == "models" else text})
    assert refused.value.param == field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("models", ("g*t",)),
        ("models", ("*x",)),
        ("models", ("m",) * 33),
        ("text", "x" * 201),
        ("text", ""),
    ],
)
def test_a_filter_that_cannot_be_served_fast_is_refused(field, value):
    with pytest.raises(InvalidRequest) as refused:
        LogFilter(**{field: value})
    assert refused.value.param == field


@pytest.mark.parametrize(
    ("nano", "text"),
    [
        (0, "0"),
        (1, "0.000000001"),
        (1_000_000_000, "1"),
        (10_500_000_000, "10.5"),
        (-1_000_000, "-0.001"),
        (2**63 - 1, "9223372036.854775807"),
    ],
)
def test_dollars_are_exact(nano, text):
    assert usd(nano) == text
