import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monoize.errors import ProviderError, UpstreamFailed, UpstreamRefused
from monoize.globs import glob_matches, is_glob
from monoize.routing.catalog import Catalog, model_row, upstream_name
from monoize.routing.verdict import failure
from monoize.settings import ChannelSettings, ModelSettings, ProviderSettings


def provider(id, models, *, enabled=True, channels=None):
    return ProviderSettings(
        id=id,
        type="messages",
        enabled=enabled,
        models={name: ModelSettings(redirect=redirect) for name, redirect in models.items()},
        channels=channels or (ChannelSettings(id="main", base_url="http://x"),),
    )


def first(catalog, model):
    return next(((c.provider.id, c.upstream_model) for c in catalog.candidates(model)), None)


@pytest.mark.spec("ROUT-1", "ROUT-2", "D49", "ENC-4")
def test_configured_order_then_exact_names_then_globs():
    catalog = Catalog(
        (
            provider("off", {"*": None}, enabled=False),
            provider("a", {"claude-*": None, "claude-x": "claude-x-2026"}),
            provider("b", {"*": None}),
        )
    )
    assert first(catalog, "claude-x") == ("a", "claude-x-2026")
    assert first(catalog, "claude-y") == ("a", "claude-y")
    assert first(catalog, "gpt") == ("b", "gpt")


@pytest.mark.spec("ROUT-3")
def test_disabled_and_weightless_channels_are_passed_over():
    channels = (
        ChannelSettings(id="off", base_url="http://x", enabled=False),
        ChannelSettings(id="none", base_url="http://x", weight=0),
        ChannelSettings(id="on", base_url="http://x"),
    )
    catalog = Catalog((provider("a", {"m": None}, channels=channels),))
    assert [c.channel.id for c in catalog.candidates("m")] == ["on"]


def test_a_model_that_nobody_has():
    assert first(Catalog((provider("a", {"m": None}),)), "n") is None


def test_exact_models_are_listed_once_with_their_first_provider():
    catalog = Catalog(
        (provider("a", {"m": None, "g-*": None}), provider("b", {"m": None, "n": None}))
    )
    assert [(name, p.id) for name, p in catalog.exact_models()] == [("m", "a"), ("n", "b")]


@pytest.mark.parametrize(
    ("glob", "name", "answer"),
    [
        ("*", "anything", True),
        ("gpt-?", "gpt-5", True),
        ("gpt-?", "gpt-55", False),
        ("a.b*", "axb1", False),
        ("*/*", "openai/gpt", True),
        ("*/*", "gpt", False),
        ("GPT*", "gpt", False),
    ],
)
def test_globs_match_the_whole_name(glob, name, answer):
    assert glob_matches(glob, name) is answer


@pytest.mark.spec("D9", "ROUT-5", "ROUT-6")
@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 529, 302])
def test_what_may_work_elsewhere(status):
    assert isinstance(failure(ProviderError(message="x"), status), UpstreamFailed)


@pytest.mark.spec("D9", "ROUT-6")
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 418])
def test_what_is_final_keeps_its_status(status):
    error = failure(ProviderError(message="no", code="c", param="p"), status)
    assert isinstance(error, UpstreamRefused)
    assert (error.http_status, error.error_code, error.param) == (status, "c", "p")


@pytest.mark.spec("D49")
@pytest.mark.parametrize(
    ("model", "exists", "covers"),
    [
        ("m", True, True),
        ("claude-x", False, True),
        ("claude-", False, True),
        ("anything", False, False),  # a bare * says nothing about a name
        ("off", False, False),
        ("claude-*", False, True),  # a name is not a glob just because it looks like one
        ("*", False, False),
    ],
)
def test_a_model_exists_by_name_and_is_covered_by_a_glob_that_says_something(model, exists, covers):
    catalog = Catalog(
        (
            provider("none", {"off": None}, enabled=False),
            provider("a", {"*": None, "**": None, "m": None}),
            provider("b", {"claude-*": None}),
        )
    )
    assert (catalog.exists(model), catalog.covers(model)) == (exists, covers)


