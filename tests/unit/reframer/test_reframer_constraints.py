"""The table of section 4, row by row, in both modes."""

from __future__ import annotations

from typing import Any

import pytest

from monoize.reframer import Reframed, Refused, reframe
from monoize.reframer.constraints import Constraints, ContentFilter, Policies, RetrievalSource

BUDGET = "constraints.routing.tool_budget"
RETRIEVAL = "constraints.routing.retrieval"


def request(constraints: Any) -> dict[str, Any]:
    return {
        "request_id": "request-0001",
        "created_at": "2025-03-01T09:30:00Z",
        "channels": [{"channel_id": "main", "role": "user"}],
        "payload": {"messages": [{"id": "m1", "role": "user", "content": "hello"}]},
        **({} if constraints is None else {"constraints": constraints}),
    }


def constraints(budget: Any = None, retrieval: Any = None, **others: Any) -> dict[str, Any]:
    return {
        "routing": {
            "tool_budget": {"total": 16, "per_tool": []} if budget is None else budget,
            "retrieval": {"precision_threshold": 0.8, "sources": []}
            if retrieval is None
            else retrieval,
        },
        **others,
    }


def tools(*budgets: Any, total: Any) -> dict[str, Any]:
    named = [{"tool_name": f"t{n}", "budget": budget} for n, budget in enumerate(budgets)]
    return {"total": total, "per_tool": named}


def normal(raw: Any, mode: Any = "strict") -> Constraints:
    result = reframe(request(raw), mode=mode)
    assert isinstance(result, Reframed), result
    assert result.normalized.constraints is not None
    return result.normalized.constraints


def errors(raw: Any, mode: Any = "strict") -> list[tuple[str, str]]:
    result = reframe(request(raw), mode=mode)
    return [(f.code, f.field_path) for f in result.findings] if isinstance(result, Refused) else []


def warnings(raw: Any, mode: Any = "strict") -> list[tuple[str, str]]:
    return [(f.code, f.field_path) for f in reframe(request(raw), mode=mode).warnings]


@pytest.mark.spec("S3-4", "D50")
@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_no_constraints_means_unconstrained(mode):
    result = reframe(request(None), mode=mode)
    assert result.normalized.constraints is None
    assert result.as_json()["normalized"]["constraints"] is None
    assert result.warnings == ()


# --- tool budget ---------------------------------------------------------------------------------


@pytest.mark.spec("S3-4")
@pytest.mark.parametrize("budget", [0, 8])
@pytest.mark.parametrize("total", [8, 16])
def test_budgets_at_their_bounds_are_kept(budget, total):
    found = normal(constraints(tools(budget, total=total))).tool_budget
    assert (found.total, found.per_tool[0].budget) == (total, budget)


@pytest.mark.spec("S3-4", "D20")
@pytest.mark.parametrize(
    ("budget", "path", "code", "repaired"),
    [
        (tools(total=-1), f"{BUDGET}.total", "NEGATIVE_BUDGET", 0),
        (tools(total=17), f"{BUDGET}.total", "TOTAL_BUDGET_EXCEEDED", 16),
        (tools(total=10**30), f"{BUDGET}.total", "TOTAL_BUDGET_EXCEEDED", 16),
        (tools(-1, total=16), f"{BUDGET}.per_tool[0].budget", "NEGATIVE_BUDGET", 0),
        (tools(9, total=16), f"{BUDGET}.per_tool[0].budget", "TOOL_BUDGET_EXCEEDED", 8),
    ],
)
def test_a_budget_out_of_range_is_refused_or_clamped(budget, path, code, repaired):
    assert errors(constraints(budget)) == [(code, path)]
    assert warnings(constraints(budget), "lenient") == [("BUDGET_CLAMPED", path)]
    found = normal(constraints(budget), "lenient").tool_budget
    assert repaired in (found.total, *(limit.budget for limit in found.per_tool))


@pytest.mark.spec("S3-4", "D20")
@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (constraints({"per_tool": []}), BUDGET),
        (constraints({"total": 0}), BUDGET),
        (constraints({"total": 4, "per_tool": [{"tool_name": "a"}]}), f"{BUDGET}.per_tool[0]"),
        ({"routing": {"retrieval": {"precision_threshold": 1, "sources": []}}}, "constraints.routing"),
    ],
)  # fmt: skip
def test_a_missing_budget_is_refused_or_zero(raw, path):
    assert errors(raw) == [("MISSING_FIELD", path)]
    assert warnings(raw, "lenient") == [("BUDGET_DEFAULTED", path)]
    found = normal(raw, "lenient").tool_budget
    assert sum(limit.budget for limit in found.per_tool) == 0


