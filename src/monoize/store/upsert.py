"""Insert or replace a row by its primary key, on either database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

__all__ = ["upsert"]


def upsert(
    connection: Connection, table: Table, row: Mapping[str, Any], *, replace: bool = True
) -> None:
    """`replace=False`: a row that is there already stays as it is."""
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    keys = [column.name for column in table.primary_key]
    statement = insert(table).values(row)
    if replace:
        changed = {name: value for name, value in row.items() if name not in keys}
        connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed))
    else:
        connection.execute(statement.on_conflict_do_nothing(index_elements=keys))
