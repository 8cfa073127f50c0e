"""The same request, the same contract; and why each decision fell."""

from __future__ import annotations

import random

import msgspec
import pytest

from fakes.agent_runs import MANIFEST
from monoize.agent.canonical_json import canonical
from monoize.agent.contract import ExecutionContract, contract_hash
from monoize.agent.factory import OVERRIDABLE, ContractRequest, resolve
from monoize.agent.intent import ORDERS, intent_of
from monoize.agent.machine.run_state import Terms
from monoize.agent.manifest import ToolManifest, ToolSpec
from monoize.agent.preflight import Facts, judge
from monoize.agent.profile import GateLevel, Profile, profiles
from monoize.errors import InvalidRequest
from monoize.reframer.constraints import (
    Constraints,
    Policies,
    Retrieval,
    Safety,
    ToolBudget,
    ToolLimit,
)

NATIVE = Profile(
    id="native_x",
    protocol="chat_completion",
    provider_types=(),
    syntax="native",
    gate_level=GateLevel.FORCED,
    strict=True,
    format_retries=1,
    context_window=100_000,
    grammar_profiles={"call": "tool_choice_required", "any": "tool_choice_auto", "text": "none"},
)
LEGACY = msgspec.structs.replace(
    NATIVE,
    id="legacy_x",
    strict=False,
    format_retries=2,
    gate_level=GateLevel.VERIFIED,
    context_window=8_192,
    grammar_profiles={"call": "none", "any": "none", "text": "none"},
)
ORDER = "Fix the bug in src/app.py"
QUESTION = "What is a closure?"


def asked(task: str = ORDER, **fields) -> ContractRequest:
    return ContractRequest(
        **{
            "task": task,
            "page": "code",
            "model": "gpt-9",
            "profile": NATIVE,
            "manifest": MANIFEST,
            "adapter_version": "a1",
            **fields,
        }
    )


def made(task: str = ORDER, **fields) -> ExecutionContract:
    return resolve(asked(task, **fields))[0]


def why(field: str, **fields) -> str:
    trace = resolve(asked(**fields))[1]
    return [row["rule"] for row in trace if row["field"] == field][-1]


# --- intent ---------------------------------------------------------------------------------------

