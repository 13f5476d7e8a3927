"""One suite for the log of steps in every store."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from agentforge_sessions.base.settings.spending import Amount, Limit
from agentforge_sessions.harness import (
    InvalidStateTransition,
    LocalSessions,
    SessionContext,
    SessionManager,
    SessionNotFound,
    SessionStore,
)
from agentforge_sessions.harness.domain.history_events import LimitCrossed, WarningCrossed
from agentforge_sessions.harness.errors import SessionCorrupted, SessionNotAdopted
from agentforge_sessions.harness.session_layout import PROGRAM_FILE, STEPS_KEY
from agentforge_sessions.harness.steps.entries import NOTHING, STREAM, StepRecord
from agentforge_sessions.harness.steps.errors import (
    ArgumentsDiffer,
    BudgetReached,
    KeyTaken,
    LeadLost,
    ProgramChanged,
    SessionLed,
    StepsUnreadable,
)
from agentforge_sessions.harness.steps.program_sessions import (
    ProgramKey,
    begin_or_go_on,
    checkpoint,
    led,
    program_session_id,
    rewind_to,
    send_signal,
    steps_of,
)
from agentforge_sessions.harness.steps.step_log import OWN, StepLog
from agentforge_sessions.harness.stream_port import NewEntry
from tests.support.clock import START

Open = Callable[[], LocalSessions]
REPORT = ProgramKey("report", "the key")


@pytest.fixture
def sessions(opened: Open) -> LocalSessions:
    return opened()


@pytest.fixture
def session_id(sessions: LocalSessions) -> str:
    return begin_or_go_on(sessions, REPORT, budget=1000).session_id


@pytest.fixture
def log(sessions: LocalSessions, session_id: str) -> StepLog:
    """A log that this process leads."""
    log = StepLog(sessions, session_id)
    log.take_lead()
    return log


def put(log: StepLog, path: str, call: int = 0, *, spent: Amount = NOTHING) -> StepRecord:
    body = json.dumps(path).encode()
    return log.record(
        path, call, codec="json", body=body, spent=spent, started=START, took_us=7, attempts=2
    )


def spent(sessions: LocalSessions, session_id: str) -> int:
    session = sessions.load(session_id)
    assert session is not None
    return session.token_budget.tokens_used


def test_a_recorded_step_is_found_by_the_next_process(log: StepLog, opened: Open) -> None:
    put(log, "outline#1", spent=Amount(20, 5))
    found = StepLog(opened(), log.session_id)
    record = found.history.record("outline#1")
    assert record is not None
    assert record[:8] == ("outline#1", 0, "ok", "json", (20, 5), record.started, 7, 2)
    assert (record.at, record.name, record.scope) == (START, "outline", "")
    assert found.body(record) == b'"outline#1"'
    assert found.history.record("outline#2") is None


def test_a_log_finds_the_body_of_what_it_recorded_itself(log: StepLog) -> None:
    assert log.body(put(log, "a#1")) == b'"a#1"'
    assert log.body(put(log, "b#1", 1)) == b'"b#1"'


def test_every_read_of_a_session_has_what_its_steps_cost(
    log: StepLog, opened: Open, session_id: str
) -> None:
    put(log, "a#1", spent=Amount(20))
    assert spent(opened(), session_id) == 20
    checkpoint(log)
    put(log, "b#1", 1, spent=Amount(7))
    log.attempt_failed("c#1", 2, error="Down", spent=Amount(3), started=START)
    log.charge("c#1", Amount(1))
    assert spent(opened(), session_id) == 31


def test_a_checkpoint_counts_once_what_another_process_of_its_lead_spent(
    log: StepLog, opened: Open, session_id: str
) -> None:
    put(log, "a#1", spent=Amount(10))
    other = opened()
    StepLog(other, session_id, lead=log.lead).charge("b#1", Amount(5))
    for _ in range(2):
        checkpoint(log)
        assert spent(other, session_id) == 15


def test_another_writer_of_the_session_counts_no_step_twice(
    log: StepLog, opened: Open, session_id: str
) -> None:
    put(log, "a#1", spent=Amount(20))
    manager = SessionManager(opened())
    manager.open(session_id)
    put(log, "b#1", 1, spent=Amount(5))
    manager.record_tokens(100)
    checkpoint(log)
    assert spent(opened(), session_id) == 125
    manager.reload()
    manager.abort("enough")
    assert spent(opened(), session_id) == 125


def test_what_was_spent_before_an_end_by_another_counts(
    log: StepLog, opened: Open, session_id: str
) -> None:
    manager = SessionManager(opened())
    manager.open(session_id)
    put(log, "a#1", spent=Amount(20))
    manager.abort("enough")
    assert spent(opened(), session_id) == 20
    with pytest.raises(InvalidStateTransition):
        put(log, "b#1", 1)


def test_the_crossing_of_the_budget_is_recorded_once_until_it_is_extended(
    log: StepLog, opened: Open, session_id: str
) -> None:
    put(log, "a#1", spent=Amount(800))
    checkpoint(log)
    put(log, "b#1", 1, spent=Amount(300))
    checkpoint(log)
    checkpoint(log)
    manager = SessionManager(opened())
    manager.open(session_id)
    manager.extend_budget(100)
    checkpoint(log)
    session = opened().load(session_id)
    assert session is not None
    crossed = [
        one.event_type
        for one in session.history
        if one.event_type in (WarningCrossed, LimitCrossed)
    ]
    assert crossed == [WarningCrossed, LimitCrossed, WarningCrossed]


def test_an_overtaken_worker_records_nothing_more(
    log: StepLog, opened: Open, session_id: str
) -> None:
    put(log, "a#1")
    later = StepLog(opened(), session_id)
    later.take_lead()
    with pytest.raises(LeadLost):
        put(log, "b#1", 1)
    with pytest.raises(LeadLost):
        log.reserve("b#1", Amount(1))
    put(later, "b#1", 1)
    assert [one.path for one in steps_of(opened(), session_id)] == ["a#1", "b#1"]


def test_one_process_at_a_time_leads(opened: Open, session_id: str) -> None:
    with led(opened(), session_id) as log:
        with pytest.raises(SessionLed), led(opened(), session_id):
            pass
        assert opened().is_led(session_id)
        put(log, "a#1")
    with led(opened(), session_id) as log:
        assert log.history.record("a#1") is not None


def test_a_session_without_a_program_is_led_by_nobody(opened: Open) -> None:
    session = SessionContext.create("talk", now=START)
    opened().save(session)
    with pytest.raises(SessionNotFound), led(opened(), session.session_id):
        pass


def test_of_programs_that_start_together_one_creates_the_session(opened: Open) -> None:
    ready = threading.Barrier(4)

    def begin(number: int) -> str:
        store = opened()
        ready.wait()
        return begin_or_go_on(store, REPORT, budget=number + 1).session_id

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(begin, range(4))) == {program_session_id("the key")}
    assert opened().list_sessions() == [program_session_id("the key")]


@pytest.mark.parametrize("key", ["", "a/b", "\ud800", "k" * 5000, "\0"])
def test_any_text_is_a_key(opened: Open, key: str) -> None:
    made = begin_or_go_on(opened(), ProgramKey("report", key), budget=1)
    assert begin_or_go_on(opened(), ProgramKey("report", key), budget=1) == made


def test_a_key_of_another_workflow_and_other_arguments_are_refused(opened: Open) -> None:
    begin_or_go_on(opened(), ProgramKey("report", "k", "one"), budget=1)
    with pytest.raises(KeyTaken) as taken:
        begin_or_go_on(opened(), ProgramKey("summary", "k"), budget=1)
    assert taken.value.owner == "report"
    with pytest.raises(ArgumentsDiffer):
        begin_or_go_on(opened(), ProgramKey("report", "k", "two"), budget=1)
    begin_or_go_on(opened(), ProgramKey("report", "k"), budget=1)


def test_a_document_that_names_no_program_is_refused(opened: Open) -> None:
    session = SessionContext.create("report", session_id=program_session_id("the key"), now=START)
    opened().save(session, attachments={PROGRAM_FILE: b'{"workflow": 1}'})
    with pytest.raises(SessionCorrupted):
        begin_or_go_on(opened(), REPORT, budget=1)


def test_the_results_in_a_strangers_copy_are_not_believed(base: Path, tmp_path: Path) -> None:
    begin_or_go_on(SessionStore(base), REPORT, budget=1)
    shutil.copytree(base, tmp_path / "clone")
    with pytest.raises(SessionNotAdopted):
        begin_or_go_on(SessionStore(tmp_path / "clone"), REPORT, budget=1)


def test_a_reservation_beyond_the_budget_is_refused_before_the_call(
    log: StepLog, opened: Open, session_id: str
) -> None:
    log.reserve("a#1", Amount(600))
    with pytest.raises(BudgetReached) as refused:
        log.reserve("b#1", Amount(401))
    assert (refused.value.required, refused.value.left) == ("401 tokens", "400")
    log.reserve("b#1", Amount(400))
    put(log, "a#1", spent=Amount(100))  # gives 500 back
    log.reserve("c#1", Amount(500))
    log.charge("b#1", NOTHING)
    log.reserve("d#1", Amount(400))
    manager = SessionManager(opened())
    manager.open(session_id)
    manager.extend_budget(50)
    log.reserve("e#1", Amount(50))
    with pytest.raises(BudgetReached):
        log.reserve("f#1", Amount(1))


def test_a_reservation_ends_with_the_worker_that_made_it(
    log: StepLog, opened: Open, session_id: str
) -> None:
    log.reserve("a#1", Amount(1000))
    later = StepLog(opened(), session_id)
    later.take_lead()
    later.reserve("a#1", Amount(1000))


def test_limits_of_money_and_of_a_step_hold_for_all_of_their_parts(log: StepLog) -> None:
    money, part = (OWN, Limit(micro_usd=100)), ("outer#1", Limit(tokens=50))
    log.reserve("outer#1/a#1", Amount(30, 60), limits=[money, part])
    with pytest.raises(BudgetReached):
        log.reserve("other#1", Amount(1, 41), limits=[money])
    with pytest.raises(BudgetReached) as refused:
        log.reserve("outer#1/b#1", Amount(21), limits=[part])
    assert refused.value.scope == "outer#1"
    put(log, "outer#1/a#1", spent=Amount(10, 60))
    log.reserve("outer#1/b#1", Amount(40), limits=[part])
    log.attempt_failed("outer#1/b#1", 1, error="Down", spent=Amount(40), started=START)
    with pytest.raises(BudgetReached):
        log.reserve("outer#1/b#1", Amount(1), limits=[part])


def test_threads_and_processes_of_a_lead_never_overspend_together(
    log: StepLog, opened: Open, session_id: str
) -> None:
    shares = [StepLog(opened(), session_id, lead=log.lead) for _ in range(4)]
    refused = []

    def call(number: int) -> None:
        share = shares[number % len(shares)]
        try:
            share.reserve(f"call#{number}", Amount(150))
        except BudgetReached as error:
            refused.append(error)
        else:
            share.charge(f"call#{number}", Amount(140))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(call, range(32)))
    assert 32 - len(refused) == 7  # 6 * 140 leave 160
    assert spent(opened(), session_id) == 980


def test_another_order_of_the_steps_is_named(log: StepLog) -> None:
    for call, name in enumerate(("plan", "draft", "check")):
        put(log, f"{name}#1", call)
    log.check_order("", 1, "draft#1")
    log.check_order("", 3, "new#1")
    with pytest.raises(ProgramChanged) as changed:
        log.check_order("", 1, "check#1")
    assert (changed.value.recorded, changed.value.called) == ("draft", "check")
    assert list(changed.value.before) == ["plan", "draft", "check"]
    assert list(changed.value.now) == ["plan", "check"]
    with pytest.raises(ProgramChanged):
        log.check_order("", 4, "plan#1")
    with pytest.raises(ProgramChanged):
        log.check_order("", 0, "new#1")


def test_a_timer_and_a_version_stay_what_the_first_call_said(
    log: StepLog, opened: Open, session_id: str
) -> None:
    put(log, "a#1")
    assert log.timer("wait#1", 1, START) == START
    assert log.version("style#1", 2, 3) == 3
    later = StepLog(opened(), session_id)
    later.take_lead()
    assert later.timer("wait#1", 1, START + timedelta(days=1)) == START
    assert later.version("style#1", 2, 4) == 3
    assert later.version("older#1", 0, 4) == 0
    with pytest.raises(ProgramChanged):
        later.check_order("", 1, "b#1")


def test_signals_are_found_in_their_order_whoever_leads(
    log: StepLog, opened: Open, session_id: str
) -> None:
    put(log, "a#1", spent=Amount(5))
    send_signal(opened(), session_id, "approved", {"by": "Ada"}, by="a person")
    put(log, "b#1", 1, spent=Amount(5))
    send_signal(opened(), session_id, "approved", 2, by="a person")
    log.catch_up()
    bodies = [log.body_at(one) for one in log.history.signals["approved"]]
    assert [json.loads(one) for one in bodies] == [{"by": "Ada"}, 2]
    assert spent(opened(), session_id) == 10
    with pytest.raises(ValueError, match="JSON"):
        send_signal(opened(), session_id, "approved", float("nan"), by="a person")
    with pytest.raises(SessionNotFound):
        send_signal(opened(), program_session_id("other"), "approved", by="a person")


def test_going_back_forgets_the_later_steps_and_no_cost(
    log: StepLog, opened: Open, session_id: str
) -> None:
    first = put(log, "a#1", spent=Amount(10))
    put(log, "b#1", 1, spent=Amount(20))
    log.timer("wait#1", 2, START)
    log.finish("json", b"1")
    rewind_to(opened(), session_id, first.sequence)
    with led(opened(), session_id) as later:
        assert [one.path for one in later.history.records()] == ["a#1"]
        assert later.history.finished is None
        assert later.history.timer("wait#1") is None
        put(later, "c#1", 1)
    assert [one.path for one in steps_of(opened(), session_id, last=5)] == ["a#1", "c#1"]
    assert spent(opened(), session_id) == 30


def test_the_last_steps_are_found_among_other_entries(
    log: StepLog, opened: Open, session_id: str
) -> None:
    for number in range(1, 31):
        put(log, f"a#{number}", number - 1)
    for _ in range(9):
        log.charge("", NOTHING)
    assert [one.path for one in steps_of(opened(), session_id, last=2)] == ["a#29", "a#30"]
    assert len(steps_of(opened(), session_id, last=99)) == 30
    assert steps_of(opened(), session_id, last=0) == []


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"[]",
        b"nonsense",
        b"[" * 100_000,
        b'["step","a#1"]',
        b'["other",1,0,0,0,0]',
        b'["charge","a",-1,2.5,1,0,0,0]',
        b'["charge","a",1,1,7,0,0,0]',
        b'["finish","json",1,1,0,-1,0]',
    ],
)
def test_an_entry_that_is_not_ours_is_refused(
    sessions: LocalSessions, session_id: str, head: bytes
) -> None:
    sessions.append_entries(session_id, STREAM, [NewEntry(head, b"")])
    with pytest.raises(StepsUnreadable):
        StepLog(sessions, session_id).take_lead()


@pytest.mark.parametrize("state", [1, [], {}, {"recorded": -1, "tokens": 0, "micro_usd": 0}])
def test_a_state_that_says_nothing_of_the_log_is_refused(
    sessions: LocalSessions, session_id: str, state: object
) -> None:
    session = sessions.load(session_id)
    assert session is not None
    session.workflow_state = {STEPS_KEY: state}
    sessions.save(session)
    with pytest.raises(SessionCorrupted):
        sessions.load(session_id)
