"""The command line: one file per group of commands."""

from __future__ import annotations

from cyclopts import App

from monoize import __version__
from monoize.cli import config, serve, transforms, translate

__all__ = ["main"]

app = App(
    name="monoize",
    help="Every model protocol as one: a gateway between OpenAI, Anthropic, Google and xAI.",
    version=__version__,
)
app.command(serve.serve)
app.command(config.check)
app.command(config.app)
app.command(translate.translate)
app.command(transforms.app)


def main() -> None:
    app()


if __name__ == "__main__":
    main()
