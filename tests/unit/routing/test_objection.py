"""Why a provider is passed over, in which order the reasons are looked for, and how a caller is told."""

from decimal import Decimal

import pytest

from monoize.routing.breaker import Outcome
from monoize.routing.capability import Capabilities
from monoize.routing.catalog import Catalog
from monoize.routing.health import HealthBoard
from monoize.routing.survey import Wanted, explained, objection, surveyed
from monoize.settings import (
    CapabilitySettings,
    ChannelSettings,
    HealthSettings,
    ModelSettings,
    ProviderSettings,
)

CAN = Capabilities(
    operations=frozenset({"chat_completions", "speech_to_text"}),
    features=frozenset({"supports_timestamps", "supports_language"}),
    transports=frozenset({"http"}),
    limits={"max_audio_seconds": 30, "max_bytes": 67108864, "max_ratio": 0.5},
)
EVERYTHING_WRONG = {
    "operation": "embeddings",
    "features": frozenset({"supports_b", "supports_a", "supports_language"}),
    "transports": frozenset({"websocket", "grpc", "http"}),
    "amounts": {"max_audio_seconds": 45.5},
    "backend": "q",
    "allowed": frozenset({"q"}),
    "denied": frozenset({"p"}),
}
IN_ORDER = [
    ("operation", "missing operation: embeddings"),
    ("features", "missing features: supports_a, supports_b"),
    ("transports", "missing transports: grpc, websocket"),
    ("amounts", "max_audio_seconds is 30, the request has 45.5"),
    ("backend", "not the named backend"),
    ("allowed", "not on the allow list"),
    ("denied", "on the deny list"),
]


def said(**fields):
    against = objection(Wanted(model="m", **fields), "p", CAN)
    return against and against.reason


@pytest.mark.spec("S4-2.1", "S4-2.3", "D27")
def test_the_first_reason_in_order_is_the_one_that_is_told():
    asked = dict(EVERYTHING_WRONG)
    for field, reason in IN_ORDER:
        assert said(**asked) == reason
        assert said(**{field: EVERYTHING_WRONG[field]}) == reason  # alone, too
        del asked[field]
    assert said(**asked) is None


@pytest.mark.spec("S4-2.1", "S4-3.5")
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, None),
        ({"operation": "speech_to_text", "features": CAN.features}, None),
        ({"operations": frozenset({"speech_to_text"})}, None),
        (
            {"operations": frozenset({"speech_to_text", "embeddings", "realtime_voice"})},
            "missing operation: embeddings, realtime_voice",
        ),
        ({"transports": frozenset()}, None),
        ({"amounts": {"max_audio_seconds": 30}}, None),  # as much as the limit is not over it
        (
            {"amounts": {"max_audio_seconds": 30.01}},
            "max_audio_seconds is 30, the request has 30.01",
        ),
        ({"amounts": {"max_bytes": 67108865}}, "max_bytes is 67108864, the request has 67108865"),
        ({"amounts": {"max_ratio": 1}}, "max_ratio is 0.5, the request has 1"),
        ({"amounts": {"max_chars": 10**9}}, None),  # what has no limit here is not limited
        ({"backend": "p"}, None),
        ({"backend": "P"}, "not the named backend"),
        ({"allowed": frozenset({"p", "q"})}, None),
        ({"allowed": frozenset()}, "not on the allow list"),
        ({"denied": frozenset({"q"})}, None),
        ({"allowed": frozenset({"p"}), "denied": frozenset({"p"})}, "on the deny list"),
    ],
)
def test_what_is_said_against_a_provider(fields, reason):
    assert said(**fields) == reason


# --- everybody who is configured ---


def provider(id, type="chat_completion", models=("m",), channels=("main",), **fields):
    seats = tuple(ChannelSettings(id=c) if isinstance(c, str) else c for c in channels)
    rows = models if isinstance(models, dict) else {name: ModelSettings() for name in models}
    return ProviderSettings(id=id, type=type, models=rows, channels=seats, **fields)


def explanation(*providers, board=None, **fields):
    wanted = Wanted(**{"model": "m", **fields})
    return explained(wanted, Catalog(providers), board or HealthBoard(HealthSettings()), 0.0)


OFF = ChannelSettings(id="off", enabled=False)


