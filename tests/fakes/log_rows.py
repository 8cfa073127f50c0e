"""Rows of the request log by the thousand, made inside the database, with rare and crowded values at known places."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, text

from monoize.store.database import Database

FIRST_MS = 1_760_000_000_000  # the first row's moment; then one row a second
SECOND = 1000
_STEP = 10_000  # rows of one transaction

# Rare values stand in the oldest rows only: a walk from the newest meets them last. `gone` is a name that a quarter of
# the rows have, and none of the newer half. `k-even` and `p-odd` are crowded, but meet in the oldest rows alone.
_FILL = """
INSERT INTO request_logs (
    request_id, status, created_at, key_id, key_name, user_id, username, address, protocol, operation, is_stream,
    requested_model, upstream_model, provider, channel, attempts, effort, input_tokens, cached_tokens,
    cache_write_tokens, output_tokens, reasoning_tokens, usage, multiplier, charge, estimated, unpriced, http_status,
    error_code, error_message, first_byte_ms, duration_ms, overhead_ms, losses)
WITH RECURSIVE number(i) AS (SELECT CAST(:first AS BIGINT) UNION ALL SELECT i + 1 FROM number WHERE i < :last)
SELECT
    'req_' || CAST(i AS TEXT),
    CASE WHEN i < 10 THEN 'interrupted' WHEN i % 20 = 7 THEN 'error' WHEN i % 50 = 3 THEN 'cancelled' ELSE 'success' END,
    CAST(:epoch AS BIGINT) + i * 1000,
    CASE WHEN i < 10 THEN 'k-rare' WHEN i % 2 = 0 THEN 'k-even' WHEN i % 10 = 1 THEN 'k-tenth'
         ELSE 'k-' || CAST(i % 200 AS TEXT) END,
    'a key',
    CASE WHEN i < 10 THEN 'u-rare' WHEN i % 2 = 0 THEN 'u-even' ELSE 'u-' || CAST(i % 40 AS TEXT) END,
    CASE WHEN i < 10 THEN 'rare' WHEN i % 2 = 0 THEN 'even' WHEN i < :half THEN 'gone' ELSE 'name ' || CAST(i % 40 AS TEXT) END,
    '192.0.2.1',
    CASE WHEN i < 10 THEN 'gemini' WHEN i % 3 = 0 THEN 'messages' ELSE 'chat_completion' END,
    CASE WHEN i < 10 THEN 'embeddings' ELSE 'chat' END,
    i % 4 = 0,
    CASE WHEN i < 10 THEN 'rare-model' WHEN i % 3 = 0 THEN 'claude-' || CAST(i % 7 AS TEXT)
         ELSE 'gpt-' || CAST(i % 5 AS TEXT) END,
    'upstream-' || CAST(i % 5 AS TEXT),
    CASE WHEN i < 10 THEN 'p-rare' WHEN i < 100 AND i % 2 = 0 THEN 'p-odd' WHEN i % 2 = 0 THEN 'p-even' ELSE 'p-odd' END,
    CASE WHEN i < 10 THEN 'c-rare' ELSE 'c-' || CAST(i % 4 AS TEXT) END,
    '[{"provider": "p-odd", "channel": "c-1", "error": null, "status": 200}]',
    'high', 1000 + i % 100, 100, 10, 200 + i % 10, 50,
    '{"input": 890, "cached_read": 100, "cache_write": 10, "output": 150, "reasoning": 50}',
    '1.5',
    CASE WHEN i % 20 = 7 THEN 0 ELSE 1000000 + i % 1000 END,
    i % 50 = 3, i % 1000 = 5,
    CASE WHEN i % 20 = 7 THEN 502 ELSE 200 END,
    CASE WHEN i % 20 = 7 THEN 'upstream_error' END,
    CASE WHEN i = 7 THEN 'a needle in the haystack' WHEN i % 20 = 7 THEN 'the provider answered with status 500' END,
    120, 900 + i % 100, 2, '["temperature"]'
FROM number
"""


def fill(connection: Connection, first: int, last: int, rows: int) -> None:
    """The rows from number `first` to number `last`, of so many."""
    values = {"first": first, "last": last, "half": rows // 2, "epoch": FIRST_MS}
    connection.execute(text(_FILL), values)


async def fill_log(database: Database, rows: int) -> None:
    """In steps that keep within the time a statement may take; then the planner is told, as it would be in time."""
    for first, last in steps(rows):
        await database.write(lambda c, first=first, last=last: fill(c, first, last, rows))
    if database.dialect == "postgresql":
        await database.write(lambda c: c.execute(text("ANALYZE request_logs")) and None)


def steps(rows: int) -> Iterator[tuple[int, int]]:
    for first in range(0, rows, _STEP):
        yield first, min(first + _STEP, rows) - 1
