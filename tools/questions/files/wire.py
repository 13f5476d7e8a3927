"""Question sessions as the JSON that other programs read and write, field by field.

Keys are camelCase and in a fixed order. Reading takes any order, ignores unknown keys and reads an
unknown status as pending.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from ...base.question import FaultyInput, InvalidQuestions, Option, Question
from ...base.reading.fields import Fields
from ...base.reading.nodes import Faults, NoJsonObject, as_text, as_time, as_whole, parse_json
from ..askers import asker_document, parse_asker
from ..domain import SessionAnswers, SessionRequest, StatusRecord, UserAnswer
from ..errors import InvalidAnswers
from ..session_status import SessionStatus


class WireError(ValueError):
    """A document is invalid.

    Attributes:
        faults: Everything that is wrong.
    """

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)


def to_millis(moment: datetime) -> datetime:
    """Return a time at the files' precision: UTC, whole milliseconds."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    utc = aware.astimezone(UTC)
    return utc.replace(microsecond=utc.microsecond // 1000 * 1000)


def format_time(moment: datetime) -> str:
    """Format a time as `2026-03-01T09:30:00.000Z`."""
    return to_millis(moment).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def without_none(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document without the keys that are None."""
    return {key: value for key, value in document.items() if value is not None}


def encode(document: Mapping[str, Any]) -> bytes:
    """Encode a document as the files have it: indented by two, and no newline at the end."""
    return json.dumps(document, indent=2, ensure_ascii=False).encode()


def decode(data: bytes, name: str) -> dict[str, Any]:
    """Parse a JSON object.

    Raises:
        WireError: The data is no JSON object.
    """
    try:
        return parse_json(data)
    except NoJsonObject as error:
        raise WireError([f"{name}: {error}"]) from error


_Value = TypeVar("_Value")

# ------------------------------------------------------------------------------------- writing


def option_document(option: Option) -> dict[str, Any]:
    """Return an option as JSON."""
    if option.description is None:
        return {"label": option.label}
    return {"description": option.description, "label": option.label}


def question_document(question: Question) -> dict[str, Any]:
    """Return a question as JSON."""
    return {
        "options": [option_document(one) for one in question.options],
        "prompt": question.prompt,
        "title": question.title,
        "multiSelect": question.multi_select,
    }


def answer_document(answer: UserAnswer) -> dict[str, Any]:
    """Return an answer as JSON, without the fields that were not given."""
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


def _as_status(node: object) -> SessionStatus | None:
    """Read a status; one that only another program knows ("in-progress") still waits."""
    if not isinstance(node, str):
        return None
    try:
        return SessionStatus(node)
    except ValueError:
        return SessionStatus.PENDING


def _as_millis(node: object) -> datetime | None:
    """Read a time; one without a zone is in UTC."""
    moment = as_time(node)
    try:
        return None if moment is None else to_millis(moment)
    except OverflowError:
        return None


def _as_texts(node: object) -> tuple[str, ...] | None:
    if isinstance(node, list) and all(isinstance(one, str) for one in node):
        return tuple(node)
    return None


def _courtesy(fields: Fields, name: str, kind: Callable[[Any], _Value | None]) -> _Value | None:
    """Read a field that no decision depends on; its faults are ignored."""
    node = fields.take(name)
    return None if node is None else kind(node)


def _time(fields: Fields, name: str) -> datetime | None:
    return fields.read(name, "an ISO 8601 time", _as_millis, required=True)


def _question(fields: Fields) -> Question | None:
    before = len(fields.faults)
    prompt, title = fields.text("prompt", required=True), fields.text("title", required=True)
    multi = fields.flag("multiSelect")
    options = [
        (one.text("label", required=True), one.text("description"))
        for one in fields.each("options", least=0)
    ]
    if len(fields.faults) > before or prompt is None or title is None:
        return None
    try:
        return Question(
            prompt=prompt,
            title=title,
            options=[Option(label=str(label), description=about) for label, about in options],
            multi_select=multi,
        )
    except InvalidQuestions as error:
        _refused(fields, error)
        return None


def _answer(fields: Fields) -> UserAnswer | None:
    """Read an answer; an index that is no number counts as none."""
    before = len(fields.faults)
    option = fields.text("selectedOption")
    options = fields.read("selectedOptions", "a list of texts", _as_texts)
    custom = fields.text("customText")
    if len(fields.faults) > before:
        return None
    try:
        return UserAnswer(
            question_index=_courtesy(fields, "questionIndex", as_whole),
            selected_option=option,
            selected_options=options,
            custom_text=custom,
            timestamp=_courtesy(fields, "timestamp", _as_millis),
        )
    except InvalidAnswers as error:
        _refused(fields, error)
        return None


def _refused(fields: Fields, error: FaultyInput) -> None:
    for fault in error.faults:
        fields.faults.add(fields.where, fault)


def _some(found: Iterable[_Value | None]) -> tuple[_Value, ...]:
    return tuple(one for one in found if one is not None)


def _all(
    documents: object,
    where: str,
    make: Callable[[Fields], _Value | None],
    error: type[FaultyInput],
) -> tuple[_Value, ...]:
    faults = Faults()
    found = _some(map(make, Fields({where: documents}, "", faults).each(where, least=0)))
    if faults:
        raise error(faults.sorted())
    return found


def parse_questions(documents: object, where: str = "questions") -> tuple[Question, ...]:
    """Read a list of questions from JSON.

    Raises:
        InvalidQuestions: It names every fault of their form.
    """
    return _all(documents, where, _question, InvalidQuestions)


def parse_answers(documents: object, where: str = "answers") -> tuple[UserAnswer, ...]:
    """Read a list of answers from JSON.

    Raises:
        InvalidAnswers: It names every fault of their form.
    """
    return _all(documents, where, _answer, InvalidAnswers)


def _fields_of(data: bytes, name: str) -> Fields:
    return Fields(decode(data, name), name, Faults())


def _require_sound(fields: Fields) -> None:
    if fields.faults:
        raise WireError(fields.faults.sorted())


def read_request(data: bytes) -> SessionRequest:
    """Read request.json.

    Raises:
        WireError: It names every fault.
    """
    fields = _fields_of(data, "request.json")
    values: dict[str, Any] = {
        "session_id": fields.text("sessionId", required=True),
        "status": fields.read("status", "a status", _as_status, required=True),
        "questions": _some(map(_question, fields.each("questions", least=0))),
        "timestamp": _time(fields, "timestamp"),
        "call_id": fields.text("callId"),
    }
    _require_sound(fields)
    return SessionRequest(
        **values,
        working_directory=_courtesy(fields, "workingDirectory", as_text),
        asker=_courtesy(fields, "asker", parse_asker),
    )


def read_status(data: bytes) -> StatusRecord:
    """Read status.json.

    Raises:
        WireError: It names every fault.
    """
    fields = _fields_of(data, "status.json")
    values: dict[str, Any] = {
        "session_id": fields.text("sessionId", required=True),
        "status": fields.read("status", "a status", _as_status, required=True),
        "created_at": _time(fields, "createdAt"),
        "last_modified": _time(fields, "lastModified"),
        "total_questions": fields.read("totalQuestions", "a whole number", as_whole, required=True),
        "call_id": fields.text("callId"),
        "rejection_reason": fields.text("rejectionReason"),
        "end_reason": fields.text("endReason"),
    }
    _require_sound(fields)
    return StatusRecord(**values, working_directory=_courtesy(fields, "workingDirectory", as_text))


def read_answers(data: bytes) -> SessionAnswers:
    """Read answers.json.

    Raises:
        WireError: It names every fault.
    """
    fields = _fields_of(data, "answers.json")
    values: dict[str, Any] = {
        "session_id": fields.text("sessionId", required=True),
        "answers": _some(map(_answer, fields.each("answers", least=0))),
        "timestamp": _time(fields, "timestamp"),
        "call_id": fields.text("callId"),
    }
    _require_sound(fields)
    return SessionAnswers(**values, last_read_at=_courtesy(fields, "lastReadAt", _as_millis))
