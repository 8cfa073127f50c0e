"""A program that calls one function of somebody's module: an order on its input, one answer on its output."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

__all__: list[str] = []


def _main() -> None:
    answers = os.dup(1)
    os.dup2(2, 1)  # what the function prints is no answer
    order = json.loads(sys.stdin.buffer.read())
    sys.path[:] = order["path"]
    answer = _answer(order)
    sys.stdout.flush()
    with os.fdopen(answers, "wb") as out:
        out.write(answer)
    os._exit(0)  # threads that the function has left behind do not hold us


def _answer(order: Mapping[str, Any]) -> bytes:
    # Only now, since the import path has come with the order.
    import msgspec  # noqa: PLC0415

    from monoize.agent.tools._signature import signature  # noqa: PLC0415

    try:
        function = _found(order["place"])
        values = signature(function).converted(order["arguments"])
    except msgspec.ValidationError as error:
        return _failed("protocol_error", f"its arguments do not fit: {error}")
    except Exception as error:  # noqa: BLE001 - the module is somebody else's, and may do anything while it is imported
        return _failed("protocol_error", f"it cannot be imported: {type(error).__name__}: {error}")
    try:
        value = function(**values)
    except Exception as error:  # noqa: BLE001 - likewise
        return _failed("tool_error", f"{type(error).__name__}: {error}")
    try:
        plain = msgspec.to_builtins(value, str_keys=True)
        return json.dumps({"value": plain}, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        return _failed("protocol_error", f"its result is no JSON: {error}")


def _failed(code: str, message: str) -> bytes:
    return json.dumps({"code": code, "message": message[:4096]}).encode("utf-8", "replace")


def _found(place: Mapping[str, str]) -> Callable[..., Any]:
    if "module" in place:
        module = importlib.import_module(place["module"])
    else:
        # Not as __main__: what a script does when it is run must not happen here.
        spec = importlib.util.spec_from_file_location("__monoize_tools__", place["file"])
        if spec is None or spec.loader is None:
            raise ImportError(f"{place['file']} is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    function: Callable[..., Any] = getattr(module, place["name"])
    return function


if __name__ == "__main__":
    _main()
