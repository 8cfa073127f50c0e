"""Unary replies, both ways."""

from __future__ import annotations

import pytest

from monoize.clock import SequentialIds
from monoize.protocol import Reply
from monoize.protocols.gemini import PROTOCOL
from monoize.urp import (
    Audio,
    Base64,
    Choice,
    Citation,
    File,
    Finish,
    FinishReason,
    Image,
    Losses,
    Message,
    ProviderItem,
    Reasoning,
    Refusal,
    Role,
    Seal,
    Text,
    ToolCall,
    ToolResult,
    Url,
    UrpRequest,
    UrpResponse,
    Usage,
    bare,
    replace,
)


def reply_to(model="asked-for"):
    return Reply(
        request=UrpRequest(model=model),
        model=model,
        ids=SequentialIds(),
        created=1,
        losses=Losses(),
    )


def decode(body):
    return PROTOCOL.decode_response(body, SequentialIds())


def answered(*parts, **candidate):
    content = {"role": "model", "parts": list(parts)}
    return decode({"candidates": [{"content": content, **candidate}]})


def parts_of(response):
    return response.choices[0].messages[0].parts


def encode(*parts, reply=None, finish=None, **fields):
    message = Message(role=Role.ASSISTANT, parts=parts)
    choice = Choice(messages=(message,) if parts else (), finish=finish)
    response = UrpResponse(
        id="r", model="m", choices=(choice,), **{"origin": "chat_completion", **fields}
    )
    return PROTOCOL.encode_response(response, reply or reply_to())


# --- decoding -------------------------------------------------------------------------------------

FULL = {
    "candidates": [
        {
            "content": {
                "role": "model",
                "parts": [
                    {"text": "Hm.", "thought": True},
                    {"text": "Rome", "thoughtSignature": "c2ln"},
                    {"functionCall": {"name": "f", "args": {"a": 1}}},
                    {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
                    {"executableCode": {"code": "1"}},
                ],
            },
            "finishReason": "STOP",
            "finishMessage": "done",
            "index": 0,
            "safetyRatings": [],
        }
    ],
    "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4, "totalTokenCount": 7},
    "modelVersion": "gemini-x",
    "responseId": "r1",
    "createTime": "2025-12-19T23:45:33.943266Z",
}


@pytest.mark.spec("DEC-3", "DEC-5")
def test_a_whole_reply():
    response = decode(FULL)
    assert (response.id, response.model, response.origin) == ("r1", "gemini-x", "gemini")
    assert response.created == 1766187933
    assert [type(part) for part in parts_of(response)] == [
        Reasoning,
        Text,
        ToolCall,
        Image,
        ProviderItem,
    ]
    assert parts_of(response)[1].seal == Seal(protocol="gemini", data="c2ln")
    assert parts_of(response)[2].call_id.startswith("call_gem_")
    finish = response.choices[0].finish
    assert (finish.reason, finish.native, finish.protocol) == (
        FinishReason.TOOL_CALLS,
        "STOP",
        "gemini",
    )
    assert response.choices[0].extra_body == {"finishMessage": "done", "safetyRatings": []}
    assert response.extra_body == {"createTime": FULL["createTime"]}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"candidates": None},
        {"candidates": [None, 5]},
        {"candidates": [{"content": None}]},
        {"candidates": {"content": {"parts": None}}},
        {"candidates": [{"content": {"parts": [None, 5, {}, {"text": ""}]}}]},
        {
            "candidates": [{"content": 5}],
            "usageMetadata": 5,
            "createTime": "never",
            "responseId": 5,
        },
    ],
)
def test_odd_replies_never_raise(body):
    response = decode(body)
    assert all(choice.messages == () for choice in response.choices)
    assert response.usage is None
    assert response.id.startswith("resp_")


def test_a_part_that_cannot_be_read_is_kept_as_it_is():
    wire = {"functionCall": "broken"}
    (part,) = parts_of(answered(wire))
    assert (part.item_type, part.body) == ("functionCall", wire)


@pytest.mark.spec("T7")
@pytest.mark.parametrize(
    ("word", "reason", "native"),
    [
        ("STOP", FinishReason.STOP, "STOP"),
        ("stop", FinishReason.STOP, "stop"),
        (1, FinishReason.STOP, "STOP"),
        ("MAX_TOKENS", FinishReason.LENGTH, "MAX_TOKENS"),
        (2, FinishReason.LENGTH, "MAX_TOKENS"),
        ("SAFETY", FinishReason.CONTENT_FILTER, "SAFETY"),
        (4, FinishReason.CONTENT_FILTER, "RECITATION"),
        ("MODEL_ARMOR", FinishReason.CONTENT_FILTER, "MODEL_ARMOR"),
        ("IMAGE_SAFETY", FinishReason.CONTENT_FILTER, "IMAGE_SAFETY"),
        ("MALFORMED_FUNCTION_CALL", FinishReason.OTHER, "MALFORMED_FUNCTION_CALL"),
        ("A_NEW_WORD", FinishReason.OTHER, "A_NEW_WORD"),
        (99, FinishReason.OTHER, "99"),
    ],
)
def test_finish_reasons(word, reason, native):
    finish = answered({"text": "a"}, finishReason=word).choices[0].finish
    assert (finish.reason, finish.native) == (reason, native)


