"""What is remembered between rounds changes no result, and never more than was asked for is kept."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.agent_replies import PROFILES, Said, reply, text_syntax
from fakes.agent_world import BROKEN, answer, call, in_virtual_time, world
from monoize.agent.boundary.gate import CallComplete, StreamGate, TextReleased
from monoize.agent.boundary.protocol_adapter import adapt
from monoize.agent.boundary.strict_json import NotStrict, members, names_a_field_twice, object_of
from monoize.agent.canonical_json import canonical, canonical_without_floats
from monoize.agent.contract import ExecutionContract, contract_hash, sealed
from monoize.agent.machine.events import Event, InferenceFailed, Interrupted, Proceed
from monoize.agent.machine.recording import event_json
from monoize.agent.manifest import ToolManifest, ToolSpec
from monoize.agent.outcome import AgentOutcome, Failure, FailureCode
from monoize.agent.profile import profile
from monoize.agent.remembered import Remembered

EACH = pytest.mark.parametrize("name", PROFILES)
NATIVE = pytest.mark.parametrize("name", [n for n in PROFILES if not text_syntax(n)])
WEATHER = ToolSpec(
    name="get_weather", parameters={"type": "object", "properties": {"city": {"type": "string"}}}
)
TOOLS = ToolManifest(tools=(WEATHER, ToolSpec(name="list_files")))
CALL = ("call_a", "get_weather", '{"city": "Rome"}')


# --- by identity ---


def test_a_result_is_made_once_for_each_value_and_not_for_its_twin():
    asked = []
    size = Remembered(lambda value: asked.append(value) or len(value))
    one, twin = {"a": 1}, {"a": 1}
    assert [size(one), size(one), size(twin)] == [1, 1, 1]
    assert len(asked) == 2
    assert asked[1] is twin


def test_no_more_than_was_allowed_is_kept():
    asked = []
    same = Remembered(lambda value: asked.append(value) or value, most=3)
    values = [[number] for number in range(50)]
    assert [same(value) for value in values] == values
    assert same(values[0]) is values[0]
    assert len(asked) == 51  # the first one was long forgotten


def test_what_cannot_be_made_is_tried_again():
    def refuse(value):
        raise ValueError(str(value))

    made = Remembered(refuse)
    for _ in range(2):
        with pytest.raises(ValueError, match="x"):
            made("x")


# --- the contract ---


@pytest.mark.spec("S5-B", "D44")
def test_a_contract_that_is_changed_under_our_hands_has_another_hash_at_once():
    limits = {"look": 3}
    contract = sealed(ExecutionContract(model="m", per_tool_calls=limits))
    assert contract_hash(contract) == contract.contract_hash
    limits["look"] = 4
    assert contract_hash(contract) != contract.contract_hash
    limits["look"] = 3
    assert contract_hash(contract) == contract.contract_hash
    msgspec.structs.force_setattr(contract, "max_inferences", 1000)
    assert contract_hash(contract) != contract.contract_hash


# --- canonical JSON ---

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


@given(_JSON)
def test_the_short_way_writes_what_the_long_way_writes(value):
    def written(write, value):
        try:
            return write(value)
        except ValueError as refused:
            return str(refused)

    plain = json.loads(json.dumps(value).replace("\\u", "u"))  # names within ASCII
    assert written(canonical_without_floats, plain) == written(canonical, plain)


# --- events ---

_FAILURE = Failure(outcome=AgentOutcome.FAILED_PROVIDER, code=FailureCode.REFUSED, reason="no")


@pytest.mark.spec("S5-E")
@pytest.mark.parametrize(
    ("event", "told"),
    [
        (Proceed(elapsed_ms=1), {"kind": "proceed"}),
        (
            Interrupted(elapsed_ms=1),
            {"kind": "interrupted", "code": "user_interrupt", "reason": "interrupted"},
        ),
        (
            InferenceFailed(elapsed_ms=1, failure=_FAILURE, request=b"q", raw=b"r"),
            {
                "kind": "inference_failed",
                "failure": {"outcome": "FAILED_PROVIDER", "code": "refused", "reason": "no"},
                "streamed": False,
                "spent": {"input_tokens": 0, "output_tokens": 0, "estimated": False},
                "retryable": False,
            },
        ),
    ],
    ids=["proceed", "interrupted", "inference_failed"],
)
def test_an_event_is_told_without_its_bytes_and_its_time(event: Event, told):
    assert event_json(event) == told


@pytest.mark.spec("S5-E", "D45")
@pytest.mark.parametrize("policy", ["optional", "forbidden"])
@EACH
def test_what_a_run_says_of_itself_is_kept_in_its_one_form(name, policy):
    turns = [call(("look", {"path": "a"})), call(("look", BROKEN)), answer("Done. \u00fc")]
    made = world(name, turns, tool_policy=policy, max_format_retries=1, max_tokens_consumed=10_000)
    in_virtual_time(made.live())
    record = made.record
    for entry in record.entries:
        hashes = [entry.meta_hash]
        if entry.from_ != "INFER":  # there they are what went over the wire
            hashes += [entry.action_hash]
        if entry.from_ not in ("INFER", "EXECUTE"):
            hashes += [entry.result_hash]
        for written in filter(None, map(record.payload, hashes)):
            assert canonical(json.loads(written)) == written
    assert any(entry.to == "TERMINATE" for entry in record.entries)


# --- names that stand twice ---


def _reference(document):
    def once(pairs):
        if len(dict(pairs)) != len(pairs):
            raise LookupError
        return dict(pairs)

    try:
        json.JSONDecoder(object_pairs_hook=once).decode(document)
    except LookupError:
        return True
    except (ValueError, RecursionError):
        return False
    return False


_TWICE = '{"a":1,"a":2}'


@pytest.mark.spec("S5-4.2")
@pytest.mark.parametrize(
    ("documents", "twice"),
    [
        (("[DONE]", '{"a":1}', '{"a":{"a":1},"b":"\\"a\\":"}'), False),
        (('{"a":1}', _TWICE), True),
        (('{"a":1', '"a":2}'), False),  # together they would be one object
        (('"', '{",":1,",":2}', '"'), True),  # together they would be three strings
        (("1]", _TWICE), True),  # together the array would end too early
        (("not JSON", _TWICE), True),
        ((r'{"a":1,"\u0061":2}',), True),
        ((r'{"a\/":1,"a/":"x"}',), True),
        ((r'{"a":"\u0022","a":"x"}',), True),  # a quote more for the one that is gone
        (('{ "a" : 1 , "b" : [ ] , "c" : 1.50 }', "{}"), False),
        (('{"a":NaN,"a":1}',), True),
        (('{"a":1e999,"b":12345678901234567890123}',), False),
        (('{"a":"\ud800","a":1}',), True),
        (("[" * 5000,), False),
        ((), False),
    ],
)
def test_documents_of_a_stream_are_judged_as_if_each_stood_alone(documents, twice):
    assert names_a_field_twice(*documents) is twice
    assert any(map(_reference, documents)) is twice


_TOKENS = st.sampled_from(
    [*'{}[],:" \n\\1x', '"a"', '"a":1', '"b":{}', "\\u0061", '\\"', _TWICE, "[DONE]"]
)
_DOCUMENTS = st.lists(st.lists(_TOKENS, max_size=7).map("".join), max_size=4)


@given(_DOCUMENTS)
def test_no_pieces_of_json_hide_a_name_that_stands_twice(documents):
    assert names_a_field_twice(*documents) is any(map(_reference, documents))


@given(st.lists(_TOKENS, max_size=9).map("".join) | _JSON.map(json.dumps))
def test_an_object_read_at_once_is_the_one_read_field_by_field(text):
    def at_once():
        return object_of(text)

    def by_field():
        found, end = members(text, 0)
        if text[end:].strip(" \t\r\n"):
            raise NotStrict("trailing_text", f"something follows the object at character {end}")
        return {name: member.value for name, member in found.items()}

    results = []
    for read in (at_once, by_field):
        try:
            results.append(read())
        except NotStrict as mistake:
            results.append((mistake.code, mistake.reason))
    assert results[0] == results[1]


# --- what the gate has read ---


def _gate(name, **more):
    return StreamGate(TOOLS, profile(name), expects="any", streamed=True, **more)


@pytest.mark.spec("S5-4.2")
@EACH
@pytest.mark.parametrize("size", [1, 29, 10_000])
@pytest.mark.parametrize("cut", [None, 2])
def test_the_adapter_makes_the_same_of_a_reply_that_the_gate_has_read(name, size, cut):
    reread = 0
    for said in (
        Said(text="I look.", calls=(CALL, ("b", "list_files", "{}"))),
        Said(text="Done.", reasoning="hm"),
        Said(calls=(("c", "get_weather", '{"city": "x", "city": "y"}'),)),
    ):
        raw = reply(name, said, streamed=True, cut=cut)
        gate = _gate(name, gated=False)
        for at in range(0, len(raw), size):
            gate.feed(raw[at : at + size])
        reading = gate.whole_reading()
        reread += reading is None
        for strict in (True, False):
            anew = adapt(raw, profile=profile(name), streamed=True, strict=strict, salt="s")
            assert anew == adapt(
                raw,
                profile=profile(name),
                streamed=True,
                strict=strict,
                salt="s",
                reading=reading,
            )
        gate.finish()  # goes on as if nobody had asked
    assert reread < 3


@NATIVE
def test_a_stream_that_the_gate_could_not_read_is_read_by_nobody_else_through_it(name):
    gate = _gate(name, gated=False)
    gate.feed(b"data: {\xff}\n\n")
    assert gate.whole_reading() is None


@pytest.mark.spec("S5-4.2")
def test_ids_that_had_to_be_made_up_are_the_adapters():
    name = "native_gemini"
    raw = reply(name, Said(calls=((None, "list_files", "{}"),)), streamed=True)
    gate = _gate(name, gated=False)
    gate.feed(raw)
    assert gate.whole_reading() is None


# --- calls that nobody waits for ---

_BAD = ("call_b", "get_weather", '{"city": 1}')


@pytest.mark.spec("S5-F")
@NATIVE
@pytest.mark.parametrize("calls", [(), (CALL,), (_BAD,), (CALL, _BAD)], ids=len)
@pytest.mark.parametrize("size", [7, 10_000])
def test_words_get_out_alike_whether_or_not_calls_are_told(name, calls, size):
    raw = reply(name, Said(text="I look. ", calls=calls), streamed=True)
    said = []
    for tells in (True, False):
        gate = _gate(name, gated=False, tells_calls=tells)
        pieces = [
            piece for at in range(0, len(raw), size) for piece in gate.feed(raw[at : at + size])
        ]
        pieces += gate.finish()
        said.append([piece for piece in pieces if isinstance(piece, TextReleased)])
        assert tells or not any(isinstance(piece, CallComplete) for piece in pieces)
    assert said[0] == said[1]


@pytest.mark.spec("S5-F")
@pytest.mark.parametrize(("asked", "told"), [(CALL, "later words"), (_BAD, "")])
@pytest.mark.parametrize("tells", [True, False])
def test_words_behind_a_bad_call_stay_inside(asked, told, tells):
    name = "native_chat_completion"
    *before, last, done = reply(name, Said(calls=(asked,)), streamed=True).split(b"data: ")[1:]
    later = json.loads(last)
    later["choices"] = [{"index": 0, "delta": {"content": "later words"}, "finish_reason": None}]
    raw = b"".join(
        b"data: " + piece for piece in (*before, last, json.dumps(later).encode() + b"\n\n", done)
    )
    gate = _gate(name, gated=False, tells_calls=tells)
    pieces = [*gate.feed(raw), *gate.finish()]
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextReleased)) == told


@pytest.mark.spec("S5-F")
@NATIVE
def test_where_it_is_gated_calls_are_told_whoever_wants_them(name):
    gate = _gate(name, gated=True, tells_calls=False)
    pieces = [*gate.feed(reply(name, Said(text="x", calls=(CALL,)), streamed=True)), *gate.finish()]
    assert any(isinstance(piece, CallComplete) for piece in pieces)
