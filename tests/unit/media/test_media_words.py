"""Ids, types, names and owners of media: values in, values out."""

from __future__ import annotations

import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monoize.errors import InvalidRequest, NotFound
from monoize.media import ids, mime
from monoize.media.names import clean_name, disposition
from monoize.media.owner import owner_of
from monoize.pipeline.call import NOBODY, Caller

NOW = 1_794_754_319_253


def fresh() -> str:
    return ids.new_id(NOW, secrets.token_bytes(10))


# --- ids ---


@pytest.mark.spec("D29")
def test_an_id_is_a_ulid_of_its_time_and_of_80_random_bits():
    assert ids.new_id(0, bytes(10)) == "0" * 26
    assert ids.new_id(2**48 - 1, b"\xff" * 10) == "7" + "Z" * 25
    assert ids.new_id(1469918176385, bytes(10))[:10] == "01ARYZ6S41"  # of the ULID specification
    made = fresh()
    assert ids.is_id(made)
    assert ids.moment_of(made) == NOW
    assert len({fresh()[10:] for _ in range(1000)}) == 1000
    with pytest.raises(ValueError, match="10 random bytes"):
        ids.new_id(NOW, b"short")


@given(st.integers(0, 2**48 - 1), st.integers(0, 2**48 - 1))
def test_ids_sort_by_their_time(one, other):
    first, second = (ids.new_id(moment, b"\x80" * 10) for moment in (one, other))
    assert (first < second) == (one < other)


PATHS = [
    "",
    ".",
    "..",
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "/etc/passwd",
    "01ARYZ6S41TSV4RRFFQ69G5FA",  # a letter too few
    "01ARYZ6S41TSV4RRFFQ69G5FAVX",  # a letter too many
    "01ARYZ6S41TSV4RRFFQ69G5FA/",
    "01ARYZ6S41TSV4RRFFQ69G5FA.",
    "01ARYZ6S41TSV4RRFFQ69G5FA\0",
    "01ARYZ6S41TSV4RRFFQ69G5FA\n",
    "01ARYZ6S41TSV4RRFFQ69G5FAV\n",
    "01ARYZ6S41TSV4RRFFQ69G5FAU",  # U is no letter of it
    "01aryz6s41tsv4rrffq69g5fav",
    "81ARYZ6S41TSV4RRFFQ69G5FAV",  # beyond 128 bits
    "01ARYZ6S41TSV4RRFFQ69G5FA#1"[:26],
    "01ARYZ6S41TSV4RRFFQ69G5FA\u0660",  # a digit of another script
    "x" * 100_000,
]


@pytest.mark.parametrize("text", PATHS, ids=lambda text: repr(text[:30]))
def test_what_is_no_id_is_not_looked_for(text):
    assert not ids.is_id(text)
    with pytest.raises(NotFound) as caught:
        ids.checked(text)
    assert len(caught.value.message) < 200


@given(st.text(max_size=30))
def test_only_ids_pass(text):
    assert ids.is_id(text) == (
        len(text) == 26
        and set(text) <= set("0123456789ABCDEFGHJKMNPQRSTVWXYZ")
        and text[0] in "01234567"
    )


# --- types ---


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("image/png", "image/png"),
        (" Image/PNG ", "image/png"),
        ("audio/webm;codecs=opus", "audio/webm;codecs=opus"),
        ("Audio/L16; rate=24000", "audio/l16; rate=24000"),
        ('text/plain; charset="utf-8"', 'text/plain; charset="utf-8"'),
        ("application/vnd.ms-excel", "application/vnd.ms-excel"),
    ],
)
def test_a_type_is_taken_as_it_is_said(said, stored):
    assert mime.checked(said) == stored


@pytest.mark.parametrize(
    "said",
    [
        *("", "png", "image/", "/png", "image/png/x", "image png", "image/png;", "image/png; a"),
        *("image/png\r\nx: y", "image/png; a=\u00e9", "*/*\n", "ü/x", "a/" + "b" * 300),
        'text/plain; a="b\r\nset-cookie: c"',
    ],
)
def test_what_is_no_type_is_refused(said):
    with pytest.raises(InvalidRequest) as caught:
        mime.checked(said)
    assert caught.value.param == "mime"


