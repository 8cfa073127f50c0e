"""Media through the running program: over HTTP by hand, by a client library, and on the command line."""

from __future__ import annotations

import hashlib
import http.client
import json
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fakes.caller import Caller, Reply
from fakes.dashboard import until
from fakes.gateway import GatewayProcess
from fakes.seaweedfs import BUCKET, S3Server, s3_server
from monoize.cli import app

__all__ = ["s3_server"]

ADA, BOB = "sk-ada-0123456789abcdef", "sk-bob-0123456789abcdef"
MAX = 3 * 1024**2
EXAMPLE = Path(__file__).parents[2] / "examples" / "media.py"
PNG = b"\x89PNG\r\n\x1a\n" + random.Random(1).randbytes(700_000)


def settings(store: str) -> dict[str, Any]:
    return {
        "server": {"host": "127.0.0.1", "timeouts": {"body": 4}},
        "keys": [{"name": "ada", "key": ADA}, {"name": "bob", "key": BOB}],
        "media": {"store": store, "max_bytes": MAX, "quota_bytes": 20 * 1024**2},
    }


@pytest.fixture(scope="module", params=["folder", "s3"])
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    with pytest.MonkeyPatch.context() as patch:
        store = "./data/media"
        if request.param == "s3":
            server: S3Server = request.getfixturevalue("s3_server")
            store = f"s3://{BUCKET}/e2e"
            for name, value in server.environment.items():
                patch.setenv(name, value)
        process = GatewayProcess(tmp_path_factory.mktemp("media"), settings(store))
    yield process
    assert process.stop() in (0, -15)
    assert "Traceback" not in process.log_text(), process.log_text()[-3000:]


@pytest.fixture
def ada(running: GatewayProcess) -> Caller:
    return Caller(running.port, {"authorization": f"Bearer {ADA}"})


@pytest.fixture
def bob(running: GatewayProcess) -> Caller:
    return Caller(running.port, {"x-api-key": BOB})


