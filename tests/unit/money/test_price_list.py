"""The price list read by our own few classes says what the package's own code says."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from genai_prices import data

from monoize.money import listed, public

OURS, THEIRS = listed.read(), data.providers
TIERS = (None, "default", "flex", "priority", "batch", "standard", "scale")


def plain(prices):
    return msgspec.to_builtins(vars(prices))


def moments():
    """Around every moment at which some price changes."""
    days = {datetime(2026, 11, 15, 12, tzinfo=UTC)}
    for seller in THEIRS:
        for model in seller.models:
            held = model.prices if isinstance(model.prices, list) else []
            for one in (*held, *(model.price_variants or ())):
                constraint = one.constraint
                if hasattr(constraint, "start_date"):
                    day = datetime.combine(constraint.start_date, datetime.min.time(), UTC)
                    days |= {day, day - timedelta(minutes=1)}
                elif constraint is not None:
                    for hour in (constraint.start_time, constraint.end_time):
                        hit = datetime.combine(datetime(2026, 11, 15, tzinfo=UTC), hour)
                        days |= {hit.astimezone(UTC), hit.astimezone(UTC) - timedelta(minutes=1)}
    return sorted(days)


def names_of(model):
    yield model.id
    yield model.id.upper()
    yield f"{model.id}-20251211"
    yield f"{model.id}-20250231"
    yield f"{model.id}:free"


def where(model):
    return None if model is None else model.id


def test_the_sellers_are_the_same():
    assert [s.id for s in OURS] == [s.id for s in THEIRS]
    assert [s.api_pattern for s in OURS] == [s.api_pattern for s in THEIRS]
    assert [[m.id for m in s.models] for s in OURS] == [[m.id for m in s.models] for s in THEIRS]


@pytest.mark.parametrize("number", range(len(THEIRS)), ids=lambda n: THEIRS[n].id)
def test_a_name_finds_the_same_model(number):
    ours, theirs = OURS[number], THEIRS[number]
    names = [name for model in theirs.models[:60] for name in names_of(model)]
    for name in [*names, "gpt-4o-20240806", "claude-sonnet-4-5-20250929", "nobody", ""]:
        found = ours.find_model(name, all_providers=list(OURS))
        assert where(found) == where(theirs.find_model(name, all_providers=THEIRS)), name


def test_a_name_has_the_same_makers():
    names = {model.id.lower() for seller in THEIRS for model in seller.models}
    for ours, theirs in zip(OURS, THEIRS, strict=True):
        if theirs.model_match is None:
            assert ours.model_match is None
            continue
        for name in names:
            assert ours.model_match.is_match(name) == theirs.model_match.is_match(name)


def test_every_model_costs_the_same_at_every_moment():
    times = moments()
    assert len(times) > 10
    for ours, theirs in zip(OURS, THEIRS, strict=True):
        for mine, model in zip(ours.models, theirs.models, strict=True):
            changes = isinstance(model.prices, list) or model.price_variants
            for moment in times if changes else times[:1]:
                for tier in TIERS if model.price_variants else (None,):
                    context = None if tier is None else {"service_tier": tier}
                    assert plain(mine.get_prices(moment, context)) == plain(
                        model.get_prices(moment, context)
                    ), (theirs.id, model.id, moment, tier)


def test_the_packages_code_is_not_needed():
    script = (
        "import sys\n"
        "from monoize.money import public\n"
        "assert public.row('gpt-4o', 'responses', None, 0.0).name == 'openai/gpt-4o'\n"
        "print({'genai_prices', 'pydantic', 'httpx2'} & set(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True
    )
    assert done.stdout == "set()\n", done.stderr


@pytest.mark.parametrize(
    "later",
    [
        "from .types import *\nproviders = [Seller(id='a')]",  # a word that came later
        "from .types import *\nproviders = [Provider(id='a')]",  # a part that went
        "from .kinds import *\nproviders = []",
        "from .types import *",
    ],
)
def test_a_list_in_words_that_came_later_is_read_by_the_packages_own_code(
    later, tmp_path, monkeypatch
):
    (tmp_path / "data.py").write_text(later)
    monkeypatch.setattr(listed, "_file", lambda: tmp_path / "data.py")
    assert listed.read() == tuple(THEIRS)
    public._row.cache_clear()
    monkeypatch.setattr(public, "_sellers", listed.read)
    assert public.row("gpt-4o", "responses", None, 0.0).name == "openai/gpt-4o"
    public._row.cache_clear()
