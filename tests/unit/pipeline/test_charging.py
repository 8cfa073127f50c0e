"""Money and the log along the way of a call: reserved before it is sent, settled before it ends, exactly once."""

import asyncio
import re
from decimal import Decimal

import msgspec
import pytest
from sqlalchemy import select

from fakes.bench import Bench, Said, Sent, provider, says, status, well
from fakes.caller import CALLERS, text_of
from fakes.speakers import SPEAKERS
from monoize.errors import (
    BudgetExceeded,
    Forbidden,
    InvalidRequest,
    MonoizeError,
    RateLimited,
    UpstreamFailed,
)
from monoize.limits.memory import MemoryLimiter
from monoize.money import charge, public
from monoize.money.book import PriceBook
from monoize.money.rates import parse_rates
from monoize.pipeline.charging import Desk, LedgerAdmission
from monoize.pipeline.tariff import Tariff
from monoize.store.database import Database
from monoize.store.journal import Journal
from monoize.store.tables import ledger, request_logs, reservations, spend
from monoize.telemetry.requests import RequestCounts
from monoize.urp import Usage

RATES = {"m": parse_rates({"input": "2", "cached_read": "0.5", "output": "10", "reasoning": "10"})}
# Every speaker of tests/fakes counts 40 input (16 of them cached) and 20 output tokens, if not told otherwise:
# 24 x 2000 + 16 x 500 + 20 x 10000 nano.
PRICE = 24 * 2000 + 16 * 500 + 20 * 10_000
KEY = {"name": "dev", "key": "sk-dev-0123456789", "username": "ann"}


class Till(Bench):
    """A bench with a ledger behind it."""

    async def open(self, folder, rates=RATES, output_cap=100):
        self.database = await Database.open("sqlite:///books.db", folder, durability="relaxed")
        ids = self.kit.ids
        self.journal = Journal(self.database, self.clock, ids, host="here", pid=1, instance="i")
        await self.journal.start()
        self.limiter = MemoryLimiter()
        self.counts = RequestCounts()
        admission = LedgerAdmission(
            Desk(
                clock=self.clock,
                journal=self.journal,
                limiter=self.limiter,
                counts=self.counts,
                tariff=Tariff(
                    clock=self.clock,
                    catalog=self.kit.catalog,
                    book=PriceBook(rates),
                    output_cap=output_cap,
                ),
            )
        )
        self.use(admission=admission)
        return self

    async def rows(self, table):
        read = lambda connection: [dict(r) for r in connection.execute(select(table)).mappings()]  # noqa: E731
        return await self.database.read(read)

    async def log(self):
        return await self.rows(request_logs)

    async def charges(self):
        return [row["amount"] for row in await self.rows(ledger)]

    async def aclose(self):
        await self.journal.aclose()
        await self.database.aclose()


@pytest.fixture
async def till(tmp_path):
    opened = []

    async def make(*providers, scripts=None, key=None, **options):
        config = {"providers": list(providers), "keys": [{**KEY, **(key or {})}]}
        bench = await Till(config, scripts).open(tmp_path, **options)
        opened.append(bench)
        return bench

    yield make
    for bench in opened:
        await bench.aclose()


@pytest.mark.spec("T36")
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize("kind", SPEAKERS)
@pytest.mark.parametrize("caller", CALLERS)
async def test_the_same_call_costs_the_same_in_every_protocol_and_mode(till, caller, kind, stream):
    bench = await till(provider("p", kind))
    await bench.ask("m", caller, stream=stream, key="dev")
    assert await bench.charges() == [PRICE]
    (row,) = await bench.log()
    assert (row["status"], row["charge"], row["estimated"], row["unpriced"]) == (
        "success",
        PRICE,
        False,
        False,
    )
    assert (row["input_tokens"], row["cached_tokens"], row["output_tokens"]) == (40, 16, 20)
    assert (row["key_name"], row["username"], row["provider"], row["channel"]) == (
        "dev",
        "ann",
        "p",
        "main",
    )
    assert (row["requested_model"], row["is_stream"], row["protocol"]) == ("m", stream, caller)
    assert await bench.rows(reservations) == []


@pytest.mark.spec("D17")
@pytest.mark.parametrize(
    ("multiplier", "factor"), [("1.5", "1.5"), ("0.000001", "0.000001"), ("3", "3")]
)
async def test_the_multiplier_is_exact_and_rounds_down(till, multiplier, factor):
    bench = await till(provider("p", models={"m": {"multiplier": multiplier}}))
    await bench.ask("m", key="dev")
    assert await bench.charges() == [int(PRICE * Decimal(factor))]


