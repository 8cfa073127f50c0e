"""Tests of the management API run on both databases; some of them on SQLite only, but in the soak."""

from fakes.databases import database_url
from fakes.management import api, keyless, rule, storeless

__all__ = ["api", "database_url", "keyless", "rule", "storeless"]
