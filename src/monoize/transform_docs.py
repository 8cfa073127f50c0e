"""The reference page of all transforms, written from what they say about themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import yaml

from monoize.transform import Transform

__all__ = ["Option", "description", "example_rule", "options", "page", "summary"]

_HEAD = """\
# Transforms

<!-- Written by `make docs` from the transforms themselves; edit their files in src/monoize/transforms. -->

A rule names a transform, the phase it runs in, the models it is for, and its options. Rules stand in the
`transforms` list of a provider or of a key and run in order: what one returns is what the next one gets.
`monoize transforms try FILE` shows what rules do to a request, a reply or a stream of your own
([example](../../examples/transforms-try.yaml)).
"""


_LIMITS = (("minimum", "at least"), ("maximum", "at most"))


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a config; those of a nested object have a dotted name."""

    name: str
    type: str
    presence: str  # required, or its default
    description: str


def page(transforms: Mapping[str, Transform[Any]]) -> str:
    """The built-in ones; those of other packages have pages of their own."""
    transforms = {
        name: found
        for name, found in transforms.items()
        if type(found).__module__.startswith("monoize.transforms.")
    }
    rows = [
        f"| [`{name}`](#{name}) | {_phases(found)} | {_cell(summary(found))} |"
        for name, found in transforms.items()
    ]
    table = "\n".join(["| transform | phase | what it does |", "|---|---|---|", *rows])
    return "\n".join([_HEAD, table, *(_section(found) for found in transforms.values()), ""])


def description(found: Transform[Any]) -> str:
    """The docstring of the class: what an operator wants to know."""
    return inspect.getdoc(type(found)) or ""


def summary(found: Transform[Any]) -> str:
    """The first paragraph, on one line."""
    return " ".join(description(found).partition("\n\n")[0].split())


def example_rule(found: Transform[Any]) -> str:
    """A rule as it stands in the config file."""
    rule: dict[str, Any] = {"transform": found.id, "phase": str(found.supported_phases()[0])}
    config = found.example_config()
    return yaml.safe_dump(
        [{**rule, **({"config": config} if config else {})}], sort_keys=False, allow_unicode=True
    )


def options(found: Transform[Any]) -> tuple[Option, ...]:
    schema = found.config_schema()
    return tuple(_options(schema, schema.get("$defs", {}), ""))


def _section(found: Transform[Any]) -> str:
    lines = [f"\n## {found.id}", "", description(found), "", f"Phase: {_phases(found)}."]
    if found.needs_whole_response:
        lines += ["", "It waits for the whole reply: a stream is then written in one go (D5)."]
    listed = options(found)
    if listed:
        lines += ["", "| option | type | required or default | |", "|---|---|---|---|"]
        lines += [
            f"| `{o.name}` | {o.type} | {o.presence} | {_cell(o.description)} |" for o in listed
        ]
    else:
        lines += ["", "No options."]
    return "\n".join([*lines, "", "```yaml", example_rule(found).rstrip(), "```"])


def _phases(found: Transform[Any]) -> str:
    return ", ".join(found.supported_phases())


def _options(schema: Any, definitions: Any, prefix: str) -> Iterator[Option]:
    required = schema.get("required", ())
    for name, rules in schema.get("properties", {}).items():
        presence = "required" if name in required else f"`{_json(rules.get('default'))}`"
        yield Option(
            name=prefix + name,
            type=_type(rules, definitions),
            presence=presence,
            description=rules.get("description", ""),
        )
        below = _resolved(rules.get("items", rules), definitions)
        if "properties" in below:
            step = "[]." if "items" in rules else "."
            yield from _options(below, definitions, f"{prefix}{name}{step}")


def _type(rules: Any, definitions: Any) -> str:
    rules = _resolved(rules, definitions)
    if "enum" in rules:
        return " or ".join(f"`{_json(value)}`" for value in rules["enum"])
    if "anyOf" in rules:
        return " or ".join(_type(kind, definitions) for kind in rules["anyOf"])
    if rules.get("type") == "array":
        return f"list of {_type(rules.get('items', {}), definitions)}"
    limits = [f"{words} {rules[key]}" for key, words in _LIMITS if key in rules]
    return ", ".join([str(rules.get("type", "any")), *limits])


def _resolved(rules: Any, definitions: Any) -> Any:
    if "$ref" not in rules:
        return rules
    return definitions[rules["$ref"].rpartition("/")[2]]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
