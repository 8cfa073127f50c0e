"""Insert or replace a row by its primary key, on either database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import sqlite

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql

__all__ = ["insert_for", "upsert"]


def upsert(
    connection: Connection, table: Table, row: Mapping[str, Any], *, replace: bool = True
) -> None:
    """`replace=False`: a row that is there already stays as it is."""
    keys = [column.name for column in table.primary_key]
    statement = insert_for(connection, table).values(row)
    if replace:
        changed = {name: value for name, value in row.items() if name not in keys}
        connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changed))
    else:
        connection.execute(statement.on_conflict_do_nothing(index_elements=keys))


def insert_for(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """One that can say what happens to a row that is there already, in the words of this database."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    # Only one of the two is ever needed, and this one takes as long to import as all our tables.
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415

    return postgresql.insert(table)
