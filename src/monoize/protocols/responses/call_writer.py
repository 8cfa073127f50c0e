"""How a call to a client tool is written into a stream of events."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from monoize.protocols._custom_tools import as_custom_call
from monoize.protocols.responses.output import Output, Owner
from monoize.protocols.responses.tools import CalledTool
from monoize.protocols.responses.writers import PartWriter
from monoize.urp import ArgumentsDelta, PartDelta, SealDelta, ToolCall, replace
from monoize.urp.carrier import pack_seal
from monoize.urp.extra_body import flattened

__all__ = ["CallWriter"]


class CallWriter(PartWriter):
    """A call to a client tool, written as its caller declared the tool."""

    def __init__(
        self, output: Output, owner: Owner, part: ToolCall, declared: CalledTool | None
    ) -> None:
        super().__init__(output, owner)
        self._call = replace(part, arguments="")
        self._seal_due = part.seal
        # A function call to a custom tool: its text is known only when the arguments are complete.
        is_declared_custom = declared is not None and declared.custom and not output.native
        self._unwraps = part.kind == "function" and is_declared_custom
        self._custom = part.kind == "custom" or self._unwraps
        self._declared = declared
        self._pieces: list[str] = []
        self._write_seal()
        output.retire()
        self._id = output.item_id(owner, "ctc_" if self._custom else "fc_")
        self._index = output.add(self._item("", "in_progress"))
        if part.arguments:
            self.delta(ArgumentsDelta(arguments=part.arguments))

    def _write_seal(self) -> None:
        if self._seal_due is not None:
            self.output.carrier(pack_seal(replace(self._call, seal=self._seal_due)))
            self._seal_due = None

    def _item(self, payload: str, status: str) -> dict[str, Any]:
        declared = self._declared
        item: dict[str, Any] = {
            "id": self._id,
            "type": "custom_tool_call" if self._custom else "function_call",
            "status": status,
            "call_id": self._call.call_id,
            "name": declared.name if declared is not None else self._call.name,
            "input" if self._custom else "arguments": payload,
        }
        if declared is not None and declared.namespace is not None:
            item["namespace"] = declared.namespace
        return flattened(item, self._call.extra_body if self.output.native else {})

    @override
    def delta(self, delta: PartDelta) -> None:
        match delta:
            case ArgumentsDelta() if delta.arguments:
                self._pieces.append(delta.arguments)
                if not self._unwraps:
                    self._show(delta.arguments)
            case SealDelta():
                self._seal_due = delta.seal
            case _:
                pass

    def _show(self, payload: str) -> None:
        self._event("delta", delta=payload)

    def _event(self, step: str, **fields: Any) -> None:
        kind = "custom_tool_call_input" if self._custom else "function_call_arguments"
        self.output.emit(
            f"response.{kind}.{step}", item_id=self._id, output_index=self._index, **fields
        )

    @override
    def done(self) -> None:
        payload = "".join(self._pieces)
        if self._unwraps:
            payload = as_custom_call(replace(self._call, arguments=payload)).arguments
            self._show(payload)
        elif not payload and not self._custom:
            payload = "{}"  # clients parse it (T24)
            self._show(payload)
        self._event("done", **{"input" if self._custom else "arguments": payload})
        self.output.finish(self._index, self._item(payload, "completed"))
        self._write_seal()

    @override
    def abandon(self) -> None:
        """No client may act on a call whose arguments were cut off, so nothing says that it is done."""
        cut_off = "" if self._unwraps else "".join(self._pieces)
        self.output.items[self._index] = self._item(cut_off, "incomplete")
