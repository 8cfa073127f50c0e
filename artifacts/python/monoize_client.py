"""Calls the Reframer of a Monoize gateway. Written from its OpenAPI document by `make artifacts`; do not edit.

Needs Python 3.11 and nothing else. This file is all of it: copy it to where you need it.
"""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, cast

__all__ = [
    "CallError",
    "Client",
    "ReframeAttachment",
    "ReframeBatchCounts",
    "ReframeBatchItem",
    "ReframeBatchItemError",
    "ReframeBatchItemResponse",
    "ReframeBatchResponse",
    "ReframeCall",
    "ReframeChannel",
    "ReframeConstraints",
    "ReframeContent",
    "ReframeContentFilter",
    "ReframeCounts",
    "ReframeDependency",
    "ReframeHealth",
    "ReframeNormalized",
    "ReframeNormalizedMessage",
    "ReframePayload",
    "ReframePolicies",
    "ReframeRemark",
    "ReframeRequest",
    "ReframeRequestAttachment",
    "ReframeRequestChannel",
    "ReframeRequestConstraints",
    "ReframeRequestConstraintsPerTool",
    "ReframeRequestConstraintsPolicies",
    "ReframeRequestConstraintsRetrieval",
    "ReframeRequestConstraintsRouting",
    "ReframeRequestConstraintsSafety",
    "ReframeRequestConstraintsSource",
    "ReframeRequestConstraintsToolBudget",
    "ReframeRequestContent",
    "ReframeRequestMessage",
    "ReframeRequestPayload",
    "ReframeRequestRole",
    "ReframeResponse",
    "ReframeRetrieval",
    "ReframeRetrievalSource",
    "ReframeRole",
    "ReframeSafety",
    "ReframeTokenHint",
    "ReframeToolBudget",
    "ReframeToolLimit",
    "ReframeWarning",
    "Refused",
    "ValidationError",
    "ValidationErrorDetail",
    "ValidationErrorDetails",
]


class ValidationErrorDetail(TypedDict):
    """One of the other mistakes."""

    error_code: str
    message: str
    field_path: str
    details: dict[str, Any]


class ReframeWarning(TypedDict):
    code: str
    message: str
    field_path: str
    details: dict[str, Any]


class ValidationErrorDetails(TypedDict):
    diagnostics: NotRequired[list[ValidationErrorDetail]]
    warnings: NotRequired[list[ReframeWarning]]
    has_more: NotRequired[bool]


class ValidationError(TypedDict):
    """The first mistake; the others are in details.diagnostics, in the same form."""

    error_code: str
    message: str
    field_path: str
    details: ValidationErrorDetails


ReframeRequestRole: TypeAlias = Literal["system", "user", "assistant", "tool", "code", "data"]


class ReframeRequestChannel(TypedDict):
    channel_id: str
    role: ReframeRequestRole
    priority: NotRequired[int]


class ReframeRequestContent(TypedDict):
    type: Literal["text", "json", "binary"]
    value: str
    encoding: NotRequired[Literal["utf-8", "base64"]]


class ReframeRequestMessage(TypedDict):
    id: str
    role: ReframeRequestRole
    protocol_tags: NotRequired[list[str]]
    content: str | ReframeRequestContent
    metadata: NotRequired[dict[str, str | float | bool]]


class ReframeRequestAttachment(TypedDict):
    id: str
    media_type: str
    uri: str
    hash: NotRequired[str]


class ReframeRequestPayload(TypedDict):
    messages: list[ReframeRequestMessage]
    attachments: NotRequired[list[ReframeRequestAttachment]]
    context_window: NotRequired[int]


class ReframeRequestConstraintsPerTool(TypedDict):
    tool_name: str
    budget: int


class ReframeRequestConstraintsToolBudget(TypedDict):
    total: int
    per_tool: list[ReframeRequestConstraintsPerTool]


class ReframeRequestConstraintsSource(TypedDict):
    source_id: str
    allow: bool
    ttl_s: NotRequired[int]


class ReframeRequestConstraintsRetrieval(TypedDict):
    precision_threshold: float
    sources: list[ReframeRequestConstraintsSource]


class ReframeRequestConstraintsRouting(TypedDict):
    tool_budget: ReframeRequestConstraintsToolBudget
    retrieval: ReframeRequestConstraintsRetrieval


class ReframeRequestConstraintsSafety(TypedDict):
    content_filters: NotRequired[list[str]]
    requires_human_review: NotRequired[bool]


