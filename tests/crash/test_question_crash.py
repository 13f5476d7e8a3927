"""Question sessions under kills and crowds: nothing torn, nothing lost, no lock left in the way."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

import pytest

from agentforge_sessions.questions import (
    QuestionSession,
    QuestionSessions,
    SessionEnded,
    SessionStatus,
)
from tests.crash._nursery import Nursery
from tests.crash._question_tasks import open_questions
from tests.support.listing import names_in
from tests.support.questions import ANSWERS, QUESTIONS
from tests.support.soak import SOAKING

KILLS = 200 if SOAKING else 12
STEP = 1 if SOAKING else 3
"""At every so many of the system calls it is killed."""
CROWD_SECONDS = 30.0 if SOAKING else 0.5
CROWD = 20
LONGEST_LIFE_S = 0.12
KILLED = -9


def all_of(sessions: QuestionSessions) -> dict[str, QuestionSession]:
    """Read everything; nothing may be unreadable or contradict itself."""
    wrong: list[str] = []
    found = {
        one.session_id: one
        for one in sessions.list_sessions(on_unreadable=lambda one: wrong.append(str(one.error)))
    }
    assert wrong == []
    assert set(found) == set(sessions.store.names())
    for name in found:
        assert sessions.validate_session(name).issues == ()
    return found


def end_everything(sessions: QuestionSessions) -> None:
    """Everybody who comes next can change every session, and leaves no trace.

    A change that meets a lock in its way gives up after ten seconds, and fails the test.
    """
    for name, found in all_of(sessions).items():
        try:
            sessions.save_session_answers(name, ANSWERS)
            assert not found.status.is_terminal
        except SessionEnded as error:
            assert error.status is found.status  # noqa: PT017 (it may have waited)
        with sessions.store.locked(name):
            pass
        left = set(os.listdir(sessions.base_dir / name))
        assert left <= {"request.json", "status.json", "answers.json"}


# ----------------------------------------------------------------------- at every system call


@pytest.mark.parametrize("moment", ["before", "in", "after"])
@pytest.mark.parametrize("operation", ["create", "answer", "reject"])
def test_a_kill_at_any_system_call_leaves_the_session_before_or_after(
    nursery: Nursery, tmp_path: Path, operation: str, moment: str
) -> None:
    calls = None
    number = 1 - STEP
    outcomes = set()
    while calls is None or number <= calls:
        number += STEP
        base = tmp_path / str(number)
        sessions = open_questions(base)
        session_id = sessions.create_session(QUESTIONS)
        pid = nursery.start(
            "one_question_operation",
            base=str(base),
            operation=operation,
            session_id=session_id,
            last=number,
            moment=moment,
        )
        code = nursery.wait(pid)
        told = nursery.heard()
        if code == 0:
            calls = told[-1]["calls"]
            break
        assert code == KILLED, told
        found = all_of(sessions)
        if operation == "create":
            assert len(found) in {1, 2}
            outcomes.add(str(len(found)))
        else:
            target = "completed" if operation == "answer" else "rejected"
            assert found[session_id].status in {"pending", target}
            outcomes.add(found[session_id].status.value)
        end_everything(sessions)
    assert len(outcomes) == 2, "the kills all came on one side of the change"


# -------------------------------------------------------------------------- at random instants


def test_askers_answerers_and_holders_that_are_killed_lose_nothing(
    nursery: Nursery, tmp_path: Path
) -> None:
    base = tmp_path / "questions"
    rng = random.Random(20260301)
    roles = ["ask_until_killed", "answer_until_killed", "hold_until_killed"]
    ended: dict[str, str] = {}
    created: set[str] = set()
    pids = {nursery.start(role, base=str(base), seed=seed): role for seed, role in enumerate(roles)}

    def too_few() -> bool:
        return len(created) <= KILLS / 4 or len(ended) <= KILLS / 8

    turn = -1
    while (turn := turn + 1) < KILLS or (too_few() and turn < 20 * KILLS):
        time.sleep(rng.uniform(0.0, LONGEST_LIFE_S))
        victim = rng.choice(list(pids))
        nursery.kill(victim)
        assert nursery.wait(victim) == KILLED
        role = pids.pop(victim)
        for one in nursery.heard():
            assert "failed" not in one, one
            if one["did"] == "created":
                created.add(one["id"])
            elif one["did"] != "began":
                assert one["id"] not in ended
                ended[one["id"]] = one["did"]
        if turn % 10 == 9:  # while the others go on
            found = {one.session_id: one for one in open_questions(base).list_sessions()}
            assert created <= set(found)
            assert {name: found[name].status.value for name in ended} == ended
        pids[nursery.start(role, base=str(base), seed=1000 + turn)] = role
    for pid in pids:
        nursery.kill(pid)
        nursery.wait(pid)
    for one in nursery.heard():
        if one["did"] not in {"began", "created"}:
            ended[one["id"]] = one["did"]
    assert not too_few(), (len(created), len(ended))
    sessions = open_questions(base)
    found = all_of(sessions)
    assert {name: found[name].status.value for name in ended} == ended
    end_everything(sessions)


def test_a_lock_does_not_outlive_its_killed_owner(nursery: Nursery, tmp_path: Path) -> None:
    base = tmp_path / "questions"
    sessions = open_questions(base)
    for _ in range(5):
        session_id = sessions.create_session(QUESTIONS)
        pid = nursery.start("hold_one", base=str(base), session_id=session_id)
        while not nursery.heard():
            time.sleep(0.005)
        lock = base / session_id / "status.json.lock"
        assert int(lock.read_text().splitlines()[0]) == pid
        nursery.kill(pid)
        nursery.wait(pid)
        assert lock.exists()
        sessions.save_session_answers(session_id, ANSWERS)  # gives up after ten seconds
        assert not lock.exists()


# ----------------------------------------------------------------------------------- in a crowd


@pytest.mark.timeout(600)
def test_twenty_processes_lose_no_update_tear_no_read_and_fail_no_listing(
    nursery: Nursery, tmp_path: Path
) -> None:
    base = tmp_path / "questions"
    start = time.monotonic() + 0.3
    logs = [tmp_path / f"{worker}.jsonl" for worker in range(CROWD)]
    told = nursery.finish(
        *(
            nursery.start(
                "race_questions",
                base=str(base),
                start=start,
                worker=worker,
                seconds=CROWD_SECONDS,
                log=str(log),
            )
            for worker, log in enumerate(logs)
        )
    )
    counts = {key: sum(one[key] for one in told) for key in told[0] if key != "pid"}
    print(counts)
    notes = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    created = {one["created"] for one in notes if "created" in one}
    winners = [one for one in notes if "ended" in one]
    assert min(counts.values()) > 0, counts
    assert len({one["ended"] for one in winners}) == len(winners), "two ended one session"
    found = all_of(open_questions(base))
    assert set(found) == created
    for one in winners:
        session = found[one["ended"]]
        assert session.status.value == one["status"]
        if session.answers is not None:
            assert (session.answers.answers[0].custom_text or "").startswith(f"{one['mark']} ")
        else:
            kept = session.rejection_reason or session.record.end_reason
            assert kept == one["mark"]
    waiting = {name for name, one in found.items() if one.status is SessionStatus.PENDING}
    assert waiting == created - {one["ended"] for one in winners}
    assert [name for name in names_in(base) if name.startswith(".")] == []
