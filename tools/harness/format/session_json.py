"""A session from JSON, as `SessionContext.to_dict` wrote it; all that is wrong is told at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, TypeVar

from ..domain.session_checks import InvalidSession, with_type
from ..domain.session_entries import SessionArtifact, SessionHistory
from ..domain.session_states import SessionState
from ..domain.token_budget import TokenBudget
from ..session_domain import SessionContext
from ..session_layout import SCHEMA_VERSION

_T = TypeVar("_T")
_TIMES: Final = ("created_at", "updated_at", "completed_at")
_PLAIN: Final = (
    "session_id",
    "parent_id",
    "title",
    "tags",
    "revision",
    "workflow_type",
    "current_phase",
    "attempt_number",
    "goal",
    "metadata",
    "workflow_state",
)


def session_from_dict(document: object) -> SessionContext:
    """Return the session that a document describes; the inverse of `SessionContext.to_dict`.

    Args:
        document: A mapping with the fields of the published schema (`agentforge schema`). What
            stands beside them is passed over, as in the output of `agentforge show --json`.

    Raises:
        InvalidSession: With everything that is wrong.
    """
    reader = _Reader()
    fields = reader.mapping("session", document)
    version = fields.get("schema_version")
    if not isinstance(version, str) or version.partition(".")[0] != str(SCHEMA_VERSION):
        fault = f"schema_version: expected {SCHEMA_VERSION}.n, got {with_type(version)}"
        reader.faults.append(fault)
    values: dict[str, Any] = {name: reader.take(fields, name) for name in _PLAIN}
    values |= {name: reader.time(fields, name) for name in _TIMES}
    values["state"] = reader.state(fields)
    budget = reader.mapping("token_budget", reader.take(fields, "token_budget"))
    with reader.faults_of(""):  # its faults name it
        values["token_budget"] = TokenBudget(
            reader.take(budget, "total_budget"), reader.take(budget, "tokens_used")
        )
    values["artifacts"] = reader.items(fields, "artifacts", _artifact)
    values["history"] = reader.items(fields, "history", _entry)
    if not reader.faults:
        return SessionContext(**values)
    values.setdefault("token_budget", TokenBudget())
    reader.judge(values)
    raise InvalidSession(list(dict.fromkeys(reader.faults)))


class _Reader:
    """Takes values out of documents; what is wrong is collected."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    @contextmanager
    def faults_of(self, place: str) -> Iterator[None]:
        """Collect what the domain refuses within the block."""
        try:
            yield
        except InvalidSession as error:
            self.faults += [f"{place}{fault}" for fault in error.faults]

    def judge(self, values: Mapping[str, Any]) -> None:
        """Collect what the domain has against values of which some are wrong already."""
        known = {fault.partition(":")[0].partition("[")[0] for fault in self.faults}
        try:
            SessionContext(**values)
        except InvalidSession as error:
            self.faults += [fault for fault in error.faults if fault.partition(":")[0] not in known]

    def mapping(self, place: str, value: object) -> Mapping[str, Any]:
        if isinstance(value, Mapping):
            return value
        self.faults.append(f"{place}: expected a mapping, got {with_type(value)}")
        return {}

    def take(self, fields: Mapping[str, Any], name: str) -> Any:
        if name not in fields:
            self.faults.append(f"{name}: is missing")
        return fields.get(name)

    def time(self, fields: Mapping[str, Any], name: str) -> Any:
        return _time(self.take(fields, name))

    def state(self, fields: Mapping[str, Any]) -> Any:
        value = self.take(fields, "state")
        try:
            return SessionState(value)
        except ValueError:
            return value

    def items(
        self, fields: Mapping[str, Any], name: str, make: Callable[[Mapping[str, Any]], _T]
    ) -> list[_T]:
        given = self.take(fields, name)
        found: list[_T] = []
        if not isinstance(given, list | tuple):
            self.faults.append(f"{name}: expected a list, got {with_type(given)}")
            return found
        for index, one in enumerate(given):
            with self.faults_of(f"{name}[{index}]."):
                found.append(make(self.mapping(f"{name}[{index}]", one)))
        return found


def _artifact(fields: Mapping[str, Any]) -> SessionArtifact:
    return SessionArtifact(
        fields.get("path", ""),
        fields.get("artifact_type", ""),
        _time(fields.get("timestamp")),
        fields.get("phase"),
    )


def _entry(fields: Mapping[str, Any]) -> SessionHistory:
    return SessionHistory(
        _time(fields.get("timestamp")),
        fields.get("action", ""),
        fields.get("phase"),
        fields.get("details"),
        data=fields.get("data", {}),
    )


def _time(value: object) -> Any:
    """Return a text as a time; what is none is the domain's to judge."""
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            return value
    return value
