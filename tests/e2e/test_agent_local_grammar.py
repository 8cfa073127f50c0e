"""The real local model under our grammar: a reply that must be a call is one, and the gateway carries all of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from fakes.gateway import SOURCE
from fakes.ports import free_port
from monoize.agent.boundary.gate import CallComplete, StreamGate, TextReleased, Violated
from monoize.agent.boundary.grammar import decoder_grammar, mask_digest
from monoize.agent.boundary.prompt import wire_request
from monoize.agent.boundary.protocol_adapter import adapt
from monoize.agent.contract import ExecutionContract, sealed
from monoize.agent.machine.effects import Infer
from monoize.agent.machine.run_state import Terms
from monoize.agent.machine.schema import value_problem
from monoize.agent.manifest import ToolManifest, ToolSpec
from monoize.agent.message import AgentMessage
from monoize.agent.profile import profile
from monoize.server.state import local_engines

STATUS = local_engines({})["smollm2"].available()
pytestmark = pytest.mark.skipif(
    not STATUS.installed, reason=f"the local engine is not installed: {STATUS.reason}"
)

REQUESTS = 100 if os.environ.get("MONOIZE_SOAK") == "1" else 5
MODEL = "smollm2-135m"
TOOLS = ToolManifest(
    tools=(
        ToolSpec(
            name="get_weather",
            description="Weather of a city",
            parameters={
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city"],
            },
        ),
        ToolSpec(
            name="write_file",
            description="Write a text to a file",
            parameters={
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "content": {"type": "string"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["path", "content"],
            },
        ),
        ToolSpec(name="list_files", description="List the files of a folder"),
    )
)
# Also some that beg for words instead of a call.
TASKS = (
    "What is the weather in {}?",
    "Write a long poem about {} into the file poem.txt",
    "Do not call any tool. Tell me a story about {}.",
    "Which files are in the folder {}?",
    'Answer with exactly: Sure! I will look at "{}".',
)
THINGS = ("Paris", "the sea", "src", "42", "ünïcödé 😀", 'a "quoted" word', "</tool_call>")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    folder = tmp_path_factory.mktemp("local")
    config = folder / "monoize.yaml"
    config.write_text(
        "providers:\n"
        "  - {id: local, type: local, engine: smollm2, models: {smollm2-135m: {}}, channels: [{id: engine}]}\n",
        "utf-8",
    )
    port = free_port()
    with (folder / "out.txt").open("wb") as out:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "monoize",
                "serve",
                "--port",
                str(port),
                "--config",
                str(config),
            ],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 90
    while process.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{url}/readyz", timeout=5).close()
            break
        except OSError:
            time.sleep(0.1)
    yield url
    process.terminate()
    process.wait(30)


def posted(url, body):
    call = urllib.request.Request(
        f"{url}/v1/chat/completions",
        data=body,
        headers={"content-type": "application/json"},
        method="POST",
    )
    with urllib.request.urlopen(call, timeout=300) as answer:
        return answer.read()


def wire(task, *, name="local_grammar", stream=False, mask=None, tokens=400, **contract):
    made = ExecutionContract(
        **{"tool_policy": "required", "model": MODEL, "model_profile_id": name} | contract
    )
    terms = Terms(
        run_id="r", contract=sealed(made), manifest=TOOLS, profile=profile(name), task=task
    )
    order = Infer(
        messages=(AgentMessage(role="user", content=task),),
        expects="call",
        gated=True,
        max_output_tokens=tokens,
        timeout_ms=60_000,
    )
    return wire_request(order, terms, stream=stream, mask=mask)


@pytest.mark.soak
@pytest.mark.spec("S5-F", "S5-9")
def test_every_required_reply_is_a_structurally_valid_call(gateway):
    """Half of them streamed, through the gate; all of them read by the strict adapter."""
    kind = profile("local_grammar")
    for number in range(REQUESTS):
        task = TASKS[number % len(TASKS)].format(THINGS[number % len(THINGS)])
        streamed = number % 2 == 1
        # Another contract, another seed: no two requests are alike.
        raw = posted(gateway, wire(task, stream=streamed, max_tool_calls=number + 1).body)
        found = adapt(raw, profile=kind, streamed=streamed, strict=True)
        assert (found.status, found.finish) == ("native", "tool_calls"), (task, found, raw)
        (call,) = found.canonical_message.tool_calls
        assert value_problem(TOOLS.get(call.name).parameters, call.arguments) is None
        assert found.canonical_message.content == ""
        gate = StreamGate(TOOLS, kind, expects="call", gated=True, streamed=streamed)
        pieces = [*gate.feed(raw), *gate.finish()]
        assert not any(isinstance(piece, TextReleased | Violated) for piece in pieces)
        assert [p.call.raw_arguments for p in pieces if isinstance(p, CallComplete)] == [
            call.raw_arguments
        ]
        assert found.spent.estimated is False
        assert "xllamacpp" in found.model_fingerprint


@pytest.mark.spec("S5-F")
def test_the_engines_own_tools_are_bound_as_well(gateway):
    raw = posted(gateway, wire("What is the weather in Rome?", name="native_local").body)
    found = adapt(raw, profile=profile("native_local"), streamed=False, strict=True)
    assert (found.status, found.finish) == ("native", "tool_calls")


@pytest.mark.spec("S5-4.1")
def test_the_same_contract_gives_the_same_call_again(gateway):
    one, other = (
        json.loads(posted(gateway, wire("Which files are there?").body)) for _ in range(2)
    )
    assert one["choices"][0]["message"] == other["choices"][0]["message"]


@pytest.mark.spec("S5-4.1")
def test_the_contracts_own_grammar_and_mask_reach_the_model(gateway):
    grammar = '%llguidance {}\nstart: "{\\"name\\": \\"list_files\\", \\"arguments\\": {}}"'
    raw = posted(gateway, wire("Sing!", grammar=grammar).body)
    text = json.loads(raw)["choices"][0]["message"]["content"]
    assert text == '{"name": "list_files", "arguments": {}}'
    mask = (0.0, 0.0, 0.0, -1.5)
    found = wire("Sing!", logits_mask=mask_digest(mask), mask=mask)
    assert json.loads(found.body)["logit_bias"] == [[3, -1.5]]
    assert json.loads(posted(gateway, found.body))["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    "grammar", ["root ::= x", "%llguidance {}\nstart: nobody", 7, "x" * 300_000]
)
def test_a_bad_grammar_is_the_callers_mistake(gateway, grammar):
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "grammar": grammar}
    with pytest.raises(urllib.error.HTTPError) as refused:
        posted(gateway, json.dumps(body).encode())
    told = json.load(refused.value)
    assert refused.value.code == 400
    assert told["error"]["param"] == "grammar"


def test_a_grammar_without_words_ends_at_once(gateway):
    text = decoder_grammar(TOOLS, "tool_call").text
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Hi"}],
        "grammar": text,
        "max_tokens": 3,
    }
    choice = json.loads(posted(gateway, json.dumps(body).encode()))["choices"][0]
    assert choice["finish_reason"] == "length"  # cut off, told as such
