"""Question sessions as the JSON that other programs read and write, field by field.

Keys are camelCase and in a fixed order. Reading takes any order, ignores keys that it does not know
and reads a status that it does not know as pending.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ...base.question import FaultyInput, InvalidQuestions, Option, Question
from ..askers import asker_document, parse_asker
from ..domain import SessionAnswers, SessionRequest, StatusRecord, UserAnswer
from ..errors import InvalidAnswers
from ..session_status import SessionStatus
from .json_fields import (
    Fields,
    WireError,
    as_boolean,
    as_count,
    as_text,
    as_texts,
    as_time,
    decode,
    format_time,
    kind_of,
    without_none,
)

_Value = TypeVar("_Value")

# ------------------------------------------------------------------------------------- writing


def option_document(option: Option) -> dict[str, Any]:
    """Return an option as JSON has it."""
    if option.description is None:
        return {"label": option.label}
    return {"description": option.description, "label": option.label}


def question_document(question: Question) -> dict[str, Any]:
    """Return a question as JSON has it."""
    return {
        "options": [option_document(one) for one in question.options],
        "prompt": question.prompt,
        "title": question.title,
        "multiSelect": question.multi_select,
    }


def answer_document(answer: UserAnswer) -> dict[str, Any]:
    """Return an answer as JSON has it; what was not given is left out."""
    return without_none(
        {
            "questionIndex": answer.question_index,
            "selectedOption": answer.selected_option,
            "selectedOptions": None
            if answer.selected_options is None
            else list(answer.selected_options),
            "customText": answer.custom_text,
            "timestamp": None if answer.timestamp is None else format_time(answer.timestamp),
        }
    )


def request_document(request: SessionRequest) -> dict[str, Any]:
    """Return request.json."""
    return without_none(
        {
            "questions": [question_document(one) for one in request.questions],
            "sessionId": request.session_id,
            "status": request.status.value,
            "timestamp": format_time(request.timestamp),
            "workingDirectory": request.working_directory,
            "callId": request.call_id,
            "asker": None if request.asker is None else asker_document(request.asker),
        }
    )


def status_document(record: StatusRecord) -> dict[str, Any]:
    """Return status.json; that of a rejected session always has a reason, which may be null."""
    document = without_none(
        {
            "createdAt": format_time(record.created_at),
            "lastModified": format_time(record.last_modified),
            "sessionId": record.session_id,
            "status": record.status.value,
            "totalQuestions": record.total_questions,
            "workingDirectory": record.working_directory,
            "callId": record.call_id,
        }
    )
    if record.status is SessionStatus.REJECTED or record.rejection_reason is not None:
        document["rejectionReason"] = record.rejection_reason
    if record.end_reason is not None:
        document["endReason"] = record.end_reason
    return document


def answers_document(answers: SessionAnswers) -> dict[str, Any]:
    """Return answers.json."""
    read_at = answers.last_read_at
    return without_none(
        {
            "answers": [answer_document(one) for one in answers.answers],
            "sessionId": answers.session_id,
            "timestamp": format_time(answers.timestamp),
            "callId": answers.call_id,
            "lastReadAt": None if read_at is None else format_time(read_at),
        }
    )


# ------------------------------------------------------------------------------------- reading


def _as_status(value: object) -> SessionStatus | None:
    """Read a status; one that another program knows and we don't ("in-progress") still waits."""
    if not isinstance(value, str):
        return None
    try:
        return SessionStatus(value)
    except ValueError:
        return SessionStatus.PENDING


def parse_question(document: object, where: str, faults: list[str]) -> Question | None:
    """Read a question; what is wrong goes to `faults`."""
    before = len(faults)
    fields = Fields(document, where, faults)
    prompt, title = fields.text("prompt"), fields.text("title")
    multi = fields.take("multiSelect", "true or false", as_boolean, optional=True)
    options = []
    for i, one in enumerate(fields.list("options")):
        inner = Fields(one, f"{where}.options[{i}]", faults)
        options.append((inner.text("label"), inner.text("description", optional=True)))
    if len(faults) > before or prompt is None or title is None:
        return None
    try:
        return Question(
            prompt=prompt,
            title=title,
            options=[Option(label=str(label), description=about) for label, about in options],
            multi_select=bool(multi),
        )
    except InvalidQuestions as error:
        faults += [f"{where}: {fault}" for fault in error.faults]
        return None


