"""The schema's version: a fresh database is made at once, an older one is migrated, a newer one refused."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from sqlalchemy import Column, Connection, MetaData, String, Table, insert, inspect, select

from monoize.errors import ConfigError
from monoize.store.tables import METADATA

__all__ = ["FOLDER", "HEAD", "REVISIONS", "is_current", "prepare"]

FOLDER = Path(__file__).parent / "migrations"
# `0001_first.py` holds revision 0001. Reading the names costs microseconds, importing Alembic a third of a second.
REVISIONS = tuple(sorted(file.name.partition("_")[0] for file in FOLDER.glob("versions/[0-9]*.py")))
HEAD = REVISIONS[-1]

# As Alembic makes it.
_version = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), primary_key=True, nullable=False),
)
_version.primary_key.name = "alembic_version_pkc"

State = Literal["fresh", "current", "old"]


def is_current(connection: Connection) -> bool:
    return _state(connection) == "current"


def prepare(connection: Connection) -> None:
    """Runs in the caller's transaction, which holds a lock against other processes that start now."""
    match _state(connection):
        case "current":
            pass
        case "fresh":
            METADATA.create_all(connection, checkfirst=False)  # `_state` has looked
            _version.create(connection, checkfirst=False)
            connection.execute(insert(_version).values(version_num=HEAD))
        case "old":
            _migrate(connection)


def _state(connection: Connection) -> State:
    tables = set(inspect(connection).get_table_names())
    if _version.name not in tables:
        clash = sorted(tables & METADATA.tables.keys())
        if clash:
            raise ConfigError(
                f"database: it holds a table {clash[0]!r} that Monoize did not make; give Monoize a database of its own"
            )
        return "fresh"
    found = connection.execute(select(_version.c.version_num)).scalar_one_or_none()
    if found == HEAD:
        return "current"
    if found in REVISIONS:
        return "old"
    raise ConfigError(
        f"database: its schema {found!r} is newer than this program ({HEAD!r}); "
        "start the newer program, or restore a backup from before the upgrade"
    )


def _migrate(connection: Connection) -> None:
    from alembic import command  # noqa: PLC0415 - slow to import and rarely needed
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
