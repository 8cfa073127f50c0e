"""The log on standard error: lines for people or JSON for machines, with request ids and without secrets."""

from __future__ import annotations

import json
import logging
import sys
import threading
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Literal, TextIO, TypeAlias

from typing_extensions import override

from monoize.telemetry.scrub import ScrubbingFilter

__all__ = ["JsonLines", "LogFormat", "TextLines", "configure", "request_id"]

LogFormat: TypeAlias = Literal["text", "json"]

# The server sets it; whatever is logged while a request is worked on then names the request.
request_id: ContextVar[str | None] = ContextVar("request_id", default=None)

_uncaught = logging.getLogger("monoize")
# A caller's or a provider's words must not start a line of their own, nor steer a terminal.
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {
    0x0A: "\\n",
    0x0D: "\\r",
    0x09: "\\t",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def configure(log_format: LogFormat = "text", level: int | str = logging.INFO) -> None:
    """Send all logging of this process, and what nobody caught, to standard error. A second call replaces the first."""
    root = logging.getLogger()
    for handler in [found for found in root.handlers if isinstance(found, _StandardError)]:
        root.removeHandler(handler)
    handler = _StandardError(sys.stderr)
    handler.addFilter(ScrubbingFilter())
    handler.setFormatter(JsonLines() if log_format == "json" else TextLines())
    root.addHandler(handler)
    root.setLevel(level.upper() if isinstance(level, str) else level)
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_uncaught_in_thread


class _StandardError(logging.StreamHandler[TextIO]):
    @override
    def handleError(self, record: logging.LogRecord) -> None:
        """The library's own way prints the record's arguments as they are."""
        del record
        with suppress(OSError, ValueError):  # perhaps nobody reads standard error any more
            self.stream.write("monoize: a log record could not be written\n")


class TextLines(logging.Formatter):
    @override
    def format(self, record: logging.LogRecord) -> str:
        request = _request(record)
        where = f"{record.name} {request}" if request else record.name
        message = record.getMessage().rstrip().translate(_CONTROL)
        line = f"{_moment(record)} {record.levelname} {where}: {message}"
        # Indented: only the log itself begins a line.
        rest = "\n".join(filter(None, (_exception(self, record), record.stack_info)))
        return line + "".join(f"\n  {part.translate(_CONTROL)}" for part in rest.splitlines())


class JsonLines(logging.Formatter):
    @override
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage().rstrip(),
            "request_id": _request(record),
            "exception": _exception(self, record),
            "stack": record.stack_info,
        }
        return json.dumps({name: value for name, value in entry.items() if value is not None})


def _moment(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")


def _request(record: logging.LogRecord) -> str | None:
    """A record may name its request itself: `extra={"request_id": ...}`."""
    named: str | None = getattr(record, "request_id", None)
    return named or request_id.get()


def _exception(formatter: logging.Formatter, record: logging.LogRecord) -> str | None:
    if record.exc_text:
        return record.exc_text
    return formatter.formatException(record.exc_info) if record.exc_info else None


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    _uncaught.critical("stopped by an error that nobody caught", exc_info=(kind, error, trace))


def _log_uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_type is SystemExit:
        return
    error = args.exc_value or args.exc_type()
    thread = args.thread.name if args.thread else "?"
    _uncaught.error(
        "thread %s ended with an error that nobody caught",
        thread,
        exc_info=(args.exc_type, error, args.exc_traceback),
    )
