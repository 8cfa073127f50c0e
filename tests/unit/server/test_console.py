"""The console as it is served: one shell for every page, files that may be kept for ever, and what no file of it may do."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from fakes.management import Api, opened
from monoize import __version__, console

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
PAGES = [
    *(
        "/",
        "/chat",
        "/code",
        "/runs",
        "/runs/run_1",
        "/providers",
        "/transforms",
        "/keys",
        "/users",
    ),
    *("/requests", "/requests/req_1", "/costs", "/reframer", "/media", "/settings", "/sign-in"),
]
MOST_BYTES = 100_000
# Ways from a string to markup or code; the policy forbids them, too, but not in every browser.
_MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|DOMParser|document\.write|setHTML|srcdoc\s*="
    r"|\beval\(|new Function|javascript:|setAttribute\(\s*[\"'](?:on|style)"
)
_IMPORT = re.compile(r"""(?:from|import\()\s*["'`]([^"'`]+)["'`]""")


@pytest_asyncio.fixture
async def storeless(tmp_path: Path) -> AsyncIterator[Api]:
    house = await opened(tmp_path, None)
    yield Api(house)
    await house.aclose()


@pytest_asyncio.fixture
async def keyless(tmp_path: Path) -> AsyncIterator[Api]:
    """As it is at first: a store, and nobody who could sign in."""
    house = await opened(tmp_path, f"sqlite:///{tmp_path}/monoize.db", keys=[])
    yield Api(house)
    await house.aclose()


def _policy(headers: dict[str, str]) -> dict[str, list[str]]:
    rows = (row.split() for row in headers["content-security-policy"].split(";"))
    return {name: values for name, *values in rows}


async def _shell(place: Api, path: str = "/", **more: str) -> tuple[dict[str, str], str]:
    answer = await place.call("GET", path, key=None, headers={**BROWSER, **more})
    assert answer.status == 200, answer.raw
    return answer.headers, answer.raw.decode()


def _session(text: str) -> dict[str, object]:
    match = re.search(r'<script type="application/json" id="session">(.*?)</script>', text)
    assert match
    return json.loads(match[1])  # type: ignore[no-any-return]


# --- the shell ---


@pytest.mark.parametrize("path", PAGES)
async def test_every_page_has_the_same_shell(storeless, path):
    headers, text = await _shell(storeless, path)
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert text.startswith("<!doctype html>")
    assert "{{" not in text
    words = path.split("/")[1].replace("-", " ").capitalize() or "Overview"
    assert f"<title>{words} · Monoize</title>" in text


async def test_every_page_of_the_shell_is_served(storeless):
    """What the navigation links to, and nothing that it does not."""
    _, text = await _shell(storeless)
    nav = re.search(r"<nav.*?</nav>", text, re.DOTALL)
    assert nav
    linked = set(re.findall(r'href="([^"]+)"', nav[0]))
    assert linked == {path for path in PAGES if path.count("/") == 1} - {"/sign-in"}


async def test_a_page_is_never_kept_and_nothing_foreign_may_run_in_it(storeless):
    headers, _ = await _shell(storeless)
    assert headers["cache-control"] == "no-store"
    assert _policy(headers) == {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:", "blob:"],
        "media-src": ["'self'", "data:", "blob:"],
        "connect-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
        "require-trusted-types-for": ["'script'"],
        "trusted-types": ["'none'"],
    }


@pytest.mark.parametrize("kind", ["page", "asset"])
async def test_every_answer_has_the_headers_that_keep_others_out(storeless, kind):
    headers, text = await _shell(storeless)
    if kind == "asset":
        headers = (await storeless.call("GET", _assets(text)[0], key=None)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    permissions = headers["permissions-policy"].split(", ")
    assert {"camera=()", "geolocation=()", "microphone=(self)"} <= set(permissions)
    assert "content-security-policy" in headers


async def test_programs_that_ask_for_the_root_still_read_json(storeless):
    for accept in ("", "*/*", "application/json"):
        answer = await storeless.call("GET", "/", key=None, headers={"accept": accept})
        assert answer.json == {"name": "monoize", "version": __version__}
        assert answer.headers["vary"] == "accept"
    headers, _ = await _shell(storeless)
    assert headers["vary"] == "accept"


async def test_a_page_carries_the_session_of_who_asks(keyless):
    headers, text = await _shell(keyless)
    session = _session(text)
    assert (session["signed_in"], session["how"], session["role"]) == (True, "local", "admin")
    assert session["csrf"]
    assert "HttpOnly" in headers["set-cookie"]
    assert 'data-role="admin"' in text
    cookie = headers["set-cookie"].partition(";")[0]
    again, text = await _shell(keyless, "/chat", cookie=cookie)
    assert "set-cookie" not in again
    assert _session(text)["csrf"] == session["csrf"]


async def test_looking_at_the_head_begins_no_session(keyless):
    for path in ("/", "/chat"):
        answer = await keyless.call("HEAD", path, key=None, headers=BROWSER)
        assert (answer.status, answer.raw) == (200, b"")
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "set-cookie" not in answer.headers


async def test_a_name_is_never_markup(keyless):
    """The session's own text stands in a script element: nothing in it may end that."""
    evil = "</script><script>alert(1)</script><!--"
    admin = await keyless.good(
        "POST",
        "/api/users",
        {"username": evil, "role": "admin", "password": "correct horse battery"},
        key=None,
    )
    assert admin["username"] == evil
    entered = await keyless.call(
        "POST",
        "/api/session",
        {"username": evil, "password": "correct horse battery"},
        key=None,
        headers={"content-type": "application/json", "origin": "http://127.0.0.1"},
    )
    assert entered.status == 200, entered.raw
    cookie = entered.headers["set-cookie"].partition(";")[0]
    _, text = await _shell(keyless, "/users", cookie=cookie)
    assert _session(text)["username"] == evil
    assert evil not in text
    assert "alert(1)</script>" not in text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_a_page_is_only_ever_read(storeless, method):
    for path in ("/chat", "/requests/req_1"):
        answer = await storeless.call(method, path)
        assert (answer.status, answer.headers["allow"]) == (405, "GET")


async def test_an_address_that_is_no_page_is_none(storeless):
    for path in ("/nowhere", "/chat/", "/requests/a/b", "/console", "/console/"):
        answer = await storeless.call("GET", path, headers=BROWSER)
        assert answer.status == 404, path


# --- the files ---


def _assets(text: str) -> list[str]:
    return re.findall(r'(?:href|src)="(/console/[^"]+)"', text)


async def test_files_that_the_shell_names_are_there_and_may_be_kept(storeless):
    _, text = await _shell(storeless)
    named = _assets(text)
    assert len(named) > 4
    for path in named:
        answer = await storeless.call("GET", path, key=None)
        assert answer.status == 200, path
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        kind = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
        assert answer.headers["content-type"].startswith(kind[path.rpartition(".")[2]])
        head = await storeless.call("HEAD", path, key=None)
        assert (head.status, head.raw) == (200, b"")


async def test_files_are_packed_for_who_can_unpack_them(storeless):
    path = f"/console/{console.bundle().version}/core/app.js"
    plain = await storeless.call("GET", path, key=None)
    packed = await storeless.call("GET", path, key=None, headers={"accept-encoding": "gzip, br"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert len(packed.raw) < len(plain.raw) / 2
    assert gzip.decompress(packed.raw) == plain.raw == console.bundle().assets["core/app.js"]
    assert plain.headers["vary"] == packed.headers["vary"] == "accept-encoding"


@pytest.mark.parametrize(
    "name",
    [
        *("nothing.js", "shell.html", "__init__.py", "core", "core/", "", "core/../shell.html"),
        *(
            "../console.py",
            "..%2f..%2fserver%2fapp.py",
            "%2e%2e/app.py",
            "/etc/passwd",
            "core//app.js",
        ),
        *("core/app.js/", "core\\app.js", "core/app.js%00", "CORE/APP.JS"),
    ],
)
async def test_nothing_but_the_files_is_served(storeless, name):
    version = console.bundle().version
    answer = await storeless.call("GET", f"/console/{version}/{name}", key=None)
    assert answer.status == 404
    assert answer.json["error"]["code"] == "not_found"


async def test_a_file_of_another_version_is_not_passed_off_as_this_one(storeless):
    answer = await storeless.call("GET", "/console/0123456789ab/core/app.js", key=None)
    assert answer.status == 404
    assert "reload" in answer.error["message"]
    assert "immutable" not in answer.headers.get("cache-control", "")


def test_the_version_changes_with_every_file(tmp_path):
    def made(**contents: str) -> str:
        for name, content in contents.items():
            (tmp_path / name.replace("_", ".")).write_text(content, "utf-8")
        return console.bundled(tmp_path).version

    first = made(shell_html="<p>", a_js="1", b_js="23")
    assert made() == first
    assert made(a_js="12", b_js="3") != first
    assert made(a_js="1", b_js="23") == first
    assert made(shell_html="<b>") != first


def test_only_files_for_browsers_belong_to_it(tmp_path):
    (tmp_path / "core").mkdir()
    for name in ("shell.html", "core/app.js", "__init__.py", "core/notes.txt", "style.css"):
        (tmp_path / name).write_text("", "utf-8")
    assert set(console.bundled(tmp_path).assets) == {"core/app.js", "style.css"}


def test_a_module_comes_with_all_that_it_imports(tmp_path):
    (tmp_path / "core").mkdir()
    texts = {
        "shell.html": "",
        "core/app.js": 'import { a } from "../one.js";\nimport { b } from "./two.js";\n',
        "one.js": 'import { c } from "./core/two.js";\n// import { d } from "./other.js";\n',
        "core/two.js": 'import { a } from "../one.js";\nimport("../other.js");\n',
        "other.js": "",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, "utf-8")
    bundle = console.bundled(tmp_path)
    assert bundle.with_imports("core/app.js") == ["core/app.js", "core/two.js", "one.js"]
    assert bundle.with_imports("pages/none.js") == []


async def test_a_page_asks_for_its_modules_at_once(storeless):
    _, text = await _shell(storeless, "/requests/req_1")
    early = set(re.findall(r'rel="modulepreload" href="/console/[0-9a-f]+/([^"]+)"', text))
    assert {"core/app.js", "core/dom.js", "pages/requests.js", "parts/table.js"} <= early
    assert "pages/costs.js" not in early


# --- what no file may do ---

SCRIPTS = sorted(name for name in console.bundle().assets if name.endswith(".js"))


def _text(name: str) -> str:
    return console.bundle().assets[name].decode()


def test_all_of_it_is_small_as_it_is_sent():
    bundle = console.bundle()
    sizes = {name: len(content) for name, content in bundle.packed.items()}
    assert sum(sizes.values()) + len(bundle.page.encode()) < MOST_BYTES, sizes


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_makes_markup_of_text(name):
    assert _MARKUP.findall(_text(name)) == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_imports_files_that_are_there_and_nothing_from_elsewhere(name):
    folder = Path(name).parent
    for target in _IMPORT.findall(_text(name)):
        if "${" in target:  # one page of many
            assert target.startswith("../pages/")
            continue
        assert target.startswith("."), target
        parts: list[str] = []
        for step in (folder / target).parts:
            parts = parts[:-1] if step == ".." else [*parts, step]
        assert "/".join(parts) in console.bundle().assets, target


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_says_what_it_is(name):
    assert _text(name).startswith("// ")


def test_the_shell_has_no_script_and_no_style_of_its_own():
    shell = console.bundle().page
    assert re.findall(r"<script(?![^>]*(?:\ssrc=|application/json))", shell) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=|https?:", shell) == []


def test_styles_bring_nothing_from_elsewhere():
    assert re.findall(r"@import|url\(|https?:", _text("style.css")) == []


def test_every_page_of_the_navigation_has_its_module():
    frame = console.bundle().page.partition("<nav")[2].partition("</nav>")[0]
    nav = re.findall(r'href="/([a-z-]*)"', frame)
    assert len(nav) >= 13
    for segment in (*nav, "sign-in"):
        assert f"pages/{segment or 'overview'}.js" in console.bundle().assets
