"""Questions from agent sessions to a person: the harness's port, implemented by question sessions.

Sessions led by hand, code of phases and agents ask through the same channel. The
question sessions' configuration limits the questions.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Hashable, Sequence
from contextlib import suppress
from pathlib import Path

from attrs import evolve

from ...base.files import DurableError
from ...base.question import Question, QuestionError
from ...harness import (
    HarnessError,
    PersonAnswer,
    QuestionAnswered,
    QuestionEnded,
    SessionManager,
    SessionRepository,
)
from ...harness.domain.history_events import QUESTION_ENDINGS, QuestionAbandoned, QuestionTimedOut
from ...questions import (
    AnswersTimeout,
    Asker,
    InvalidAnswers,
    Notify,
    QuestionRepository,
    QuestionSession,
    QuestionSessions,
    SessionCorrupted,
    SessionEnded,
    SessionExists,
    SessionNotFound,
    UserAnswer,
    check_questions,
    current_directory,
    format_user_response,
    load_config,
)


class QuestionSessionChannel:
    """Asks a person with question sessions. Implements `harness.QuestionChannel`.

    A question session's id is derived from the key of the question, so a worker that was killed
    after asking does not ask a second time.
    """

    def __init__(
        self,
        sessions: QuestionSessions | Path | None = None,
        *,
        notify: Notify | None = None,
    ) -> None:
        """Create a channel; nothing is read or written yet.

        Args:
            sessions: The question sessions, whose configuration limits the questions; or the
                directory of agents' question sessions, for `agents_questions()`.
            notify: Notifies the person of each new question, if given.

        Raises:
            InvalidConfig: The questions' configuration can't be used.
        """
        self.sessions = (
            sessions if isinstance(sessions, QuestionSessions) else agents_questions(sessions)
        )
        self._notify = notify

    @property
    def base_dir(self) -> Path:
        """The directory of the question sessions; see `QuestionSessions`."""
        return self.sessions.base_dir

    def id_for(self, key: str) -> str:
        """Return the question session's id for a key: a version 4 UUID from its digest."""
        return str(uuid.UUID(bytes=hashlib.sha256(key.encode()).digest()[:16], version=4))

    def check(self, questions: Sequence[Question]) -> None:
        """Raise `InvalidQuestions` with every fault of the questions."""
        check_questions(questions, self.sessions.config)

    def put(
        self,
        question_id: str,
        questions: Sequence[Question],
        *,
        call_id: str | None,
        session: str | None = None,
    ) -> None:
        """Create the question session, if none has this id.

        Raises:
            QuestionError: The questions can't be asked, and were not. See `QuestionSessions.ask`.
        """
        if self.sessions.exists(question_id):
            return
        with suppress(QuestionError):  # a fault of the directory is raised by the asking below
            self.sessions.pending()  # ends questions that nothing waits for any more
        try:
            asked = self.sessions.ask(
                questions,
                call_id=call_id,
                session_id=question_id,
                working_directory=current_directory(),
                asker=None if session is None else Asker.current(session=session),
            )
        except SessionExists:  # another worker was faster
            return
        if self._notify is not None:
            self._notify(asked)

    def withdraw(self, question_id: str, reason: str) -> None:
        """End the question session as abandoned; do nothing if it has ended or does not exist.

        Raises:
            QuestionError: It can't be ended, and is still pending.
        """
        with suppress(SessionEnded, SessionNotFound):
            self.sessions.abandon_session(question_id, reason)

    def wait(self, question_id: str, timeout_s: float | None) -> QuestionEnded | None:
        """Wait for the end of the question session; see `QuestionSessions.wait_for`.

        Raises:
            SessionNotFound: There is none, or no longer.
            QuestionError: The operating system failed to read it.
        """
        try:
            done = self.sessions.wait_for(question_id, timeout_s)
        except AnswersTimeout as error:
            return QuestionTimedOut(question_id=question_id) if error.ended else None
        except SessionEnded as error:
            ending = QUESTION_ENDINGS[error.status.value]
            return ending(question_id=question_id, reason=error.reason)
        except SessionCorrupted as error:
            return QuestionAbandoned(question_id=question_id, reason=str(error))
        given = done.answers
        return QuestionAnswered(
            question_id=question_id,
            text=format_user_response(given or (), done.questions),
            answers=tuple(
                PersonAnswer(
                    question_index=index,
                    selected=_selected(one),
                    text=one.custom_text or None,
                )
                for index, one in (given.numbered() if given is not None else ())
            ),
        )

    # ------------------------------------------ for programs that bring the questions themselves

    def waiting(self, question_id: str) -> tuple[Question, ...]:
        """Return the questions that still wait for the person.

        For a program that shows them to the person in its own way and passes the answers to
        `answer`.

        Args:
            question_id: An outcome's `waiting_for`, or the id in `QuestionWaits`.

        Returns:
            The questions in their order; none if they have ended or are malformed, which the
            session then finds out.

        Raises:
            QuestionError: The operating system failed to read them.
        """
        try:
            found = self.sessions.get(question_id)
        except (SessionNotFound, SessionCorrupted):
            return ()
        return () if found.status.is_terminal else found.questions

    def answer(self, question_id: str, answers: Sequence[str | Sequence[str]]) -> bool:
        """Submit the person's answers, as `agentforge questions` would.

        Args:
            question_id: An outcome's `waiting_for`, or the id in `QuestionWaits`.
            answers: One for each question, in their order: the label of an option or the person's
                own words; several of them for a question that takes several.

        Returns:
            Whether they were accepted; False if the questions were answered, rejected or abandoned
            before (the first answers remain).

        Raises:
            InvalidAnswers: Names every fault of the answers; the questions still wait.
            QuestionError: There are no such questions, or the answers can't be saved.
        """

        def made(session: QuestionSession) -> list[UserAnswer]:
            faults = _faults(answers, len(session.questions))
            if faults:
                raise InvalidAnswers(faults, session_id=question_id)
            pairs = zip(session.questions, answers, strict=True)
            return [_as_answer(index, *pair) for index, pair in enumerate(pairs)]

        try:
            self.sessions.save_session_answers(question_id, made)
        except SessionEnded:
            return False
        return True


