"""Decodes sessions from any document: any YAML, and JSON as `SessionContext.to_dict` returns it.

Every field of the table (`domain.session_fields`) is checked, and every fault is reported at once,
in YAML with its line. Fields that a newer version wrote into a file are held as YAML, so that a
save does not lose them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from ...base.reading.fields import Fields
from ...base.reading.nodes import (
    MAX_FAULTS,
    Faults,
    ListNode,
    MappingNode,
    Node,
    Refused,
    Scalar,
    as_list,
    as_text,
    as_time,
    as_whole,
    describe,
)
from ...base.reading.yaml_nodes import read_document
from ..domain.session_fields import ARTIFACT, BUDGET, CHOICES, ENTRY, SESSION, Field, FieldKind
from ..errors import SessionCorrupted, UnsupportedSchema
from ..session_domain import (
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
"""Most fields or items of anything but the two long lists."""
_VERSION_RE: Final = re.compile(r"([0-9]{1,20})[0-9]*(?:\.([0-9]{1,20})[0-9]*)?")
_NAME_RE: Final = re.compile(r"\w+")
_INT_RE: Final = re.compile(r"0|[-+]?[1-9][0-9]{0,399}")
_FLOAT_RE: Final = re.compile(r"[-+]?[0-9]{1,400}\.[0-9]{0,400}(?:[eE][-+][0-9]{1,3})?")
_NUMBERS: Final = ((_INT_RE, int), (_FLOAT_RE, float))
_BOOLEANS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
}
"""The words that YAML 1.1 reads as true and false."""


def decode_any(text: str, path: Path) -> tuple[SessionContext, bool]:
    """Decode a session's file with a YAML parser; return the session and whether it has a digest.

    Raises:
        SessionCorrupted: It is not a session; the error names the file and every fault.
        UnsupportedSchema: A newer version wrote it.
    """
    reader = _FileReader(path)
    session = read_document(
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


def session_from_dict(document: object) -> SessionContext:
    """Return the session that a document describes; the inverse of `SessionContext.to_dict`.

    Args:
        document: A mapping with the fields of the published schema (`agentforge session schema`).
            Other fields are ignored, such as those of `agentforge show --json`.

    Raises:
        InvalidSession: The document is invalid; every fault is listed.
    """
    reader = _SessionReader()
    fields = Fields(document, "", reader.faults, expected="the fields of a session")
    version = _version_of(fields.take("schema_version", required=True))
    if fields.has("schema_version") and (version is None or version[0] != SCHEMA_VERSION):
        fields.unexpected("schema_version", f"{SCHEMA_VERSION}.n", fields.take("schema_version"))
    session = reader.built(fields, SESSION, SessionContext) if fields.usable else None
    if session is None or reader.faults:
        raise InvalidSession(list(dict.fromkeys(reader.faults.sorted())))
    return session


def _version_of(node: Node) -> tuple[int, int] | None:
    """Return the major and minor version."""
    text = node.text if isinstance(node, Scalar) else node
    found = _VERSION_RE.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else (int(found[1]), min(int(found[2] or 0), MAX_COUNT))


class _SessionReader:
    """Builds a session from a mapping that has all of its fields.

    Attributes:
        faults: Every fault found.
    """

    def __init__(self) -> None:
        self.faults = Faults()
        self._readers: Mapping[FieldKind, Callable[[Fields, Field], Any]] = {
            FieldKind.TAGS: lambda fields, one: self.tags(fields, one.name),
            FieldKind.COUNT: _count,
            FieldKind.TIME: lambda fields, one: fields.read(
                one.name, "a time in ISO 8601", as_time
            ),
            FieldKind.CHANGE: _choice,
            FieldKind.STATE: _state,
            FieldKind.DATA: _data,
            FieldKind.BUDGET: lambda fields, one: self.budget(fields.inner(one.name)),
            FieldKind.ARTIFACTS: lambda fields, one: self.items(fields, one.name, self.artifact),
            FieldKind.HISTORY: lambda fields, one: self.items(fields, one.name, self.entry),
        }

    def must_have(self, field: Field) -> bool:
        """Return whether a document must have this field."""
        return field.required or field in SESSION

    def newer_fields(self, fields: Fields) -> str:
        """Return the fields written by a newer version, as YAML."""
        del fields
        return ""

    def tags(self, fields: Fields, name: str) -> tuple[str, ...] | None:
        """Read tags; null is refused in JSON."""
        return fields.distinct(name) if fields.has(name) else None

    def items(
        self, fields: Fields, name: str, make: Callable[[int, Node], object]
    ) -> list[object] | None:
        """Read a list and convert its items."""
        nodes = fields.read(name, "a list", as_list)
        return None if nodes is None else [make(index, one) for index, one in enumerate(nodes)]

    def budget(self, fields: Fields) -> TokenBudget | None:
        """Read a token budget; the remaining tokens are derived."""
        for name in ("remaining", "tokens_remaining"):
            fields.take(name)
        return self.built(fields, BUDGET, TokenBudget) if fields.usable else None

    def artifact(self, index: int, node: Node) -> SessionArtifact | None:
        """Read an artifact."""
        fields = Fields(node, f"artifacts[{index}]", self.faults)
        return self.built(fields, ARTIFACT, SessionArtifact)

    def entry(self, index: int, node: Node) -> SessionHistory | None:
        """Read an entry of the history."""
        return self.built(Fields(node, f"history[{index}]", self.faults), ENTRY, SessionHistory)

    def built(
        self, fields: Fields, table: tuple[Field, ...], make: Callable[..., _T], **more: Any
    ) -> _T | None:
        """Build a value from the fields of a table; domain errors are added to the faults."""
        values: dict[str, Any] = {}
        wrong: set[str] = set()
        for field in table:
            before = len(self.faults)
            value = values[field.name] = self._value(fields, field)
            if len(self.faults) > before or _is_refused(value, field):
                wrong.add(field.name)
        newer = self.newer_fields(fields)
        if not fields.usable or self.faults.is_full:
            return None
        try:
            found = make(**values, newer_fields=newer, **more)
        except InvalidSession as error:
            for fault in error.faults:
                self._refused(fields, fault, wrong)
            return None
        return None if wrong else found

    def _value(self, fields: Fields, field: Field) -> Any:
        if field.other is not None and not fields.holds(field.name):
            field = field._replace(name=field.other if fields.holds(field.other) else field.name)
        if not fields.holds(field.name):
            if self.must_have(field) and fields.usable:
                fields.fault(field.name, "is missing")
            return field.default
        read: Callable[[Fields, Field], Any] = self._readers.get(field.kind, _text)
        value = read(fields, field)
        if value is None and not field.nullable and not fields.has(field.name):
            fields.fault(field.name, "is empty")
        return value

    def _refused(self, fields: Fields, fault: str, wrong: set[str]) -> None:
        """Add a domain fault, unless its field already has a fault."""
        fault = fault.removeprefix(f"{fields.where}.")
        named = _NAME_RE.match(fault)
        name = "" if named is None else named[0]
        if name not in wrong:
            where = f"{fields.where}." if fields.where else ""
            self.faults.add("", f"{where}{fault}", fields.line_of(name))


class _FileReader(_SessionReader):
    """Builds a session from the YAML nodes of a file, of any minor version.

    Attributes:
        path: The file.
        unknown: Fields that no session of this version has, with their lines: faults, unless the
            version, which may come after them, is newer.
        minor: The minor version of the file, once it is known.
        carries_digest: Whether there is a digest field; `session_digest` checks it.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.unknown: list[tuple[int, str, str]] = []
        self.minor: int | None = None
        self.carries_digest = False

    @property
    def is_newer(self) -> bool:
        """Whether a newer version than this one wrote the file, as far as is known yet."""
        return self.minor is not None and self.minor > OWN_DATA_MINOR

    def version(self, node: Node) -> None:
        """Read the version; refuse a newer major one."""
        found = _version_of(node)
        if found is not None and found[0] > SCHEMA_VERSION:
            raise UnsupportedSchema(path=self.path, schema_version=found[0], newest=SCHEMA_VERSION)
        if found is not None and found[0] == SCHEMA_VERSION:
            self.minor = found[1]

    def session(self, root: MappingNode) -> SessionContext | None:
        """Build the session of a document whose lists are already read."""
        if "schema_version" not in root:
            self.minor = 0
        fields = Fields(root, "", self.faults)
        fields.take("schema_version")
        self.carries_digest = fields.holds(DIGEST)
        fields.take(DIGEST)
        if self.minor is None:
            fields.fault("schema_version", f"expected {SCHEMA_VERSION}")
        minor = (self.minor or 0) if self.is_newer else 0
        session = self.built(fields, SESSION, SessionContext, schema_minor=minor)
        if not self.is_newer:
            for line, path, problem in self.unknown:
                self.faults.add(path, problem, line)
        return session

    def must_have(self, field: Field) -> bool:
        """Return whether a document must have this field; a minimal one has few."""
        return field.required

    def tags(self, fields: Fields, name: str) -> tuple[str, ...] | None:
        """Read tags; a key without a value means no tags."""
        return fields.distinct(name)

    def items(
        self, fields: Fields, name: str, make: Callable[[int, Node], object]
    ) -> list[object] | None:
        """Return a list whose items were read one by one."""
        del make
        return fields.read(name, "a list", as_list)

    def newer_fields(self, fields: Fields) -> str:
        """Return the fields of a newer version as YAML; from an older version they are faults."""
        rest = fields.rest()
        for name in rest if not self.is_newer else ():
            unknown = (fields.line_of(name), fields.path(name), "is not a field of a session")
            if self.minor is not None:
                self.faults.add(*unknown[1:], unknown[0])
            elif len(self.unknown) < MAX_FAULTS:
                self.unknown.append(unknown)
        return "".join(_kept_field(name, node, 0) for name, node in rest.items())


