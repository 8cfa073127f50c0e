"""The table of section 5: left to right, effects add up, and flags change it as data."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from monoize.errors import ConfigError
from monoize.reframer import Reframed, Refused, TagRule, reframe, tag_table
from monoize.reframer.tags import TAG_RULES, MaskBit, Role


def request(*tag_lists: list[str], role: str = "user") -> dict[str, Any]:
    return {
        "request_id": "request-0001",
        "created_at": "2025-03-01T09:30:00Z",
        "channels": [{"channel_id": "main", "role": "user"}],
        "payload": {
            "messages": [
                {"id": f"m{n}", "role": role, "content": "hello", "protocol_tags": tags}
                for n, tags in enumerate(tag_lists)
            ]
        },
    }


def reframed(*tag_lists: list[str], role: str = "user", flags: Any = None) -> Reframed:
    result = reframe(request(*tag_lists, role=role), flags=tag_table(flags))
    assert isinstance(result, Reframed), result
    return result


def refusal(*tag_lists: list[str], flags: Any = None) -> list[tuple[str, str]]:
    result = reframe(request(*tag_lists), flags=tag_table(flags))
    assert isinstance(result, Refused)
    return [(f.code, f.field_path) for f in result.findings]


# --- the rows ------------------------------------------------------------------------------------


@pytest.mark.spec("S3-5")
@pytest.mark.parametrize(
    ("tags", "role", "bits", "features", "marks"),
    [
        ([], "user", [], {}, ()),
        (["<tool:search>"], "tool", ["TOOL_SCOPE"], {"tool_id": ("search",)}, ()),
        (["<safety:restricted>"], "user", ["SAFETY_SCOPE"], {}, ("safety_review",)),
        (["<retrieval:context>"], "user", ["RET_SCOPE"], {}, ("retrieval_context",)),
        (["<segment:intro>"], "user", ["SEGMENT"], {}, ()),
        (["<role:assistant>"], "assistant", [], {}, ()),
        # effects add up, in whatever order
        (
            ["<safety:restricted>", "<tool:a>", "<retrieval:context>", "<tool:b>", "<segment:s>"],
            "tool",
            ["SEGMENT", "TOOL_SCOPE", "SAFETY_SCOPE", "RET_SCOPE"],
            {"tool_id": ("a", "b")},
            ("safety_review", "retrieval_context"),
        ),
        (["<tool:a>", "<tool:a>"], "tool", ["TOOL_SCOPE"], {"tool_id": ("a",)}, ()),
        (["<tool:a:b c>"], "tool", ["TOOL_SCOPE"], {"tool_id": ("a:b c",)}, ()),
        # the last role wins
        (["<role:assistant>", "<role:code>"], "code", [], {}, ()),
        (["<role:code>", "<role:code>", "<role:user>"], "user", [], {}, ()),
        # a tool after a role wins, and a role that is the tool's is none (D24)
        (["<role:user>", "<tool:a>"], "tool", ["TOOL_SCOPE"], {"tool_id": ("a",)}, ()),
        (["<tool:a>", "<role:tool>"], "tool", ["TOOL_SCOPE"], {"tool_id": ("a",)}, ()),
    ],
)
def test_what_tags_do_to_a_message(tags, role, bits, features, marks):
    result = reframed(tags)
    (message,), (hint,) = result.normalized.payload.messages, result.mask_hints
    assert (message.role, message.declared_role, hint.role) == (role, "user", role)
    assert hint.mask_bits == ("CAUSAL", *bits)
    assert hint.mask == sum(MaskBit[name] for name in hint.mask_bits)
    assert hint.gating_features == features
    assert message.marks == marks
    assert message.tools == features.get("tool_id", ())
    assert message.protocol_tags == tuple(tags)
    assert result.warnings == ()


@pytest.mark.spec("S3-5")
@pytest.mark.parametrize("role", list(Role))
def test_every_role_of_the_schema_can_be_given_by_a_tag(role):
    assert reframed([f"<role:{role.value}>"]).mask_hints[0].role is role


@pytest.mark.spec("S3-5", "D24")
@pytest.mark.parametrize(
    ("tags", "code", "number"),
    [
        (["<tool:a>", "<role:user>"], "FORBIDDEN_ROLE_OVERRIDE", 1),
        (["<role:user>", "<tool:a>", "<role:user>"], "FORBIDDEN_ROLE_OVERRIDE", 2),
        (["<tool:a>", "<role:tool>", "<role:data>"], "FORBIDDEN_ROLE_OVERRIDE", 2),
        (["<role:wizard>"], "INVALID_ROLE_TAG", 0),
        (["<role:User>"], "INVALID_ROLE_TAG", 0),
        (["<tool:a>", "<role:wizard>"], "INVALID_ROLE_TAG", 1),
    ],
)
def test_conflicts_are_errors(tags, code, number):
    assert refusal(tags) == [(code, f"payload.messages[0].protocol_tags[{number}]")]


@pytest.mark.spec("S3-5", "D24")
def test_the_sentence_names_both_tags():
    result = reframe(request(["<tool:a>", "<role:user>"]))
    assert result.findings[0].message == (
        'Message "m0" tag "<role:user>" must not override the role that "<tool:a>" gave'
    )


@pytest.mark.spec("S3-5", "D24")
@pytest.mark.parametrize(
    "tag",
    ["<tone:friendly>", "<safety:strict>", "<tool>", "<tool:>", "<:a>", "<Tool:a>", "< tool:a>"],
)
def test_an_unknown_tag_is_a_warning_and_blocks_nothing(tag):
    result = reframed([tag, "<tool:a>"])
    (warning,) = result.warnings
    assert warning.code == "UNKNOWN_PROTOCOL_TAG"
    assert warning.field_path == "payload.messages[0].protocol_tags[0]"
    assert warning.severity == "warning"
    assert result.mask_hints[0].role == "tool"


def test_an_unknown_tag_of_a_known_category_is_told_the_known_ones():
    (warning,) = reframed(["<safety:strict>"]).warnings
    assert warning.message == (
        'Message "m0" tag "<safety:strict>" is unknown (known: <safety:restricted>)'
    )


# --- counting ------------------------------------------------------------------------------------


@pytest.mark.spec("S3-5", "S3-7")
def test_what_telemetry_counts():
    counts = reframed(
        ["<safety:restricted>", "<safety:restricted>", "<retrieval:context>"],
        ["<retrieval:context>", "<x:y>", "<x:y>"],
        ["<tool:a>", "<safety:restricted>"],
        ["<tool:a>", "<tool:b>"],
    ).counts
    assert counts.tags == {
        "safety_restricted_messages": 2,
        "retrieval_weight": 2,
        "unknown_protocol_tags": 2,
    }
    assert counts.tools == {"a": 2, "b": 1}
    assert counts.messages == 4


def test_counters_stand_at_zero_when_there_is_nothing_to_count():
    assert reframed([]).counts.tags == {
        "safety_restricted_messages": 0,
        "retrieval_weight": 0,
        "unknown_protocol_tags": 0,
    }


def test_remembered_effects_are_those_of_their_own_role():
    table = tag_table()
    for role in ("user", "data", "user"):
        result = reframe(request(["<safety:restricted>"], role=role), flags=table)
        assert result.mask_hints[0].role == role


def test_tags_are_not_remembered_without_end():
    table = tag_table()
    for number in range(5000):
        table.usual([f"<tool:{number}>"], Role.USER)
    assert len(table._usual) <= 4096
    assert table.usual(["<tool:a>"] * 9, Role.USER) is None
    assert table.usual([f"<tool:{'a' * 300}>"], Role.USER) is None


# --- flags ---------------------------------------------------------------------------------------


@pytest.mark.spec("S3-7", "D24")
@pytest.mark.parametrize(
    ("flags", "refused"),
    [
        ({}, False),
        ({"<tone:friendly>": "error"}, True),
        ({"<tone:*>": "error"}, True),
        ({"<*>": "error"}, True),
        ({"<tone:sad>": "error"}, False),
        ({"<*>": "error", "<tone:*>": "warning"}, False),
        ({"<tone:*>": "error", "<tone:friendly>": "warning"}, False),
        ({"<tone:*>": "warning", "<tone:friendly>": "error"}, True),
    ],
)
def test_a_flag_promotes_unknown_tags_to_errors(flags, refused):
    result = reframe(request(["<tone:friendly>"]), flags=tag_table(flags))
    assert isinstance(result, Refused) is refused
    assert (result.findings if refused else result.warnings)[0].code == "UNKNOWN_PROTOCOL_TAG"


@pytest.mark.spec("S3-7")
def test_a_flag_adds_a_rule_as_data():
    flags = {
        "<review:*>": {
            "mask_bits": ["SAFETY_SCOPE", "SEGMENT"],
            "gating_feature": "reviewer",
            "mark": "review",
            "counter": "reviews",
            "starts_segment": True,
        },
        "<speaker:host>": {"role": "assistant"},
    }
    result = reframed(["<review:ada>", "<speaker:host>"], flags=flags)
    (hint,) = result.mask_hints
    assert hint.mask_bits == ("CAUSAL", "SEGMENT", "SAFETY_SCOPE")
    assert hint.gating_features == {"reviewer": ("ada",)}
    assert (hint.segment, hint.segment_id, hint.role) == (1, "ada", "assistant")
    assert result.normalized.payload.messages[0].marks == ("review",)
    assert result.counts.tags["reviews"] == 1


@pytest.mark.spec("S3-7")
def test_an_exact_rule_comes_before_that_of_its_category():
    flags = {"<tool:calc>": {"role": "code"}}
    result = reframed(["<tool:calc>"], ["<tool:search>"], flags=flags)
    assert [hint.role for hint in result.mask_hints] == ["code", "tool"]


@pytest.mark.spec("S3-7")
def test_two_rules_that_keep_different_roles_conflict():
    flags = {"<script:*>": TagRule(role=Role.CODE, keeps_role=True)}
    assert refusal(["<tool:a>", "<script:b>"], flags=flags)[0][0] == "FORBIDDEN_ROLE_OVERRIDE"


@pytest.mark.spec("S3-7")
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"tone": "error"}, "must be <category:identifier>"),
        ({"<tone>": "error"}, "must be <category:identifier>"),
        ({"<tone:x>": "loud"}, "tag flag '<tone:x>'"),
        ({"<tone:x>": {"role": "wizard"}}, "tag flag '<tone:x>'"),
        ({"<tone:x>": {"rolle": "user"}}, "rolle"),
        ({"<tone:x>": {"mask_bits": ["NOPE"]}}, "tag flag '<tone:x>'"),
        ({"<*>": {"role": "user"}}, "takes error or warning"),
        ({"<tool:*>": "error"}, "has a rule"),
        ({"<tone:x>": 1}, "tag flag '<tone:x>'"),
    ],
)
def test_a_bad_flag_is_named(flags, words):
    with pytest.raises(ConfigError, match=re.escape(words)):
        tag_table(flags)


def test_the_table_is_the_specifications():
    assert list(TAG_RULES) == [
        *("<tool:*>", "<safety:restricted>", "<retrieval:context>", "<segment:*>", "<role:*>"),
    ]


@pytest.mark.spec("S3-7")
def test_the_flags_on_the_page_are_a_table():
    page = (Path(__file__).parents[3] / "docs" / "reframer.md").read_text("utf-8")
    written, *_ = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    result = reframed(["<beta:tone>", "<review:ada>", "<speaker:host>"], flags=json.loads(written))
    assert [hint.role for hint in result.mask_hints] == ["assistant"]
    assert result.counts.tags["reviews"] == 1