@pytest.mark.spec("ROUT-1", "ROUT-2")
def test_offers_are_the_enabled_providers_that_have_the_model():
    catalog = Catalog(
        (
            provider("off", {"m": None}, enabled=False),
            provider("a", {"m": "x"}),
            provider("b", {"n": None}),
            provider("c", {"*": None}),
        )
    )
    assert [(p.id, row.redirect) for p, row in catalog.offers("m")] == [("a", "x"), ("c", None)]


@pytest.mark.parametrize(("redirect", "name"), [(None, "m"), ("", "m"), ("  ", "m"), (" x ", "x")])
def test_a_redirect_counts_only_when_it_says_something(redirect, name):
    assert first(Catalog((provider("a", {"m": redirect}),)), "m") == ("a", name)


# --- what is remembered ---


class Counted(dict):
    """Models of a provider that count how often they are looked at."""

    def __init__(self, models):
        super().__init__({name: ModelSettings() for name in models})
        self.looks = 0

    def get(self, *args):
        self.looks += 1
        return super().get(*args)

    def items(self):
        self.looks += 1
        return super().items()


def crowd(number, models):
    """Providers of which each has its own models, and the last has `m`."""
    counted = [Counted([f"{n}-{model}" for model in models]) for n in range(number)]
    counted.append(Counted(["m"]))
    providers = tuple(
        ProviderSettings(
            id=str(n), type="messages", models=found, channels=(ChannelSettings(id="main"),)
        )
        for n, found in enumerate(counted)
    )
    return Catalog(providers), counted


@pytest.mark.parametrize("number", [1, 1000])
def test_providers_without_the_model_are_not_looked_at(number):
    catalog, counted = crowd(number, ["a", "b"])
    for models in counted:
        models.looks = 0
    assert [terms.provider.id for terms in catalog.listing("m").terms] == [str(number)]
    assert sum(models.looks for models in counted) == 1
    assert catalog.exists("m")
    assert not catalog.exists("n")
    assert catalog.listing("n").terms == ()
    assert sum(models.looks for models in counted) == 1


def test_a_name_is_looked_up_once_and_its_candidates_stay_the_same():
    catalog, counted = crowd(2, ["*"])
    first = catalog.listing("1-x")
    looks = sum(models.looks for models in counted)
    assert catalog.listing("1-x") is first
    assert next(catalog.candidates("1-x")) is first.terms[0].candidates[0]
    assert sum(models.looks for models in counted) == looks


def test_names_that_callers_make_up_are_not_kept_without_end(monkeypatch):
    monkeypatch.setattr("monoize.routing.catalog._TERMS_KEPT", 20)
    catalog = Catalog(tuple(provider(str(n), {"*": None}) for n in range(4)))
    for number in range(100):
        assert len(catalog.listing(f"m{number}").terms) == 4
        assert catalog._listings.terms_kept <= 20
        assert len(catalog._listings) <= 4
    name = "m" * 10_000
    assert len(catalog.listing(name).terms) == 4
    assert catalog.listing(name) is not catalog.listing(name)


MODELS = st.dictionaries(
    st.sampled_from(["m", "n", "m*", "*", "?", "**", "m-?", "x*"]),
    st.none() | st.sampled_from(["up", " "]),
    max_size=4,
)


@pytest.mark.spec("ROUT-1", "ROUT-2", "D49")
@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(MODELS, st.booleans()), max_size=5),
    st.lists(st.sampled_from(["m", "n", "m-1", "*", "x", "", "m*"]), max_size=6),
)
def test_what_is_remembered_is_what_each_provider_says(specs, names):
    providers = [provider(str(n), models, enabled=on) for n, (models, on) in enumerate(specs)]
    catalog = Catalog(tuple(providers))
    for name in names:
        rows = [(p, model_row(p.models, name)) for p in providers if p.enabled]
        expected = [(p.id, id(row)) for p, row in rows if row is not None]
        assert [(p.id, id(row)) for p, row in catalog.offers(name)] == expected
        listing = catalog.listing(name)
        assert list(listing.by_provider.values()) == list(listing.terms)
        for terms in listing.terms:
            assert terms.upstream_model == upstream_name(terms.row, name)
            assert terms.multiplier == terms.row.exact_multiplier()
            assert terms.capabilities == catalog.capabilities(terms.provider, terms.row)
        assert catalog.exists(name) is (
            not is_glob(name) and any(name in p.models for p in providers if p.enabled)
        )
