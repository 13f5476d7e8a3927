"""Questions to a person as tools: asked and waited for, or asked now and fetched later.

A question that is waited for belongs to the call that asked it: however the call ends without an
answer - cancelled, its client gone or dead, the server stopping - the question session is ended as
abandoned, so that nobody answers into the void. One that is not waited for outlives its client on
purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import anyio
from attrs import frozen

from ...durable import DurableError
from ...event_log import get_logger
from ...questions import (
    AnswersTimeout,
    Asker,
    NoAnswers,
    Option,
    Question,
    QuestionError,
    QuestionSession,
    QuestionSessions,
    SessionEnded,
    SessionNotFound,
    SessionStatus,
    Teller,
    current_directory,
    format_inactive,
    format_pending,
    format_rejected,
    format_rejection,
    format_submission,
    format_user_response,
)
from . import arguments as takes
from . import results as gives
from .abandoned_questions import withdraw_orphans
from .calls import Call, Workers
from .errors import InvalidArguments
from .tool import Answer, Tool

_log = get_logger("agentforge.mcp")


@frozen(kw_only=True)
class QuestionTools:
    """Tools over one directory of question sessions.

    Attributes:
        sessions: The question sessions.
        workers: Where what blocks runs.
        teller: Tells a person of each new question, or None.
    """

    sessions: QuestionSessions
    workers: Workers
    teller: Teller | None = None

    async def ask(self, call: Call, given: takes.AskUserQuestions) -> Answer:
        """Ask, and wait for the answers unless told not to."""
        waits = not given.non_blocking
        if given.timeout_s is not None and not waits:
            raise InvalidArguments(
                "ask_user_questions",
                ["timeout_s: is not for non_blocking, which waits for nothing"],
            )
        questions = [_question(one) for one in given.questions]
        session_id = self.sessions.new_session_id()  # known before it exists, to withdraw it
        settled = False
        try:
            await self.workers.quick(
                lambda: self.sessions.create_session(
                    questions,
                    call_id=call.call_id,
                    session_id=session_id,
                    working_directory=current_directory(),
                    asker=Asker.current() if waits else None,
                )
            )
            _log.info("mcp.questions_asked", session_id=session_id, waits=waits)
            await self.workers.quick(lambda: self._after_asking(session_id))
            if waits:
                await self._wait(call, session_id, call.call_id, given.timeout_s)
                settled = True
            told = await self._told(session_id, _asked_text)
            settled = True
            return told
        finally:
            if not settled:  # not even the id has reached the client
                await self._abandon(session_id, call)

    async def _wait(
        self, call: Call, session_id: str, call_id: str, timeout_s: float | None
    ) -> None:
        """Return when the session has ended, however it did.

        Raises:
            AnswersTimeout: Nobody answered in time; it is ended as timed out.
        """
        async with self.workers.telling(call, "waiting for the person's answers"):
            with suppress(SessionEnded):  # rejected, or ended by others
                await self.sessions.wait_for_answers_async(
                    session_id, timeout_s=timeout_s, expected_call_id=call_id, on_timeout="end"
                )

    async def _abandon(self, session_id: str, call: Call) -> None:
        """Withdraw questions whose call ended without an answer."""
        with anyio.CancelScope(shield=True):
            try:
                await self.workers.at_once(
                    lambda: self.sessions.abandon_session(
                        session_id, "the client cancelled the call or went away"
                    )
                )
            except (SessionEnded, SessionNotFound):
                return  # it ended at the same moment, which holds; or it was never created
            except (QuestionError, DurableError, OSError) as error:
                _log.warning("mcp.not_withdrawn", session_id=session_id, error=str(error))
                return
            _log.warning("mcp.questions_abandoned", session_id=session_id, call_id=call.call_id)

    def _after_asking(self, session_id: str) -> None:
        """Tell the person, and tidy up; what goes wrong with it hinders nobody."""
        try:
            if self.teller is not None:
                self.teller.tell(self.sessions.get(session_id))
        except QuestionError as error:
            _log.warning("mcp.not_told", session_id=session_id, error=str(error))
        withdraw_orphans(self.sessions)
        try:
            result = self.sessions.cleanup_expired_sessions()
        except (QuestionError, DurableError, OSError) as error:
            _log.warning("mcp.clean_up_failed", error=str(error))
            return
        if result.deleted:
            _log.info("mcp.cleaned_up", count=len(result.deleted))

    async def answered(self, call: Call, given: takes.GetAnsweredQuestions) -> Answer:
        """Tell where questions stand, after waiting for their end if told to."""
        if given.timeout_s is not None and not given.blocking:
            raise InvalidArguments(
                "get_answered_questions", ["timeout_s: is only for blocking, which waits"]
            )
        session_id = await self.workers.quick(lambda: self.sessions.resolve_id(given.session_id))
        if given.blocking:
            async with self.workers.telling(call, "waiting for the person's answers"):
                with suppress(SessionEnded, AnswersTimeout):  # where it stands is told below
                    await self.sessions.wait_for_answers_async(
                        session_id, timeout_s=given.timeout_s
                    )
        told = await self._told(session_id, _fetched_text)
        await self.workers.quick(lambda: self._note_fetched(session_id))
        return told

    async def _told(
        self, session_id: str, text: Callable[[QuestionSession, SessionStatus], str]
    ) -> Answer:
        session = await self.workers.quick(lambda: self.sessions.get(session_id))
        status = self.sessions.standing(session)
        told = _result(session, status, text(session, status))
        return Answer(told, told.text)

    def _note_fetched(self, session_id: str) -> None:
        """Note on disk that answers were fetched; what goes wrong with it hinders nobody."""
        try:
            self.sessions.mark_answers_read(session_id)
        except NoAnswers:
            return
        except (QuestionError, DurableError, OSError) as error:
            _log.warning("mcp.not_marked_read", session_id=session_id, error=str(error))

    def tools(self) -> tuple[Tool, ...]:
        """Both of them."""
        return (
            Tool(
                name="ask_user_questions",
                title="Ask the person",
                description=(
                    "Ask the person one or more questions with options to choose from; they can "
                    "always write an answer of their own. Use it when a decision is theirs: "
                    "requirements that are open, alternatives with consequences, permission. Put "
                    "questions that belong together into one call, the recommended option first. "
                    "Waits for the answers; if this call is cancelled or its client goes away, "
                    "the questions are withdrawn. With non_blocking true it returns an id at "
                    "once, and the questions outlive this client: go on with other work and fetch "
                    "the answers with get_answered_questions. A rejection is a result, with the "
                    "person's reason: don't ask the same again. If the person asks you to "
                    "elaborate or rephrase, do so and ask again. Questions that break a limit are "
                    "an error that names all faults; nobody was asked."
                ),
                arguments=takes.AskUserQuestions,
                schema=takes.asking_schema(self.sessions.config),
                result=gives.QuestionsResult,
                run=self.ask,
                open_world=True,
            ),
            Tool(
                name="get_answered_questions",
                title="Fetch answers",
                description=(
                    "Return where questions stand that were asked with non_blocking, with the "
                    "answers if there are any. With blocking true it waits for them first; "
                    "cancelling that does not withdraw the questions. Questions that timed out, "
                    "were withdrawn or cleaned up have no answers: ask again if it matters."
                ),
                arguments=takes.GetAnsweredQuestions,
                result=gives.QuestionsResult,
                run=self.answered,
                read_only=True,
                open_world=True,
            ),
        )


def _question(given: takes.QuestionArgument) -> Question:
    return Question(
        prompt=given.prompt,
        title=given.title,
        options=tuple(
            Option(label=one.label, description=one.description) for one in given.options
        ),
        multi_select=given.multi_select,
    )


def _result(session: QuestionSession, status: SessionStatus, text: str) -> gives.QuestionsResult:
    answers = None
    if session.answers is not None and status is SessionStatus.COMPLETED:
        answers = [
            gives.AnswerResult(
                question_index=index,
                prompt=session.questions[index].prompt,
                selected_option=one.selected_option,
                selected_options=list(one.selected_options)
                if one.selected_options is not None
                else None,
                custom_text=one.custom_text,
            )
            for index, one in session.answers.numbered()
        ]
    return gives.QuestionsResult(
        session_id=session.session_id,
        status=status.value,
        text=text,
        answers=answers,
        rejection_reason=session.rejection_reason,
        end_reason=session.record.end_reason,
    )


def _asked_text(session: QuestionSession, status: SessionStatus) -> str:
    """Write what the call that asked answers."""
    count = len(session.questions)
    if status is SessionStatus.REJECTED:
        return format_rejection(
            session.rejection_reason, session_id=session.session_id, question_count=count
        )
    if status is SessionStatus.PENDING:
        return format_submission(session.session_id, count)
    return _ended_text(session, status)


def _fetched_text(session: QuestionSession, status: SessionStatus) -> str:
    """Write what a call that fetches answers answers."""
    if status is SessionStatus.REJECTED:
        return format_rejected(session.session_id, session.rejection_reason)
    if status is SessionStatus.PENDING:
        return format_pending(session.session_id)
    return _ended_text(session, status)


def _ended_text(session: QuestionSession, status: SessionStatus) -> str:
    if status is SessionStatus.COMPLETED and session.answers is not None:
        return format_user_response(session.answers, session.questions, session.session_id)
    return format_inactive(session.session_id, status.value)