@pytest.mark.parametrize("word", [None, "", 0, True, "FINISH_REASON_UNSPECIFIED"])
def test_no_finish_yet(word):
    assert answered({"text": "a"}, finishReason=word).choices[0].finish is None


def test_a_refused_prompt_is_a_filtered_choice_and_written_as_it_was():
    body = {
        "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
        "modelVersion": "x",
        "responseId": "r",
    }
    response = decode(body)
    (choice,) = response.choices
    assert choice.messages == ()
    assert choice.finish.reason is FinishReason.CONTENT_FILTER
    assert choice.finish.native == "PROHIBITED_CONTENT"
    rebuilt = PROTOCOL.encode_response(replace(response), reply_to())
    assert rebuilt == {**body, "modelVersion": "asked-for"}


@pytest.mark.spec("T31")
def test_several_candidates_keep_their_numbers():
    body = {
        "candidates": [
            {"content": {"parts": [{"text": "a"}]}},
            {"content": {"parts": [{"text": "b"}]}, "index": 1},
            {"content": {"parts": [{"text": "c"}]}, "index": 5},
        ]
    }
    assert [choice.index for choice in decode(body).choices] == [0, 1, 5]


# --- usage ----------------------------------------------------------------------------------------


@pytest.mark.spec("T8", "T36")
def test_usage_has_one_meaning():
    wire = {
        "promptTokenCount": 100,
        "candidatesTokenCount": 20,
        "thoughtsTokenCount": 30,
        "toolUsePromptTokenCount": 5,
        "cachedContentTokenCount": 40,
        "totalTokenCount": 155,
        "promptTokensDetails": [
            {"modality": "TEXT", "tokenCount": 60},
            {"modality": "AUDIO", "tokenCount": 40},
        ],
        "candidatesTokensDetails": [
            {"modality": 2, "tokenCount": 7},
            {"modality": "IMAGE", "tokenCount": 1},
            None,
        ],
        "serviceTier": "standard",
    }
    response = decode({"usageMetadata": wire})
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.reasoning) == (105, 50, 30)
    assert (usage.cached_read, usage.audio_input, usage.image_output) == (40, 40, 8)
    assert usage.total is None
    assert response.service_tier == "default"
    rebuilt = PROTOCOL.encode_response(replace(response, usage=replace(usage)), reply_to())
    assert rebuilt["usageMetadata"] == wire
    assert PROTOCOL.encode_response(replace(response), reply_to())["usageMetadata"] == wire


def test_a_total_that_counts_more_is_kept():
    wire = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 50}
    usage = decode({"usageMetadata": wire}).usage
    assert usage.total == 50
    assert encode(Text(content="a"), usage=replace(usage))["usageMetadata"]["totalTokenCount"] == 50


def test_counts_that_are_none_are_no_usage():
    assert decode({"usageMetadata": {"promptTokenCount": "many"}}).usage is None


def test_foreign_usage_in_googles_counts():
    usage = Usage(
        input_tokens=10,
        output_tokens=8,
        reasoning=3,
        cached_read=2,
        audio_input=4,
        image_output=5,
        extra_body={"cost": 1},
    )
    assert encode(Text(content="a"), usage=usage)["usageMetadata"] == {
        "promptTokenCount": 10,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 3,
        "cachedContentTokenCount": 2,
        "totalTokenCount": 18,
        "promptTokensDetails": [
            {"modality": "AUDIO", "tokenCount": 4},
            {"modality": "TEXT", "tokenCount": 6},
        ],
        "candidatesTokensDetails": [{"modality": "IMAGE", "tokenCount": 5}],
    }


# --- citations and log probabilities --------------------------------------------------------------

TEXT = "Il caffè è buono. Roma è bella."
GROUNDING = {
    "groundingChunks": [
        {"web": {"uri": "https://a", "title": "A"}},
        {"retrievedContext": {"title": "B"}},
        {"unknown": {}},
        {"maps": {}},
    ],
    "groundingSupports": [
        {
            "segment": {"startIndex": 0, "endIndex": 19, "text": "Il caffè è buono."},
            "groundingChunkIndices": [0, 1, 2, 3, 99, "x"],
        },
        {
            "segment": {"startIndex": 500, "endIndex": 600, "text": "Roma è bella."},
            "groundingChunkIndices": [0],
        },
        {"segment": {"text": "elsewhere"}, "groundingChunkIndices": [0]},
        {"segment": {"text": "elsewhere"}, "groundingChunkIndices": [0]},
    ],
}


