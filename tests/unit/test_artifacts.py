"""artifacts/: fresh, the same wherever it is made, and clean."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from monoize.artifacts import artifacts
from monoize.artifacts.python_types import PythonTypes
from monoize.cli.artifacts import write_artifacts

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "artifacts"
CLIENT = FOLDER / "python" / "monoize_client.py"
BY_HAND = {"README.md"}

pytestmark = pytest.mark.spec("S3-7")


def kept() -> dict[str, bytes]:
    files = (file for file in FOLDER.rglob("*") if file.is_file() and file.suffix != ".pyc")
    return {file.relative_to(FOLDER).as_posix(): file.read_bytes() for file in files}


def test_the_artifacts_are_fresh():
    made, found = artifacts(), kept()
    assert set(found) == set(made) | BY_HAND
    stale = [name for name, content in made.items() if found[name] != content]
    assert not stale, "run `make artifacts`"


@pytest.mark.parametrize("seed", ["1", "2"])
def test_every_process_makes_the_same_bytes(tmp_path, seed):
    """Order must not come from sets or from hashes."""
    done = subprocess.run(
        [sys.executable, "-m", "monoize", "artifacts", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONHASHSEED": seed},
    )
    assert done.returncode == 0, done.stderr
    assert [Path(line).relative_to(tmp_path).as_posix() for line in done.stdout.split()] == list(
        artifacts()
    )
    for name, content in artifacts().items():
        assert (tmp_path / name).read_bytes() == content, name


def test_a_folder_that_cannot_be_written_is_one_clear_sentence(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert write_artifacts(tmp_path / "file") == 1
    said = capsys.readouterr().err
    assert said.startswith("monoize: ")
    assert len(said.splitlines()) == 1


@pytest.mark.spec("S3-6.3")
def test_the_schemas_are_the_packaged_files():
    packaged = ROOT / "src" / "monoize" / "reframer" / "schemas"
    for name, content in artifacts().items():
        if name.startswith("schemas/"):
            original = (packaged / Path(name).name).read_bytes()
            assert hashlib.sha256(content).digest() == hashlib.sha256(original).digest()


def tool(program: str, *words: str) -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / program), *words, str(CLIENT)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_client_is_formatted_and_without_lint():
    tool("ruff", "format", "--check", "--no-cache")
    # Where the file lies is no matter of the file: it is made to be copied.
    tool("ruff", "check", "--no-cache", "--extend-ignore", "INP001")


def test_the_client_is_strictly_typed(tmp_path):
    tool("mypy", "--strict", "--cache-dir", str(tmp_path))


def test_the_client_needs_the_standard_library_alone(tmp_path):
    script = "import runpy, sys; runpy.run_path(sys.argv[1])"
    subprocess.run([sys.executable, "-I", "-S", "-c", script, str(CLIENT)], timeout=60, check=True)


# --- how types are written ---


def types(form: dict[str, Any], **others: dict[str, Any]) -> str:
    found = PythonTypes({"Thing": form, **others})
    found.component("Thing")
    return found.source


def test_objects_become_typed_dicts_and_say_what_may_be_missing():
    form = {
        "type": "object",
        "description": "A thing",
        "required": ["id", "sizes"],
        "properties": {
            "id": {"type": ["string", "null"]},
            "sizes": {"type": "array", "items": {"type": "integer"}},
            "more": {"type": "object", "additionalProperties": {"type": "number"}},
            "open": {"type": "object"},
            "any": {},
            "pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "integer"}]},
            "parts": {
                "type": "array",
                "items": {"type": "object", "properties": {"kind": {"const": 7}}},
            },
        },
    }
    assert types(form) == (
        "class ThingPart(TypedDict):\n"
        "    kind: NotRequired[Literal[7]]\n"
        "\n\n"
        "class Thing(TypedDict):\n"
        '    """A thing."""\n'
        "\n"
        "    id: str | None\n"
        "    sizes: list[int]\n"
        "    more: NotRequired[dict[str, float]]\n"
        "    open: NotRequired[dict[str, Any]]\n"
        "    any: NotRequired[Any]\n"
        "    pair: NotRequired[list[int]]\n"
        "    parts: NotRequired[list[ThingPart]]\n"
    )


def test_references_lead_to_components_definitions_and_addresses():
    form = {
        "$id": "https://example.org/thing",
        "type": "object",
        "required": ["a", "b", "c"],
        "properties": {
            "a": {"$ref": "#/components/schemas/Other"},
            "b": {"$ref": "#/$defs/inner_one"},
            "c": {"$ref": "https://example.org/kind"},
        },
        "$defs": {"inner_one": {"enum": ["x", "y"]}},
    }
    kind = {"$id": "https://example.org/kind", "type": "string"}
    assert types(form, Other={"type": "boolean"}, Kind=kind) == (
        "Other: TypeAlias = bool\n"
        "\n\n"
        'ThingInnerOne: TypeAlias = Literal["x", "y"]\n'
        "\n\n"
        "Kind: TypeAlias = str\n"
        "\n\n"
        "class Thing(TypedDict):\n"
        "    a: Other\n"
        "    b: ThingInnerOne\n"
        "    c: Kind\n"
    )


def test_the_members_of_a_union_are_called_after_what_tells_them_apart():
    good = {"type": "object", "required": ["n", "good"], "properties": {"good": {}, "n": {}}}
    bad = {"type": "object", "required": ["n", "bad"], "properties": {"bad": {}, "n": {}}}
    assert types({"oneOf": [good, bad]}).endswith("Thing: TypeAlias = ThingGood | ThingBad\n")
    assert types({"anyOf": [{"type": "string"}, {}]}) == "Thing: TypeAlias = str\n"


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ({"type": "object", "properties": {"a-b": {}}}, "Thing.a-b"),
        ({"type": "object", "properties": {"class": {}}}, "Thing.class"),
        (
            {
                "type": "object",
                "properties": {
                    "a": {
                        "type": "object",
                        "properties": {"b": {"type": "object", "properties": {}}},
                    },
                    "b": {"type": "object", "properties": {}},
                },
            },
            "two types would be called ThingB",
        ),
    ],
)
def test_what_cannot_be_written_is_told_and_not_guessed(form, sentence):
    with pytest.raises(ValueError, match=sentence):
        types(form)


def test_the_document_describes_itself_as_openapi():
    described = json.loads(artifacts()["openapi.json"])
    assert described["openapi"] == "3.1.0"
    assert {"ReframeResponse", "ValidationError"} <= set(described["components"]["schemas"])
