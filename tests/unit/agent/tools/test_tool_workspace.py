"""The workspace tools: what they do, and that no path leads out."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import sys
import threading
import time
from pathlib import Path

import pytest

from monoize.agent.message import ToolInvocation
from monoize.agent.ports import ToolAway
from monoize.agent.tools import Tools
from monoize.agent.tools._child import Limits
from monoize.agent.tools._patch import Edit, PatchError, patched
from monoize.agent.tools._search import glob_fits
from monoize.agent.tools.jail import Jail, JailError
from monoize.agent.tools.workspace import Workspace, WorkspaceSettings


@pytest.fixture
def room(tmp_path):
    """A workspace with a few files, and a secret beside it."""
    (tmp_path / "secret.txt").write_text("outside\n")
    root = tmp_path / "work"
    (root / "src").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("[core]\n")
    (root / "src" / "a.py").write_text("one = 1\ntwo = 2\nthree = 3\n")
    (root / "src" / "b.txt").write_text("Zwei Wörter\n")
    (root / "README").write_text("read me\n")
    return root


@pytest.fixture
async def work(room):
    source = Workspace(room)
    tools = Tools([source])

    async def called(name, /, *, seconds=30.0, **arguments):
        call = ToolInvocation(id="c", name=name, arguments=arguments, source_model="m")
        return json.loads(await tools.call(call, seconds))

    yield called
    await tools.aclose()


async def test_what_it_offers(room):
    tools = Tools([Workspace(room)])
    found = {spec.name: (spec.pure, spec.scope) for spec in (await tools.manifest()).tools}
    assert found == {
        "list_files": (True, "read"),
        "read_file": (True, "read"),
        "search_files": (True, "read"),
        "write_file": (False, "write"),
        "patch_file": (False, "write"),
        "run_command": (False, "execute"),
    }
    await tools.aclose()


async def test_it_offers_only_what_the_operator_says(room):
    source = Workspace(room, WorkspaceSettings(tools=("read_file",)))
    assert [spec.name for spec in await source.specs()] == ["read_file"]
    await source.aclose()
    tools = Tools([source])
    with pytest.raises(ToolAway, match="closed"):
        await tools.manifest()


# --- looking ---


async def test_lists_names_sizes_and_kinds(work, room):
    (room / "link").symlink_to("README")
    said = (await work("list_files"))["result"]
    assert said == {
        "path": ".",
        "entries": [
            {"path": ".git", "kind": "folder"},
            {"path": "README", "kind": "file", "bytes": 8},
            {"path": "link", "kind": "link"},
            {"path": "src", "kind": "folder"},
        ],
        "complete": True,
    }
    deep = (await work("list_files", depth=5))["result"]["entries"]
    assert [entry["path"] for entry in deep] == [
        ".git",
        "README",
        "link",
        "src",
        "src/a.py",
        "src/b.txt",
    ]


async def test_a_long_list_says_that_there_is_more(room):
    for number in range(20):
        (room / f"f{number}").touch()
    source = Workspace(room, WorkspaceSettings(entries=5))
    listed = await source.call("list_files", {})
    assert len(listed.value["entries"]) == 5
    assert listed.value["complete"] is False
    await source.aclose()


async def test_reads_a_file_and_some_of_its_lines(work):
    whole = (await work("read_file", path="src/a.py"))["result"]
    assert whole["content"] == "one = 1\ntwo = 2\nthree = 3\n"
    assert (whole["total_lines"], whole["total_bytes"]) == (3, 26)
    some = (await work("read_file", path="./src//a.py", first_line=2, lines=1))["result"]
    assert (some["content"], some["first_line"], some["last_line"]) == ("two = 2\n", 2, 2)


async def test_bytes_that_are_no_text_are_marked(work, room):
    (room / "image").write_bytes(b"\x89PNG\r\n")
    said = (await work("read_file", path="image"))["result"]
    assert said["replaced"] is True


async def test_a_file_that_is_too_large_is_refused(room):
    (room / "large").write_bytes(b"x" * 1001)
    source = Workspace(room, WorkspaceSettings(file_bytes=1000))
    for name, arguments in (
        ("read_file", {"path": "large"}),
        ("write_file", {"path": "new", "content": "x" * 1001}),
        ("patch_file", {"path": "README", "edits": [{"old": "me", "new": "x" * 1000}]}),
    ):
        failed = await source.call(name, arguments)
        assert (failed.code, "larger than 1000" in failed.message) == ("tool_error", True)
    assert not (room / "new").exists()
    await source.aclose()


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"pattern": "= 2"}, [("src/a.py", 2)]),
        ({"pattern": r"^t\w+ = \d$", "regex": True}, [("src/a.py", 2), ("src/a.py", 3)]),
        ({"pattern": "ZWEI wörter", "ignore_case": True}, [("src/b.txt", 1)]),
        ({"pattern": "WÖRTER", "ignore_case": True, "regex": True}, [("src/b.txt", 1)]),
        ({"pattern": "e", "glob": "*.txt"}, [("src/b.txt", 1)]),
        ({"pattern": "e", "glob": "src/*.txt"}, [("src/b.txt", 1)]),
        ({"pattern": "three", "path": "src/a.py"}, [("src/a.py", 3)]),
        ({"pattern": "core"}, []),
    ],
)
async def test_searches(work, arguments, found):
    said = (await work("search_files", **arguments))["result"]
    assert [(match["path"], match["line"]) for match in said["matches"]] == found


@pytest.mark.parametrize("pattern", ["(", "(?<=a)b", r"(a)\1", "x{100000}{100000}"])
async def test_a_pattern_that_is_not_understood_is_named(work, pattern):
    failed = await work("search_files", pattern=pattern, regex=True)
    assert failed["error"]["code"] == "tool_error"
    assert "regular expression" in failed["error"]["message"]


async def test_no_pattern_takes_for_ever(work, room):
    (room / "trap").write_text("a" * 200_000 + "!\n")
    begun = time.monotonic()
    said = await work("search_files", pattern="^(a+)+$", regex=True)
    assert said["result"]["matches"] == []
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize(
    ("glob", "name", "fits"),
    [
        ("*", "", True),
        ("", "", True),
        ("", "a", False),
        ("*.py", "a.py", True),
        ("*.py", "a.pyc", False),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("a*b*c", "aXbYc", True),
        ("a*b*c", "aXcYb", False),
        ("**a", "ba", True),
        ("[a]", "[a]", True),
        ("*a" * 30 + "b", "a" * 4000, False),
    ],
)
def test_globs(glob, name, fits):
    assert glob_fits(glob, name) is fits


# --- changing ---


async def test_writes_a_file_with_its_folders(work, room):
    said = (await work("write_file", path="new/deep/file", content="häh"))["result"]
    assert said == {"path": "new/deep/file", "bytes": 4, "created": True}
    assert (room / "new/deep/file").read_text() == "häh"
    assert stat.S_IMODE((room / "new/deep/file").stat().st_mode) == 0o644


async def test_keeps_the_mode_and_leaves_no_scraps(work, room):
    script = room / "script"
    script.write_text("old")
    script.chmod(0o750)
    said = (await work("write_file", path="script", content="new"))["result"]
    assert said["created"] is False
    assert stat.S_IMODE(script.stat().st_mode) == 0o750
    assert sorted(path.name for path in room.iterdir()) == [".git", "README", "script", "src"]


async def test_a_reader_sees_the_old_file_or_the_new_one(work, room):
    """Never something in between, as long as one writes and the other reads."""
    place = room / "README"
    seen, stop = set(), threading.Event()

    def read():
        while not stop.is_set():
            seen.add(place.read_text())

    reader = threading.Thread(target=read)
    reader.start()
    texts = {"read me\n"}
    for letter in "abcdefgh":
        text = letter * 200_000
        texts.add(text)
        await work("write_file", path="README", content=text)
    stop.set()
    reader.join()
    assert seen <= texts


async def test_patches_by_what_stands_there(work, room):
    edits = [{"old": "two = 2", "new": "two = 22"}, {"old": "three", "new": "drei"}]
    said = (await work("patch_file", path="src/a.py", edits=edits))["result"]
    assert said["edits"] == 2
    assert (room / "src/a.py").read_text() == "one = 1\ntwo = 22\ndrei = 3\n"


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ([Edit(old="nowhere", new="")], "edit 1: the file does not hold"),
        ([Edit(old="a", new="b"), Edit(old="a", new="c")], "edit 2: the file does not hold"),
        ([Edit(old="x", new="y")], "holds this text 2 times"),
        ([Edit(old="", new="y")], "empty"),
    ],
)
def test_an_edit_that_does_not_fit_is_named(edits, said):
    with pytest.raises(PatchError, match=said):
        patched("a x x", edits)


def test_an_edit_of_every_place_and_other_line_ends():
    assert patched("x x", [Edit(old="x", new="y", all=True)]) == "y y"
    assert patched("a\r\nb\r\n", [Edit(old="a\nb", new="c\nd")]) == "c\r\nd\r\n"


async def test_all_edits_or_none(work, room):
    before = (room / "src/a.py").read_text()
    edits = [{"old": "one", "new": "uno"}, {"old": "nowhere", "new": ""}]
    failed = await work("patch_file", path="src/a.py", edits=edits)
    assert "unchanged: edit 2" in failed["error"]["message"]
    assert (room / "src/a.py").read_text() == before


@pytest.mark.parametrize(
    "path", [".git/hooks/pre-commit", ".GIT/config", "src/../.git/x", "to_git/new/x"]
)
async def test_a_hook_is_a_command_and_is_not_written(work, room, path):
    (room / "to_git").symlink_to(".git")
    failed = await work("write_file", path=path, content="#!/bin/sh")
    assert "not to be changed" in failed["error"]["message"]
    assert [path.name for path in (room / ".git").iterdir()] == ["config"]


# --- the jail ---

LEAVING = {
    "above": "../secret.txt",
    "above by a detour": "src/../../secret.txt",
    "far above": "../" * 50 + "etc/passwd",
    "absolute": "/etc/passwd",
    "doubly absolute": "//etc/passwd",
    "a link to a file": "link_file",
    "a link to above": "link_up/secret.txt",
    "an absolute link": "link_absolute/passwd",
    "a link to a link": "link_chain",
    "the middle of a path": "src/link_deep/secret.txt",
    "nothing": "",
    "a NUL": "README\0.txt",
    "too long": "a/" * 3000 + "b",
    "a long name": "a" * 300,
    "half a character": "\ud800",
    "a loop": "loop/x",
    "a link to oneself": "self",
    "the process": "proc_link/environ",
}


@pytest.fixture
def traps(room):
    (room / "link_file").symlink_to("../secret.txt")
    (room / "link_up").symlink_to("..")
    (room / "link_absolute").symlink_to("/etc")
    (room / "link_chain").symlink_to("link_file")
    (room / "src" / "link_deep").symlink_to("../..")
    (room / "loop").symlink_to("loop2")
    (room / "loop2").symlink_to("loop")
    (room / "self").symlink_to("self")
    (room / "proc_link").symlink_to("/proc/self")
    return room


@pytest.mark.parametrize("path", LEAVING.values(), ids=LEAVING)
@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("read_file", {}),
        ("write_file", {"content": "mine"}),
        ("patch_file", {"edits": [{"old": "outside", "new": "mine"}]}),
        ("search_files", {"pattern": "o"}),
        ("list_files", {}),
        ("run_command", {}),
    ],
)
async def test_no_path_leads_out(traps, path, name, more):
    source = Workspace(traps)
    arguments = {"argv": ["pwd"], "cwd": path} if name == "run_command" else {"path": path, **more}
    failed = await source.call(name, arguments)
    await source.aclose()
    assert getattr(failed, "code", None) == "tool_error", failed
    assert "outside" not in failed.message
    assert (traps.parent / "secret.txt").read_text() == "outside\n"
    assert sorted(path.name for path in traps.parent.iterdir()) == ["secret.txt", "work"]


async def test_a_link_that_stays_inside_is_followed(work, room):
    (room / "inside").symlink_to("src")
    (room / "src" / "readme").symlink_to("../README")
    assert (await work("read_file", path="inside/a.py"))["result"]["path"] == "src/a.py"
    assert (await work("read_file", path="inside/readme"))["result"]["content"] == "read me\n"
    said = (await work("write_file", path="src/readme", content="new"))["result"]
    assert said["path"] == "README"
    assert (room / "src" / "readme").is_symlink()


async def test_another_name_of_a_file_outside_keeps_its_content(work, room):
    """A hard link can be read, since nothing tells which name came first; writing makes a new file."""
    secret = room.parent / "secret.txt"
    os.link(secret, room / "hard")
    assert (await work("read_file", path="hard"))["result"]["content"] == "outside\n"
    assert (await work("write_file", path="hard", content="mine"))["status"] == "ok"
    await work("patch_file", path="hard", edits=[{"old": "mine", "new": "ours"}])
    assert secret.read_text() == "outside\n"


@pytest.mark.parametrize("kind", ["fifo", "socket", "device", "folder"])
async def test_what_is_no_file_is_neither_read_nor_replaced(work, room, kind):
    place = room / "thing"
    match kind:
        case "fifo":
            os.mkfifo(place)
        case "socket":
            listening = socket.socket(socket.AF_UNIX)
            listening.bind(str(place))
            listening.close()
        case "device":
            try:
                os.mknod(place, stat.S_IFCHR | 0o666, os.makedev(1, 5))
            except PermissionError:
                pytest.skip("only root makes devices")
        case _:
            place.mkdir()
    before = place.lstat()
    for name, more in (
        ("read_file", {}),
        ("write_file", {"content": "x"}),
        ("patch_file", {"edits": [{"old": "a", "new": "b"}]}),
    ):
        failed = await work(name, path="thing", seconds=10, **more)
        assert failed["status"] == "error", name
    assert place.lstat().st_ino == before.st_ino
    assert (await work("search_files", pattern="x", seconds=10))["status"] == "ok"


def test_whoever_swaps_a_folder_for_a_link_gains_nothing(room):
    """The race that path checks lose: a folder is a link to outside every other moment, while it is walked."""
    outside = room.parent / "outside"
    outside.mkdir()
    (outside / "file").write_text("outside\n")
    inside = room / "inside"
    inside.mkdir()
    (inside / "file").write_text("inside\n")
    (room / "link").symlink_to(outside)
    stop = threading.Event()

    def swap():
        while not stop.is_set():
            (room / "inside").rename(room / "away")
            (room / "link").rename(room / "inside")
            (room / "inside").rename(room / "link")
            (room / "away").rename(room / "inside")

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    swapping = threading.Thread(target=swap)
    swapping.start()
    jail = Jail(room)
    seen = set()
    try:
        for step in range(50_000):
            if step > 5000 and len(seen) > 1:  # both were met, so there was a race
                break
            try:
                with jail.spot("inside/file") as spot:
                    number = spot.open_file()
                    seen.add(os.read(number, 100))
                    os.close(number)
            except JailError:
                seen.add(b"refused")
    finally:
        stop.set()
        swapping.join()
        jail.close()
        sys.setswitchinterval(interval)
    assert b"outside\n" not in seen
    assert seen == {b"inside\n", b"refused"}


# --- commands ---


async def test_runs_a_command_in_the_workspace(work, room):
    said = await work(
        "run_command", argv=["sh", "-c", "pwd; cat; echo no >&2; exit 3"], cwd="src", stdin="in"
    )
    assert said["status"] == "ok"
    assert said["result"] == {"exit_code": 3, "stdout": f"{room}/src\nin", "stderr": "no\n"}


def is_folder(place):
    return Path(place).is_dir()


async def test_a_command_has_a_home_of_its_own_and_no_secrets(work, room, monkeypatch):
    monkeypatch.setenv("GEMINI_API_KEY", "canary")
    said = (await work("run_command", argv=["env"]))["result"]["stdout"]
    seen = dict(line.split("=", 1) for line in said.splitlines())
    assert "GEMINI_API_KEY" not in seen
    assert seen["HOME"] != os.environ.get("HOME")
    assert is_folder(seen["HOME"])
    assert seen["HOME"] == seen["TMPDIR"]


async def test_the_home_goes_with_the_workspace(room):
    source = Workspace(room)
    made = await source.call("run_command", {"argv": ["sh", "-c", "echo -n $HOME; touch $HOME/x"]})
    assert is_folder(made.value["stdout"])
    await source.aclose()
    assert not is_folder(made.value["stdout"])


async def test_head_and_tail_of_a_long_output(room):
    source = Workspace(room, WorkspaceSettings(output_bytes=100))
    made = await source.call("run_command", {"argv": ["seq", "10000"]})
    assert made.value["stdout"].startswith("1\n2\n3\n")
    assert made.value["stdout"].endswith("9999\n10000\n")
    assert made.value["stdout_bytes"] == 48894
    await source.aclose()


async def test_a_command_that_is_not_there(work):
    failed = await work("run_command", argv=["no-such-program"])
    assert (failed["error"]["code"], "No such file" in failed["error"]["message"]) == (
        "tool_error",
        True,
    )


async def test_a_command_is_killed_with_all_it_began(work):
    with pytest.raises(TimeoutError):
        await work("run_command", argv=["sh", "-c", "setsid sleep 3600 & sleep 3600"], seconds=0.4)


async def test_the_limits_of_the_workspace_hold(room):
    source = Workspace(room, WorkspaceSettings(limits=Limits(file_bytes=10_000)))
    made = await source.call("run_command", {"argv": ["sh", "-c", "head -c 50000 /dev/zero > big"]})
    assert made.value["exit_code"] != 0 or made.value.get("signal")
    assert (room / "big").stat().st_size <= 10_000
    await source.aclose()


async def test_a_search_ends_when_it_is_no_longer_wanted(work, room):
    for number in range(2000):
        (room / f"file{number}").write_text("line\n" * 2000)
    task = asyncio.ensure_future(work("search_files", pattern="nowhere"))
    await asyncio.sleep(0.05)
    task.cancel()
    begun = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - begun < 10


async def test_arguments_that_do_not_fit_are_refused_here_too(work):
    failed = await work("read_file", path=5)
    assert failed["error"]["code"] == "protocol_error"
