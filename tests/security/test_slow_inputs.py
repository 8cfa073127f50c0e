"""Small inputs that take long: globs, marks, conversations of many messages, long lists of rules."""

from __future__ import annotations

import random
import re
import time

import pytest

from fakes.management import FILE_USER, Api
from monoize.globs import glob_matches
from monoize.server import session_passwords
from monoize.server.api import transforms as trials
from monoize.server.session_passwords import Passwords
from monoize.settings import RuleSettings
from monoize.transform_trial import Trial, rehearsed
from monoize.urp import Message, Role, Text, UrpRequest
from monoize.urp.diff import changes

TRIAL = "/api/transforms/trial"


def test_many_stars_in_a_glob_take_no_longer_than_one():
    """Anybody may write one on a rule of an own key, and it is looked at with every call."""
    assert not glob_matches("*a" * 40 + "b", "a" * 5000)
    assert glob_matches("*a" * 40 + "*", "a" * 5000)


def test_a_glob_means_what_it_meant():
    dice = random.Random(7)
    for _ in range(5000):
        glob = "".join(dice.choice("ab*?.") for _ in range(dice.randint(0, 7)))
        name = "".join(dice.choice("ab.\n") for _ in range(dice.randint(0, 8)))
        plain = re.escape(glob).replace(r"\*", ".*").replace(r"\?", ".")
        assert glob_matches(glob, name) == bool(re.fullmatch(plain, name, re.DOTALL)), (glob, name)


async def test_marks_are_put_in_order_only_where_there_are_few(monkeypatch: pytest.MonkeyPatch):
    """Whoever has no password may send one; sorting 100,000 marks would stop the whole gateway for a minute."""
    looked_at = []

    class Counted:
        @staticmethod
        def normalize(form: str, text: str) -> str:
            looked_at.append(len(text))
            return text

    monkeypatch.setattr(session_passwords, "unicodedata", Counted)
    marks = "a" + "\u0301\u0316" * 100_000
    assert not await Passwords().match(None, marks)
    with pytest.raises(Exception, match="1024 bytes"):
        session_passwords.checked(marks)
    assert max(looked_at, default=0) <= 4096


@pytest.mark.parametrize("key", [None, FILE_USER])
async def test_nobody_unknown_sends_a_large_body(api: Api, key: str | None):
    body = {"username": "ada", "password": "x" * 70_000}
    answer = await api.call("POST", "/api/session", body, key=key)
    assert answer.status == 413


def many(count: int) -> Trial:
    said = [{"role": "user", "content": "a"}] * count
    rule = RuleSettings(transform="merge_consecutive_roles", phase="request")
    return Trial(source="chat_completion", rules=(rule,), request={"model": "m", "messages": said})


def test_many_messages_are_joined_and_compared_in_their_number_not_its_square():
    before = time.process_time()
    report = rehearsed(many(20_000), lambda rule: None)
    assert len(report.result["messages"]) == 1
    assert time.process_time() - before < 10


def test_long_lists_of_the_same_elements_are_compared_one_by_one():
    def conversation(other: Role) -> UrpRequest:
        turn = tuple(Message(role=r, parts=(Text(content="a"),)) for r in (other, Role.USER))
        return UrpRequest(model="m", messages=turn * 3000)

    before = time.process_time()
    found = changes(conversation(Role.DEVELOPER), conversation(Role.SYSTEM))
    assert {change.path for change in found} == {f"messages[{2 * n}]" for n in range(3000)}
    assert time.process_time() - before < 10


def test_rules_that_are_left_when_it_is_late_are_not_tried():
    trial = many(3)
    asked = iter([False, True, True])
    report = rehearsed(
        Trial(source=trial.source, rules=trial.rules * 3, request=trial.request),
        lambda rule: None,
        lambda: next(asked),
    )
    assert [step.changes is None for step in report.steps] == [False, True, True]
    assert "too long" in (report.steps[2].why_not or "")


async def test_only_a_few_trials_are_under_way_at_once(api: Api, monkeypatch: pytest.MonkeyPatch):
    body = {"from": "chat_completion", "rules": [], "request": {"model": "m", "messages": []}}
    assert (await api.call("POST", TRIAL, body, key=FILE_USER)).status == 200
    monkeypatch.setattr(trials, "_AT_A_TIME", 0)
    answer = await api.call("POST", TRIAL, body, key=FILE_USER)
    assert (answer.status, answer.error["code"]) == (429, "too_many_trials")
