import pytest

from monoize.errors import InvalidRequest, UnsupportedByTarget
from monoize.protocols import _reading
from monoize.protocols._custom_tools import (
    as_custom_call,
    as_function_arguments,
    as_function_tool,
    custom_names,
)
from monoize.protocols._effort import EFFORTS, budget_for, effort_for
from monoize.protocols._envelopes import answerable, answered, envelopes, turns
from monoize.protocols._extras import nested, refuse_server_state, top_level
from monoize.protocols._ids import legal_id, original_id, shortened
from monoize.protocols._serial import OneAtATime
from monoize.urp import (
    ArgumentsDelta,
    Delta,
    Losses,
    Message,
    PartDone,
    PartStart,
    ProviderItem,
    ResponseDone,
    Role,
    Source,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    UrpRequest,
    replace,
)

# --- ids ---------------------------------------------------------------------------------------------


@pytest.mark.spec("T26")
@pytest.mark.parametrize(
    "call_id", ["call_1", "call_1\n", "functions.f:0", "你好", "", "mzid_x", "a b", "x" * 300]
)
def test_any_id_becomes_legal_and_comes_back(call_id):
    assert original_id(legal_id(call_id)) == call_id


def test_a_legal_id_stays_as_it_is():
    assert legal_id("toolu_01-A_b") == "toolu_01-A_b"


def test_what_only_looks_escaped_stays_as_it_is():
    assert original_id("mzid_!!!") == "mzid_!!!"


@pytest.mark.spec("T26")
def test_a_long_id_is_shortened_to_the_same_short_one():
    long = "call_" + "x" * 100
    assert len(shortened(long, 64)) == 64
    assert shortened(long, 64) == shortened(long, 64) != shortened(long + "y", 64)
    assert len(shortened(long, 9)) == 9
    assert shortened("call_1", 64) == "call_1"


# --- custom tools --------------------------------------------------------------------------------------

PATCH = Tool(
    kind="custom",
    name="apply_patch",
    description="d",
    body={"type": "grammar", "syntax": "lark", "definition": "start: x"},
)


def test_a_custom_tool_becomes_a_function_with_one_string():
    tool = as_function_tool(PATCH)
    assert tool.kind == "function"
    assert tool.parameters["required"] == ["input"]
    assert "start: x" in tool.parameters["properties"]["input"]["description"]
    plain = as_function_tool(Tool(kind="custom", name="x"))
    assert plain.parameters["properties"] == {"input": {"type": "string"}}


def test_a_custom_call_goes_there_and_back():
    call = ToolCall(call_id="c", name="apply_patch", arguments='say "hi"\n', kind="custom")
    function = replace(call, kind="function", arguments=as_function_arguments(call))
    assert as_custom_call(function) == call
    assert as_custom_call(call) is call
    assert as_function_arguments(function) == function.arguments


@pytest.mark.parametrize("arguments", ["not json", "[]", '{"input": 3}', '{"other": "x"}'])
def test_arguments_that_are_not_one_string_are_the_input_themselves(arguments):
    call = ToolCall(call_id="c", name="f", arguments=arguments)
    assert as_custom_call(call).arguments == arguments


def test_knows_which_names_are_custom():
    assert custom_names(UrpRequest(model="m", tools=(PATCH, Tool(name="f")))) == {"apply_patch"}
    assert custom_names(UrpRequest(model="m")) == frozenset()


# --- effort --------------------------------------------------------------------------------------------


@pytest.mark.spec("D8", "T33")
def test_words_and_budgets_are_each_others_inverse_and_keep_their_rank():
    assert [effort_for(budget_for(word)) for word in EFFORTS] == list(EFFORTS)
    assert list(EFFORTS.values()) == sorted(EFFORTS.values())
    assert effort_for(10**9) == "max"
    assert budget_for("ultra") is None


# --- envelopes -------------------------------------------------------------------------------------------


def said(role, text, **more):
    return Message(role=role, parts=(Text(content=text),), **more)


@pytest.mark.spec("D48")
def test_an_envelope_is_replayed_only_when_all_its_messages_stand_together():
    source = Source("messages", {"role": "user"}, span=2)
    pair = [said(Role.TOOL, "a", source=source), said(Role.USER, "b", source=source)]
    other = said(Role.USER, "c")
    assert list(envelopes([*pair, other], "messages")) == [source, (other,)]
    assert list(envelopes([other, *pair], "messages")) == [(other,), source]
    assert list(envelopes(pair[:1], "messages")) == [(pair[0],)]
    assert list(envelopes(pair[::-1], "messages")) == [source]
    assert list(envelopes([pair[0], other, pair[1]], "messages")) == [(pair[0], other, pair[1])]
    assert list(envelopes(pair, "gemini")) == [tuple(pair)]


def calling(*ids):
    made = tuple(ToolCall(call_id=call_id, name="f", arguments="") for call_id in ids)
    return Message(role=Role.ASSISTANT, parts=made)


def answering(call_id):
    return Message(role=Role.TOOL, parts=(ToolResult(call_id=call_id),))


@pytest.mark.spec("T25")
def test_results_move_behind_the_turn_that_called():
    words = Message(role=Role.USER, parts=(Text(content="wait"),))
    a, b, ra, rb, lost = calling("a"), calling("b"), answering("a"), answering("b"), answering("?")
    assert answered([a, b, ra, words, rb]) == (a, b, ra, rb, words)
    assert answered([a, ra, b, words, lost, rb]) == (a, ra, b, rb, words, lost)
    again = calling("a")  # the same id in a later turn
    assert answered([a, ra, words, again, ra]) == (a, ra, words, again, ra)


