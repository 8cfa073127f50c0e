"""Before anything is sent: a call that nobody can do is refused, with everybody who was looked at."""

from types import SimpleNamespace

import pytest

from fakes.bench import Bench, provider
from monoize.errors import Forbidden, ModelNotFound, NoBackend
from monoize.pipeline.route import check_offer, fail_forward
from monoize.routing.survey import Wanted

EMBEDS = {"capabilities": {"operations": ["embeddings"]}}


def errand(ceiling=None, model="m", **fields):
    """As much of an errand as routing looks at before it asks anybody."""
    wanted = Wanted(model=model, ceiling=ceiling, **fields)
    return SimpleNamespace(
        model=model, requested_model=model, ceiling=ceiling, wanted=lambda: wanted
    )


def kit(*providers):
    return Bench({"providers": list(providers)}).kit


@pytest.mark.spec("S4-2.3", "D27")
async def test_chat_with_a_model_that_only_embeds_is_refused_and_nothing_is_sent():
    bench = Bench({"providers": [provider("p", **EMBEDS), provider("q", models={"n": {}})]})
    with pytest.raises(NoBackend) as refused:
        await bench.ask()
    error = refused.value
    assert (error.http_status, error.error_code) == (404, "missing_capabilities")
    assert error.rejected == {
        "p": "missing operation: chat_completions",
        "q": "does not offer the model 'm'",
    }
    assert error.required["operations"] == ("chat_completions",)
    for reason in error.rejected.values():
        assert reason in error.message
    assert bench.sent == []


async def test_a_provider_that_cannot_chat_is_passed_over_for_one_that_can():
    bench = Bench({"providers": [provider("p", **EMBEDS), provider("q")]})
    reply = await bench.ask()
    assert reply.headers["x-monoize-provider"] == "q"
    assert [sent.host for sent in bench.sent] == ["q"]


@pytest.mark.spec("S4-2.3", "D27")
@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"operation": "embeddings", "model": "unknown"}, "no_candidate_backend"),
        ({"operation": "speech_to_text"}, "missing_capabilities"),
        ({"denied": frozenset({"p"})}, "no_candidate_backend"),
        ({"backend": "off"}, "backend_not_enabled"),
    ],
)
async def test_an_operation_that_nobody_can_do_is_refused_with_the_reasons(asked, code):
    place = kit(provider("p", "gemini"), provider("off", "gemini", enabled=False))
    wanted = errand(**asked)
    for check in (lambda: check_offer(wanted, place), lambda: None):
        with pytest.raises(NoBackend) as refused:
            check()
            await fail_forward(wanted, place, None, None, None)
        assert refused.value.error_code == code
        assert set(refused.value.rejected) == {"p", "off"}


def test_a_model_that_nobody_has_is_not_found_in_chat():
    with pytest.raises(ModelNotFound):
        check_offer(errand(model="unknown"), kit(provider("p")))


@pytest.mark.spec("D17")
def test_only_the_prices_of_those_who_could_do_it_count():
    cheap = provider("cheap", "messages", models={"m": {"multiplier": "0.5"}})
    dear = provider("dear", models={"m": {"multiplier": 3}})
    place = kit(cheap, dear)
    check_offer(errand(ceiling=1), place)
    with pytest.raises(Forbidden, match="at least 3"):
        check_offer(errand(ceiling=1, operation="embeddings"), place)


@pytest.mark.spec("S4-2.1", "D10")
async def test_an_operations_policy_holds_for_chat_where_the_provider_has_none():
    seats = [
        {"id": name, "base_url": f"http://{name}", "priority": rank}
        for name, rank in (("low", 0), ("high", 9))
    ]
    tuning = {"operations": {"chat_completions": {"policy": "priority"}}}
    for own, asked in ((None, "high"), ("weighted_random", "low")):
        place = provider("p", channels=seats, **({"policy": own} if own else {}))
        bench = Bench({"providers": [place], "settings": tuning})
        bench.use(operations=bench.settings.settings.operations)
        reply = await bench.ask()
        assert reply.headers["x-monoize-channel"] == asked
