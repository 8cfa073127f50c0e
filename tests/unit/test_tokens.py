from monoize.tokenizer import forget, token_count
from monoize.tokens import estimated_input_tokens
from monoize.urp import (
    Base64,
    File,
    Image,
    Message,
    ProviderItem,
    ReasoningEncrypted,
    Role,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Url,
    UrpRequest,
)


def count(*parts, **fields):
    return estimated_input_tokens(
        UrpRequest(model="m", messages=(Message(role=Role.USER, parts=parts),), **fields)
    )


def test_counts_every_kind_of_part():
    empty = count()
    assert count(Text(content="hello world")) == empty + 2
    assert count(Text(content="<|endoftext|>")) > empty
    assert count(Image(media=Url(url="u"))) > empty + 100
    assert count(File(media=Base64(data="", media_type="application/pdf"))) > empty + 100
    assert count(ToolCall(call_id="c", name="f", arguments="{}")) > empty
    assert count(ToolResult(call_id="c")) > empty
    assert count(ProviderItem(origin_protocol="p", item_type="t", body={"a": 1})) > empty
    assert count(ReasoningEncrypted(protocol="p", data="x" * 1000)) == empty


def test_counts_tool_definitions():
    assert (
        count(tools=(Tool(name="f", description="does", parameters={"type": "object"}),)) > count()
    )


def test_a_text_without_a_space_is_counted_whole():
    """Byte by byte merging in plain Python took seconds for a tenth of this."""
    assert count(Text(content="ab" * 50_000)) - count() > 1000
    assert count(Text(content="\ud800 half a letter")) > count()


def test_what_was_forgotten_is_counted_as_before():
    text = " Where is parcel 4711?  It left, they said,\n on Monday. "
    before = token_count(text)
    assert token_count(text) == before
    forget()
    assert token_count(text) == before
