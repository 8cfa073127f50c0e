"""The log on standard error, for people and for machines."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from monoize.telemetry import logs
from monoize.telemetry.logs import JsonLines, TextLines, configure, request_id

SOURCE = Path(__file__).parents[3] / "src"


@pytest.fixture
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    kept = (root.handlers[:], root.level, sys.excepthook, logs.threading.excepthook)
    yield
    root.handlers[:], level, sys.excepthook, logs.threading.excepthook = kept
    root.setLevel(level)
    logging.captureWarnings(capture=False)


@pytest.fixture
def lines(_restored: None, capfd: pytest.CaptureFixture[str]) -> Callable[[], list[dict[str, Any]]]:
    # The captured stream of `capsys` is not sys.stderr of a handler made before; file descriptors always are.
    return lambda: [json.loads(line) for line in capfd.readouterr().err.splitlines()]


def _record(message: str = "hello", **more: Any) -> logging.LogRecord:
    record = logging.LogRecord("monoize.test", logging.WARNING, __file__, 1, message, (), None)
    record.created = 1_700_000_000.1234
    vars(record).update(more)
    return record


def test_a_json_line_has_time_level_logger_and_message() -> None:
    assert json.loads(JsonLines().format(_record())) == {
        "time": "2023-11-14T22:13:20.123Z",
        "level": "warning",
        "logger": "monoize.test",
        "message": "hello",
    }


def test_a_text_line_reads_like_a_log() -> None:
    assert TextLines().format(_record()) == ("2023-11-14T22:13:20.123Z WARNING monoize.test: hello")


@pytest.mark.parametrize("formatter", [JsonLines(), TextLines()])
def test_the_request_at_work_is_named(formatter: logging.Formatter) -> None:
    token = request_id.set("req_1")
    try:
        assert "req_1" in formatter.format(_record())
        assert "req_2" in formatter.format(_record(request_id="req_2"))
    finally:
        request_id.reset(token)
    assert "req" not in formatter.format(_record())


def _failed() -> logging.LogRecord:
    try:
        int("two\nlines")
    except ValueError as error:
        error.add_note("two\nlines")
        return _record(exc_info=(type(error), error, error.__traceback__))
    raise AssertionError


def test_an_exception_is_one_field() -> None:
    line = JsonLines().format(_failed())
    assert "\n" not in line
    assert json.loads(line)["exception"].endswith("\ntwo\nlines")


def test_only_the_log_itself_begins_a_line() -> None:
    """Otherwise a caller could write entries of its own (log injection)."""
    record = _failed()
    record.msg = "model 'x\n2023-11-14 ERROR forged: entry\r\x1b[2J\u2028\x85'"
    first, *rest = TextLines().format(record).split("\n")
    assert first.endswith(r"model 'x\n2023-11-14 ERROR forged: entry\r\x1b[2J\u2028\x85'")
    assert rest
    assert all(line.startswith("  ") for line in rest)


def test_half_an_emoji_does_not_break_the_line() -> None:
    assert json.loads(JsonLines().format(_record("cut \ud83d")))["message"] == "cut \ud83d"


def test_json_lines_of_every_logger_leave_without_secrets(
    lines: Callable[[], list[dict[str, Any]]],
) -> None:
    configure("json", "info")
    configure("json", "info")  # not twice
    logging.getLogger("somebody.else").info("Authorization: Bearer %s", "c4n4ry-value")
    logging.getLogger("monoize").debug("too fine")
    (line,) = lines()
    assert line["message"] == "Authorization: Bearer ***"


@pytest.mark.usefixtures("_restored")
def test_a_record_that_cannot_be_written_is_not_printed_raw(
    capfd: pytest.CaptureFixture[str],
) -> None:
    configure("text")
    (handler,) = (h for h in logging.getLogger().handlers if isinstance(h, logs._StandardError))
    handler.setFormatter(_Broken())
    logging.getLogger("monoize").warning("x-api-key: %s", "c4n4ry-value")
    assert capfd.readouterr().err == "monoize: a log record could not be written\n"


class _Broken(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        raise RuntimeError(record.getMessage())


PROGRAM = """
import asyncio, logging, threading, warnings
from monoize.telemetry import logs, scrub

scrub.register("c4n4ry known")
logs.configure({format!r}, "INFO")
warnings.warn("x-api-key: c4n4ry-value")

def fails():
    raise RuntimeError("Bearer c4n4ry-value")

async def main():
    task = asyncio.ensure_future(asyncio.to_thread(fails))
    await asyncio.wait([task])
    del task

thread = threading.Thread(target=fails)
thread.start()
thread.join()
asyncio.run(main())
import gc; gc.collect()
raise KeyError("c4n4ry known")
"""


@pytest.mark.parametrize("format", ["text", "json"])
def test_warnings_and_uncaught_errors_leave_without_secrets(format: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM).format(format=format)],
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "c4n4ry" not in done.stderr + done.stdout
    entries = [line for line in done.stderr.splitlines() if not line.startswith(" ")]
    assert len(entries) == 4
    if format == "json":
        assert all("***" in entry for entry in entries)
        levels = [json.loads(entry)["level"] for entry in entries]
        assert levels == ["warning", "error", "error", "critical"]
