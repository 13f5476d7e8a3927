"""A manager, whatever is asked of it in whatever order, against a model that is a dictionary.

After every call, and whatever fails in it, the session in memory and every session on disk are
what the model says, nothing else is in the base, and no descriptor is left open.
"""

from __future__ import annotations

import copy
import errno
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Final
from unittest.mock import ANY

import pytest
from attrs import evolve
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from agentforge_sessions.base.files import ReadError, WriteError
from agentforge_sessions.harness import (
    InvalidSession,
    InvalidStateTransition,
    NoActiveSession,
    PhaseResult,
    SessionConflict,
    SessionManager,
    SessionStore,
)
from agentforge_sessions.harness.errors import SessionAlreadyActive
from agentforge_sessions.harness.session_domain import (
    TRANSITIONS,
    InvalidStateForPhaseAdvance,
    SessionState,
)
from agentforge_sessions.prune import PruneRootUnusable
from tests.support.clock import FakeClock, FakeTokens
from tests.support.executors import FAILED, SUCCEEDED, TRAPPED, FakeExecutor
from tests.support.filesystem import FaultyFileSystem, Plan, nth_call
from tests.support.sessions import as_plain
from tests.support.soak import examples

Model = dict[str, Any]
Change = Callable[[Model], None]

phases: Final = st.sampled_from(["red", "green", "refactor", "review", "ship", "two\nlines", ""])
texts: Final = st.none() | st.sampled_from(["because", "two\nlines", "yes", ' "quoted" ', ""])
faults: Final = st.none() | st.tuples(
    st.integers(0, 15) | st.integers(0, 40),
    st.sampled_from([errno.ENOSPC, errno.EIO, errno.EACCES, errno.EDQUOT]),
)
Fault = tuple[int, int] | None
ENDED: Final = ("completed", "aborted")


class Refused(Exception):
    """The model says that a call must be refused, and how."""

    def __init__(self, kind: type[Exception]) -> None:
        super().__init__(kind)
        self.kind = kind


def refuse(kind: type[Exception], unless: object) -> None:
    if not unless:
        raise Refused(kind)


def leads_one(machine: ManagerMachine) -> bool:
    return machine.memory is not None


def may_create(machine: ManagerMachine) -> bool:
    memory = machine.memory
    return memory is None or memory["state"] in ENDED or memory["revision"] % 4 == 3


def some_ended(machine: ManagerMachine) -> bool:
    return any(model["state"] in ENDED for model in machine.disk.values())


