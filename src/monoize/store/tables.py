"""The tables. Money is integer nano-USD, moments are integer milliseconds since the epoch."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    text,
)

__all__ = [
    "LATENCY_BOUNDS",
    "METADATA",
    "USAGE_COUNTS",
    "agent_runs",
    "audit",
    "captures",
    "fold_groups",
    "fold_later",
    "fold_mark",
    "instances",
    "keys",
    "ledger",
    "media",
    "media_usage",
    "overview_sums",
    "prices",
    "providers",
    "request_logs",
    "reservations",
    "secrets",
    "sessions",
    "settings",
    "spend",
    "usage_sums",
    "usage_what",
    "usage_who",
    "users",
]

METADATA = MetaData()
LATENCY_BOUNDS = 30  # of a histogram

_Id = String(64)
_Name = String(256)
_Nano = BigInteger
_Moment = BigInteger
_Json = JSON(none_as_null=True)
# SQLite counts only an INTEGER key by itself.
_Serial = BigInteger().with_variant(Integer, "sqlite")


def _partial(name: str, column: str, condition: str) -> Index:
    """Of the rows that meet a condition; a query says it word by word, or no database takes the index for it.

    PostgreSQL is told in store/postgresql.py: with the first word about it SQLAlchemy loads all of that dialect.
    """
    return Index(name, column, "created_at", "id", sqlite_where=text(condition))


users = Table(
    "users",
    METADATA,
    Column("id", _Id, primary_key=True),
    Column("username", _Name, nullable=False, unique=True),
    Column("role", String(16), nullable=False),  # admin, user
    Column("enabled", Boolean, nullable=False),
    Column("password_hash", Text),
    # What is left of a prepaid account; NULL: not prepaid. Reserved money is still part of it.
    Column("balance", _Nano),
    Column("reserved", _Nano, nullable=False, default=0),
    Column("created_at", _Moment, nullable=False),
    Column("updated_at", _Moment, nullable=False),
)

keys = Table(
    "keys",
    METADATA,
    Column(
        "id", _Id, primary_key=True
    ),  # part of the key itself, so that it is found without a scan
    Column("user_id", _Id, nullable=False, index=True),
    Column("name", _Name, nullable=False),
    Column("hint", String(32), nullable=False),  # what a list may show of it
    Column("digest", LargeBinary, nullable=False),  # keyed hash of the secret part
    Column("enabled", Boolean, nullable=False),
    Column("expires_at", _Moment),
    Column("policy", _Json, nullable=False),  # KeyPolicy: limits, allow-lists, rules, capture
    Column("created_at", _Moment, nullable=False),
    Column("updated_at", _Moment, nullable=False),
    Column("last_used_at", _Moment),
)

# Who signed in, known by the hash of a token that only the browser has.
sessions = Table(
    "sessions",
    METADATA,
    Column("digest", String(64), primary_key=True),
    Column("how", String(16), nullable=False),  # local, password, key, proxy
    Column("holder", String(320), nullable=False),  # id of a user or a key; empty: local
    Column("stamp", String(64), nullable=False),  # of the password or the secret as it was then
    Column("created_at", _Moment, nullable=False),
    Column("used_at", _Moment, nullable=False),
    Column("expires_at", _Moment, nullable=False, index=True),
    Index("sessions_holder", "holder", "created_at"),
)

providers = Table(
    "providers",
    METADATA,
    Column("id", _Id, primary_key=True),
    Column("position", Integer, nullable=False),  # after those of the file, in this order
    Column("body", _Json, nullable=False),  # ProviderSettings without secrets
    Column("updated_at", _Moment, nullable=False),
)

# Encrypted with the program's own key: `channel/<provider>/<channel>`.
secrets = Table(
    "secrets",
    METADATA,
    Column("name", String(320), primary_key=True),
    Column("sealed", LargeBinary, nullable=False),
    Column("updated_at", _Moment, nullable=False),
)

prices = Table(
    "prices",
    METADATA,
    Column("model", _Name, primary_key=True),  # a name or a glob
    Column("rates", _Json, nullable=False),  # USD per million tokens by usage class, as strings
    Column("updated_at", _Moment, nullable=False),
)

settings = Table(
    "settings",
    METADATA,
    Column("name", _Name, primary_key=True),
    Column("value", _Json, nullable=False),
    Column("updated_at", _Moment, nullable=False),
)

# --- money ---------------------------------------------------------------------------------------

# Whether an open reservation is still somebody's work: its process beats here.
instances = Table(
    "instances",
    METADATA,
    Column("id", _Id, primary_key=True),
    Column("host", _Name, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("seen_at", _Moment, nullable=False),
)

# One row while a request is under way. Its removal and the ledger's row are one transaction.
reservations = Table(
    "reservations",
    METADATA,
    Column("request_id", _Id, primary_key=True),
    Column("instance", _Id, nullable=False),
    Column("key_id", _Id, nullable=False),
    Column("user_id", _Id),
    Column("amount", _Nano, nullable=False),
    Column("opened_at", _Moment, nullable=False),  # also says in which day and month it counts
    sqlite_with_rowid=False,
)

# What a key has spent and holds reserved in a window: total, day:2026-11-15, month:2026-11 (UTC).
spend = Table(
    "spend",
    METADATA,
    Column("key_id", _Id, primary_key=True),
    Column("window", String(24), primary_key=True),
    Column("spent", _Nano, nullable=False),
    Column("reserved", _Nano, nullable=False),
)

ledger = Table(
    "ledger",
    METADATA,
    Column("id", _Serial, primary_key=True, autoincrement=True),
    Column("request_id", _Id, unique=True),  # of a charge: a request is charged once
    Column("kind", String(16), nullable=False),  # charge, adjustment
    Column("user_id", _Id),
    Column("key_id", _Id),
    Column(
        "amount", _Nano, nullable=False
    ),  # a charge is positive; an adjustment adds to the balance
    Column("balance_after", _Nano),
    Column("estimated", Boolean, nullable=False),
    Column("unpriced", Boolean, nullable=False),
    Column("detail", _Json),
    Column("created_at", _Moment, nullable=False),
)

# --- what happened -------------------------------------------------------------------------------

request_logs = Table(
    "request_logs",
    METADATA,
    Column("id", _Serial, primary_key=True, autoincrement=True),  # in order of arrival
    Column("request_id", _Id, nullable=False, unique=True),
    Column("status", String(16), nullable=False),  # pending, success, error, cancelled, interrupted
    Column("created_at", _Moment, nullable=False),
    Column("key_id", _Id),
    Column("key_name", _Name),
    Column("user_id", _Id),
    Column("username", _Name),
    Column("address", String(64)),
    Column("protocol", String(32)),
    Column("operation", String(32), nullable=False),
    Column("is_stream", Boolean, nullable=False),
    Column("requested_model", _Name),
    Column("upstream_model", _Name),
    Column("provider", _Id),
    Column("channel", _Id),
    Column("attempts", _Json),  # [{provider, channel, error, status}]
    Column("effort", String(32)),
    Column("input_tokens", BigInteger),
    Column("cached_tokens", BigInteger),
    Column("cache_write_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("reasoning_tokens", BigInteger),
    Column("usage", _Json),  # every class that the provider counted
    Column("multiplier", String(32)),
    Column("charge", _Nano),
    Column("estimated", Boolean),
    Column("unpriced", Boolean),
    Column("http_status", Integer),
    Column("error_code", String(64)),
    Column("error_message", Text),
    Column("first_byte_ms", BigInteger),
    Column("duration_ms", BigInteger),
    Column("overhead_ms", BigInteger),
    Column("losses", _Json),
    # Each filter that can be rare, then the order of pages: store/log_walk.py. What a request does not have, or not
    # yet, has no entry, so that it need not be taken out again.
    Index("request_logs_key", "key_id", "created_at", "id"),
    _partial("request_logs_user", "user_id", "user_id IS NOT NULL"),
    _partial("request_logs_username", "username", "username IS NOT NULL"),
    Index("request_logs_model", "requested_model", "created_at", "id"),
    _partial("request_logs_provider", "provider", "provider IS NOT NULL"),
    _partial("request_logs_channel", "channel", "channel IS NOT NULL"),
    _partial("request_logs_status", "status", "status <> 'success'"),  # which is never rare
    Index("request_logs_created", "created_at", "id"),
)

# --- sums of the log: store/rollup.py -------------------------------------------------------------

# Up to which row the log is in the sums.
fold_mark = Table(
    "fold_mark",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),  # there is one
    Column("through", BigInteger, nullable=False),  # request_logs.id
)

# Rows up to there that are not in the sums yet: under way still, or not to be seen yet.
fold_later = Table(
    "fold_later",
    METADATA,
    Column("id", BigInteger, primary_key=True, autoincrement=False),  # request_logs.id
    Column("noticed_at", _Moment, nullable=False),
)

USAGE_COUNTS = (
    "calls",
    "errors",
    "estimated",
    "unpriced",
    "input_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "output_tokens",
    "reasoning_tokens",
    "thousands",  # of nano-USD
    "rest",
)

# Whose calls are added up; a key or user of another name is another row.
usage_who = Table(
    "usage_who",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("code", Text, nullable=False, unique=True),  # all of them in one text
    Column("owner", String(70), nullable=False),  # user:…, key:… or nobody
    Column("key_id", _Id),
    Column("key_name", _Name),
    Column("user_id", _Id),
    Column("username", _Name),
)

usage_what = Table(
    "usage_what",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("code", Text, nullable=False, unique=True),
    Column("model", _Name),
    Column("provider", _Id),
)

usage_sums = Table(
    "usage_sums",
    METADATA,
    Column("grain", Integer, primary_key=True, autoincrement=False),  # store/rollup_facts.py
    Column("who", Integer, primary_key=True, autoincrement=False),  # 0: not told apart
    Column("start", _Moment, primary_key=True, autoincrement=False),
    Column("what", Integer, primary_key=True, autoincrement=False),  # 0: not told apart
    *(Column(name, BigInteger, nullable=False) for name in USAGE_COUNTS),
    sqlite_with_rowid=False,
)

# What an overview draws. `duration_7` counts the calls that took less than the bound of that number (rollup_facts.py).
overview_sums = Table(
    "overview_sums",
    METADATA,
    Column("size", Integer, primary_key=True, autoincrement=False),  # milliseconds
    Column("owner", String(70), primary_key=True),  # of usage_who; empty: everybody
    Column("start", _Moment, primary_key=True, autoincrement=False),
    *(
        Column(name, BigInteger, nullable=False)
        for name in (
            "calls",
            "errors",
            "unpriced",
            "input_tokens",
            "output_tokens",
            "thousands",
            "rest",
            "ended",  # successes with a duration
            "heard",  # successes with a first byte
        )
    ),
    *(
        Column(f"{what}_{number}", Integer, nullable=False)
        for what in ("duration", "first_byte")
        for number in range(LATENCY_BOUNDS)
    ),
    sqlite_with_rowid=False,
)

# The rows that are folded just now, those of a minute that are alike as one: empty outside of a transaction.
fold_groups = Table(
    "fold_groups",
    METADATA,
    Column("start", _Moment, nullable=False),
    Column("key_id", _Id),
    Column("key_name", _Name),
    Column("user_id", _Id),
    Column("username", _Name),
    Column("model", _Name),
    Column("provider", _Id),
    Column("who", Integer),  # of usage_who, as soon as it is known
    Column("what", Integer),
    *(Column(name, BigInteger, nullable=False) for name in (*USAGE_COUNTS, "ended", "heard")),
    *(
        Column(f"{what}_{number}", Integer, nullable=False)
        for what in ("duration", "first_byte")
        for number in range(LATENCY_BOUNDS)
    ),
)

# Bodies, only for keys that ask for it.
captures = Table(
    "captures",
    METADATA,
    Column("request_id", _Id, primary_key=True),
    Column("body", _Json, nullable=False),
    Column("created_at", _Moment, nullable=False, index=True),
)

audit = Table(
    "audit",
    METADATA,
    Column("id", _Serial, primary_key=True, autoincrement=True),
    Column("actor", _Name, nullable=False),
    Column("action", String(64), nullable=False),  # key.create, provider.update, …
    Column("subject", String(320), nullable=False),
    Column("detail", _Json),  # what changed, never a secret
    Column("created_at", _Moment, nullable=False, index=True),
)

# --- media ---------------------------------------------------------------------------------------

# What callers have stored; the bytes lie in the object store under the same id.
media = Table(
    "media",
    METADATA,
    Column("id", String(26), primary_key=True),
    Column("owner", _Name, nullable=False),  # user:…, key:… or nobody
    Column("key_id", _Name),  # with which it was stored
    Column("state", String(16), nullable=False),  # pending, ready, leaving
    Column("size", BigInteger, nullable=False),  # of a pending one: what is reserved for it
    Column("mime", _Name, nullable=False),
    Column("name", _Name),
    Column("sha256", String(64)),
    Column("created_at", _Moment, nullable=False),
    # When the sweep takes it: a pending one unless its upload shows a sign of life, a leaving one until it is gone.
    Column("expires_at", _Moment, index=True),
    Index("media_owner", "owner", "id"),
)

# What an owner's rows of `media` take together: changed in the same transactions, so that a quota needs no sum.
media_usage = Table(
    "media_usage",
    METADATA,
    Column("owner", _Name, primary_key=True),
    Column("files", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
)

# --- agent runs ----------------------------------------------------------------------------------

# What there is of runs, to be found and listed; what happened in one is told by its transcript alone.
agent_runs = Table(
    "agent_runs",
    METADATA,
    # Begins with its moment: sorted by it is sorted by age.
    Column("run_id", _Id, primary_key=True),
    Column("owner", _Name, nullable=False),  # user:…, key:… or nobody
    Column("model", _Name, nullable=False),
    Column("profile", String(64), nullable=False),
    Column("page", String(16)),
    Column("policy", String(16), nullable=False),
    Column("state", String(16), nullable=False),  # QUEUED until PRECHECK
    Column("outcome", String(32)),
    Column("failure_code", String(64)),
    Column("head", String(64), nullable=False),
    Column("contract_hash", String(64), nullable=False),
    Column("parent", _Id),
    Column("inferences", Integer, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("tool_calls", Integer, nullable=False),
    Column("format_retries", Integer, nullable=False),
    Column("elapsed_ms", BigInteger, nullable=False),
    Column("created_at", _Moment, nullable=False),
    Column("ended_at", _Moment, index=True),
    Index("agent_runs_owner", "owner", "run_id"),
    Index("agent_runs_outcome", "outcome", "run_id"),
)