@pytest.mark.spec("D16")
async def test_the_price_is_that_of_the_requested_name_and_else_of_the_upstream_model(till):
    both = {**RATES, "up": parse_rates({"input": "1000", "output": "0"})}
    bench = await till(
        provider("p", models={"m": {"redirect": "up"}, "n": {"redirect": "up"}}), rates=both
    )
    await bench.ask("m-high", key="dev")
    await bench.ask("n", key="dev")
    assert await bench.charges() == [PRICE, 40 * 10**6]
    assert [row["upstream_model"] for row in await bench.log()] == ["up", "up"]


@pytest.mark.spec("D16")
async def test_an_unpriced_model_is_free_and_marked_or_refused_for_a_key_with_a_budget(till):
    bench = await till(provider("p", models={"unheard-of": {}}))
    await bench.ask("unheard-of", key="dev")
    (row,) = await bench.log()
    assert (row["charge"], row["unpriced"]) == (0, True)
    poor = await till(provider("p", models={"unheard-of": {}}), key={"budgets": {"day": "1"}})
    with pytest.raises(Forbidden) as told:
        await poor.ask("unheard-of", key="dev")
    assert told.value.error_code == "model_not_priced"


@pytest.mark.spec("T38")
async def test_of_many_at_once_a_budget_admits_what_it_covers(till):
    """Reserved: at most 100 tokens of output and a bound of the input; the budget covers one such call."""
    bench = await till(provider("p"), key={"budgets": {"total": "0.003"}})
    done = await asyncio.gather(*(_asked(bench) for _ in range(50)), return_exceptions=True)
    assert [type(d).__name__ for d in done if isinstance(d, BaseException)] == [
        "BudgetExceeded"
    ] * 49
    assert await bench.charges() == [PRICE]
    refused = [row for row in await bench.log() if row["status"] == "error"]
    assert {row["error_code"] for row in refused} == {"budget_exceeded"}
    assert len(bench.sent) == 1


async def _asked(bench):
    return await bench.ask("m", key="dev")


async def test_what_a_call_did_not_need_is_free_again(till):
    bench = await till(provider("p"), key={"budgets": {"total": "0.003"}})
    for _ in range(3):
        await _asked(bench)
    assert len(await bench.charges()) == 3
    with pytest.raises(BudgetExceeded):
        for _ in range(20):
            await _asked(bench)
    total = next(row for row in await bench.rows(spend) if row["window"] == "total")
    assert total["reserved"] == 0
    assert total["spent"] == sum(await bench.charges()) <= 3_000_000


@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
async def test_a_failed_call_costs_nothing_and_leaves_nothing(till, stream):
    bench = await till(provider("a"), provider("b"), scripts={"a": status(500), "b": status(503)})
    with pytest.raises(MonoizeError):
        await bench.ask("m", stream=stream, key="dev")
    (row,) = await bench.log()
    assert (row["status"], row["charge"], row["http_status"]) == ("error", 0, 502)
    assert [t["provider"] for t in row["attempts"]] == ["a", "b"]
    assert await bench.rows(reservations) == []


async def test_a_defect_of_ours_costs_nothing_and_leaves_nothing(till, monkeypatch):
    bench = await till(provider("p"))

    def broken(*_: object) -> None:
        raise TypeError("a defect")

    monkeypatch.setattr("monoize.pipeline.attempt.with_model_for", broken)
    monkeypatch.setattr("monoize.pipeline.attempt.with_model_in", broken)
    with pytest.raises(TypeError):
        await bench.ask("m", key="dev")
    (row,) = await bench.log()
    assert (row["status"], row["charge"], row["http_status"]) == ("error", 0, 500)
    assert await bench.rows(reservations) == []


@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize("step", ["tariff.Quote.charged", "charging.usage_columns"])
async def test_a_defect_while_it_is_added_up_leaves_nothing_reserved(
    till, monkeypatch, caplog, step, stream
):
    bench = await till(provider("p"))

    def broken(*_: object) -> None:
        raise TypeError("a defect")

    monkeypatch.setattr(f"monoize.pipeline.{step}", broken)
    reply = await bench.ask("m", stream=stream, key="dev")
    assert text_of("chat_completion", reply, stream=stream)
    (row,) = await bench.log()
    assert (row["status"], row["charge"], row["http_status"]) == ("error", 0, 500)
    assert await bench.rows(reservations) == []
    assert "could not be added up" in caplog.text


async def test_whoever_watches_cannot_keep_a_call_from_being_settled(till, monkeypatch, caplog):
    bench = await till(provider("p"))

    def broken(*_: object) -> None:
        raise OSError("the collector's disk is full")

    monkeypatch.setattr(bench.counts, "add", broken)
    await _asked(bench)
    assert await bench.charges() == [PRICE]
    assert await bench.rows(reservations) == []
    assert "could not be reported" in caplog.text


