"""The JSON of question sessions: written in one form, read leniently, never guessed.

Writing gives camelCase keys in a fixed order, UTF-8, times as `2026-03-01T09:30:00.000Z`, and no
newline at the end: the bytes that `JSON.stringify(value, null, 2)` gives. Reading takes any order,
any ISO 8601 time (without a zone: UTC), ignores keys that it does not know and reads a status that
it does not know as pending; everything that is wrong is told at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from .askers import asker_document, parse_asker
from .domain import Option, Question, SessionAnswers, SessionRequest, StatusRecord, UserAnswer
from .errors import InvalidAnswers, InvalidQuestions
from .session_status import SessionStatus

_Value = TypeVar("_Value")
_MISSING: Final = object()


class WireError(ValueError):
    """A document that is not what it should be.

    Attributes:
        faults: Everything that is wrong.
    """

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)


# ------------------------------------------------------------------------------------- writing


def to_millis(moment: datetime) -> datetime:
    """Return a time as the files hold it: UTC, whole milliseconds."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    utc = aware.astimezone(UTC)
    return utc.replace(microsecond=utc.microsecond // 1000 * 1000)


def format_time(moment: datetime) -> str:
    """Write a time as `2026-03-01T09:30:00.000Z`."""
    return to_millis(moment).isoformat(timespec="milliseconds").replace("+00:00", "Z")


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
    return _without_none(
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
    return _without_none(
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
    """Return status.json; only a rejected session has a reason for it, which may be null."""
    document = _without_none(
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
    if record.status is SessionStatus.REJECTED:
        document["rejectionReason"] = record.rejection_reason
    if record.end_reason is not None:
        document["endReason"] = record.end_reason
    return document


def answers_document(answers: SessionAnswers) -> dict[str, Any]:
    """Return answers.json."""
    read_at = answers.last_read_at
    return _without_none(
        {
            "answers": [answer_document(one) for one in answers.answers],
            "sessionId": answers.session_id,
            "timestamp": format_time(answers.timestamp),
            "callId": answers.call_id,
            "lastReadAt": None if read_at is None else format_time(read_at),
        }
    )


def _without_none(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if value is not None}


def encode(document: Mapping[str, Any]) -> bytes:
    """Write a document as the files hold it: indented by two, and no newline at the end."""
    return json.dumps(document, indent=2, ensure_ascii=False).encode()


# ------------------------------------------------------------------------------------- reading


def decode(data: bytes, name: str) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        WireError: It is none.
    """
    try:
        found = json.loads(data.decode("utf-8-sig"), parse_constant=_no_constant)
    except RecursionError:
        raise WireError([f"{name}: it is nested too deeply"]) from None
    except ValueError as error:
        raise WireError([f"{name}: it is no JSON ({error})"]) from error
    if not isinstance(found, dict):
        raise WireError([f"{name}: expected an object, got {_kind(found)}"])
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
    return "nothing" if value is None else names.get(type(value), "a number")


class _Reader:
    """Takes values out of an object and notes what is wrong with them."""

    def __init__(self, document: object, where: str, faults: list[str]) -> None:
        self.faults = faults
        self._where = where
        self._document: Mapping[str, Any] = {}
        if isinstance(document, dict):
            self._document = document
        else:
            faults.append(f"{where}: expected an object, got {_kind(document)}")

    def take(
        self,
        key: str,
        expected: str,
        read: Callable[[Any], _Value | None],
        *,
        optional: bool = False,
    ) -> _Value | None:
        value = self._document.get(key, _MISSING)
        if value is _MISSING or value is None:
            if not optional:
                missing = "is missing" if value is _MISSING else f"expected {expected}, got nothing"
                self.faults.append(f"{self._where}.{key}: {missing}")
            return None
        taken = read(value)
        if taken is None:
            self.faults.append(f"{self._where}.{key}: expected {expected}, got {_kind(value)}")
        return taken

    def text(self, key: str, *, optional: bool = False) -> str | None:
        return self.take(key, "text", _text, optional=optional)

    def time(self, key: str, *, optional: bool = False) -> datetime | None:
        return self.take(key, "an ISO 8601 time", _time, optional=optional)

    def courtesy(self, key: str, read: Callable[[Any], _Value | None]) -> _Value | None:
        """Take what no decision depends on; what is wrong with it is no fault."""
        value = self._document.get(key)
        return None if value is None else read(value)

    def list(self, key: str, *, optional: bool = False) -> list[Any] | None:
        return self.take(
            key, "a list", lambda v: v if isinstance(v, list) else None, optional=optional
        )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _time(value: object) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        return to_millis(datetime.fromisoformat(value))
    except (ValueError, OverflowError):
        return None


def _status(value: object) -> SessionStatus | None:
    """Read a status; one that another program knows and we don't ("in-progress") still waits."""
    if not isinstance(value, str):
        return None
    try:
        return SessionStatus(value)
    except ValueError:
        return SessionStatus.PENDING


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _boolean(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _labels(value: object) -> tuple[str, ...] | None:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(value)
    return None


def parse_question(document: object, where: str, faults: list[str]) -> Question | None:
    """Read a question; what is wrong goes to `faults`."""
    before = len(faults)
    reader = _Reader(document, where, faults)
    prompt, title = reader.text("prompt"), reader.text("title")
    multi = reader.take("multiSelect", "true or false", _boolean, optional=True)
    options = []
    for i, one in enumerate(reader.list("options") or ()):
        inner = _Reader(one, f"{where}.options[{i}]", faults)
        label, description = inner.text("label"), inner.text("description", optional=True)
        if label is not None:
            options.append((label, description))
    if len(faults) > before or prompt is None or title is None:
        return None
    try:
        return Question(
            prompt=prompt,
            title=title,
            options=tuple(Option(label=label, description=told) for label, told in options),
            multi_select=bool(multi),
        )
    except InvalidQuestions as error:
        faults += [f"{where}: {fault}" for fault in error.faults]
        return None


def parse_questions(documents: object, where: str = "questions") -> tuple[Question, ...]:
    """Read a list of questions as JSON has them.

    Raises:
        InvalidQuestions: With everything that is wrong with their form.
    """
    if not isinstance(documents, list | tuple):
        raise InvalidQuestions([f"{where}: expected a list, got {_kind(documents)}"])
    faults: list[str] = []
    found = [parse_question(one, f"{where}[{i}]", faults) for i, one in enumerate(documents)]
    if faults:
        raise InvalidQuestions(faults)
    return tuple(one for one in found if one is not None)


def parse_answer(document: object, where: str, faults: list[str]) -> UserAnswer | None:
    """Read an answer; what is wrong goes to `faults`. An index that is no number names nothing."""
    before = len(faults)
    reader = _Reader(document, where, faults)
    index = reader.courtesy("questionIndex", _count)
    option = reader.text("selectedOption", optional=True)
    options = reader.take("selectedOptions", "a list of texts", _labels, optional=True)
    custom = reader.text("customText", optional=True)
    timestamp = reader.courtesy("timestamp", _time)
    if len(faults) > before:
        return None
    try:
        return UserAnswer(
            question_index=index,
            selected_option=option,
            selected_options=options,
            custom_text=custom,
            timestamp=timestamp,
        )
    except InvalidAnswers as error:
        faults += [f"{where}: {fault}" for fault in error.faults]
        return None


def parse_answers(documents: object, where: str = "answers") -> tuple[UserAnswer, ...]:
    """Read a list of answers as JSON has them.

    Raises:
        InvalidAnswers: With everything that is wrong with their form.
    """
    if not isinstance(documents, list | tuple):
        raise InvalidAnswers([f"{where}: expected a list, got {_kind(documents)}"])
    faults: list[str] = []
    found = [parse_answer(one, f"{where}[{i}]", faults) for i, one in enumerate(documents)]
    if faults:
        raise InvalidAnswers(faults)
    return tuple(one for one in found if one is not None)


def read_request(data: bytes) -> SessionRequest:
    """Read request.json.

    Raises:
        WireError: With everything that is wrong.
    """
    name = "request.json"
    faults: list[str] = []
    reader = _Reader(decode(data, name), name, faults)
    session_id, status = reader.text("sessionId"), reader.take("status", "a status", _status)
    documents, timestamp = reader.list("questions"), reader.time("timestamp")
    call_id = reader.text("callId", optional=True)
    questions = [
        parse_question(one, f"{name}.questions[{i}]", faults)
        for i, one in enumerate(documents or ())
    ]
    if faults or session_id is None or status is None or timestamp is None:
        raise WireError(faults)
    return SessionRequest(
        session_id=session_id,
        questions=[one for one in questions if one is not None],
        status=status,
        timestamp=timestamp,
        call_id=call_id,
        working_directory=reader.courtesy("workingDirectory", _text),
        asker=reader.courtesy("asker", parse_asker),
    )


def read_status(data: bytes) -> StatusRecord:
    """Read status.json.

    Raises:
        WireError: With everything that is wrong.
    """
    name = "status.json"
    faults: list[str] = []
    reader = _Reader(decode(data, name), name, faults)
    session_id, status = reader.text("sessionId"), reader.take("status", "a status", _status)
    created, modified = reader.time("createdAt"), reader.time("lastModified")
    total = reader.take("totalQuestions", "a whole number", _count)
    call_id = reader.text("callId", optional=True)
    rejection = reader.text("rejectionReason", optional=True)
    end_reason = reader.text("endReason", optional=True)
    if (
        faults
        or session_id is None
        or status is None
        or created is None
        or modified is None
        or total is None
    ):
        raise WireError(faults)
    return StatusRecord(
        session_id=session_id,
        status=status,
        created_at=created,
        last_modified=modified,
        total_questions=total,
        call_id=call_id,
        rejection_reason=rejection,
        end_reason=end_reason,
        working_directory=reader.courtesy("workingDirectory", _text),
    )


def read_answers(data: bytes) -> SessionAnswers:
    """Read answers.json.

    Raises:
        WireError: With everything that is wrong.
    """
    name = "answers.json"
    faults: list[str] = []
    reader = _Reader(decode(data, name), name, faults)
    session_id, timestamp = reader.text("sessionId"), reader.time("timestamp")
    documents, call_id = reader.list("answers"), reader.text("callId", optional=True)
    answers = [
        parse_answer(one, f"{name}.answers[{i}]", faults) for i, one in enumerate(documents or ())
    ]
    if faults or session_id is None or timestamp is None:
        raise WireError(faults)
    return SessionAnswers(
        session_id=session_id,
        answers=[one for one in answers if one is not None],
        timestamp=timestamp,
        call_id=call_id,
        last_read_at=reader.courtesy("lastReadAt", _time),
    )
