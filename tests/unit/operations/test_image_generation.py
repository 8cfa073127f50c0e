"""Pictures: OpenAI's two endpoints, Google's two ways, and what the endpoint answers for each."""

import base64
import json

import pytest
from openai.types import ImageGenCompletedEvent, ImagesResponse

from fakes.operation_engines import Speaker
from monoize.errors import (
    EngineError,
    InvalidRequest,
    UnsupportedByTarget,
    UpstreamRefused,
    UpstreamUnreadable,
)
from monoize.media.blob import Blob
from monoize.operation import Inline, Made, Multipart, Units
from monoize.operations._reading import read_payload
from monoize.operations.image_generation import NO_ENGINE, OPERATION, ImageGenerationPayload
from monoize.sse import SseParser
from monoize.urp import Usage

OPENAI, GEMINI = OPERATION.dialects["openai"], OPERATION.dialects["gemini"]
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(60))
JPEG = b"\xff\xd8\xff\xe0" + bytes(range(50))
REF = {"kind": "sms_file", "uri": "smsfile://01J", "mime": "image/png"}
FOX, MASK, MORE = (
    Blob.of(PNG, "image/png"),
    Blob.of(PNG, "image/png"),
    Blob.of(JPEG, "image/jpeg"),
)
USAGE = {
    "input_tokens": 60,
    "input_tokens_details": {"text_tokens": 10, "image_tokens": 50},
    "output_tokens": 1056,
    "total_tokens": 1116,
}


def b64(data):
    return base64.b64encode(data).decode()


def payload(**fields):
    return read_payload(ImageGenerationPayload, {"model": "painter", "prompt": "a fox", **fields})


def from_wire(files=None, **wire):
    return OPERATION.from_wire({"model": "painter", "prompt": "a fox", **wire}, files or {})


def made_from(asked, reply, adapter=OPENAI):
    return adapter.made(asked, reply, json.dumps(reply).encode())


async def body_of(asked, made):
    reply = OPERATION.to_wire(asked, made, created=1700000000)
    body = reply.body
    return reply.content_type, body if isinstance(body, bytes) else await body.read(1 << 20)


async def bytes_of(image):
    return await image.read(1 << 20)


# --- what it needs ---


@pytest.mark.spec("S4-2.1")
@pytest.mark.parametrize(
    ("fields", "features", "amounts"),
    [
        ({}, set(), {}),
        ({"image": REF}, {"supports_image_input"}, {}),
        ({"images": [REF]}, {"supports_image_input"}, {}),
        ({"image": REF, "mask": REF}, {"supports_image_input", "supports_mask"}, {}),
        ({"seed": 0}, {"supports_seed"}, {}),
        ({"n": 4}, set(), {"max_images_per_request": 4}),
        ({"size": "1536x1024"}, set(), {"max_image_size": 1536}),
        ({"size": "auto"}, set(), {}),
    ],
)
def test_needs_what_the_payload_uses(fields, features, amounts):
    needs = OPERATION.needs(payload(**fields))
    assert needs.features == features
    assert needs.amounts == {"max_images_per_request": 1, **amounts}


def test_needs_of_an_edit_by_url_are_those_of_an_edit():
    asked, _ = from_wire(images=[{"image_url": "https://a/b.png"}], mask={"file_id": "f"})
    assert OPERATION.needs(asked).features == {"supports_image_input", "supports_mask"}


@pytest.mark.spec("D28")
@pytest.mark.parametrize("missing", [{"supports_mask"}, {"supports_mask", "supports_image_input"}])
@pytest.mark.parametrize(
    "asked",
    [
        payload(image=REF, mask=REF, images=[REF], user="ann"),
        from_wire(images=[{"file_id": "f"}], mask={"file_id": "g"}, user="ann")[0],
    ],
)
def test_without_a_mask_the_picture_is_made_from_words(asked, missing):
    plain, told = OPERATION.downgraded(asked, frozenset(missing))
    assert [sentence.partition(":")[0] for sentence in told] == ["mask dropped", "image dropped"]
    assert OPERATION.needs(plain).features == set()
    out = OPENAI.request(plain, "m", {})
    assert out.path == "/v1/images/generations"
    assert out.body == {"model": "m", "prompt": "a fox", "user": "ann"}


