"""Why a contract is as it is, in words; and what the code page asks a person before."""

from __future__ import annotations

import msgspec
import pytest

from fakes.agent_runs import MANIFEST
from monoize.agent.factory import ContractRequest, resolve
from monoize.agent.profile import GateLevel, Profile, profiles
from monoize.agent.runs.preview import REASONS, explained
from monoize.reframer.constraints import (
    Constraints,
    Policies,
    Retrieval,
    Safety,
    ToolBudget,
    ToolLimit,
)

LOCAL = profiles()["native_local"]
REVIEWED = Constraints(
    tool_budget=ToolBudget(total=3, per_tool=(ToolLimit(tool_name="unknown", budget=1),)),
    retrieval=Retrieval(precision_threshold=0.5, sources=()),
    safety=Safety(content_filters=(), requires_human_review=True),
    policies=Policies(allow_copy=False, allow_schema_mutation=False),
)
TASKS = ("Fix the bug in src/app.py", "What is a closure?", "Hm.", "What is in src/app.py?")


def asked(task: str = TASKS[0], **fields) -> ContractRequest:
    given = {"page": "code", "profile": LOCAL, **fields}
    return ContractRequest(task=task, model="m", manifest=MANIFEST, adapter_version="a1", **given)


def gated(level: GateLevel) -> Profile:
    return msgspec.structs.replace(LOCAL, gate_level=level)


def every_kind() -> list[ContractRequest]:
    parent = resolve(asked())[0]
    return [
        *(asked(task) for task in TASKS),
        *(asked(page=page) for page in ("chat", None)),
        *(asked(profile=gated(level)) for level in GateLevel),
        asked(parent=parent, approved_calls=("ab" * 32,)),
        asked(constraints=REVIEWED),
        asked(overrides={"max_inferences": 2}),
    ]


@pytest.mark.spec("S5-2b")
def test_every_rule_of_the_factory_has_a_sentence_and_every_sentence_a_rule():
    used = set()
    for request in every_kind():
        for step in resolve(request)[1]:
            told = explained(step)
            assert (told.field, told.rule) == (step["field"], step["rule"])
            used |= {rule for rule, sentence in REASONS.items() if sentence == told.why}
    assert used == set(REASONS)


@pytest.mark.spec("S5-2b")
def test_the_words_that_decided_are_told():
    told = [explained(step) for step in resolve(asked())[1]]
    policy = next(one for one in told if one.field == "tool_policy")
    assert (policy.value, policy.matched) == ("required", "fix the bug in src/app.py")


@pytest.mark.spec("D51")
@pytest.mark.parametrize(
    ("fields", "approval"),
    [
        ({}, ("scope:execute",)),
        ({"task": TASKS[1]}, ("scope:execute",)),
        ({"overrides": {"approval": []}}, ()),
        ({"overrides": {"approval": ["write_file"]}}, ("write_file",)),
        ({"overrides": {"tool_policy": "forbidden"}}, ()),
        ({"constraints": REVIEWED}, ("scope:write", "scope:execute")),
        ({"page": "chat"}, ()),
        ({"page": None}, ()),
    ],
)
def test_on_the_code_page_a_person_says_yes_to_programs_unless_the_contract_says_otherwise(
    fields, approval
):
    assert resolve(asked(**fields))[0].approval == approval


@pytest.mark.spec("D46")
def test_a_child_keeps_what_its_parent_asked_for():
    free = resolve(asked(overrides={"approval": []}))[0]
    assert resolve(asked(parent=free))[0].approval == ()
