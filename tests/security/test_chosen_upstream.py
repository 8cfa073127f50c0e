"""LL#24952, LL#37053 and the SSRF chain of CVE-2025-59146: no caller chooses where a call or a provider's key goes.

Only the operator names addresses. What fetches pictures that a caller names is not built yet; until it is, and behind its
filter afterwards, the last test holds: nothing here calls a private address because a caller said so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, unquote

import pytest

from fakes.caller import CALLERS, Caller, Reply, body, path
from fakes.gateway import KEY, GatewayThread, configured
from fakes.pair import UNMOVED, Actor, good
from fakes.speakers import SPEAKERS

WEAK = "sk-weak-0123456789abcdef"
SECRET = "sk-channel-{}"
CREDENTIALS = {
    "chat_completion": "authorization",
    "responses": "authorization",
    "grok": "authorization",
    "messages": "x-api-key",
    "gemini": "x-goog-api-key",
}
# Everything that a provider may be sent; of it a caller chooses the value of the vendors' feature headers only.
SENT = {
    *("host", "content-type", "content-length", "accept", "accept-encoding", "user-agent"),
    *("anthropic-version", "anthropic-beta", "openai-beta"),
}
Json = dict[str, Any]


@pytest.fixture(scope="module")
def provider() -> Iterator[Actor]:
    with Actor(good) as upstream:
        yield upstream


@pytest.fixture(scope="module")
def port(provider: Actor) -> Iterator[int]:
    rows = [
        {
            "id": kind,
            "type": kind,
            "models": {f"{kind}-m": {}, f"{kind}/*": {}},
            "channels": [
                {
                    "id": "main",
                    "base_url": provider.base_url(kind),
                    "api_key": SECRET.format(kind),
                }
            ],
        }
        for kind in SPEAKERS
    ]
    config = configured(rows, UNMOVED)
    config["keys"].append({"name": "weak", "key": WEAK, "models": ["gemini/flash*"]})
    gateway = GatewayThread(config)
    yield gateway.port
    gateway.stop()


def wishes(trap: Any) -> tuple[Json, dict[str, str], str]:
    """Ways in which other gateways let a caller choose: fields, headers, a query."""
    urls = ("api_base", "base_url", "baseURL", "api_url", "endpoint", "url", "proxy", "webhook_url")
    fields: Json = dict.fromkeys(urls, trap.url)
    fields |= {
        "api_key": "sk-chosen",
        "api_version": "../..",
        "custom_llm_provider": "openai",
        "extra_headers": {"authorization": "Bearer sk-chosen", "host": trap.host},
        "extra_query": {"key": "sk-chosen"},
        "extra_body": {"api_base": trap.url},
        "litellm_params": {"api_base": trap.url},
        "user_config": {"model_list": [{"litellm_params": {"api_base": trap.url}}]},
        "fallbacks": [{"model": "m", "api_base": trap.url}],
        "__monoize_base_url": trap.url,
    }
    headers = dict.fromkeys(
        (
            *(
                "x-api-base",
                "x-base-url",
                "x-target-url",
                "x-upstream",
                "x-proxy",
                "x-original-url",
            ),
            *(
                "x-portkey-custom-host",
                "x-bf-base-url",
                "helicone-target-url",
                "x-litellm-api-base",
            ),
            *("x-monoize-base-url", "x-monoize-provider", "x-forwarded-host", "forwarded", "via"),
        ),
        trap.url,
    )
    headers |= {
        "x-forwarded-for": trap.host,
        "cookie": "session=sk-chosen",
        "proxy-authorization": "Basic sk-chosen",
        "x-stainless-helper": "x",
        "openai-organization": "org-chosen",
        "openai-project": "proj-chosen",
        "x-goog-user-project": "chosen",
    }
    query = "&".join(f"{name}={quote(trap.url)}" for name in urls) + "&key=sk-chosen&$alt=media"
    return fields, headers, query


def own_credentials(kind: str, headers: dict[str, str]) -> None:
    """The channel's key, in its own header, and nothing that a caller sent as one."""
    name = CREDENTIALS[kind]
    assert headers[name].removeprefix("Bearer ") == SECRET.format(kind)
    assert set(headers) <= SENT | {name}
    text = json.dumps(headers)
    assert "chosen" not in text
    assert KEY not in text


@pytest.mark.spec("LL#24952", "LL#37053", "CVE-2025-59146", "GHSA-6qcr-qxgr-m7fv", "PK#1372")
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize("kind", SPEAKERS)
@pytest.mark.parametrize("protocol", CALLERS)
def test_ll24952_ll37053_what_a_caller_wishes_changes_neither_the_host_nor_the_key(
    port, provider, trap, protocol, kind, stream
):
    fields, headers, query = wishes(trap)
    target = path(protocol, f"{kind}-m", stream=stream)
    target += ("&" if "?" in target else "?") + query
    for keyed in (
        {"authorization": f"Bearer {KEY}", "x-api-key": "sk-chosen", "x-goog-api-key": "sk-chosen"},
        {"x-api-key": KEY, "x-goog-api-key": "sk-chosen"},
        {"x-goog-api-key": KEY},
    ):
        provider.forget()
        caller = Caller(port, {**headers, **keyed})
        reply = caller.post(target, body(protocol, f"{kind}-m", stream=stream, **fields))
        assert reply.status == 200, reply.raw
        (exchange,) = provider.exchanges
        assert exchange.headers["host"] == f"127.0.0.1:{provider.port}"
        assert exchange.target.startswith(f"/{kind}/")
        assert exchange.query in ("", "alt=sse")
        own_credentials(kind, exchange.headers)
    assert trap.is_untouched


