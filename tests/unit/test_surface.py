"""What the package shows to the outside, pinned: a change here is a change for users."""

import importlib
import pkgutil
import subprocess
import sys

import pytest

import monoize
import monoize.urp

MODULES = [
    module.name
    for module in pkgutil.walk_packages(monoize.__path__, "monoize.")
    if not module.name.endswith("__main__")
]


def test_the_package_itself_shows_its_version_only():
    assert monoize.__all__ == ["__version__"]


def test_urp_shows_its_types():
    assert set(monoize.urp.__all__) == {
        *("Audio", "Base64", "Citation", "File", "FileId", "Image", "Media", "Message", "Part"),
        *("ProviderItem", "Reasoning", "ReasoningEncrypted", "Refusal", "Role", "Seal", "Text"),
        *(
            "ToolCall",
            "ToolResult",
            "Url",
            "JsonObjectFormat",
            "JsonSchemaFormat",
            "ReasoningSettings",
        ),
        *("ResponseFormat", "TextFormat", "Tool", "ToolChoice", "UrpRequest", "Choice", "Finish"),
        *(
            "FinishReason",
            "UrpResponse",
            "Usage",
            "ArgumentsDelta",
            "ChoiceEnd",
            "CitationDelta",
            "Delta",
        ),
        *("EncryptedDelta", "Error", "Frame", "MediaDelta", "PartDelta", "PartDone", "PartStart"),
        *(
            "ProviderEvent",
            "ReasoningDelta",
            "RefusalDelta",
            "ResponseDone",
            "ResponseStart",
            "SealDelta",
        ),
        *(
            "TextDelta",
            "UrpStreamEvent",
            "WireEvent",
            "EMPTY",
            "USERNAME_FIELD",
            "Source",
            "Value",
            "Losses",
        ),
        *("Folder", "StreamFailed", "bare", "fold", "renamed", "replace", "unfold"),
    }


def test_every_module_has_what_it_promises_and_says_what_it_is():
    modules = {name: importlib.import_module(name) for name in MODULES}
    assert len(modules) > 500
    assert [name for name, module in modules.items() if not module.__doc__] == []
    missing = [
        f"{name}.{exported}"
        for name, module in modules.items()
        for exported in getattr(module, "__all__", ())
        if not hasattr(module, exported)
    ]
    assert missing == []


@pytest.mark.spec("T42")
def test_importing_the_package_is_light():
    script = "import sys, monoize; print([m for m in ('aiohttp', 'uvicorn', 'msgspec', 'yaml') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
