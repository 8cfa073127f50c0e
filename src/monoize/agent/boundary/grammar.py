"""What a reply may be, as the runtime means it, and the grammars that it becomes (S5-7 overlay 2, invariant F).

Two grammars come out of one meaning. The *verifier's* holds every way to write a call of an allowed tool, its arguments any JSON object: a
provider may order and escape as it likes, and the schema judges the finished object. The *decoder's* holds what the local model may write:
one fixed way, every schema inside.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import llguidance
import msgspec

from monoize.agent.boundary.decoding_schema import call_schema
from monoize.agent.boundary.local_syntax import SYNTAXES, TextSyntax
from monoize.agent.boundary.strict_json import MAX_DEPTH
from monoize.agent.canonical_json import NotCanonical, canonical, hash_of, sha256
from monoize.agent.machine.schema import compile_problem
from monoize.agent.manifest import ToolManifest
from monoize.agent.profile import Profile

__all__ = [
    "COMPILER_VERSION",
    "DECODER_GRAMMARS",
    "MAX_GRAMMAR_BYTES",
    "Compiled",
    "decoder_grammar",
    "grammar_problem",
    "mask_digest",
    "schema_refusals",
    "verifier_grammar",
]

COMPILER_VERSION = f"monoize-1+llguidance-{llguidance.__version__}"
MAX_GRAMMAR_BYTES = 256 * 1024
_MAX_SCHEMA_BYTES = 64 * 1024
_MAX_SCHEMA_DEPTH = 32
_MAX_TOOLS = 128
_COMPILED = 64  # grammars that are kept; one run needs two

DECODER_GRAMMARS = ("tool_call", "tool_call_or_text", "text")

# Fixed blanks: a weak model would write them on and on.
_STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_HEADER = "%llguidance {}"
_TEXT = r"TEXT: /[^{ \t\r\n](.|\n)*/"  # nothing that begins like a call
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class Compiled(msgspec.Struct, frozen=True, kw_only=True):
    text: str  # llguidance's dialect of Lark
    digest: str


def _compiled(text: str) -> Compiled:
    return Compiled(text=text, digest=sha256(f"{COMPILER_VERSION}\n{text}".encode()))


# --- for the local engine's decoder ----------------------------------------------------------------


def decoder_grammar(
    manifest: ToolManifest, kind: str, max_output_tokens: int | None = None
) -> Compiled:
    """The grammar `kind` of DECODER_GRAMMARS. Raises ValueError for tools that `schema_refusals` refuses."""
    # Fields in canonical order: manifests of one hash give one grammar.
    tools = canonical([[tool.name, tool.parameters] for tool in manifest.tools])
    return _decoder(tools, kind, max_output_tokens)


@lru_cache(maxsize=_COMPILED)
def _decoder(tools: bytes, kind: str, max_output_tokens: int | None) -> Compiled:
    shapes = [call_schema(name, taken, max_output_tokens) for name, taken in json.loads(tools)]
    rules = [
        f"call{n}: %json {_json({**shape, 'x-guidance': _STYLE})}" for n, shape in enumerate(shapes)
    ]
    call = " | ".join(f"call{n}" for n in range(len(shapes))) or '""'
    if kind == "tool_call":
        start = f"start: {call}"
    elif kind == "tool_call_or_text":
        # What begins like a call is one: the model cannot talk its way out of it.
        start = f"start: {call} | TEXT\n{_TEXT}"
    elif kind == "text":
        start, rules = f"start: TEXT\n{_TEXT}", []
    else:
        raise ValueError(f"{kind!r} is no grammar of the local engine")
    compiled = _compiled("\n".join((_HEADER, start, *rules)))
    problem = grammar_problem(compiled.text)
    if problem is not None:
        raise ValueError(problem)
    return compiled


def grammar_problem(text: str) -> str | None:
    """Why llguidance does not take a grammar; None when it does."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_GRAMMAR_BYTES:
        return f"the grammar is larger than {MAX_GRAMMAR_BYTES} bytes"
    is_error, said = llguidance.LLMatcher.validate_grammar_with_warnings(text)
    # The first line says it; the others print the grammar.
    return said[0].partition("\n")[0][:400] if is_error else None


# --- for the verifier ------------------------------------------------------------------------------


def verifier_grammar(manifest: ToolManifest, syntax: TextSyntax | None) -> Compiled:
    """One call after its opening mark, its closing mark included; `None`: a call of the protocol's own."""
    closes = SYNTAXES[syntax].closes if syntax is not None else ""
    return _verifier(manifest.names(), closes)


