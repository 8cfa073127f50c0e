"""Money before the count is known: what to reserve for a call, and the usage of one that nobody counted."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from monoize.money.charge import MOST_NANO
from monoize.money.classes import MOST_TOKENS
from monoize.money.rates import Rates
from monoize.money.weigh import Load, weigh
from monoize.money.whole import ratio, whole
from monoize.urp import UrpRequest, Usage

__all__ = ["Produced", "input_bound", "output_bound", "produced", "reserved"]

# Upper-ish: o200k_base takes 4 letters of prose for a token, 1.7 of dense data, 2 bytes of scripts it knows badly;
# other vendors' tokenizers take up to a third less. In sixtieths of a token:
_UNIT = 60
_PER_PROSE, _PER_DENSE, _PER_WIDE = 20, 48, 30

_PER_REQUEST = 256  # the vendor's own words around it
_PER_MESSAGE = 8
_PER_IMAGE = 1600  # a large picture of most vendors
_WITH_TOOLS = 500  # how the vendor tells a model to use them
_PER_TOOL = 16
_PER_PROVIDER_TOOL = 16_000  # a search reads pages: 10,000 to 40,000 tokens

_BYTES_PER_TOKEN = 4  # of a fair estimate, rounded up
_FAIR_IMAGE = 800

_LIMIT, _NEWER_LIMIT = "max_tokens", "max_completion_tokens"


class Produced(msgspec.Struct, frozen=True, kw_only=True):
    """What came out of a call, by size."""

    text: int = 0  # bytes: text, refusals, calls
    reasoning: int = 0  # bytes
    audio: int = 0  # tokens
    image: int = 0  # tokens

    def __bool__(self) -> bool:
        return bool(self.text or self.reasoning or self.audio or self.image)


def input_bound(request: UrpRequest) -> int:
    """Tokens that the request is seldom above, without a tokenizer."""
    return _bound(weigh(request))


def output_bound(request: UrpRequest, output_cap: int) -> int:
    """Tokens of the longest answers that are allowed for."""
    asked, beside = request.max_output_tokens, request.extra_body
    if beside and not (beside.get(_LIMIT) is None is beside.get(_NEWER_LIMIT)):
        asked = _longest(asked, beside)
    # Engines take a number below 0 for "as long as you like".
    longest = output_cap if asked is None or asked < 0 else min(asked, output_cap)
    return min(longest, MOST_TOKENS) * max(1, request.n or 1)


def _longest(asked: int | None, beside: Mapping[str, Any]) -> int | None:
    """A chat request may carry one limit in each spelling, and a provider may obey the other one."""
    for name in (_LIMIT, _NEWER_LIMIT):
        other = beside.get(name)
        if isinstance(other, int):
            is_open = other < 0 or (asked is not None and asked < 0)
            asked = -1 if is_open else max(asked or 0, other)
    return asked


def reserved(
    request: UrpRequest, rates: Rates, multiplier: Decimal = Decimal(1), *, output_cap: int
) -> int:
    """Nano-USD to hold back: the input at its dearest, and the longest answer that is allowed for.

    Rounded up, so that nothing is reserved for free; at most MOST_NANO.
    """
    load = weigh(request)
    tokens = _other_tokens(load)
    images, audio = load.images * _PER_IMAGE, load.audio
    price = whole(rates.at(tokens + images + audio) if rates.tiers else rates)
    total = tokens * price.read + output_bound(request, output_cap) * price.written
    if images or audio:
        total += images * price.seen + audio * price.heard
    times, over = ratio(multiplier)
    return min(_ceil(total * times, price.unit * over), MOST_NANO)


def produced(request: UrpRequest, out: Produced, known: Usage | None = None) -> Usage:
    """The usage of a call that ended without one: bytes over four, each class rounded up.

    `known`: what a provider counted before its first word; its input holds, its output is a beginning.
    """
    text, reasoning = _fair(out.text), _fair(out.reasoning)
    output = text + reasoning + out.audio + out.image
    known = known or Usage()
    return msgspec.structs.replace(
        known,
        input_tokens=known.input_tokens or _fair_input(weigh(request)),
        output_tokens=max(output, known.output_tokens),
        reasoning=_known(reasoning, known.reasoning),
        audio_output=_known(out.audio, known.audio_output),
        image_output=_known(out.image, known.image_output),
        total=None,
        source=None,
    )


def _bound(load: Load) -> int:
    return _other_tokens(load) + load.images * _PER_IMAGE + load.audio


def _other_tokens(load: Load) -> int:
    weight = load.prose * _PER_PROSE + load.dense * _PER_DENSE + load.wide * _PER_WIDE
    tokens = -(-weight // _UNIT) + load.files + _PER_REQUEST + load.messages * _PER_MESSAGE
    if load.tools:
        tokens += _WITH_TOOLS + load.tools * _PER_TOOL + load.provider_tools * _PER_PROVIDER_TOOL
    return tokens


def _fair_input(load: Load) -> int:
    fair = _fair(load.text) + load.images * _FAIR_IMAGE + load.audio + load.files
    return min(fair, _bound(load))  # nobody is charged by estimate for more than was reserved


def _fair(size: int) -> int:
    return _ceil(size, _BYTES_PER_TOKEN)


def _known(estimate: int, counted: int | None) -> int | None:
    return max(estimate, counted or 0) if estimate else counted


def _ceil(count: int, unit: int) -> int:
    return -(-count // unit)
