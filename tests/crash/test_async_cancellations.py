"""Asynchronous work that is cancelled at any moment: the session is whole, and nothing is left.

A story is led by a manager in an event loop; at one of its moments the task is cancelled. A moment
is a call of the file system in a save, the run of a program or of a guest, the wait for a person,
or an await. Then the session is looked at, and gone on with to its end.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from anyio.lowlevel import checkpoint
from attrs import define, field

from agentforge_sessions.base.cancellation import is_cancelled
from agentforge_sessions.base.program_run import ProgramRun, run_program
from agentforge_sessions.entrypoints.aio import AsyncSessionManager
from agentforge_sessions.entrypoints.aio.thread_call import caller_of_this_loop
from agentforge_sessions.harness import (
    PhaseResult,
    Question,
    SessionContext,
    SessionManager,
    SessionState,
    SessionStore,
)
from agentforge_sessions.harness.domain.history_events import PhaseSucceeded, QuestionAsked
from agentforge_sessions.questions import QuestionSessions
from agentforge_sessions.wiring.phases.question_channel import QuestionSessionChannel
from agentforge_sessions.wiring.phases.sandbox_executor import SandboxPhaseExecutor
from tests.support.descriptors import held_below
from tests.support.filesystem import Call, FaultyFileSystem
from tests.support.promptness import wait_until
from tests.support.soak import SOAKING

TRIES: Final = 1000 if SOAKING else 20
PHASES: Final = ("red", "green", "refactor")
QUESTION: Final = Question(prompt="Which way?", title="Way", options=["left", "right"])
ENVIRONMENT: Final = {"PATH": os.environ["PATH"]}
KEPT_THREADS: Final = ("sandbox-", "wasi-", "Thread-", "agentforge-questions")
"""What the process keeps for later: interpreters that are opened ahead, and watchers of files."""


@define
class Moments:
    """Counts the moments of a story, and cancels it at one of them."""

    chosen: int | None
    seen: int = 0
    cancel: Callable[[], object] = lambda: None
    kinds: list[str] = field(factory=list)

    def pass_by(self, kind: str) -> bool:
        """Count a moment; True where it is the chosen one, and the story is being cancelled."""
        self.kinds.append(kind)
        self.seen += 1
        if self.chosen is None or self.seen - 1 != self.chosen:
            return False
        self.cancel()
        return True

    def stand_still(self, kind: str) -> None:
        """Count a moment of a thread; at the chosen one, stay until the cancellation is here."""
        if self.pass_by(kind):
            wait_until(is_cancelled)


class Phases:
    """Runs the phases: a program, a guest where there is to be one, and nothing."""

    def __init__(self, moments: Moments, guests: SandboxPhaseExecutor | None) -> None:
        self._moments = moments
        self._guests = guests

    def execute(
        self,
        code: str,
        *,
        session_id: str,
        deadline_s: float | None = None,
        fuel: int | None = None,
    ) -> PhaseResult:
        cancelled = self._moments.pass_by(code)
        if code == "red":
            seconds = "3600" if cancelled else "0"
            run_program(ProgramRun(["sleep", seconds], ENVIRONMENT, timeout_s=3600))
        if code == "green" and self._guests is not None:
            script = "while True: pass" if cancelled else "open('made.txt', 'w').write('x')"
            return self._guests.execute(script, session_id=session_id, deadline_s=600)
        return PhaseResult(success=True, exit_code=0)


class Story:
    """One session on one machine, led by managers that come one after another."""

    def __init__(self, place: Path, *, guests: bool) -> None:
        self.base = place / "sessions"
        self.questions = place / "questions"
        self.guests = guests

    def manager(self, moments: Moments) -> AsyncSessionManager:
        def before(call: Call) -> None:
            if is_counted(call):
                moments.stand_still(f"file: {call.operation}")

        store = SessionStore(self.base, fs=FaultyFileSystem(before=before))
        guests = SandboxPhaseExecutor(store) if self.guests else None
        self.channel = QuestionSessionChannel(QuestionSessions(self.questions))
        return AsyncSessionManager(
            SessionManager(store, executor=Phases(moments, guests), channel=self.channel)
        )

    async def lead(self, manager: AsyncSessionManager, moments: Moments) -> None:
        """Go on from wherever the session stands, to its end."""

        async def step() -> None:
            moments.pass_by("await")
            await checkpoint()

        await step()
        ids = [one.session_id async for one in manager.find()]
        if manager.current_session is None:
            await step()
            if ids:
                await manager.open(ids[0])
            else:
                await manager.create("tdflow", PHASES[0], goal="A story")
        session = manager.current_session
        assert session is not None
        while session.state is SessionState.ACTIVE:
            await step()
            phase = session.current_phase
            assert phase is not None
            if phase not in passed(session):
                await manager.run_phase(phase, tokens=10)
                continue
            if phase == "green":
                await manager.ask([QUESTION], key="way", on_waiting=self.answering(moments))
            await step()
            await manager.record(f"note on {phase}", tokens=1)
            await step()
            if phase == PHASES[-1]:
                await manager.complete()
            else:
                await manager.advance_phase(PHASES[PHASES.index(phase) + 1])

    def answering(self, moments: Moments) -> Callable[[str], object]:
        def answer(question_id: str) -> None:
            if not moments.pass_by("question"):
                self.channel.answer(question_id, ["left"])

        return answer


def is_counted(call: Call) -> bool:
    return call.operation in {"mkdir", "writev", "fsync", "rename", "flock"} or call.writing


def passed(session: SessionContext) -> list[str]:
    return [
        str(entry.phase) for entry in session.history if isinstance(entry.event, PhaseSucceeded)
    ]


def values(session: SessionContext) -> dict[str, Any]:
    return {one.name: getattr(session, one.name) for one in fields(session)}


def children() -> list[str]:
    found = []
    for task in Path("/proc/self/task").iterdir():
        try:
            found += (task / "children").read_text().split()
        except FileNotFoundError:  # the thread has ended meanwhile
            continue
    return found


def open_pipes() -> int:
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # closed meanwhile, or the listing's own
            found += os.readlink(f"/proc/self/fd/{name}").startswith("pipe:")
    return found


def extra_threads(before: set[threading.Thread]) -> list[threading.Thread]:
    return [
        one
        for one in threading.enumerate()
        if one not in before and not one.name.startswith(KEPT_THREADS)
    ]


def ids_of(story: Story) -> list[str]:
    return [one.session_id for one in SessionManager(story.base).find(on_unreadable=pytest.fail)]


def require_whole(story: Story, manager: AsyncSessionManager) -> None:
    """Another worker reads the session, and memory is what it reads."""
    found = SessionStore(story.base)
    ids = ids_of(story)
    assert len(ids) <= 1
    current = manager.current_session
    if not ids:
        assert current is None
        return
    session = found.load(ids[0])
    assert session is not None
    if current is not None:
        assert values(current) == values(session)
    assert sorted(set(passed(session))) == sorted(passed(session)), "a result is recorded once"


def run_story(
    story: Story, moments: Moments, backend: str, manager: AsyncSessionManager | None = None
) -> AsyncSessionManager:
    led = manager if manager is not None else story.manager(moments)

    async def main() -> None:
        soon = caller_of_this_loop()
        with anyio.CancelScope() as scope:
            moments.cancel = lambda: soon(scope.cancel)
            await story.lead(led, moments)

    anyio.run(main, backend=backend)
    return led


def moments_of(place: Path, *, guests: bool) -> list[str]:
    moments = Moments(None)
    run_story(Story(place, guests=guests), moments, "asyncio")
    return moments.kinds


def require_ended(story: Story) -> None:
    store = SessionStore(story.base)
    (session_id,) = ids_of(story)
    session = store.load(session_id)
    assert session is not None
    assert session.state is SessionState.COMPLETED
    assert passed(session) == list(PHASES)
    asked = [one for one in session.history if isinstance(one.event, QuestionAsked)]
    assert len(asked) == 1
    assert session.token_budget.tokens_used >= 33


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_cancelled_work_leaves_whole_sessions_and_nothing_else(
    tmp_path: Path, backend: str
) -> None:
    chance = random.Random(f"cancellations {backend}")
    kinds = {
        guests: moments_of(tmp_path / f"counted-{guests}", guests=guests)
        for guests in (False, True)
    }
    threads, pipes, processes = set(threading.enumerate()), open_pipes(), set(children())
    met: dict[str, int] = {}
    for number in range(TRIES // 2):
        guests = number % 5 == 0
        chosen = chance.randrange(len(kinds[guests]))
        story = Story(tmp_path / f"try-{number}", guests=guests)
        moments = Moments(chosen)
        manager = run_story(story, moments, backend)
        kind = moments.kinds[chosen]
        met[kind] = met.get(kind, 0) + 1
        said = f"{backend}, try {number}: moment {chosen} of {kinds[guests]} ({kind})"
        wait_until(lambda: not extra_threads(threads))  # one of a call that was over ends by itself
        require_whole(story, manager)
        # The same worker goes on, or another one does.
        run_story(story, Moments(None), backend, manager if chance.random() < 0.5 else None)
        require_ended(story)
        assert set(children()) <= processes, said
    wait_until(lambda: open_pipes() <= pipes)  # the pool's interpreters have none
    assert held_below(tmp_path) == []
    print(backend, dict(sorted(met.items())))
    assert len(met) >= 4, met
