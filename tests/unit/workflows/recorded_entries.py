"""Sessions whose history has no data, as earlier versions left them: what is told of each."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from attrs import asdict, define

from agentforge_sessions.entrypoints.cli.render import phase_rows
from agentforge_sessions.harness import (
    PersonAnswer,
    QuestionAnswered,
    QuestionEnded,
    SessionContext,
    SessionManager,
    SessionStore,
)
from agentforge_sessions.pages.attempts import Outcome, attempts_of
from agentforge_sessions.workflows.progress import (
    charges,
    cost_of_attempt,
    extension_in,
    progress_of,
    time_spent,
)
from agentforge_sessions.workflows.runner import WorkflowRunner
from tests.support.agents import AgentGround, FakePerson

RECORDED = Path(__file__).resolve().parents[2] / "recorded" / "entries_without_data"


@define
class Person(FakePerson):
    """Answers every question with what it was given, or not at all; ids follow from the keys."""

    answer: str | None = None

    def id_for(self, key: str) -> str:
        return f"q-{hashlib.sha256(key.encode()).hexdigest()[:8]}"

    def wait(self, question_id: str, timeout_s: float | None) -> QuestionEnded | None:
        if self.answer is None:
            return None
        told = f"1. {self.asked[question_id][0].prompt}\n→ {self.answer}"
        return QuestionAnswered(
            question_id=question_id,
            text=told,
            answers=tuple(
                PersonAnswer(question_index=index, text=self.answer)
                for index, _ in enumerate(self.asked[question_id])
            ),
        )


@define
class Office(AgentGround):
    """A ground where each call of an agent takes 1.25 seconds."""

    looks: float = 0.0

    def look(self) -> float:
        self.looks += 1.25
        return self.looks

    def worker(self, fs: object = None, **more: Any) -> WorkflowRunner:
        store = SessionStore(self.base)
        return WorkflowRunner(
            SessionManager(store, channel=self.person, clock=self.clock),
            self.gates,
            lock_timeout_s=0,
            monotonic=self.look,
            **more,
        )


def take(name: str, place: Path) -> Path:
    """Copy a recorded base and return the copy."""
    return Path(shutil.copytree(RECORDED / name / "sessions", place / "sessions"))


def expected(name: str, part: str) -> Any:
    """Return what the version that left the session told of it."""
    return json.loads((RECORDED / name / f"{part}.json").read_text())


def accounts(session: SessionContext, store: SessionStore) -> dict[str, Any]:
    """Return all that is told of a session, as JSON has it."""
    manager = SessionManager(store)
    manager.load(session.session_id)
    told = {
        "standing": asdict(progress_of(session)),
        "time": asdict(time_spent(session.history)),
        "charges": [cost for _, cost in charges(session.history)],
        "extensions": [extension_in(entry) for entry in session.history],
        "cost_of_attempt": cost_of_attempt(session),
        "rows": [asdict(row) for row in phase_rows(session)],
        "tokens_used": session.token_budget.tokens_used,
        "total_budget": session.token_budget.total_budget,
        "history": [[one.action, one.phase, one.details] for one in session.history],
        "artifacts": [[one.path, one.artifact_type, one.phase] for one in session.artifacts],
        "briefing": manager.briefing(100_000),
        "attempts": [
            [one.name, one.outcome.value, one.details.partition("\n")[0], f"{one.tokens:,}"]
            for one in attempts_of(session)
            if one.outcome is not Outcome.OPEN
        ],
    }
    found: dict[str, Any] = json.loads(json.dumps(told, default=str))
    return found