@pytest.mark.spec("D28")
@pytest.mark.parametrize(
    "missing", [{"supports_image_input"}, {"supports_seed"}, {"supports_mask", "supports_seed"}]
)
def test_nothing_else_can_be_done_without(missing):
    asked = payload(image=REF, mask=REF, seed=1)
    assert OPERATION.downgraded(asked, frozenset(missing)) is None


@pytest.mark.parametrize(
    ("fields", "drawn", "images"),
    [
        ({}, 4160, 1),
        ({"quality": "low"}, 272, 1),
        ({"quality": "medium", "n": 2}, 2112, 2),
        ({"size": "2048x2048", "quality": "high"}, 16640, 1),
    ],
)
def test_expects_pictures_and_their_tokens(fields, drawn, images):
    usage, units = OPERATION.expected(payload(**fields), {})
    assert (usage.output_tokens, usage.image_output) == (drawn, drawn)
    assert units == Units(images=images)


def test_expects_to_look_at_the_pictures_it_is_shown():
    usage, _ = OPERATION.expected(payload(image=REF, images=[REF, {"image_url": "x"}]), {})
    assert usage.image_input == 4800 < usage.input_tokens


# --- OpenAI: asked ---


@pytest.mark.spec("S4-4")
def test_openai_is_asked_with_every_field():
    fields = {
        "n": 2,
        "size": "1024x1024",
        "quality": "hd",
        "style": "vivid",
        "seed": 5,
        "response_format": "b64_json",
        "background": "opaque",
        "brand_new": {"x": 1},
    }
    out = OPENAI.request(payload(**fields), "gpt-image-2", {})
    assert out.path == "/v1/images/generations"
    assert out.body == {"model": "gpt-image-2", "prompt": "a fox", **fields}
    assert not out.answers_in_bytes


@pytest.mark.spec("S4-3.5")
def test_openai_gets_a_picture_as_a_file():
    asked = payload(image=REF, mask=REF, n=2, output_format="webp", stream=False)
    out = OPENAI.request(asked, "gpt-image-2", {"image": FOX, "mask": MASK})
    assert out.path == "/v1/images/edits"
    fields = dict(out.body.fields)
    assert (fields["image"].name, fields["mask"].name) == ("image.png", "mask.png")
    assert fields["image"].chunks is FOX.chunks
    texts = {name: value for name, value in fields.items() if isinstance(value, str)}
    assert texts == {
        "model": "gpt-image-2",
        "prompt": "a fox",
        "n": "2",
        "output_format": "webp",
        "stream": "false",
    }


def test_openai_gets_several_pictures_and_a_vendors_own_file():
    asked = payload(image=REF, images=[REF], markup=REF)
    media = {"image": FOX, "images[0]": MORE, "markup": MASK}
    out = OPENAI.request(asked, "gpt-image-2.5", media)
    assert [(n, v.name) for n, v in out.body.fields if isinstance(v, Blob)] == [
        ("markup", None),
        ("image[]", "image.png"),
        ("image[]", "image.jpg"),
    ]


def test_files_and_urls_together_go_as_json():
    asked = payload(image=REF, mask=REF, images=[{"image_url": "https://a/b"}, {"file_id": "f"}])
    out = OPENAI.request(asked, "m", {"image": FOX, "mask": MASK})
    assert out.path == "/v1/images/edits"
    first, *others = out.body["images"]
    assert isinstance(first["image_url"], Inline)
    assert first["image_url"].blob is FOX
    assert first["image_url"].data_url
    assert others == [{"image_url": "https://a/b"}, {"file_id": "f"}]
    assert out.body["mask"]["image_url"].blob is MASK
    assert {k: v for k, v in out.body.items() if k not in ("images", "mask")} == {
        "model": "m",
        "prompt": "a fox",
    }


# --- OpenAI: the same dialect on both sides ---


@pytest.mark.spec("D26")
@pytest.mark.parametrize(
    ("wire", "path"),
    [
        ({"n": None, "user": "ann", "size": "auto"}, "/v1/images/generations"),
        ({"image": "https://a/b.png"}, "/v1/images/generations"),
        ({"image": ["https://a/b.png", "https://a/c.png"]}, "/v1/images/generations"),
        ({"images": [{"file_id": "f"}], "mask": {"file_id": "g"}}, "/v1/images/edits"),
        ({"image": {"url": "https://a/b.png", "type": "image_url"}}, "/v1/images/edits"),
    ],
)
def test_a_caller_of_the_same_dialect_is_repeated_word_for_word(wire, path):
    sent = {"prompt": "a fox", **wire, "model": "painter"}
    asked, media = OPERATION.from_wire(sent, {})
    out = OPENAI.request(asked, "gpt-image-2", media)
    assert out.path == path
    assert json.dumps(out.body) == json.dumps({**sent, "model": "gpt-image-2"})


