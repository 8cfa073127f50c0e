"""Branches of a model get a name, and not one other byte is changed."""

from __future__ import annotations

import pytest

from monoize.engines._branch_names import with_branch_names


def message(number: int, held: bytes) -> bytes:
    return bytes([number << 3 | 2, len(held)]) + held


def text(number: int, word: str) -> bytes:
    return message(number, word.encode())


def model(*fields: bytes) -> bytes:
    # ir_version (a number), then the graph, then a fixed64 and a fixed32 that must be stepped over.
    graph = text(2, "main") + b"".join(fields)
    return b"\x08\x0a" + message(7, graph) + b"\x79" + bytes(8) + b"\x7d" + bytes(4)


def branching(branch: bytes) -> bytes:
    return message(1, text(4, "If") + message(5, text(1, "then_branch") + message(6, branch)))


NODE = message(1, text(3, "some node") + text(4, "Add"))


def test_a_branch_without_a_name_gets_one():
    assert with_branch_names(model(branching(NODE))) == model(branching(NODE + text(2, "branch")))


def test_so_does_a_branch_inside_a_branch():
    inner = branching(NODE)
    expected = branching(branching(NODE + text(2, "branch")) + text(2, "branch"))
    assert with_branch_names(model(branching(inner))) == model(expected)


def test_an_empty_name_is_no_name():
    (before, after) = (text(2, ""), text(2, "") + text(2, "branch"))
    assert with_branch_names(model(branching(before))) == model(branching(after))


def test_what_has_a_name_or_is_no_branch_stays_as_it_is():
    named = branching(text(2, "mine"))
    other = message(1, text(4, "Loop") + message(5, message(6, b"")))
    for whole in (model(), model(named), model(other), b""):
        assert with_branch_names(whole) == whole


@pytest.mark.parametrize("data", [b"\x3a", b"\x3a\x05ab", b"\x80", b"\x0b", b"\x7d\x00"])
def test_what_is_no_message_is_refused(data):
    with pytest.raises(ValueError, match="protobuf"):
        with_branch_names(data)
