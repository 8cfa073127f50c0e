"""What differs between Google's models, as rows; and where a model lies below the base URL."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Literal
from urllib.parse import quote

import msgspec

from monoize.errors import InvalidRequest

__all__ = [
    "SIGNATURE_PLACEHOLDER",
    "Thinking",
    "method_path",
    "resource_name",
    "takes_media_in_results",
    "thinking_of",
    "wants_signatures",
]

# Collections of Google's resource names: a model that begins with one is a full name already.
_COLLECTIONS = ("models/", "tunedModels/", "publishers/", "projects/", "endpoints/", "dynamic/")

# Google's documented value for calls that another model made (T20).
SIGNATURE_PLACEHOLDER = "skip_thought_signature_validator"
_SIGNED = ("gemini-[3-9]*", "gemini-*-latest")

# Models from before media could lie inside a function response.
_MEDIA_BESIDE_RESULTS = ("gemini-1*", "gemini-2*")

ALL_LEVELS = ("MINIMAL", "LOW", "MEDIUM", "HIGH")


class Thinking(msgspec.Struct, frozen=True, kw_only=True):
    """How a family of models is told to think."""

    style: Literal["level", "budget", "none"] = "budget"
    levels: tuple[str, ...] = ALL_LEVELS
    least: int = 1
    most: int | None = None
    can_be_off: bool = True


# First match wins; the last row is for names that say nothing (a redirect, a private deployment).
_THINKING: tuple[tuple[str, Thinking], ...] = (
    ("gemini-3-pro*", Thinking(style="level", levels=("LOW", "HIGH"))),
    ("gemini-3*-pro*", Thinking(style="level", levels=("LOW", "MEDIUM", "HIGH"))),
    ("gemini-[3-9]*", Thinking(style="level")),
    ("gemini-2.5-flash-image*", Thinking(style="none")),
    ("gemini-2.5-pro*", Thinking(least=128, most=32768, can_be_off=False)),
    ("gemini-2.5-flash-lite*", Thinking(least=512, most=24576)),
    ("gemini-2.5-flash*", Thinking(most=24576)),
    ("gemini-2.0*", Thinking(style="none")),
    ("gemini-1*", Thinking(style="none")),
    ("gemma*", Thinking(style="none")),
    ("*", Thinking()),
)


@lru_cache(maxsize=256)
def thinking_of(model: str) -> Thinking:
    name = _short(model)
    return next(row for glob, row in _THINKING if fnmatchcase(name, glob))


@lru_cache(maxsize=256)
def wants_signatures(model: str) -> bool:
    """Whether the model refuses a history whose function calls carry no thought signature."""
    return any(fnmatchcase(_short(model), glob) for glob in _SIGNED)


@lru_cache(maxsize=256)
def takes_media_in_results(model: str) -> bool:
    return not any(fnmatchcase(_short(model), glob) for glob in _MEDIA_BESIDE_RESULTS)


def resource_name(model: str) -> str:
    """`gemini-x` -> `models/gemini-x`; a full name stays."""
    return model if model.startswith(_COLLECTIONS) else f"models/{model}"


@lru_cache(maxsize=256)
def method_path(model: str, method: str) -> str:
    name = resource_name(model)
    if not {".", ".."}.isdisjoint(
        name.split("/")
    ):  # the way to another model, or out of the base URL
        raise InvalidRequest(f"{model!r} is no name of a model", param="model")
    return f"/v1beta/{quote(name, safe='/@')}:{method}"


def _short(model: str) -> str:
    return model.rpartition("/")[2].lower()