@pytest.mark.spec("S3-4", "D20")
def test_constraints_without_routing_are_refused_or_allow_no_tools():
    raw = {"policies": {"allow_copy": False}}
    assert errors(raw) == [("MISSING_FIELD", "constraints")]
    assert warnings(raw, "lenient") == [("ROUTING_DEFAULTED", "constraints")]
    found = normal(raw, "lenient")
    assert (found.tool_budget.total, found.retrieval.precision_threshold) == (0, 0.8)
    assert not found.policies.allow_copy


@pytest.mark.spec("S3-4")
@pytest.mark.parametrize(
    ("budgets", "total", "fits"),
    [((8, 8), 16, True), ((4, 4), 8, True), ((4, 5), 8, False), ((1,), 0, False), ((0,), 0, True)],
)
@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_the_total_covers_all_tools_together(budgets, total, fits, mode):
    wanted = [] if fits else [("BUDGET_SUM_EXCEEDS_TOTAL", f"{BUDGET}.total")]
    assert errors(constraints(tools(*budgets, total=total)), mode) == wanted


def test_the_sentence_about_the_sum_says_both_numbers():
    finding = reframe(request(constraints(tools(4, 5, total=8)))).findings[0]
    assert finding.message == "Sum of per-tool budgets (9) exceeds total (8)"
    assert finding.details == {"limit": 8, "value": 9}


@pytest.mark.spec("S3-4", "D20")
def test_the_sum_is_that_of_repaired_budgets_and_its_path_exists():
    raw = constraints({"per_tool": [{"tool_name": "a", "budget": 99}]})
    assert errors(raw, "lenient") == [("BUDGET_SUM_EXCEEDS_TOTAL", BUDGET)]


@pytest.mark.spec("S3-4")
def test_the_first_budget_of_a_tool_counts_and_the_dropped_one_is_named():
    twice = [{"tool_name": "a", "budget": 2}, {"tool_name": "a", "budget": 8}]
    raw = constraints({"total": 4, "per_tool": twice})
    assert [limit.budget for limit in normal(raw).tool_budget.per_tool] == [2]
    (warning,) = reframe(request(raw)).warnings
    assert (warning.code, warning.field_path) == ("DUPLICATE_TOOL", f"{BUDGET}.per_tool[1]")
    assert warning.message == 'Tool "a" is listed again: number 1 counts, this one is dropped'
    assert warning.details == {"dropped": {"tool_name": "a", "budget": 8}}


def test_whole_numbers_with_a_point_are_integers():
    found = normal(constraints(tools(2.0, total=16.0))).tool_budget
    assert repr(found.total) == "16"
    assert repr(found.per_tool[0].budget) == "2"


# --- retrieval -----------------------------------------------------------------------------------


@pytest.mark.spec("S3-4", "D20")
@pytest.mark.parametrize(
    ("threshold", "repaired"), [(-0.1, 0), (1.1, 1), (5, 1), (0, 0.0), (1, 1.0), (0.25, 0.25)]
)
def test_the_threshold_stays_within_its_bounds(threshold, repaired):
    raw = constraints(retrieval={"precision_threshold": threshold, "sources": []})
    path = f"{RETRIEVAL}.precision_threshold"
    fits = 0 <= threshold <= 1
    assert errors(raw) == ([] if fits else [("THRESHOLD_OUT_OF_RANGE", path)])
    assert warnings(raw, "lenient") == ([] if fits else [("THRESHOLD_CLAMPED", path)])
    assert normal(raw, "lenient").retrieval.precision_threshold == repaired


@pytest.mark.spec("S3-4", "D20")
@pytest.mark.parametrize(
    ("retrieval", "count"),
    [({"sources": []}, 1), ({"precision_threshold": 0.8}, 1), ({}, 2)],
)
def test_a_missing_threshold_or_list_is_refused_or_its_default(retrieval, count):
    raw = constraints(retrieval=retrieval)
    assert errors(raw) == [("MISSING_FIELD", RETRIEVAL)] * count
    assert warnings(raw, "lenient") == [("RETRIEVAL_DEFAULTED", RETRIEVAL)] * count
    found = normal(raw, "lenient").retrieval
    assert (found.precision_threshold, found.sources) == (0.8, ())


@pytest.mark.spec("S3-4", "D20")
def test_a_missing_retrieval_policy_is_refused_or_its_default():
    raw = {"routing": {"tool_budget": {"total": 1, "per_tool": []}}}
    assert errors(raw) == [("MISSING_FIELD", "constraints.routing")]
    (warning,) = reframe(request(raw), mode="lenient").warnings
    assert warning.code == "RETRIEVAL_DEFAULTED"
    assert warning.details["repaired_to"] == {"precision_threshold": 0.8, "sources": []}


