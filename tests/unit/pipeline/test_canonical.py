"""Answers in the envelope: codes in the specification's words, counts, and media as references."""

import base64
from decimal import Decimal

import pytest
from msgspec import UNSET

from fakes.media_shelf import MemoryShelf
from monoize import errors
from monoize.envelope import CanonicalRequestEnvelope
from monoize.errors import MonoizeError, NoBackend, NoMediaStore, ProviderError
from monoize.media.blob import Blob
from monoize.media.desk import MediaDesk
from monoize.media.fetch import Fetcher
from monoize.money.meter import Metered
from monoize.money.units import Units
from monoize.pipeline.call import Trace
from monoize.pipeline.canonical import (
    backend_info,
    canonical_error,
    succeeded,
    usage_form,
    with_references,
)
from monoize.settings import MediaSettings
from monoize.urp import Usage

PROVIDER = ProviderError(message="no", status=500)


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.spec("S4-2.3", "D27")
@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        (NoBackend("x"), "NoCandidateBackend", False),
        (NoBackend("x", code="missing_capabilities"), "MissingCapabilities", False),
        (NoBackend("x", code="backend_not_enabled"), "BackendNotEnabled", False),
        (errors.ModelNotFound("x"), "NoCandidateBackend", False),
        (errors.RateLimited("x"), "RateLimited", True),
        (errors.UpstreamRefused("x", http_status=429), "RateLimited", True),
        (errors.DeadlinePassed("x"), "Timeout", True),
        (errors.UpstreamTimeout("x"), "Timeout", True),
        (errors.UpstreamFailed("x", provider=PROVIDER), "BackendError", True),
        (errors.UpstreamUnreadable("x"), "BackendError", True),
        (errors.UpstreamRefused("x", http_status=400, code="bad"), "BackendError", False),
        (errors.EngineError("x"), "BackendError", True),
        (errors.DatabaseAway("x"), "BackendError", True),
        (MonoizeError("x"), "BackendError", False),
        (errors.InvalidRequest("x", param="p"), "InvalidRequest", False),
        (errors.InvalidRequest("x", code="unsupported_version"), "InvalidRequest", False),
        (errors.UnsupportedByTarget("x"), "InvalidRequest", False),
        (errors.PayloadTooLarge("x"), "InvalidRequest", False),
        (errors.Unauthorized("x"), "Unauthorized", False),
        (errors.Forbidden("x"), "Forbidden", False),
        (errors.Forbidden("x", code="model_not_allowed"), "Forbidden", False),
        (errors.Forbidden("x", code="model_not_priced"), "Forbidden", False),
        (errors.BudgetExceeded("x"), "BudgetExceeded", False),
        (errors.BudgetExceeded("x", code="insufficient_balance"), "BudgetExceeded", False),
    ],
)
def test_every_error_has_a_code_of_the_specification(error, code, retryable):
    found = canonical_error(error, "embeddings")
    assert (found.code, found.message, found.operation) == (code, "x", "embeddings")
    assert found.retryable is retryable


@pytest.mark.spec("S4-2.3")
def test_when_everybody_failed_another_try_may_do():
    """One that failed says so; two that failed are no worse."""
    assert canonical_error(errors.UpstreamExhausted("x"), "embeddings").retryable is True


@pytest.mark.spec("S4-2.3", "D27")
def test_who_was_looked_at_is_told_and_left_out_of_other_errors():
    error = NoBackend(
        "x",
        required={"operations": ("embeddings",), "features": (), "transports": ("http",)},
        rejected={"a": "asleep", "b": "away"},
    )
    found = canonical_error(error, "embeddings")
    assert found.required.operations == ("embeddings",)
    assert found.candidates_checked == ("a", "b")
    assert found.rejected_reasons == {"a": "asleep", "b": "away"}
    other = canonical_error(errors.InvalidRequest("x"), "embeddings")
    assert (other.required, other.candidates_checked, other.rejected_reasons) == (None,) * 3


# --- the backend ---------------------------------------------------------------------------------


@pytest.mark.spec("S4-2.2")
def test_the_backend_is_the_one_that_answered():
    trace = Trace(provider="p", channel="c", attempts=3)
    info = backend_info(trace, 0.8424)
    assert (info.name, info.instance, info.latency_ms, info.attempts) == ("p", "c", 842, 3)
    assert backend_info(trace, -1.0).latency_ms == 0


