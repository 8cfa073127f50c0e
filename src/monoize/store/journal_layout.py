"""The columns of the ledger's tables."""

from __future__ import annotations

from typing import Final

from monoize.store.fit import Layout
from monoize.store.tables import ledger, request_logs

__all__ = [
    "CHARGE",
    "CHARGES",
    "CLOSED",
    "FIRST",
    "MONEY",
    "OPENED",
    "PENDING",
    "RESERVATION",
    "SECOND",
    "WHOLE",
    "WHOSE",
]

PENDING: Final = "pending"

# A row of the log has two halves. The first is known when a request opens; the second comes with its charge. Whose it is
# and what it cost is always what the ledger says, whatever the words around it do.
WHOSE = ("request_id", "key_id", "user_id")
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
MONEY = ("charge", "estimated", "unpriced")
_NOT_SECOND = {"id", *WHOSE, *_FIRST, *MONEY, "status"}
_SECOND = tuple(column.name for column in request_logs.columns if column.name not in _NOT_SECOND)

# The words of each half, and the whole row: whose it is, the first words, the money, the second words.
FIRST = Layout(request_logs, _FIRST, ignored=WHOSE)
SECOND = Layout(request_logs, ("status", *_SECOND), ignored=MONEY)
OPENED = (*WHOSE, *FIRST.names)
CLOSED = (*MONEY, *SECOND.names)
WHOLE = Layout(request_logs, OPENED + CLOSED)

# A charge of nobody's: most have no user, and so no balance. The others have more columns.
CHARGE = ("request_id", "key_id", "amount", "estimated", "unpriced", "created_at", "detail")
CHARGES = Layout(ledger, (*CHARGE, "user_id", "balance_after"))
RESERVATION = ("request_id", "key_id", "user_id", "amount", "opened_at")
