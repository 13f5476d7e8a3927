"""What may be asked and answered, and the limits of it: pure checks that return every fault.

The texts of faults that the format documents are an interface: other programs write the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from attrs import field, frozen

from ..base.question import InvalidQuestions, Question
from .domain import SessionAnswers, UserAnswer
from .errors import InvalidAnswers, InvalidConfig

DAY_S: Final = 86_400.0
ELABORATE_MARKER: Final = "[ELABORATE_REQUEST]"
REPHRASE_MARKER: Final = "[REPHRASE_REQUEST]"


@frozen(kw_only=True)
class QuestionsConfig:
    """Limits and times of question sessions. Each value changes what it names and nothing else.

    Attributes:
        max_sessions: How many sessions may wait at once, 1 or more.
        retention_s: How long a session is retained after its last change, in seconds; 0 is for
            ever.
        session_timeout_s: How long after it was asked a session can be answered, in seconds; 0 is
            without end.
        max_questions: The most questions in a session, 1 or more.
        min_options: The fewest options of a question, 0 or more; with 0 a question may ask for free
            text alone.
        max_options: The most options of a question, `min_options` or more.
        max_text_chars: The longest prompt, label, description or answer, in characters.
    """

    max_sessions: int = field(default=100)
    retention_s: float = field(default=7 * DAY_S)
    session_timeout_s: float = field(default=0.0)
    max_questions: int = field(default=5)
    min_options: int = field(default=2)
    max_options: int = field(default=5)
    max_text_chars: int = field(default=20_000)

    def __attrs_post_init__(self) -> None:
        faults = []
        for name, least in (
            ("max_sessions", 1),
            ("max_questions", 1),
            ("min_options", 0),
            ("max_options", 0),
            ("max_text_chars", 1),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                faults.append(f"{name}: expected a whole number of {least} or more, got {value!r}")
        for name in ("retention_s", "session_timeout_s"):
            value = getattr(self, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not math.isfinite(value)
                or value < 0
            ):
                faults.append(f"{name}: expected a number of seconds, 0 or more, got {value!r}")
        if not faults and self.max_options < self.min_options:
            faults.append(
                f"max_options: {self.max_options} is less than min_options ({self.min_options})"
            )
        if faults:
            raise InvalidConfig(faults)


def is_request_to_asker(text: str | None) -> bool:
    """Return whether a custom text asks the asker to elaborate or to rephrase."""
    return text is not None and text.startswith((ELABORATE_MARKER, REPHRASE_MARKER))


def answers_of(answers: SessionAnswers | Iterable[UserAnswer]) -> tuple[UserAnswer, ...]:
    """Return the answers, in whichever form they were given."""
    return answers.answers if isinstance(answers, SessionAnswers) else tuple(answers)


def answer_faults(answers: Sequence[UserAnswer], questions: Sequence[Question]) -> list[str]:
    """Return every fault of answers, by the document's rules and in its words.

    By these rules, an entry without an index is no fault if it says something.
    """
    if not answers:
        return ["No answers provided"]
    if not questions:
        return ["No questions provided"]
    faults = []
    for answer in answers:
        index = answer.question_index
        if index is not None and not 0 <= index < len(questions):
            faults.append(f"Answer references invalid question index: {index}")
            continue
        if (
            not answer.selected_option
            and not answer.custom_text
            and answer.selected_options is None
        ):
            named = "undefined" if index is None else index
            faults.append(
                f"Answer for question {named} has neither selectedOption, selectedOptions, "
                "nor customText"
            )
            continue
        if index is None:
            continue
        labels = questions[index].labels
        chosen = [answer.selected_option] if answer.selected_option else []
        chosen += answer.selected_options or ()
        faults += [
            f"Answer for question {index} references non-existent option: {label}"
            for label in chosen
            if label not in labels
        ]
    return faults


def validate_answers(
    answers: SessionAnswers | Iterable[UserAnswer], questions: Iterable[Question]
) -> None:
    """Check that answers fit their questions, by the document's rules.

    Raises:
        InvalidAnswers: It names every fault, in the document's words.
    """
    faults = answer_faults(answers_of(answers), tuple(questions))
    if faults:
        raise InvalidAnswers(faults)


def unnumbered_faults(answers: Sequence[UserAnswer]) -> list[str]:
    """Return a fault for each answer that names no question."""
    return [
        f"answers[{i}].questionIndex: expected a whole number; the answer names no question"
        for i, answer in enumerate(answers)
        if answer.question_index is None
    ]


def submission_faults(
    answers: Sequence[UserAnswer], questions: Sequence[Question], config: QuestionsConfig
) -> list[str]:
    """Return every fault of answers that are about to be written.

    Beside the document's rules: each names its question; one answer to a question (a request to
    elaborate or rephrase may accompany it), one choice where one may be chosen, no choice twice,
    bounded text.
    """
    faults = _strangers("answers", answers, UserAnswer, "an answer")
    if faults:
        return faults
    faults = [*unnumbered_faults(answers), *answer_faults(answers, questions)]
    seen: set[int] = set()
    for answer in answers:
        index = answer.question_index
        if index is None or not 0 <= index < len(questions):
            continue
        if not is_request_to_asker(answer.custom_text):
            if index in seen:
                faults.append(f"Question {index} is answered more than once")
            seen.add(index)
        chosen = answer.selected_options or ()
        if not questions[index].multi_select and len(chosen) > 1:
            faults.append(f"Question {index} takes one option, and {len(chosen)} were selected")
        if len(set(chosen)) != len(chosen):
            faults.append(f"Answer for question {index} selects an option more than once")
        if len(answer.custom_text or "") > config.max_text_chars:
            faults.append(
                f"The text for question {index} has more than {config.max_text_chars:,} characters"
            )
    return faults


def _strangers(name: str, values: Sequence[object], kind: type, word: str) -> list[str]:
    return [
        f"{name}[{i}]: expected {word}, got {type(one).__name__}"
        for i, one in enumerate(values)
        if not isinstance(one, kind)
    ]


def question_faults(questions: Sequence[Question], config: QuestionsConfig) -> list[str]:
    """Return every fault that prevents asking these questions; places count from 0."""
    if not questions:
        return ["At least one question is required to create a session"]
    faults = _strangers("questions", questions, Question, "a question")
    if faults:
        return faults
    if len(questions) > config.max_questions:
        faults.append(
            f"questions: {len(questions)} are more than max_questions ({config.max_questions})"
        )
    for i, question in enumerate(questions):
        where = f"questions[{i}]"
        texts = [(f"{where}.prompt", question.prompt), (f"{where}.title", question.title)]
        faults += [f"{name}: it is empty" for name, text in texts if not text.strip()]
        count = len(question.options)
        if count < config.min_options:
            faults.append(
                f"{where}.options: {count} are fewer than min_options ({config.min_options})"
            )
        if count > config.max_options:
            faults.append(
                f"{where}.options: {count} are more than max_options ({config.max_options})"
            )
        seen: set[str] = set()
        for j, option in enumerate(question.options):
            name = f"{where}.options[{j}]"
            if not option.label.strip():
                faults.append(f"{name}.label: it is empty")
            elif option.label in seen:
                faults.append(
                    f"{name}.label: {option.label!r} is there already; an answer could not tell "
                    "them apart"
                )
            seen.add(option.label)
            texts.append((f"{name}.label", option.label))
            texts.append((f"{name}.description", option.description or ""))
        faults += [
            f"{name}: {len(text):,} characters are more than {config.max_text_chars:,}"
            for name, text in texts
            if len(text) > config.max_text_chars
        ]
    return faults


def check_questions(questions: Iterable[Question], config: QuestionsConfig | None = None) -> None:
    """Check that questions may be asked.

    Raises:
        InvalidQuestions: It names every fault.
    """
    faults = question_faults(tuple(questions), config or QuestionsConfig())
    if faults:
        raise InvalidQuestions(faults)