class ManagerMachine(RuleBasedStateMachine):
    reached: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.top = Path(tempfile.mkdtemp())
        self.base = self.top / "sessions"
        self.fs = FaultyFileSystem()
        self.clock = FakeClock()
        self.executor = FakeExecutor()
        self.manager = SessionManager(
            SessionStore(self.base, fs=self.fs, token=FakeTokens(), lock_timeout_s=0.5),
            executor=self.executor,
            clock=self.clock,
        )
        self.memory: Model | None = None
        self.disk: dict[str, Model] = {}

    def teardown(self) -> None:
        shutil.rmtree(self.top)

    # ------------------------------------------------------------------------------- the model

    def now(self) -> str:
        return self.clock.now.isoformat(timespec="microseconds")

    def touch(self, model: Model) -> str:
        model["updated_at"] = max(self.now(), model["updated_at"])
        return str(model["updated_at"])

    def entry(
        self,
        model: Model,
        action: str,
        details: object,
        phase: str | None = None,
        **data: object,
    ) -> None:
        model["history"].append(
            {
                "timestamp": self.touch(model),
                "action": action,
                "phase": phase or model["current_phase"],
                "details": details,
                **({"data": data} if data else {}),
            }
        )

    def spend(self, model: Model, tokens: int) -> None:
        budget = model["token_budget"]
        total, before = budget["total_budget"], budget["tokens_used"]
        after = budget["tokens_used"] = before + tokens
        budget["remaining"] = total - after
        self.touch(model)
        if before * 100 < total * 80 <= after * 100:
            self.entry(model, "budget_warning", ANY, tokens_used=after, total_budget=total)
        if before <= total < after:
            self.entry(model, "budget_exceeded", ANY, tokens_used=after, total_budget=total)

    def attempt(self, act: Callable[[], object], fault: Fault) -> Exception | None:
        """Call, with a fault on the way, and return what was raised."""
        plan: Plan | None = None if fault is None else nth_call(*fault)
        self.fs.begin(plan)
        try:
            act()
        except Exception as error:
            self.reached[type(error).__name__] += 1
            return error
        finally:
            self.fs.plan = None
        return None

    def change(
        self,
        act: Callable[[], object],
        predict: Change,
        fault: Fault,
        *,
        on_top: Change | None = None,
    ) -> None:
        """Make a call that changes the current session, and compare.

        `on_top` predicts a change that is made on top of what others saved meanwhile.
        """
        if self.memory is None:
            assert type(self.attempt(act, fault)) is NoActiveSession
            return
        expected = copy.deepcopy(self.memory)
        session_id = expected["session_id"]
        stale = self.disk.get(session_id) != self.memory
        refusal: type[Exception] | None = None
        try:
            predict(expected)
            expected["revision"] += 1
        except Refused as refused:
            refusal = refused.kind
        caught_up = refusal is None and stale and on_top is not None and self.can_catch_up()
        if caught_up and on_top is not None:
            expected = copy.deepcopy(self.disk[session_id])
            on_top(expected)
            expected["revision"] += 1
            stale = False

        error = self.attempt(act, fault)

        if refusal is not None:
            assert type(error) is refusal
        elif error is None:
            assert not stale
            session = self.manager.current_session
            assert session is not None
            actual = as_plain(session)
            assert actual == expected
            self.memory = self.disk[session_id] = actual
            self.reached["changed"] += 1
            self.reached["changed on top of another's change"] += caught_up
            self.reached["changed in spite of a fault"] += bool(self.fs.failed)
        elif isinstance(error, SessionConflict) and not caught_up:
            assert stale
            found = self.disk.get(session_id)
            assert error.actual_revision == (None if found is None else found["revision"])
        elif caught_up:
            assert isinstance(error, WriteError | SessionConflict), repr(error)
            assert self.fs.failed, error
            session = self.manager.current_session
            assert session is not None
            actual = as_plain(session)
            assert actual in (self.memory, self.disk[session_id])
            self.memory = actual
        else:
            assert isinstance(error, WriteError), repr(error)
            assert self.fs.failed, error
            assert error.errno == self.fault_number(fault)
            assert not error.visible

    def can_catch_up(self) -> bool:
        """Tell whether a result for what memory has still belongs to what is on disk."""
        assert self.memory is not None
        found = self.disk.get(self.memory["session_id"])
        if found is None or found["state"] in ENDED:
            return False
        known = len(self.memory["history"])
        return (
            all(found[name] == self.memory[name] for name in ("current_phase", "attempt_number"))
            and found["history"][:known] == self.memory["history"]
            and not any(
                one["action"] in {"phase_succeeded", "phase_failed"} and "note" not in one["data"]
                for one in found["history"][known:]
            )
        )

    @staticmethod
    def fault_number(fault: Fault) -> int | None:
        return None if fault is None else fault[1]

    # ------------------------------------------------------------------------------- the calls

    @initialize()
    def begin(self) -> None:
        self.create("tdflow", "red", 1000, "the goal", None)

    @precondition(may_create)
    @rule(
        workflow=st.sampled_from(["tdflow", "spec", None, "a: b", " "]),
        phase=phases | st.none(),
        budget=st.sampled_from([1000, 10, 100_000, 0, -1]),
        goal=texts,
        fault=faults,
    )
    def create(
        self,
        workflow: str | None,
        phase: str | None,
        budget: int,
        goal: str | None,
        fault: Fault,
    ) -> None:
        error = self.attempt(lambda: self.manager.create(workflow, phase, budget, goal=goal), fault)
        if self.memory is not None and self.memory["state"] not in ENDED:
            assert type(error) is SessionAlreadyActive
        elif workflow == " " or phase in {"", "two\nlines"} or budget < 1:
            assert type(error) is InvalidSession
        elif error is not None:
            assert isinstance(error, WriteError), repr(error)
            assert self.fs.failed
            assert not error.visible
        else:
            session = self.manager.current_session
            assert session is not None
            assert session.session_id not in self.disk
            self.memory = as_plain(session)
            now = self.now()
            assert self.memory == {
                "schema_version": 1,
                "session_id": ANY,
                "revision": 1,
                "state": "active",
                "workflow_type": workflow,
                "current_phase": phase,
                "attempt_number": 1,
                "created_at": now,
                "updated_at": now,
                "completed_at": None,
                "token_budget": {
                    "total_budget": budget,
                    "tokens_used": 0,
                    "remaining": budget,
                },
                "goal": goal,
                "artifacts": [],
                "history": [
                    {
                        "timestamp": now,
                        "action": "session_created",
                        "phase": phase,
                        "details": None,
                        "data": {"workflow_type": workflow, "token_budget": budget},
                    }
                ],
            }
            self.disk[session.session_id] = self.memory

    @precondition(lambda self: bool(self.disk))
    @rule(data=st.data(), fault=faults)
    def load(self, data: st.DataObject, fault: Fault) -> None:
        session_id = data.draw(st.sampled_from(sorted(self.disk)))
        error = self.attempt(lambda: self.manager.load(session_id), fault)
        if error is None:
            self.memory = self.disk[session_id]
        else:
            assert isinstance(error, ReadError), repr(error)
            assert self.fs.failed

    @precondition(lambda self: len(self.disk) % 3 == 2)
    @rule()
    def load_one_that_is_not_there(self) -> None:
        assert self.manager.load("session_20000101_000000_000000") is None
        self.memory = None

    @precondition(leads_one)
    @rule(fault=faults)
    def reload(self, fault: Fault) -> None:
        error = self.attempt(self.manager.reload, fault)
        if self.memory is None:
            assert type(error) is NoActiveSession
        elif isinstance(error, ReadError):
            assert self.fs.failed
        else:
            found = self.disk.get(self.memory["session_id"])
            assert type(error) is (NoActiveSession if found is None else type(None))
            self.memory = found

    @precondition(lambda self: leads_one(self) and len(self.disk) % 3 == 1)
    @rule()
    def release(self) -> None:
        self.manager.release()
        self.memory = None

    @precondition(leads_one)
    @rule(
        operation=st.sampled_from(["pause", "resume", "resume", "complete", "abort"]),
        reason=texts,
        fault=faults,
    )
    def transition(self, operation: str, reason: str | None, fault: Fault) -> None:
        takes_reason = operation in {"pause", "abort"}

        def predict(model: Model) -> None:
            target = TRANSITIONS.get((SessionState(model["state"]), operation))
            refuse(InvalidStateTransition, unless=target)
            assert target is not None
            past = {"pause": "paused", "resume": "resumed", "complete": "completed"}
            action = f"session_{past.get(operation, 'aborted')}"
            told: dict[str, object] = {"reason": reason} if takes_reason else {}
            if operation == "pause":
                told |= dict.fromkeys(("cause", "question_id", "missing_tokens", "back_to")) | {
                    "needs_retry": False
                }
            self.entry(model, action, reason if takes_reason else None, **told)
            model["state"] = target.value
            if target.is_terminal:
                model["completed_at"] = model["updated_at"]

        method = getattr(self.manager, operation)
        self.change((lambda: method(reason)) if takes_reason else method, predict, fault)

    @precondition(leads_one)
    @rule(phase=phases, fault=faults)
    def advance_phase(self, phase: str, fault: Fault) -> None:
        def predict(model: Model) -> None:
            refuse(InvalidStateForPhaseAdvance, unless=model["state"] == "active")
            refuse(InvalidSession, unless=phase.isalpha())
            before = model["current_phase"]
            told = f"from {before} to {phase}" if before else f"to {phase}"
            self.entry(model, "phase_advanced", told, phase, from_phase=before, to_phase=phase)
            model["current_phase"] = phase
            model["attempt_number"] = 1

        self.change(lambda: self.manager.advance_phase(phase), predict, fault)

    @precondition(leads_one)
    @rule(reason=texts, fault=faults)
    def retry_phase(self, reason: str | None, fault: Fault) -> None:
        def predict(model: Model) -> None:
            refuse(InvalidStateTransition, unless=model["state"] == "active")
            number = model["attempt_number"] = model["attempt_number"] + 1
            told = f"attempt {number}: {reason}" if reason else f"attempt {number}"
            self.entry(model, "phase_retried", told, attempt=number, reason=reason)

        self.change(lambda: self.manager.retry_phase(reason), predict, fault)

    @precondition(leads_one)
    @rule(
        result=st.sampled_from([SUCCEEDED, FAILED, TRAPPED]),
        files=st.sampled_from([(), ("a.py",), ("b.py", "c \udcff.py")]),
        tokens=st.sampled_from([0, 7, -1]),
        fault=faults,
    )
    def run_phase(
        self, result: PhaseResult, files: tuple[str, ...], tokens: int, fault: Fault
    ) -> None:
        self.executor.results = [evolve(result, files_created=files, files_modified=("d.py",))]

        def record(model: Model) -> None:
            kinds = [(path, "created") for path in files] + [("d.py", "modified")]
            for path, kind in kinds:
                model["artifacts"].append(
                    {
                        "path": path.replace("\udcff", "\\udcff"),
                        "artifact_type": kind,
                        "timestamp": self.touch(model),
                        "phase": model["current_phase"],
                    }
                )
            self.spend(model, tokens)
            self.entry(
                model,
                "phase_succeeded" if result is SUCCEEDED else "phase_failed",
                ANY,
                attempt=model["attempt_number"],
                seconds=round(result.duration_s, 3),
                tokens=tokens,
                exit_code=result.exit_code,
                trapped=result.trapped,
                fuel=result.fuel_consumed,
                problem=None if result is SUCCEEDED else ANY,
                verdict=None,
            )

        def predict(model: Model) -> None:
            refuse(InvalidStateTransition, unless=model["state"] == "active")
            refuse(InvalidSession, unless=tokens >= 0)
            record(model)

        self.change(
            lambda: self.manager.run_phase("pass", tokens=tokens), predict, fault, on_top=record
        )

    @precondition(leads_one)
    @rule(tokens=st.sampled_from([0, 1, 9, 800, -1]), fault=faults)
    def record_tokens(self, tokens: int, fault: Fault) -> None:
        def predict(model: Model) -> None:
            refuse(InvalidStateTransition, unless=model["state"] not in ENDED)
            refuse(InvalidSession, unless=tokens > 0)
            self.spend(model, tokens)

        self.change(lambda: self.manager.record_tokens(tokens), predict, fault)

    @precondition(leads_one)
    @rule(tokens=st.sampled_from([1, 500, 0]), fault=faults)
    def extend_budget(self, tokens: int, fault: Fault) -> None:
        def predict(model: Model) -> None:
            refuse(InvalidStateTransition, unless=model["state"] not in ENDED)
            refuse(InvalidSession, unless=tokens)
            budget = model["token_budget"]
            budget["total_budget"] += tokens
            budget["remaining"] += tokens
            told = f"by {tokens} to {budget['total_budget']} tokens"
            self.entry(
                model,
                "budget_extended",
                told,
                additional_tokens=tokens,
                total_budget=budget["total_budget"],
            )

        self.change(lambda: self.manager.extend_budget(tokens), predict, fault)

    @precondition(leads_one)
    @rule(
        path=st.sampled_from(["a.py", "dir/é.txt", "../x", "/etc/x", "a\nb"]),
        kind=st.sampled_from(["created", "modified", "deleted"]),
        fault=faults,
    )
    def add_artifact(self, path: str, kind: str, fault: Fault) -> None:
        def predict(model: Model) -> None:
            refuse(InvalidStateTransition, unless=model["state"] not in ENDED)
            refuse(InvalidSession, unless=kind != "deleted" and path not in {"../x", "/etc/x"})
            model["artifacts"].append(
                {
                    "path": path,
                    "artifact_type": kind,
                    "timestamp": self.touch(model),
                    "phase": model["current_phase"],
                }
            )

        self.change(lambda: self.manager.add_artifact(path, kind), predict, fault)

    @precondition(leads_one)
    @rule(
        action=st.sampled_from(["noted", "yes", "1.5", "", "phase_failed", "session_paused"]),
        details=texts,
        fault=faults,
    )
    def add_history(self, action: str, details: str | None, fault: Fault) -> None:
        def predict(model: Model) -> None:
            refuse(InvalidStateTransition, unless=model["state"] not in ENDED)
            refuse(InvalidSession, unless=action)
            note = {"note": True} if "_" in action else {}
            self.entry(model, action, details, **note)

        self.change(lambda: self.manager.add_history(action, details), predict, fault)

    @precondition(leads_one)
    @rule(fault=faults)
    def checkpoint(self, fault: Fault) -> None:
        def predict(model: Model) -> None:
            refuse(InvalidStateTransition, unless=model["state"] not in ENDED)
            self.entry(model, "checkpoint", None)

        self.change(self.manager.checkpoint_session, predict, fault)

    @precondition(leads_one)
    @rule(fault=faults)
    def save(self, fault: Fault) -> None:
        assert self.memory is not None
        ended = self.memory["state"] in ENDED
        if ended and self.disk.get(self.memory["session_id"]) == self.memory:
            error = self.attempt(self.manager.save, fault)  # there is nothing to write
            assert error is None or self.fs.failed, repr(error)
        else:
            self.change(self.manager.save, lambda _: None, fault)

    @precondition(some_ended)
    @rule(
        days=st.sampled_from([0, 0, 1, 30]),
        dry_run=st.sampled_from([False, False, True]),
        fault=faults,
    )
    def cleanup(self, days: int, dry_run: bool, fault: Fault) -> None:
        limit = (self.clock.now - timedelta(days=days)).isoformat(timespec="microseconds")
        due = [
            (str(model["completed_at"]), session_id)
            for session_id, model in self.disk.items()
            if model["state"] in ENDED
            # With 0 days all that ended; what ended in the future, since a clock went back, stays.
            and (model["completed_at"] <= limit if days == 0 else model["completed_at"] < limit)
        ]
        gone: list[str] = []
        error = self.attempt(
            lambda: gone.extend(self.manager.cleanup_old_sessions(days, dry_run)), fault
        )
        if error is not None:  # the base could not be opened, or the audit log not be written
            assert self.fs.failed
            assert isinstance(error, PruneRootUnusable), repr(error)
            return
        expected = [session_id for _, session_id in sorted(due)]
        if not self.fs.failed:
            assert gone == expected
        assert [session_id for session_id in expected if session_id in gone] == gone
        if not dry_run:
            for session_id in gone:
                del self.disk[session_id]
                self.reached["cleaned up"] += 1

    @precondition(lambda self: self.memory is None and len(self.disk) % 2 == 0)
    @rule(
        name=st.sampled_from(
            ["pause", "resume", "complete", "abort", "save", "reload", "retry_phase", "briefing"]
        )
    )
    def ask_for_a_change_of_no_session(self, name: str) -> None:
        assert type(self.attempt(getattr(self.manager, name), None)) is NoActiveSession

    # ------------------------------------------------------------------------------- the others

    @precondition(lambda self: bool(self.disk))
    @rule(data=st.data(), delete=st.sampled_from([False, False, False, True]))
    def somebody_else_changes_a_session(self, data: st.DataObject, delete: bool) -> None:
        mine = [] if self.memory is None else [self.memory["session_id"]]
        ids = [known for known in mine if known in self.disk] or sorted(self.disk)
        session_id = data.draw(st.sampled_from(ids))
        other = SessionManager(SessionStore(self.base), clock=self.clock)
        found = other.load(session_id)
        assert found is not None
        if delete:
            assert other.store.delete(session_id)
            del self.disk[session_id]
        else:
            other.save()
            self.disk[session_id] = as_plain(found)

    @rule(seconds=st.sampled_from([1.5, 86_400, 40 * 86_400, -3_600]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    # ------------------------------------------------------------------------------- what holds

    @invariant()
    def memory_is_what_the_model_says(self) -> None:
        session = self.manager.current_session
        assert (None if session is None else as_plain(session)) == self.memory

    @invariant()
    def the_disk_is_what_the_model_says(self) -> None:
        reader = SessionStore(self.base)
        assert reader.list_sessions() == sorted(self.disk)
        for session_id, model in self.disk.items():
            found = reader.load(session_id)
            assert found is not None
            assert as_plain(found) == model

    @invariant()
    def nothing_else_is_in_the_base(self) -> None:
        if self.base.exists():
            shown = {path.name for path in self.base.iterdir()}
            shown = {name for name in shown if not name.startswith(".discarded-")}
            assert shown - {".gitkeep", ".prune"} == set(self.disk)
            for session_id in self.disk:
                assert [p.name for p in (self.base / session_id).iterdir()] == ["session.yaml"]

    @invariant()
    def no_descriptor_is_left_open(self) -> None:
        assert self.fs.open_descriptors == {}


@pytest.mark.timeout(900)
def test_memory_and_disk_are_what_the_model_says_after_every_call() -> None:
    ManagerMachine.reached.clear()

    run_state_machine_as_test(
        ManagerMachine,
        settings=settings(
            max_examples=examples(375),
            stateful_step_count=40,
            suppress_health_check=[HealthCheck.filter_too_much],
            report_multiple_bugs=False,
        ),
    )

    assert ManagerMachine.reached["changed"] > 200, ManagerMachine.reached
    assert ManagerMachine.reached["WriteError"] > 20, ManagerMachine.reached
    assert ManagerMachine.reached["SessionConflict"] > 20, ManagerMachine.reached