@pytest.mark.spec("LL#24952", "LL#37053")
def test_ll24952_counting_and_listing_go_where_the_operator_said(port, provider, trap):
    fields, headers, query = wishes(trap)
    caller = Caller(port, {**headers, "authorization": f"Bearer {KEY}"})
    for kind in SPEAKERS:
        for protocol, target in (
            ("messages", "/v1/messages/count_tokens"),
            ("gemini", f"/v1beta/models/{kind}-m:countTokens"),
        ):
            provider.forget()
            caller.post(f"{target}?{query}", body(protocol, f"{kind}-m", **fields))
            for exchange in provider.exchanges:
                own_credentials(kind, exchange.headers)
    for target in ("/v1/models", "/v1beta/models"):
        assert caller.get(f"{target}?{query}").status == 200
    assert trap.is_untouched


# --- a model's name is a part of Google's URLs ---


def names(trap: Any) -> list[str]:
    return [
        "gemini/flash/../ultra",
        "gemini/flash/./../../../../secret",
        "gemini/../../../../../etc",
        "gemini/..",
        "gemini/.",
        "gemini/./x",
        "gemini/%2e%2e/ultra",
        "gemini/..%2fultra",
        "gemini/..\\..\\ultra",
        "gemini/..;/ultra",
        "gemini/x?key=sk-chosen",
        "gemini/x#fragment",
        f"gemini/x@{trap.host}/y",
        f"gemini//{trap.host}/y",
        f"gemini/{trap.url}/y",
        "gemini/x\r\nhost: chosen\r\n\r\n",
        "gemini/x:streamGenerateContent?alt=sse#",
        "gemini/\u2025/x",
        "gemini/\ufe52\ufe52/x",
    ]


def asked(port: int, protocol: str, name: str, key: str = KEY) -> Reply:
    caller = Caller(port, {"x-api-key": key})
    target = path(protocol, quote(name, safe="") if protocol == "gemini" else name)
    return caller.post(target, body(protocol, name))


@pytest.mark.spec("LL#24952", "LL#37053", "BF#5763")
@pytest.mark.parametrize("protocol", CALLERS)
def test_ll24952_a_models_name_leads_nowhere_but_to_a_model(port, provider, trap, protocol):
    provider.forget()
    for name in names(trap):
        reply = asked(port, protocol, name)
        assert reply.status in (200, 400, 404), (name, reply.raw)
    assert len(provider.exchanges) > 5  # odd names are not refused out of hand
    for exchange in provider.exchanges:
        place = unquote(exchange.target)
        assert place.startswith("/gemini/v1beta/models/gemini/"), place
        assert not {".", ".."} & set(place.split("/")), place
        assert "chosen" not in exchange.query
        own_credentials("gemini", exchange.headers)
    assert trap.is_untouched


@pytest.mark.spec("BF#5763", "T38")
@pytest.mark.parametrize("protocol", CALLERS)
def test_bf5763_a_key_held_to_some_models_reaches_no_other_through_dots(port, provider, protocol):
    assert asked(port, protocol, "gemini/flash-2", WEAK).status == 200
    provider.forget()
    assert asked(port, protocol, "gemini/ultra", WEAK).status == 403
    assert asked(port, protocol, "gemini/flash/../ultra", WEAK).status == 400
    assert asked(port, protocol, "gemini/flash/../../../secret", WEAK).status == 400
    assert provider.exchanges == []


# --- what a caller names inside a message ---


def with_media(protocol: str, model: str, url: str) -> Json:
    match protocol:
        case "chat_completion":
            parts = [
                {"type": "image_url", "image_url": {"url": url}},
                {"type": "text", "text": url},
            ]
            return {"model": model, "messages": [{"role": "user", "content": parts}]}
        case "responses":
            parts = [
                {"type": "input_image", "image_url": url},
                {"type": "input_file", "file_url": url},
            ]
            return {"model": model, "input": [{"role": "user", "content": parts}]}
        case "messages":
            parts = [
                {"type": "image", "source": {"type": "url", "url": url}},
                {"type": "document", "source": {"type": "url", "url": url}},
            ]
            said = [{"role": "user", "content": parts}]
            return {"model": model, "max_tokens": 9, "messages": said}
    parts = [{"fileData": {"mimeType": "image/png", "fileUri": url}}, {"text": url}]
    return {"contents": [{"role": "user", "parts": parts}]}


@pytest.mark.spec("CVE-2025-59146", "CVE-2026-42339", "GHSA-6qcr-qxgr-m7fv", "PK#1372")
@pytest.mark.parametrize("kind", SPEAKERS)
@pytest.mark.parametrize("protocol", CALLERS)
def test_cve_2025_59146_nothing_private_is_called_because_a_message_names_it(
    port, provider, trap, protocol, kind
):
    caller = Caller(port)
    ways = ("127.0.0.1", "0.0.0.0", "localhost", "[::ffff:127.0.0.1]", "2130706433", "127.1")
    for host in ways:
        wire = with_media(protocol, f"{kind}-m", f"http://{host}:{trap.port}/a.png")
        reply = caller.post(path(protocol, f"{kind}-m"), wire)
        assert reply.status in (200, 400), reply.raw
    assert trap.is_untouched
