import msgspec
import pytest

import monoize.urp
from monoize.urp import (
    EMPTY,
    Losses,
    Message,
    Role,
    Source,
    Text,
    UrpRequest,
    bare,
    renamed,
    replace,
)
from monoize.urp.extra_body import flattened, rest


def test_values_cannot_be_changed():
    text = Text(content="a")
    with pytest.raises(AttributeError):
        text.content = "b"  # type: ignore[misc]


def test_a_changed_value_has_no_source_and_its_neighbours_keep_theirs():
    parts = tuple(Text(content=c, source=Source("messages", {"text": c})) for c in "ab")
    changed = replace(parts[0], content="c")
    assert changed.source is None
    assert parts[1].source is not None


def test_another_model_name_keeps_the_source():
    request = UrpRequest(model="a", source=Source("messages", {"model": "a"}))
    assert renamed(request, "b").source is request.source
    assert renamed(request, "b").model == "b"


def test_bare_forgets_sources_at_every_level():
    message = Message(
        role=Role.USER, parts=(Text(content="a", source=Source("x", 1)),), source=Source("x", 2)
    )
    assert bare(message) == Message(
        role=Role.USER, parts=(Text(content="a", extra_body={}),), extra_body={}
    )


@pytest.mark.spec("URP-1", "URP-3")
@pytest.mark.parametrize("kind", [UrpRequest, Message])
def test_a_request_has_a_model_and_a_message_has_a_role(kind):
    with pytest.raises(TypeError, match="model" if kind is UrpRequest else "role"):
        kind()


@pytest.mark.spec("URP-2", "URP-3")
def test_messages_and_parts_are_ordered_and_may_be_none():
    assert UrpRequest(model="m").messages == ()
    assert Message(role=Role.USER).parts == ()
    parts = tuple(Text(content=c) for c in "ba")
    assert [p.content for p in Message(role=Role.USER, parts=parts).parts] == ["b", "a"]


# What never stands on the wire as an object: the wire itself, the frame around events, what did not fit.
NOT_JSON = {"Frame", "Losses", "Source", "WireEvent"}
STRUCTS = [
    value
    for name in monoize.urp.__all__
    if isinstance(value := getattr(monoize.urp, name), type)
    and issubclass(value, msgspec.Struct)
    and name not in NOT_JSON
]


@pytest.mark.spec("URP-5")
@pytest.mark.parametrize("kind", STRUCTS, ids=lambda kind: kind.__name__)
def test_every_struct_takes_unknown_fields(kind):
    required = {f.name: None for f in msgspec.structs.fields(kind) if f.required}
    assert kind(**required).extra_body == {}
    assert kind(**required, extra_body={"odd": 1}).extra_body == {"odd": 1}


@pytest.mark.spec("URP-5", "URP-6")
def test_unknown_fields_are_kept_and_flattened():
    extra = rest({"a": 1, "b": 2}, {"a"})
    assert flattened({"a": 1}, extra) == {"a": 1, "b": 2}
    assert rest({"a": 1}, {"a"}) is EMPTY


@pytest.mark.spec("URP-7")
def test_named_fields_win():
    assert flattened({"a": 1}, {"a": 2}) == {"a": 1}


def test_losses_become_a_header():
    losses = Losses()
    assert losses.header() == "lossless"
    losses.drop("top_k")
    losses.drop("top_k")
    losses.drop("messages[1].cache control\r\nx: y")
    assert losses.header() == "lossy; dropped=top_k,messages[1].cache_control__x:_y"


def test_a_header_of_losses_stays_short():
    losses = Losses()
    for n in range(100):
        losses.drop(f"tools[{n}]")
    assert losses.header().endswith(",+76")
    assert len(losses.dropped) == 100


def test_losses_of_a_reply_are_told_apart():
    request, reply = Losses(), Losses()
    request.drop("seed")
    reply.drop("logprobs")
    assert request.and_(reply).dropped == ("seed", "response.logprobs")
    assert request.dropped == ("seed",)
    assert Losses().dropped == ()  # nobody inherits them


def test_a_value_is_cheap_to_compare_and_to_build():
    assert msgspec.structs.asdict(Text(content="a"))["content"] == "a"
