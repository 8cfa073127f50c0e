"""The doors of the media store as an HTTP client meets them."""

from __future__ import annotations

import hashlib

import pytest

from fakes.asking import arriving
from fakes.databases import database_url_of_doors  # noqa: F401 - a fixture
from fakes.shelves import ADA, BOB, Doors, request
from monoize.errors import RequestTimeout
from monoize.media import ids
from monoize.pipeline.call import NOBODY, Caller
from monoize.server import media
from monoize.server.http import CallerGone

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
B = "b0undary"

pytestmark = pytest.mark.soak  # on both databases


@pytest.fixture
def doors(bench) -> Doors:
    return Doors(bench.shelf)


async def stored(doors: Doors, data: bytes = PNG, **more) -> dict:
    reply = await doors.send("POST", "/v1/media" + more.pop("query", ""), data, **more)
    assert reply.status == 201, reply.raw
    return reply.json


# --- upload ---


@pytest.mark.spec("S4-3.1", "S4-3.3", "D29")
@pytest.mark.parametrize("sized", [True, False])
async def test_the_body_is_the_file(doors, bench, sized):
    made = await stored(
        doors, [PNG[:100], PNG[100:]], query="?name=my%20cat.png", content_type="image/png", sized=sized
    )  # fmt: skip
    assert made == {
        "id": made["id"],
        "uri": f"smsfile://{made['id']}",
        "mime": "image/png",
        "size": len(PNG),
        "sha256": hashlib.sha256(PNG).hexdigest(),
        "name": "my cat.png",
        "created_at": round(bench.clock.now() * 1000),
        "expires_at": round(bench.clock.now() * 1000) + 30 * 86_400_000,
        "ref": {"kind": "sms_file", "uri": f"smsfile://{made['id']}", "mime": "image/png"},
    }
    assert ids.is_id(made["id"])
    reply = await doors.send("GET", f"/v1/media/{made['id']}/meta")
    assert (reply.status, reply.json) == (200, made)
    (row,) = (await bench.rows()).values()
    assert (row["owner"], row["key_id"]) == ("user:ada", "k1")


async def test_says_where_it_is(doors):
    reply = await doors.send("POST", "/v1/media", PNG)
    assert reply.headers["location"] == f"/v1/media/{reply.json['id']}"


@pytest.mark.parametrize("headers", [{}, {"content_type": "application/x-www-form-urlencoded"}])
async def test_without_a_type_the_first_bytes_tell(doors, headers):
    assert (await stored(doors, **headers))["mime"] == "image/png"


def form(*parts: bytes) -> bytes:
    return b"".join(b"--b0undary\r\n" + part + b"\r\n" for part in parts) + b"--b0undary--\r\n"


FILE = b'content-disposition: form-data; name="file"; filename="dir/cat.png"\r\n\r\n'
TEXT = b'content-disposition: form-data; name="purpose"\r\n\r\nvision'
FORM = f"multipart/form-data; boundary={B}"


@pytest.mark.spec("S4-3.3")
@pytest.mark.parametrize("parts", [[FILE + PNG], [TEXT, FILE + PNG], [FILE + PNG, TEXT]])
@pytest.mark.parametrize("step", [7, 10_000])
async def test_a_form_with_one_file(doors, parts, step):
    body = form(*parts)
    pieces = [body[i : i + step] for i in range(0, len(body), step)]
    made = await stored(doors, pieces, content_type=FORM)
    assert (made["name"], made["mime"], made["size"]) == ("cat.png", "image/png", len(PNG))
    assert made["sha256"] == hashlib.sha256(PNG).hexdigest()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (form(TEXT), b"no file"),
        (form(FILE + PNG, FILE + PNG), b"more than one file"),
        (form(FILE), b"nothing in it"),
        (form(FILE + PNG)[:-10], b"ends before its last boundary"),
        (b"nonsense", b"ends before its last boundary"),
    ],
)
async def test_a_form_that_is_none_leaves_nothing(doors, bench, body, words):
    reply = await doors.send("POST", "/v1/media", body, content_type=FORM)
    assert reply.status == 400
    assert words in reply.raw
    assert (await bench.rows(), await bench.objects()) == ({}, set())


async def test_an_empty_body_is_refused(doors):
    for sized in (True, False):
        reply = await doors.send("POST", "/v1/media", b"", sized=sized)
        assert (reply.status, reply.headers["code"]) == (400, "invalid_request")


async def test_a_bad_type_is_refused(doors, bench):
    reply = await doors.send("POST", "/v1/media", PNG, content_type="not a type")
    assert (reply.status, await bench.rows()) == (400, {})