@pytest.mark.spec("T30")
def test_grounding_becomes_citations_in_characters():
    (part,) = parts_of(answered({"text": TEXT}, groundingMetadata=GROUNDING))
    found = [(c.url, c.title, c.start, c.end) for c in part.citations]
    assert found == [
        ("https://a", "A", 0, 17),
        (None, "B", 0, 17),
        ("https://a", "A", 18, 31),
        ("https://a", "A", None, None),
    ]
    assert TEXT[0:17] == part.citations[0].quote


def test_citations_go_to_the_text_that_they_quote():
    supports = [
        {"segment": {"startIndex": 0, "endIndex": 3, "text": "one"}, "groundingChunkIndices": [0]}
    ]
    metadata = {"groundingChunks": [{"web": {"uri": "u"}}], "groundingSupports": supports}
    parts = parts_of(
        answered(
            {"text": "one"}, {"executableCode": {}}, {"text": "two"}, groundingMetadata=metadata
        )
    )
    assert [len(part.citations) for part in parts if isinstance(part, Text)] == [1, 0]


@pytest.mark.parametrize("spelling", ["citationSources", "citations"])
def test_recitations_are_citations(spelling):
    sources = [
        {"startIndex": 3, "endIndex": 9, "uri": "u"},
        {"endIndex": 900, "title": "t"},
        {"license": "mit"},
    ]
    (part,) = parts_of(answered({"text": TEXT}, citationMetadata={spelling: sources}))
    assert [(c.url, c.title, c.start, c.end) for c in part.citations] == [
        ("u", None, 3, 8),
        (None, "t", None, None),
    ]


def test_citations_without_a_text_to_stand_on():
    response = answered({"functionCall": {"name": "f"}}, groundingMetadata=GROUNDING)
    assert response.choices[0].extra_body["groundingMetadata"] == GROUNDING


@pytest.mark.spec("T30")
def test_foreign_citations_become_grounding():
    text = Text(
        content=TEXT,
        citations=(
            Citation(url="https://a", title="A", start=0, end=17),
            Citation(url="https://a", title="A", quote="Roma"),
            Citation(url="https://b"),
            Citation(quote="nowhere"),
        ),
    )
    later = Text(content="x", citations=(Citation(title="C", start=0, end=1),))
    metadata = encode(text, later)["candidates"][0]["groundingMetadata"]
    assert metadata["groundingChunks"] == [
        {"web": {"uri": "https://a", "title": "A"}},
        {"web": {"uri": "https://b"}},
        {"web": {"title": "C"}},
    ]
    assert metadata["groundingSupports"] == [
        {
            "segment": {"startIndex": 0, "endIndex": 19, "text": "Il caffè è buono."},
            "groundingChunkIndices": [0],
        },
        {"segment": {"text": "Roma"}, "groundingChunkIndices": [0]},
        {
            "segment": {"partIndex": 1, "startIndex": 0, "endIndex": 1, "text": "x"},
            "groundingChunkIndices": [2],
        },
    ]


@pytest.mark.spec("T31")
def test_log_probabilities_both_ways():
    wire = {
        "chosenCandidates": [{"token": "é", "logProbability": -0.5}, {"token": "b"}],
        "topCandidates": [{"candidates": [{"token": "é", "logProbability": -0.5}]}],
    }
    (part,) = parts_of(answered({"text": "éb"}, logprobsResult=wire))
    top = {"token": "é", "logprob": -0.5, "bytes": [195, 169]}
    assert part.logprobs == (
        {**top, "top_logprobs": [top]},
        {"token": "b", "logprob": 0.0, "bytes": [98], "top_logprobs": []},
    )
    written = encode(replace(part))["candidates"][0]["logprobsResult"]
    assert written["chosenCandidates"][0] == {"token": "é", "logProbability": -0.5}
    assert written["topCandidates"][0] == {"candidates": [{"token": "é", "logProbability": -0.5}]}


# --- encoding -------------------------------------------------------------------------------------


def test_an_untouched_reply_is_the_providers_with_the_callers_model():
    assert PROTOCOL.encode_response(decode(FULL), reply_to()) == {
        **FULL,
        "modelVersion": "asked-for",
    }
    nameless = {key: value for key, value in FULL.items() if key != "modelVersion"}
    assert PROTOCOL.encode_response(decode(nameless), reply_to()) == nameless


