"""Calls an agent within one attempt until it changes files: prompt, budget, answer, cost."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from attrs import frozen

from ...base.errors import counted
from ...base.result import Failure, attempt
from ...harness import SessionState
from ...harness.domain.history_events import AgentAnswered
from ...harness.domain.session_entries import spelled
from ...harness.domain.session_observer import AgentCalled
from ...harness.views.briefing import estimate_tokens
from ..agents.port import (
    AgentAnswer,
    AgentCrashed,
    AgentCutOff,
    AgentFailed,
    AgentRequest,
    PhaseAgent,
    TokenUsage,
)
from ..errors import BudgetTooSmall
from ..gates.verdict import Verdict, not_taken
from ..ports import CallLimits, Stop, StopCause
from ..prompts.answers import parse_answer
from ..prompts.prompts import budget_note
from ..workflow import ANYTHING, Phase
from .agent_questions import AgentQuestions
from .base_record import base_in_words, kept_base
from .call_budget import BRIEFING_TOKENS, expected_tokens, missing_tokens, over_budget
from .job_prompt import job_prompt, shown_files
from .phase_change import (
    PhaseChange,
    change_of_answer,
    change_of_edit,
    refused_answer,
    unchanged_files,
)
from .progress import Progress
from .run_lock import LedSession
from .run_spans import measure_usage, traced_call
from .step_journal import StoredAnswer, digest_of

MAX_CALLS: Final = 8
"""The most calls of an agent within one attempt: the first, and one per round of questions."""


@frozen(kw_only=True, eq=False)
class AgentConversation:
    """Calls one session's agent; a stored answer is not requested again.

    `may_show` decides which parts of agent programs' conversations this agent may see; see
    `harness.views.briefing.brief`. `first` is the number of the first call, under which it is
    stored. `aside` surrounds each wait for the agent.
    """

    led: LedSession
    agent: PhaseAgent
    monotonic: Callable[[], float]
    questions: AgentQuestions
    may_show: Callable[[str], bool]
    limits: CallLimits | None = None
    first: int = 1
    aside: Callable[[], AbstractContextManager[object]] = nullcontext

    def converse(  # noqa: PLR0911 (an end each)
        self, phase: Phase, progress: Progress
    ) -> PhaseChange | Verdict | Stop:
        """Call the agent, and again after each round of questions, until it changes files."""
        refuse = self._rule(phase, progress)
        for call in range(self.first, self.first + MAX_CALLS):
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
            edited = stored.answer.change
            answer = parse_answer(stored.answer.text, refuse=refuse, files=edited is None)
            questions = (*stored.answer.questions, *answer.questions)
            if answer.faults:
                return refused_answer(answer, call)
            if not questions:
                change = (
                    change_of_answer(answer, stored.answer.text)
                    if edited is None
                    else change_of_edit(
                        edited, answer, stored.answer.text, self._rule(phase, progress)
                    )
                )
                if change.says_something or (phase.agents_gate.kind == "plan" and change.said):
                    return change
                return (
                    refused_answer(answer, call)
                    if edited is None
                    else unchanged_files(change, call)
                )
            if phase.questions != "allowed":
                asked = counted(len(questions), "question")
                return not_taken(
                    f"it asks {asked}, and phase {phase.name} may not",
                    ["Decide for yourself what is unclear, and say so in the files."],
                )
            waiting = self.questions.ask(progress, call, questions)
            if waiting is not None:
                return waiting
        return not_taken(
            f"the agent asked questions {MAX_CALLS} times and wrote nothing",
            ["No more questions: decide for yourself, and write the files."],
        )

    def _rule(self, phase: Phase, progress: Progress) -> Callable[[str], str | None]:
        """Return the function that says why a phase may not write a path."""
        fixed = phase.agents_gate.tests_unchanged and self.led.job.component is None
        red = self.led.steps.passed(progress.keys[:-1], "tests_fail") if fixed else None
        tests = (red or {}).get("test_digests", ())

        def refusal(path: str) -> str | None:
            if path in tests:
                return f"{path!r} is one of the tests, which are fixed in phase {phase.name}"
            return self.led.job.refusal(phase, path)

        return refusal

    def _stored_answer(self, phase: Phase, progress: Progress, call: int) -> StoredAnswer | Stop:
        """Return the answer to a call; the agent is called only if none is stored."""
        key = progress.key
        prompt = self.led.steps.prompt(key, call)
        stored = None if prompt is None else self.led.steps.answer(key, call, prompt)
        if stored is None:
            fresh = prompt is None
            files = shown_files(self.led, phase)
            if prompt is None:
                prompt = self._prompt(phase, progress, files)
            stop = over_budget(self.led.budget, phase, progress, prompt) or self._over_limit()
            if stop is not None:
                return stop
            if fresh:
                self.led.steps.keep_prompt(key, call, prompt)
            answered = self._answer(phase, progress, call, prompt, files)
            if isinstance(answered, Stop):
                return answered
            stored = answered
            self.led.steps.keep_answer(key, call, prompt, stored)
            self.led.observer.agent_answered(
                phase, usage=stored.usage, duration_s=stored.duration_s, failure=stored.failure
            )
        if call > progress.calls:
            self._charge(call, stored)
        return stored

    def _over_limit(self) -> Stop | None:
        """Return why a limit of the person does not allow a call of the agent, or None."""
        if self.limits is None:
            return None
        refusal = self.limits.refusal(self.led.session.session_id, self.agent)
        if refusal is None:
            return None
        return Stop(reason=f"{refusal}, then resume", cause=StopCause.BUDGET)

    def _answer(
        self,
        phase: Phase,
        progress: Progress,
        call: int,
        prompt: str,
        files: Mapping[str, str],
    ) -> StoredAnswer | Stop:
        tokens = estimate_tokens(prompt)
        self.led.manager.announce(AgentCalled(call=call, prompt_tokens=tokens))
        self.led.observer.agent_called(phase, call=call, prompt_tokens=tokens)
        request = AgentRequest(
            session_id=self.led.session.session_id,
            workflow=self.led.job.workflow.name,
            phase=phase.name,
            attempt=progress.key.attempt,
            turn=progress.turn,
            call=call - self.first + 1,
            briefing=self._briefing(),
            prompt=prompt,
            files=files,
            tokens_left=self.led.budget.tokens_remaining,
            prompt_digest=digest_of(prompt),
            state=self._state_before(progress, call) if self.led.job.workflow.edits else None,
            refuse=self._rule(phase, progress),
            anything=ANYTHING in self.led.job.writable(phase),
            tell=lambda text: self.led.observer.agent_said(phase, text),
        )
        with traced_call(self.agent, request) as span:
            begun = self.monotonic()
            with self.aside():
                outcome = attempt(self._asked, request)
            duration_s = self.monotonic() - begun
            if isinstance(outcome, Failure):
                if not isinstance(outcome.error, AgentFailed):
                    raise outcome.error
                span.fail(outcome.error)
                answered = self._unanswered(outcome.error, tokens=tokens, duration_s=duration_s)
            else:
                answered = self._answered(outcome.value, tokens=tokens, duration_s=duration_s)
            if isinstance(answered, StoredAnswer):
                measure_usage(span, answered.usage)
                if self.limits is not None:  # even if it has to be called again: it was paid for
                    self.limits.charge(request.session_id, self.agent, answered.usage)
            return answered

    def _answered(self, answer: AgentAnswer, *, tokens: int, duration_s: float) -> StoredAnswer:
        usage = answer.usage or parse_answer(answer.text).usage
        if usage is None:
            usage = TokenUsage(
                input_tokens=tokens, output_tokens=_estimated_output(answer), estimated=True
            )
        return StoredAnswer(
            answer=answer, usage=usage, duration_s=duration_s, agent=self.agent.description
        )

    def _unanswered(
        self, error: AgentFailed, *, tokens: int, duration_s: float
    ) -> StoredAnswer | Stop:
        """Return the consequence of a call without an answer: a charged attempt, or a pause."""
        crashed = isinstance(error, AgentCrashed) and not error.answered
        if crashed or not error.may_recover:
            twice = " at two tries" if crashed else ""
            return Stop(reason=f"{error}{twice}; mend that, then resume", cause=StopCause.AGENT)
        # The input was most likely read, and is charged.
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
        """Call the agent; one that crashes without output is called once more."""
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
        self.led.manager.record(spelled(event), tokens=usage.total)
        self.led.observer.budget(self.led.budget)

    def _briefing(self) -> str:
        return self.led.manager.briefing(BRIEFING_TOKENS, may_show=self.may_show)

    def _prompt(self, phase: Phase, progress: Progress, files: Mapping[str, str]) -> str:
        budget = self.led.budget
        return job_prompt(
            self.led.job,
            phase,
            attempt=progress.key.attempt,
            round_number=progress.round_number,
            briefing=self._briefing(),
            files=files,
            evidence=self._evidence(progress),
            plan=(self.led.steps.passed(progress.keys[:-1], "plan") or {}).get("plan"),
            said_on_base=base_in_words(kept_base(self.led.steps), phase.gate),
            answered=self.questions.answered(),
            budget_note=budget_note(
                used=budget.tokens_used,
                total=budget.total_budget,
                warning=budget.is_warning,
                left=budget.tokens_remaining,
                expected=phase.answer_tokens,
            ),
        )

    def _expected_cost(self, phase: Phase, progress: Progress) -> int:
        """Return the expected cost of the current attempt's next call, in tokens."""
        prompt = self.led.steps.prompt(progress.key, progress.calls + 1)
        if prompt is None:
            prompt = self._prompt(phase, progress, shown_files(self.led, phase))
        return expected_tokens(phase, prompt)

    def refusal(self, phase: Phase, progress: Progress) -> BudgetTooSmall | None:
        """Return why the budget does not allow resuming the session, or None."""
        budget = self.led.budget
        if (
            phase.prompt is None
            or progress.succeeded
            or self.led.session.state is not SessionState.PAUSED
            or not budget.is_exhausted
        ):
            return None
        expected = self._expected_cost(phase, progress)
        return BudgetTooSmall(
            self.led.session.session_id,
            phase=phase.name,
            required=expected,
            remaining=budget.tokens_remaining,
            missing=missing_tokens(budget, phase, progress, expected),
        )

    def _state_before(self, progress: Progress, call: int) -> str | None:
        """Return the state named by the agent's last answer that is still in force."""
        for key in reversed(progress.keys):
            last = call - 1 if key == progress.key else MAX_CALLS
            for number in range(last, 0, -1):
                prompt = self.led.steps.prompt(key, number)
                stored = None if prompt is None else self.led.steps.answer(key, number, prompt)
                if stored is not None and stored.failure is None:
                    return stored.answer.state
        return None

    def _evidence(self, progress: Progress) -> tuple[str, ...]:
        """Return what was wrong since a phase last passed: the last verdict of each phase."""
        pieces: list[str] = []
        seen: set[str] = set()
        for key in reversed(progress.keys[:-1]):
            verdict = self.led.steps.verdict(key)
            if verdict is None:
                continue
            if verdict.passed:
                break
            if key.phase not in seen:
                seen.add(key.phase)
                pieces.append(f"Phase {key.phase}, {progress.label(key)}: {verdict.summary}")
                pieces += verdict.evidence
        return tuple(pieces)


def _estimated_output(answer: AgentAnswer) -> int:
    """Return an estimate of an agent's output in tokens: its text and the files it wrote."""
    written = () if answer.change is None else answer.change.written
    return estimate_tokens(answer.text) + sum(-(-len(one.content) // 3) for one in written)