async def test_a_file_beyond_the_limit_is_413_however_it_comes(bench):
    doors = Doors(bench.with_settings(max_bytes=1000))
    exact, over = bytes(1000), bytes(1001)
    for headers in ({"sized": True}, {"sized": False}):
        await stored(doors, exact, **headers)
        assert (await doors.send("POST", "/v1/media", over, **headers)).status == 413
    await stored(doors, form(FILE + exact), content_type=FORM)
    for body in (form(FILE + over), form(FILE + bytes(100_000))):
        assert (await doors.send("POST", "/v1/media", body, content_type=FORM)).status == 413
    await bench.check()
    assert len(await bench.objects()) == 3


async def test_a_declared_size_beyond_the_limit_is_refused_unread(bench):
    doors = Doors(bench.with_settings(max_bytes=1000))
    for kind, size in (("image/png", 1001), (FORM, 1000 + 64 * 1024 + 1)):
        headers = {"content-length": str(size), "content-type": kind}
        asked = request("POST", "/v1/media", arriving([], then="silence"), headers, ADA)
        assert (await doors.call(asked)).status == 413


async def test_beyond_the_quota_is_413_with_a_code_of_its_own(bench):
    doors = Doors(bench.with_settings(quota_bytes=10_000))
    await stored(doors, bytes(8000))
    reply = await doors.send("POST", "/v1/media", bytes(2001))
    assert (reply.status, reply.headers["code"]) == (413, "media_quota_exceeded")
    await stored(doors, bytes(8000), caller=BOB)


async def test_a_body_that_stops_coming_is_408_and_leaves_nothing(bench):
    doors = Doors(bench.shelf, body_seconds=0.05)
    headers = {"content-length": "1000000"}
    asked = request("POST", "/v1/media", arriving([bytes(500_000)], then="silence"), headers, ADA)
    assert (await doors.call(asked)).status == RequestTimeout.status
    assert (await bench.rows(), await bench.objects()) == ({}, set())


async def test_a_caller_that_leaves_leaves_nothing(doors, bench):
    for kind in ("image/png", FORM):
        body = [form(FILE + bytes(500_000))[:-100]]
        headers = {"content-type": kind}
        asked = request("POST", "/v1/media", arriving(body, then="leaves"), headers, ADA)
        with pytest.raises(CallerGone):
            await doors.call(asked)
    assert (await bench.rows(), await bench.objects()) == ({}, set())


# --- download ---


async def test_comes_back_as_it_was(doors):
    made = await stored(doors, query="?name=cat.png")
    reply = await doors.send("GET", f"/v1/media/{made['id']}")
    assert (reply.status, reply.raw) == (200, PNG)
    assert reply.headers == {
        "content-type": "image/png",
        "content-length": str(len(PNG)),
        "etag": f'"{made["sha256"]}"',
        "accept-ranges": "bytes",
        "content-disposition": 'inline; filename="cat.png"',
        "x-content-type-options": "nosniff",
        "content-security-policy": "default-src 'none'; sandbox",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "private, no-cache",
    }


@pytest.mark.parametrize(
    "kind", ["text/html", "image/svg+xml", "text/xml", "application/javascript", "x/unknown"]
)
async def test_what_a_browser_could_run_is_a_download(doors, kind):
    made = await stored(doors, b"<script>", content_type=kind, query="?name=a%22b%0d%0ax.html")
    reply = await doors.send("GET", f"/v1/media/{made['id']}")
    assert reply.headers["content-type"] == kind
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["content-disposition"].startswith('attachment; filename="a_bx.html";')


RANGES = {
    "bytes=0-0": (206, 0, 1),
    "bytes=0-9": (206, 0, 10),
    "bytes=10-": (206, 10, 264),
    "bytes=-4": (206, 260, 264),
    "bytes=-9999": (206, 0, 264),
    "bytes=263-": (206, 263, 264),
    "bytes=100-99999999999": (206, 100, 264),
    "bytes= 1-2 ": (206, 1, 3),
    "bytes=264-": (416, 0, 0),
    "bytes=999-1000": (416, 0, 0),
    "bytes=-0": (416, 0, 0),
    # What cannot be read, and more than one range, is answered with all of it (RFC 9110, 14.2).
    "bytes=9-1": (200, 0, 264),
    "bytes=0-1,5-6": (200, 0, 264),
    "bytes=": (200, 0, 264),
    "bytes=-": (200, 0, 264),
    "bytes=a-b": (200, 0, 264),
    "bytes=+1-2": (200, 0, 264),
    "bytes=\u0661-2": (200, 0, 264),
    "items=0-1": (200, 0, 264),
    "bytes=" + "9" * 5000 + "-": (200, 0, 264),
}


async def test_one_range_of_it(doors):
    made = await stored(doors)
    assert made["size"] == 264
    for text, (status, start, end) in RANGES.items():
        reply = await doors.send("GET", f"/v1/media/{made['id']}", range=text)
        assert reply.status == status, text
        if status == 416:
            assert reply.headers["content-range"] == "bytes */264"
            continue
        assert reply.raw == PNG[start:end], text
        assert reply.headers["content-length"] == str(end - start)
        told = reply.headers.get("content-range")
        assert told == (f"bytes {start}-{end - 1}/264" if status == 206 else None)