def _is_refused(value: Any, field: Field) -> bool:
    """Return whether a value, or an item of it, already has a fault."""
    if field.kind in {FieldKind.ARTIFACTS, FieldKind.HISTORY} and value is not None:
        return any(one is None for one in value)
    return value is None and not field.nullable


# -------------------------------------------------------------------------------- fields by kind


def _text(fields: Fields, field: Field) -> str | None:
    return fields.read(field.name, "text", as_text)


def _count(fields: Fields, field: Field) -> int | None:
    """Read a whole number; the domain checks its bounds."""
    return fields.read(field.name, "a whole number", _digits)


def _digits(node: Node) -> int | None:
    """Return a whole number without `_`, which some YAML readers do not accept in it."""
    return None if isinstance(node, Scalar) and "_" in node.text else as_whole(node)


def _choice(fields: Fields, field: Field) -> str | None:
    return fields.one_of(field.name, CHOICES[field.kind], None)


def _state(fields: Fields, field: Field) -> SessionState | None:
    word = _choice(fields, field)
    return None if word is None else SessionState(word)


def _data(fields: Fields, field: Field) -> Mapping[str, Any] | None:
    """Read a mapping of JSON values."""
    inner = fields.inner(field.name)
    if not inner.usable:
        return None
    try:
        return {name: _json_value(one) for name, one in inner.rest().items()}
    except _NoValue as error:
        if error.node is not None:
            fault = f"{describe(error.node)} is no value of JSON's; put it in quotes"
            fields.faults.add(inner.where, fault, error.node.line)
        return None


class _NoValue(Exception):
    """A value has no equivalent in JSON, such as a date.

    Attributes:
        node: The value; None if its fault is already reported.
    """

    def __init__(self, node: Scalar | None = None) -> None:
        super().__init__()
        self.node = node


def _json_value(node: Node) -> Any:
    if isinstance(node, MappingNode):
        return {name: _json_value(one) for name, one in node.items()}
    if isinstance(node, ListNode):
        return tuple(map(_json_value, node))
    if isinstance(node, Refused):
        raise _NoValue
    if not isinstance(node, Scalar):
        return node
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
    """Write what follows a field's colon or an item's dash, including the last line break."""
    inner = indent + _STEP
    if isinstance(node, MappingNode):
        lines = [_kept_field(name, one, inner) for name, one in node.items()]
        return f"\n{''.join(lines)}" if lines else " {}\n"
    if isinstance(node, ListNode):
        lines = [f"{' ' * inner}-{_kept_value(item, inner)}" for item in node]
        return f"\n{''.join(lines)}" if lines else " []\n"
    if not isinstance(node, Scalar):
        return " null\n"
    return f" {encode_text(node.text, indent=inner) if node.is_text else node.text or 'null'}\n"
