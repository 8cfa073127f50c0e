"""What is worked out once for a channel is what would have been worked out each time."""

import pytest

from monoize.pipeline.line import Lines
from monoize.protocol import protocol
from monoize.routing.catalog import Candidate
from monoize.settings import ChannelSettings, ProviderSettings, TimeoutSettings

TIMEOUTS = TimeoutSettings()


def candidate(**channel):
    one = ChannelSettings(
        **{"id": "c", "base_url": "https://p.test/v1", "api_key": "sk-secret-1", **channel}
    )
    provider = ProviderSettings(id="p", type="messages", channels=(one,))
    return Candidate(provider=provider, channel=one, upstream_model="m")


def headers(line, caller, *, stream=False, same_dialect=True):
    return line.headers(protocol("messages"), caller, stream=stream, same_dialect=same_dialect)


def test_a_line_is_made_once_for_a_channel_and_anew_for_a_changed_one():
    lines, first = Lines(), candidate()
    line = lines.of(first, TIMEOUTS)
    assert lines.of(first, TIMEOUTS) is line
    assert lines.of(candidate(base_url="https://q.test"), TIMEOUTS).url("/v1/x") == (
        "https://q.test/v1/x"
    )


def test_the_version_is_not_doubled():
    line = Lines().of(candidate(), TIMEOUTS)
    assert [line.url("/v1/messages"), line.url("/v1/messages")] == [
        "https://p.test/v1/messages"
    ] * 2


def test_made_up_paths_are_not_remembered_without_end():
    line = Lines().of(candidate(), TIMEOUTS)
    for number in range(1000):
        assert line.url(f"/v1/models/{number}") == f"https://p.test/v1/models/{number}"
    assert len(line._urls) < 1000


@pytest.mark.spec("T35")
def test_feature_headers_pass_on_same_protocol_calls_only():
    line, beta = Lines().of(candidate(), TIMEOUTS), {"anthropic-beta": "x", "cookie": "mine"}
    assert headers(line, beta)["anthropic-beta"] == "x"
    assert "anthropic-beta" not in headers(line, beta, same_dialect=False)
    assert "anthropic-beta" not in headers(line, {}), "of another caller"
    assert "cookie" not in headers(line, beta)


def test_the_operators_headers_stand_above_the_callers():
    line = Lines().of(
        candidate(headers={"X-Team": "ours"}, forward_headers=("X-Team", "X-Trace")), TIMEOUTS
    )
    sent = headers(line, {"x-team": "theirs", "x-trace": "t"}, stream=True)
    assert (sent["x-team"], sent["x-trace"], sent["accept"]) == ("ours", "t", "text/event-stream")
    assert headers(line, {})["accept"] == "application/json"
    assert line.with_own({"a": "b"}) == {"a": "b", "x-team": "ours"}


def test_a_reply_that_repeats_the_key_is_scrubbed():
    assert b"sk-secret-1" not in Lines().of(candidate(), TIMEOUTS).discretion().whole(
        b"no sk-secret-1!"
    )