async def test_a_store_that_refuses_the_end_does_not_spoil_the_reply(till, monkeypatch, caplog):
    bench = await till(provider("p"))

    async def refuses(_: object) -> None:
        raise InvalidRequest("a value is too large")

    monkeypatch.setattr(bench.journal, "close", refuses)
    reply = await _asked(bench)
    assert text_of("chat_completion", reply, stream=False)
    assert "could not be settled" in caplog.text


@pytest.mark.spec("D16")
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
@pytest.mark.parametrize(
    ("asked", "served", "paid"),
    [
        ("flex", "flex", "flex"),
        ("flex", "default", None),
        ("auto", "priority", "priority"),
        ("priority", "default", None),
        ("flex", None, "flex"),
    ],
)
async def test_the_tier_that_was_served_is_paid(till, stream, asked, served, paid):
    def says_its_tier(sent: Sent) -> Said:
        good = well(sent)
        named = b"{" if served is None else f'{{"service_tier":"{served}",'.encode()
        whole = b"".join(good.pieces).replace(b'"service_tier"', b'"tier_of_another"')
        return Said(headers=good.headers, pieces=(whole.replace(b'{"id"', named + b'"id"'),))

    bench = await till(provider("p", models={"gpt-5": {}}), scripts={"p": says_its_tier}, rates={})
    await bench.ask("gpt-5", stream=stream, key="dev", service_tier=asked)
    row = public.row("gpt-5", "chat_completion", "http://p", bench.clock.now(), paid)
    assert row is not None
    usage = Usage(input_tokens=40, cached_read=16, output_tokens=20)
    assert await bench.charges() == [charge(usage, row.rates).amount]


@pytest.mark.spec("T36")
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
async def test_an_estimate_weighs_what_came_and_not_what_rules_left_of_it(till, stream):
    """The same with the rule and without it, in one piece and as a stream."""

    def uncounted(sent: Sent) -> Said:
        good = says("reasoning")(sent)
        pieces = [b"".join(good.pieces).replace(b'"usage"', b'"usage_of_another"')]
        return Said(headers=good.headers, pieces=tuple(pieces))

    strip = {"transform": "strip_reasoning", "phase": "response", "config": {}}
    scripts = {"p": uncounted, "q": uncounted}
    stripped = provider("q", models={"n": {}}, transforms=[strip])
    both = dict.fromkeys(("m", "n"), RATES["m"])
    bench = await till(provider("p"), stripped, scripts=scripts, rates=both)
    for model in ("m", "n"):
        await bench.ask(model, stream=stream, key="dev")
    plain, without = await bench.charges()
    assert plain == without
    assert all(row["estimated"] for row in await bench.log())


async def test_a_stream_that_the_provider_breaks_off_costs_nothing(till):
    def broken(sent: Sent) -> Said:
        good = says("text")(sent)
        return Said(headers=good.headers, pieces=(*good.pieces[:3], UpstreamFailed("broke off")))

    bench = await till(provider("p"), scripts={"p": broken})
    await bench.ask("m", stream=True, key="dev")
    (row,) = await bench.log()
    assert (row["status"], row["charge"], row["error_message"]) == ("error", 0, "broke off")


@pytest.mark.spec("T18")
async def test_a_caller_that_leaves_pays_for_what_had_come(till):
    bench = await till(provider("p"))
    from monoize.pipeline.call import Trace
    from monoize.pipeline.run import run

    wire = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Tell me."}]}
    answer = await run(bench.incoming(wire, key="dev"), bench.kit, Trace())
    chunks = aiter(answer.body)
    for _ in range(3):
        await anext(chunks)
    await answer.body.aclose()
    (row,) = await bench.log()
    assert (row["status"], row["estimated"], row["http_status"]) == ("cancelled", True, 499)
    assert 0 < row["charge"] < PRICE
    assert await bench.rows(reservations) == []


@pytest.mark.spec("T18")
async def test_a_call_is_settled_although_its_caller_leaves_while_that_is_written(till):
    bench = await till(provider("p"))
    written, leaves = bench.journal.close, asyncio.Event()

    def close(closing):
        leaves.set()
        return written(closing)

    bench.journal.close = close
    asking = asyncio.create_task(bench.ask("m", key="dev"))
    await leaves.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await bench.ask("m", key="dev")  # written after it
    assert await bench.charges() == [PRICE, PRICE]
    assert await bench.rows(reservations) == []


class Listening:
    """A tracer, or one that nobody has asked for."""

    def __init__(self, *, active):
        self.active = active
        self.reports = []

    def record(self, report):
        self.reports.append(report)


