"""Runs on disk, chained by hand: what the runtime would leave behind, without one."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

from monoize.agent.canonical_json import EMPTY_HASH, canonical, sha256
from monoize.agent.contract import ExecutionContract, sealed
from monoize.agent.machine.digest import StateDigest
from monoize.agent.manifest import ToolManifest, ToolSpec
from monoize.agent.record.entry import Entry, first_prev
from monoize.agent.record.folder_journal import RunFolder
from monoize.agent.record.signing import CHECKPOINT_EVERY, SigningKey

__all__ = ["KEY", "MANIFEST", "contract", "digest", "entries", "write_run"]

KEY = SigningKey.from_seed(bytes(range(32)))
MANIFEST = ToolManifest(
    tools=(
        ToolSpec(name="read_file", description="Reads a file.", pure=True),
        ToolSpec(name="write_file", description="Schreibt eine Datei, größer.", scope="write"),
    )
)
_ROUND = ("INFER", "VALIDATE_CALLS", "EXECUTE", "EXECUTE", "OBSERVE", "COMMIT")


def contract(**fields: Any) -> ExecutionContract:
    return sealed(
        ExecutionContract(
            **{
                "model": "gpt-9",
                "adapter_version": "2b.1",
                "model_profile_id": "native_openai",
                "tool_manifest_hash": MANIFEST.digest(),
                "allowed_tools": MANIFEST.names(),
                **fields,
            }
        )
    )


def digest(seq: int) -> StateDigest:
    """Of a run that stands at this entry, and is otherwise empty."""
    zero = {
        name: 0
        for name in StateDigest.__struct_fields__
        if StateDigest.__annotations__[name].startswith("int")
    }
    texts = dict.fromkeys(("run_id", "contract_id", "contract_hash", "state", "head", "output"), "")
    rest = {"outcome": None, "failure_code": None, "reason": None, "calls": (), "trail": ()}
    flags = {"tokens_estimated": False, "synthesis": False, "tokens_remaining": None}
    return StateDigest(**{**zero, **texts, **rest, **flags, "seq": seq, "digest": str(seq)})


def _ways(rounds: int) -> list[tuple[str, str]]:
    path = ["PRECHECK", *(_ROUND * rounds), "INFER", "COMMIT", "TERMINATE"]
    return list(itertools.pairwise(path))


def entries(
    run_id: str, bound: ExecutionContract, dice: random.Random, rounds: int
) -> list[tuple[Entry, dict[str, bytes]]]:
    made = []
    prev = first_prev(bound.contract_hash)
    for seq, (start, end) in enumerate(_ways(rounds)):
        payloads = {}

        def kept(what: str) -> str:
            data = canonical({what: dice.randbytes(12).hex(), "text": "Grüße\n\u0001 𝄞"})
            payloads[sha256(data)] = data  # noqa: B023
            return sha256(data)

        entry = Entry(
            seq=seq,
            run_id=run_id,
            step_id=f"step_{seq // 6}",
            from_=start,
            to=end,
            contract_hash=bound.contract_hash,
            action_hash=kept("action"),
            result_hash=kept("result"),
            adapter_version="2b.1",
            model_profile_id="native_openai",
            model_fingerprint="fp_ä" if dice.random() < 0.5 else "",
            meta_hash=kept("meta") if dice.random() < 0.5 else EMPTY_HASH,
            observed={"elapsed_ms": seq * 7, "at": 1_700_000_000.25 + seq},
        ).chained(prev)
        prev = entry.head
        made.append((entry, payloads))
    return made


def write_run(
    root: Path, run_id: str, seed: int, rounds: int, *, key: SigningKey = KEY, closed: bool = True
) -> Path:
    """A finished run of `rounds` tool rounds with its contract, manifest, payloads and checkpoints."""
    dice, bound = random.Random(seed), contract()
    folder = RunFolder(root, run_id, signer=key)
    try:
        folder.note("contract", bound)
        folder.note("manifest", MANIFEST)
        for entry, payloads in entries(run_id, bound, dice, rounds):
            folder.append(entry, payloads)
            is_last = entry.to == "TERMINATE"
            if (entry.seq + 1) % CHECKPOINT_EVERY == 0 or (is_last and closed):
                folder.seal(key.checkpoint(run_id, entry.seq + 1, entry.head))
        return folder.path
    finally:
        folder.close()