ORDERS_IN_WORDS = [
    "Create a file named notes.txt",
    "create main.py with a hello world",
    "Write a script that prints the date",
    "Add a test for the parser",
    "Implement a function that reverses a list",
    "Fix the bug in src/app.py",
    "fix it",
    "Please fix the failing tests",
    "Could you refactor utils.py?",
    "Can you run the tests?",
    "Run pytest -q",
    "run the linter and tell me what it says",
    "Execute `npm test`",
    "install numpy",
    "Read src/main.rs and tell me what it does",
    "Show me the contents of config.yaml",
    "Show package.json",
    "List the files in this directory",
    "List all files under src/",
    "Find all usages of parse_config",
    "Search the codebase for TODO comments",
    'grep for "secret" in the repo',
    "Delete the old logs folder",
    "Rename foo.py to bar.py",
    "Explain X and then fix file Y.py",
    "Explain the error in main.py and fix it",
    "Why does the test fail? Fix it.",
    "What is wrong with server.go? Then fix it please.",
    "How does the parser work, and then add a unit test for it",
    "Explain how the cache works, then update the README",
    "I need you to update the Dockerfile",
    "We need to rename the module",
    "Let's add logging to the server module",
    "Hi! Please create a new branch",
    "1. Create a folder called data",
    "- update CHANGELOG.md",
    "$ ls -la",
    "What files are in this directory?",
    "Where is the User class defined?",
    "How many tests are in this project?",
    "What's in setup.cfg?",
    "Don't explain anything, just fix main.py",
    "Do not run the tests, but edit src/a.py",
    "Open ./build.log and summarise the errors",
    "Summarize README.md",
    "Review the code in src/",
    "commit the changes",
    "Build the project",
    "start the server",
    "Convert script.py to TypeScript",
    "Check whether the file exists",
    "The tests fail since yesterday, fix them",
    "The build is broken. Repair it.",
    "Erstelle eine Datei namens test.py",
    "Bitte führe die Tests aus",
    "Lösche den Ordner build",
    "Crée un fichier nommé notes.txt",
    "Lis src/main.py",
    "Crea un archivo llamado datos.csv",
    "Por favor ejecuta las pruebas",
    "Go through the repo and remove unused imports",
    "Translate the comments in main.py to English",
    "What is wrong with main.py and can you fix it?",
]
NO_ORDERS = [
    "Explain what a closure is",
    "What is a file descriptor?",
    "How do I delete a file in git?",
    "How do I create and then delete a file in Python?",
    "How does the garbage collector work?",
    "Why is Python slow?",
    "Explain how to run tests in Go",
    "Describe the difference between TCP and UDP",
    "describe how to write and delete files",
    "Hi",
    "Thanks!",
    "thank you, that was helpful",
    "Can I delete this file safely?",
    "Should I rename this module?",
    "Is it safe to run rm -rf?",
    "What happens when I run the script twice?",
    "Tell me about Rust's borrow checker",
    "Compare Node.js and Deno",
    "Write a poem about the sea",
    "Give me an example of a file upload",
    "Show me how to open a file",
    "Show me an example of a unit test",
    "List the pros and cons of microservices",
    "Do not run the tests",
    "Don't change any file",
    "Run me through the basics of OAuth",
    "What does this error mean: cannot open file?",
    "My script fails when I run the tests",
    "The function write_file raises an error",
    "Which is better, tabs or spaces?",
    "When should I write a unit test?",
    "Suggest a name for my cat",
    "Find the best sorting algorithm",
    "Make it shorter",
    "I want to understand how the event loop works",
    "I want to create a file in Python, how?",
    "Who wrote the Linux kernel?",
    "Teach me about design patterns",
    "How would you refactor this function?",
    "What are the steps to install numpy and run it?",
    "Explain the code below.\n```\nfix main.py\ndelete file\n```",
    "Was ist eine Datei?",
    "Warum ist der Test langsam?",
    "Qu'est-ce qu'un fichier ?",
    "¿Qué es un archivo?",
    "Without touching any file, tell me what you think",
    "Hello there, how are you?",
    "Is there a way to read files asynchronously?",
    "I read the file yesterday and liked it",
    "Create excitement about the launch",
    "Discuss read/write locks and client/server designs",
]


@pytest.mark.spec("S5-2b")
@pytest.mark.parametrize("task", ORDERS_IN_WORDS)
def test_an_order_about_files_commands_or_the_workspace_requires_a_tool(task):
    assert made(task).tool_policy == "required"


@pytest.mark.spec("S5-2b")
@pytest.mark.parametrize("task", NO_ORDERS)
def test_a_question_or_an_explanation_leaves_tools_optional(task):
    assert made(task).tool_policy == "optional"


@pytest.mark.spec("S5-2b")
@pytest.mark.parametrize("task", [ORDER, QUESTION, "Run the tests"])
def test_a_chat_forbids_tools_whatever_is_asked(task):
    bound = made(task, page="chat")
    assert bound.tool_policy == "forbidden"
    assert bound.allowed_tools == ()


def test_without_a_page_tools_are_optional():
    assert made(page=None).tool_policy == "optional"
    assert why("tool_policy", page=None) == "no_page"


def test_every_row_of_the_table_is_used():
    used = {intent_of(task).rule for task in ORDERS_IN_WORDS}
    assert {order.id for order in ORDERS} <= used


@pytest.mark.parametrize(
    "text",
    [
        *("fix " * 9000, "how do i " * 9000, "/" * 20_000, "a." * 9000, "show " + "a.b/" * 5000),
        *("please, " * 3000, "- " * 9000, "what " + "files " * 9000, "\0" * 999, "\ud800", ""),
    ],
)
def test_hostile_texts_are_judged_all_the_same(text):
    assert intent_of(text).rule


# --- what follows from what -----------------------------------------------------------------------