@pytest.mark.spec("T25")
def test_results_of_native_calls_are_left_out_and_named():
    def native(body, origin="responses"):
        item = ProviderItem(origin_protocol=origin, item_type="shell", body=body)
        return Message(role=Role.ASSISTANT, parts=(item,))

    losses = Losses()
    odd = native({"call_id": []}), native("?"), native({"call_id": "o"}, origin="messages")
    history = (native({"call_id": "s"}), *odd, answering("s"), answering("o"), answering("?"))
    assert answerable(history, "messages", losses) == (*history[:4], *history[5:])
    assert losses.dropped == ("messages[4]",)


def test_turns_join_the_assistant_and_the_results():
    messages = [
        said(Role.USER, "1"),
        said(Role.USER, "2"),
        said(Role.ASSISTANT, "3"),
        said(Role.ASSISTANT, "4"),
        said(Role.TOOL, "5", envelope=3),
        said(Role.TOOL, "6", envelope=3),
        said(Role.USER, "7", envelope=3),
        said(Role.USER, "8"),
    ]
    assert [(role.value, len(run)) for role, run in turns(messages)] == [
        ("user", 1),
        ("user", 1),
        ("assistant", 2),
        ("tool", 3),
        ("user", 1),
    ]
    assert list(turns([])) == []


# --- extras ------------------------------------------------------------------------------------------------


def request(**extra):
    return UrpRequest(
        model="m",
        origin="chat_completion",
        extra_body=extra,
        inherited=frozenset(extra) - {"x_unknown"},
    )


@pytest.mark.spec("URP-5", "T34")
def test_unknown_fields_travel_known_ones_are_reported_nulls_are_not():
    losses = Losses()
    fields = request(x_unknown=1, logit_bias={"1": 2}, prediction=None, taken=3, consumed=4)
    assert top_level(fields, "messages", losses, takes={"taken"}, consumed={"consumed"}) == {
        "x_unknown": 1,
        "taken": 3,
    }
    assert losses.dropped == ("logit_bias",)


def test_an_empty_value_asks_for_nothing():
    extra = {"system": [], "logit_bias": {}, "suffix": "", "stream": False, "kept": 0}
    losses = Losses()
    request = UrpRequest(model="m", origin="x", inherited=frozenset(extra), extra_body=extra)
    assert top_level(request, "y", losses) == {}
    assert losses.dropped == ("kept",)


def test_the_same_dialect_gets_everything():
    fields = request(logit_bias={}, prediction=None)
    assert top_level(fields, "chat_completion", Losses()) == {"logit_bias": {}, "prediction": None}


def test_nested_fields_travel_only_where_the_target_names_them():
    losses = Losses()
    extra = {"cache_control": {}, "foo": 1, "bar": None}
    assert nested(extra, "messages[0]", losses, same=False, takes={"cache_control"}) == {
        "cache_control": {}
    }
    assert losses.dropped == ("messages[0].foo",)
    assert nested(extra, "messages[0]", losses, same=True) == extra


@pytest.mark.spec("D13", "URP-8")
def test_state_on_a_providers_server_is_refused_elsewhere():
    with pytest.raises(UnsupportedByTarget) as caught:
        refuse_server_state(request(previous_response_id="resp_1"))
    assert (caught.value.error_code, caught.value.param) == (
        "server_state_not_supported",
        "previous_response_id",
    )
    refuse_server_state(request(previous_response_id=None, background=False))


# --- one part at a time ------------------------------------------------------------------------------------


def start(index):
    return PartStart(part_index=index, part=ToolCall(call_id=str(index), name="f", arguments=""))


def delta(index, text):
    return Delta(part_index=index, delta=ArgumentsDelta(arguments=text))


def serial(*events):
    line = OneAtATime()
    return [out for event in events for out in line.feed(event)]


@pytest.mark.spec("T3", "T4")
def test_interleaved_parts_come_one_after_the_other():
    out = serial(
        start(0),
        start(1),
        delta(1, "b"),
        delta(0, "a"),
        PartDone(part_index=0),
        delta(1, "c"),
        PartDone(part_index=1),
    )
    assert out == [
        start(0),
        delta(0, "a"),
        PartDone(part_index=0),
        start(1),
        delta(1, "b"),
        delta(1, "c"),
        PartDone(part_index=1),
    ]


def test_the_end_closes_what_is_open_and_lets_the_rest_follow():
    out = serial(
        start(0), start(1), delta(1, "b"), start(2), PartDone(part_index=2), ResponseDone()
    )
    kinds = [(type(e).__name__, getattr(e, "part_index", None)) for e in out]
    assert kinds == [
        ("PartStart", 0),
        ("PartDone", 0),
        ("PartStart", 1),
        ("Delta", 1),
        ("PartDone", 1),
        ("PartStart", 2),
        ("PartDone", 2),
        ("ResponseDone", None),
    ]


# --- reading ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "wire"),
    [
        (_reading.text, 3),
        (_reading.number, "x"),
        (_reading.number, True),
        (_reading.integer, 1.5),
        (_reading.boolean, "true"),
        (_reading.text_list, [1]),
        (_reading.text_list, {}),
        (_reading.items, {}),
        (_reading.optional_object, []),
    ],
)
def test_a_wrong_type_names_its_place(read, wire):
    with pytest.raises(InvalidRequest) as caught:
        read({"field": wire}, "field", "messages[2]")
    assert caught.value.param == "messages[2].field"


def test_right_types_pass():
    assert _reading.integer({"n": 2.0}, "n") == 2
    assert _reading.text_list({"s": "x"}, "s") == ("x",)
    assert _reading.items({"s": None}, "s") == ()
    assert _reading.number({}, "n") is None
    assert _reading.typed("a", str, "p") == "a"
    with pytest.raises(InvalidRequest, match="must be an array, not an object"):
        _reading.typed({}, list, "p")