def put(caller: Caller, data: bytes = PNG, target: str = "/v1/media", **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return caller.send("POST", target, data, {**caller.headers, "content-type": "", **named})


# --- by hand ---


@pytest.mark.spec("S4-3.1", "D29")
def test_there_and_back_again(ada):
    reply = put(ada, target="/v1/media?name=cat.png")
    assert reply.status == 201, reply.raw
    made = reply.json
    assert made["ref"] == {
        "kind": "sms_file",
        "uri": f"smsfile://{made['id']}",
        "mime": "image/png",
    }
    assert made["sha256"] == hashlib.sha256(PNG).hexdigest()
    back = ada.get(f"/v1/media/{made['id']}")
    assert (back.status, back.raw == PNG) == (200, True)
    assert back.headers["content-type"] == "image/png"
    assert back.headers["content-length"] == str(len(PNG))
    assert back.headers["x-request-id"]
    part = ada.get(f"/v1/media/{made['id']}", range="bytes=1000-1999")
    assert (part.status, part.raw) == (206, PNG[1000:2000])
    assert part.headers["content-range"] == f"bytes 1000-1999/{len(PNG)}"
    assert ada.get(f"/v1/media/{made['id']}", range="bytes=700009-").status == 416
    same = ada.get(f"/v1/media/{made['id']}", if_none_match=back.headers["etag"])
    assert (same.status, same.raw) == (304, b"")
    head = ada.send("HEAD", f"/v1/media/{made['id']}")
    assert (head.status, head.headers["content-length"]) == (200, str(len(PNG)))
    assert ada.get(f"/v1/media/{made['id']}/meta").json == made
    assert made in ada.get("/v1/media").json["data"]
    gone = ada.send("DELETE", f"/v1/media/{made['id']}")
    assert (gone.status, gone.json) == (200, {"id": made["id"], "deleted": True})
    assert ada.get(f"/v1/media/{made['id']}").status == 404


def test_nobody_else_gets_at_it(ada, bob, running):
    made = put(ada).json
    for method, end in (("GET", ""), ("HEAD", ""), ("GET", "/meta"), ("DELETE", "")):
        target = f"/v1/media/{made['id']}{end}"
        assert bob.send(method, target).status == 404
        assert Caller(running.port, {}).send(method, target).status == 401
    assert made["id"] not in str(bob.get("/v1/media").json)
    assert ada.get(f"/v1/media/{made['id']}").status == 200


@pytest.mark.parametrize(
    "target",
    [
        *("/v1/media/../models", "/v1/media/..%2f..%2fmonoize.yaml", "/v1/media/%2e%2e/x/meta"),
        *("/v1/media/", "/v1/media//meta", "/v1/media/x", "/v1/media/%00", "/v1/media/a%0ab"),
    ],
)
def test_paths_out_of_the_store_lead_nowhere(ada, target):
    assert ada.get(target).status == 404


def test_other_methods_are_refused_with_those_that_are_not(ada):
    reply = ada.send("PUT", "/v1/media", b"x")
    assert (reply.status, set(reply.headers["allow"].split(", "))) == (405, {"GET", "POST"})


# --- uploads that go wrong ---


def test_too_large_is_said_before_it_is_sent(ada, running):
    line = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
    line.putrequest("POST", "/v1/media")
    line.putheader("authorization", f"Bearer {ADA}")
    line.putheader("content-length", str(MAX + 1))
    line.putheader("expect", "100-continue")
    line.endheaders()
    reply = line.getresponse()
    assert reply.status == 413
    assert "media.max_bytes" in json.loads(reply.read())["error"]["message"]
    line.close()


def test_too_large_without_a_size_is_broken_off(ada, running):
    line = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
    pieces = iter([bytes(256 * 1024)] * (MAX // (256 * 1024)) + [b"x"])
    headers = {"authorization": f"Bearer {ADA}"}
    line.request("POST", "/v1/media", pieces, headers, encode_chunked=True)
    assert line.getresponse().status == 413
    line.close()


def begun(running: GatewayProcess, declared: int, data: bytes) -> socket.socket:
    line = socket.create_connection(("127.0.0.1", running.port), timeout=30)
    head = f"POST /v1/media HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {ADA}\r\n"
    line.sendall(f"{head}content-length: {declared}\r\n\r\n".encode() + data)
    return line


def test_a_body_that_stops_coming_is_408_and_gives_its_room_back(ada, running):
    before = ada.get("/v1/media").json["usage"]
    line = begun(running, 2_000_000, bytes(600_000))
    assert line.recv(100).startswith(b"HTTP/1.1 408 ")
    line.close()
    assert ada.get("/v1/media").json["usage"] == before


def test_a_caller_that_leaves_gives_its_room_back(ada, running):
    before = ada.get("/v1/media").json["usage"]
    begun(running, 2_000_000, bytes(600_000)).close()
    look = lambda: ada.get("/v1/media").json["usage"]  # noqa: E731
    assert until(look, lambda usage: usage == before) == before, "the room is still taken"


def test_beyond_the_quota_is_413_until_something_is_deleted(running):
    full = Caller(running.port, {"authorization": f"Bearer {BOB}"})
    made = []
    while (reply := put(full, bytes(2_900_000))).status == 201:
        made.append(reply.json["id"])
    assert len(made) == 7
    assert (reply.status, reply.json["error"]["code"]) == (413, "media_quota_exceeded")
    full.send("DELETE", f"/v1/media/{made[0]}")
    assert put(full, bytes(2_900_000)).status == 201


# --- a client library ---


@pytest.mark.spec("S4-3.3")
async def test_a_form_of_a_client_library(running):
    form = aiohttp.FormData(quote_fields=False)
    form.add_field("purpose", "vision")
    form.add_field("file", BytesIO(PNG), filename="Übung 1.png", content_type="image/png")
    headers = {"authorization": f"Bearer {ADA}"}
    url = f"http://127.0.0.1:{running.port}/v1/media"
    async with aiohttp.ClientSession(headers=headers) as session:
        async with session.post(url, data=form) as reply:
            made = await reply.json()
        assert (reply.status, made["name"], made["mime"]) == (201, "Übung 1.png", "image/png")
        async with session.get(f"{url}/{made['id']}") as reply:
            assert await reply.read() == PNG
            assert reply.content_disposition.filename == "Übung 1.png"


# --- the command line ---


ON_A_FOLDER = pytest.mark.parametrize("running", ["folder"], indirect=True)


class Shell:
    """Runs commands in this process, which is faster than a new one for each."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, capture: Any) -> None:
        self.folder = folder
        self._patch = patch
        self._capture = capture

    def run(self, *words: str, given: bytes = b"", **environment: str) -> tuple[int, bytes, str]:
        with self._patch.context() as patch:
            patch.setattr(sys, "stdin", TextIOWrapper(BytesIO(given)))
            for name, value in environment.items():
                patch.setenv(name, value)
            code = app(["media", *words], exit_on_error=False, result_action="return_value")
        said = self._capture.readouterr()
        return code, said.out, said.err.decode()

    def good(self, *words: str, given: bytes = b"") -> Any:
        code, out, err = self.run(*words, "--json", given=given)
        assert (code, err) == (0, "")
        return json.loads(out)

    def refused(self, *words: str, **environment: str) -> str:
        code, out, err = self.run(*words, **environment)
        assert (code, out) == (1, b"")
        assert err.startswith("monoize: ")
        assert len(err.strip().splitlines()) == 1
        return err


@pytest.fixture
def shell(
    running: GatewayProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any
) -> Shell:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MONOIZE_URL", f"http://127.0.0.1:{running.port}")
    monkeypatch.setenv("MONOIZE_KEY", ADA)
    return Shell(tmp_path, monkeypatch, capfdbinary)


@ON_A_FOLDER
def test_files_in_and_out_on_the_command_line(shell):
    (shell.folder / "cat.png").write_bytes(PNG)
    made = shell.good("put", "cat.png")
    assert (made["name"], made["mime"], made["size"]) == ("cat.png", "image/png", len(PNG))
    assert shell.good("meta", made["uri"]) == made
    assert made in shell.good("list")["data"]
    assert len(shell.good("list", "--limit", "1")["data"]) == 1
    assert "there is a file cat.png already" in shell.refused("get", made["id"])
    fetched = shell.good("get", made["id"], "-o", "copy.png")
    assert (shell.folder / fetched["file"]).read_bytes() == PNG
    assert shell.run("get", made["id"], "-o", "-")[1] == PNG
    assert shell.good("rm", made["id"]) == {"id": made["id"], "deleted": True}
    assert "404" in shell.refused("get", made["id"], "-o", "x")
    assert sorted(file.name for file in shell.folder.iterdir()) == ["cat.png", "copy.png"]


@ON_A_FOLDER
def test_standard_input_and_words_for_people(shell):
    made = shell.good("put", "-", "--mime", "text/plain", "--name", "a b.txt", given=b"hello")
    assert (made["name"], made["mime"], made["size"]) == ("a b.txt", "text/plain", 5)
    code, out, err = shell.run("list")
    assert (code, err) == (0, "")
    assert b"a b.txt" in out
    assert b" of 21.0 MB." in out
    code, out, _ = shell.run("get", made["id"])
    assert (code, out) == (0, b"a b.txt  text/plain, 5 bytes\n")
    assert (shell.folder / "a b.txt").read_bytes() == b"hello"
    code, out, _ = shell.run("meta", made["id"])
    assert b"sha256" in out
    code, out, _ = shell.run("rm", made["id"])
    assert (code, out.decode()) == (0, f"{made['id']} is gone.\n")


@ON_A_FOLDER
def test_what_goes_wrong_is_one_sentence(shell):
    (shell.folder / "large").write_bytes(bytes(MAX + 1))
    (shell.folder / "empty").touch()
    assert "No such file" in shell.refused("put", "nothing")
    assert "media.max_bytes" in shell.refused("put", "large")
    assert "nothing in it" in shell.refused("put", "empty")
    assert "no media type" in shell.refused("put", "large", "--mime", "x")
    assert "no id of media" in shell.refused("get", "../../etc/passwd")
    assert "401" in shell.refused("list", MONOIZE_KEY="sk-nobody")
    assert "no gateway answers" in shell.refused("list", MONOIZE_URL="http://127.0.0.1:9")
    assert "--url must be" in shell.refused("list", MONOIZE_URL="ftp://x")
    assert "characters that no key has" in shell.refused("list", MONOIZE_KEY="ü")
    code, _, err = shell.run("get", "0" * 26, "-o", "no/such/folder")
    assert (code, err.count("\n")) == (1, 1)


@ON_A_FOLDER
def test_the_first_key_is_found_by_itself(shell, monkeypatch):
    (shell.folder / "data").mkdir()
    (shell.folder / "data" / "first-key").write_text(f"{ADA}\n")
    monkeypatch.delenv("MONOIZE_KEY")
    assert "usage" in shell.good("list")


@ON_A_FOLDER
def test_the_example_runs(shell):
    (shell.folder / "cat 1.png").write_bytes(PNG)
    done = subprocess.run(
        [sys.executable, EXAMPLE, "cat 1.png"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=shell.folder,
    )
    ref, told, gone = done.stdout.splitlines()
    assert json.loads(ref)["kind"] == "sms_file"
    assert told.startswith(f"{len(PNG)} bytes of image/png")
    assert "'deleted': True" in gone