@pytest.mark.spec("D44", "S5-B")
def test_the_same_request_gives_the_same_contract():
    one, two = resolve(asked()), resolve(asked())
    assert one == two
    assert one[0].contract_hash == contract_hash(one[0])
    assert one[0].contract_id == f"ctr_{one[0].contract_hash[:24]}"
    canonical(msgspec.to_builtins(one[1]))  # the trace can be hashed into the transcript


@pytest.mark.spec("S5-4.1", "S5-2b")
def test_defaults_of_a_required_contract():
    bound = made()
    assert (bound.tool_policy, bound.strict_mode, bound.required_proof) == (
        "required",
        True,
        "succeeded",
    )
    assert bound.allowed_tools == MANIFEST.names()
    assert bound.tool_manifest_hash == MANIFEST.digest()
    assert (bound.max_inferences, bound.max_format_retries, bound.max_tool_calls) == (25, 1, 60)
    assert (bound.step_timeout_ms, bound.total_timeout_ms) == (30_000, 300_000)
    assert bound.context_budget.context_window == 100_000
    assert bound.max_output_tokens == 4096
    assert bound.tool_output_budget.max_bytes_per_call == 32_768
    assert (bound.model, bound.model_profile_id, bound.adapter_version) == (
        "gpt-9",
        "native_x",
        "a1",
    )
    assert bound.token_gate
    assert bound.grammar_profile == "tool_choice_required"


@pytest.mark.spec("D38", "D40")
def test_a_legacy_profile_is_forgiving_and_small():
    bound = made(profile=LEGACY)
    assert (bound.strict_mode, bound.required_proof, bound.max_format_retries) == (
        False,
        "executed",
        2,
    )
    assert bound.max_output_tokens == 2048
    assert not bound.token_gate  # nothing forces a call there
    assert bound.grammar_profile is None
    strict = made(profile=LEGACY, overrides={"strict_mode": True})
    assert (strict.max_format_retries, strict.required_proof) == (1, "succeeded")


@pytest.mark.spec("D32", "D33")
def test_a_forbidden_contract_answers_once_and_has_room_for_its_retries():
    assert made(page="chat").max_inferences == 2
    assert made(page="chat", overrides={"max_format_retries": 0}).max_inferences == 1
    assert made(page="chat", overrides={"max_inferences": 7}).max_inferences == 7
    assert made(overrides={"tool_policy": "forbidden"}).allowed_tools == ()
    assert made(page="chat", overrides={"tool_policy": "required"}).allowed_tools == (
        MANIFEST.names()
    )


def test_the_trace_says_why():
    contract, trace = resolve(asked(overrides={"max_inferences": 3}))
    assert contract.max_inferences == 3
    assert {
        "field": "tool_policy",
        "value": "required",
        "rule": "page_code.change",
        "matched": "fix the bug in src/app.py",
    } in trace
    assert {"field": "max_inferences", "value": 3, "rule": "override"} in trace
    assert why("tool_policy", task=QUESTION) == "page_code.explanation"
    assert why("tool_policy", page="chat") == "page_chat"
    assert why("tool_policy", overrides={"tool_policy": "optional"}) == "override"


# --- overrides ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "path", "says"),
    [
        ({"max_inference": 3}, "contract.max_inference", "did you mean max_inferences?"),
        ({"zzz": 3}, "contract.zzz", "no field of a contract"),
        ({"contract_hash": "x"}, "contract.contract_hash", "factory's own"),
        ({"approved_calls": []}, "contract.approved_calls", "factory's own"),
        ({"max_inferences": 0}, "contract.max_inferences", ">= 1"),
        ({"max_inferences": "3"}, "contract.max_inferences", "Expected `int`, got `str`"),
        ({"max_inferences": True}, "contract.max_inferences", "got `bool`"),
        ({"tool_policy": "maybe"}, "contract.tool_policy", "Invalid enum value 'maybe'"),
        ({"per_tool_calls": {"a": -1}}, "contract.per_tool_calls[...]", ">= 0"),
        ({"cycle_forbid": [["a"]]}, "contract.cycle_forbid[0]", "length 2"),
        ({"context_budget": {"window": 3}}, "contract.context_budget", "unknown field `window`"),
        ({"context_budget": 3}, "contract.context_budget", "Expected `object`"),
        (
            {"context_budget": {"force_synthesis_at_ratio": 1.5}},
            "contract.context_budget.force_synthesis_at_ratio",
            "<= 1.0",
        ),
        ({"max_format_retries": 4}, "contract.max_format_retries", "<= 3"),
        ({"strict_mode": "yes"}, "contract.strict_mode", "Expected `bool`"),
        ({"model": "other"}, "contract.model", "factory's own"),
    ],
)
def test_a_wrong_override_is_named_with_its_path(overrides, path, says):
    with pytest.raises(InvalidRequest) as mistake:
        resolve(asked(overrides=overrides))
    assert mistake.value.param == path
    assert says in mistake.value.message
    assert mistake.value.message.startswith(path)


