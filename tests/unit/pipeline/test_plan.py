"""Before anything is sent: what an envelope asks for, who could do it, and what may be left out."""

import pytest

from fakes.bench import provider
from fakes.operation_engines import Embedder
from fakes.operations_bench import OperationsBench
from monoize.envelope import read_envelope
from monoize.errors import Forbidden, InvalidRequest, NoBackend
from monoize.operation import operation
from monoize.operations._reading import read_payload
from monoize.pipeline.plan import check_model, plain_wants, planned, wants

MEDIA = {"kind": "sms_file", "uri": "smsfile://01J", "mime": "audio/wav"}
KEYS = [{"name": "dev", "key": "sk-dev-0123456789", "models": ["m", "gpt-*"]}]
EAR = {"operations": ["speech_to_text"], "features": ["supports_audio_input"]}


def bench(*rows, operations=None, keys=(), engines=()):
    config = {"providers": list(rows) or [provider("p")], "keys": list(keys)}
    return OperationsBench({**config, "settings": {"operations": operations or {}}}, {}, *engines)


def asked(of, *, who="somebody", operation="embeddings", **more):
    payload = {"model": "m", "input": "hi"}
    return wants(read_envelope({"operation": operation, "payload": payload, **more}), of.kit, who)


def plan(of, name="speech_to_text", *, degrade=False, asks=None, **payload):
    least = {"embeddings": {"input": "hi"}, "speech_to_text": {"audio": MEDIA}}.get(name, {})
    does = operation(name)
    read = read_payload(does.payload_type, {"model": "m", **least, **payload})
    return planned(does, read, asks or plain_wants(name, of.kit), of.kit, degrade=degrade)


def nobody(of, *more, **fields):
    with pytest.raises(NoBackend) as caught:
        plan(of, *more, **fields)
    assert caught.value.http_status == 404
    return caught.value


# --- what the envelope asks for ------------------------------------------------------------------


@pytest.mark.spec("S4-2.1")
def test_hints_and_requirements_narrow_who_may_be_asked():
    found = asked(
        bench(),
        routing={"backend": "p", "backend_allowlist": ["p", "q"], "backend_denylist": ["r"]},
        requirements={
            "required_ops": ["embeddings"],
            "required_features": ["supports_batch"],
            "required_transports": ["websocket"],
            "preferred_backends": ["q", "p"],
        },
    )
    assert (found.backend, found.allowed, found.denied) == ("p", {"p", "q"}, {"r"})
    assert (found.features, found.transports) == ({"supports_batch"}, {"websocket"})
    assert found.preferred == ("q", "p")


@pytest.mark.spec("S4-2.1")
def test_an_envelope_without_hints_asks_for_http_and_nothing_else():
    found = asked(bench())
    assert (found.operation, found.transports, found.features) == ("embeddings", {"http"}, set())
    assert (found.backend, found.allowed, found.denied, found.preferred) == (None, None, set(), ())
    assert (found.policy, found.default_policy, found.pool) == (None, None, False)


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize(
    ("policy", "sticky"),
    [
        ({"key": "session_id", "session_id": "s"}, "s"),
        ({"key": "task_id", "session_id": "s"}, "t"),
        ({"key": "session_id"}, "somebody"),
        ({}, "somebody"),
    ],
)
def test_what_consistent_hashing_keeps_together_is_the_requests_to_say(policy, sticky):
    assert asked(bench(), policy=policy, task_id="t").sticky == sticky


@pytest.mark.spec("S4-2.1")
def test_a_request_may_choose_a_policy_that_the_operator_leaves_to_it():
    assert asked(bench(), policy={"name": "round_robin"}).policy.name == "round_robin"
    with pytest.raises(InvalidRequest) as caught:
        asked(bench(), policy={"name": "hedged"})  # it costs money
    assert caught.value.param == "policy.name"
    allowed = {"embeddings": {"request_policies": ["hedged"]}}
    assert asked(bench(operations=allowed), policy={"name": "hedged"}).policy.name == "hedged"
    with pytest.raises(InvalidRequest):
        asked(bench(operations=allowed), policy={"name": "round_robin"})


@pytest.mark.spec("S4-2.1")
def test_who_is_in_a_hurry_is_sent_to_the_quickest():
    assert asked(bench(), routing={"latency_hint": "low"}).policy.name == "ewma_latency"
    both = {"routing": {"latency_hint": "low"}, "policy": {"name": "priority"}}
    assert asked(bench(), **both).policy.name == "priority"


@pytest.mark.spec("S4-2.1")
def test_a_hurry_is_no_way_round_what_the_operator_allows():
    strict = bench(operations={"embeddings": {"request_policies": []}})
    assert asked(strict, routing={"latency_hint": "low"}).policy is None


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize("policy", ["priority", {"name": "hedged", "legs": 3}])
def test_the_operators_policy_and_pool_hold_for_both_doors(policy):
    of = bench(operations={"embeddings": {"pool": True, "policy": policy}})
    for found in (asked(of), plain_wants("embeddings", of.kit)):
        assert found.pool is True
        assert found.default_policy.name in ("priority", "hedged")
    assert plain_wants("text_to_speech", of.kit).default_policy is None


