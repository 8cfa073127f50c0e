"""What a function says of itself as a tool; light, since the process that runs the function imports it each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

import msgspec

__all__ = ["MARK", "Marked", "tool"]

_Function = TypeVar("_Function", bound=Callable[..., Any])
MARK = "__monoize_tool__"


class Marked(msgspec.Struct, frozen=True, kw_only=True):
    name: str | None = None
    pure: bool = False
    scope: str = "execute"


@overload
def tool(function: _Function, /) -> _Function: ...
@overload
def tool(
    *, name: str | None = None, pure: bool = False, scope: str = "execute"
) -> Callable[[_Function], _Function]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    pure: bool = False,
    scope: str = "execute",
) -> Any:
    """Says of a function how it is called as a tool and what it may do. The function stays what it is."""
    marked = Marked(name=name, pure=pure, scope=scope)

    def mark(target: _Function) -> _Function:
        setattr(target, MARK, marked)
        return target

    return mark if function is None else mark(function)
