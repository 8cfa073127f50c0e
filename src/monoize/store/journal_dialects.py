"""The ledger's statements for the database behind a connection."""

from __future__ import annotations

import sqlite3
from typing import cast

from sqlalchemy import Connection

from monoize.store.journal_sqlite import SqliteStatements
from monoize.store.journal_statements import Statements

__all__ = ["statements_of"]


def statements_of(connection: Connection) -> Statements:
    """In the transaction that the connection has begun."""
    if connection.dialect.name == "postgresql":
        # Only one of the two is ever needed, and this one takes longer to import.
        from monoize.store.journal_postgresql import PostgresqlStatements  # noqa: PLC0415

        return PostgresqlStatements(connection)
    return SqliteStatements(cast("sqlite3.Connection", connection.connection.driver_connection))
