"""Everything about media runs on both databases."""

from pathlib import Path

import pytest

from fakes.databases import database, database_url
from fakes.shelves import ShelfBench
from monoize.store.database import Database

__all__ = ["database", "database_url"]


@pytest.fixture
async def bench(database: Database, tmp_path: Path) -> ShelfBench:
    return await ShelfBench.open(database, tmp_path)
