"""One attempt at one phase: prompt, answer, files, gate, verdict, record."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from attrs import evolve, frozen

from ..durable import FileSystem
from ..harness import (
    PersonReply,
    QuestionWaits,
    SessionContext,
    SessionManager,
    SessionState,
    answers_in_words,
)
from ..harness.briefing import estimate_tokens
from ..harness.event_codec import spelled
from ..harness.history_events import (
    AgentAnswered,
    GateJudged,
    PhaseFailed,
    PhaseSucceeded,
)
from ..harness.question_entries import pause_reason, reply_event
from ..result import Failure, attempt
from .agents.port import (
    AgentAnswer,
    AgentCrashed,
    AgentCutOff,
    AgentFailed,
    AgentOption,
    AgentQuestion,
    AgentRequest,
    PhaseAgent,
    TokenUsage,
)
from .answers import Answer, parse_answer
from .component_files import apply_files, read_workspace
from .errors import BudgetTooSmall
from .gate_port import GateSandbox
from .gates import GateInput, Verdict, run_gate
from .job import Job
from .ports import RunObserver, Stop, StopCause
from .progress import Progress, cost_of_attempt
from .prompts import PromptInput, budget_note, compose
from .specification_document import with_status
from .step_journal import StepJournal, StepKey, StoredAnswer, digest_of
from .workflow import Phase

MAX_CALLS: Final = 8
"""How often an agent is asked within one attempt: once, and once after each round of questions."""
BRIEFING_TOKENS: Final = 2000
APPROVE: Final = "Approve"
CHANGES: Final = "Ask for changes"
_YES: Final = frozenset({APPROVE.casefold(), "approved", "yes"})
"""What somebody writes who approves without choosing; whatever else is written asks for changes."""
_RECORDED_EVIDENCE: Final = 4000


@frozen(kw_only=True, eq=False)
class AgentAttempts:
    """Runs attempts at the phases of one session, under its lock."""

    manager: SessionManager
    observer: RunObserver
    session: SessionContext
    job: Job
    agent: PhaseAgent
    gates: GateSandbox
    answers_timeout_s: float
    monotonic: Callable[[], float]
    fs: FileSystem
    steps: StepJournal
    workspace: Path
    workspace_fd: int

    def hindrance(self, phase: Phase) -> Stop | None:
        """Return None: the budget is looked at before each call of the agent."""
        del phase
        return None

    def refusal(self, phase: Phase, progress: Progress) -> BudgetTooSmall | None:
        """Return why the budget forbids to resume the session, or None."""
        budget = self.session.token_budget
        if (
            phase.prompt is None
            or progress.succeeded
            or self.session.state is not SessionState.PAUSED
            or not budget.is_exhausted
        ):
            return None
        expected = self._expected_cost(phase, progress)
        return BudgetTooSmall(
            self.session.session_id,
            phase=phase.name,
            required=expected,
            remaining=budget.tokens_remaining,
            missing=self._missing(phase, progress, expected),
        )

    def verdict(self, progress: Progress) -> Verdict | None:
        """Return the verdict on the current attempt, if there is one."""
        return self.steps.verdict(progress.key)

    def run(self, phase: Phase, progress: Progress) -> Stop | None:
        """Make an attempt, or go on with one, up to its recorded verdict."""
        key = progress.key
        verdict = self.steps.verdict(key)
        if verdict is None:
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
        written: dict[str, bytes] = {}
        deleted: tuple[str, ...] = ()
        contested: tuple[tuple[str, str], ...] = ()
        if phase.prompt is not None:
            answer = self._converse(phase, progress)
            if not isinstance(answer, Answer):
                return answer
            written = {one.path: one.content.encode() for one in answer.files}
            deleted, contested = answer.deleted, answer.contested
            problem = self._contest_problem(progress, phase, contested)
            if problem is not None:
                return problem
            files = self._files()
            apply_files(
                self.fs, self.workspace_fd, written, deleted, there=files, root=self.workspace
            )
            files = {path: data for path, data in files.items() if path not in deleted} | written
        else:
            files = self._files()
        self.observer.gate_started(phase)
        if phase.agents_gate.kind == "approval":
            judged = self._approval(phase, progress)
        else:
            judged = run_gate(
                evolve(phase.agents_gate, require=self.job.required(phase)),
                GateInput(
                    files=self._judged(phase, files),
                    component=self.job.component,
                    written=tuple(written),
                    baseline=self._baseline(progress),
                    answered=self._answered(),
                    token=_token(self.session.session_id, progress.key),
                ),
                self.gates,
            )
        if isinstance(judged, Stop):
            return judged
        facts = {**judged.facts, "written": list(written), "deleted": list(deleted)}
        if contested and not judged.passed:
            return _contest(judged, contested, facts)
        return evolve(judged, facts=facts)

    def _judged(self, phase: Phase, files: dict[str, bytes]) -> dict[str, bytes]:
        """Return the files that a gate sees.

        Tests that are written again, after a phase went back to them, have to fail without the
        component all the same; so what this session has written of it is not shown to their gate.
        """
        component = self.job.component
        if phase.agents_gate.kind != "tests_fail" or component is None:
            return files
        own = {artifact.path for artifact in self.session.artifacts}
        return {
            path: data
            for path, data in files.items()
            if path != component.location or path not in own
        }

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

    def _files(self) -> dict[str, bytes]:
        return read_workspace(self.fs, self.workspace_fd, root=self.workspace)

    def _baseline(self, progress: Progress) -> Mapping[str, Any] | None:
        """Return the facts of the red tests that the later phases are held to."""
        for key in reversed(progress.keys[:-1]):
            verdict = self.steps.verdict(key)
            if verdict is not None and verdict.gate == "tests_fail" and verdict.passed:
                return verdict.facts
        return None

    def _evidence(self, progress: Progress) -> tuple[str, ...]:
        """Return what was wrong since a phase was last passed: of each phase its last verdict."""
        pieces: list[str] = []
        seen: set[str] = set()
        for key in reversed(progress.keys[:-1]):
            verdict = self.steps.verdict(key)
            if verdict is None:
                continue
            if verdict.passed:
                break
            if key.phase not in seen:
                seen.add(key.phase)
                pieces.append(f"Phase {key.phase}, {progress.label(key)}: {verdict.summary}")
                pieces += verdict.evidence
        return tuple(pieces)

    # -------------------------------------------------------------------------------- the agent

    def _converse(  # noqa: PLR0911 (an end each)
        self, phase: Phase, progress: Progress
    ) -> Answer | Verdict | Stop:
        """Ask the agent, and again after each round of questions, until it gives files."""
        key = progress.key
        for call in range(1, MAX_CALLS + 1):
            stored = self._stored_answer(phase, progress, call)
            if isinstance(stored, Stop):
                return stored
            if stored.failure is not None:
                return Verdict(
                    gate="agent",
                    passed=False,
                    summary=stored.failure,
                    evidence=[stored.failure],
                    facts={"calls": call, "may_recover": stored.may_recover},
                )
            answer = parse_answer(
                stored.answer.text, refuse=lambda path: self.job.refusal(phase, path)
            )
            questions = (*stored.answer.questions, *answer.questions)
            if answer.faults:
                return _refused(answer, call)
            if not questions:
                return answer if answer.says_something else _refused(answer, call)
            if phase.questions != "allowed":
                return Verdict(
                    gate="answer",
                    passed=False,
                    summary=f"it asks {len(questions)} questions, and phase {phase.name} may not",
                    evidence=["Decide for yourself what is unclear, and say so in the files."],
                )
            waiting = self._ask(progress, key, call, questions)
            if waiting is not None:
                return waiting
        return Verdict(
            gate="answer",
            passed=False,
            summary=f"the agent asked questions {MAX_CALLS} times and wrote nothing",
            evidence=["No more questions: decide for yourself, and write the files."],
        )

    def _stored_answer(self, phase: Phase, progress: Progress, call: int) -> StoredAnswer | Stop:
        """Return the answer to a call; the agent is asked only if none is stored."""
        key = progress.key
        prompt = self.steps.prompt(key, call)
        stored = None if prompt is None else self.steps.answer(key, call, prompt)
        if stored is None:
            fresh = prompt is None
            files = _texts(self._files())
            if prompt is None:
                prompt = self._prompt(phase, progress, files)
            stop = self._over_budget(phase, progress, prompt)
            if stop is not None:
                return stop
            if fresh:
                self.steps.keep_prompt(key, call, prompt)
            answered = self._answer(phase, progress, call, prompt, files)
            if isinstance(answered, Stop):
                return answered
            stored = answered
            self.steps.keep_answer(key, call, prompt, stored)
            self.observer.agent_answered(
                phase, usage=stored.usage, duration_s=stored.duration_s, failure=stored.failure
            )
        if call > progress.calls:
            self._charge(call, stored)
        return stored

    def _answer(
        self,
        phase: Phase,
        progress: Progress,
        call: int,
        prompt: str,
        files: Mapping[str, str],
    ) -> StoredAnswer | Stop:
        tokens = estimate_tokens(prompt)
        self.observer.agent_called(phase, call=call, prompt_tokens=tokens)
        request = AgentRequest(
            session_id=self.session.session_id,
            workflow=self.job.workflow.name,
            phase=phase.name,
            attempt=progress.key.attempt,
            turn=progress.turn,
            call=call,
            briefing=self.manager.briefing(BRIEFING_TOKENS),
            prompt=prompt,
            files=files,
            tokens_left=self.session.token_budget.tokens_remaining,
            prompt_digest=digest_of(prompt),
        )
        begun = self.monotonic()
        outcome = attempt(self._asked, request)
        duration_s = self.monotonic() - begun
        if isinstance(outcome, Failure):
            if not isinstance(outcome.error, AgentFailed):
                raise outcome.error
            return self._unanswered(outcome.error, tokens=tokens, duration_s=duration_s)
        answer = outcome.value
        usage = answer.usage or parse_answer(answer.text).usage
        if usage is None:
            usage = TokenUsage(
                input_tokens=tokens, output_tokens=estimate_tokens(answer.text), estimated=True
            )
        return StoredAnswer(
            answer=answer, usage=usage, duration_s=duration_s, agent=self.agent.description
        )

    def _unanswered(
        self, error: AgentFailed, *, tokens: int, duration_s: float
    ) -> StoredAnswer | Stop:
        """Return what follows where an agent gave no answer: a charged attempt, or a pause."""
        crashed = isinstance(error, AgentCrashed) and not error.answered
        if crashed or not error.may_recover:
            twice = " at two tries" if crashed else ""
            return Stop(reason=f"{error}{twice}; mend that, then resume", cause=StopCause.AGENT)
        # What went in was most likely read, and paid for.
        usage = error.usage or TokenUsage(input_tokens=tokens, output_tokens=0, estimated=True)
        return StoredAnswer(
            answer=AgentAnswer(text=""),
            usage=usage,
            duration_s=duration_s,
            agent=self.agent.description,
            failure=str(error),
            may_recover=not isinstance(error, AgentCutOff),
        )

    def _asked(self, request: AgentRequest) -> AgentAnswer:
        """Ask the agent; one that ends without a word is asked once more."""
        try:
            return self.agent.answer(request)
        except AgentCrashed as error:
            if error.answered:
                raise
        return self.agent.answer(request)

    def _charge(self, call: int, stored: StoredAnswer) -> None:
        usage = stored.usage
        digest = hashlib.sha256(stored.answer.text.encode("utf-8", "replace")).hexdigest()
        event = AgentAnswered(
            call=call,
            agent=stored.agent,
            tokens=usage.total,
            usage={"input": usage.input_tokens, "output": usage.output_tokens},
            estimated=usage.estimated,
            seconds=round(stored.duration_s, 3),
            answer_sha256=None if stored.failure else digest,
            failure=stored.failure,
        )
        self.manager.record(spelled(event), tokens=usage.total)
        self.observer.budget(self.session.token_budget)

    def _prompt(self, phase: Phase, progress: Progress, files: Mapping[str, str]) -> str:
        workflow, work = self.job.workflow, self.job.work
        specification, component = self.job.specification, self.job.component
        budget = self.session.token_budget
        return compose(
            PromptInput(
                role=workflow.role or "",
                workflow=workflow.name,
                phase=phase,
                attempt=progress.key.attempt,
                round_number=progress.round_number,
                writes=self.job.writable(phase),
                briefing=self.manager.briefing(BRIEFING_TOKENS),
                subject=None if work is None else work.subject,
                specification=specification.excerpt(component)
                if specification is not None and component is not None
                else None,
                component=component,
                files=files,
                evidence=self._evidence(progress),
                answered=self._answered(),
                budget_note=budget_note(
                    used=budget.tokens_used,
                    total=budget.total_budget,
                    warning=budget.is_warning,
                    left=budget.tokens_remaining,
                    expected=phase.answer_tokens,
                ),
            )
        )

    def _expected_cost(self, phase: Phase, progress: Progress) -> int:
        """Return what the next call of the current attempt is expected to cost, in tokens."""
        prompt = self.steps.prompt(progress.key, progress.calls + 1)
        if prompt is None:
            prompt = self._prompt(phase, progress, _texts(self._files()))
        return estimate_tokens(prompt) + phase.answer_tokens

    def _missing(self, phase: Phase, progress: Progress, expected: int) -> int:
        """Return by how much the budget has to be extended for a call, with room for the next.

        Args:
            phase: The phase.
            progress: Where the session stands.
            expected: What the call is expected to cost, in tokens.

        Returns:
            Tokens; enough for the session's budget and for the phase's share of it. 0: none.
        """
        budget = self.session.token_budget
        wanted = math.ceil((progress.spent + expected) / phase.budget_share)
        missing = max(expected - budget.tokens_remaining, wanted - budget.total_budget)
        return _with_room(missing, phase.budget_share) if missing > 0 else 0

    def _over_budget(self, phase: Phase, progress: Progress, prompt: str) -> Stop | None:
        """Return why the agent may not be asked now, or None."""
        budget = self.session.token_budget
        expected = estimate_tokens(prompt) + phase.answer_tokens
        share = math.floor(phase.budget_share * budget.total_budget)
        if not budget.can_continue(expected):
            problem = (
                f"the next call of phase {phase.name!r} takes about {expected:,} tokens, and of "
                f"{budget.total_budget:,} {budget.tokens_remaining:,} are left"
            )
        elif progress.spent + expected > share:
            problem = (
                f"phase {phase.name!r} has spent {progress.spent:,} of its share of {share:,} "
                f"tokens ({phase.budget_share:.0%} of the budget), and its next call takes about "
                f"{expected:,}"
            )
        else:
            return None
        missing = self._missing(phase, progress, expected)
        return Stop(
            reason=f"{problem}; extend the budget by {missing:,} or more, then resume",
            cause=StopCause.BUDGET,
            missing_tokens=missing,
        )

    # -------------------------------------------------------------------------------- the person

    def _ask(
        self,
        progress: Progress,
        key: StepKey,
        call: int,
        questions: Sequence[AgentQuestion],
    ) -> Stop | None:
        """Have the agent's questions answered and the answers kept; None when they are."""
        name = key.name("answers", call)
        kept = self.steps.read(name)
        if kept is None:
            answers = self._collect(questions, f"{key.serial}.{call}")
            if isinstance(answers, Stop):
                return answers
            self.steps.write(
                name,
                {
                    "answered": [
                        [question.prompt, answer]
                        for question, answer in zip(questions, answers, strict=True)
                    ],
                    "questions": _questions_in_words(questions),
                },
            )
        elif call == progress.calls and progress.waiting_for is not None:
            # A worker of an earlier version, which kept answers before it recorded them, was killed
            # in between.
            told = "\n".join(f"{question} -> {answer}" for question, answer in kept["answered"])
            reply = PersonReply(question_id=progress.waiting_for, outcome="answered", text=told)
            self.manager.record(reply_event(reply))
        return None

    def _collect(self, questions: Sequence[AgentQuestion], key: str) -> tuple[str, ...] | Stop:
        """Ask through the manager, which asks nothing twice under one key and records it all."""
        told = _questions_in_words(questions)
        if not self.manager.can_ask:
            return Stop(
                reason=f"{told}; this run has no way to ask a person, so nobody was asked",
                cause=StopCause.PERSON,
            )
        if self.session.state is not SessionState.ACTIVE:
            return Stop(
                reason=f"{told}; the session was paused meanwhile, so nobody was asked; "
                "resume asks",
                cause=StopCause.PAUSED,
            )
        try:
            reply = self.manager.ask(
                questions,
                key=key,
                timeout_s=self.answers_timeout_s,
                on_waiting=lambda asked: self.observer.questions_asked(asked, questions),
            )
        except QuestionWaits as waits:
            return Stop(
                reason=f"{pause_reason(waits.question_id)} ({told}); answer it, then resume",
                cause=StopCause.PERSON,
                question_id=waits.question_id,
            )
        return answers_in_words(reply, len(questions))

    def _answered(self) -> tuple[tuple[str, str], ...]:
        """Return every question that was answered in this session, with its answer."""
        found: list[tuple[str, str]] = []
        for name in self.steps.names():
            if name.endswith(".answers.json"):
                kept = self.steps.read(name) or {}
                found += [(question, answer) for question, answer in kept.get("answered", [])]
        return tuple(found)

    def _approval(self, phase: Phase, progress: Progress) -> Verdict | Stop:
        """Have a person decide; what is approved says so from then on."""
        paths = self.job.required(phase)
        files = self._files()
        missing = [path for path in paths if not files.get(path, b"").strip()]
        if missing:
            return Verdict(
                gate="approval", passed=False, summary=f"{', '.join(missing)} is missing or empty"
            )
        place = ", ".join(str(self.workspace / path) for path in paths)
        question = AgentQuestion(
            prompt=f"Read {place}. Is it approved? For changes, say which.",
            title="Approval",
            options=[
                AgentOption(label=APPROVE, description="The work is complete."),
                AgentOption(label=CHANGES, description="It goes back, with what you write."),
            ],
        )
        answers = self._collect([question], f"{progress.key.serial}.approval")
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
        apply_files(self.fs, self.workspace_fd, approved, (), there=files, root=self.workspace)
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


