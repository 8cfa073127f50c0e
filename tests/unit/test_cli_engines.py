"""`monoize engines`, as an operator runs it; pip and the engines behind `fetch` and `try` are small stand-ins."""

from __future__ import annotations

import importlib.metadata
import io
import json
import sys
from types import MappingProxyType

import pytest
from rich.console import Console

from monoize.cli import _pip
from monoize.cli import engines as cli
from monoize.engine import (
    Embedded,
    EmbeddingEngine,
    EngineStatus,
    Sound,
    SpeechEngine,
    Transcript,
    TranscriptionEngine,
    engines,
)
from monoize.errors import EngineError


class _Life:
    """Of an engine that has `parts` which pip must bring first."""

    parts: list[str] = []
    broken: str | None = None

    def __init__(self, setup):
        pass

    def models(self):
        return (f"{self.id}-model",)

    def available(self):
        if self.parts:
            return EngineStatus(
                installed=False,
                reason=f"The package {self.parts[0]} is not installed.",
                install=f"python -m pip install {self.parts[0]}==1",
            )
        return EngineStatus(installed=True)

    async def start(self):
        status = self.available()
        if not status.installed:
            raise EngineError(f"{status.reason} Install it: {status.install}")
        if self.broken:
            raise EngineError(self.broken)

    async def aclose(self):
        pass


class _Stand(_Life, EmbeddingEngine):
    id = "stand"
    dimensions = 2
    features = frozenset({"supports_batch"})
    limits = {"max_inputs": 7}

    async def embed(self, texts):
        return Embedded(vectors=((1.0, 0.0), (0.8, 0.6), (0.0, 1.0)), tokens=9)


class _Voice(_Life, SpeechEngine):
    id = "voice"
    rate = 16_000

    def voices(self):
        return ("only",)

    async def speak(self, text, *, voice=None, speed=1.0):
        yield Sound(pcm=text.encode(), rate=16_000)


class _Hearing(_Life, TranscriptionEngine):
    id = "hearing"
    rate = 16_000

    async def transcribe(self, sound, *, language=None):
        return Transcript(text=sound.pcm.strip(b"\0").decode(), seconds=sound.seconds)


@pytest.fixture
def stand_in(monkeypatch):
    kind = type("Stand", (_Stand,), {"parts": []})
    known = {"hearing": _Hearing, "stand": kind}
    monkeypatch.setattr(cli, "engines", lambda: MappingProxyType(known))
    return kind


@pytest.fixture
def pip(monkeypatch, stand_in):
    """Brings what it is asked for, unless it is told not to."""
    asked = []

    def install(command, console):
        asked.append(command)
        if install.works:
            stand_in.parts.pop(0)

    install.works = True
    install.asked = asked
    monkeypatch.setattr(_pip, "install", install)
    return install


# --- list ---


def test_every_engine_is_listed_with_what_it_can_do(capsysbinary):
    assert cli.show_all(as_json=True) == 0
    listed = json.loads(capsysbinary.readouterr().out)["data"]
    assert {one["id"] for one in listed} == set(engines())
    by_id = {one["id"]: one for one in listed}
    assert by_id["minilm"]["dimensions"] == 384
    assert by_id["hibari"]["voices"] == ["heart"]
    assert by_id["moonshine"]["limits"] == {"max_audio_seconds": 1800}
    assert by_id["smollm2"]["features"] == [
        *("supports_json_schema", "supports_stream", "supports_system_role", "supports_tools"),
    ]


def test_what_is_missing_is_said_with_its_cure(capsys, stand_in):
    stand_in.parts = ["weights"]
    assert cli.show_all() == 0
    out = capsys.readouterr().out
    assert "stand" in out
    assert "batch, 2 dimensions, max_inputs 7" in out
    assert (
        "stand: The package weights is not installed.\n  python -m pip install weights==1\n" in out
    )
    assert "or: monoize engines fetch stand" in out


# --- fetch ---


def test_what_is_missing_is_installed_part_by_part_and_started(capsys, stand_in, pip):
    stand_in.parts = ["runtime", "weights"]
    assert cli.fetch("stand") == 0
    assert pip.asked == ["python -m pip install runtime==1", "python -m pip install weights==1"]
    assert capsys.readouterr().out.endswith("stand: ready, stand-model\n")


