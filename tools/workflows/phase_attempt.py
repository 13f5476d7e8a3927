"""One attempt at a phase in which an agent works: answer, files, gate, verdict, record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import evolve, frozen

from ..harness import SessionContext, SessionManager
from ..harness.event_codec import spelled
from ..harness.history_events import GateJudged, PhaseFailed, PhaseSucceeded
from .agent_conversation import AgentConversation
from .agent_questions import AgentQuestions
from .agents.port import AgentOption, AgentQuestion
from .base_record import BaseRecord, BaseRun, keep_base, kept_base
from .command_gates import read_base, request_of
from .component_files import is_in_any, is_test_path
from .errors import BudgetTooSmall
from .gate_port import GateCommands, GateSandbox
from .gates import run_gate
from .job import Job
from .phase_change import PhaseChange, put_back
from .ports import RunObserver, Stop, StopCause
from .progress import Progress, cost_of_attempt, works_on_repository
from .specification_document import with_status
from .step_journal import StepJournal, StepKey, digest_of
from .verdict import GateInput, Verdict
from .workflow import TEST_GATES, Gate, Phase
from .workspace_files import WorkspaceFiles

APPROVE: Final = "Approve"
CHANGES: Final = "Ask for changes"
_YES: Final = frozenset({APPROVE.casefold(), "approved", "yes"})
"""What somebody writes who approves without choosing; whatever else is written asks for changes."""
_RECORDED_EVIDENCE: Final = 4000
_SAID_CHARS: Final = 600


@frozen(kw_only=True, eq=False)
class AgentAttempts:
    """Runs attempts at the phases of one session, under its lock."""

    manager: SessionManager
    observer: RunObserver
    session: SessionContext
    job: Job
    gates: GateSandbox
    commands: GateCommands | None
    questions: AgentQuestions
    conversation: AgentConversation
    steps: StepJournal
    files: WorkspaceFiles

    def hindrance(self, phase: Phase) -> Stop | None:
        """Return None: the budget is looked at before each call of the agent."""
        del phase
        return None

    def refusal(self, phase: Phase, progress: Progress) -> BudgetTooSmall | None:
        """Return why the budget forbids to resume the session, or None."""
        return self.conversation.refusal(phase, progress)

    def verdict(self, progress: Progress) -> Verdict | None:
        """Return the verdict on the current attempt, if there is one."""
        return self.steps.verdict(progress.key)

    def run(self, phase: Phase, progress: Progress) -> Stop | None:
        """Make an attempt, or go on with one, up to its recorded verdict."""
        key = progress.key
        verdict = self.steps.verdict(key)
        if verdict is None:
            stop = self._ready_base(phase, progress)
            if stop is not None:
                return stop
            found = self._attempt(phase, progress)
            if isinstance(found, Stop):
                return found
            verdict = found
            self.steps.keep_verdict(key, verdict)
        self._record(progress, verdict)
        self.observer.phase_finished(phase, verdict, None)
        self.observer.budget(self.session.token_budget)
        return None

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
        files = self._apply(phase, change)
        judged: Verdict | Stop | None = put_back(change, phase.name)
        if judged is None:
            self.observer.gate_started(phase)
            judged = self._judged(phase, progress, change, files)
        if isinstance(judged, Stop):
            return judged
        facts = {**judged.facts, "written": list(change.written), "deleted": list(change.deleted)}
        if change.sealed is not None:
            facts["agent_sealed"] = change.sealed
        if change.dropped:
            facts["dropped"] = list(change.dropped)
        if change.contested and not judged.passed:
            return _contest(judged, change.contested, facts)
        return evolve(judged, facts=facts)

    def _apply(self, phase: Phase, change: PhaseChange) -> dict[str, bytes]:
        """Make the workspace what a change says; return the files that the gate looks at."""
        partly = not _looks_at_all(phase.agents_gate)
        there = self.files.read(change.touched if partly else None)
        written = {path: one.content for path, one in change.written.items()}
        self.files.apply(
            written,
            change.deleted,
            there=there,
            executable={path: one.executable for path, one in change.written.items()},
        )
        if partly:
            return self.files.read(self._places(phase))
        return {path: data for path, data in there.items() if path not in change.deleted} | written

    def _places(self, phase: Phase) -> tuple[str, ...]:
        """Return the files and directories that the gate of a phase looks at itself."""
        component = self.job.component
        own = () if component is None else (*component.code_places, *component.tests)
        artifacts = (artifact.path for artifact in self.session.artifacts)
        return (*self.job.required(phase), *own, *self.job.writable(phase), *artifacts)

    def _judged(
        self, phase: Phase, progress: Progress, change: PhaseChange, files: dict[str, bytes]
    ) -> Verdict | Stop:
        """Have the gate of a phase judge."""
        gate = phase.agents_gate
        if gate.kind == "approval":
            return self._approval(phase, progress)
        baseline = self._baseline(progress)
        commanded = gate.command is not None
        record = kept_base(self.steps) if commanded or gate.kind == "tests_fail" else None
        run = None if record is None else record.run_of(gate)
        instead = self._instead(phase, record, change)
        shown = {path: data for path, data in files.items() if path not in instead}
        shown |= {path: data for path, data in instead.items() if data is not None}
        return run_gate(
            evolve(gate, require=self.job.required(phase)),
            GateInput(
                files=shown,
                component=self.job.component,
                written=tuple(change.written),
                baseline=baseline,
                base={one.target: one.content for one in self.job.inputs},
                answered=self.questions.answered(),
                token=_token(self.session.session_id, progress.key),
                folder=self.files.root if commanded else None,
                instead=instead,
                names=self.files.names() if commanded else (),
                before=None if run is None else run.outcomes,
                test_paths=self._test_paths(phase, baseline, change),
            ),
            self.gates,
            self.commands,
        )

    def _instead(
        self, phase: Phase, record: BaseRecord | None, change: PhaseChange
    ) -> dict[str, bytes | None]:
        """Return the files that a gate sees otherwise than the workspace has them.

        Tests that are written again, after a phase went back to them, have to fail without the
        component all the same; so what this session has written of it is not shown to their gate,
        but what the base had. What is to hold in a fresh checkout is judged without the new files
        that no checkout would have, since the repository ignores them.
        """
        component = self.job.component
        own = {artifact.path for artifact in self.session.artifacts} | {*change.written}
        if phase.agents_gate.kind == "tests_fail" and component is not None:
            base = {} if record is None else record.files
            written = {artifact.path for artifact in self.session.artifacts}
            return {
                path: base.get(path)
                for path in written
                if is_in_any(path, component.code_places) and not is_test_path(component, path)
            }
        if phase.agents_gate.kind == "suite" and works_on_repository(self.session):
            there = {} if record is None else record.files
            return dict.fromkeys(self.files.ignored(own - set(there)))
        return {}

    def _test_paths(
        self, phase: Phase, baseline: Mapping[str, Any] | None, change: PhaseChange
    ) -> tuple[str, ...]:
        """Return which files are tests, where no component says it: those that were red."""
        if self.job.component is not None:
            return ()
        if phase.agents_gate.kind == "tests_fail":
            return tuple({*change.written, *(one.path for one in self.session.artifacts)})
        return tuple((baseline or {}).get("test_digests", ()))

    # ------------------------------------------------------------------------------------ the base

    def _ready_base(self, phase: Phase, progress: Progress) -> Stop | None:
        """Run the gates' commands on the base, once and before anything is written.

        A session that a worker of an earlier version began goes on without.
        """
        component = self.job.component
        gates = {request_of(gate, component): gate for gate in self.job.workflow.command_gates}
        first = progress.key.serial == 1 and not self.steps.names()
        if not gates or not first or self.commands is None:
            return None
        runs: list[BaseRun] = []
        judging = [gate for gate in gates.values() if gate.kind == "tests_fail"]
        chosen = {request_of(gate, component): gate for gate in [*gates.values(), *judging]}
        if self.files.names():
            self.observer.gate_started(phase)
            for request, gate in chosen.items():
                if any(run.is_of(request) for run in runs):
                    continue
                execution = self.commands.run(request, files={}, folder=self.files.root)
                found = read_base(gate, execution)
                if isinstance(found, Verdict):
                    return _unusable_base(found)
                runs.append(
                    BaseRun(
                        command=request.command,
                        report=request.report,
                        report_path=request.report_path,
                        exit_code=execution.result.exit_code,
                        sealed=execution.sealed,
                        outcomes=found,
                    )
                )
        named = [path for path in self.job.all_writable if not path.endswith("/")]
        keep_base(self.steps, BaseRecord(runs=tuple(runs), files=self.files.read(named)))
        return None

    def _contest_problem(
        self, progress: Progress, phase: Phase, contested: Sequence[tuple[str, str]]
    ) -> Verdict | None:
        """Refuse a contest where tests may be changed, or of tests that are not there."""
        if not contested:
            return None
        tests = tuple((self._baseline(progress) or {}).get("tests", ()))
        if not phase.agents_gate.tests_unchanged or not tests:
            return Verdict(
                gate="answer",
                passed=False,
                summary=f"it contests tests, and phase {phase.name} has none to contest",
                evidence=["Tests are contested where they are fixed; here, write what is asked."],
            )
        unknown = [name for name, _ in contested if not any(_names(name, one) for one in tests)]
        if not unknown:
            return None
        return Verdict(
            gate="answer",
            passed=False,
            summary=f"it contests {', '.join(unknown)}, which is none of the tests",
            evidence=["Nothing of it was applied. The tests are:", *tests],
        )

    def _baseline(self, progress: Progress) -> Mapping[str, Any] | None:
        """Return the facts of the red tests that the later phases are held to."""
        for key in reversed(progress.keys[:-1]):
            verdict = self.steps.verdict(key)
            if verdict is not None and verdict.gate == "tests_fail" and verdict.passed:
                return verdict.facts
        return None

    # -------------------------------------------------------------------------------- the person

    def _approval(self, phase: Phase, progress: Progress) -> Verdict | Stop:
        """Have a person decide; what is approved says so from then on."""
        paths = self.job.required(phase)
        files = self.files.read()
        missing = [path for path in paths if not files.get(path, b"").strip()]
        if missing:
            return Verdict(
                gate="approval", passed=False, summary=f"{', '.join(missing)} is missing or empty"
            )
        place = ", ".join(str(self.files.root / path) for path in paths)
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
            return Verdict(
                gate="approval",
                passed=False,
                summary="the person asks for changes",
                evidence=[f"The person's words: {answer}"],
            )
        approved = {
            path: text
            for path in paths
            if (text := with_status(files[path], "approved")) is not None
        }
        self.files.apply(approved, (), there=files)
        return Verdict(
            gate="approval",
            passed=True,
            summary=f"{', '.join(paths)} approved by a person",
            facts={"approved": list(approved)},
        )

    # -------------------------------------------------------------------------------- the record

    def _record(self, progress: Progress, verdict: Verdict) -> None:
        """Record a verdict with its files, in one save."""
        key = progress.key
        known = {artifact.path for artifact in self.session.artifacts}
        changed = [*verdict.facts.get("written", ()), *verdict.facts.get("approved", ())]
        artifacts = [
            (path, "modified" if path in known else "created") for path in dict.fromkeys(changed)
        ]
        facts = [
            progress.label(key),
            f"{verdict.gate}: {verdict.summary}",
            f"{verdict.duration_s:.2f} s",
        ]
        tokens = cost_of_attempt(self.session)
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
        verdict_file = f"{self.steps.directory.name}/{key.name('verdict')}"
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
        self.manager.record(
            spelled(event),
            _plain(f"{details}\n{evidence}" if evidence else details),
            artifacts=artifacts,
        )


def _looks_at_all(gate: Gate) -> bool:
    """Return whether a gate is given all files, and not a few of them beside a folder."""
    return gate.kind == "script" or (gate.kind in TEST_GATES and gate.command is None)


def _unusable_base(found: Verdict) -> Stop:
    said = " ".join(" ".join(found.evidence).split())
    more = f" ({said[:_SAID_CHARS]})" if said else ""
    return Stop(
        reason=f"{found.summary}{more}; nobody was asked; mend that, then resume",
        cause=StopCause.FAILED,
    )


def _counts(facts: Mapping[str, Any]) -> dict[str, int]:
    """Return what a gate counted, of all that it found."""
    return {name: value for name, value in facts.items() if type(value) is int}


def _names(name: str, test: str) -> bool:
    """Whether an agent means a test by a name: its whole id, or its end, with parameters or not."""
    known = {test, test.partition("[")[0]}
    return any(one == name or one.endswith(f"::{name}") for one in known)


def _contest(
    judged: Verdict, contested: Sequence[tuple[str, str]], facts: Mapping[str, Any]
) -> Verdict:
    """Make the verdict on an answer that contests tests and does not pass."""
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
    """Spell out what UTF-8 can't hold."""
    return text.encode("utf-8", "backslashreplace").decode()


def _token(session_id: str, key: StepKey) -> str:
    """Name a gate's result: the same for the same attempt, and unknown to its tests."""
    return digest_of(f"{session_id}/{key.serial}/gate")[:24]