@lru_cache(maxsize=_COMPILED)
def _verifier(names: tuple[str, ...], closes: str) -> Compiled:
    # A terminal that matches nothing stands for "no tool at all".
    name = " | ".join(_literal(json.dumps(name)) for name in names) or "/[^\\s\\S]/"
    end = f" {_literal(closes)}" if closes else ""
    lines = [
        _HEADER,
        f"start: WS? call WS?{end}",
        'call: "{" WS? (name WS? "," WS? arguments | arguments WS? "," WS? name) WS? "}"',
        f'name: {_literal(chr(34) + "name" + chr(34))} WS? ":" WS? ({name})',
        f'arguments: {_literal(chr(34) + "arguments" + chr(34))} WS? ":" WS? object0',
    ]
    # A level for every depth that is allowed: one more bracket is refused by its first byte.
    for level in range(MAX_DEPTH):
        deeper = f"object{level + 1} | array{level + 1} | " if level + 1 < MAX_DEPTH else ""
        lines += [
            f'value{level}: {deeper}STRING | NUMBER | "true" | "false" | "null"',
            f'field{level}: WS? STRING WS? ":" WS? value{level} WS?',
            f'object{level}: "{{" WS? "}}" | "{{" field{level} ("," field{level})* "}}"',
            f'array{level}: "[" WS? "]" | "[" item{level} ("," item{level})* "]"',
            f"item{level}: WS? value{level} WS?",
        ]
    lines += [
        r'STRING: /"([^"\\\x00-\x1f]|\\["\\\/bfnrt]|\\u[0-9a-fA-F]{4})*"/',
        r"NUMBER: /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/",
        r"WS: /[ \t\r\n]+/",
    ]
    return _compiled("\n".join(lines))


def _literal(text: str) -> str:
    return json.dumps(text)


# --- what PRECHECK asks ----------------------------------------------------------------------------


def schema_refusals(manifest: ToolManifest, profile: Profile) -> tuple[str, ...]:
    """Sentences about tools whose schema cannot be held to under this profile (SCHEMA_UNSUPPORTED); empty when all can."""
    if len(manifest.tools) > _MAX_TOOLS:
        return (f"a run has at most {_MAX_TOOLS} tools, not {len(manifest.tools)}",)
    refusals = []
    for tool in manifest.tools:
        problem = _schema_problem(tool.parameters)
        if problem is None and profile.takes_grammar:
            problem = _decoder_problem(ToolManifest(tools=(tool,)))
        if problem is not None:
            refusals.append(f"the parameters of {tool.name} cannot be enforced: {problem}")
    if not refusals and profile.takes_grammar and manifest.tools:
        problem = _decoder_problem(manifest)  # together they may be too much
        refusals += [] if problem is None else [f"the tools cannot be enforced: {problem}"]
    return tuple(refusals)


def _decoder_problem(manifest: ToolManifest) -> str | None:
    try:
        for kind in DECODER_GRAMMARS:
            decoder_grammar(manifest, kind)
    except ValueError as refused:
        return str(refused)
    return None


def _schema_problem(schema: Mapping[str, Any]) -> str | None:
    problem = _shape_problem(schema)
    if problem is not None:
        return problem
    try:
        size = len(canonical(schema))
    except NotCanonical as refused:
        return str(refused)
    if size > _MAX_SCHEMA_BYTES:
        return f"the schema is larger than {_MAX_SCHEMA_BYTES} bytes"
    if schema.get("type", "object") != "object":
        return "arguments are an object, and the schema says otherwise"
    return compile_problem(schema)


def _shape_problem(schema: Any) -> str | None:
    """Depth and references, without recursion; nothing is ever fetched."""
    waiting = [(schema, 1)]
    while waiting:
        value, depth = waiting.pop()
        if depth > _MAX_SCHEMA_DEPTH:
            return f"the schema nests deeper than {_MAX_SCHEMA_DEPTH} levels"
        if isinstance(value, Mapping):
            for key in _REFERENCES:
                target = value.get(key)
                if isinstance(target, str) and not target.startswith("#"):
                    return f"{key} leads outside of the schema ({target[:80]})"
            waiting += [(inner, depth + 1) for inner in value.values()]
        elif isinstance(value, list | tuple):
            waiting += [(inner, depth + 1) for inner in value]
    return None


def mask_digest(mask: tuple[float, ...]) -> str:
    """What a contract's `logits_mask` says of the mask that lies beside it."""
    return hash_of(list(mask))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