def test_what_is_there_is_only_checked(capsys, stand_in, pip):
    assert cli.fetch() == 0
    assert pip.asked == []
    assert capsys.readouterr().out == "stand: ready, stand-model\nhearing: ready, hearing-model\n"


def test_pip_that_does_not_help_is_not_asked_again_and_the_others_have_their_turn(
    capsys, stand_in, pip
):
    stand_in.parts, pip.works = ["weights"], False
    assert cli.fetch() == 1
    assert len(pip.asked) == 1
    seen = capsys.readouterr()
    assert "did not help: python -m pip install weights==1" in seen.err
    assert "hearing: ready" in seen.out


def test_files_that_are_not_the_pinned_ones_make_it_fail(capsys, stand_in, pip):
    stand_in.broken = "model.bin is not the file that was pinned"
    assert cli.fetch("stand") == 1
    assert "monoize: stand: model.bin is not the file that was pinned" in capsys.readouterr().err


def test_an_unknown_engine_is_named_with_the_known(capsys, stand_in):
    assert cli.fetch("nope") == 1
    assert "no engine 'nope'; there are hearing, stand" in capsys.readouterr().err


# --- try ---


def test_each_does_one_thing_and_says_how_long_it_took(capsysbinary, stand_in, monkeypatch):
    known = {"hearing": _Hearing, "stand": stand_in, "voice": _Voice}
    monkeypatch.setattr(cli, "engines", lambda: known)
    monkeypatch.setattr(cli, "_SENTENCE", "abcd")
    assert cli.trial(as_json=True) == 0
    tried = {one["engine"]: one for one in json.loads(capsysbinary.readouterr().out)["data"]}
    assert tried["stand"]["result"] == "alike 0.80, unlike 0.00"
    assert tried["hearing"]["result"] == "abcd"  # what was spoken before
    assert all(one["took"]["seconds"] >= 0 for one in tried.values())


def test_without_a_voice_silence_is_heard(capsys, stand_in):
    assert cli.trial("hearing") == 0
    assert "a second of silence" in capsys.readouterr().out


def test_one_that_is_not_installed_is_passed_over_unless_it_was_named(capsys, stand_in):
    stand_in.parts = ["weights"]
    assert cli.trial() == 0
    assert "stand" not in capsys.readouterr().out
    assert cli.trial("stand") == 1
    assert "Install it: python -m pip install weights==1" in capsys.readouterr().err


# --- pip itself ---


def test_only_pip_is_ever_run_and_by_this_python(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "26.1.dev0")
    assert _pip.argv("python -m pip install --no-deps 'x>=1'", "py") == [
        *("py", "-m", "pip", "install", "--disable-pip-version-check", "--no-input"),
        *("--progress-bar", "raw", "--no-deps", "x>=1"),
    ]
    for other in ("rm -rf /", "python -m http.server", "sh -c 'python -m pip install x'"):
        with pytest.raises(EngineError, match="by hand"):
            _pip.argv(other)


def test_an_old_pip_is_not_asked_for_what_it_cannot_say(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "23.2.1")
    assert _pip.argv("python -m pip install x", "py") == [
        *("py", "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "x"),
    ]


def test_where_there_is_no_pip_the_command_is_told(monkeypatch):
    def version(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(EngineError, match=r"no pip beside .* python -m pip install x"):
        _pip.argv("python -m pip install x")


def console():
    return Console(file=io.StringIO(), force_terminal=True, width=100)


def test_downloads_are_shown_as_they_go(monkeypatch):
    script = (
        "print('Collecting tiny'); print('Progress 512 of 1024'); print('Progress 1024 of 1024')"
    )
    monkeypatch.setattr(_pip, "argv", lambda command: [sys.executable, "-c", script])
    shown = console()
    _pip.install("python -m pip install tiny", shown)
    assert "tiny" in shown.file.getvalue()
    assert "1.0/1.0 kB" in shown.file.getvalue()


def test_the_last_words_of_pip_are_told(monkeypatch):
    script = "import sys; print('ERROR: No matching distribution'); print('[notice]'); sys.exit(1)"
    monkeypatch.setattr(_pip, "argv", lambda command: [sys.executable, "-c", script])
    with pytest.raises(EngineError, match=r"No matching distribution\). The command was: python"):
        _pip.install("python -m pip install tiny", console())