@pytest.mark.spec("S4-2.1")
def test_every_operation_that_is_required_must_be_there():
    """`required_ops` can be composed: who transcribes and chats, though only one is asked for now."""
    of = bench(provider("ear", capabilities=EAR), provider("p"))
    both = {"required_ops": ["speech_to_text", "chat_completions"]}
    found = asked(of, operation="speech_to_text", requirements=both)
    lone = bench(provider("ear", capabilities=EAR))
    assert nobody(lone, asks=found).error_code == "missing_capabilities"


# --- the key -------------------------------------------------------------------------------------


@pytest.mark.spec("PIPE-2")
@pytest.mark.parametrize(("model", "may"), [("m", True), ("gpt-x", True), ("other", False)])
def test_a_keys_models_hold_for_every_operation(model, may):
    of = bench(keys=KEYS)
    incoming = of.incoming({}, key="dev")
    if may:
        check_model(incoming, model)
    else:
        with pytest.raises(Forbidden):
            check_model(incoming, model)


# --- who could do it -----------------------------------------------------------------------------


@pytest.mark.spec("S4-2.3", "D27")
def test_who_was_looked_at_and_why_not_is_told():
    rows = [
        provider("chats", "messages"),
        provider("hears", capabilities=EAR),
        provider("other", models={"n": {}}),
        provider("off", enabled=False),
    ]
    error = nobody(bench(*rows), timestamps=True)
    assert error.error_code == "missing_capabilities"
    assert error.rejected == {
        "chats": "missing operation: speech_to_text",
        "hears": "missing features: supports_timestamps",
        "other": "does not offer the model 'm'",
        "off": "provider is disabled",
    }
    assert error.required == {
        "operations": ("speech_to_text",),
        "features": ("supports_audio_input", "supports_timestamps"),
        "transports": ("http",),
    }
    assert all(name in error.message for name in error.rejected)


@pytest.mark.spec("D27")
@pytest.mark.parametrize(
    ("row", "code"),
    [
        (provider("p", enabled=False), "backend_not_enabled"),
        (provider("p", models={"n": {}}), "no_candidate_backend"),
        (provider("p", "messages"), "missing_capabilities"),
        (provider("p", capabilities={"limits": {"max_inputs": 1}}), "missing_capabilities"),
    ],
)
def test_the_reason_has_a_code(row, code):
    assert nobody(bench(row), "embeddings", input=["a", "b"]).error_code == code


@pytest.mark.spec("D27")
def test_a_gateway_without_providers_says_so():
    of = OperationsBench({"providers": []})
    error = nobody(of)
    assert (error.error_code, error.rejected) == ("no_candidate_backend", {})
    assert "none is configured" in error.message


@pytest.mark.spec("D27")
def test_for_pictures_it_says_what_to_configure():
    here = {"id": "here", "type": "local", "engine": "embedder", "models": {"m": {}}}
    error = nobody(bench(here, engines=[Embedder()]), "image_generation", prompt="a dot")
    assert error.error_code == "missing_capabilities"
    assert "image_generation" in error.message
    assert "gemini" in error.message


@pytest.mark.spec("D27")
def test_channels_that_are_all_switched_off_are_nobody():
    """Nothing can be sent, so nothing is promised: 404 with the reason, not a failure of the provider's."""
    channel = {"id": "main", "base_url": "http://p", "enabled": False}
    error = nobody(bench(provider("p", channels=[channel])), "embeddings")
    assert "disabled" in error.rejected["p"]


@pytest.mark.spec("D11")
def test_one_that_is_only_unwell_may_still_be_asked():
    of = bench(provider("p", health={"failure_threshold": 1}))
    candidate = next(iter(of.kit.catalog.candidates("m")))
    breaker = of.kit.board.breaker(candidate.provider, candidate.channel, "m")
    from monoize.routing.breaker import Outcome

    permit = breaker.admit(of.clock.monotonic())
    permit.settle(Outcome.FAILURE, of.clock.monotonic())
    assert not breaker.eligible(of.clock.monotonic())
    assert plan(of, "embeddings").asks.model == "m"


# --- doing without (D28) -------------------------------------------------------------------------


@pytest.mark.spec("D28", "S4-4")
def test_nothing_is_left_out_unless_the_request_allows_it():
    of = bench(provider("p", capabilities=EAR))
    assert nobody(of, timestamps=True).error_code == "missing_capabilities"
    done = plan(of, timestamps=True, degrade=True)
    assert done.payload.timestamps is False
    assert done.asks.features == {"supports_audio_input"}
    (told,) = done.downgraded
    assert "timestamps" in told


@pytest.mark.spec("D28")
def test_nothing_is_left_out_where_somebody_can_do_it_all():
    of = bench(provider("p", capabilities=EAR), provider("q"))
    done = plan(of, timestamps=True, degrade=True)
    assert (done.payload.timestamps, done.downgraded) == (True, ())


@pytest.mark.spec("D28")
def test_what_nobody_can_do_without_is_refused_in_any_case():
    of = bench(provider("p", capabilities=EAR))
    assert nobody(of, diarization=True, degrade=True).error_code == "missing_capabilities"


@pytest.mark.spec("D28", "S4-2.1")
def test_a_feature_that_the_request_itself_requires_is_never_left_out():
    """`required_features` are what the caller insists on, whatever the payload could do without."""
    of = bench(provider("p", capabilities=EAR))
    insists = asked(
        of,
        operation="speech_to_text",
        requirements={"required_features": ["supports_timestamps"]},
    )
    assert nobody(of, timestamps=True, degrade=True, asks=insists).error_code == (
        "missing_capabilities"
    )
