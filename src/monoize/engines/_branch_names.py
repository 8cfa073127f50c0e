"""Names for the branches of an ONNX model: onnxruntime writes them without, and will not read them without.

Only so much of the protobuf wire format as that takes: model (7) > graph (1) > node (5) > attribute (6) > graph, whose
name is field 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

__all__ = ["with_branch_names"]

_GRAPH_OF_MODEL = 7
_NODE_OF_GRAPH = 1
_NAME_OF_GRAPH = 2
_OPERATOR_OF_NODE = 4
_ATTRIBUTE_OF_NODE = 5
_GRAPH_OF_ATTRIBUTE = 6

_VARINT, _EIGHT_BYTES, _MESSAGE, _FOUR_BYTES = 0, 1, 2, 5
_FIXED = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}

Field = tuple[int, memoryview, memoryview]  # number, all of it, and what it holds


def with_branch_names(model: bytes) -> bytes:
    """Raises ValueError for what is no protobuf message."""
    return _changed(memoryview(model), _GRAPH_OF_MODEL, _named)


def _named(graph: memoryview) -> bytes:
    changed = _changed(graph, _NODE_OF_GRAPH, _node)
    if any(number == _NAME_OF_GRAPH and held for number, _, held in _fields(graph)):
        return changed
    return changed + _message(_NAME_OF_GRAPH, b"branch")


def _node(node: memoryview) -> bytes:
    if any(
        number == _OPERATOR_OF_NODE and bytes(held) == b"If" for number, _, held in _fields(node)
    ):
        return _changed(node, _ATTRIBUTE_OF_NODE, _attribute)
    return bytes(node)


def _attribute(attribute: memoryview) -> bytes:
    return _changed(attribute, _GRAPH_OF_ATTRIBUTE, _named)


def _changed(message: memoryview, number: int, change: Callable[[memoryview], bytes]) -> bytes:
    """The message with every field of that number replaced."""
    return b"".join(
        _message(number, change(held)) if found == number else whole
        for found, whole, held in _fields(message)
    )


def _fields(message: memoryview) -> Iterator[Field]:
    at = 0
    while at < len(message):
        start = at
        key, at = _varint(message, at)
        kind, size = key & 7, 0
        if kind == _VARINT:
            _, at = _varint(message, at)
        elif kind == _MESSAGE:
            size, at = _varint(message, at)
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise ValueError(f"a protobuf field of kind {kind}")
        end = at + size
        if end > len(message):
            raise ValueError("a protobuf field that is cut off")
        yield key >> 3, message[start:end], message[at:end]
        at = end


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(message):
            raise ValueError("a protobuf number that is cut off")
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:  # noqa: PLR2004 - the bit that says "more"
            return value, at


def _message(number: int, held: bytes) -> bytes:
    return _as_varint(number << 3 | _MESSAGE) + _as_varint(len(held)) + held


def _as_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:  # noqa: PLR2004 - the bit that says "more"
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))
