"""One attempt at an agent's phase: answer, files, gate, verdict, record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import evolve, frozen

from ...base.tracing import Attribute, Traced, traced
from ...harness.domain.history_events import GateJudged, PhaseFailed, PhaseSucceeded
from ...harness.domain.session_entries import spelled
from ...harness.events.session_spans import attempt_span
from ...harness.session_layout import STEPS
from ..agents.port import AgentOption, AgentQuestion
from ..documents.specification_document import with_status
from ..errors import BudgetTooSmall
from ..gates.verdict import Verdict, failed, not_taken, passed
from ..ports import Stop
from ..workflow import Phase
from .agent_conversation import AgentConversation
from .agent_questions import AgentQuestions
from .phase_change import PhaseChange, put_back
from .phase_gates import PhaseGates
from .progress import Progress, cost_of_attempt
from .run_lock import LedSession

APPROVE: Final = "Approve"
CHANGES: Final = "Ask for changes"
_YES: Final = frozenset({APPROVE.casefold(), "approved", "yes"})
"""Answers that approve, if typed instead of chosen; any other answer asks for changes."""
_RECORDED_EVIDENCE: Final = 4000


@frozen(kw_only=True, eq=False)
class AgentAttempts:
    """Runs attempts at the phases of one session, under its lock."""

    led: LedSession
    gates: PhaseGates
    questions: AgentQuestions
    conversation: AgentConversation

    def hindrance(self, phase: Phase) -> Stop | None:
        """Return None: the budget is checked before each call of the agent."""
        del phase
        return None

    def refusal(self, phase: Phase, progress: Progress) -> BudgetTooSmall | None:
        """Return why the budget does not allow resuming the session, or None."""
        return self.conversation.refusal(phase, progress)

    def verdict(self, progress: Progress) -> Verdict | None:
        """Return the verdict on the current attempt, if there is one."""
        return self.led.steps.verdict(progress.key)

    def run(self, phase: Phase, progress: Progress) -> Stop | None:
        """Make an attempt, or continue one, up to its recorded verdict."""
        with attempt_span(self.led.session, {}) as span:
            ended = self._run(phase, progress)
            if isinstance(ended, Stop):
                span.set(Attribute.OUTCOME, "stopped")
                return ended
            span.set(Attribute.OUTCOME, ended.outcome)
            return None

    def _run(self, phase: Phase, progress: Progress) -> Verdict | Stop:
        key = progress.key
        verdict = self.led.steps.verdict(key)
        if verdict is None:
            stop = self.gates.ready_base(phase, progress)
            if stop is not None:
                return stop
            found = self._attempt(phase, progress)
            if isinstance(found, Stop):
                return found
            verdict = found
            self.led.steps.keep_verdict(key, verdict)
        else:
            self._apply_again(phase, progress, verdict)
        self._record(progress, verdict)
        self.led.observer.phase_finished(phase, verdict, None)
        self.led.observer.budget(self.led.budget)
        return verdict

    # ----------------------------------------------------------------------------------- an attempt

    def _attempt(self, phase: Phase, progress: Progress) -> Verdict | Stop:
        change = PhaseChange()
        if phase.prompt is not None:
            found = self.conversation.converse(phase, progress)
            if not isinstance(found, PhaseChange):
                return found
            change = found
            problem = self._contest_problem(progress, phase, change.contested)
            if problem is not None:
                return problem
        files = self.gates.apply(phase, change)
        judged: Verdict | Stop | None = put_back(change, phase.name)
        if judged is None:
            self.led.gate_started(phase)
            judged = self._judged(phase, progress, change, files)
        if isinstance(judged, Stop):
            return judged
        facts = {**judged.facts, "written": list(change.written), "deleted": list(change.deleted)}
        if change.sealed is not None:
            facts["agent_sealed"] = change.sealed
        if phase.agents_gate.kind == "plan":
            facts["plan"] = change.said
        if change.dropped:
            facts["dropped"] = list(change.dropped)
        if change.contested and not judged.passed:
            return _contest(judged, change.contested, facts)
        return evolve(judged, facts=facts)

    def _judged(
        self, phase: Phase, progress: Progress, change: PhaseChange, files: dict[str, bytes]
    ) -> Verdict | Stop:
        kind = phase.agents_gate.kind
        about = {
            Attribute.SESSION_ID: self.led.session.session_id,
            Attribute.PHASE: phase.name,
            Attribute.GATE: kind,
        }
        with traced(Traced.GATE, about, detail=kind) as span:
            judged = (
                self._approval(phase, progress)
                if kind == "approval"
                else self.gates.judge(phase, progress, change, files)
            )
            span.set(Attribute.OUTCOME, "stopped" if isinstance(judged, Stop) else judged.outcome)
            return judged

    def _apply_again(self, phase: Phase, progress: Progress, verdict: Verdict) -> None:
        """Restore the judged files, if a worker was killed before it recorded the verdict.

        On the same machine the files are still so; on another one they are from the last
        checkpoint.
        """
        if "written" not in verdict.facts:
            return  # nothing was applied
        if phase.prompt is not None:
            change = self.conversation.converse(phase, progress)
            if isinstance(change, PhaseChange):
                self.gates.apply(phase, change)
        approved = verdict.facts.get("approved", ())
        if approved:
            self._approve(approved, self.led.files.read())

    def _approve(self, paths: Sequence[str], files: Mapping[str, bytes]) -> dict[str, bytes]:
        """Set the status of approved files to approved; return those that changed."""
        approved = {
            path: text
            for path in paths
            if (text := with_status(files[path], "approved")) is not None
        }
        self.led.files.apply(approved, (), there=files)
        return approved

    def _contest_problem(
        self, progress: Progress, phase: Phase, contested: Sequence[tuple[str, str]]
    ) -> Verdict | None:
        """Return the verdict on a contest of changeable or unknown tests; None if it is valid."""
        if not contested:
            return None
        tests = tuple((self.gates.red(progress) or {}).get("tests", ()))
        if not phase.agents_gate.tests_unchanged or not tests:
            return not_taken(
                f"it contests tests, and phase {phase.name} has none to contest",
                ["Tests are contested where they are fixed; here, write what is asked."],
            )
        unknown = [name for name, _ in contested if not any(_names(name, one) for one in tests)]
        if not unknown:
            return None
        return not_taken(
            f"it contests {', '.join(unknown)}, which is none of the tests",
            ["Nothing of it was applied. The tests are:", *tests],
        )

    # -------------------------------------------------------------------------------- the person

    def _approval(self, phase: Phase, progress: Progress) -> Verdict | Stop:
        """Ask a person for approval; approved files then have that status."""
        gate, paths = phase.agents_gate, self.led.job.required(phase)
        files = self.led.files.read()
        missing = [path for path in paths if not files.get(path, b"").strip()]
        if missing:
            return failed(gate, f"{', '.join(missing)} is missing or empty")
        place = ", ".join(str(self.led.files.root / path) for path in paths)
        question = AgentQuestion(
            prompt=f"Read {place}. Is it approved? For changes, say which.",
            title="Approval",
            options=[
                AgentOption(label=APPROVE, description="The work is complete."),
                AgentOption(label=CHANGES, description="It goes back, with what you write."),
            ],
        )
        answers = self.questions.collect([question], f"{progress.key.serial}.approval")
        if isinstance(answers, Stop):
            return answers
        answer = answers[0].strip()
        if answer.rstrip(".!").casefold() not in _YES:
            return failed(gate, "the person asks for changes", [f"The person's words: {answer}"])
        approved = self._approve(paths, files)
        return passed(gate, f"{', '.join(paths)} approved by a person", approved=list(approved))

    # -------------------------------------------------------------------------------- the record

    def _record(self, progress: Progress, verdict: Verdict) -> None:
        """Record a verdict with its files, in one save."""
        key = progress.key
        known = {artifact.path for artifact in self.led.session.artifacts}
        changed = [*verdict.facts.get("written", ()), *verdict.facts.get("approved", ())]
        artifacts = [
            (path, "modified" if path in known else "created") for path in dict.fromkeys(changed)
        ]
        facts = [
            progress.label(key),
            f"{verdict.gate}: {verdict.summary}",
            f"{verdict.duration_s:.2f} s",
        ]
        names = {"agent_sealed": "the agent", "sealed": "the gate's command"}
        open_ones = [name for fact, name in names.items() if verdict.facts.get(fact) is False]
        if open_ones:
            facts.append(f"not sealed: {', '.join(open_ones)}")
        tokens = cost_of_attempt(self.led.session)
        if tokens:
            facts.append(f"{tokens} tokens")
        for word in ("created", "modified"):
            paths = [path for path, kind in artifacts if kind == word]
            if paths:
                facts.append(f"{word} {', '.join(paths)}")
        deleted = verdict.facts.get("deleted", ())
        if deleted:
            facts.append(f"deleted {', '.join(deleted)}")
        evidence = "\n".join(verdict.evidence)
        verdict_file = f"{STEPS}/{key.name('verdict')}"
        if len(evidence) > _RECORDED_EVIDENCE:
            evidence = f"{evidence[:_RECORDED_EVIDENCE]}\n[…] all of it is in {verdict_file}"
        details = "; ".join(" ".join(fact.split()) for fact in facts)
        event = (PhaseSucceeded if verdict.passed else PhaseFailed)(
            attempt=key.attempt,
            seconds=round(verdict.duration_s, 3),
            tokens=tokens,
            problem=None if verdict.passed else verdict.summary,
            verdict=GateJudged(
                gate=verdict.gate,
                passed=verdict.passed,
                summary=verdict.summary,
                evidence=verdict_file if verdict.evidence else None,
                counts=_counts(verdict.facts),
            ),
        )
        self.led.manager.record(
            spelled(event),
            _plain(f"{details}\n{evidence}" if evidence else details),
            artifacts=artifacts,
        )


def _counts(facts: Mapping[str, Any]) -> dict[str, int]:
    """Return the counts among a gate's facts."""
    return {name: value for name, value in facts.items() if type(value) is int}


def _names(name: str, test: str) -> bool:
    """Return whether a name means a test: its whole id, or its end, with parameters or not."""
    known = {test, test.partition("[")[0]}
    return any(one == name or one.endswith(f"::{name}") for one in known)


def _contest(
    judged: Verdict, contested: Sequence[tuple[str, str]], facts: Mapping[str, Any]
) -> Verdict:
    """Return the verdict on an answer that contests tests and does not pass."""
    tests = [name for name, _ in contested]
    return evolve(
        judged,
        summary=f"the agent says that no implementation can pass {', '.join(tests)}; "
        f"{judged.summary}",
        evidence=[
            *(f"Contested: {name}: {reason}" for name, reason in contested),
            *judged.evidence,
        ],
        facts={**facts, "contested": tests},
    )


def _plain(text: str) -> str:
    """Escape what UTF-8 can't encode."""
    return text.encode("utf-8", "backslashreplace").decode()
