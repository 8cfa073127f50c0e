# ruff: noqa: INP001 - read by Alembic, imported by nobody
"""Runs the migrations: in the transaction of the program, or for `alembic revision` in one of its own."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection, create_engine

from monoize.store.tables import METADATA


def _run(connection: Connection) -> None:
    context.configure(connection=connection, target_metadata=METADATA, render_as_batch=True)
    with context.begin_transaction():
        context.run_migrations()


_given = context.config.attributes.get("connection")
if _given is not None:
    _run(_given)
else:
    _engine = create_engine(context.get_x_argument(as_dictionary=True)["url"])
    with _engine.begin() as _connection:
        _run(_connection)
    _engine.dispose()