class ReframeRequestConstraintsPolicies(TypedDict):
    allow_copy: NotRequired[bool]
    allow_schema_mutation: NotRequired[bool]


class ReframeRequestConstraints(TypedDict):
    routing: ReframeRequestConstraintsRouting
    safety: NotRequired[ReframeRequestConstraintsSafety]
    policies: NotRequired[ReframeRequestConstraintsPolicies]


class ReframeRequest(TypedDict):
    schema_version: NotRequired[Literal["1.0.0"]]
    request_id: str
    created_at: str
    tenant: NotRequired[str]
    channels: list[ReframeRequestChannel]
    payload: ReframeRequestPayload
    constraints: NotRequired[ReframeRequestConstraints]


ReframeRole: TypeAlias = Literal["assistant", "code", "data", "system", "tool", "user"]


class ReframeChannel(TypedDict):
    channel_id: str
    role: ReframeRole
    priority: int | None


class ReframeContent(TypedDict):
    type: Literal["binary", "json", "text"]
    value: str
    encoding: Literal["base64", "utf-8"]


class ReframeNormalizedMessage(TypedDict):
    id: str
    role: ReframeRole
    declared_role: ReframeRole
    content: ReframeContent
    protocol_tags: list[str]
    tools: list[str]
    marks: list[str]
    metadata: dict[str, str | int | float | bool]


class ReframeAttachment(TypedDict):
    id: str
    media_type: str
    uri: str
    hash: str | None


class ReframePayload(TypedDict):
    messages: list[ReframeNormalizedMessage]
    attachments: list[ReframeAttachment]
    context_window: int | None


class ReframeToolLimit(TypedDict):
    tool_name: str
    budget: int


class ReframeToolBudget(TypedDict):
    total: int
    per_tool: list[ReframeToolLimit]


class ReframeRetrievalSource(TypedDict):
    source_id: str
    allow: bool
    ttl_s: int


class ReframeRetrieval(TypedDict):
    precision_threshold: float
    sources: list[ReframeRetrievalSource]


ReframeContentFilter: TypeAlias = Literal[
    "harassment",
    "hate",
    "illicit",
    "pii",
    "profanity",
    "prompt_injection",
    "self_harm",
    "sexual",
    "violence",
]


class ReframeSafety(TypedDict):
    content_filters: list[ReframeContentFilter]
    requires_human_review: bool


class ReframePolicies(TypedDict):
    allow_copy: bool
    allow_schema_mutation: bool


class ReframeConstraints(TypedDict):
    tool_budget: ReframeToolBudget
    retrieval: ReframeRetrieval
    safety: ReframeSafety
    policies: ReframePolicies


class ReframeNormalized(TypedDict):
    schema_version: str
    request_id: str
    created_at: str
    tenant: str | None
    channels: list[ReframeChannel]
    payload: ReframePayload
    constraints: ReframeConstraints | None


class ReframeTokenHint(TypedDict):
    """What the mask compiler is told about one message; schemas/token_hints.json describes it."""

    message_id: str
    role: ReframeRole
    token_range: list[int]
    tokenized: bool
    segment: int
    segment_id: str | None
    position: int
    mask_bits: list[str]
    mask: int
    gating_features: dict[str, list[str]]


class ReframeCounts(TypedDict):
    """What telemetry wants to know of one request."""

    messages: int
    tokens: int
    tags: dict[str, int]
    tools: dict[str, int]


class ReframeRemark(TypedDict):
    """Something of the request that did not go over as it was."""

    field_path: str
    reason: str


class ReframeCall(TypedDict):
    """The same request as a call of a model, to be sent to `path` of this gateway."""

    protocol: str
    path: str
    body: dict[str, Any]
    dropped: list[ReframeRemark]
    added: list[ReframeRemark]
    lossless: bool


class ReframeResponse(TypedDict):
    request_id: str
    normalized: ReframeNormalized
    mask_hints: list[ReframeTokenHint]
    tokenizer: str
    warnings: list[ReframeWarning]
    has_more_warnings: bool
    counts: ReframeCounts
    into: NotRequired[ReframeCall]


class ReframeBatchItemResponse(TypedDict):
    index: int
    request_id: str | None
    status: Literal[200]
    response: ReframeResponse


class ReframeBatchItemError(TypedDict):
    index: int
    request_id: str | None
    status: Literal[400]
    error: ValidationError


