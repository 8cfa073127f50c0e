# ruff: noqa: INP001 - read by Alembic, imported by nobody
"""Everything as it was first published."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("actor", sa.String(length=256), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("subject", sa.String(length=320), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_audit_created_at"), "audit", ["created_at"], unique=False)
    op.create_table(
        "captures",
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("request_id"),
    )
    op.create_index(op.f("ix_captures_created_at"), "captures", ["created_at"], unique=False)
    op.create_table(
        "instances",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("host", sa.String(length=256), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "keys",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("hint", sa.String(length=32), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("policy", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_keys_user_id"), "keys", ["user_id"], unique=False)
    op.create_table(
        "ledger",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("request_id", sa.String(length=64), nullable=True),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=True),
        sa.Column("key_id", sa.String(length=64), nullable=True),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("balance_after", sa.BigInteger(), nullable=True),
        sa.Column("estimated", sa.Boolean(), nullable=False),
        sa.Column("unpriced", sa.Boolean(), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("request_id"),
    )
    op.create_index(op.f("ix_ledger_key_id"), "ledger", ["key_id"], unique=False)
    op.create_index(op.f("ix_ledger_user_id"), "ledger", ["user_id"], unique=False)
    op.create_table(
        "prices",
        sa.Column("model", sa.String(length=256), nullable=False),
        sa.Column("rates", sa.JSON(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("model"),
    )
    op.create_table(
        "providers",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "request_logs",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("key_id", sa.String(length=64), nullable=True),
        sa.Column("key_name", sa.String(length=256), nullable=True),
        sa.Column("user_id", sa.String(length=64), nullable=True),
        sa.Column("username", sa.String(length=256), nullable=True),
        sa.Column("address", sa.String(length=64), nullable=True),
        sa.Column("protocol", sa.String(length=32), nullable=True),
        sa.Column("operation", sa.String(length=32), nullable=False),
        sa.Column("is_stream", sa.Boolean(), nullable=False),
        sa.Column("requested_model", sa.String(length=256), nullable=True),
        sa.Column("upstream_model", sa.String(length=256), nullable=True),
        sa.Column("provider", sa.String(length=64), nullable=True),
        sa.Column("channel", sa.String(length=64), nullable=True),
        sa.Column("attempts", sa.JSON(), nullable=True),
        sa.Column("effort", sa.String(length=32), nullable=True),
        sa.Column("input_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cache_write_tokens", sa.BigInteger(), nullable=True),
        sa.Column("output_tokens", sa.BigInteger(), nullable=True),
        sa.Column("reasoning_tokens", sa.BigInteger(), nullable=True),
        sa.Column("usage", sa.JSON(), nullable=True),
        sa.Column("multiplier", sa.String(length=32), nullable=True),
        sa.Column("charge", sa.BigInteger(), nullable=True),
        sa.Column("estimated", sa.Boolean(), nullable=True),
        sa.Column("unpriced", sa.Boolean(), nullable=True),
        sa.Column("http_status", sa.Integer(), nullable=True),
        sa.Column("error_code", sa.String(length=64), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("first_byte_ms", sa.BigInteger(), nullable=True),
        sa.Column("duration_ms", sa.BigInteger(), nullable=True),
        sa.Column("overhead_ms", sa.BigInteger(), nullable=True),
        sa.Column("losses", sa.JSON(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("request_id"),
    )
    op.create_index("request_logs_created", "request_logs", ["created_at", "id"], unique=False)
    op.create_index(
        "request_logs_channel", "request_logs", ["channel", "created_at", "id"], unique=False
    )
    op.create_index(
        "request_logs_key", "request_logs", ["key_id", "created_at", "id"], unique=False
    )
    op.create_index(
        "request_logs_model", "request_logs", ["requested_model", "created_at", "id"], unique=False
    )
    op.create_index(
        "request_logs_provider", "request_logs", ["provider", "created_at", "id"], unique=False
    )
    op.create_index(
        "request_logs_status", "request_logs", ["status", "created_at", "id"], unique=False
    )
    op.create_index(
        "request_logs_user", "request_logs", ["user_id", "created_at", "id"], unique=False
    )
    op.create_index(
        "request_logs_username", "request_logs", ["username", "created_at", "id"], unique=False
    )
    op.create_table(
        "reservations",
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("instance", sa.String(length=64), nullable=False),
        sa.Column("key_id", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=True),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("request_id"),
    )
    op.create_index(op.f("ix_reservations_instance"), "reservations", ["instance"], unique=False)
    op.create_table(
        "secrets",
        sa.Column("name", sa.String(length=320), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "settings",
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.Column("value", sa.JSON(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "spend",
        sa.Column("key_id", sa.String(length=64), nullable=False),
        sa.Column("window", sa.String(length=24), nullable=False),
        sa.Column("spent", sa.BigInteger(), nullable=False),
        sa.Column("reserved", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key_id", "window"),
    )
    op.create_table(
        "users",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("username", sa.String(length=256), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=True),
        sa.Column("balance", sa.BigInteger(), nullable=True),
        sa.Column("reserved", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("username"),
    )
