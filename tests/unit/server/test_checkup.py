"""Health: every dependency is asked, at most once a second, once for all who ask; nobody learns more than he should."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from fakes.bench import VirtualClock
from fakes.management import Api, opened
from monoize.errors import DatabaseAway, MediaAway
from monoize.reframer.schemas import SCHEMA_VERSION
from monoize.server import checkup as checkups
from monoize.server.checkup import Checkup, Probe

NAMES = {"schema_registry", "feature_flags", "tokenizer", "database", "media_store"}


class Thing:
    """Something to depend on, that counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer: Callable[[], Awaitable[object]] = self._well

    async def _well(self) -> None:
        return

    async def ask(self) -> object:
        self.asked += 1
        return await self.answer()

    def probe(self, name: str = "thing", *, needed: bool = True) -> Probe:
        return Probe(name=name, ask=self.ask, trouble="it is not there", needed=needed)


async def broken() -> None:
    raise OSError("/secret/path: no such file, password hunter2")


@pytest.mark.spec("S3-6.3")
@pytest.mark.parametrize(("later", "asked"), [(0.0, 1), (0.999, 1), (1.0, 2), (-5.0, 2)])
async def test_an_answer_is_good_for_less_than_a_second(later, asked):
    thing, checkup, clock = Thing(), Checkup(), VirtualClock()
    first = await checkup.report([thing.probe()], clock)
    clock.moment += later
    again = await checkup.report([thing.probe()], clock)
    assert thing.asked == asked
    assert (again is first) == (asked == 1)


@pytest.mark.spec("S3-6.3")
async def test_the_second_begins_with_the_question_not_with_the_answer():
    thing, checkup, clock = Thing(), Checkup(), VirtualClock()

    async def slow() -> None:
        clock.moment += 0.8

    thing.answer = slow
    await checkup.report([thing.probe()], clock)
    clock.moment += 0.3  # the answer is young, what it says is not
    await checkup.report([thing.probe()], clock)
    assert thing.asked == 2


@pytest.mark.spec("S3-6.3")
async def test_callers_at_the_same_time_share_one_look_and_one_may_leave():
    thing, checkup, clock = Thing(), Checkup(), VirtualClock()
    done = asyncio.Event()
    thing.answer = done.wait
    callers = [asyncio.create_task(checkup.report([thing.probe()], clock)) for _ in range(20)]
    await asyncio.sleep(0)
    callers[0].cancel()  # who began the look
    await asyncio.sleep(0)
    done.set()
    reports = await asyncio.gather(*callers[1:])
    assert thing.asked == 1
    assert {report.status for report in reports} == {"ok"}


@pytest.mark.spec("S3-6.3")
@pytest.mark.parametrize(("needed", "status"), [(True, "error"), (False, "degraded")])
async def test_what_is_away_is_told_without_its_secrets_and_logged_once(caplog, needed, status):
    thing, other, checkup, clock = Thing(), Thing(), Checkup(), VirtualClock()
    thing.answer = broken
    probes = [thing.probe(needed=needed), other.probe("other")]
    for _ in range(3):
        report = await checkup.report(probes, clock)
        clock.moment += 2
    assert report.status == status
    away = report.dependencies["thing"]
    assert (away.status, away.needed, away.detail) == ("error", needed, "it is not there")
    assert report.dependencies["other"].status == "ok"
    assert [r.levelno for r in caplog.records] == [logging.WARNING]
    thing.answer = other.answer
    assert (await checkup.report(probes, clock)).status == "ok"


async def test_who_does_not_answer_is_away(monkeypatch):
    monkeypatch.setattr(checkups, "_PROBE_SECONDS", 0.01)
    thing, checkup, clock = Thing(), Checkup(), VirtualClock()
    thing.answer = asyncio.Event().wait
    assert (await checkup.report([thing.probe()], clock)).status == "error"


async def test_what_is_not_configured_is_no_trouble():
    probe = Probe(name="database", ask=None, trouble="away")
    report = await Checkup().report([probe], VirtualClock())
    assert (report.status, report.dependencies["database"].status) == ("ok", "off")


# --- the door ------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """The first look makes ready what it asks, which takes its time on a busy machine."""
    monkeypatch.setattr(checkups, "_PROBE_SECONDS", 60)


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    house = await opened(tmp_path, "sqlite:///./m.db")
    yield Api(house)
    await house.aclose()


@pytest.mark.spec("S3-6.1", "S3-6.3")
async def test_health_tells_the_version_of_the_schemas_and_every_dependency(api):
    answer = await api.call("GET", "/v1/health", key=None)
    assert answer.status == 200
    found = answer.json
    assert (found["status"], found["schema_version"]) == ("ok", SCHEMA_VERSION)
    assert found["dependencies"].keys() == NAMES
    assert {one["status"] for one in found["dependencies"].values()} == {"ok"}


@pytest.mark.spec("S3-6.3")
async def test_a_gateway_without_a_database_is_well(tmp_path):
    house = await opened(tmp_path, None)
    found = (await Api(house).call("GET", "/v1/health", key=None)).json
    await house.aclose()
    assert found["status"] == "ok"
    off = {name for name, one in found["dependencies"].items() if one["status"] == "off"}
    assert off == {"database", "media_store"}


@pytest.mark.spec("S3-6.3")
@pytest.mark.parametrize(
    ("broken_part", "name", "status", "said"),
    [
        ("monoize.server.reframer_health.validator", "schema_registry", 503, "error"),
        ("monoize.reframer.tags.TagTable.usual", "feature_flags", 503, "error"),
        ("monoize.server.reframer_health.token_count", "tokenizer", 503, "error"),
        ("monoize.store.sqlite.SqliteDatabase.read", "database", 200, "degraded"),
        ("monoize.media.store.MediaStore.has", "media_store", 200, "degraded"),
    ],
)
async def test_it_is_503_when_something_needed_is_away(
    api, monkeypatch, broken_part, name, status, said
):
    errors = {"database": DatabaseAway, "media_store": MediaAway}

    def away(*_: object) -> object:
        raise errors.get(name, RuntimeError)("/var/lib/secret.db of user hunter2 is away")

    monkeypatch.setattr(broken_part, away)
    answer = await api.call("GET", "/v1/health", key=None)
    assert (answer.status, answer.json["status"]) == (status, said)
    wrong = {n: one["status"] for n, one in answer.json["dependencies"].items()}
    assert [n for n, one in wrong.items() if one != "ok"] == [name]
    assert b"secret" not in answer.raw
    assert b"hunter2" not in answer.raw
    documents = await api.call("POST", "/v1/reframe", {})
    assert documents.status == 400  # whatever is away, what can be said is said