def test_part_of_a_budget_may_be_overridden():
    bound = made(overrides={"context_budget": {"context_window": 4000}})
    assert bound.context_budget.context_window == 4000
    assert bound.context_budget.reserved_system == 512
    assert bound.max_output_tokens == 1000
    bound = made(overrides={"tool_output_budget": {"max_bytes_per_call": 10}})
    assert bound.tool_output_budget.truncation_marker == "[TRUNCATED]"


def test_every_field_that_may_be_overridden_changes_the_hash():
    values = {
        "tool_policy": "optional",
        "allowed_tools": ["read_file"],
        "strict_mode": False,
        "required_proof": "executed",
        "approval": ["write_file"],
        "per_tool_calls": {"read_file": 2},
        "context_budget": {"reserved_system": 600},
        "tool_output_budget": {"summarizer_model": "small"},
        "grammar_profile": "x",
        "grammar": "x",
        "logits_mask": "0" * 64,
        "token_gate": False,
        "speculative_exec": True,
        "parallel_tools": True,
        "expose_reasoning": True,
        "cycle_forbid": [["read_file", "read_file"]],
        "max_format_retries": 0,
    }
    hashes = {made().contract_hash}
    for field in sorted(OVERRIDABLE):
        bound = made(overrides={field: values.get(field, 7)})
        assert bound.contract_hash not in hashes, field
        hashes.add(bound.contract_hash)


def test_only_the_tools_that_are_allowed_are_hashed_in():
    bound = made(overrides={"allowed_tools": ["read_file"]})
    assert bound.tool_manifest_hash == MANIFEST.only(["read_file"]).digest()
    more = ToolManifest(tools=(*MANIFEST.tools, ToolSpec(name="other")))
    again = made(manifest=more, overrides={"allowed_tools": ["read_file"]})
    assert again.contract_hash == bound.contract_hash
    assert made(overrides={"allowed_tools": None}).tool_manifest_hash == MANIFEST.digest()


def test_tools_that_cannot_be_hashed_are_named():
    tool = ToolSpec(name="big", parameters={"maximum": 2**60})
    with pytest.raises(InvalidRequest, match="beyond 2\\^53-1"):
        made(manifest=ToolManifest(tools=(tool,)))


@pytest.mark.parametrize("field", ["task", "model"])
def test_half_a_character_is_refused(field):
    with pytest.raises(InvalidRequest, match="half a character") as mistake:
        resolve(msgspec.structs.replace(asked(), **{field: "fix main.py \udcff"}))
    assert mistake.value.param == field


# --- children -------------------------------------------------------------------------------------


@pytest.mark.spec("D46")
def test_a_child_goes_on_under_its_parents_terms():
    parent = made(overrides={"max_inferences": 5, "approval": ["write_file"]})
    yes = "ab" * 32
    child = made(QUESTION, page="chat", parent=parent, approved_calls=(yes, yes))
    assert child.parent_contract_hash == parent.contract_hash
    assert child.approved_calls == (yes, yes)
    assert (child.tool_policy, child.max_inferences, child.approval) == (
        "required",
        5,
        ("write_file",),
    )
    assert child.contract_hash != parent.contract_hash
    looser = made(parent=parent, overrides={"max_inferences": 9})
    assert looser.max_inferences == 9
    assert why("max_inferences", parent=parent, overrides={"max_inferences": 9}) == "override"


