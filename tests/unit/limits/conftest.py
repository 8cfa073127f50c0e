"""A real Valkey for whoever asks."""

from fakes.valkey import session_valkey, valkey  # noqa: F401 - fixtures