ReframeBatchItem: TypeAlias = ReframeBatchItemResponse | ReframeBatchItemError


class ReframeBatchCounts(TypedDict):
    passed: int
    failed: int


class ReframeBatchResponse(TypedDict):
    results: list[ReframeBatchItem]
    counts: ReframeBatchCounts


class ReframeDependency(TypedDict):
    status: Literal["error", "off", "ok"]
    needed: bool
    detail: NotRequired[str]


class ReframeHealth(TypedDict):
    status: Literal["degraded", "error", "ok"]
    checked_at: int
    dependencies: dict[str, ReframeDependency]
    service: Literal["reframer"]
    version: str
    schema_version: str


class CallError(Exception):
    """The gateway answered, and did not do what it was asked; `body` is what it said."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body


class Refused(CallError):
    """Something is wrong with the request; `error` says what, and `mistakes` all of it."""

    def __init__(self, status: int, error: ValidationError) -> None:
        super().__init__(status, error)
        others = error["details"].get("diagnostics", [])
        self.error = error
        self.mistakes: list[ValidationError | ValidationErrorDetail] = [error, *others]
        self.args = ("; ".join(f"{one['field_path']}: {one['message']}" for one in self.mistakes),)


class Client:
    """One gateway. A gateway that cannot be reached is an OSError."""

    def __init__(self, base_url: str, key: str, *, timeout: float = 30.0) -> None:
        if urllib.parse.urlsplit(base_url).scheme not in ("http", "https"):
            raise ValueError("base_url must begin with http:// or https://")
        self._base_url = base_url.rstrip("/")
        self._headers = {"authorization": f"Bearer {key}"}
        self._timeout = timeout
        self._opener = urllib.request.OpenerDirector()
        # None that follows redirects: the key is for the gateway and for nobody else.
        for handler in (
            urllib.request.ProxyHandler(),
            urllib.request.HTTPHandler(),
            urllib.request.HTTPSHandler(),
        ):
            self._opener.add_handler(handler)

    def reframe(
        self,
        request: ReframeRequest,
        *,
        mode: Literal["strict", "lenient"] | None = None,
        into: Literal["chat_completion", "responses", "messages", "gemini"] | None = None,
        model: str | None = None,
    ) -> ReframeResponse:
        """Validate and normalise one request."""
        answer: ReframeResponse = self._call(
            "POST",
            "/v1/reframe",
            (200,),
            query={"mode": mode, "into": into, "model": model},
            body=request,
        )
        return answer

    def reframe_batch(
        self,
        requests: Sequence[ReframeRequest],
        *,
        mode: Literal["strict", "lenient"] | None = None,
        into: Literal["chat_completion", "responses", "messages", "gemini"] | None = None,
        model: str | None = None,
    ) -> ReframeBatchResponse:
        """The same for an array of requests; 207 when not all of them passed."""
        answer: ReframeBatchResponse = self._call(
            "POST",
            "/v1/reframe/batch",
            (200, 207),
            query={"mode": mode, "into": into, "model": model},
            body=list(requests),
        )
        return answer

    def schema(
        self,
        name: Literal["request", "role", "constraints", "token_hints"],
    ) -> dict[str, Any]:
        """A JSON Schema, byte for byte."""
        answer: dict[str, Any] = self._call("GET", f"/v1/schemas/{name}", (200,))
        return answer

    def health(self) -> ReframeHealth:
        """How the Reframer is, and what it depends on."""
        answer: ReframeHealth = self._call("GET", "/v1/health", (200, 503))
        return answer

    def _call(
        self,
        method: str,
        path: str,
        answers: Sequence[int],
        *,
        query: Mapping[str, str | None] | None = None,
        body: Any = None,
    ) -> Any:
        asked = {name: value for name, value in (query or {}).items() if value is not None}
        url = self._base_url + path + (f"?{urllib.parse.urlencode(asked)}" if asked else "")
        headers = dict(self._headers)
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["content-type"] = "application/json"
        request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 - checked
        with self._opener.open(request, timeout=self._timeout) as reply:
            status, raw = reply.status, reply.read()
        try:
            value = json.loads(raw)
        except ValueError:
            raise CallError(status, raw.decode("utf-8", "replace")) from None
        if status in answers:
            return value
        if isinstance(value, dict) and "error_code" in value:
            raise Refused(status, cast("ValidationError", value))
        raise CallError(status, value)
