"""Every test of the management API runs on both databases."""

from fakes.databases import database_url
from fakes.management import api, keyless, rule, storeless

__all__ = ["api", "database_url", "keyless", "rule", "storeless"]
