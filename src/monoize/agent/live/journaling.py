"""The transcript as a run writes it: what it began with, every entry, a signed checkpoint at every 64th and at the end."""

from __future__ import annotations

from monoize.agent.live.terms_note import terms_json
from monoize.agent.machine.effects import Append, Finish
from monoize.agent.machine.run_state import Terms
from monoize.agent.ports import Journal
from monoize.agent.record.entry import Entry
from monoize.agent.record.signing import CHECKPOINT_EVERY, SigningKey

__all__ = ["Journaling"]


class Journaling:
    def __init__(self, journal: Journal, signer: SigningKey, last: Entry | None = None) -> None:
        self._journal = journal
        self._signer = signer
        self.last = last  # what is safe on disk ends with this one

    async def open(self, terms: Terms) -> None:
        await self._journal.note("contract", terms.contract.as_json())
        tools = [tool.as_json() for tool in terms.manifest.tools]
        await self._journal.note("manifest", {"tools": tools})
        await self._journal.note("terms", terms_json(terms))

    async def done(self, effect: Append | Finish) -> None:
        """Raises OSError."""
        if isinstance(effect, Finish):
            await self._seal()
            return
        await self._journal.append(effect.entry, effect.payloads)
        self.last = effect.entry
        if (effect.entry.seq + 1) % CHECKPOINT_EVERY == 0:
            await self._seal()

    async def _seal(self) -> None:
        """A second one for the same length says nothing new; a journal leaves it out."""
        if self.last is not None:
            entry = self.last
            await self._journal.seal(
                self._signer.checkpoint(entry.run_id, entry.seq + 1, entry.head)
            )