@pytest.mark.spec("D26")
def test_a_form_is_repeated_field_by_field():
    wire = {"model": "painter", "n": "02", "prompt": "a fox", "output_compression": "90"}
    files = {"image[]": (FOX, MORE), "mask": (MASK,), "markup": (MORE,)}
    asked, media = OPERATION.from_wire(wire, files)
    assert (asked.n, asked.extra["output_compression"]) == (2, "90")
    assert media == {"image": FOX, "images[0]": MORE, "mask": MASK, "markup": MORE}
    assert set(OPERATION.media(asked)) == set(media)
    out = OPENAI.request(asked, "gpt-image-2", media)
    assert out.path == "/v1/images/edits"
    assert out.body.fields == (
        ("model", "gpt-image-2"),
        ("n", "02"),
        ("prompt", "a fox"),
        ("output_compression", "90"),
        ("image[]", FOX),
        ("image[]", MORE),
        ("mask", MASK),
        ("markup", MORE),
    )


def test_references_of_ours_are_not_sent_as_they_were_written():
    asked, media = from_wire(image=REF)
    assert asked.sent is None
    assert media == {}
    out = OPENAI.request(asked, "m", {"image": FOX})
    assert isinstance(out.body, Multipart)


@pytest.mark.parametrize(
    ("wire", "files", "param"),
    [
        ({"model": "m"}, {}, "prompt"),
        ({"prompt": "x"}, {}, "model"),
        ({"model": "m", "prompt": "x", "n": "2"}, {}, "n"),
        ({"model": "m", "prompt": "x", "n": "two"}, {"image": (FOX,)}, "n"),
        ({"model": "m", "prompt": "x", "response_format": "gif"}, {}, "response_format"),
        ({"model": "m", "prompt": "x", "image": {"kind": "sms_file"}}, {}, "image.uri"),
    ],
)
def test_the_endpoint_names_a_mistake_in_openais_words(wire, files, param):
    with pytest.raises(InvalidRequest) as caught:
        OPERATION.from_wire(wire, files)
    assert caught.value.param == param


# --- OpenAI: answered ---


@pytest.mark.spec("S4-2.2", "S4-3.2")
async def test_openai_reply_becomes_pictures_and_usage():
    asked, _ = from_wire()
    reply = {
        "created": 1,
        "data": [{"b64_json": b64(PNG), "revised_prompt": "a red fox"}, {"b64_json": b64(JPEG)}],
        "usage": USAGE,
        "size": "1024x1024",
        "output_format": "png",
    }
    made = made_from(asked, reply)
    images = made.result["images"]
    assert [image.mime for image in images] == ["image/png", "image/jpeg"]
    assert [await bytes_of(image) for image in images] == [PNG, JPEG]
    assert made.result["revised_prompts"] == ["a red fox", None]
    assert made.result["extra"] == {"size": "1024x1024", "output_format": "png"}
    assert made.usage == Usage(
        input_tokens=60, output_tokens=1056, image_input=50, image_output=1056
    )
    assert made.units == Units(images=2)
    assert await body_of(asked, made) == ("application/json", json.dumps(reply).encode())


async def test_a_picture_by_url_stays_one():
    asked, _ = from_wire(response_format="url")
    reply = {
        "created": 1,
        "data": [{"url": "https://cdn/x.png"}, {"url": "data:image/jpeg;base64," + b64(JPEG)}],
    }
    made = made_from(asked, reply)
    first, second = made.result["images"]
    assert first == {"kind": "http_url", "url": "https://cdn/x.png", "mime": "image/png"}
    assert await bytes_of(second) == JPEG
    assert (await body_of(asked, made))[1] == json.dumps(reply).encode()


