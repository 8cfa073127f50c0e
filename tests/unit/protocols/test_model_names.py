"""The caller's model name in a provider's bytes: found quickly, and never anywhere else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monoize import wirejson
from monoize.protocol import with_model, with_model_for, with_model_in
from monoize.protocols.chat_completion.plain_exchange import plain_reply

PATHS = ((("model",),), (("model",), ("response", "model")), (("modelVersion",),))
WORDS = st.sampled_from(
    ["model", "gpt", '"model"', 'x"model', '"model":"gpt"', "é", "\\", "", "ü\n", "modelVersion"]
)
JSON = st.recursive(
    WORDS | st.integers(0, 9) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(
    st.sampled_from(["model", "modelVersion", "response", "id", 'a"model']), JSON, max_size=5
)


@given(body=OBJECTS, paths=st.sampled_from(PATHS), ascii_only=st.booleans(), spaced=st.booleans())
@pytest.mark.spec("PIPE-1b")
def test_the_quick_way_says_what_the_long_way_says(body, paths, ascii_only, spaced):
    between = (", ", ": ") if spaced else (",", ":")
    raw = json.dumps(body, ensure_ascii=ascii_only, separators=between).encode()
    quick = with_model_in(raw, body, paths, "mine")
    assert json.loads(quick) == json.loads(with_model(raw.decode(), paths, "mine"))


def test_every_other_byte_stays():
    raw = b'{"id" :1.00, "model": "gpt-4o-2024",\t"x":[ ]}'
    assert with_model_in(raw, wirejson.loads(raw), PATHS[0], "gpt-4o") == raw.replace(
        b"gpt-4o-2024", b"gpt-4o"
    )


@pytest.mark.parametrize("raw", [b'{"model":null}', b'{"model":""}', b'{"id":"model"}', b"{}"])
def test_where_the_provider_names_none_nothing_is_written(raw):
    assert with_model_in(raw, wirejson.loads(raw), PATHS[0], "m") == raw


@given(
    content=st.text(min_size=1) | WORDS.filter(bool),
    model=st.sampled_from(["m-1", "", "mine", 'mo"del', "é", 'x"model']),
    name=st.sampled_from(["x", "model"]),  # the key's own word as a value
    ascii_only=st.booleans(),
    spaced=st.booleans(),
)
@pytest.mark.spec("PIPE-1b")
def test_a_plain_reply_says_it_in_one_look(content, model, name, ascii_only, spaced):
    body = {
        "id": name,
        "object": '"model":"m-1"',
        "created": 1,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content},
                "finish_reason": "stop",
            }
        ],
        "model": model,
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
    between = (", ", ": ") if spaced else (",", ":")
    raw = json.dumps(body, ensure_ascii=ascii_only, separators=between).encode(
        "utf-8", "surrogatepass"
    )
    assert plain_reply(body) is not None
    quick = with_model_for(raw, model, "mine") or with_model_in(raw, body, PATHS[0], "mine")
    assert json.loads(quick) == {**body, "model": "mine" if model else ""}


@pytest.mark.parametrize(
    "raw", ['{"model":"é","id":"x","model":"é"}', r'{"model":"é","id":"x","model":"\u00e9"}']
)
def test_of_two_names_the_one_that_counts_is_the_callers(raw):
    assert with_model_for(raw.encode(), "é", "mine") is None
    written = with_model_in(raw.encode(), json.loads(raw), PATHS[0], "mine")
    assert json.loads(written)["model"] == "mine"