@pytest.mark.spec("S4-2.2")
def test_where_nobody_was_asked_there_is_no_backend():
    assert backend_info(Trace(), 1.0) is UNSET


@pytest.mark.spec("S4-2.2")
def test_an_answer_has_what_the_request_was_called():
    asked = CanonicalRequestEnvelope(operation="embeddings", payload={})
    answer = succeeded(asked, "req-1", {"a": 1}, UNSET)
    assert (answer.version, answer.request_id, answer.operation) == (1, "req-1", "embeddings")
    assert answer.result == {"payload": {"a": 1}}
    assert (answer.usage, answer.downgraded, answer.raw, answer.backend) == (UNSET,) * 4
    told = succeeded(asked, "r", {}, UNSET, usage={"x": 1}, downgraded=("less",), raw=None)
    assert (told.usage, told.downgraded, told.raw) == ({"x": 1}, ("less",), None)


# --- counts --------------------------------------------------------------------------------------


@pytest.mark.spec("S4-2.2")
def test_counts_are_told_in_tokens_and_in_pieces():
    usage = Usage(input_tokens=5, output_tokens=0, image_output=3)
    units = Units(images=2, audio_seconds=Decimal("1.5"))
    form = usage_form(Metered(usage=usage, units=units, estimated=False))
    assert form == {
        "input_tokens": 5,
        "output_tokens": 0,
        "image_output": 3,
        "images": 2,
        "audio_seconds": 1.5,
    }
    assert usage_form(Metered(usage=usage, estimated=True))["estimated"] is True


# --- media ---------------------------------------------------------------------------------------


def desk(shelf):
    settings = MediaSettings()
    return MediaDesk(shelf, settings, Fetcher(settings.http_urls))


def of_unknown_size(data):
    async def chunks():
        yield data

    return Blob(mime="audio/mpeg", chunks=chunks)


@pytest.mark.spec("S4-3.2", "S4-3.5")
async def test_what_was_made_is_stored_and_referred_to():
    shelf = MemoryShelf()
    made = {"images": [Blob.of(b"png", "image/png")], "text": "x", "deep": {"a": (1, None)}}
    found = await with_references(made, "key:me", desk(shelf), inline=0)
    (stored,) = shelf.files.values()
    assert (stored.owner, stored.data, stored.mime) == ("key:me", b"png", "image/png")
    reference = {"kind": "sms_file", "uri": f"smsfile://{stored.id}", "mime": "image/png"}
    assert found == {"images": [reference], "text": "x", "deep": {"a": [1, None]}}


@pytest.mark.spec("S4-3.2", "S4-3.5")
@pytest.mark.parametrize(("size", "kind"), [(10, "inline_base64"), (11, "sms_file")])
async def test_small_media_stand_in_the_answer_where_that_is_asked_for(size, kind):
    data = b"x" * size
    found = await with_references(Blob.of(data, "image/png"), "o", desk(MemoryShelf()), inline=10)
    assert found["kind"] == kind
    if kind == "inline_base64":
        assert (found["mime"], base64.b64decode(found["data"])) == ("image/png", data)


@pytest.mark.spec("S4-3.5")
async def test_small_sound_whose_length_nobody_told_is_inline_as_well():
    """A provider's sound comes in chunks: it is small when it has come to its end."""
    shelf = MemoryShelf()
    found = await with_references(of_unknown_size(b"short"), "o", desk(shelf), inline=10)
    assert found == {
        "kind": "inline_base64",
        "mime": "audio/mpeg",
        "data": base64.b64encode(b"short").decode(),
    }
    long = await with_references(of_unknown_size(b"x" * 11), "o", desk(shelf), inline=10)
    assert long["kind"] == "sms_file"
    assert [one.data for one in shelf.files.values()] == [b"x" * 11]


@pytest.mark.spec("S4-3.5")
async def test_without_a_store_there_are_no_references():
    with pytest.raises(NoMediaStore):
        await with_references([Blob.of(b"x", "image/png")], "o", None, inline=0)
    inline = await with_references(Blob.of(b"x", "image/png"), "o", None, inline=10)
    assert inline["kind"] == "inline_base64"