def test_a_child_on_another_kind_of_model_takes_what_that_one_keeps():
    child = made(parent=made(), profile=LEGACY)
    assert child.model_profile_id == "legacy_x"
    assert child.grammar_profile is None
    assert not child.token_gate


def test_only_a_child_has_approved_calls():
    with pytest.raises(InvalidRequest, match="goes on"):
        made(approved_calls=("ab" * 32,))


# --- reframed requests ----------------------------------------------------------------------------


def constraints(total: int, *, review: bool = False, **per_tool: int) -> Constraints:
    limits = tuple(ToolLimit(tool_name=name, budget=n) for name, n in per_tool.items())
    return Constraints(
        tool_budget=ToolBudget(total=total, per_tool=limits),
        retrieval=Retrieval(precision_threshold=0.5, sources=()),
        safety=Safety(content_filters=(), requires_human_review=review),
        policies=Policies(allow_copy=False, allow_schema_mutation=False),
    )


@pytest.mark.spec("D51")
def test_tool_budgets_of_a_reframed_request_become_limits():
    bound, trace = resolve(asked(constraints=constraints(8, read_file=3, unknown=2)))
    assert bound.max_tool_calls == 8
    assert bound.per_tool_calls == {"read_file": 3}
    assert {"field": "per_tool_calls.unknown", "rule": "no_such_tool_here"} in trace


@pytest.mark.spec("D51")
def test_an_override_may_tighten_them_and_never_loosen():
    limits = constraints(8, read_file=3)
    tight = made(constraints=limits, overrides={"max_tool_calls": 2})
    assert tight.max_tool_calls == 2
    kept = made(constraints=limits, overrides={"per_tool_calls": {"write_file": 1}})
    assert kept.per_tool_calls == {"read_file": 3, "write_file": 1}
    for overrides, path in (
        ({"max_tool_calls": 9}, "contract.max_tool_calls"),
        ({"per_tool_calls": {"read_file": 4}}, "contract.per_tool_calls.read_file"),
    ):
        with pytest.raises(InvalidRequest, match="of the request's constraints") as mistake:
            made(constraints=limits, overrides=overrides)
        assert mistake.value.param == path


def test_a_request_that_wants_a_person_gets_approvals():
    bound = made(constraints=constraints(8, review=True))
    assert bound.approval == ("scope:write", "scope:execute")


# --- together with PRECHECK -----------------------------------------------------------------------


@pytest.mark.spec("S5-2b")
@pytest.mark.parametrize("profile", profiles().values(), ids=profiles())
@pytest.mark.parametrize("page", ["chat", "code", None])
@pytest.mark.parametrize("task", [ORDER, QUESTION])
def test_what_the_factory_makes_passes_the_preflight(profile, page, task):
    bound, trace = resolve(asked(task, page=page, profile=profile))
    terms = Terms(
        run_id="r",
        contract=bound,
        manifest=MANIFEST.only(bound.allowed_tools),
        profile=profile,
        task=task,
        decision_trace=trace,
    )
    verdict = judge(terms, Facts(manifest=MANIFEST, adapter_versions=("a1",)))
    assert verdict.failures == ()


def test_random_overrides_give_a_contract_or_a_sentence():
    dice = random.Random(1)
    names = sorted(ExecutionContract.__struct_fields__)
    values = (
        0,
        1,
        -1,
        2**60,
        0.5,
        "x",
        "required",
        None,
        True,
        [],
        ["a"],
        {},
        {"a": 1},
        [["a", "b"]],
    )
    for _ in range(3000):
        overrides = {dice.choice(names): dice.choice(values) for _ in range(dice.randrange(4))}
        try:
            bound = made(overrides=overrides)
        except InvalidRequest as mistake:
            assert mistake.param
        else:
            assert bound.contract_hash == contract_hash(bound)
