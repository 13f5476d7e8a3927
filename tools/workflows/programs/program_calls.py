"""Carries out what a suspended program calls: its agents side by side, then each call in order.

A call is stored under the attempt and the request's number before it is carried out, an agent's
answer before it is applied, a gate's verdict before the program gets it. So a worker that takes the
session up pays for no answer twice, and judges nothing twice.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, Final

from attrs import evolve, frozen

from ...base.cancellation import CancelToken, cancellable, on_cancel
from ...harness.domain.history_events import AgentAnswered, PhaseRequest
from ...harness.ports import Unanswered
from ..converters import made, plain
from ..gates.verdict import Verdict
from ..ports import Stop
from ..run.agent_conversation import AgentConversation
from ..run.phase_change import PhaseChange, put_back
from ..run.phase_gates import PhaseGates
from ..run.progress import BEGINNINGS, Progress
from ..run.run_lock import LedSession
from ..workflow import CODE, TEST_GATES, TESTS, FileGroup, Gate, Phase
from .call_arguments import AgentCall, GateCall, RefusedCall, read_call

_AT_ONCE: Final = 4
"""How many agents of a program work side by side."""
_MAX_SAID_CHARS: Final = 60_000
_OWN: Final = (CODE, TESTS)
_FILES: Final = "files"
_BOUND: Final = TEST_GATES - {"tests_fail"}
"""The kinds of gates that the tests of a passed `tests_fail` bind."""


class CallsStopped(Exception):
    """A call can't be carried out now: the run stops, and the program waits."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.reason)
        self.stop = stop