def test_a_touched_reply_keeps_what_was_not_touched():
    response = decode(FULL)
    anew = PROTOCOL.encode_response(replace(response), reply_to())
    assert anew["candidates"] == FULL["candidates"]
    choice = replace(response.choices[0])
    deeper = PROTOCOL.encode_response(replace(response, choices=(choice,)), reply_to())
    assert deeper["candidates"] == FULL["candidates"]


def test_a_reply_from_elsewhere():
    reply = reply_to()
    body = encode(
        Reasoning(content="Hm."),
        Text(content="Rome"),
        ToolCall(call_id="c", name="f", arguments='{"a":1}'),
        Image(media=Url(url="https://a/b.png")),
        Audio(media=Base64(data="AA", media_type="audio/wav")),
        File(media=Base64(data="AA", media_type="application/pdf")),
        ProviderItem(origin_protocol="responses", item_type="web_search_call", body={}),
        ToolResult(call_id="c"),
        reply=reply,
        finish=Finish(
            reason=FinishReason.TOOL_CALLS, native="tool_calls", protocol="chat_completion"
        ),
        extra_body={"system_fingerprint": "x"},
    )
    assert body == {
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [
                        {"text": "Hm.", "thought": True},
                        {"text": "Rome"},
                        {"functionCall": {"id": "c", "name": "f", "args": {"a": 1}}},
                        {"fileData": {"mimeType": "image/png", "fileUri": "https://a/b.png"}},
                        {"inlineData": {"mimeType": "audio/wav", "data": "AA"}},
                        {"inlineData": {"mimeType": "application/pdf", "data": "AA"}},
                    ],
                },
                "finishReason": "STOP",
                "index": 0,
            }
        ],
        "modelVersion": "asked-for",
        "responseId": "r",
    }
    assert reply.losses.dropped == ("choices[0].parts[6]", "choices[0].parts[7]")


@pytest.mark.spec("T7", "T32")
@pytest.mark.parametrize(
    ("parts", "finish", "word"),
    [
        ((Text(content="a"),), FinishReason.STOP, "STOP"),
        ((Text(content="a"),), FinishReason.LENGTH, "MAX_TOKENS"),
        ((Text(content="a"),), FinishReason.CONTENT_FILTER, "SAFETY"),
        ((Text(content="a"),), FinishReason.OTHER, "OTHER"),
        ((Refusal(content="No."),), FinishReason.STOP, "SAFETY"),
        ((Refusal(content="No."),), FinishReason.LENGTH, "MAX_TOKENS"),
        ((Text(content="a"),), None, "OTHER"),
    ],
)
def test_finish_words(parts, finish, word):
    said = None if finish is None else Finish(reason=finish)
    assert encode(*parts, finish=said)["candidates"][0]["finishReason"] == word


def test_a_reply_without_words_or_id():
    response = UrpResponse(id="", model="m", choices=(Choice(),))
    body = PROTOCOL.encode_response(response, reply_to())
    assert body["candidates"][0]["content"]["parts"] == [{"text": ""}]
    assert body["responseId"].startswith("resp_")


def test_replies_satisfy_googles_own_types():
    types = pytest.importorskip("google.genai.types")
    body = encode(
        Reasoning(content="Hm.", seal=Seal(protocol="messages", data="s")),
        Text(content=TEXT, citations=(Citation(url="u", start=0, end=2),)),
        ToolCall(call_id="c", name="f", arguments="{}"),
        finish=Finish(reason=FinishReason.STOP),
        usage=Usage(input_tokens=1, output_tokens=2, reasoning=1, audio_input=1),
    )
    read = types.GenerateContentResponse.model_validate(body)
    assert read.text == TEXT
    assert read.function_calls[0].name == "f"


def test_the_same_dialect_rebuilds_a_changed_text_with_everything_beside_it():
    response = decode(FULL)
    message = response.choices[0].messages[0]
    parts = tuple(
        replace(part, content="Roma") if isinstance(part, Text) else part for part in message.parts
    )
    choice = replace(response.choices[0], messages=(replace(message, parts=parts),))
    body = PROTOCOL.encode_response(replace(response, choices=(choice,)), reply_to())
    candidate = body["candidates"][0]
    assert candidate["content"]["parts"][1] == {"text": "Roma", "thoughtSignature": "c2ln"}
    assert candidate["content"]["parts"][2:] == FULL["candidates"][0]["content"]["parts"][2:]
    assert candidate["finishMessage"] == "done"
    assert body["createTime"] == FULL["createTime"]
    assert bare(decode(body).choices[0].messages[0].parts[0]) == bare(message.parts[0])
