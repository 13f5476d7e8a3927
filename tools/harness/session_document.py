"""Nodes to sessions: every field of a file judged, and everything that is wrong told at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from attrs import define

from .entry_data import NO_DATA
from .errors import UnsupportedSchema
from .session_data import NotData, value_of
from .session_domain import (
    ARTIFACT_TYPES,
    MAX_COUNT,
    InvalidSession,
    SessionArtifact,
    SessionContext,
    SessionHistory,
    SessionState,
    TokenBudget,
)
from .session_newer import is_text, keep
from .session_nodes import (
    Faults,
    Judge,
    MappingNode,
    Node,
    Scalar,
    SequenceNode,
    kind,
    parse,
    short,
)
from .session_scalars import SCHEMA_VERSION

_T = TypeVar("_T")

_MAX_FAULTS: Final = 100
_NULL_RE: Final = re.compile(r"~|null|Null|NULL|")
_INT_RE: Final = re.compile(r"0|[-+]?[1-9][0-9]*")
_VERSION_RE: Final = re.compile(r"([0-9]+)(?:\.([0-9]+))?")


class _UnknownField(str):
    """The fault of a field that no session has, unless a newer version wrote it."""


@define
class _Version:
    """Which version wrote the file, as far as that was read already."""

    minor: int | None = None

    @property
    def is_newer(self) -> bool:
        return bool(self.minor)

    def take(self, node: Node, path: Path) -> None:
        """Read it from its node; refuse a newer major version."""
        found = _VERSION_RE.fullmatch(node.text) if isinstance(node, Scalar) else None
        if found is None:
            return
        major = int(found[1][:20])
        if major > SCHEMA_VERSION:
            raise UnsupportedSchema(path=path, schema_version=major, newest=SCHEMA_VERSION)
        if major == SCHEMA_VERSION:
            self.minor = min(int((found[2] or "0")[:20]), MAX_COUNT)


class _Fields:
    """Takes typed fields out of a mapping and remembers everything that is wrong."""

    def __init__(self, node: Node, where: str, faults: list[str], version: _Version) -> None:
        self._where = where
        self._faults = faults
        self._version = version
        self._fields: dict[str, Node] = {}
        if isinstance(node, MappingNode):
            self._fields = dict(node.fields)
        else:
            self._fault("", f"expected fields, found {kind(node)}", node)

    def _fault(self, name: str, problem: str, node: Node | None) -> None:
        line = "" if node is None else f"line {node.line}: "
        label = f"{self._where}{'.' if self._where and name else ''}{name}"
        self._faults.append(f"{line}{label}{': ' if label else ''}{problem}")
        if len(self._faults) >= _MAX_FAULTS:
            raise Faults(*self._faults)

    def node(self, name: str) -> Node | None:
        """Take a field; None, and a fault, if it is not there."""
        node = self._fields.pop(name, None)
        if node is None:
            self._fault(name, "is missing", None)
        return node

    def text(self, name: str) -> str | None:
        node = self.node(name)
        if node is None:
            return None
        if isinstance(node, Scalar):
            if not node.plain:
                return node.text
            if _NULL_RE.fullmatch(node.text):
                return None
            if is_text(node.text):
                return node.text
            self._fault(name, f"expected text, found {short(node.text)}; put it in quotes", node)
        else:
            self._fault(name, f"expected text, found {kind(node)}", node)
        return None

    def count(self, name: str) -> int:
        node = self.node(name)
        if isinstance(node, Scalar) and node.plain and _INT_RE.fullmatch(node.text):
            if len(node.text) <= 20:
                return int(node.text)
            self._fault(name, "is too large a number", node)
        elif node is not None:
            self._fault(name, f"expected a whole number, found {kind(node)}", node)
        return 1

    def time(self, name: str, *, optional: bool = False) -> datetime:
        node = self.node(name)
        if isinstance(node, Scalar):
            if optional and node.plain and _NULL_RE.fullmatch(node.text):
                return None  # type: ignore[return-value]
            try:
                return datetime.fromisoformat(node.text)
            except ValueError:
                pass
        if node is not None:
            self._fault(name, f"expected a time in ISO 8601, found {kind(node)}", node)
        return datetime(1970, 1, 1, tzinfo=UTC)

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        node = self.node(name)
        if isinstance(node, Scalar) and node.text in choices:
            return node.text
        if node is not None:
            self._fault(name, f"expected one of {', '.join(choices)}, found {kind(node)}", node)
        return choices[0]

    def items(self, name: str) -> list[Any]:
        node = self.node(name)
        if isinstance(node, SequenceNode):
            return node.items
        if node is not None:
            self._fault(name, f"expected a list, found {kind(node)}", node)
        return []

    def data(self, name: str) -> Mapping[str, Any]:
        """Take a field that holds what JSON has."""
        node = self.node(name)
        try:
            found = value_of(node) if isinstance(node, MappingNode) else None
        except NotData as error:
            told = f"{short(error.node.text)} is no value of JSON's; put it in quotes"
            self._fault(name, told, error.node)
            return NO_DATA
        if found is None:
            self._fault(name, "expected fields", node)
        return found or NO_DATA

    def has(self, name: str) -> bool:
        return name in self._fields

    def drop(self, name: str) -> None:
        """Take a field that follows from others, if it is there."""
        self._fields.pop(name, None)

    def done(self) -> str:
        """Return what a newer version wrote beside these fields; else it is a fault."""
        if not self._version.is_newer:
            for name, node in self._fields.items():
                if self._version.minor is not None:
                    self._fault(short(name), "is not a field of a session", node)
                elif len(self._faults) < _MAX_FAULTS - 1:
                    label = f"{self._where}{'.' if self._where else ''}{short(name)}"
                    told = f"line {node.line}: {label}: is not a field of a session"
                    self._faults.append(_UnknownField(told))
        return keep(self._fields) if self._fields else ""


def _build(make: Callable[[], _T], where: str, node: Node, faults: list[str]) -> _T | None:
    """Call a constructor of the domain; put what it refuses among the faults."""
    try:
        return make()
    except InvalidSession as error:
        label = f"line {node.line}: {where}{'.' if where else ''}"
        faults.extend(f"{label}{fault}" for fault in error.faults)
        if len(faults) >= _MAX_FAULTS:
            raise Faults(*faults) from error
        return None


def decode_any(text: str, path: Path) -> SessionContext:
    """Read a file through libyaml, judging every field."""
    version = _Version()
    of_artifacts: list[str] = []
    of_history: list[str] = []
    judges: dict[str, Judge] = {
        "artifacts": lambda index, node: _decode_artifact(
            node, f"artifacts[{index}]", of_artifacts, version
        ),
        "history": lambda index, node: _decode_entry(
            node, f"history[{index}]", of_history, version
        ),
    }
    root = parse(text, judges=judges, on_version=lambda node: version.take(node, path))
    if not isinstance(root, MappingNode):
        raise Faults(f"line {root.line}: expected the fields of a session, found {kind(root)}")
    faults: list[str] = []
    if version.minor is None and "schema_version" not in root.fields:
        version.minor = 0
    fields = _Fields(root, "", faults, version)
    fields.drop("schema_version")
    if version.minor is None:
        faults.append(f"schema_version: expected {SCHEMA_VERSION}")
    session_id = fields.text("session_id")
    revision = fields.count("revision") if fields.has("revision") else 1
    state = SessionState(fields.choice("state", tuple(state.value for state in SessionState)))
    workflow_type = fields.text("workflow_type")
    current_phase = fields.text("current_phase")
    attempt_number = fields.count("attempt_number")
    created_at = fields.time("created_at")
    updated_at = fields.time("updated_at")
    completed_at = fields.time("completed_at", optional=True)
    budget = _decode_budget(fields.node("token_budget"), faults, version)
    goal = fields.text("goal") if fields.has("goal") else None
    artifacts = fields.items("artifacts")
    faults += of_artifacts
    history = fields.items("history")
    faults += of_history
    newer_fields = fields.done()
    if version.is_newer:
        faults = [fault for fault in faults if not isinstance(fault, _UnknownField)]
    if faults:
        raise Faults(*faults)
    try:
        return SessionContext(
            session_id=session_id,  # type: ignore[arg-type]  # the constructor judges it
            state=state,
            created_at=created_at,
            updated_at=updated_at,
            token_budget=budget,
            workflow_type=workflow_type,
            current_phase=current_phase,
            attempt_number=attempt_number,
            completed_at=completed_at,
            artifacts=artifacts,
            history=history,
            goal=goal,
            revision=revision,
            schema_minor=version.minor or 0,
            newer_fields=newer_fields,
        )
    except InvalidSession as error:
        raise Faults(*error.faults) from error


def _decode_budget(node: Node | None, faults: list[str], version: _Version) -> TokenBudget:
    if node is None:
        return TokenBudget()
    fields = _Fields(node, "token_budget", faults, version)
    total = fields.count("total_budget")
    used = fields.count("tokens_used")
    fields.drop("remaining")
    newer = fields.done()
    return _build(lambda: TokenBudget(total, used, newer), "", node, faults) or TokenBudget()


def _decode_artifact(
    node: Node, where: str, faults: list[str], version: _Version
) -> SessionArtifact | None:
    fields = _Fields(node, where, faults, version)
    path = fields.text("path") or ""
    artifact_type = fields.choice("artifact_type", ARTIFACT_TYPES)
    timestamp = fields.time("timestamp")
    phase = fields.text("phase")
    newer = fields.done()
    return _build(
        lambda: SessionArtifact(path, artifact_type, timestamp, phase, newer), where, node, faults
    )


def _decode_entry(
    node: Node, where: str, faults: list[str], version: _Version
) -> SessionHistory | None:
    fields = _Fields(node, where, faults, version)
    timestamp = fields.time("timestamp")
    action = fields.text("action") or ""
    phase = fields.text("phase")
    details = fields.text("details")
    data = fields.data("data") if fields.has("data") else NO_DATA
    newer = fields.done()
    return _build(
        lambda: SessionHistory(timestamp, action, phase, details, newer, data),
        where,
        node,
        faults,
    )