async def test_a_picture_by_url_is_answered_as_one():
    result = {"images": [{"kind": "http_url", "url": "https://cdn/x.png", "mime": "image/png"}]}
    asked, _ = from_wire()
    _, body = await body_of(asked, Made(result=result))
    assert json.loads(body) == {"created": 1700000000, "data": [{"url": "https://cdn/x.png"}]}
    asked, _ = from_wire(stream=True)
    _, body = await body_of(asked, Made(result=result))
    (event,) = SseParser().feed(body)
    assert json.loads(event.data)["url"] == "https://cdn/x.png"


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"data": []},
        {"data": ["x"]},
        {"data": [{}]},
        {"data": [{"b64_json": "?"}]},
        {"data": [{"b64_json": None, "url": 3}]},
    ],
)
def test_a_reply_without_pictures_is_unreadable(reply):
    with pytest.raises(UpstreamUnreadable):
        made_from(payload(), reply)


@pytest.mark.parametrize(
    ("files", "path"),
    [({}, "/v1/images/generations"), ({"image": (FOX,)}, "/v1/images/edits")],
)
async def test_a_stream_of_the_same_dialect_is_passed_on(files, path):
    asked, media = from_wire(files, stream="true" if files else True, partial_images="2")
    out = OPENAI.request(asked, "gpt-image-2", media)
    assert out.answers_in_bytes
    assert out.path == path
    event = {"type": "image_generation.completed", "b64_json": b64(PNG), "usage": USAGE}
    data = f"event: x\ndata: {json.dumps(event)}\n\n".encode()
    made = OPENAI.heard(asked, "text/event-stream", Blob.of(data, "text/event-stream"))
    assert made.units == Units(images=1)
    assert await body_of(asked, made) == ("text/event-stream", data)
    assert made.tally.usage.image_output == 1056
    assert made.tally.units == Units(images=1)


# --- Gemini: asked ---


@pytest.mark.spec("S4-3.5", "S4-4")
def test_gemini_is_asked_for_a_picture():
    asked = payload(
        image=REF,
        seed=7,
        size="1024x1024",
        safetySettings=[{"category": "x"}],
        generationConfig={"temperature": 0.5, "imageConfig": {"personGeneration": "ALLOW_NONE"}},
    )
    out = GEMINI.request(asked, "gemini-2.5-flash-image", {"image": FOX})
    assert out.path == "/v1beta/models/gemini-2.5-flash-image:generateContent"
    (content,) = out.body["contents"]
    words, picture = content["parts"]
    assert (content["role"], words) == ("user", {"text": "a fox"})
    assert picture["inlineData"]["mimeType"] == "image/png"
    assert picture["inlineData"]["data"].blob is FOX
    assert not picture["inlineData"]["data"].data_url
    assert out.body["safetySettings"] == [{"category": "x"}]
    assert out.body["generationConfig"] == {
        "responseModalities": ["IMAGE"],
        "temperature": 0.5,
        "seed": 7,
        "imageConfig": {"personGeneration": "ALLOW_NONE", "aspectRatio": "1:1"},
    }
    assert out.dropped == ()


def test_the_callers_own_modalities_stand():
    asked = payload(generationConfig={"responseModalities": ["TEXT", "IMAGE"]})
    out = GEMINI.request(asked, "gemini-3-pro-image", {})
    assert out.body["generationConfig"] == {"responseModalities": ["TEXT", "IMAGE"]}


@pytest.mark.parametrize(
    ("size", "ratio", "words"),
    [
        (None, None, None),
        ("auto", None, None),
        ("1024x1024", "1:1", None),
        ("1536x1024", "3:2", None),
        ("1024x1536", "2:3", None),
        ("1792x1024", "16:9", None),
        ("1024x1792", "9:16", None),
        ("512x512", "1:1", "512"),
        ("2048x2048", "1:1", "2K"),
        ("3840x2160", "16:9", "4K"),
        ("21:9", "21:9", None),
        ("2k", None, "2K"),
    ],
)
def test_sizes_are_said_in_googles_words(size, ratio, words):
    out = GEMINI.request(payload(**({"size": size} if size else {})), "gemini-3-pro-image", {})
    said = {"aspectRatio": ratio, "imageSize": words}
    wanted = {name: value for name, value in said.items() if value}
    assert out.body["generationConfig"].get("imageConfig", {}) == wanted


