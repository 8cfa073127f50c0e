"""Every endpoint of the management API, in the order of its documentation."""

from __future__ import annotations

from monoize.server.api import (
    audit,
    channels,
    documents,
    keys,
    logs,
    me,
    overview,
    prices,
    providers,
    session,
    settings,
    transforms,
    usage,
    users,
)
from monoize.server.api.endpoint import Endpoint

__all__ = ["ENDPOINTS"]

_ROWS: tuple[Endpoint, ...] = (
    *session.ENDPOINTS,
    *me.ENDPOINTS,
    *overview.ENDPOINTS,
    *users.ENDPOINTS,
    *keys.ENDPOINTS,
    *providers.ENDPOINTS,
    *channels.ENDPOINTS,
    *transforms.ENDPOINTS,
    *prices.ENDPOINTS,
    *settings.ENDPOINTS,
    *logs.ENDPOINTS,
    *usage.ENDPOINTS,
    *audit.ENDPOINTS,
)
ENDPOINTS: tuple[Endpoint, ...] = (*_ROWS, *documents.endpoints(_ROWS))
