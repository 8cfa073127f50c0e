"""Agent runs under an immutable contract: typed states, one typed outcome, a transcript that proves it (spec 5)."""