@frozen(kw_only=True, eq=False)
class ProgramCalls:
    """Carries out the calls of one attempt at a program's phase, under the run's lock.

    Args:
        led: The session.
        phase: The program's phase.
        progress: The session's progress when the attempt began or was taken up.
        gates: Judges and applies.
        conversation: Calls the agent.
    """

    led: LedSession
    phase: Phase
    progress: Progress
    gates: PhaseGates
    conversation: AgentConversation

    def answers(self, requests: Sequence[PhaseRequest]) -> Mapping[int, object]:
        """Return the answer to each request: JSON, or `Unanswered`.

        Raises:
            CallsStopped: The budget, or the agent, does not allow one of them now.
        """
        found: dict[int, object] = {}
        calls: dict[int, AgentCall | GateCall] = {}
        for request in sorted(requests, key=lambda one: one.id):
            try:
                calls[request.id] = self._stored(request)
            except RefusedCall as refused:
                found[request.id] = Unanswered(str(refused))
        agents = {number: one for number, one in calls.items() if isinstance(one, AgentCall)}
        said = self._side_by_side(agents)
        for number, call in calls.items():
            if isinstance(call, GateCall):
                found[number] = self._judged(number, call)
            else:
                found[number] = self._applied(number, call, said[number])
        return found

    def _stored(self, request: PhaseRequest) -> AgentCall | GateCall:
        """Return the call of a request, which is stored from here on."""
        call = read_call(request.tool, request.arguments)
        name = self.progress.key.name("call", request.id)
        described = {"tool": request.tool, **plain(call)}
        stored = self.led.steps.read(name)
        if stored is None:
            self.led.steps.write(name, described)
        elif stored != described:
            raise RefusedCall(
                f"request {request.id} is another call than before the program began again; "
                "`agentforge session retry` begins another attempt"
            )
        return call

    # ------------------------------------------------------------------------------ the agents

    def _side_by_side(
        self, calls: Mapping[int, AgentCall]
    ) -> Mapping[int, PhaseChange | Verdict | Unanswered]:
        """Call the agents; what one of them answered is stored, whatever becomes of the others."""
        if len(calls) < 2:
            return {number: _go_on(self._said(number, one)) for number, one in calls.items()}
        turn, stop = threading.Lock(), CancelToken()

        def ask(number: int, call: AgentCall) -> PhaseChange | Verdict | Stop | Unanswered:
            with cancellable(stop), turn:
                return self._said(number, call, turn)

        with on_cancel(stop.cancel), ThreadPoolExecutor(_AT_ONCE) as pool:
            asked = {
                number: pool.submit(copy_context().run, ask, number, call)
                for number, call in calls.items()
            }
            try:
                answers = {number: one.result() for number, one in asked.items()}
            except BaseException:
                stop.cancel()
                raise
        return {number: _go_on(answer) for number, answer in answers.items()}

    def _said(
        self, number: int, call: AgentCall, turn: threading.Lock | None = None
    ) -> PhaseChange | Verdict | Stop | Unanswered:
        try:
            phase, led = self._phase_of(call)
        except RefusedCall as refused:
            return Unanswered(str(refused))
        conversation = evolve(self.conversation, led=led, first=number)
        if turn is not None:
            conversation = evolve(conversation, aside=partial(_released, turn))
        return conversation.converse(phase, self._progress(number, call))

    def _phase_of(self, call: AgentCall) -> tuple[Phase, LedSession]:
        """Return a call as a phase of its own, and the session with a workflow that has it."""
        workflow = self.led.job.workflow
        own = [word for word in _OWN if word in call.writes]
        if own and self.led.job.component is None:
            raise RefusedCall(f"agent: writes names {own[0]!r}, and the work has no component")
        paths = [path for path in call.writes if path not in own]
        phase = Phase(
            name=call.name,
            mode="do what the program asks",
            prompt=call.prompt,
            writes=[*own, *([_FILES] if paths else [])],
            gate=self._gate(call.gate or "unchecked"),
            max_attempts=1,
            questions="refused",
        )
        groups = [FileGroup(name=_FILES, paths=paths)] if paths else []
        unchecked = evolve(phase, gate=Gate(kind="unchecked"))
        job = evolve(self.led.job, workflow=evolve(workflow, phases=[unchecked], groups=groups))
        return phase, evolve(self.led, job=job)

    def _progress(self, number: int, call: AgentCall) -> Progress:
        """Return the progress as the conversation of a call counts it."""
        charged = any(
            isinstance(entry.event, AgentAnswered) and entry.event.call == number
            for entry in self._of_attempt()
        )
        names = (self.progress.key.name("call", one) for one in range(1, number))
        earlier = [found for one in names if (found := self.led.steps.read(one))]
        turn = 1 + sum((one["tool"], one["name"]) == ("agent", call.name) for one in earlier)
        return evolve(self.progress, calls=number if charged else number - 1, turn=turn)

    def _of_attempt(self) -> Iterator[Any]:
        """Yield the entries of the current attempt, newest first."""
        for entry in reversed(self.led.session.history):
            if isinstance(entry.event, BEGINNINGS):
                return
            yield entry

    def _applied(
        self, number: int, call: AgentCall, said: PhaseChange | Verdict | Unanswered
    ) -> object:
        """Apply an agent's files, again if a worker died before the program had the answer."""
        if isinstance(said, Unanswered):
            return said
        phase, _ = self._phase_of(call)
        verdict = said if isinstance(said, Verdict) else self._taken(phase, said)
        self.led.observer.phase_finished(phase, verdict, None)
        written = () if isinstance(said, Verdict) else tuple(said.written)
        known = {artifact.path for artifact in self.led.session.artifacts}
        self._note(
            number,
            f"agent {call.name}: {verdict.summary}",
            [(path, "modified" if path in known else "created") for path in written],
        )
        if not verdict.passed or isinstance(said, Verdict):
            return Unanswered("\n".join((verdict.summary, *verdict.evidence)))
        return {
            "text": said.said[:_MAX_SAID_CHARS],
            "written": list(written),
            "deleted": list(said.deleted),
        }

    def _taken(self, phase: Phase, change: PhaseChange) -> Verdict:
        """Apply a change, and return whether all of it was taken."""
        self.gates.apply(evolve(phase, gate=Gate(kind="unchecked")), change)
        refused = put_back(change, phase.name)
        if refused is not None:
            return refused
        if change.contested:
            evidence = [f"Contested: {name}: {reason}" for name, reason in change.contested]
            summary = "the agent says that no implementation can pass some tests"
            return Verdict(gate="agent", passed=False, summary=summary, evidence=evidence)
        done = [f"wrote {', '.join(change.written)}"] if change.written else []
        done += [f"deleted {', '.join(change.deleted)}"] if change.deleted else []
        return Verdict(gate="agent", passed=True, summary="; ".join(done) or "changed nothing")

    # ------------------------------------------------------------------------------- the gates

    def _gate(self, kind: str, **more: Any) -> Gate:
        """Return a gate with the settings that the person gave."""
        own = self.phase.agents_gate
        if kind not in TEST_GATES:
            return Gate(kind=kind, **more)
        if own.command is None and self.led.job.component is None:
            raise RefusedCall(
                f"gate: {kind} runs tests, and this session has no command for them (--gate) and "
                "no component (--spec)"
            )
        return evolve(own, kind=kind, code=None, **more)

    def _judged(self, number: int, call: GateCall) -> object:
        """Return the verdict on the files as they are, from its record if there is one."""
        name = self.progress.key.name("gate", number)
        stored = self.led.steps.read(name)
        if stored is not None:
            return _shown(self.led.steps.made(name, lambda: made(Verdict, stored)))
        red = self._red(number)
        fixed = red is not None if call.tests_unchanged is None else call.tests_unchanged
        if fixed and red is None:
            return Unanswered("gate: tests_unchanged: no tests_fail was passed before")
        try:
            gate = self._gate(
                call.kind,
                require=call.require,
                covers_criteria=call.covers_criteria,
                tests_unchanged=fixed and call.kind in _BOUND,
            )
        except RefusedCall as refused:
            return Unanswered(str(refused))
        phase = Phase(name=call.name, gate=gate, max_attempts=1)
        self.led.gate_started(phase)
        change = PhaseChange()
        files = self.gates.apply(phase, change)
        verdict = self.gates.judge(phase, self.progress, change, files, red=red)
        self.led.steps.write(name, verdict.to_json())
        self.led.observer.phase_finished(phase, verdict, None)
        self._note(number, f"gate {call.kind} {verdict.outcome}: {verdict.summary}")
        return _shown(verdict)

    def _red(self, before: int) -> Mapping[str, Any] | None:
        """Return the facts of the last red tests that the program saw, or None."""
        for number in range(before - 1, 0, -1):
            found = self.led.steps.read(self.progress.key.name("gate", number))
            if found is not None and found["gate"] == "tests_fail" and found["passed"]:
                facts: Mapping[str, Any] = found["facts"]
                return facts
        return None

    def _note(self, number: int, text: str, artifacts: Sequence[tuple[str, str]] = ()) -> None:
        """Record what became of a call; no decision is based on it."""
        words = f"request {number}: {text}".encode("utf-8", "backslashreplace").decode()
        self.led.manager.record("program_call", words, artifacts=artifacts)


def _go_on(
    answer: PhaseChange | Verdict | Stop | Unanswered,
) -> PhaseChange | Verdict | Unanswered:
    if isinstance(answer, Stop):
        raise CallsStopped(answer)
    return answer


@contextmanager
def _released(turn: threading.Lock) -> Iterator[None]:
    turn.release()
    try:
        yield
    finally:
        turn.acquire()


def _shown(verdict: Verdict) -> dict[str, Any]:
    """Return what a program gets of a verdict."""
    counts = {name: value for name, value in verdict.facts.items() if type(value) is int}
    return {
        "passed": verdict.passed,
        "summary": verdict.summary,
        "evidence": list(verdict.evidence),
        "counts": counts,
    }