@pytest.mark.parametrize(
    ("fields", "media", "model", "param"),
    [
        ({"image": REF, "mask": REF}, {"image": FOX, "mask": MASK}, "gemini-3-pro-image", "mask"),
        ({"n": 2}, {}, "gemini-3-pro-image", "n"),
        ({"size": "1000x700"}, {}, "gemini-3-pro-image", "size"),
        ({"size": "0x0"}, {}, "gemini-3-pro-image", "size"),
        ({"size": "huge"}, {}, "gemini-3-pro-image", "size"),
        ({"size": "1536x1024"}, {}, "imagen-4.0-generate-001", "size"),
        ({"image": REF}, {"image": FOX}, "imagen-4.0-generate-001", "image"),
        ({"images": [{"file_id": "f"}]}, {}, "gemini-3-pro-image", "images"),
        ({"markup": REF}, {"markup": FOX}, "gemini-3-pro-image", "markup"),
    ],
)
def test_gemini_refuses_what_it_cannot_do(fields, media, model, param):
    with pytest.raises(UnsupportedByTarget) as caught:
        GEMINI.request(payload(**fields), model, media)
    assert caught.value.param == param


def test_a_url_is_refused_where_nobody_keeps_the_picture():
    asked, _ = from_wire(response_format="url")
    with pytest.raises(UnsupportedByTarget, match="b64_json"):
        GEMINI.request(asked, "gemini-3-pro-image", {})
    GEMINI.request(payload(response_format="url"), "gemini-3-pro-image", {})  # it gets a reference


def test_what_google_has_no_word_for_is_reported():
    asked = payload(quality="high", style="vivid", user="ann", background="opaque", stream=False)
    out = GEMINI.request(asked, "gemini-3-pro-image", {})
    assert out.dropped == ("user", "background", "quality", "style")
    assert set(out.body) == {"contents", "generationConfig"}
    assert GEMINI.request(payload(quality="auto"), "gemini-3-pro-image", {}).dropped == ()


@pytest.mark.parametrize(
    ("picture", "part"),
    [
        (
            {"image_url": "data:image/webp;base64,AAAA"},
            {"inlineData": {"mimeType": "image/webp", "data": "AAAA"}},
        ),
        ({"image_url": "https://a/b.png"}, {"fileData": {"fileUri": "https://a/b.png"}}),
    ],
)
def test_gemini_gets_pictures_that_a_caller_named_by_url(picture, part):
    asked, media = from_wire(images=[picture])
    out = GEMINI.request(asked, "gemini-3-pro-image", media)
    assert out.body["contents"][0]["parts"] == [{"text": "a fox"}, part]


@pytest.mark.spec("S4-4")
def test_imagen_is_asked_to_predict():
    asked = payload(
        n=3,
        size="1792x1024",
        seed=4,
        negativePrompt="dogs",
        output_format="jpeg",
        output_compression=80,
        moderation="low",
    )
    out = GEMINI.request(asked, "imagen-4.0-generate-001", {})
    assert out.path == "/v1beta/models/imagen-4.0-generate-001:predict"
    assert out.body == {
        "instances": [{"prompt": "a fox"}],
        "parameters": {
            "negativePrompt": "dogs",
            "sampleCount": 3,
            "aspectRatio": "16:9",
            "seed": 4,
            "outputOptions": {"mimeType": "image/jpeg", "compressionQuality": 80},
        },
    }
    assert out.dropped == ("moderation",)


# --- Gemini: answered ---

DRAWN = {
    "candidates": [
        {
            "content": {
                "role": "model",
                "parts": [
                    {"text": "thinking of foxes", "thought": True},
                    {"inlineData": {"mimeType": "image/png", "data": b64(JPEG)}, "thought": True},
                    {"text": "Here it is."},
                    {"inlineData": {"mimeType": "image/png", "data": b64(PNG)}},
                ],
            },
            "finishReason": "STOP",
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 6,
        "candidatesTokenCount": 1300,
        "totalTokenCount": 1306,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 6}],
        "candidatesTokensDetails": [{"modality": "IMAGE", "tokenCount": 1290}],
    },
}
PREDICTED = {
    "predictions": [
        {"bytesBase64Encoded": b64(PNG), "mimeType": "image/png", "prompt": "a red fox"},
        {"bytesBase64Encoded": b64(JPEG), "mimeType": "image/png"},
        {"raiFilteredReason": "one was too red"},
    ]
}


