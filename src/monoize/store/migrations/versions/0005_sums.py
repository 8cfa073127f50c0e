# ruff: noqa: INP001 - read by Alembic, imported by nobody
"""Sums of the log by hour and day; they are filled while the program runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_USAGE = (
    "calls",
    "errors",
    "estimated",
    "unpriced",
    "input_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "output_tokens",
    "reasoning_tokens",
    "thousands",
    "rest",
)
_OVERVIEW = (
    "calls",
    "errors",
    "unpriced",
    "input_tokens",
    "output_tokens",
    "thousands",
    "rest",
    "ended",
    "heard",
)
_BOUNDS = 30


def upgrade() -> None:
    op.create_table(
        "fold_mark",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("through", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "fold_later",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("noticed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "fold_groups",
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("key_id", sa.String(length=64), nullable=True),
        sa.Column("key_name", sa.String(length=256), nullable=True),
        sa.Column("user_id", sa.String(length=64), nullable=True),
        sa.Column("username", sa.String(length=256), nullable=True),
        sa.Column("model", sa.String(length=256), nullable=True),
        sa.Column("provider", sa.String(length=64), nullable=True),
        sa.Column("who", sa.Integer(), nullable=True),
        sa.Column("what", sa.Integer(), nullable=True),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in (*_USAGE, "ended", "heard")),
        *(
            sa.Column(f"{what}_{number}", sa.Integer(), nullable=False)
            for what in ("duration", "first_byte")
            for number in range(_BOUNDS)
        ),
    )
    op.create_table(
        "usage_who",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("owner", sa.String(length=70), nullable=False),
        sa.Column("key_id", sa.String(length=64), nullable=True),
        sa.Column("key_name", sa.String(length=256), nullable=True),
        sa.Column("user_id", sa.String(length=64), nullable=True),
        sa.Column("username", sa.String(length=256), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("code"),
    )
    op.create_table(
        "usage_what",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("model", sa.String(length=256), nullable=True),
        sa.Column("provider", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("code"),
    )
    op.create_table(
        "usage_sums",
        sa.Column("grain", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("who", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("start", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("what", sa.Integer(), autoincrement=False, nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _USAGE),
        sa.PrimaryKeyConstraint("grain", "who", "start", "what"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "overview_sums",
        sa.Column("size", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("owner", sa.String(length=70), nullable=False),
        sa.Column("start", sa.BigInteger(), autoincrement=False, nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _OVERVIEW),
        *(
            sa.Column(f"{what}_{number}", sa.Integer(), nullable=False)
            for what in ("duration", "first_byte")
            for number in range(_BOUNDS)
        ),
        sa.PrimaryKeyConstraint("size", "owner", "start"),
        sqlite_with_rowid=False,
    )
