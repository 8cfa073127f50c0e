"""Every test of the store runs on both databases."""

from fakes.databases import (
    database,
    database_url,
    empty_database_url,
    own_postgresql,
    postgresql,
)

__all__ = ["database", "database_url", "empty_database_url", "own_postgresql", "postgresql"]
