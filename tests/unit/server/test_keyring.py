"""Keys of the database in memory: asked for seldom, current within a moment, and no strangers in an outage (D19, T43, T45)."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from fakes.ledger import FaultyDatabase, MemoryDatabase, VirtualClock
from monoize.clock import RandomIds
from monoize.errors import DatabaseAway, Unauthorized
from monoize.server import keyring
from monoize.server.keyring import Keyring
from monoize.store import keys, users
from monoize.store.vault import Vault

BY = {"actor": "root", "now": 1000}
VAULT = Vault(b"the secret of the program")
GRACE = 300.0


class Slow(FaultyDatabase):
    """Counts its questions, and answers none of them while it hangs."""

    def __init__(self) -> None:
        super().__init__(MemoryDatabase())
        self.reads = 0
        self.answering = asyncio.Event()
        self.answering.set()

    async def read(self, work):
        self.reads += 1
        await self.answering.wait()
        return await super().read(work)


@pytest.fixture
async def database():
    opened = Slow()
    yield opened
    opened.answering.set()
    await asyncio.sleep(0.01)
    await opened.aclose()


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def ring(database, clock):
    return Keyring(database, VAULT, clock, grace_seconds=GRACE, patience=60)


@pytest.fixture
def hasty(database, clock):
    """For a database that does not answer at all."""
    return Keyring(database, VAULT, clock, grace_seconds=GRACE, patience=0.02)


@pytest.fixture
async def text(database):
    """A valid key."""
    user = await database.write(partial(users.create, ids=RandomIds(), username="ada", **BY))
    make = partial(keys.create, vault=VAULT, ids=RandomIds(), user_id=user.id, name="k", **BY)
    _, text = await database.write(make)
    return text


def key_id(text: str) -> str:
    return text.split("-")[2]


async def test_many_at_once_ask_the_store_once(ring, database, text):
    callers = await asyncio.gather(*(ring.caller_of(text, None) for _ in range(50)))
    assert {caller.username for caller in callers} == {"ada"}
    assert database.reads == 1
    assert await ring.caller_of("sk-of-somebody-else", None) is None
    assert database.reads == 1


async def test_what_is_remembered_is_asked_anew_after_a_while_and_after_a_change(
    ring, database, clock, text
):
    await ring.caller_of(text, None)
    clock.advance(keyring.REFRESH_SECONDS - 1)
    await ring.caller_of(text, None)
    assert database.reads == 1
    clock.advance(2)
    await ring.caller_of(text, None)
    assert database.reads == 2

    await database.write(partial(keys.update, key_id=key_id(text), enabled=False, **BY))
    ring.forget()
    with pytest.raises(Unauthorized):
        await ring.caller_of(text, None)


async def test_a_wrong_secret_and_an_unknown_id_are_strangers(ring, clock, text):
    with pytest.raises(Unauthorized):
        await ring.caller_of(text[:-1] + ("a" if text[-1] != "a" else "b"), None)
    other = VAULT.new_key(RandomIds()).text
    with pytest.raises(Unauthorized):
        await ring.caller_of(other, None)


@pytest.mark.spec("D19", "T43")
async def test_without_the_database_a_known_key_serves_for_the_grace_and_is_then_told_why(
    ring, database, clock, text
):
    await ring.caller_of(text, None)
    database.is_away = True
    clock.advance(GRACE - 1)
    assert (await ring.caller_of(text, None)).username == "ada"
    clock.advance(2)
    with pytest.raises(DatabaseAway):
        await ring.caller_of(text, None)


@pytest.mark.spec("D19", "T43")
async def test_the_grace_begins_when_the_store_was_last_heard_of_not_when_the_key_was_last_used(
    ring, database, clock, text
):
    await ring.caller_of(text, None)
    clock.advance(10 * GRACE)  # nobody used it, and every second the store had no news
    ring.confirm(clock.monotonic())
    database.is_away = True
    clock.advance(GRACE - 1)
    assert (await ring.caller_of(text, None)).username == "ada"
    clock.advance(2)
    with pytest.raises(DatabaseAway):
        await ring.caller_of(text, None)


async def test_what_was_asked_before_a_change_is_not_confirmed_by_silence_after_it(
    ring, database, clock, text
):
    await ring.caller_of(text, None)
    clock.advance(GRACE)
    ring.forget()
    clock.advance(1)
    ring.confirm(clock.monotonic())
    database.is_away = True
    with pytest.raises(DatabaseAway):
        await ring.caller_of(text, None)


@pytest.mark.spec("T43")
async def test_a_key_that_was_unknown_once_is_not_called_a_stranger_while_nobody_can_ask(
    ring, database, clock
):
    unknown = VAULT.new_key(RandomIds()).text
    with pytest.raises(Unauthorized):
        await ring.caller_of(unknown, None)
    database.is_away = True
    clock.advance(keyring.UNKNOWN_SECONDS + 1)  # it may have been made since
    with pytest.raises(DatabaseAway):
        await ring.caller_of(unknown, None)


@pytest.mark.spec("T43", "T45")
async def test_a_database_that_hangs_keeps_nobody_waiting_whose_key_is_known(
    hasty, database, clock, text
):
    await hasty.caller_of(text, None)
    clock.advance(keyring.REFRESH_SECONDS + 1)
    database.answering.clear()
    async with asyncio.timeout(25):
        callers = await asyncio.gather(*(hasty.caller_of(text, None) for _ in range(20)))
        assert len(callers) == 20
        clock.advance(1)
        await hasty.caller_of(text, None)  # the question is old: this one does not wait at all
    assert database.reads == 2, "one question, however many come"

    database.answering.set()
    await asyncio.sleep(0.01)
    await hasty.caller_of(text, None)
    assert database.reads == 2, "its answer is taken when it comes"


async def test_a_question_that_fails_after_everybody_went_on_is_no_noise(
    hasty, database, clock, text
):
    await hasty.caller_of(text, None)
    clock.advance(keyring.REFRESH_SECONDS + 1)
    database.answering.clear()
    await hasty.caller_of(text, None)
    database.is_away = True
    database.answering.set()
    await asyncio.sleep(0.01)
    assert (await hasty.caller_of(text, None)).username == "ada"


async def test_after_a_change_nobody_gets_an_answer_that_was_asked_for_before(
    ring, database, clock, text
):
    """A slow database: the question was under way when the key was switched off."""
    database.answering.clear()
    early = asyncio.ensure_future(ring.caller_of(text, None))
    await asyncio.wait({early}, timeout=0.01)
    assert database.reads == 1
    clock.advance(1)
    ring.forget()
    clock.advance(1)
    late = asyncio.ensure_future(ring.caller_of(text, None))
    await asyncio.wait({late}, timeout=0.01)
    assert database.reads == 2
    await database.write(partial(keys.update, key_id=key_id(text), enabled=False, **BY))
    database.answering.set()
    with pytest.raises(Unauthorized):
        await late
    await asyncio.wait({early})
    with pytest.raises(Unauthorized):  # the early answer, should it come last, is not kept
        await ring.caller_of(text, None)
