"""A Python module that calls the Reframer of a gateway: typed, and of the standard library alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from monoize.artifacts.python_types import LINE, PythonTypes

__all__ = ["python_client"]

Schema = Mapping[str, Any]

# Name of the method -> what it calls.
_METHODS = {
    "reframe": ("post", "/v1/reframe"),
    "reframe_batch": ("post", "/v1/reframe/batch"),
    "schema": ("get", "/v1/schemas/{name}"),
    "health": ("get", "/v1/health"),
}
_ERROR = "ValidationError"

_HEAD = '''\
"""Calls the Reframer of a Monoize gateway. Written from its OpenAPI document by `make artifacts`; do not edit.

Needs Python 3.11 and nothing else. This file is all of it: copy it to where you need it.
"""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, cast

'''

_CLIENT = '''\
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

# methods

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
'''


def python_client(document: Schema, published: Mapping[str, Schema]) -> str:
    """The whole module, of an OpenAPI document that describes the Reframer.

    `published`: components that are schemas with an address. The document has them with every reference replaced, which leaves
    no names.
    """
    types = PythonTypes({**document["components"]["schemas"], **published})
    types.component(_ERROR)
    methods = [
        _method(name, verb, path, document["paths"][path][verb], types)
        for name, (verb, path) in _METHODS.items()
    ]
    names = sorted((*types.names, "CallError", "Client", "Refused"))
    exported = "".join(f'    "{name}",\n' for name in names)
    return "\n".join(
        (
            f"{_HEAD}__all__ = [\n{exported}]\n\n",
            f"{types.source}\n",
            _CLIENT.replace("# methods\n", "\n".join(methods)),
        )
    )


def _method(name: str, verb: str, path: str, operation: Schema, types: PythonTypes) -> str:
    """Body and parts of the path by place, what the query may say by name."""
    words = "".join(part.title() for part in name.split("_"))
    given = {p["name"]: p for p in operation["parameters"] if p["in"] in ("path", "query")}
    query = {name: p for name, p in given.items() if p["in"] == "query"}
    signature = ["self"]
    if "requestBody" in operation:
        body = types.of(_json(operation["requestBody"]), words)
        signature.append(f"{_body_name(body)}: {_read_only(body)}")
    signature += [
        f"{n}: {types.of(p['schema'], words)}" for n, p in given.items() if n not in query
    ]
    if query:
        signature.append("*")
        signature += [
            f"{n}: {types.of(p['schema'], words)} | None = None" for n, p in query.items()
        ]
    answer = types.of(_json(operation["responses"]["200"]), words)
    lines = [
        _signature(name, signature, answer),
        f'        """{operation["summary"]}."""',
        *_calling(verb, path, operation, answer, list(query)),
        "",
    ]
    return "\n".join(lines)


def _signature(name: str, parameters: list[str], answer: str) -> str:
    line = f"    def {name}({', '.join(parameters)}) -> {answer}:"
    if len(line) <= LINE:
        return line
    inner = "".join(f"        {parameter},\n" for parameter in parameters)
    return f"    def {name}(\n{inner}    ) -> {answer}:"


def _calling(
    verb: str, path: str, operation: Schema, answer: str, query: list[str]
) -> Iterator[str]:
    answers = ", ".join(_answers(operation))
    quoted = f'f"{path}"' if "{" in path else f'"{path}"'
    arguments = [
        f'"{verb.upper()}"',
        quoted,
        f"({answers},)" if "," not in answers else f"({answers})",
    ]
    if query:
        pairs = ", ".join(f'"{name}": {name}' for name in query)
        arguments.append(f"query={{{pairs}}}")
    if "requestBody" in operation:
        body = _json(operation["requestBody"])
        arguments.append("body=" + ("list(requests)" if body.get("type") == "array" else "request"))
    line = f"        answer: {answer} = self._call({', '.join(arguments)})"
    if len(line) <= LINE:
        yield line
    else:
        yield f"        answer: {answer} = self._call("
        yield from (f"            {argument}," for argument in arguments)
        yield "        )"
    yield "        return answer"


def _answers(operation: Schema) -> Iterator[str]:
    """Statuses whose body is what the method promises: of a health that is bad, too."""
    good = _json(operation["responses"]["200"])
    for status, response in operation["responses"].items():
        if status.isdigit() and "content" in response and _json(response) == good:
            yield status


def _json(described: Schema) -> Schema:
    """The schema of a body; there is one kind of it."""
    (content,) = described["content"].values()
    return content["schema"]  # type: ignore[no-any-return]


def _body_name(kind: str) -> str:
    return "requests" if kind.startswith("list[") else "request"


def _read_only(kind: str) -> str:
    """Any sequence is good enough to be sent."""
    return f"Sequence[{kind.removeprefix('list[')}" if kind.startswith("list[") else kind