async def test_a_range_of_something_else_is_all_of_it(doors):
    made = await stored(doors)
    for tag, status in ((f'"{made["sha256"]}"', 206), ('"other"', 200)):
        reply = await doors.send("GET", f"/v1/media/{made['id']}", range="bytes=0-1", if_range=tag)
        assert reply.status == status


async def test_what_the_caller_has_already_is_not_sent_again(doors):
    made = await stored(doors)
    tag = f'"{made["sha256"]}"'
    for tags in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        reply = await doors.send(
            "GET", f"/v1/media/{made['id']}", if_none_match=tags, range="bytes=0-1"
        )
        assert (reply.status, reply.raw, reply.headers["etag"]) == (304, b"", tag)
        assert "content-length" not in reply.headers
    reply = await doors.send("GET", f"/v1/media/{made['id']}", if_none_match='"x"')
    assert reply.status == 200


async def test_head_tells_the_size_and_sends_nothing(doors):
    made = await stored(doors)
    reply = await doors.send("HEAD", f"/v1/media/{made['id']}", range="bytes=0-1")
    assert (reply.status, reply.raw) == (200, b"")
    assert reply.headers["content-length"] == "264"
    assert reply.headers["etag"] == f'"{made["sha256"]}"'


async def test_an_answer_that_nobody_reads_is_closed(doors, bench):
    made = await stored(doors, bytes(2_000_000))
    asked = request("GET", f"/v1/media/{made['id']}", arriving([]), {}, ADA)
    answer = await media.download(asked, doors.state, media_id=made["id"])
    async for _ in answer.body:
        break
    await answer.body.aclose()
    unread = await media.download(asked, doors.state, media_id=made["id"])
    await unread.body.aclose()


# --- whose ---


@pytest.mark.spec("S4-3.5")
async def test_only_the_owner_sees_it_and_others_learn_nothing(doors):
    made = await stored(doors)
    other = ids.new_id(1, bytes(10))
    for caller in (BOB, Caller(key="k1"), Caller(key="ada"), NOBODY):
        for method, end in (("GET", ""), ("HEAD", ""), ("GET", "/meta"), ("DELETE", "")):
            reply = await doors.send(method, f"/v1/media/{made['id']}{end}", caller=caller)
            absent = await doors.send(method, f"/v1/media/{other}{end}", caller=caller)
            assert reply.status == absent.status == 404
            assert reply.raw.replace(made["id"].encode(), other.encode()) == absent.raw
            assert reply.headers == absent.headers
        assert (await doors.send("GET", "/v1/media", caller=caller)).json["data"] == []
    again = Caller(key="another", user="ada")  # another key of the same user
    assert (await doors.send("GET", f"/v1/media/{made['id']}", caller=again)).raw == PNG


async def test_keys_without_a_user_own_what_they_store(doors):
    one, two = Caller(key="file:one"), Caller(key="file:two")
    made = await stored(doors, caller=one)
    assert (await doors.send("GET", f"/v1/media/{made['id']}", caller=one)).status == 200
    assert (await doors.send("GET", f"/v1/media/{made['id']}", caller=two)).status == 404


@pytest.mark.parametrize("path", ["..", "%2e%2e", "..%00", "x", "0" * 26 + "%0A", "*", "%"])
async def test_paths_that_are_no_ids_are_404(doors, path):
    assert (await doors.send("GET", f"/v1/media/{path}")).status == 404


# --- the list ---


async def test_a_list_in_pages_with_what_all_take(doors, bench):
    made = []
    for number in range(5):
        bench.clock.moment += 1
        made.append((await stored(doors, bytes([number]) * 5000))["id"])
    first = (await doors.send("GET", "/v1/media?limit=3")).json
    assert [row["id"] for row in first["data"]] == made[:1:-1]
    second = (await doors.send("GET", f"/v1/media?limit=3&after={first['next']}")).json
    assert [row["id"] for row in second["data"]] == made[1::-1]
    assert second["next"] is None
    assert first["usage"] == {"files": 5, "bytes": 25_000, "quota_bytes": 10 * 1024**3}
    assert first["limits"] == {"max_bytes": 64 * 1024**2, "keep_days": 30}


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "limit=-1", "after=x"])
async def test_a_bad_page_is_refused(doors, query):
    reply = await doors.send("GET", f"/v1/media?{query}")
    assert reply.status == 400
    assert query.partition("=")[0].encode() in reply.raw


async def test_what_is_deleted_is_404(doors):
    made = await stored(doors)
    reply = await doors.send("DELETE", f"/v1/media/{made['id']}")
    assert (reply.status, reply.json) == (200, {"id": made["id"], "deleted": True})
    for method, end in (("GET", ""), ("GET", "/meta"), ("DELETE", "")):
        assert (await doors.send(method, f"/v1/media/{made['id']}{end}")).status == 404