def parse_answer(document: object, where: str, faults: list[str]) -> UserAnswer | None:
    """Read an answer; what is wrong goes to `faults`. An index that is no number names nothing."""
    before = len(faults)
    fields = Fields(document, where, faults)
    option = fields.text("selectedOption", optional=True)
    options = fields.take("selectedOptions", "a list of texts", as_texts, optional=True)
    custom = fields.text("customText", optional=True)
    if len(faults) > before:
        return None
    try:
        return UserAnswer(
            question_index=fields.courtesy("questionIndex", as_count),
            selected_option=option,
            selected_options=options,
            custom_text=custom,
            timestamp=fields.courtesy("timestamp", as_time),
        )
    except InvalidAnswers as error:
        faults += [f"{where}: {fault}" for fault in error.faults]
        return None


_Parse = Callable[[object, str, list[str]], _Value | None]


def _parse_each(
    documents: list[Any] | tuple[Any, ...], where: str, parse: _Parse[_Value], faults: list[str]
) -> tuple[_Value, ...]:
    found = [parse(one, f"{where}[{i}]", faults) for i, one in enumerate(documents)]
    return tuple(one for one in found if one is not None)


def _parse_all(
    documents: object, where: str, parse: _Parse[_Value], error: type[FaultyInput]
) -> tuple[_Value, ...]:
    if not isinstance(documents, list | tuple):
        raise error([f"{where}: expected a list, got {kind_of(documents)}"])
    faults: list[str] = []
    found = _parse_each(documents, where, parse, faults)
    if faults:
        raise error(faults)
    return found


def parse_questions(documents: object, where: str = "questions") -> tuple[Question, ...]:
    """Read a list of questions as JSON has them.

    Raises:
        InvalidQuestions: With everything that is wrong with their form.
    """
    return _parse_all(documents, where, parse_question, InvalidQuestions)


def parse_answers(documents: object, where: str = "answers") -> tuple[UserAnswer, ...]:
    """Read a list of answers as JSON has them.

    Raises:
        InvalidAnswers: With everything that is wrong with their form.
    """
    return _parse_all(documents, where, parse_answer, InvalidAnswers)


def _fields_of(data: bytes, name: str) -> Fields:
    return Fields(decode(data, name), name, [])


def read_request(data: bytes) -> SessionRequest:
    """Read request.json.

    Raises:
        WireError: With everything that is wrong.
    """
    fields = _fields_of(data, "request.json")
    session_id, status = fields.text("sessionId"), fields.take("status", "a status", _as_status)
    documents, timestamp = fields.list("questions"), fields.time("timestamp")
    call_id = fields.text("callId", optional=True)
    questions = _parse_each(documents, "request.json.questions", parse_question, fields.faults)
    if fields.faults or session_id is None or status is None or timestamp is None:
        raise WireError(fields.faults)
    return SessionRequest(
        session_id=session_id,
        questions=questions,
        status=status,
        timestamp=timestamp,
        call_id=call_id,
        working_directory=fields.courtesy("workingDirectory", as_text),
        asker=fields.courtesy("asker", parse_asker),
    )


def read_status(data: bytes) -> StatusRecord:
    """Read status.json.

    Raises:
        WireError: With everything that is wrong.
    """
    fields = _fields_of(data, "status.json")
    session_id, status = fields.text("sessionId"), fields.take("status", "a status", _as_status)
    created, modified = fields.time("createdAt"), fields.time("lastModified")
    total = fields.take("totalQuestions", "a whole number", as_count)
    call_id = fields.text("callId", optional=True)
    rejection = fields.text("rejectionReason", optional=True)
    end_reason = fields.text("endReason", optional=True)
    if (
        fields.faults
        or session_id is None
        or status is None
        or created is None
        or modified is None
        or total is None
    ):
        raise WireError(fields.faults)
    return StatusRecord(
        session_id=session_id,
        status=status,
        created_at=created,
        last_modified=modified,
        total_questions=total,
        call_id=call_id,
        rejection_reason=rejection,
        end_reason=end_reason,
        working_directory=fields.courtesy("workingDirectory", as_text),
    )


def read_answers(data: bytes) -> SessionAnswers:
    """Read answers.json.

    Raises:
        WireError: With everything that is wrong.
    """
    fields = _fields_of(data, "answers.json")
    session_id, timestamp = fields.text("sessionId"), fields.time("timestamp")
    documents, call_id = fields.list("answers"), fields.text("callId", optional=True)
    answers = _parse_each(documents, "answers.json.answers", parse_answer, fields.faults)
    if fields.faults or session_id is None or timestamp is None:
        raise WireError(fields.faults)
    return SessionAnswers(
        session_id=session_id,
        answers=answers,
        timestamp=timestamp,
        call_id=call_id,
        last_read_at=fields.courtesy("lastReadAt", as_time),
    )
