"""Secrets of agents' tools stay out of the log like those of providers."""

from __future__ import annotations

from monoize.settings import parse
from monoize.telemetry.scrub import secrets_of

CONFIG = """
settings:
  agent:
    tools:
      wiki:
        mcp:
          - {name: wiki, url: "https://wiki", headers: {authorization: "Bearer abcdefgh12345678"}}
      tickets:
        commands:
          - {name: t, argv: [t], env: {TICKETS_TOKEN: "tok-12345678", LANG: "de_DE.UTF-8"}}
"""


def test_headers_and_variables_that_are_called_secret_are_known():
    found = set(secrets_of(parse(CONFIG, {})))
    assert {"abcdefgh12345678", "tok-12345678"} <= found
    assert "de_DE.UTF-8" not in found
