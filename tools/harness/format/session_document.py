"""Sessions from any form of YAML, as other programs, newer versions and people write it.

Every field is judged, and everything that is wrong is reported at once, with its line. Fields that
a newer version wrote are kept as YAML, so that a save does not lose them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from ...base.reading import yaml_document
from ...base.reading.yaml_document import MAX_FAULTS, Faults, Fields, Node, Scalar, describe
from ..domain.entry_data import NO_DATA
from ..errors import SessionCorrupted, UnsupportedSchema
from ..session_domain import (
    ARTIFACT_TYPES,
    MAX_COUNT,
    InvalidSession,
    SessionArtifact,
    SessionContext,
    SessionHistory,
    SessionState,
    TokenBudget,
)
from ..session_layout import OWN_DATA_MINOR, SCHEMA_VERSION
from .session_digest import FIELD as DIGEST
from .session_values import encode_key, encode_text

_T = TypeVar("_T")

_MAX_DEPTH: Final = 16
_MAX_WIDTH: Final = 1000
"""How many fields or items anything but the two long lists may have."""
_COUNT_RE: Final = re.compile(r"0|[-+]?[1-9][0-9]*")
_COUNT_DIGITS: Final = 20
_VERSION_RE: Final = re.compile(r"([0-9]+)(?:\.([0-9]+))?")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_STATES: Final = tuple(state.value for state in SessionState)
_INT_RE: Final = re.compile(r"0|[-+]?[1-9][0-9]{0,399}")
_FLOAT_RE: Final = re.compile(r"[-+]?[0-9]{1,400}\.[0-9]{0,400}(?:[eE][-+][0-9]{1,3})?")
_NUMBERS: Final = ((_INT_RE, int), (_FLOAT_RE, float))
_BOOLEANS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
}
"""What YAML 1.1 takes for true and false."""


def decode_any(text: str, path: Path) -> tuple[SessionContext, bool]:
    """Read a session's file by a YAML parser; return the session, and whether it has a digest.

    Raises:
        SessionCorrupted: It is no session; the error names the file and every fault.
        UnsupportedSchema: A newer version wrote it.
    """
    reader = _Reader(path)
    session = yaml_document.read_document(
        text,
        reader.faults,
        reader.session,
        what="session",
        max_depth=_MAX_DEPTH,
        max_width=_MAX_WIDTH,
        on_field={"schema_version": reader.version},
        on_item={"artifacts": reader.artifact, "history": reader.entry},
    )
    if session is None or reader.faults:
        raise SessionCorrupted(path=path, faults=reader.faults.sorted())
    return session, reader.carries_digest


@dataclass(slots=True)
class _Reader:
    """Makes a session of nodes.

    Attributes:
        path: The file.
        faults: Everything that is wrong with it.
        unknown: The fields that no session of this version has, with their lines: faults, unless
            the version, which may stand behind them, is a newer one.
        minor: The minor version of the form, once it is known.
        carries_digest: Whether there is a digest, which `session_digest` looks at.
    """

    path: Path
    faults: Faults = field(default_factory=Faults)
    unknown: list[tuple[int, str]] = field(default_factory=list)
    minor: int | None = None
    carries_digest: bool = False

    @property
    def is_newer(self) -> bool:
        """Whether a newer version than this one wrote it, as far as that is known yet."""
        return self.minor is not None and self.minor > OWN_DATA_MINOR

    def version(self, node: Node) -> None:
        """Read the version; refuse a newer major one."""
        found = _VERSION_RE.fullmatch(node.text) if isinstance(node, Scalar) else None
        if found is None:
            return
        major = int(found[1][:_COUNT_DIGITS])
        if major > SCHEMA_VERSION:
            raise UnsupportedSchema(path=self.path, schema_version=major, newest=SCHEMA_VERSION)
        if major == SCHEMA_VERSION:
            self.minor = min(int((found[2] or "0")[:_COUNT_DIGITS]), MAX_COUNT)

    def session(self, root: yaml_document.Mapping) -> SessionContext | None:
        if "schema_version" not in root.fields:
            self.minor = 0
        fields = _Fields(root, "", self)
        fields.drop("schema_version")
        self.carries_digest = fields.has(DIGEST)
        fields.drop(DIGEST)
        if self.minor is None:
            fields.fault("schema_version", f"expected {SCHEMA_VERSION}")
        values: dict[str, Any] = {
            "session_id": fields.text_or_null("session_id"),
            "parent_id": fields.text_if_there("parent_id"),
            "title": fields.text_if_there("title"),
            "tags": fields.texts("tags") if fields.has("tags") else (),
            "revision": fields.count_if_there("revision", 1),
            "state": SessionState(fields.choice("state", _STATES)),
            "workflow_type": fields.text_if_there("workflow_type"),
            "current_phase": fields.text_if_there("current_phase"),
            "attempt_number": fields.count_if_there("attempt_number", 1),
            "created_at": fields.time("created_at"),
            "updated_at": fields.time("updated_at"),
            "completed_at": fields.time_if_there("completed_at"),
            "token_budget": self._budget(fields.present("token_budget")),
            "goal": fields.text_if_there("goal"),
            "metadata": fields.data("metadata") if fields.has("metadata") else NO_DATA,
            "workflow_state": (
                fields.data("workflow_state") if fields.has("workflow_state") else NO_DATA
            ),
            "artifacts": fields.listed("artifacts") if fields.has("artifacts") else [],
            "history": fields.listed("history"),
            "newer_fields": fields.unknown_fields(),
        }
        if not self.is_newer:
            for line, fault in self.unknown:
                self.faults.add(line, fault)
        if self.faults:
            return None
        minor = (self.minor or 0) if self.is_newer else 0
        return fields.built(lambda: SessionContext(**values, schema_minor=minor))

    def _budget(self, node: Node | None) -> TokenBudget | None:
        if node is None:
            return None
        fields = _Fields(node, "token_budget", self)
        total = fields.count(fields.spelling("total_budget", "total"))
        used = fields.count(fields.spelling("tokens_used", "used"))
        fields.drop(fields.spelling("remaining", "tokens_remaining"))
        newer = fields.unknown_fields()
        return _Fields(node, "", self).built(lambda: TokenBudget(total, used, newer))

    def artifact(self, index: int, node: Node) -> SessionArtifact | None:
        fields = _Fields(node, f"artifacts[{index}]", self)
        path = fields.text_or_null("path") or ""
        artifact_type = fields.choice("artifact_type", ARTIFACT_TYPES)
        timestamp = fields.time("timestamp") or _EPOCH
        phase = fields.text_if_there("phase")
        newer = fields.unknown_fields()
        return fields.built(lambda: SessionArtifact(path, artifact_type, timestamp, phase, newer))

    def entry(self, index: int, node: Node) -> SessionHistory | None:
        fields = _Fields(node, f"history[{index}]", self)
        timestamp = fields.time("timestamp") or _EPOCH
        action = fields.text_or_null("action") or ""
        phase = fields.text_if_there("phase")
        details = fields.text_if_there("details")
        data = fields.data("data") if fields.has("data") else NO_DATA
        newer = fields.unknown_fields()
        return fields.built(lambda: SessionHistory(timestamp, action, phase, details, newer, data))


class _Fields(Fields):
    """Takes the fields of a session, where null is not the same as missing."""

    def __init__(self, node: Node, where: str, reader: _Reader) -> None:
        super().__init__(node, where, reader.faults)
        self._reader = reader

    def present(self, name: str) -> Node | None:
        """Take a field as it is; None, and a fault, if it is missing."""
        node = self._left.pop(name, None)
        if node is None and self.usable:
            self.fault(name, "is missing")
        return node

    def has(self, name: str) -> bool:
        """Return whether a field is there, and was not taken yet."""
        return name in self._left

    def spelling(self, name: str, other: str) -> str:
        """Return how a field is called here that has two names; if both stand there, the first."""
        return other if self.has(other) and not self.has(name) else name

    def drop(self, name: str) -> None:
        """Take a field that is not read."""
        self._left.pop(name, None)

    def text_or_null(self, name: str) -> str | None:
        """Take text, or null."""
        node = self.present(name)
        if node is None or (isinstance(node, Scalar) and node.is_null):
            return None
        return self.text_of(name, node)

    def text_if_there(self, name: str) -> str | None:
        """Take text, or null, which a field that is missing counts as."""
        return self.text_or_null(name) if self.has(name) else None

    def count(self, name: str) -> int:
        """Take a whole number; its bounds are the domain's to judge."""
        node = self.present(name)
        if isinstance(node, Scalar) and not node.quoted and _COUNT_RE.fullmatch(node.text):
            if len(node.text) <= _COUNT_DIGITS:
                return int(node.text)
            self.fault(name, "is too large a number", node)
        elif node is not None:
            self.no_number(name, "a whole number", node)
        return 1

    def count_if_there(self, name: str, default: int) -> int:
        """Take a whole number that may be missing."""
        return self.count(name) if self.has(name) else default

    def time_if_there(self, name: str) -> datetime | None:
        """Take a time, or null, which a field that is missing counts as."""
        node = self._left.get(name)
        if node is None or (isinstance(node, Scalar) and node.is_null):
            self.drop(name)
            return None
        return self.time(name)

    def time(self, name: str) -> datetime | None:
        """Take a time."""
        node = self.present(name)
        if isinstance(node, Scalar):
            try:
                return datetime.fromisoformat(node.text)
            except ValueError:
                pass
        if node is not None:
            self.unexpected(name, "a time in ISO 8601", node)
        return None

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """Take one of some words."""
        node = self.present(name)
        if isinstance(node, Scalar) and node.text in choices:
            return node.text
        if node is not None:
            self.unexpected(name, f"one of {', '.join(choices)}", node)
        return choices[0]

    def listed(self, name: str) -> list[Any]:
        """Take a list, whose items stand for what was made of them."""
        node = self.present(name)
        if isinstance(node, yaml_document.Sequence):
            return node.items
        if node is not None:
            self.unexpected(name, "a list", node)
        return []

    def data(self, name: str) -> Mapping[str, Any]:
        """Take a mapping of what JSON has."""
        node = self.present(name)
        if not isinstance(node, yaml_document.Mapping):
            if node is not None:
                self.unexpected(name, "keys and values", node)
            return NO_DATA
        try:
            return {key: _json_value(one) for key, one in node.fields.items()}
        except _NoValue as error:
            if error.node is not None:
                fault = f"{describe(error.node)} is no value of JSON's; put it in quotes"
                self.fault(name, fault, error.node)
            return NO_DATA

    def unknown_fields(self) -> str:
        """Return, as YAML, what a newer version wrote beside the fields; else they are faults."""
        reader = self._reader
        if not reader.is_newer:
            for name, node in self._left.items():
                if reader.minor is not None:
                    self.fault(name, "is not a field of a session", node)
                elif len(reader.unknown) < MAX_FAULTS:
                    fault = f"{self.label(name)}: is not a field of a session"
                    reader.unknown.append((node.line, fault))
        return "".join(_kept_field(name, node, 0) for name, node in self._left.items())

    def built(self, make: Callable[[], _T]) -> _T | None:
        """Call a constructor of the domain; what it refuses is among the faults."""
        try:
            return make()
        except InvalidSession as error:
            for fault in error.faults:
                self._faults.add(self.line, f"{self._where}.{fault}" if self._where else fault)
        return None


