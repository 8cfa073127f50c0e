"""What each failure means for the request and for the channel."""

import pytest

from monoize import errors
from monoize.errors import ProviderError, UpstreamFailed, UpstreamRefused
from monoize.routing.breaker import Outcome
from monoize.routing.verdict import failure, judged, retry_after

NOW = 1_800_000_000.0  # Fri, 15 Jan 2027 08:00:00 GMT
F, R, N = Outcome.FAILURE, Outcome.RATE_LIMITED, Outcome.NEUTRAL


def said(status, **details):
    return ProviderError(message="no", status=status, details=details or None)


def verdict_of(status, fail_forward_on=()):
    return judged(failure(said(status), status), fail_forward_on, NOW)


@pytest.mark.spec("ROUT-5", "D9")
@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        *((status, F) for status in (408, 409, 425, 500, 501, 502, 503, 504, 520, 529, 599)),
        (429, R),
        (301, F),
        (307, F),
    ],
)
def test_what_may_work_elsewhere_advances(status, outcome):
    verdict = verdict_of(status)
    assert (verdict.advances, verdict.outcome, verdict.skips_provider) == (True, outcome, False)
    assert verdict.status == status


@pytest.mark.spec("ROUT-6", "D9")
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 410, 413, 415, 418, 422, 451])
def test_the_callers_own_mistake_is_final_and_no_fault_of_the_channel(status):
    verdict = verdict_of(status)
    assert (verdict.advances, verdict.outcome, verdict.status) == (False, N, status)


@pytest.mark.spec("D9")
@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_provider_may_list_statuses_that_advance(status):
    verdict = verdict_of(status, (401, 403, 404))
    assert (verdict.advances, verdict.outcome, verdict.skips_provider) == (True, N, False)
    assert not verdict_of(422, (401, 403, 404)).advances


@pytest.mark.spec("ROUT-5", "D9")
@pytest.mark.parametrize(
    "error",
    [errors.UpstreamFailed, errors.UpstreamTimeout, errors.UpstreamUnreadable, errors.EngineError],
)
def test_network_timeout_garbage_and_a_broken_engine_advance(error):
    verdict = judged(error("no"), (), NOW)
    assert (verdict.advances, verdict.outcome, verdict.status) == (True, F, None)


@pytest.mark.parametrize("error", [errors.UnsupportedByTarget, errors.LossRefused])
def test_a_request_that_one_protocol_cannot_carry_skips_that_provider(error):
    verdict = judged(error("no"), (), NOW)
    assert (verdict.advances, verdict.outcome, verdict.skips_provider) == (True, N, True)


@pytest.mark.parametrize(
    "error",
    [
        *(errors.InvalidRequest, errors.Forbidden, errors.ModelNotFound, errors.ConfigError),
        *(errors.RequestTimeout, errors.PayloadTooLarge, errors.MonoizeError),
    ],
)
def test_anything_else_is_final(error):
    verdict = judged(error("no"), (400, 408, 413), NOW)
    assert (verdict.advances, verdict.outcome, verdict.skips_provider) == (False, N, False)


def test_a_rate_limit_hidden_in_a_200_is_one():
    error = failure(said(429), 502)
    assert judged(error, (), NOW).outcome is R


# --- Retry-After ---


@pytest.mark.spec("D9")
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "12"}, 12),
        ({"retry-after": " 12 "}, 12),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "Fri, 15 Jan 2027 08:00:30 GMT"}, 30),
        ({"retry-after": "Fri, 15 Jan 2027 08:00:30 -0000"}, 30),
        ({"retry-after": "Fri, 15 Jan 2027 09:00:30 +0100"}, 30),
        ({"retry-after": "Fri, 15 Jan 2027 07:59:00 GMT"}, None),  # over already
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "1"}, 1),
        *(
            ({"retry-after": text}, None)
            for text in ("", "-1", "nan", "inf", "-inf", "1e999", "soon", "12 s", "\x00", "٣ s")
        ),
        ({"retry-after": "Fri, 99 Jan 2027 08:00:30 GMT"}, None),
        ({"retry-after": "Fri, 15 Jan 99999999999 08:00:30 GMT"}, None),
        ({"retry-after": "9" * 5000}, None),
    ],
)
def test_reads_how_long_to_wait(headers, seconds):
    assert retry_after(headers, NOW) == seconds


@pytest.mark.spec("D9")
@pytest.mark.parametrize(
    ("details", "seconds"),
    [
        ({"retry_after": 7.5}, 7.5),
        ({"retry_after": 7}, 7),
        ({"retry_after": "7"}, 7),
        ({"retry_after": "Fri, 15 Jan 2027 08:00:30 GMT"}, 30),
        ({"other": 7}, None),
        *(
            ({"retry_after": value}, None)
            for value in (None, -1, True, float("nan"), float("inf"), [7], {"s": 7}, 10**400)
        ),
    ],
)
def test_a_verdict_carries_the_wish_of_the_provider(details, seconds):
    error = UpstreamFailed("no", provider=said(503, **details))
    assert judged(error, (), NOW).retry_after == seconds


def test_a_final_refusal_has_no_wish():
    error = UpstreamRefused("no", provider=said(400, retry_after=7), http_status=400)
    assert judged(error, (), NOW).retry_after is None
