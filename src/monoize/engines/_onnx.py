"""Models on onnxruntime: one thread each, no telemetry, nothing fetched."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from monoize.engines._pinned import Package

__all__ = ["ONNXRUNTIME", "as_onnx", "session"]

ONNXRUNTIME = Package(requirement="onnxruntime>=1.31", module="onnxruntime")
_ERRORS_ONLY = 3


def session(model: Path | bytes, *, threads: int = 1, lean: bool = False) -> Any:
    """An `InferenceSession`; `lean` keeps one copy of each weight where the runtime would like a second, reordered."""
    options = _options(threads)
    if lean:
        options.add_session_config_entry("session.disable_prepacking", "1")
    return _opened(model, options)


def as_onnx(model: Path, target: Path) -> None:
    """Write a model of the runtime's own format (.ort) as ONNX, which can be optimised again when it is loaded."""
    options = _options(1)
    options.add_session_config_entry("session.save_model_format", "ONNX")
    options.optimized_model_filepath = str(target)
    _opened(model, options)


def _options(threads: int) -> Any:
    options = _runtime().SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    return options


def _opened(model: Path | bytes, options: Any) -> Any:
    source = str(model) if isinstance(model, Path) else model
    return _runtime().InferenceSession(source, options, providers=["CPUExecutionProvider"])


def _runtime() -> Any:
    runtime = importlib.import_module("onnxruntime")  # 70 MB of library: only where it is used
    runtime.disable_telemetry_events()  # it has some on Windows
    return runtime
