"""`monoize serve` is read in a short way where its options are plain; the framework would read the same."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monoize.cli import app
from monoize.cli._short_way import plain_options

OPTIONS = ("--config", "--host", "--port", "--workers")
VALUES = (
    *("a.yaml", "./b c.yaml", "/etc/ö.yaml", "~/x", "127.0.0.1", "::1", "localhost", "=", "a=b"),
    *("0", "1", "8080", "65535", "65536", "00", "01", "+1", "-1", "1.0", "1e3", "0x10", "1_0"),
    *(
        "",
        " ",
        "-",
        "--",
        "-v",
        "--help",
        "--host",
        "--port=1",
        "\u0661",
        "none",
        "9999999999",
        "8 ",
    ),
)

value = st.sampled_from(VALUES) | st.text(max_size=5)
word = st.sampled_from(OPTIONS) | value
plain_words = st.lists(st.tuples(st.sampled_from(OPTIONS), value), max_size=4).map(
    lambda pairs: [word for pair in pairs for word in pair]
)


def framework_options(words):
    """What it would call `serve` with; None: it would end the program."""
    try:
        command, bound, _ = app.parse_args(
            ["serve", *words], exit_on_error=False, print_error=False
        )
    except Exception:
        return None
    return dict(bound.arguments) if command.__name__ == "serve" else None


@given(plain_words | st.lists(word, max_size=5))
def test_what_is_read_the_short_way_is_what_the_framework_reads(words):
    found = plain_options(words)
    if found is not None:
        assert found == framework_options(words)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "--config a.yaml",
        "--config a.yaml --host 127.0.0.1 --port 0 --workers 4",
        "--port 65535 --config /etc/monoize/monoize.yaml",
    ],
)
def test_plain_options_are_read_the_short_way(words):
    found = plain_options(words.split())
    assert found is not None
    assert found == framework_options(words.split())


@pytest.mark.parametrize(
    "words",
    [
        *("--help", "-h", "extra", "--config", "--config=a.yaml", "--confg a.yaml", "-- a"),
        *("--port x", "--port 65536", "--port -1", "--workers 0", "--config -x", "--port 08"),
        "--port 1 --port 2",
        "--config a.yaml --verbose",
    ],
)
def test_all_else_is_left_to_the_framework(words):
    assert plain_options(words.split()) is None


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--version"], 0, "0.1.0"),
        (["serve", "--port", "x"], 2, "--port"),
        (["serve", "--config", "missing.yaml"], 1, "missing.yaml"),
        (["serve", "--help"], 0, "--workers"),
    ],
)
def test_the_program_ends_as_it_always_did(words, code, said, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "monoize", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == code
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
