"""Questions to a person as tools: ask and wait, or ask now and fetch answers later.

A waiting call owns its questions: if it ends without an answer (it is cancelled, its client leaves
or dies, the server stops), the question session is ended as abandoned, so that no answer is lost.
Questions of a call that does not wait outlive its client on purpose.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Final, Literal

import anyio
from attrs import asdict, frozen
from pydantic import AliasChoices, Field

from ....base.event_log import get_logger
from ....questions import (
    AnswersTimeout,
    Asker,
    NoAnswers,
    Notify,
    Option,
    Question,
    QuestionSession,
    QuestionSessions,
    SessionEnded,
    SessionNotFound,
    SessionStatus,
    current_directory,
)
from .. import elicitation
from ..arguments import MAX_QUESTIONS, MAX_WAIT_S, QuestionArgument, with_limits
from ..calls import Call, Workers, beside
from ..errors import InvalidArguments
from ..question_forms import after_asking, answers_in, in_words, logged
from ..results import ToolResult, Values
from ..tool import Effect, Tool, tool, tools_of

_BOTH_SPELLINGS: Final = Field(validation_alias=AliasChoices("non_blocking", "nonBlocking"))
_Patience = Annotated[float | None, Field(gt=0, le=MAX_WAIT_S)]

_log = get_logger("agentforge.mcp")


class AnswerResult(Values):
    """Answer to one question.

    Attributes:
        question_index: Counts from 0.
    """

    question_index: int
    prompt: str
    selected_option: str | None
    selected_options: list[str] | None
    custom_text: str | None


class QuestionsResult(ToolResult):
    """Status of questions to a person.

    Attributes:
        text: The answers or the status in words.
        answers: None until answered.
        end_reason: Why they timed out or were abandoned, as far as known.
    """

    session_id: str
    status: Literal["pending", "completed", "rejected", "timed_out", "abandoned"]
    text: str
    answers: list[AnswerResult] | None
    rejection_reason: str | None
    end_reason: str | None

    @classmethod
    def of(cls, session: QuestionSession, status: SessionStatus, text: str) -> QuestionsResult:
        """Describe a question session, with its status in words."""
        answers = None
        if session.answers is not None and status is SessionStatus.COMPLETED:
            answers = [
                AnswerResult(prompt=session.questions[index].prompt, **asdict(one))
                for index, one in session.answers.numbered()
            ]
        return cls(
            session_id=session.session_id,
            status=status.value,
            text=text,
            answers=answers,
            rejection_reason=session.rejection_reason,
            end_reason=session.record.end_reason,
        )

    def in_words(self) -> str:
        """Return the text."""
        return self.text


@frozen(kw_only=True)
class QuestionTools:
    """Tools on one directory of question sessions.

    Attributes:
        sessions: The question sessions.
        workers: Run blocking work.
        notify: Notifies a person of each new question, or None.
    """

    sessions: QuestionSessions
    workers: Workers
    notify: Notify | None = None

    @tool("Ask the person", open_world=True)
    async def ask_user_questions(
        self,
        call: Call,
        questions: Annotated[list[QuestionArgument], Field(max_length=MAX_QUESTIONS)],
        non_blocking: Annotated[bool, _BOTH_SPELLINGS] = False,
        timeout_s: _Patience = None,
    ) -> QuestionsResult:
        """Ask the person one or more questions with options to choose from.

        They can always write an answer of their own. Use it when a decision is theirs:
        requirements that are open, alternatives with consequences, permission. Put
        questions that belong together into one call, the recommended option first. Waits
        for the answers; if this call is cancelled or its client goes away, the questions
        are withdrawn. With non_blocking true it returns an id at once, and the questions
        outlive this client: go on with other work and fetch the answers with
        get_answered_questions. A rejection is a result, with the person's reason: don't ask
        the same again. If the person asks you to elaborate or rephrase, do so and ask
        again. Questions that break a limit are an error that names all faults; nobody was
        asked.

        Args:
            questions: The questions, asked together.
            non_blocking: False: wait for the answers. True: return the id at once; the question
                then outlives this client, and get_answered_questions fetches the answers.
            timeout_s: Seconds to wait before the questions are withdrawn, which is an error;
                without a limit if left out. Not with non_blocking.
        """
        if timeout_s is not None and non_blocking:
            raise InvalidArguments(
                "ask_user_questions",
                ["timeout_s: is not for non_blocking, which waits for nothing"],
            )
        asked = [_question(one) for one in questions]
        session_id = self.sessions.new_session_id()  # known before it exists, to withdraw it
        call_id = f"mcp-{session_id}"
        settled = False
        try:
            await self.workers.quick(
                lambda: self.sessions.create_session(
                    asked,
                    call_id=call_id,
                    session_id=session_id,
                    working_directory=current_directory(),
                    asker=None if non_blocking else Asker.current(),
                )
            )
            _log.info("mcp.questions_asked", session_id=session_id, waits=not non_blocking)
            await self.workers.quick(lambda: after_asking(self.sessions, self.notify, session_id))
            if not non_blocking:
                await self._wait(call, session_id, asked, call_id, timeout_s)
                settled = True
            result = await self._standing(session_id, just_asked=True)
            settled = True
            return result
        finally:
            if not settled:  # the client has not even received the id
                await self._abandon(session_id)

    async def _wait(
        self,
        call: Call,
        session_id: str,
        asked: list[Question],
        call_id: str,
        timeout_s: float | None,
    ) -> None:
        """Return once the session has ended, in any way.

        Raises:
            AnswersTimeout: No answer came in time; the session is ended as timed out.
        """
        async with (
            self.workers.reporting(call, "waiting for the person's answers"),
            beside(lambda: self._show(call, session_id, asked)),
        ):
            with suppress(SessionEnded):  # rejected or ended by others
                await self.sessions.wait_for_answers_async(
                    session_id, timeout_s=timeout_s, expected_call_id=call_id, on_timeout="end"
                )

    async def _show(self, call: Call, session_id: str, asked: list[Question]) -> None:
        """Make the client show the questions too; the first answer, here or elsewhere, counts."""
        result = await elicitation.shown(call, asked)
        if result is None or result.action == "cancel":
            return
        answers = answers_in(result.content or {}, asked)
        with logged("mcp.form_not_taken", session_id=session_id):
            if result.action == "decline":
                await self.workers.at_once(lambda: self.sessions.reject_session(session_id))
            elif answers:
                await self.workers.at_once(
                    lambda: self.sessions.save_session_answers(session_id, answers)
                )

    async def _abandon(self, session_id: str) -> None:
        """Withdraw questions whose call ended without an answer."""
        reason = "the client cancelled the call or went away"
        with (
            anyio.CancelScope(shield=True),
            logged("mcp.not_withdrawn", session_id=session_id),
            suppress(SessionEnded, SessionNotFound),  # at the same moment, or never created
        ):
            await self.workers.at_once(lambda: self.sessions.abandon_session(session_id, reason))
            _log.warning("mcp.questions_abandoned", session_id=session_id)

    @tool("Fetch answers", Effect.READS, open_world=True)
    async def get_answered_questions(
        self,
        call: Call,
        session_id: Annotated[str, Field(min_length=1, max_length=128)],
        blocking: bool = False,
        timeout_s: _Patience = None,
    ) -> QuestionsResult:
        """Return where questions stand that were asked with non_blocking, with their answers.

        With blocking true it waits for them first; cancelling that does not withdraw the
        questions. Questions that timed out, were withdrawn or cleaned up have no answers:
        ask again if it matters.

        Args:
            session_id: The id that ask_user_questions returned, or its beginning.
            blocking: True: wait until the person has answered or rejected.
            timeout_s: Seconds to wait, only with blocking; the questions stay open after them.
                Without a limit if left out.
        """
        if timeout_s is not None and not blocking:
            raise InvalidArguments(
                "get_answered_questions", ["timeout_s: is only for blocking, which waits"]
            )
        whole_id = await self.workers.quick(lambda: self.sessions.resolve_id(session_id))
        if blocking:
            async with self.workers.reporting(call, "waiting for the person's answers"):
                with suppress(SessionEnded, AnswersTimeout):  # its status is reported below
                    await self.sessions.wait_for_answers_async(whole_id, timeout_s=timeout_s)
        result = await self._standing(whole_id, just_asked=False)
        await self.workers.quick(lambda: self._note_fetched(whole_id))
        return result

    async def _standing(self, session_id: str, *, just_asked: bool) -> QuestionsResult:
        session = await self.workers.quick(lambda: self.sessions.get(session_id))
        status = self.sessions.status_of(session)
        text = in_words(session, status, just_asked=just_asked)
        return QuestionsResult.of(session, status, text)

    def _note_fetched(self, session_id: str) -> None:
        """Note on disk that answers were fetched."""
        with logged("mcp.not_marked_read", session_id=session_id), suppress(NoAnswers):
            self.sessions.mark_answers_read(session_id)

    def tools(self, *, read_only: bool = False) -> tuple[Tool, ...]:
        """Return the tools; the schema of `ask_user_questions` has the configured limits."""
        tools = tools_of(self, read_only=read_only)
        for one in tools:
            if one.fn == self.ask_user_questions:
                one.parameters = with_limits(one.parameters, self.sessions.config)
        return tools


def _question(given: QuestionArgument) -> Question:
    return Question(
        prompt=given.prompt,
        title=given.title,
        options=tuple(
            Option(label=one.label, description=one.description) for one in given.options
        ),
        multi_select=given.multi_select,
    )