@pytest.mark.spec("S3-4")
def test_sources_are_unique_and_live_a_day_unless_they_say_otherwise():
    sources = [
        {"source_id": "a", "allow": True},
        {"source_id": "b", "allow": False, "ttl_s": 0},
        {"source_id": "a", "allow": False, "ttl_s": 5},
    ]
    raw = constraints(retrieval={"precision_threshold": 0.8, "sources": sources})
    assert normal(raw).retrieval.sources == (
        RetrievalSource(source_id="a", allow=True, ttl_s=86_400),
        RetrievalSource(source_id="b", allow=False, ttl_s=0),
    )
    assert warnings(raw) == [("DUPLICATE_SOURCE", f"{RETRIEVAL}.sources[2]")]


# --- safety and policies -------------------------------------------------------------------------


@pytest.mark.spec("S3-4", "D21")
def test_every_filter_that_exists_is_taken():
    names = [
        *("hate", "harassment", "self_harm", "sexual", "violence", "illicit", "pii"),
        *("prompt_injection", "profanity"),
    ]
    raw = constraints(safety={"content_filters": [*reversed(names), "pii"]})
    assert normal(raw).safety.content_filters == tuple(ContentFilter)
    assert [name.value for name in ContentFilter] == names
    assert warnings(raw) == []


@pytest.mark.spec("S3-4", "D21")
@pytest.mark.parametrize("mode", ["strict", "lenient"])
def test_every_filter_that_does_not_exist_is_an_error(mode):
    raw = constraints(safety={"content_filters": ["pii", "spam", "PII"]})
    path = "constraints.safety.content_filters"
    assert errors(raw, mode) == [
        ("UNKNOWN_CONTENT_FILTER", f"{path}[1]"),
        ("UNKNOWN_CONTENT_FILTER", f"{path}[2]"),
    ]


@pytest.mark.spec("S3-4")
@pytest.mark.parametrize(
    ("safety", "review"), [({}, False), ({"requires_human_review": True}, True)]
)
def test_human_review_is_off_unless_asked_for(safety, review):
    assert normal(constraints(safety=safety)).safety.requires_human_review is review
    assert normal(constraints(safety=safety)).safety.content_filters == ()


@pytest.mark.spec("S3-4")
@pytest.mark.parametrize(
    ("policies", "merged"),
    [
        (None, (True, False)),
        ({}, (True, False)),
        ({"allow_copy": False}, (False, False)),
        ({"allow_schema_mutation": True}, (True, True)),
        ({"allow_copy": False, "allow_schema_mutation": True}, (False, True)),
    ],
)
def test_policies_are_merged_with_their_defaults(policies, merged):
    raw = constraints() if policies is None else constraints(policies=policies)
    copy, mutation = merged
    assert normal(raw).policies == Policies(allow_copy=copy, allow_schema_mutation=mutation)


# --- what lenient mode leaves alone --------------------------------------------------------------


@pytest.mark.spec("D20")
@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        {"routing": None},
        {"routing": []},
        constraints("8"),
        constraints({"total": "8", "per_tool": []}),
        constraints({"total": True, "per_tool": []}),
        constraints({"total": 99.5, "per_tool": []}),
        constraints({"total": None, "per_tool": []}),
        constraints({"total": 1, "per_tool": None}),
        constraints({"total": 1, "per_tool": ["a"]}),
        constraints({"total": 1, "per_tool": [{"budget": 1}]}),
        constraints({"total": 1, "per_tool": [{"tool_name": "a", "budget": None}]}),
        constraints(retrieval=0.8),
        constraints(retrieval={"precision_threshold": None, "sources": []}),
        constraints(retrieval={"precision_threshold": 0.8, "sources": [{"source_id": "a"}]}),
        constraints(
            retrieval={
                "precision_threshold": 0.8,
                "sources": [{"source_id": "a", "allow": True, "ttl_s": -1}],
            }
        ),
        constraints(unknown=1),
    ],
)
def test_everything_else_stays_an_error_in_lenient_mode(raw):
    document = {**request(None), "constraints": raw}
    assert isinstance(reframe(document, mode="lenient"), Refused)
    assert isinstance(reframe(document), Refused)


@pytest.mark.spec("D20")
def test_repairs_do_not_touch_the_callers_document():
    raw = constraints(tools(99, total=99))
    document = request(raw)
    reframe(document, mode="lenient")
    assert document["constraints"]["routing"]["tool_budget"] == tools(99, total=99)


@pytest.mark.spec("S3-4")
def test_fields_that_nobody_reads_are_named():
    raw = constraints(
        {"total": 1, "per_tool": [{"tool_name": "a", "budget": 1, "note": 1}], "unit": "calls"},
        {"precision_threshold": 1, "sources": [{"source_id": "s", "allow": True, "x": 1}], "k": 3},
    )
    assert warnings(raw) == [
        ("IGNORED_FIELD", f"{BUDGET}.per_tool[0].note"),
        ("IGNORED_FIELD", f"{BUDGET}.unit"),
        ("IGNORED_FIELD", f"{RETRIEVAL}.sources[0].x"),
        ("IGNORED_FIELD", f"{RETRIEVAL}.k"),
    ]