def _with_room(missing: int, share: float) -> int:
    """Round up what is missing, so that the next prompt, whose briefing tells more, fits too."""
    return math.ceil((missing + BRIEFING_TOKENS / share) / 1000) * 1000


def _refused(answer: Answer, call: int) -> Verdict:
    """Make the verdict on an answer that can't be taken."""
    if answer.faults:
        count = len(answer.faults)
        summary = f"the answer can't be taken: {answer.faults[0]}"
        if count > 1:
            summary += f" (and {count - 1} more)"
        evidence = [*answer.faults, "Nothing of it was applied. Give all files again."]
    else:
        summary = "the answer holds no file"
        evidence = [
            "The answer holds no fenced block whose mark names a path. See the form of the answer.",
            *answer.notes,
        ]
    return Verdict(
        gate="answer", passed=False, summary=summary, evidence=evidence, facts={"calls": call}
    )


def _questions_in_words(questions: Sequence[AgentQuestion]) -> str:
    told = "; ".join(" ".join(one.prompt.split()) for one in questions)
    return f"the agent asks: {told if len(told) <= 600 else told[:597] + '...'}"


def _texts(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the files that are text."""
    found = {}
    for path, data in files.items():
        try:
            found[path] = data.decode()
        except UnicodeDecodeError:
            continue
    return found


def _plain(text: str) -> str:
    """Spell out what UTF-8 can't hold."""
    return text.encode("utf-8", "backslashreplace").decode()


def _token(session_id: str, key: StepKey) -> str:
    """Name a gate's result: the same for the same attempt, and none that its tests are told."""
    return digest_of(f"{session_id}/{key.serial}/gate")[:24]
