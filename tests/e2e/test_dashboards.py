"""The dashboards of deploy/grafana: what they ask for is what the running gateway tells."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from fakes.caller import Caller
from fakes.gateway import GatewayThread, config
from fakes.upstream import FakeUpstream

ROOT = Path(__file__).parents[2]
GRAFANA = ROOT / "deploy" / "grafana"
GOLDEN = ROOT / "tests" / "golden" / "reframer" / "requests"
ADMIN = "sk-admin-0123456789abcdef"
BOARDS: dict[str, dict[str, Any]] = {
    file.stem: json.loads(file.read_text("utf-8")) for file in sorted(GRAFANA.glob("*.json"))
}
SCRAPED = {"job", "instance"}  # labels that Prometheus adds
WORDS = set(  # of PromQL
    "and by changes count histogram_quantile ignoring increase max on or rate sum topk unless vector without".split()
)
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\s*\{([^}]*)\}")
_GROUPING = re.compile(r"\b(?:by|on|ignoring|without)\s*\(([^)]*)\)")
_WORD = re.compile(r"(?<![\w$.])[a-zA-Z_:][\w:]*")

each_board = pytest.mark.parametrize("board", BOARDS.values(), ids=list(BOARDS))
pytestmark = pytest.mark.spec("S3-7")


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def expressions(board: dict[str, Any]) -> Iterator[str]:
    for panel in panels(board):
        yield from (target["expr"] for target in panel["targets"])
    yield from (note["expr"] for note in board["annotations"]["list"] if "expr" in note)


def asked(expression: str) -> dict[str, set[str]]:
    """Every metric of an expression, with the labels by which it is chosen; and `""` with those of groups."""
    plain = _TEXT.sub("", expression)
    found: dict[str, set[str]] = {"": set()}
    for labels in _GROUPING.findall(plain):
        found[""] |= {label.strip() for label in labels.split(",")}
    for name, matchers in _SELECTOR.findall(plain):
        labels = {re.split(r"[=!]", one)[0].strip() for one in matchers.split(",")}
        found.setdefault(name, set()).update(labels)
    rest = re.sub(r"\[[^\]]*\]", "", _GROUPING.sub("", _SELECTOR.sub("", plain)))
    for word in _WORD.findall(rest):
        if word not in WORDS:
            found.setdefault(word, set())  # a metric without braces, or what is no PromQL
    return found


class Exposition:
    """What /metrics declares: the names that can be asked for, and the labels that they really have."""

    def __init__(self, text: str) -> None:
        self.labels: dict[str, set[str]] = {}
        self.families: set[str] = set()
        for family in text_string_to_metric_families(text):
            self.families.add(family.name)
            for name in _names(family.name, family.type):
                self.labels[name] = set()
            for sample in family.samples:
                self.labels.setdefault(sample.name, set()).update(sample.labels)


def _names(family: str, kind: str) -> list[str]:
    match kind:
        case "counter":
            return [f"{family}_total"]
        case "histogram":
            return [f"{family}{end}" for end in ("_bucket", "_sum", "_count")]
        case _:
            return [family]


@pytest.fixture(scope="module")
def exposed(session_upstream: FakeUpstream) -> Iterator[Exposition]:
    given = config(session_upstream)
    given["keys"] = [{"name": "admin", "key": ADMIN, "role": "admin"}]
    given["settings"]["prices"] = {"chat_completion.*": {"input": "1", "output": "2"}}
    gateway = GatewayThread(given)
    try:
        caller = Caller(gateway.port, {"authorization": f"Bearer {ADMIN}"})
        assert caller.ask("chat_completion", "chat_completion.text").status == 200
        good = json.loads((GOLDEN / "happy_path.json").read_text("utf-8"))
        assert caller.post("/v1/reframe", good).status == 200
        assert caller.post("/v1/reframe", {}).status == 400
        assert caller.post("/v1/reframe/batch?mode=lenient", [good, {}]).status == 207
        run = {"task": "Hello", "model": "chat_completion.text"}
        assert caller.post("/v1/agent/runs", run).status == 200
        yield Exposition(caller.get("/metrics").raw.decode())
    finally:
        gateway.stop()


@each_board
def test_every_metric_and_label_is_one_that_the_gateway_tells(board, exposed):
    for expression in expressions(board):
        metrics = asked(expression)
        groups = metrics.pop("")
        assert metrics, expression
        told: set[str] = set()
        for name, labels in metrics.items():
            assert name in exposed.labels, expression
            told |= exposed.labels[name]
            assert labels <= exposed.labels[name] | SCRAPED, expression
        assert groups <= told | SCRAPED, expression


@each_board
def test_the_variables_ask_for_what_there_is(board, exposed):
    named = {variable["name"]: variable for variable in board["templating"]["list"]}
    for variable in named.values():
        if variable["type"] == "query":
            (query,) = re.findall(r"^label_values\((.*), (\w+)\)$", variable["query"]["query"])
            metrics = asked(query[0])
            metrics.pop("")
            (name,) = metrics
            assert query[1] in exposed.labels[name] | SCRAPED
            assert variable["definition"] == variable["query"]["query"]
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(board)))
    assert used == set(named)


def test_nothing_that_the_gateway_tells_of_itself_is_shown_nowhere(exposed):
    shown = {name for board in BOARDS.values() for e in expressions(board) for name in asked(e)}
    for family in exposed.families:
        if family.startswith("monoize_"):
            assert any(name.startswith(family) for name in shown), family


def test_the_values_of_labels_are_real(exposed):
    """`result="refused"` and its like: a value that nobody writes would show an empty panel for ever."""
    chosen = {
        (label, value)
        for board in BOARDS.values()
        for expression in expressions(board)
        for label, value in re.findall(r'(\w+)="([^"$]*)"', expression)
    }
    assert chosen == {
        ("result", "refused"),
        ("status", "error"),
        ("state", "unhealthy"),
        ("state", "probing"),
    }


@each_board
def test_every_panel_says_what_it_shows_and_in_which_unit(board):
    for panel in panels(board):
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["targets"]
        source = {"type": "prometheus", "uid": "${datasource}"}
        assert all(given["datasource"] == source for given in (panel, *panel["targets"]))
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references)


@each_board
def test_panels_have_their_own_ids_and_their_own_place(board):
    ids = Counter(panel["id"] for panel in board["panels"])
    assert max(ids.values()) == 1
    places = [(panel["title"], panel["gridPos"]) for panel in board["panels"]]
    for _, place in places:
        assert place["x"] >= 0
        assert place["x"] + place["w"] <= 24
        assert min(place["w"], place["h"]) > 0
    for (one, a), (other, b) in combinations(places, 2):
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        below = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert beside or below, (one, other)


def test_the_dashboards_can_live_in_one_grafana():
    assert set(BOARDS) == {"agent", "gateway", "reframer"}
    for name in ("uid", "title"):
        assert len({board[name] for board in BOARDS.values()}) == len(BOARDS)
    for board in BOARDS.values():
        assert "id" not in board  # of the Grafana that it was drawn in
        assert 8 <= len(board["uid"]) <= 40
        assert board["schemaVersion"] == 42
        kinds = [variable["type"] for variable in board["templating"]["list"]]
        assert kinds[0] == "datasource"


def test_prometheus_brings_a_key_to_where_the_metrics_are():
    (job,) = yaml.safe_load((ROOT / "deploy" / "prometheus.yaml").read_text())["scrape_configs"]
    assert job["metrics_path"] == "/metrics"
    assert job["authorization"]["credentials_file"]
    assert job["static_configs"] == [{"targets": ["gateway:8080"]}]