@pytest.mark.parametrize("active", [False, True])
async def test_attempts_are_reported_only_where_somebody_listens(till, active):
    bench = await till(provider("p"), provider("q"), scripts={"p": status(503)})
    tracer, desk = Listening(active=active), bench.kit.admission.desk
    bench.use(admission=LedgerAdmission(msgspec.structs.replace(desk, tracer=tracer)))
    await bench.ask("m", key="dev")
    told = [[(a.provider, a.error) for a in report.attempts] for report in tracer.reports]
    assert told == ([[("p", "upstream_error"), ("q", None)]] if active else [])
    assert len(bench.trace.asked) == (2 if active else 0)
    (row,) = await bench.log()
    assert [tried["provider"] for tried in row["attempts"]] == ["p"]


async def test_a_provider_that_does_not_count_is_estimated(till):
    def uncounted(sent: Sent) -> Said:
        import json

        reply = json.loads(b"".join(well(sent).pieces))
        del reply["usage"]
        return Said(pieces=(json.dumps(reply).encode(),))

    bench = await till(provider("p"), scripts={"p": uncounted})
    await bench.ask("m", key="dev")
    (row,) = await bench.log()
    assert row["estimated"]
    assert row["charge"] > 0


@pytest.mark.spec("T39")
@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
async def test_counts_below_zero_are_none(till, stream):
    def negative(sent: Sent) -> Said:
        good = well(sent)
        said = rb'"(prompt|completion)_tokens": ?'
        whole = re.sub(said, rb'"\1_tokens":-', b"".join(good.pieces))
        return Said(headers=good.headers, pieces=(whole,))

    bench = await till(provider("p"), scripts={"p": negative})
    await bench.ask("m", stream=stream, key="dev")
    (row,) = await bench.log()
    assert row["estimated"]
    assert row["charge"] > 0


@pytest.mark.spec("PIPE-2")
async def test_a_key_may_be_held_to_some_models(till):
    bench = await till(provider("p", models={"m": {}, "other": {}}), key={"models": ["m", "cl-*"]})
    await bench.ask("m-high", key="dev")
    with pytest.raises(Forbidden) as told:
        await bench.ask("other", key="dev")
    assert told.value.error_code == "model_not_allowed"


@pytest.mark.spec("T38")
async def test_requests_and_tokens_per_minute_are_two_limits(till):
    bench = await till(provider("p"), key={"requests_per_minute": 2})
    for left in (1, 0):
        reply = await _asked(bench)
        assert reply.headers["x-ratelimit-remaining-requests"] == str(left)
    with pytest.raises(RateLimited, match="requests") as told:
        await _asked(bench)
    assert int(told.value.headers["retry-after"]) >= 1
    bench.clock.moment += 61
    await _asked(bench)


@pytest.mark.spec("T38")
@pytest.mark.parametrize("asked", [{"n": 100, "max_tokens": 50}, {"max_tokens": 10**9}])
async def test_tokens_per_minute_count_every_answer_that_is_asked_for(till, asked):
    bench = await till(provider("p"), key={"tokens_per_minute": 3000}, output_cap=4000)
    with pytest.raises(RateLimited, match="tokens per minute"):
        await bench.ask("m", key="dev", **asked)
    assert bench.sent == []


async def test_a_refusal_before_the_ledger_is_in_the_log_too(till):
    bench = await till(provider("p"))
    with pytest.raises(MonoizeError):
        await bench.send(bench.incoming({"model": "m", "messages": "nonsense"}, key="dev"))
    await bench.journal.aclose()
    (row,) = await bench.log()
    assert (row["status"], row["http_status"], row["key_name"]) == ("error", 400, "dev")
    assert await bench.charges() == []


async def test_the_answer_waits_for_the_settlement(till, monkeypatch):
    """The last bytes of a stream leave when the charge is in the books."""
    bench = await till(provider("p"))
    books = []
    close = bench.journal.close

    async def noting(closing):
        await close(closing)
        books.append(closing.charge)

    monkeypatch.setattr(bench.journal, "close", noting)
    from monoize.pipeline.call import Trace
    from monoize.pipeline.run import run

    wire = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]}
    answer = await run(bench.incoming(wire, "chat_completion", key="dev"), bench.kit, Trace())
    text = b""
    async for chunk in answer.body:
        if b"[DONE]" in chunk:
            assert books == [PRICE]
        text += chunk
    await answer.body.aclose()
    assert text_of("chat_completion", _reply(answer, text), stream=True)


def _reply(answer, raw):
    from fakes.caller import Reply

    return Reply(answer.status, {"content-type": answer.content_type}, raw)
