# ruff: noqa: INP001 - read by Alembic, imported by nobody
"""Fewer entries of indexes for each request: none for what it does not have, none that nobody looks for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_PARTIAL = {
    "user": ("user_id", "user_id IS NOT NULL"),
    "username": ("username", "username IS NOT NULL"),
    "provider": ("provider", "provider IS NOT NULL"),
    "channel": ("channel", "channel IS NOT NULL"),
    "status": ("status", "status <> 'success'"),
}


def upgrade() -> None:
    for name, (column, condition) in _PARTIAL.items():
        op.drop_index(f"request_logs_{name}", table_name="request_logs")
        op.create_index(
            f"request_logs_{name}",
            "request_logs",
            [column, "created_at", "id"],
            unique=False,
            sqlite_where=sa.text(condition),
            postgresql_where=sa.text(condition),
        )
    op.drop_index(op.f("ix_reservations_instance"), table_name="reservations")
    op.drop_index(op.f("ix_ledger_key_id"), table_name="ledger")
    op.drop_index(op.f("ix_ledger_user_id"), table_name="ledger")
    if op.get_bind().dialect.name == "sqlite":
        _keep_reservations_by_name()


def _keep_reservations_by_name() -> None:
    """The table and its key become one tree; a table of SQLite is changed by making another."""
    op.create_table(
        "new_reservations",
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("instance", sa.String(length=64), nullable=False),
        sa.Column("key_id", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=True),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("request_id"),
        sqlite_with_rowid=False,
    )
    op.execute(
        "INSERT INTO new_reservations (request_id, instance, key_id, user_id, amount, opened_at)"
        " SELECT request_id, instance, key_id, user_id, amount, opened_at FROM reservations"
    )
    op.drop_table("reservations")
    op.rename_table("new_reservations", "reservations")
