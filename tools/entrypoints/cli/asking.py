"""Questions at the command line: their directory, ids and documents, and answers from a person."""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from .context import Cli
from .options import QuestionPlace, argument, misuse, questions_directory, read_given_text
from .output.documents import selected
from .output.output import typed_line

if TYPE_CHECKING:
    from ...questions import Question, QuestionSession, QuestionSessions, UserAnswer
    from .output.output import Output

_MAX_INPUT: Final = 8 * 1024 * 1024


def complete_question_ids(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the question sessions whose ids begin with `incomplete`, for shell completion."""
    from ...wiring.bootstrap import open_questions

    try:
        given, store = context.params, context.find_root().params.get("store")
        where = questions_directory(given.get("directory"), shared=bool(given.get("shared")))
        sessions = open_questions(where, store=store)
        return [
            (one.session_id, one.status.value)
            for one in sessions.list_sessions()
            if one.session_id.startswith(incomplete)
        ]
    except Exception:  # noqa: BLE001 (completion must not print an error into the command line)
        return []


QuestionId = Annotated[
    str,
    argument(
        "ID",
        "The question session's id, or an unambiguous beginning of it.",
        autocompletion=complete_question_ids,
    ),
]


def question_sessions(cli: Cli, place: QuestionPlace) -> QuestionSessions:
    """Return the question sessions that the options name."""
    from ...wiring.bootstrap import open_questions

    sessions = open_questions(place.path, store=cli.store(), clock=cli.outside.clock)
    say_what_came(cli, sessions)
    return sessions


def say_what_came(cli: Cli, sessions: QuestionSessions) -> None:
    """Write a remark if question sessions came with the repository."""
    told = sessions.came_with_repository()
    if told is not None:
        cli.output.remark(told)


def read_json(name: str) -> Any:
    """Read a JSON document from a file, or from standard input if its name is `-`.

    Raises:
        typer.BadParameter: It can't be read, is too large or is not JSON.
    """
    text = read_given_text(Path(name), option="--file", most=_MAX_INPUT)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise misuse("--file", f"{name} is no JSON: {error}") from error


def session_document(sessions: QuestionSessions, session: QuestionSession) -> dict[str, Any]:
    """Return a question session as a JSON document."""
    from ...questions.files.wire import answer_document, question_document

    answers = session.answers
    return {
        "session_id": session.session_id,
        "status": sessions.status_of(session),
        **selected(session, "created_at last_modified call_id rejection_reason"),
        "end_reason": session.record.end_reason,
        "questions": [question_document(one) for one in session.questions],
        "answers": None if answers is None else [answer_document(one) for one in answers.answers],
    }


_NUMBERED = re.compile(r"(\d{1,3}):(.*)", re.DOTALL)


def from_options(
    questions: Sequence[Question],
    *,
    select: Sequence[str],
    text: Sequence[str],
    nothing: Sequence[int],
) -> list[UserAnswer]:
    """Return the answers in `--select`, `--text` and `--none`.

    Raises:
        typer.BadParameter: An answer names an unknown question or option; names the nearest label.
    """
    from ...questions import UserAnswer

    chosen: dict[int, list[str]] = {}
    own: dict[int, str] = {}
    for one in select:
        index, label = _split(one, questions, "--select")
        chosen.setdefault(index, []).append(_label(label, questions[index]))
    for one in text:
        index, words = _split(one, questions, "--text")
        if index in own:
            raise misuse("--text", f"question {index + 1} has a text already")
        own[index] = words
    for number in nothing:
        if not 1 <= number <= len(questions):
            raise misuse("--none", f"there is no question {number}")
        if not questions[number - 1].multi_select:
            raise misuse("--none", f"question {number} takes exactly one option")
        chosen.setdefault(number - 1, [])
    answers = []
    for index in sorted(chosen.keys() | own.keys()):
        question, labels = questions[index], chosen.get(index)
        single = labels is not None and len(labels) == 1 and not question.multi_select
        answers.append(
            UserAnswer(
                question_index=index,
                selected_option=labels[0] if single and labels else None,
                selected_options=None if single or labels is None else tuple(labels),
                custom_text=own.get(index),
            )
        )
    return answers


def _split(given: str, questions: Sequence[Question], hint: str) -> tuple[int, str]:
    """Split off the question's number."""
    if len(questions) == 1 and (given in questions[0].labels or not _NUMBERED.fullmatch(given)):
        return 0, given
    found = _NUMBERED.fullmatch(given)
    if found is None:
        raise misuse(
            hint,
            f"there are {len(questions)} questions: write the number of one before it, as in "
            f"1:{given[:40]}",
        )
    number = int(found[1])
    if not 1 <= number <= len(questions):
        if len(questions) == 1:
            return 0, given  # only looks like a number
        raise misuse(hint, f"there is no question {number}, but 1 to {len(questions)}")
    return number - 1, found[2].strip()


def _label(given: str, question: Question) -> str:
    """Return the label that matches exactly, or else the only one that differs in case alone."""
    if given in question.labels:
        return given
    same = [label for label in question.labels if label.casefold() == given.strip().casefold()]
    if len(same) == 1:
        return same[0]
    near = difflib.get_close_matches(given, question.labels, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(question.labels)}"
    raise misuse("--select", f"there is no option {given!r}; {hint}")


def from_person(output: Output, questions: Sequence[Question]) -> list[UserAnswer]:
    """Ask at the terminal, question by question.

    Raises:
        typer.BadParameter: There is no terminal.
        KeyboardInterrupt: The person left; nothing was written.
    """
    if output.json or not sys.stdin.isatty():
        raise misuse(
            "--select", "there is no terminal to ask at; answer with --select, --text or --file"
        )

    def read(prompt: str) -> str:
        if not (line := typed_line(prompt.removesuffix(" "))):
            raise KeyboardInterrupt
        return line

    return ask_each(output, questions, read) or []


def ask_each(
    output: Output, questions: Sequence[Question], read: Callable[[str], str | None]
) -> list[UserAnswer] | None:
    """Ask question by question; None if `read`, called with a prompt, has no more lines."""
    answers: list[UserAnswer] = []
    for index, question in enumerate(questions):
        show_question(output, index, question)
        how = "numbers, as in 1,3" if question.multi_select else "a number"
        while len(answers) == index:
            line = read(f"   {how}, or your own words: ")
            if line is None:
                return None
            answer = parse_line(line, index, question)
            if answer is None:
                output.remark("   That is none of them.")
            else:
                answers.append(answer)
    return answers


def show_question(output: Output, index: int, question: Question, *, numbered: bool = True) -> None:
    """Show a question with its options."""
    output.lines(f"{index + 1}. {question.prompt}")
    for number, option in enumerate(question.options, 1):
        more = f" — {option.description}" if option.description else ""
        output.line(f"   {f'{number})' if numbered else '-'} {option.label}{more}")


def parse_line(line: str, index: int, question: Question) -> UserAnswer | None:
    """Parse a typed answer: option numbers or free text; None if it is neither."""
    from ...questions import UserAnswer

    text = line.strip()
    if not text:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) < 4 for part in parts):
        return UserAnswer(question_index=index, custom_text=text)
    numbers = list(dict.fromkeys(int(part) for part in parts))
    if not all(1 <= number <= len(question.options) for number in numbers):
        return None
    labels = tuple(question.labels[number - 1] for number in numbers)
    if question.multi_select:
        return UserAnswer(question_index=index, selected_options=labels)
    return UserAnswer(question_index=index, selected_option=labels[0]) if len(labels) == 1 else None