@pytest.mark.spec("S4-2.3", "D27")
def test_everybody_is_looked_at_and_everybody_gets_a_reason():
    dear = {"m": ModelSettings(multiplier="3")}
    plain = {"m": ModelSettings(capabilities=CapabilitySettings(features=()))}
    found = explanation(
        provider("gone", enabled=False),
        provider("claude", "messages"),
        provider("claude-too", "messages", models=("other",)),
        provider("elsewhere", models=("other",)),
        provider("plain", models=plain),
        provider("dear", models=dear),
        provider("shut", channels=(OFF, ChannelSettings(id="none", weight=0))),
        provider("good"),
        operation="embeddings",
        features=frozenset({"supports_batch"}),
        ceiling=Decimal(2),
    )
    assert found.candidates_checked == (
        *("gone", "claude", "claude-too", "elsewhere", "plain", "dear", "shut", "good"),
    )
    assert found.rejected_reasons == {
        "gone": "provider is disabled",
        "claude": "missing operation: embeddings",
        "claude-too": "missing operation: embeddings",
        "elsewhere": "does not offer the model 'm'",
        "plain": "missing features: supports_batch",
        "dear": "multiplier 3 is above the ceiling 2",
        "shut": "off: channel is disabled; none: weight is 0",
    }
    assert found.code is None


@pytest.mark.spec("S4-2.3", "D27")
@pytest.mark.parametrize(
    ("providers", "fields", "code"),
    [
        ((), {}, "no_candidate_backend"),
        ((provider("p", "messages"),), {"operation": "embeddings"}, "missing_capabilities"),
        (
            (provider("p", "messages"), provider("q", enabled=False)),
            {"operation": "embeddings"},
            "missing_capabilities",
        ),
        # Somebody could, were it their model; but those who have it cannot.
        (
            (provider("p", "messages"), provider("q", models=("n",))),
            {"operation": "embeddings"},
            "missing_capabilities",
        ),
        ((provider("q", models=("n",)),), {"operation": "embeddings"}, "no_candidate_backend"),
        (
            (provider("p", "messages", models=("n",)), provider("q", "grok", models=("n",))),
            {"operation": "speech_to_text"},
            "missing_capabilities",
        ),
        ((provider("p", enabled=False),), {}, "backend_not_enabled"),
        ((provider("p", enabled=False), provider("q")), {"backend": "p"}, "backend_not_enabled"),
        ((provider("p"),), {"backend": "nobody"}, "no_candidate_backend"),
        (
            (provider("p", "messages"),),
            {"backend": "x", "operation": "embeddings"},
            "no_candidate_backend",
        ),
        (
            (provider("p"), provider("q", "messages")),
            {"backend": "q", "operation": "embeddings"},
            "missing_capabilities",
        ),
        ((provider("p"),), {"denied": frozenset({"p"})}, "no_candidate_backend"),
        ((provider("p", channels=(OFF,)),), {}, "no_candidate_backend"),
        ((provider("p"),), {}, None),
    ],
)
def test_the_code_tells_what_is_to_be_mended(providers, fields, code):
    assert explanation(*providers, **fields).code == code


@pytest.mark.spec("D11", "S4-2.3")
def test_one_that_is_only_unwell_may_still_be_asked():
    place = provider("p", channels=("a", "b", OFF))
    board = HealthBoard(HealthSettings(failure_threshold=1, cooldown_seconds=9))
    for channel in place.channels[:2]:
        board.breaker(place, channel, "m").admit(0).settle(Outcome.FAILURE, 0)
    found = explanation(place, board=board)
    assert found.rejected_reasons == {
        "p": "a: unhealthy for 9 s more; b: unhealthy for 9 s more; off: channel is disabled"
    }
    assert found.code is None


@pytest.mark.spec("D28")
def test_tells_who_would_do_but_for_some_features():
    bare = {"m": ModelSettings(capabilities=CapabilitySettings(features=("supports_language",)))}
    found = explanation(
        provider("would", models=bare),
        provider("denied", models=bare),
        provider("shut", models=bare, channels=(OFF,)),
        provider("claude", "messages"),
        operation="speech_to_text",
        features=frozenset({"supports_language", "supports_diarization", "supports_timestamps"}),
        denied=frozenset({"denied"}),
    )
    assert found.lacking == {"would": {"supports_diarization", "supports_timestamps"}}
    assert set(found.rejected_reasons) == {"would", "denied", "shut", "claude"}
    assert found.code == "missing_capabilities"


# --- the survey ---


def test_the_dry_run_names_what_is_missing():
    embedder = ProviderSettings(
        id="here", type="local", engine="minilm", models={"m": ModelSettings()}
    )
    known = {"minilm": Capabilities(operations=frozenset({"embeddings"}))}
    catalog = Catalog((embedder, provider("p", "messages")), known)
    found = surveyed(Wanted(model="m"), catalog, HealthBoard(HealthSettings()), 0.0)
    assert [(o.provider.id, o.channel and o.channel.id, o.reason) for o in found] == [
        ("here", None, "missing operation: chat_completions"),
        ("p", "main", None),
    ]