async def test_gemini_reply_becomes_pictures_and_usage():
    made = made_from(payload(), DRAWN, GEMINI)
    (image,) = made.result["images"]
    assert (image.mime, await bytes_of(image)) == ("image/png", PNG)
    assert made.result["text"] == "Here it is."
    assert (made.usage.input_tokens, made.usage.output_tokens) == (6, 1300)
    assert made.usage.image_output == 1290
    assert made.units == Units(images=1)
    assert made.raw is None


async def test_imagen_reply_becomes_pictures():
    made = made_from(payload(n=3), PREDICTED, GEMINI)
    images = made.result["images"]
    assert [image.mime for image in images] == ["image/png", "image/jpeg"]
    assert made.result["revised_prompts"] == ["a red fox", None]
    assert made.usage is None
    assert made.units == Units(images=2)


async def test_a_gemini_reply_is_answered_in_openais_shape():
    asked, _ = from_wire()
    kind, body = await body_of(asked, made_from(asked, DRAWN, GEMINI))
    assert kind == "application/json"
    ImagesResponse.model_validate_json(body, strict=True)
    assert json.loads(body) == {
        "created": 1700000000,
        "text": "Here it is.",
        "usage": {
            "input_tokens": 6,
            "output_tokens": 1300,
            "total_tokens": 1306,
            "input_tokens_details": {"text_tokens": 6, "image_tokens": 0},
            "output_tokens_details": {"text_tokens": 10, "image_tokens": 1290},
        },
        "data": [{"b64_json": b64(PNG)}],
    }
    _, body = await body_of(asked, made_from(asked, PREDICTED, GEMINI))
    assert json.loads(body)["data"] == [
        {"revised_prompt": "a red fox", "b64_json": b64(PNG)},
        {"b64_json": b64(JPEG)},
    ]


@pytest.mark.parametrize(
    ("files", "name"),
    [({}, "image_generation.completed"), ({"image": (FOX,)}, "image_edit.completed")],
)
async def test_a_stream_of_another_dialect_is_one_event_a_picture(files, name):
    asked, media = from_wire(files, stream="true" if files else True)
    out = GEMINI.request(asked, "gemini-3-pro-image", media)
    assert not out.answers_in_bytes
    assert out.dropped == ()
    kind, body = await body_of(asked, made_from(asked, DRAWN, GEMINI))
    assert kind == "text/event-stream"
    (event,) = SseParser().feed(body)
    wire = json.loads(event.data)
    assert event.name == wire["type"] == name
    assert base64.b64decode(wire["b64_json"]) == PNG
    assert (wire["output_format"], wire["created_at"]) == ("png", 1700000000)
    ImageGenCompletedEvent.model_validate(
        {
            **wire,
            "type": "image_generation.completed",
            "background": "auto",
            "quality": "auto",
            "size": "auto",
        }
    )


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ({"promptFeedback": {"blockReason": "SAFETY"}}, "SAFETY"),
        (
            {"candidates": [{"finishReason": "IMAGE_SAFETY", "finishMessage": "no foxes"}]},
            "no foxes",
        ),
        (
            {
                "candidates": [
                    {"finishReason": "STOP", "content": {"parts": [{"text": "I will not."}]}}
                ]
            },
            "I will not.",
        ),
        ({"predictions": [{"raiFilteredReason": "too red"}]}, "too red"),
    ],
)
def test_a_picture_that_was_refused_is_a_refusal(reply, reason):
    with pytest.raises(UpstreamRefused, match=reason) as caught:
        made_from(payload(), reply, GEMINI)
    assert (caught.value.http_status, caught.value.error_code) == (400, "content_filter")


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"candidates": []},
        {"predictions": []},
        {"candidates": [{"content": {"parts": [{"inlineData": {"data": "?"}}]}}]},
    ],
)
def test_a_gemini_reply_without_anything_is_unreadable(reply):
    with pytest.raises(UpstreamUnreadable):
        made_from(payload(), reply, GEMINI)


def test_gemini_does_not_answer_in_bytes():
    with pytest.raises(UpstreamUnreadable):
        GEMINI.heard(payload(), "text/html", Blob.of(b"", "text/html"))


# --- here ---


@pytest.mark.spec("D27")
async def test_nothing_here_draws_and_the_sentence_says_what_to_configure():
    with pytest.raises(EngineError) as caught:
        await OPERATION.locally(payload(), Speaker(), {})
    assert caught.value.message == NO_ENGINE
    assert "configure a provider" in NO_ENGINE
