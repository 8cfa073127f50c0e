"""How hard to think: words, their rank, and the token budgets that mean the same (D8, T33)."""

from __future__ import annotations

__all__ = ["EFFORTS", "budget_for", "effort_for"]

# Rank order. Budgets are the upper edge of each word, so that word -> budget -> word is the identity.
EFFORTS: dict[str, int] = {
    "none": 0,
    "minimum": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16384,
    "xhigh": 32768,
    "max": 65536,
}


def budget_for(effort: str) -> int | None:
    """The token budget of an effort; None for a word that only some provider knows."""
    return EFFORTS.get(effort)


def effort_for(budget: int) -> str:
    return next((word for word, edge in EFFORTS.items() if budget <= edge), "max")
