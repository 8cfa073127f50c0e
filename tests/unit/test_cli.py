import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def monoize(*arguments, text=None, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "monoize", *arguments],
        input=text,
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=60,
        check=False,
    )


def test_the_example_config_is_good():
    done = monoize("check", "--config", str(ROOT / "examples" / "monoize.yaml"))
    assert done.returncode == 0, done.stderr
    assert "3 providers" in done.stdout


@pytest.mark.parametrize("command", ["check", "serve"])
def test_a_bad_config_is_one_clear_sentence(command, tmp_path):
    file = tmp_path / "bad.yaml"
    file.write_text("providers: [{id: a, type: nonsense}]")
    done = monoize(command, "--config", str(file))
    assert done.returncode == 1
    assert "$.providers[0].type" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_without_engines_and_keys_it_starts_and_says_how_to_go_on(tmp_path):
    """A folder that hides the runtime of the local model stands for a machine without it."""
    (tmp_path / "hidden").mkdir()
    script = (
        "import importlib.util, sys\n"
        "real = importlib.util.find_spec\n"
        "gone = {'xllamacpp', 'onnxruntime', 'hibari_tts'}\n"
        "importlib.util.find_spec = lambda n, *a: None if n in gone else real(n, *a)\n"
        "sys.argv = ['monoize', 'serve', '--port', '0']\n"
        "from monoize.cli import main\n"
        "main()\n"
    )
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")}
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("w") as stdout, err.open("w") as stderr:
        running = subprocess.Popen(
            [sys.executable, "-u", "-c", script],
            stdout=stdout,
            stderr=stderr,
            cwd=tmp_path,
            env={**environment, "PYTHONPATH": str(ROOT / "src")},
        )
    wanted = {
        out: ["key  sk-mz-"],
        err: ["no local model smollm2", "no providers: set OPENAI_API_KEY"],
    }

    def missing():
        return [
            text for file, texts in wanted.items() for text in texts if text not in file.read_text()
        ]

    deadline = time.monotonic() + 60
    while missing() and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    running.terminate()
    running.wait(timeout=30)
    assert missing() == []
    assert "Traceback" not in err.read_text()


def test_an_address_that_is_taken_is_one_clear_sentence(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = monoize("serve", "--port", str(port), cwd=tmp_path)
    assert done.returncode == 1
    assert (
        done.stderr.strip() == f"monoize: cannot listen on 127.0.0.1:{port}: Address already in use"
    )
    assert done.stdout == ""


def test_the_schema_of_the_config_is_printed():
    assert "$defs" in json.loads(monoize("config", "schema").stdout)


def test_translate_shows_the_body_and_the_losses():
    request = '{"model":"m","messages":[{"role":"user","content":"hi"}],"seed":7}'
    done = monoize("translate", "-", "--from", "chat_completion", "--to", "messages", text=request)
    assert done.returncode == 0, done.stderr
    assert "POST /v1/messages" in done.stdout
    assert "seed" in done.stderr


def test_translate_speaks_json_to_machines(tmp_path):
    file = tmp_path / "r.json"
    file.write_text('{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}')
    done = monoize(
        "translate", str(file), "--from", "gemini", "--to", "responses", "--model", "m", "--json"
    )
    report = json.loads(done.stdout)
    assert (report["to"], report["lossless"], report["body"]["model"]) == ("responses", True, "m")


@pytest.mark.parametrize(
    ("arguments", "text", "sentence"),
    [
        (("-", "--from", "chat_completion", "--to", "messages"), "{", "not JSON"),
        (("-", "--from", "nonsense", "--to", "messages"), "{}", "from: must be one of"),
        (("none.json", "--from", "gemini", "--to", "messages"), None, "No such file"),
        (
            ("-", "--from", "chat_completion", "--to", "messages"),
            '{"model":"m","messages":7}',
            "messages",
        ),
    ],
)
def test_translate_says_what_is_wrong(arguments, text, sentence, tmp_path):
    done = monoize("translate", *arguments, text=text, cwd=tmp_path)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_help_lists_the_commands():
    said = monoize("--help").stdout
    for command in ("serve", "check", "config", "translate"):
        assert command in said


KEYLESS = "providers: []"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        # Whoever gets to a gateway without keys is an admin.
        (("--host", "0.0.0.0"), "without keys the gateway serves loopback only"),
        (("--host", "::"), "without keys the gateway serves loopback only"),
        (("--port", "99999"), "65535"),
        (("--workers", "0"), ">= 1"),
    ],
)
def test_what_the_command_line_puts_over_the_file_is_checked_too(arguments, sentence, tmp_path):
    file = tmp_path / "monoize.yaml"
    file.write_text(KEYLESS)
    done = monoize("serve", "--config", str(file), *arguments, cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert sentence in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_whoever_reads_only_the_beginning_of_an_output_may(tmp_path):
    for command in ("transforms list", "config schema", "users list --json"):
        done = subprocess.run(
            f"{sys.executable} -m monoize {command} | true",
            shell=True,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=60,
            check=False,
        )
        assert done.stderr == "", command


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("[" * 3000, "nested too deeply"), ("a: 2026-13-45", "month must be in 1..12")],
)
def test_a_strange_file_of_another_gateway_is_one_sentence(text, sentence, tmp_path):
    done = monoize("import", "litellm", "-", text=text)
    assert done.returncode == 1
    assert done.stderr.startswith("monoize: -: ")
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1
