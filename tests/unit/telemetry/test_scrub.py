"""What looks like a secret, and what is known to be one, leaves no log line."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monoize.settings import parse
from monoize.telemetry import scrub
from monoize.telemetry.scrub import MASK, ScrubbingFilter, scrubbed, secrets_of

SECRET = 'c4n4ry/+=" with a blank, a quote and ünïcode'


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(scrub, "_known", ())
    return


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("Authorization: Bearer c4n4ry-value", "Authorization: Bearer ***"),
        ("authorization: bearer c4n4ry-value", "authorization: bearer ***"),
        ("Authorization: Basic YzRuNHJ5OmM0bjRyeQ==", "Authorization: Basic ***"),
        ("Authorization: Token c4n4ry-value", "Authorization: Token ***"),
        ("Authorization: c4n4ry-value", "Authorization: ***"),
        ("Proxy-Authorization=c4n4ry-value", "Proxy-Authorization=***"),
        ("x-api-key: c4n4ry-value", "x-api-key: ***"),
        ("{'x-goog-api-key': 'c4n4ry-value'}", "{'x-goog-api-key': '***'}"),
        ("[(b'x-api-key', b'c4n4ry-value')]", "[(b'x-api-key', b'***')]"),
        ('{"api_key":"c4n4ry-value"}', '{"api_key":"***"}'),
        (r"{\"api_key\":\"c4n4ry-value\"}", r"{\"api_key\":\"***\"}"),
        ("OPENAI_API_KEY=c4n4ry-value", "OPENAI_API_KEY=***"),
        ("cookie: session=c4n4ry-value", "cookie: ***"),
        ("GET /v1beta/models?key=c4n4ry&alt=sse", "GET /v1beta/models?key=***&alt=sse"),
        ("postgresql://app:c4n4ry@db/monoize", "postgresql://app:***@db/monoize"),
        ("redis://:c4n4ry@cache:6379", "redis://:***@cache:6379"),
        ("the key sk-mz-Ab12-c4n4ry, it said", "the key sk-***, it said"),
        ("sk-ant-api03-c4n4ry", "sk-***"),
        ("key=AIzaSyC4n4ry-value", "key=AIza***"),
        ("xai-c4n4ry-value gsk_c4n4ryvalue", "xai-*** gsk_***"),
        ("AKIAC4N4RYVALUE", "AKIA***"),
        ("eyJhbGciOi.eyJzdWIiOi.c4n4ry", "eyJ***"),
    ],
)
def test_what_looks_like_a_secret_is_blanked_out(line: str, left: str) -> None:
    assert scrubbed(line) == left


@pytest.mark.parametrize(
    "line",
    [
        "no API key: send Authorization: Bearer, x-api-key or x-goog-api-key",
        "a risk-assessment of the task-force in asia-northeast1-aiplatform",
        "the host 'example.com' is not served here; list it under server.hosts",
        "https://api.openai.com/v1/chat/completions?alt=sse",
        "request req_0123: 502 upstream_failed: the provider says: overloaded",
        "the monkey: bananas",
    ],
)
def test_ordinary_words_stay(line: str) -> None:
    assert scrubbed(line) == line


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        "c4n4ry%2F%2B%3D%22%20with%20a%20blank%2C%20a%20quote%20and%20%C3%BCn%C3%AFcode",
        "c4n4ry%2F%2B%3D%22+with+a+blank%2C+a+quote+and+%C3%BCn%C3%AFcode",
        'c4n4ry/+=\\" with a blank, a quote and ünïcode',
        'c4n4ry/+=\\" with a blank, a quote and \\u00fcn\\u00efcode',
    ],
)
def test_a_known_secret_is_blanked_out_however_it_is_written(written: str) -> None:
    scrub.register(SECRET)
    assert scrubbed(f"before {written} after") == f"before {MASK} after"


def test_a_secret_that_begins_like_another_leaves_no_rest() -> None:
    scrub.register("c4n4ry-one", "c4n4ry-one-and-more")
    assert scrubbed("[c4n4ry-one-and-more] [c4n4ry-one]") == "[***] [***]"


def test_short_and_missing_secrets_do_not_blank_out_words() -> None:
    scrub.register(None, "", "none", "ollama")
    assert scrubbed("none of ollama's models") == "none of ollama's models"


def test_a_secret_can_be_forgotten() -> None:
    scrub.register("c4n4ry-one", "c4n4ry-two")
    scrub.forget("c4n4ry-one", None)
    assert scrubbed("c4n4ry-one c4n4ry-two") == "c4n4ry-one ***"


def test_every_secret_of_a_config_is_found() -> None:
    settings = parse(
        """
        database: postgresql://app:c4n4ry-database@db/monoize
        redis: redis://:c4n4ry-redis@cache:6379
        keys: [{name: one, key: c4n4ry-caller}]
        providers:
          - id: a
            type: chat_completion
            models: {"*": {}}
            channels:
              - id: b
                base_url: https://example.com/v1
                api_key: ${CHANNEL_KEY}
                proxy: http://user:c4n4ry-proxy@proxy:3128
                headers: {x-subscription-key: c4n4ry-header, authorization: Custom c4n4ry-token, x-title: Monoize}
              - {id: c, base_url: "https://example.com/v1"}
        """,
        {"CHANNEL_KEY": "c4n4ry-channel"},
    )
    names = "caller channel header token proxy database redis".split()
    assert {f"c4n4ry-{name}" for name in names} <= set(secrets_of(settings))
    assert "Monoize" not in set(secrets_of(settings))


@pytest.mark.parametrize(
    "line",
    [
        "Authorization: " * 50_000,
        "api_key" + " " * 500_000 + ": x",
        "://" + "a:" * 250_000,
        "?key=" * 100_000,
        "sk-" * 200_000,
        "bearer " * 100_000,
    ],
)
def test_no_line_makes_it_slow(line: str) -> None:
    started = time.process_time()
    scrubbed(line)
    assert time.process_time() - started < 5  # a quadratic pattern would take minutes


@given(st.text())
def test_any_text_can_be_scrubbed(text: str) -> None:
    assert scrubbed(f"x-api-key: {SECRET[:6]}-value\n{text}").startswith("x-api-key: ***")


class _Hostile:
    def __str__(self) -> str:
        raise RuntimeError("c4n4ry-in-an-error")


def _record(message: object, *args: object) -> logging.LogRecord:
    return logging.LogRecord("test", logging.INFO, __file__, 1, message, args, None)


def test_a_record_is_scrubbed_with_its_arguments_exception_and_stack() -> None:
    record = _record("x-api-key: %s", "c4n4ry-value")
    error = ValueError("Bearer c4n4ry-value")
    record.exc_info = (type(error), error, error.__traceback__)
    record.stack_info = "password=c4n4ry-value"
    assert ScrubbingFilter().filter(record)
    shown = logging.Formatter().format(record)
    assert "c4n4ry" not in shown
    assert "ValueError: Bearer ***" in shown


def test_an_exception_that_another_handler_wrote_out_is_scrubbed_too() -> None:
    record = _record("failed")
    record.exc_text = "Bearer c4n4ry-value"
    ScrubbingFilter().filter(record)
    assert record.exc_text == "Bearer ***"


@pytest.mark.parametrize(
    "record",
    [
        _record("%d of %s", "c4n4ry-value"),
        _record("%s", _Hostile()),
        _record(_Hostile()),
        _record("%z", 1),
    ],
)
def test_the_filter_never_raises(record: logging.LogRecord) -> None:
    assert ScrubbingFilter().filter(record)
    assert "c4n4ry" not in logging.Formatter().format(record)