class _NoValue(Exception):
    """A value is nothing that JSON has, as a date.

    Attributes:
        node: The value; None where its fault is reported already.
    """

    def __init__(self, node: Scalar | None = None) -> None:
        super().__init__()
        self.node = node


def _json_value(node: Node) -> Any:
    if isinstance(node, yaml_document.Mapping):
        return {name: _json_value(one) for name, one in node.fields.items()}
    if isinstance(node, yaml_document.Sequence):
        return tuple(map(_json_value, node.items))
    if not isinstance(node, Scalar):
        raise _NoValue
    return node.text if node.quoted else _plain_value(node)


def _plain_value(node: Scalar) -> Any:
    if node.is_null:
        return None
    if node.text in _BOOLEANS:
        return _BOOLEANS[node.text]
    for pattern, read in _NUMBERS:
        if pattern.fullmatch(node.text):
            return read(node.text)
    if node.is_text:
        return node.text
    raise _NoValue(node)


# --------------------------------------------------------------- fields that newer versions wrote

_STEP: Final = 2


def _kept_field(name: str, node: Node, indent: int) -> str:
    return f"{' ' * indent}{encode_key(name)}:{_kept_value(node, indent)}"


def _kept_value(node: Node, indent: int) -> str:
    """Write what follows a field's colon or an item's dash, with the end of its last line."""
    inner = indent + _STEP
    if isinstance(node, yaml_document.Mapping):
        lines = [_kept_field(name, one, inner) for name, one in node.fields.items()]
        return f"\n{''.join(lines)}" if lines else " {}\n"
    if isinstance(node, yaml_document.Sequence):
        lines = [f"{' ' * inner}-{_kept_value(item, inner)}" for item in node.items]
        return f"\n{''.join(lines)}" if lines else " []\n"
    if not isinstance(node, Scalar):
        return " null\n"
    return f" {encode_text(node.text, indent=inner) if node.is_text else node.text or 'null'}\n"
