"""Sessions of agents, scripts and a person's questions: how they are led, and what they tell."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import asdict, define

from agentforge_sessions.entrypoints.cli.output.render import phase_rows
from agentforge_sessions.entrypoints.pages.values.attempts import attempts_of
from agentforge_sessions.harness import (
    PersonAnswer,
    Question,
    QuestionAnswered,
    QuestionEnded,
    QuestionWaits,
    SessionContext,
    SessionManager,
    SessionStore,
)
from agentforge_sessions.workflows import Input, Phase, Script, Workflow
from agentforge_sessions.workflows.agents.port import AgentAnswer, AgentQuestion, AgentUnavailable
from agentforge_sessions.workflows.run.progress import (
    charges,
    cost_of_attempt,
    extension_in,
    progress_of,
    time_spent,
)
from agentforge_sessions.workflows.runner import WorkflowRunner
from tests.support.agents import (
    GOOD,
    GREEN,
    RED,
    WRONG,
    AgentGround,
    FakePerson,
    ScriptedAgent,
    Tick,
    block,
)
from tests.unit.workflows.fakes import Ground, Killed


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
            [
                one.name,
                one.outcome.value,
                (one.result.details or "").partition("\n")[0],
                f"{one.tokens:,}",
            ]
            for one in attempts_of(session)
            if one.result is not None
        ],
    }
    found: dict[str, Any] = json.loads(json.dumps(told, default=str))
    return found


LATER: Final = Tick().now.replace(hour=1)
WIDE = AgentQuestion(prompt="How wide is an integer?", title="Width")
ASKS = AgentAnswer(text="", questions=[WIDE])
BAD = block("adder.py", WRONG)
COLOUR = Question(prompt="Which colour?\nOf two.", title="Colour", options=["red", "blue"])
SCRIPTS = Workflow(
    name="scripts",
    workflow_type="flow",
    token_budget=100,
    phases=[
        Phase(name="first", gate=Script(code="write a/b text\nsay done; 9 tokens"), tokens=30),
        Phase(
            name="second",
            gate=Script(code="append a/b more\nfails-first"),
            tokens=20,
            max_attempts=3,
        ),
        Phase(name="third", gate=Script(code="remove a/b"), tokens=60),
    ],
    inputs=[Input(target="spec/a", content=b"a"), Input(target="b, c", content=b"b")],
)


def office(base: Path, *, answer: str | None = None, **script: Any) -> Office:
    return Office(
        base, agent=ScriptedAgent(script={**GOOD, **script}), person=Person(answer=answer)
    )


def _of(outcome: Any) -> dict[str, Any]:
    """Return an outcome with the cause of its stop in place of the stop."""
    plain = asdict(outcome, filter=lambda one, _: one.name != "stop")
    return {**plain, "cause": outcome.cause}


def told(base: Path, outcome: Any, requests: list[Any] | None = None) -> dict[str, Any]:
    """Return what became of a session, as JSON has it."""
    store = SessionStore(base)
    (session_id,) = store.list_sessions()
    session = store.load(session_id)
    assert session is not None
    found: dict[str, Any] = json.loads(
        json.dumps(
            {
                "outcome": outcome if isinstance(outcome, str) else _of(outcome),
                "prompts": [
                    hashlib.sha256(one.prompt.encode()).hexdigest() for one in requests or []
                ],
                "accounts": accounts(session, store),
            },
            default=str,
        )
    )
    return found


# ------------------------------------------------------------------------------- how they were made


def make_waiting(base: Path) -> None:
    """An agent asked, and nobody has answered yet."""
    office(base, red=[ASKS, RED]).start()


def make_unreachable(base: Path) -> None:
    """Questions were answered, a gate was not passed, more was allotted, and the agent is gone."""
    gone = AgentUnavailable(agent="scripted", problem="there is no key")
    ground = office(base, answer="wide; 7 tokens", red=[ASKS, RED], green=[BAD, gone])
    ground.start(token_budget=100_000)
    manager = ground.manager()
    manager.extend_budget(50_000)
    manager.record_tokens(90_000)
    manager.add_history("noted", "nothing; 9 tokens; 3.00 s;")


def make_exhausted(base: Path) -> None:
    """A phase failed as often as it may."""
    office(base, green=[BAD]).start()


def make_killed(base: Path) -> None:
    """The worker was killed between an answer and its verdict."""
    ground = office(base, green=[BAD, GREEN])
    runs = iter([None, None, Killed()])

    def kill() -> None:
        error = next(runs)
        if error is not None:
            raise error

    ground.gates.before = kill
    with pytest.raises(Killed):
        ground.start()


def make_scripts(base: Path) -> None:
    """Scripts: one failed, was tried again, and the budget does not cover the last."""
    ground = Ground(base)
    session_id = ground.worker().start(SCRIPTS).session_id
    ground.worker().resume(session_id)
    manager = SessionManager(SessionStore(base), clock=ground.clock)
    manager.load(session_id)
    manager.extend_budget(40)


def make_asked(base: Path) -> None:
    """A person answered one question by hand, and the session is paused for another."""
    manager = SessionManager(base, channel=Person(answer="red"), clock=Tick())
    manager.create("hand", "paint", 1000, goal="Paint it.")
    manager.ask([COLOUR], key="one")
    manager = _manager(base, Person())
    with pytest.raises(QuestionWaits):
        manager.ask([COLOUR], key="two", pause=True, timeout_s=0)


MAKERS: Final[dict[str, Callable[[Path], None]]] = {
    "waiting": make_waiting,
    "unreachable": make_unreachable,
    "exhausted": make_exhausted,
    "killed": make_killed,
    "scripts": make_scripts,
    "asked": make_asked,
}


# ----------------------------------------------------------------------------- how they are gone on


def _manager(base: Path, person: Person) -> SessionManager:
    manager = SessionManager(base, channel=person, clock=Tick(now=LATER))
    (session_id,) = manager.store.list_sessions()
    manager.load(session_id)
    return manager


def _later(base: Path, **more: Any) -> Office:
    ground = office(base, **more)
    ground.clock = Tick(now=LATER)
    return ground


def _resume(base: Path, **more: Any) -> dict[str, Any]:
    ground = _later(base, **more)
    return told(base, ground.resume(), ground.agent.requests)


def _retry(base: Path) -> dict[str, Any]:
    ground = _later(base)
    outcome = ground.worker().retry(ground.session_id, "look at the sign", ground.agent)
    return told(base, outcome, ground.agent.requests)


def _resume_scripts(base: Path) -> dict[str, Any]:
    ground = Ground(base)
    ground.clock.now = LATER
    session_id = ground.only_session()
    assert session_id is not None
    return told(base, ground.worker().resume(session_id))


def _reply(ended: QuestionEnded) -> dict[str, object]:
    """Return a reply as JSON has it."""
    return {
        "question_id": ended.question_id,
        "outcome": ended.outcome,
        "text": ended.text,
        "answers": [dataclasses.asdict(one) for one in ended.answers],
        "reason": ended.reason,
    }


def _ask_again(base: Path) -> dict[str, Any]:
    person = Person(answer="blue")
    manager = _manager(base, person)
    one = manager.ask([COLOUR], key="one")
    two = manager.ask([COLOUR], key="two", pause=True)
    return told(base, json.dumps([_reply(one), _reply(two), sorted(person.asked)]))


GO_ON: Final[dict[str, Callable[[Path], dict[str, Any]]]] = {
    "waiting": lambda base: _resume(base, answer="any", red=[RED]),
    "unreachable": _resume,
    "exhausted": _retry,
    "killed": lambda base: _resume(base, green=[GREEN]),
    "scripts": _resume_scripts,
    "asked": _ask_again,
}
