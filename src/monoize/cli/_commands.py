"""The table of commands: one file per group of them."""

from __future__ import annotations

from cyclopts import App

from monoize import __version__

__all__ = ["app"]

app = App(
    name="monoize",
    help="Every model protocol as one: a gateway between OpenAI, Anthropic, Google and xAI.",
    version=__version__,
)
# By name: a command's module, and all that it needs, is imported when that command is given.
for _name, _place, _help in (
    (
        "serve",
        "serve:serve",
        "Run the gateway until SIGTERM or Ctrl-C; streams that still run are drained.",
    ),
    ("check", "config:check", "Validate a config without starting anything."),
    ("config", "config:app", "The config file: its JSON Schema."),
    (
        "translate",
        "translate:translate",
        "Show the exact body that a provider would get. Nothing is sent.",
    ),
    ("transforms", "transforms:app", "The transforms that rules may use, and a dry run of rules."),
    ("users", "users:app", "Users: who owns keys, their roles and prepaid balances."),
    ("keys", "keys:app", "API keys: made, limited, rotated and revoked. The secret is shown once."),
    ("providers", "providers:app", "Providers: list them, show them, see whether they answer."),
    (
        "prices",
        "prices:app",
        "Prices in USD per million tokens: the config file's, then the database's, then the public list.",
    ),
    ("logs", "logs:show_logs", "Show the request log, the newest first."),
    (
        "usage",
        "usage:show_usage",
        "Add up calls, tokens and charges; of the last 30 days, unless --since says otherwise.",
    ),
    (
        "reframe",
        "reframe:reframe_file",
        "Show every mistake of a request, or what it becomes. Exit codes: 0 good, 1 refused, 2 no such file or option.",
    ),
    (
        "agent",
        "agent:app",
        "Agent runs under a contract: run a task, see what happened, prove it, replay it.",
    ),
    (
        "media",
        "media:app",
        "Media of a running gateway: put files there, get them back, list and remove them.",
    ),
    (
        "engines",
        "engines:app",
        "The models that run on this machine: what they can do, how to get them.",
    ),
    (
        "artifacts",
        "artifacts:write_artifacts",
        "Write the schemas, the OpenAPI document and a typed Python client into a folder.",
    ),
    ("import", "importer:app", "The config of another gateway as one of ours."),
):
    app.command(f"monoize.cli.{_place}", name=_name, help=_help)
