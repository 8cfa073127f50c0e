"""The caller's model name in a provider's bytes: found quickly, and never anywhere else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monoize import wirejson
from monoize.protocol import with_model, with_model_in

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
