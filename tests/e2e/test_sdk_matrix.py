"""The vendors' own SDKs against the running gateway: every caller protocol times every provider protocol."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fakes.gateway import GatewayProcess
from fakes.scenarios import AFTER_RESULTS, SCENARIOS, Think, Tokens
from fakes.sdk import CONVERSATIONS, TOOLS, Call, Clients, Conversation
from fakes.speakers import SPEAKERS
from fakes.upstream import FakeUpstream

pytestmark = [
    pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"]),
    pytest.mark.parametrize("provider", SPEAKERS),
    pytest.mark.parametrize("caller_protocol", CONVERSATIONS),
]


@pytest.fixture(scope="module")
def clients(gateway: GatewayProcess) -> Iterator[Clients]:
    found = Clients(gateway.port)
    yield found
    found.close()


@pytest.fixture
def begin(clients: Clients, upstream: FakeUpstream, caller_protocol: str, provider: str):
    """A conversation with the provider's model of that behaviour."""

    def begun(scenario: str) -> Conversation:
        return clients.conversation(caller_protocol, f"{provider}.{scenario}")

    return begun


def whole(tokens: Tokens) -> tuple[int, int, int]:
    return tokens.input, tokens.cached, tokens.output


def named(calls: list[Call]) -> list[tuple[str, dict]]:
    return [(call.name, call.arguments) for call in calls]


@pytest.mark.spec("D15", "D16", "T8", "T12")
@pytest.mark.parametrize("scenario", ["text", "tools", "text_then_tool", "parallel", "bare_call"])
def test_answers_read_the_same_whatever_the_provider_speaks(begin, provider, stream, scenario):
    said = SCENARIOS[scenario].turns[0]

    got = begin(scenario).ask(stream=stream)

    assert got.text == said.text
    assert named(got.calls) == said.calls
    assert got.finish == said.finish
    assert whole(got.tokens) == whole(said.tokens)
    assert got.thoughts == ""
    assert got.model == f"{provider}.{scenario}"


@pytest.mark.spec("T1", "T3", "T26")
def test_parallel_calls_keep_apart(begin, caller_protocol, stream):
    got = begin("parallel").ask(stream=stream)

    ids = [call.id for call in got.calls]
    assert len(set(ids)) == 3 or (caller_protocol == "gemini" and set(ids) == {""})


@pytest.mark.spec("T22", "T7")
def test_reasoning_is_shown_as_reasoning_and_never_as_text(begin, stream):
    said = SCENARIOS["reasoning"].turns[0]

    got = begin("reasoning").ask(stream=stream)

    assert got.text == ""
    assert "".join(got.thoughts.split()) == "".join(said.thoughts.split())
    assert named(got.calls) == said.calls
    assert got.finish == "tool_calls"
    assert whole(got.tokens) == whole(said.tokens)


@pytest.mark.spec("T7")
def test_an_answer_cut_by_the_token_limit_says_so(begin, stream):
    got = begin("length").ask(stream=stream)

    assert got.text == SCENARIOS["length"].turns[0].text
    assert got.finish == "length"


@pytest.mark.spec("T32", "T7")
def test_a_refusal_does_not_look_like_a_success(begin, caller_protocol, provider, stream):
    """Anthropic and Google have no refusal content: there the words are text or missing, the reason counts."""
    got = begin("refusal").ask(stream=stream)

    if caller_protocol in ("messages", "gemini") and provider in (
        "chat_completion",
        "responses",
        "grok",
    ):
        assert got.finish == "refusal" or "I cannot help with that." in got.text
    else:
        assert got.finish == "refusal"
    if provider != "gemini":
        assert "I cannot help with that." in got.text + got.refusal


@pytest.mark.spec("T19", "T20", "T21", "T25", "D47")
@pytest.mark.parametrize("scenario", ["reasoning", "tools", "parallel"])
def test_what_a_provider_sealed_comes_back_on_the_next_turn(
    begin, upstream, provider, stream, scenario
):
    said = SCENARIOS[scenario].turns[0]
    talk = begin(scenario)
    first = talk.ask(stream=stream)
    results = [(call, f"result {n} of {call.name}") for n, call in enumerate(first.calls)]
    talk.answer_calls(results)

    second = talk.ask(stream=stream)

    heard = upstream.last.heard
    assert heard.seals == SPEAKERS[provider].seals(said)
    assert [(name, given) for _, name, given in heard.calls] == said.calls
    assert heard.unpaired() == []
    assert [text for _, text in heard.results] == [text for _, text in results]
    assert heard.said == [("user", "How is the weather?")]
    assert heard.tools == list(TOOLS)
    assert second.text == AFTER_RESULTS.text


@pytest.mark.spec("T25", "T26")
def test_results_out_of_order_stay_with_their_calls(begin, upstream, caller_protocol, stream):
    talk = begin("parallel")
    first = talk.ask(stream=stream)
    if not all(call.id for call in first.calls):
        pytest.skip("without ids Google pairs results by their order")
    talk.answer_calls([(call, f"for {call.name} {call.arguments}") for call in first.calls[::-1]])

    talk.ask(stream=stream)

    heard = upstream.last.heard
    asked = {call_id: f"for {name} {given}" for call_id, name, given in heard.calls}
    assert dict(heard.results) == asked


@pytest.mark.spec("T26")
def test_ids_of_calls_differ_over_the_whole_conversation(begin, upstream, caller_protocol, stream):
    talk = begin("chain")
    seen: list[str] = []
    for _ in range(2):
        got = talk.ask(stream=stream)
        seen += [call.id for call in got.calls]
        talk.answer_calls([(call, "21") for call in got.calls])

    assert talk.ask(stream=stream).text == AFTER_RESULTS.text
    assert len(set(seen)) == 2 or (caller_protocol == "gemini" and set(seen) == {""})
    assert upstream.last.heard.unpaired() == []
    assert len(upstream.last.heard.calls) == 2


@pytest.mark.spec("T22")
def test_thoughts_of_an_earlier_turn_never_reach_the_provider_as_text(begin, upstream, stream):
    talk = begin("reasoning")
    first = talk.ask(stream=stream)
    talk.answer_calls([(call, "21") for call in first.calls])
    talk.ask(stream=stream)

    thoughts = [part.text for part in SCENARIOS["reasoning"].turns[0].of(Think)]
    assert not any(thought in text for _, text in upstream.last.heard.said for thought in thoughts)
