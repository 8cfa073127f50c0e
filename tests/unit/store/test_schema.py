"""A new database, an old one, a newer one, and several processes that start at once."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, inspect, select, text

from monoize.errors import ConfigError
from monoize.store import schema
from monoize.store.database import Database
from monoize.store.tables import METADATA, reservations, users

NEXT = f"{int(schema.HEAD) + 1:04}"
ADDED = f'''"""One column more."""

import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{schema.HEAD}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("users") as users:
        users.add_column(sa.Column("shoe_size", sa.Integer(), nullable=True))
'''


def description(connection: Connection) -> dict[str, Any]:
    """Everything that reflection can tell about our tables."""
    found = inspect(connection)
    return {
        name: {
            "columns": [
                (c["name"], str(c["type"]), c["nullable"], c["default"]) for c in found.get_columns(name)
            ],
            "key": found.get_pk_constraint(name),
            "unique": sorted(map(str, found.get_unique_constraints(name))),
            "indexes": sorted(map(_said, found.get_indexes(name))),
        }
        for name in found.get_table_names()
    }  # fmt: skip


def _said(index: Any) -> str:
    """The condition of a partial index is an object, which says only where it lies in memory."""
    options = {name: str(value) for name, value in index["dialect_options"].items()}
    return str({**index, "dialect_options": options})


async def migrated(database: Database) -> tuple[dict[str, Any], list[Any]]:
    """All tables dropped and made again by the migrations."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    def work(connection: Connection) -> tuple[dict[str, Any], list[Any]]:
        METADATA.drop_all(connection)
        connection.execute(text("DROP TABLE alembic_version"))
        schema._migrate(connection)
        differences = compare_metadata(MigrationContext.configure(connection), METADATA)
        return description(connection), differences

    return await database.write(work)


async def test_a_fresh_database_is_what_the_migrations_make(empty_database_url, tmp_path):
    database = await Database.open(empty_database_url, tmp_path)
    fresh = await database.read(description)
    made, differences = await migrated(database)
    await database.aclose()
    assert made == fresh
    assert differences == []


async def test_the_first_revision_is_the_oldest_and_the_newest_is_the_head(database):
    version = await database.read(
        lambda c: c.scalar(text("SELECT version_num FROM alembic_version"))
    )
    assert version == schema.HEAD == schema.REVISIONS[-1]
    assert schema.REVISIONS[0] == "0001"


HELD = {
    "request_id": "r",
    "instance": "i",
    "key_id": "k",
    "user_id": None,
    "amount": 7,
    "opened_at": 1,
}


async def test_a_reservation_outlasts_the_making_of_its_table(empty_database_url, tmp_path):
    from alembic import command
    from alembic.config import Config

    def as_it_was(connection: Connection) -> None:
        METADATA.drop_all(connection)
        connection.execute(text("DROP TABLE alembic_version"))
        config = Config()
        config.set_main_option("script_location", str(schema.FOLDER))
        config.attributes["connection"] = connection
        command.upgrade(config, "0005")
        connection.execute(reservations.insert().values(HELD))

    old = await Database.open(empty_database_url, tmp_path)
    fresh = await old.read(description)
    await old.write(as_it_was)
    await old.aclose()
    database = await Database.open(empty_database_url, tmp_path)
    assert await database.read(description) == fresh
    (row,) = await database.read(lambda c: c.execute(select(reservations)).all())
    await database.aclose()
    assert row._asdict() == HELD


@pytest.fixture
def next_program(monkeypatch, tmp_path) -> None:
    """The program of tomorrow, with one migration more."""
    folder = tmp_path / "migrations"
    shutil.copytree(schema.FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / f"{NEXT}_shoes.py").write_text(ADDED)
    monkeypatch.setattr(schema, "FOLDER", folder)
    monkeypatch.setattr(schema, "REVISIONS", (*schema.REVISIONS, NEXT))
    monkeypatch.setattr(schema, "HEAD", NEXT)


USER = {
    "id": "u",
    "username": "ada",
    "role": "user",
    "enabled": True,
    "reserved": 0,
    "created_at": 1,
    "updated_at": 1,
}


async def test_an_old_database_is_migrated_once_by_whoever_comes_first(
    empty_database_url, tmp_path, request
):
    old = await Database.open(empty_database_url, tmp_path)
    await old.write(lambda c: c.execute(users.insert().values(USER)))
    await old.aclose()
    request.getfixturevalue("next_program")
    opened = await asyncio.gather(*(Database.open(empty_database_url, tmp_path) for _ in range(4)))
    row = await opened[0].read(
        lambda c: c.execute(text("SELECT username, shoe_size FROM users")).one()
    )
    assert tuple(row) == ("ada", None)
    for database in opened:
        assert await database.read(lambda c: c.scalar(select(users.c.username))) == "ada"
        await database.aclose()


async def test_a_migration_that_fails_leaves_the_old_schema(
    empty_database_url, tmp_path, next_program
):
    file = schema.FOLDER / "versions" / f"{NEXT}_shoes.py"
    file.write_text(ADDED + "    raise RuntimeError('half way')\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "HEAD", schema.REVISIONS[-2])
        patch.setattr(schema, "REVISIONS", schema.REVISIONS[:-1])
        await (await Database.open(empty_database_url, tmp_path)).aclose()
    with pytest.raises(RuntimeError, match="half way"):
        await Database.open(empty_database_url, tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "HEAD", schema.REVISIONS[-2])
        patch.setattr(schema, "REVISIONS", schema.REVISIONS[:-1])
        database = await Database.open(empty_database_url, tmp_path)
        found = await database.read(description)
        await database.aclose()
    assert "shoe_size" not in str(found)


async def test_a_newer_database_is_refused_in_one_sentence(empty_database_url, tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "HEAD", "0099")
        await (await Database.open(empty_database_url, tmp_path)).aclose()
    with pytest.raises(ConfigError, match="'0099' is newer than this program") as caught:
        await Database.open(empty_database_url, tmp_path)
    assert "\n" not in caught.value.message


async def test_the_tables_of_another_program_are_left_alone(empty_database_url, tmp_path):
    database = await Database.open(empty_database_url, tmp_path)

    def strange(connection):
        METADATA.drop_all(connection)
        connection.execute(text("DROP TABLE alembic_version"))
        connection.execute(text("CREATE TABLE users (name TEXT)"))

    await database.write(strange)
    await database.aclose()
    with pytest.raises(ConfigError, match="'users' that Monoize did not make"):
        await Database.open(empty_database_url, tmp_path)


SCRIPT = """
import asyncio, pathlib, sys
from monoize.store.database import Database
async def main():
    database = await Database.open(sys.argv[1], pathlib.Path(sys.argv[2]))
    await database.aclose()
    print("alembic" in sys.modules)
asyncio.run(main())
"""


def test_several_processes_may_start_at_once_and_need_no_alembic(empty_database_url, tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, empty_database_url, str(tmp_path)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    assert [process.communicate(timeout=60) for process in processes] == [("False\n", "")] * 3


def test_the_migrations_are_part_of_the_package():
    assert (schema.FOLDER / "env.py").is_file()
    assert Path(schema.__file__).parent in schema.FOLDER.parents
