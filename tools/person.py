"""The person behind an agent's questions: the workflows' port, served by question sessions."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from pathlib import Path

from attrs import evolve

from tools.questions import (
    AnswersTimeout,
    InvalidAnswers,
    Option,
    Question,
    QuestionSessions,
    SessionCorrupted,
    SessionEnded,
    SessionExists,
    SessionNotFound,
    SessionRejected,
    UserAnswer,
)
from tools.questions.config import load_config
from tools.workflows.agents.port import AgentOption, AgentQuestion
from tools.workflows.answers import MAX_OPTIONS, MAX_QUESTIONS
from tools.workflows.question_port import QuestionsRejected


class QuestionSessionPerson:
    """Asks through question sessions; implements `tools.workflows.question_port.Questioner`.

    The id of a question session follows from the key it is asked under, so that a worker that was
    killed after it asked does not ask a second time.
    """

    def __init__(
        self, base_dir: Path | None = None, *, sessions: QuestionSessions | None = None
    ) -> None:
        """Name the place of the question sessions; nothing is read or made yet.

        Args:
            base_dir: Where they are; as the questions' configuration says if None.
            sessions: The service itself, instead of one at `base_dir`.

        Raises:
            InvalidConfig: The questions' configuration can't be used.
        """
        self._sessions = sessions if sessions is not None else _service(base_dir)

    @property
    def base_dir(self) -> Path:
        """Where the question sessions are."""
        return self._sessions.base_dir

    def ask(self, questions: Sequence[AgentQuestion], *, key: str) -> str:
        """Put the questions, unless this key did before; see `Questioner.ask`.

        Raises:
            QuestionError: They can't be asked; nobody was asked.
        """
        chosen = id_of(key)
        asked = [
            Question(
                prompt=one.prompt,
                title=one.title,
                options=[
                    Option(label=option.label, description=option.description)
                    for option in one.options
                ],
                multi_select=one.multi_select,
            )
            for one in questions
        ]
        try:
            return self._sessions.create_session(
                asked, call_id=hashlib.sha256(key.encode()).hexdigest(), session_id=chosen
            )
        except SessionExists:
            return chosen

    def collect(self, asked: str, *, timeout_s: float) -> tuple[str, ...] | None:
        """Wait for the answers; see `Questioner.collect`.

        Raises:
            QuestionsRejected: The person will not answer, or the questions are gone.
        """
        try:
            questions = self._sessions.get(asked).request.questions
            found = self._sessions.wait_for_answers(asked, timeout_s)
        except AnswersTimeout:
            return None
        except SessionRejected as error:
            raise QuestionsRejected(asked, reason=error.reason) from error
        except SessionEnded as error:
            raise QuestionsRejected(asked, reason=f"they were {error.status.value}") from error
        except (SessionNotFound, SessionCorrupted) as error:
            raise QuestionsRejected(asked, reason=f"they are gone ({error})") from error
        by_index = {answer.question_index: answer for answer in found.answers}
        return tuple(_in_words(by_index.get(index)) for index in range(len(questions)))

    def waiting(self, asked: str) -> tuple[AgentQuestion, ...]:
        """Return the questions that still wait for the person.

        For a program that brings them to the person in its own way, and the answers back with
        `answer`.

        Args:
            asked: What `ask` returned; an outcome's `waiting_for`.

        Returns:
            The questions in their order; none if they were answered, rejected or given up, or are
            gone: whatever it is, `collect` tells the session.

        Raises:
            QuestionError: The system refused to read them.
        """
        try:
            found = self._sessions.get(asked)
        except (SessionNotFound, SessionCorrupted):
            return ()
        if found.status.is_terminal:
            return ()
        return tuple(
            AgentQuestion(
                prompt=one.prompt,
                title=one.title,
                options=[
                    AgentOption(label=option.label, description=option.description)
                    for option in one.options
                ],
                multi_select=one.multi_select,
            )
            for one in found.questions
        )

    def answer(self, asked: str, answers: Sequence[str | Sequence[str]]) -> bool:
        """Give the person's answers, as `agentforge questions` would.

        Args:
            asked: What `ask` returned; an outcome's `waiting_for`.
            answers: One for each question, in their order: the label of an option or the person's
                own words; several of them for a question that takes several.

        Returns:
            Whether they were taken; False if the questions were answered, rejected or given up
            before (what was given first stands).

        Raises:
            InvalidAnswers: With everything that is wrong with them; the questions still wait.
            QuestionError: There are no such questions, or the answers can't be kept.
        """
        questions = self._sessions.get(asked).questions
        faults = _faults(answers, len(questions))
        if faults:
            raise InvalidAnswers(faults, session_id=asked)
        try:
            self._sessions.save_session_answers(
                asked,
                [
                    _as_answer(index, question, answer)
                    for index, (question, answer) in enumerate(zip(questions, answers, strict=True))
                ],
            )
        except SessionEnded:
            return False
        return True


def _service(base_dir: Path | None) -> QuestionSessions:
    """Make the service as it is configured; what an agent may ask is the answers' own rule."""
    config = load_config()
    return QuestionSessions(
        base_dir if base_dir is not None else config.directory,
        config=evolve(
            config.questions,
            max_questions=MAX_QUESTIONS,
            min_options=0,
            max_options=MAX_OPTIONS,
        ),
    )


def id_of(key: str) -> str:
    """Return the question session's id for a key: a version 4 UUID made of its digest."""
    return str(uuid.UUID(bytes=hashlib.sha256(key.encode()).digest()[:16], version=4))


def _faults(answers: object, expected: int) -> list[str]:
    """Return what is wrong with answers that came from anywhere, before they are looked at."""
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


def _several(answer: str | Sequence[str]) -> Sequence[str]:
    return [answer] if isinstance(answer, str) else answer


def _as_answer(index: int, question: Question, answer: str | Sequence[str]) -> UserAnswer:
    given = _several(answer)
    chosen = [one for one in given if one in question.labels]
    own = [one for one in given if one not in question.labels]
    several = question.multi_select or len(chosen) > 1
    return UserAnswer(
        question_index=index,
        selected_option=chosen[0] if chosen and not several else None,
        selected_options=chosen if chosen and several else None,
        custom_text="; ".join(own) or None,
    )


def _in_words(answer: UserAnswer | None) -> str:
    if answer is None:
        return "(not answered)"
    told = list(answer.selected_options or ())
    if answer.selected_option is not None:
        told.insert(0, answer.selected_option)
    words = ", ".join(told)
    if answer.custom_text:
        words = f"{words}; {answer.custom_text}" if words else answer.custom_text
    return words or "(not answered)"
