import pytest

from monoize.errors import ProviderError, UpstreamFailed, UpstreamRefused
from monoize.globs import glob_matches
from monoize.routing.catalog import Catalog
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
