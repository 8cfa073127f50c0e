"""The columns of the ledger's tables in the order in which its rows are tuples."""

from __future__ import annotations

from typing import Final

from monoize.store.fit import Layout
from monoize.store.tables import request_logs

__all__ = ["CHARGE", "CLOSED", "FIRST", "OPENED", "PENDING", "RESERVATION", "SECOND", "WHOLE"]

PENDING: Final = "pending"

# A row of the log has two halves. The first is known when a request opens; the second comes with its charge. Whose it is
# and what it cost is always what the ledger says, whatever the words around it do.
_WHOSE = ("request_id", "key_id", "user_id")
_FIRST = (
    "created_at",
    "key_name",
    "username",
    "address",
    "protocol",
    "operation",
    "is_stream",
    "requested_model",
    "effort",
)
_MONEY = ("charge", "estimated", "unpriced")
_NOT_SECOND = {"id", *_WHOSE, *_FIRST, *_MONEY, "status"}
_SECOND = tuple(column.name for column in request_logs.columns if column.name not in _NOT_SECOND)

# The words of each half, and the whole row: whose it is, the first words, the money, the second words.
FIRST = Layout(request_logs, _FIRST, ignored=_WHOSE)
SECOND = Layout(request_logs, ("status", *_SECOND), ignored=_MONEY)
OPENED = (*_WHOSE, *FIRST.names)
CLOSED = (*_MONEY, *SECOND.names)
WHOLE = Layout(request_logs, OPENED + CLOSED)

CHARGE = (
    "request_id",
    "kind",
    "user_id",
    "key_id",
    "amount",
    "balance_after",
    "estimated",
    "unpriced",
    "detail",
    "created_at",
)
RESERVATION = ("request_id", "key_id", "user_id", "amount", "opened_at")