@given(st.text(max_size=60))
def test_no_type_that_passes_breaks_a_header(text):
    try:
        passed = mime.checked(text)
    except InvalidRequest:
        return
    assert passed.isascii()
    assert passed.isprintable()


@pytest.mark.parametrize(
    ("first", "found"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "audio/wav"),
        (b"XXXX\x24\0\0\0WAVEfmt ", "application/octet-stream"),
        (b"ID3\x04", "audio/mpeg"),
        (b"\xff\xfb\x90", "audio/mpeg"),
        (b"fLaC", "audio/flac"),
        (b"OggS", "audio/ogg"),
        (b"\0\0\0\x20ftypM4A ", "audio/mp4"),
        (b"\0\0\0\x20ftypisom", "video/mp4"),
        (b"\0\0\0\x20ftypavif", "image/avif"),
        (b"\x1aE\xdf\xa3", "video/webm"),
        (b"%PDF-1.7", "application/pdf"),
        (b"<html><script>", "application/octet-stream"),
        (b"<svg xmlns=", "application/octet-stream"),
        (b"plain words", "application/octet-stream"),
        (b"", "application/octet-stream"),
    ],
)
def test_a_look_at_the_first_bytes(first, found):
    assert mime.sniffed(first) == found


@pytest.mark.parametrize(
    ("kind", "is_passive"),
    [
        *((kind, True) for kind in ("image/png", "audio/webm;codecs=opus", "video/mp4")),
        *((kind, True) for kind in ("text/plain", "application/pdf", "application/json")),
        *((kind, False) for kind in ("text/html", "TEXT/HTML; charset=utf-8", "image/svg+xml")),
        *((kind, False) for kind in ("application/xhtml+xml", "text/xml", "application/xml")),
        *((kind, False) for kind in ("text/javascript", "application/javascript", "text/css")),
        *((kind, False) for kind in ("image/x+xml", "application/octet-stream", "text/plainx")),
    ],
)
def test_what_a_browser_could_run_is_not_shown_in_place(kind, is_passive):
    assert mime.is_passive(kind) is is_passive


# --- names ---


@pytest.mark.parametrize(
    ("name", "cleaned"),
    [
        ("cat.png", "cat.png"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\x\\cat.png", "cat.png"),
        ("a\r\nset-cookie: b", "aset-cookie: b"),
        ("a\0b\u202egnp.exe", "abgnp.exe"),
        (" Übung 練習 🎉.wav ", "Übung 練習 🎉.wav"),
        ("half \ud83d", "half"),
        ("", None),
        ("..", None),
        (" . ", None),
        ("dir/", None),
        (None, None),
        ("x" * 300 + ".png", "x" * 196 + ".png"),
        ("x" * 300, "x" * 200),
    ],
)
def test_a_name_is_for_people_and_never_a_path(name, cleaned):
    assert clean_name(name) == cleaned


@pytest.mark.parametrize(
    ("name", "header"),
    [
        (None, "attachment"),
        ("cat.png", 'attachment; filename="cat.png"'),
        ('a"b.txt', "attachment; filename=\"a_b.txt\"; filename*=UTF-8''a%22b.txt"),
        ("ü%.txt", "attachment; filename=\"__.txt\"; filename*=UTF-8''%C3%BC%25.txt"),
    ],
)
def test_a_name_in_a_header(name, header):
    assert disposition(name, inline=False) == header


@given(st.text())
def test_no_name_breaks_a_header(name):
    header = disposition(clean_name(name), inline=True)
    assert header.startswith("inline")
    assert header.isascii()
    assert header.isprintable()


# --- owners ---


@pytest.mark.parametrize(
    ("caller", "owner"),
    [
        (NOBODY, "nobody"),
        (Caller(key="k1"), "key:k1"),
        (Caller(key="file:dev", username="dev"), "key:file:dev"),
        (Caller(key="k1", user="user_1"), "user:user_1"),
        (Caller(key="k2", user="user_1"), "user:user_1"),
    ],
)
def test_media_belong_to_the_user_or_else_to_the_key(caller, owner):
    assert owner_of(caller) == owner


def test_long_names_of_keys_do_not_become_one_owner():
    owners = [owner_of(Caller(key="file:" + "x" * 300 + end)) for end in ("a", "b", "\0")]
    assert len(set(owners)) == 3
    assert all(len(owner) <= 256 and owner.isprintable() for owner in owners)
