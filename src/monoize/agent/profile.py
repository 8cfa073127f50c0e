"""Contract of a model profile: how one kind of model is spoken to and how far its promises go; data, no behaviour.

A profile is a module in `profiles/` that names one `PROFILE`; its id is the module's name.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from typing import Literal, TypeAlias

import msgspec

__all__ = ["CallSyntax", "GateLevel", "Profile", "profile", "profiles"]

# native: the protocol's own tool calls; the others are written into the text by the model.
CallSyntax: TypeAlias = Literal["native", "xml", "json_block", "grammar"]


class GateLevel(IntEnum):
    """What stands behind a required call."""

    VERIFIED = 1  # only our own verifier
    FORCED = 2  # the provider is told to call, and our verifier watches
    DECODED = 3  # decoding itself is bound by our grammar


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    protocol: str  # the wire protocol at the boundary
    provider_types: tuple[str, ...]  # for which it is the usual one, best first
    syntax: CallSyntax
    gate_level: GateLevel
    strict: bool  # the factory's default for strict_mode
    format_retries: int  # the factory's default for max_format_retries
    takes_grammar: bool = False  # honours grammar, grammar_profile and logits_mask
    context_window: int = 128_000
    # The factory's defaults. Few for models so small that they repeat themselves and do not know when to stop.
    max_tool_calls: int = 60
    max_output_tokens: int = 4096
    # Grammar profile by what an inference may be: `call` (a tool call and nothing else), `any`, `text`.
    grammar_profiles: Mapping[str, str] = {}


@cache
def profiles() -> Mapping[str, Profile]:
    # By name: the plug-ins import this contract, never the other way round.
    folder = importlib.import_module("monoize.agent.profiles")
    found: dict[str, Profile] = {}
    for module in pkgutil.iter_modules(folder.__path__):
        plug_in: Profile = importlib.import_module(f"{folder.__name__}.{module.name}").PROFILE
        if plug_in.id != module.name:
            raise RuntimeError(f"profile {plug_in.id!r} lives in the module {module.name!r}")
        found[plug_in.id] = plug_in
    return found


def profile(name: str) -> Profile | None:
    return profiles().get(name)