def agents_questions(
    base_dir: Path | None = None,
    *,
    store: QuestionRepository | None = None,
    sessions: SessionRepository | None = None,
) -> QuestionSessions:
    """Create the configured service, with the limits for agents' questions.

    The configuration's limits on questions and options apply to all others. An agent's questions
    are checked before they are asked (`workflows.prompts.answers`) and may request free text alone.

    Args:
        base_dir: The directory of the question sessions; the configured one if None.
        store: The store of the questions, if not files.
        sessions: The agent sessions of that store.

    Raises:
        InvalidConfig: The configuration can't be used.
    """
    from ...workflows.prompts.answers import MAX_OPTIONS, MAX_QUESTIONS

    config = load_config()
    return QuestionSessions(
        base_dir if base_dir is not None else config.directory,
        config=evolve(
            config.questions,
            max_questions=MAX_QUESTIONS,
            min_options=0,
            max_options=MAX_OPTIONS,
        ),
        store=store,
        session_end=SessionEnds(sessions),
    )


class SessionEnds:
    """Judges from the stores of sessions whether a session that asked can still continue.

    A paused session, or one whose worker died, continues with its next worker. A session that can't
    be read is not judged.

    Args:
        sessions: The store for references that are ids only: the store of the questions. Without
            it, such sessions are not judged.
    """

    def __init__(self, sessions: SessionRepository | None = None) -> None:
        self._sessions = sessions
        self._judged: dict[str, tuple[Hashable, str | None]] = {}

    def __call__(self, reference: str) -> str | None:
        """Return why the session of a reference can't continue; None if it may."""
        place = Path(reference)
        try:
            if place.is_absolute():
                files = SessionManager(place.parent).store
                is_there = files.base_path.is_dir()
                return self._end(files, reference, place.name) if is_there else None
            return (
                None if self._sessions is None else self._end(self._sessions, reference, reference)
            )
        except (HarnessError, DurableError, OSError):
            return None

    def _end(self, sessions: SessionRepository, reference: str, session_id: str) -> str | None:
        mark = sessions.change_mark(session_id)
        known = self._judged.get(reference)
        if known is not None and mark is not None and known[0] == mark:
            return known[1]
        session = sessions.load(session_id)
        reason = None
        if session is None:
            reason = None if sessions.exists(session_id) else f"session {session_id} was deleted"
        elif session.state.is_terminal:
            reason = f"session {session.session_id} was {session.state.value}"
        if mark is not None:
            self._judged[reference] = (mark, reason)
        return reason


def _selected(answer: UserAnswer) -> tuple[str, ...]:
    chosen = (answer.selected_option,) if answer.selected_option else ()
    return chosen + tuple(one for one in answer.selected_options or () if one not in chosen)


def _faults(answers: object, expected: int) -> list[str]:
    """Return the faults of answers from any source, before their content is read."""
    if isinstance(answers, str | bytes) or not isinstance(answers, Sequence):
        return [f"answers: expected a list, got {type(answers).__name__}"]
    if len(answers) != expected:
        return [f"answers: expected {expected}, one for each question; got {len(answers)}"]
    return [
        f"answers[{index}]: expected a text, or a list of texts, with something in it"
        for index, one in enumerate(answers)
        if not _is_given(one)
    ]


def _is_given(answer: object) -> bool:
    texts = answer if isinstance(answer, list | tuple) else [answer]
    return bool(texts) and all(isinstance(text, str) and text.strip() for text in texts)


def _as_answer(index: int, question: Question, answer: str | Sequence[str]) -> UserAnswer:
    given = [answer] if isinstance(answer, str) else answer
    chosen = [one for one in given if one in question.labels]
    own = [one for one in given if one not in question.labels]
    several = question.multi_select or len(chosen) > 1
    return UserAnswer(
        question_index=index,
        selected_option=chosen[0] if chosen and not several else None,
        selected_options=chosen if chosen and several else None,
        custom_text="; ".join(own) or None,
    )
