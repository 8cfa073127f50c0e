"""JSON Schemas as Python types: an object becomes a TypedDict, a choice a Literal, and so on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from keyword import iskeyword
from typing import Any, NamedTuple

__all__ = ["LINE", "PythonTypes"]

LINE = 100  # letters of a line, as the formatter counts

Schema = Mapping[str, Any]

_COMPONENT = "#/components/schemas/"
_DEFINITION = "#/$defs/"
_PLAIN = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "array": "list[Any]",
    "object": "dict[str, Any]",
}


class _Place(NamedTuple):
    """Where a schema stands: the name that it gets if it needs one, and the document that its references mean."""

    name: str
    root_name: str
    root: Schema

    def inner(self, word: str) -> _Place:
        """Of a field; the whole way to it would make long names."""
        return self._replace(name=self.root_name + _camel(word))

    @property
    def item(self) -> _Place:
        return self._replace(name=self.name.removesuffix("s"))


class PythonTypes:
    """Declares what it is asked for, and what that is made of, once each; `source` is all of it in order."""

    def __init__(self, components: Mapping[str, Schema]) -> None:
        self._components = components
        self._addresses = {form["$id"]: name for name, form in components.items() if "$id" in form}
        self._taken: set[str] = set()
        self._declared: dict[str, str] = {}  # what a type is made of comes before it

    @property
    def names(self) -> Sequence[str]:
        return tuple(self._declared)

    @property
    def source(self) -> str:
        return "\n\n".join(self._declared.values())

    def component(self, name: str) -> str:
        """A declared name; nothing else is called like a component."""
        if name not in self._declared:
            form = self._components[name]
            self._declare(form, _Place(name, name, form))
        return name

    def of(self, form: Schema, name: str) -> str:
        """The type of a schema that stands in the document itself; `name` is for what has to be declared."""
        return self._type(form, _Place(name, name, form))

    def _declare(self, form: Schema, place: _Place) -> str:
        name = place.name
        if name in self._taken:
            raise ValueError(f"two types would be called {name}")
        self._taken.add(name)
        if "properties" in form:
            self._declared[name] = self._typed_dict(form, place)
        else:
            self._declared[name] = _alias(name, self._type(form, place))
        return name

    def _type(self, form: Schema, place: _Place) -> str:
        if "$ref" in form:
            return self._reference(form["$ref"], place)
        if "enum" in form or "const" in form:
            return f"Literal[{', '.join(map(_literal, form.get('enum', [form.get('const')])))}]"
        for word in ("anyOf", "oneOf"):
            if word in form:
                return self._union(form[word], place)
        kind = form.get("type")
        if isinstance(kind, list):
            return " | ".join(_PLAIN[each] for each in kind)
        if kind == "array":
            return f"list[{self._item(form, place)}]"
        if kind == "object" and "properties" in form:
            return self._declare(form, place)
        if kind == "object" and isinstance(form.get("additionalProperties"), Mapping):
            return f"dict[str, {self._type(form['additionalProperties'], place.item)}]"
        return _PLAIN[kind] if kind is not None else "Any"

    def _reference(self, target: str, place: _Place) -> str:
        if target.startswith(_COMPONENT):
            return self.component(target.removeprefix(_COMPONENT))
        if target.startswith(_DEFINITION):
            word = target.removeprefix(_DEFINITION)
            name = place.root_name + _camel(word)
            if name in self._declared:
                return name
            return self._declare(place.root["$defs"][word], place._replace(name=name))
        return self.component(self._addresses[target])

    def _item(self, form: Schema, place: _Place) -> str:
        """JSON has no tuples: items that are told one by one are still those of a list."""
        if "prefixItems" in form:
            return " | ".join(
                dict.fromkeys(self._type(item, place.item) for item in form["prefixItems"])
            )
        return self._type(form.get("items", {}), place.item)

    def _union(self, forms: Sequence[Schema], place: _Place) -> str:
        """`{}` beside others lets pass whatever comes; it tells nobody what to send."""
        told = [form for form in forms if form]
        objects = [form for form in told if "properties" in form]
        places = iter([place.inner(word) for word in _distinctions(objects)] or [place])
        return " | ".join(
            self._type(form, next(places) if "properties" in form else place) for form in told
        )

    def _typed_dict(self, form: Schema, place: _Place) -> str:
        lines = [f"class {place.name}(TypedDict):"]
        if described := form.get("description"):
            lines += [f'    """{_sentence(described)}"""', ""]
        required = form.get("required", ())
        for name, inner in form["properties"].items():
            if not name.isidentifier() or iskeyword(name):
                raise ValueError(f"{place.name}.{name} cannot be the name of a field")
            kind = self._type(inner, place.inner(name))
            lines.append(f"    {name}: {kind if name in required else f'NotRequired[{kind}]'}")
        return "\n".join((*lines, ""))


def _distinctions(objects: Sequence[Schema]) -> list[str]:
    """For each object of a union the first field that only it requires; one alone needs none."""
    if len(objects) == 1:
        return []
    required = [form.get("required", []) for form in objects]
    return [
        next(
            word
            for word in words
            if not any(word in other for n, other in enumerate(required) if n != number)
        )
        for number, words in enumerate(required)
    ]


def _alias(name: str, kind: str) -> str:
    line = f"{name}: TypeAlias = {kind}"
    if len(line) <= LINE:
        return f"{line}\n"
    choices = re.fullmatch(r"Literal\[(.*)\]", kind)
    if choices is None:
        raise ValueError(f"{name} does not fit into a line")
    return _lines(f"{name}: TypeAlias = Literal[", choices[1].split(", "), "]")


def _lines(first: str, items: Iterable[str], last: str) -> str:
    return "".join((f"{first}\n", *(f"    {item},\n" for item in items), f"{last}\n"))


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _sentence(text: str) -> str:
    line = " ".join(text.split()).replace("\\", "\\\\").replace('"""', "'''")
    return line if line.endswith(".") else f"{line}."


def _camel(word: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in word.split("_"))
