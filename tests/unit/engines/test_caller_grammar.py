"""A grammar that a caller brings along: checked before llama.cpp sees it, its text checked afterwards."""

from __future__ import annotations

import sys

import pytest

from monoize.clock import SequentialIds
from monoize.engines import _caller_grammar as caller_grammar
from monoize.engines._chat_call import chat_call
from monoize.engines._chat_reply import ChunkWriter
from monoize.errors import InvalidRequest

GRAMMAR = '%llguidance {}\nstart: "yes" | "no"'


def asked(**fields):
    return {"messages": [{"role": "user", "content": "Hi"}], "grammar": GRAMMAR, **fields}


def called(**fields):
    return chat_call(asked(**fields), max_tokens=10, context=100)


def test_a_grammar_goes_to_llama_cpp_as_it_is():
    call = called()
    assert call.body["grammar"] == call.grammar == GRAMMAR
    assert "repeat_penalty" not in call.body  # a sentence may have to repeat itself


@pytest.mark.parametrize("nothing", [None, ""])
def test_no_grammar_is_none(nothing):
    call = called(grammar=nothing)
    assert call.grammar is None
    assert "grammar" not in call.body


@pytest.mark.parametrize(
    ("grammar", "word"),
    [
        (7, "text of a grammar"),
        ("root ::= [a-z]+", "%llguidance"),
        ("%llguidance {}\nstart: nobody", "nobody"),
        ("%llguidance {", "cannot be enforced"),
        ("%llguidance {}\n" + "x" * caller_grammar.MAX_BYTES, "larger"),
        ('%llguidance {}\nstart: %json {"type": "nothing"}', "cannot be enforced"),
    ],
)
def test_a_bad_grammar_is_refused_in_words(grammar, word):
    with pytest.raises(InvalidRequest, match=word) as refused:
        called(grammar=grammar)
    assert refused.value.param == "grammar"


@pytest.mark.parametrize(
    "rival",
    [
        {"tools": [{"type": "function", "function": {"name": "a"}}]},
        {"response_format": {"type": "json_object"}},
    ],
)
def test_a_grammar_stands_alone(rival):
    with pytest.raises(InvalidRequest, match="beside"):
        called(**rival)


def test_without_the_package_a_grammar_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(InvalidRequest, match="not installed"):
        called(grammar='%llguidance {}\nstart: "another"')
    assert called(grammar=None).grammar is None


@pytest.mark.parametrize(
    ("text", "is_sentence"),
    [("yes", True), ("no", True), ("ye", False), ("yes!", False), ("é", False)],
)
def test_reads_a_text_by_its_grammar(text, is_sentence):
    assert caller_grammar.speaks(GRAMMAR, text) is is_sentence


def chunk(delta, finish=None):
    return {"id": "x", "created": 1, "choices": [{"delta": delta, "finish_reason": finish}]}


def written(text, reason, **fields):
    writer = ChunkWriter(called(**fields), SequentialIds(), "fp")
    pieces = writer.chunks(chunk({"role": "assistant"}))
    pieces += writer.chunks(chunk({"content": text}))
    return pieces + writer.chunks(chunk({}, reason))


def test_a_text_that_keeps_to_the_grammar_passes():
    choices = [piece["choices"][0] for piece in written("yes", "stop")]
    assert "".join(choice["delta"].get("content") or "" for choice in choices) == "yes"
    assert choices[-1]["finish_reason"] == "stop"


def test_a_text_that_does_not_is_an_error_and_no_answer():
    """llama.cpp drops a grammar that it cannot read and generates freely."""
    with pytest.raises(InvalidRequest, match="did not keep"):
        written("Sure!", "stop")


def test_a_text_that_was_cut_off_is_told_as_such():
    assert written("ye", "length")[-1]["choices"][0]["finish_reason"] == "length"
    assert written("ye", "stop", stop=["s"])[-1]["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    "bias",
    [{"5": -100, "7": 1.5}, [[5, -100], [7, 1.5]], [[5, False]]],
    ids=["object", "pairs", "never"],
)
def test_a_bias_has_two_forms(bias):
    found = called(logit_bias=bias).body["logit_bias"]
    assert (found if isinstance(found, dict) else [list(pair) for pair in found]) == bias


@pytest.mark.parametrize("bias", ["5", [5], [["a", 1]], {"5": "x"}, [[1, 2, 3]]])
def test_another_form_is_refused(bias):
    with pytest.raises(InvalidRequest) as refused:
        called(logit_bias=bias)
    assert refused.value.param.startswith("logit_bias")


def test_the_prompt_cache_is_the_callers_to_switch():
    assert called(cache_prompt=False).body["cache_prompt"] is False
    assert called(cache_prompt=True).body["cache_prompt"] is True
    assert called(cache_prompt=True, seed=1).body["cache_prompt"] is True
    assert "cache_prompt" not in called().body
