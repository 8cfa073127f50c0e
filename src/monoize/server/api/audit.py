"""Who changed what, and when."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from monoize.server.api.endpoint import Context, Given, endpoint
from monoize.server.api.shapes import Body, Limit
from monoize.store import audit

__all__ = ["ENDPOINTS"]


class AuditQuery(Body, frozen=True, kw_only=True):
    before: int | None = None  # `next` of the page before
    limit: Limit = 50
    actor: str | None = None
    action: str | None = None  # such as key.create
    subject: str | None = None  # the id of what was changed


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    data: Sequence[audit.Entry]
    next: int | None  # goes into `before` of the next page; null: there are no more


@endpoint("GET", "/api/audit", role="admin", query=AuditQuery, answer=AuditPage)
async def list_audit(context: Context, given: Given[AuditQuery, None]) -> AuditPage:
    """Changes of users, keys, providers, prices and settings, the newest first; never a secret."""
    found = await context.read(partial(audit.page, **msgspec.structs.asdict(given.query)))
    more = found[-1].id if len(found) == given.query.limit else None
    return AuditPage(data=found, next=more)


ENDPOINTS = (list_audit,)
