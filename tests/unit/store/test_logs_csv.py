"""The log as a file: RFC 4180, safe in a spreadsheet, some lines at a time."""

import csv
import io

import pytest
from sqlalchemy import insert

from monoize.errors import InvalidRequest
from monoize.store.logs import CSV_HEADER, LogFilter, LogRow, csv_part, export
from monoize.store.tables import request_logs

NOON = 1_794_744_000_000
EVERYTHING = LogFilter()


async def add(database, rows):
    plain = {"status": "success", "operation": "chat", "is_stream": False}
    full = [
        {"request_id": f"r{n}", "created_at": NOON + n, **plain, **row}
        for n, row in enumerate(rows)
    ]
    await database.write(
        lambda c: [c.execute(insert(request_logs).values(r)) for r in full] and None
    )


async def exported(database, wanted=EVERYTHING, batch=1000):
    return await database.read(lambda c: list(export(c, wanted, batch)))


def read(parts):
    return list(csv.DictReader(io.StringIO("".join(parts), newline=""), strict=True))


async def test_an_empty_log_is_a_header(database):
    assert await exported(database) == [CSV_HEADER]
    assert CSV_HEADER.split(",") == [*LogRow.__struct_fields__[:-1], "losses\r\n"]


async def test_values_are_read_back_as_they_were(database):
    said = 'a "quoted" word, a comma,\r\nand a new line'
    await add(
        database,
        [
            {
                "error_message": said,
                "charge": 1_234,
                "is_stream": True,
                "attempts": [{"provider": "p"}],
                "http_status": 200,
            }
        ],
    )
    (row,) = read(await exported(database))
    assert row["error_message"] == said
    assert (row["charge"], row["charge_usd"]) == ("1234", "0.000001234")
    assert row["created_at"] == "2026-11-15T12:00:00.000Z"
    assert row["is_stream"] == "true"
    assert row["attempts"] == '[{"provider":"p"}]'
    assert (row["http_status"], row["provider"]) == ("200", "")


async def test_lines_end_as_the_rfc_says(database):
    await add(database, [{}, {}])
    text = "".join(await exported(database))
    assert text.count("\r\n") == 3
    assert text.replace("\r\n", "").count("\n") == 0


@pytest.mark.spec("CWE-1236")
async def test_no_cell_is_a_formula(database):
    texts = [f'{start}HYPERLINK("http://evil")' for start in "=+-@\t\r\n\uff1d"]
    rows = [{"requested_model": t, "error_message": t, "key_name": f"a{t}"} for t in texts]
    await add(database, rows)
    for row, text in zip(read(await exported(database)), reversed(texts), strict=True):
        assert row["requested_model"] == row["error_message"] == f"'{text}"
        assert row["key_name"] == f"a{text}"


async def test_every_row_comes_once_newest_first_and_in_parts(database):
    await add(database, [{"provider": "p" if n % 3 else "q"} for n in range(50)])
    parts = await exported(database, batch=7)
    assert [row["request_id"] for row in read(parts)] == [f"r{n}" for n in reversed(range(50))]
    assert max(part.count("\r\n") for part in parts) == 7
    some = read(await exported(database, LogFilter(provider="q", operation="chat"), 4))
    assert [row["request_id"] for row in some] == [f"r{n}" for n in reversed(range(0, 50, 3))]


async def test_a_part_can_be_taken_in_a_transaction_of_its_own(database):
    await add(database, [{} for _ in range(5)])
    first = await database.read(lambda c: csv_part(c, LogFilter(), None, 3))
    second = await database.read(lambda c: csv_part(c, LogFilter(), first.next, 3))
    rows = read([CSV_HEADER, first.text, second.text])
    assert [row["request_id"] for row in rows] == ["r4", "r3", "r2", "r1", "r0"]
    assert second.next is None


async def test_nothing_is_read_before_it_is_asked_for(database):
    def work(connection):
        lines = export(connection, LogFilter(), 2)
        assert next(lines) == CSV_HEADER
        connection.execute(
            insert(request_logs).values(
                request_id="late",
                created_at=NOON,
                status="success",
                operation="chat",
                is_stream=False,
            )
        )
        return list(lines)

    (part,) = await database.write(work)
    assert "late" in part


async def test_a_batch_is_bounded(database):
    for batch in (0, 10_001):
        with pytest.raises(InvalidRequest, match="batch"):
            await database.read(lambda c, batch=batch: csv_part(c, LogFilter(), None, batch))
