"""Sessions as YAML: the one form that is written, and every form that is read.

What is written is plain block YAML 1.1 that any YAML library reads to the same values. Its form is
so regular that a reader of ours needs no YAML parser for it: a file that is exactly as we write it
is taken apart by regular expressions, and every other one (edited by hand, say) goes through
libyaml's events, with no tags, no aliases, no depth and no surprises allowed. Both ways end in the
same constructors, so nothing is believed because of how it was read.

docs/session-format.md is the description of the format for people.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import yaml
from attrs import frozen

from tools.harness.errors import SessionCorrupted, UnsupportedSchema
from tools.harness.session_domain import (
    ARTIFACT_TYPES,
    MAX_GOAL_CHARS,
    MAX_NAME_CHARS,
    InvalidSession,
    SessionArtifact,
    SessionContext,
    SessionHistory,
    SessionState,
    TokenBudget,
)

SCHEMA_VERSION: Final = 1
END_MARK: Final = b"...\n"
HEAD_BYTES: Final = 4096
"""How much of a file is enough to read its head (`goal`, the one long field, comes after it)."""

REVISION_BYTES: Final = 512
"""How much of a file is enough to read its revision."""

_HEADER: Final = "# A session of AgentForge Harness. Its fields: docs/session-format.md\n"

# ------------------------------------------------------------------------------------- writing

# Quantifiers of what may be long are possessive: `re` keeps a state of 100 bytes for every turn of
# a group that it could take back.
_PLAIN: Final = r"[A-Za-z_][A-Za-z0-9_./()+=]*+(?:[ -]++[A-Za-z0-9_./()+=]++)*+"
_PLAIN_RE: Final = re.compile(_PLAIN)
_RESERVED: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "_"})
"""What YAML 1.1 or 1.2, or some reader of them, takes for something other than text."""

# What a double-quoted or literal scalar may hold as it is: YAML's printable characters less the
# line breaks of YAML 1.1, the byte order mark and the marks that reorder text on a screen.
_RAW: Final = (
    "\x20-\x7e\xa0-\u200d\u2010-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\ufefe\uff00-\ufffd"
    "\U00010000-\U0001fffd\U00020000-\U0010fffd"
)
_ESCAPED_RE: Final = re.compile(f'["\\\\]|[^{_RAW}]')
_UNPRINTABLE_RE: Final = re.compile(f"[^\n\t{_RAW}]")
_SHORT_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\n": "\\n",
    "\t": "\\t",
    "\r": "\\r",
    "\0": "\\0",
    "\x1b": "\\e",
}
_LONG_BLANKS_RE: Final = re.compile(r"(?m)^[ \t]+$")


def _has_line_of_blanks(text: str) -> bool:
    """Tell whether a line holds blanks and nothing else, soon even of a million empty lines."""
    possible = " \n" in text or "\t\n" in text or text.endswith((" ", "\t"))
    return possible and _LONG_BLANKS_RE.search(text) is not None


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    short = _SHORT_ESCAPES.get(character)
    if short is not None:
        return short
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def encode_text(text: str | None, *, indent: int = 6) -> str:
    """Write one text value: plain where that can't be misread, else literal, else quoted.

    Args:
        text: The value; None becomes null.
        indent: How far the lines of a literal block are indented.
    """
    if text is None:
        return "null"
    plain = _PLAIN_RE.fullmatch(text)
    if plain is not None and text.lower() not in _RESERVED:
        return plain[0]  # and not `text`, which may be of a subclass that formats differently
    if (
        "\n" in text
        and text[0] not in " \t\n"
        and not _UNPRINTABLE_RE.search(text)
        and not _has_line_of_blanks(text)
    ):
        body = text.rstrip("\n")
        newlines = len(text) - len(body)
        chomp = ("-", "", "+")[min(newlines, 2)]
        margin = " " * indent
        lines = "\n".join(f"{margin}{line}" if line else "" for line in body.split("\n"))
        return f"|{chomp}\n{lines}{chr(10) * max(newlines - 1, 0)}"
    return f'"{_ESCAPED_RE.sub(_escape, text)}"'


_encode_name: Final = lru_cache(maxsize=512)(encode_text)
"""As `encode_text`, remembered: the few names of a session are written at every save."""


def encode_time(moment: datetime | None) -> str:
    """Write a time: ISO 8601, to the microsecond, with its offset, quoted; None becomes null."""
    return "null" if moment is None else f'"{moment.isoformat(timespec="microseconds")}"'


def _encode_artifact(artifact: SessionArtifact) -> str:
    return (
        f"  - path: {encode_text(artifact.path)}\n"
        f"    artifact_type: {_encode_name(artifact.artifact_type)}\n"
        f"    timestamp: {encode_time(artifact.timestamp)}\n"
        f"    phase: {_encode_name(artifact.phase)}\n"
    )


def _encode_entry(entry: SessionHistory) -> str:
    return (
        f"  - timestamp: {encode_time(entry.timestamp)}\n"
        f"    action: {_encode_name(entry.action)}\n"
        f"    phase: {_encode_name(entry.phase)}\n"
        f"    details: {encode_text(entry.details)}\n"
    )


def encode_head(session: SessionContext, *, revision: int) -> bytes:
    """Write all that comes before the artifacts and the history."""
    budget = session.token_budget
    return (
        f"{_HEADER}"
        f"schema_version: {SCHEMA_VERSION}\n"
        f"session_id: {_encode_name(session.session_id)}\n"
        f"revision: {revision}\n"
        f"state: {session.state.value}\n"
        f"workflow_type: {_encode_name(session.workflow_type)}\n"
        f"current_phase: {_encode_name(session.current_phase)}\n"
        f"attempt_number: {int(session.attempt_number)}\n"
        f"created_at: {encode_time(session.created_at)}\n"
        f"updated_at: {encode_time(session.updated_at)}\n"
        f"completed_at: {encode_time(session.completed_at)}\n"
        f"token_budget:\n"
        f"  total_budget: {int(budget.total_budget)}\n"
        f"  tokens_used: {int(budget.tokens_used)}\n"
        f"goal: {encode_text(session.goal, indent=2)}\n"
    ).encode()


_T = TypeVar("_T")


class _EncodedList(Generic[_T]):
    """A list's entries as they stand in the file, grown as the list grows.

    The entries can't be changed, so what was written for them stays good as long as the list
    still begins with the same ones; comparing that takes one look at each pointer.
    """

    def __init__(self, key: str, kind: type[_T], encode: Callable[[_T], str]) -> None:
        self._key = key
        self._kind = kind
        self._encode = encode
        self._entries: list[_T] = []
        self._bytes = bytearray()

    def seed(self, entries: list[_T], encoded: bytes) -> None:
        self._entries = entries.copy()
        self._bytes = bytearray(encoded)

    def pieces(self, entries: list[_T]) -> list[bytes | bytearray]:
        new = entries[len(self._entries) :]
        encoded = self._encoded(new)
        self._entries += new
        if self._entries != entries:  # compared in place: a slice would touch every entry
            self._entries, self._bytes = [], bytearray()
            encoded = self._encoded(entries)
            self._entries = entries.copy()
        self._bytes += encoded
        if not entries:
            return [f"{self._key}: []\n".encode()]
        return [f"{self._key}:\n".encode(), self._bytes]

    def _encoded(self, entries: list[_T]) -> bytes:
        """Write entries; nothing is kept yet, so one that can't be written changes nothing."""
        if not all(type(entry) is self._kind for entry in entries):
            raise InvalidSession([f"{self._key}: holds what is no {self._kind.__name__}"])
        return "".join(map(self._encode, entries)).encode()


class SessionEncoder:
    """Writes one session again and again, paying for each entry once."""

    def __init__(self) -> None:
        self._artifacts = _EncodedList("artifacts", SessionArtifact, _encode_artifact)
        self._history = _EncodedList("history", SessionHistory, _encode_entry)

    def encode(self, session: SessionContext, *, revision: int) -> list[bytes | bytearray]:
        """Write the session's file, in pieces that are good until the next call.

        Args:
            session: What to write; checked first.
            revision: The revision to write in its place.

        Raises:
            InvalidSession: It breaks the rules of the domain, so it must not reach the disk.
        """
        faults = session.faults()
        if faults:
            raise InvalidSession(faults)
        return [
            encode_head(session, revision=revision),
            *self._artifacts.pieces(session.artifacts),
            *self._history.pieces(session.history),
            END_MARK,
        ]

    def seed(self, session: SessionContext, artifacts: bytes, history: bytes) -> None:
        """Take over what a session's lists look like in the file it was read from."""
        self._artifacts.seed(session.artifacts, artifacts)
        self._history.seed(session.history, history)


def encode_session(session: SessionContext) -> bytes:
    """Write a session's file in one piece.

    Raises:
        InvalidSession: It breaks the rules of the domain.
    """
    return b"".join(SessionEncoder().encode(session, revision=session.revision))


# ------------------------------------------------------------------ reading what we wrote ourselves

_NAME = f'(?:{_PLAIN}|"[^"\\\\\n]*+(?:\\\\.[^"\\\\\n]*+)*+")'
_BLOCK = r"\|[-+]?\n(?:%s[^\n]*+\n|\n++)++"
_TIME = r'"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}\+00:00"'
_COUNT = r"(?:0|[1-9][0-9]{0,18})"


def _head_pattern(*, identity: str, name: str, count: str, attempt: str) -> str:
    """Write the expression for a head whose fields look so."""
    return (
        re.escape(_HEADER) + r"schema_version: 1\n"
        rf"session_id: ({identity})\n"
        rf"revision: ({count})\n"
        r"state: (active|paused|completed|aborted)\n"
        rf"workflow_type: ({name})\n"
        rf"current_phase: ({name})\n"
        rf"attempt_number: ({attempt})\n"
        rf"created_at: ({_TIME})\n"
        rf"updated_at: ({_TIME})\n"
        rf"completed_at: (null|{_TIME})\n"
        r"token_budget:\n"
        rf"  total_budget: ({count})\n"
        rf"  tokens_used: ({count})\n"
    )


_HEAD: Final = _head_pattern(identity=_NAME, name=_NAME, count=_COUNT, attempt=_COUNT)
_HEAD_RE: Final = re.compile(_HEAD)
_SOUND_HEAD_RE: Final = re.compile(
    _head_pattern(
        identity="[A-Za-z][A-Za-z0-9_]{0,127}",
        name=rf"(?=.{{1,{MAX_NAME_CHARS}}}\n){_PLAIN}",
        count="(?:0|[1-9][0-9]{0,17})",
        attempt="[1-9][0-9]{0,17}",
    )
)
"""What no rule of the domain has anything against, its times aside: most heads, judged cheaply."""
_GOAL_SPAN: Final = 20 * MAX_GOAL_CHARS
"""More than a goal ever takes: ten characters for one at most, and its margin."""
_GOAL_RE: Final = re.compile(rf"goal: (?:({_NAME})\n|({_BLOCK % '  '}))")
_ARTIFACT_RE: Final = re.compile(
    rf"  - path: (?:({_NAME})\n|({_BLOCK % '      '}))    artifact_type: (created|modified)\n"
    rf"    timestamp: ({_TIME})\n    phase: ({_NAME})\n"
)
_ENTRY_RE: Final = re.compile(
    rf"  - timestamp: ({_TIME})\n    action: ({_NAME})\n    phase: ({_NAME})\n"
    rf"    details: (?:({_NAME})\n|({_BLOCK % '      '}))"
)
_UNESCAPE_RE: Final = re.compile(
    r'\\(?:(["\\ntr0e])|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))'
)
_LONG_ESCAPES: Final = {short[1]: plain for plain, short in _SHORT_ESCAPES.items()}
_PLAIN_BYTES: Final = bytes([9, 10, *range(0x20, 0x7F)])


class _NotOurs(Exception):
    """The file is not exactly as we write it; the general reader must judge it."""


def _unescape(match: re.Match[str]) -> str:
    short, two, four, eight, other = match.groups()
    if short is not None:
        return _LONG_ESCAPES[short]
    if other is not None:
        raise _NotOurs
    code = int(two or four or eight, 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise _NotOurs
    return chr(code)


def _decode_text(scalar: str) -> str | None:
    if scalar[0] == '"':
        inner = scalar[1:-1]
        return _UNESCAPE_RE.sub(_unescape, inner) if "\\" in inner else inner
    if scalar == "null":
        return None
    if scalar.lower() in _RESERVED:
        raise _NotOurs
    return scalar


def _decode_block(scalar: str, margin: str) -> str:
    header, _, body = scalar.partition("\n")
    text = f"\n{body}".replace(f"\n{margin}", "\n")[1:]
    if text[0] in " \t\n" or _has_line_of_blanks(text):
        raise _NotOurs
    if header == "|+":
        return text
    if text.endswith("\n\n"):
        raise _NotOurs
    bare = text.rstrip("\n")
    return bare if header == "|-" else f"{bare}\n"


def _decode_name(scalar: str) -> str:
    text = _decode_text(scalar)
    if text is None:
        raise _NotOurs
    return text


def _decode_time(scalar: str) -> datetime | None:
    return None if scalar == "null" else datetime.fromisoformat(scalar[1:-1])


def _make_artifact(match: re.Match[str]) -> SessionArtifact:
    path, block, artifact_type, timestamp, phase = match.groups()
    return SessionArtifact(
        _decode_name(path) if block is None else _decode_block(block, "      "),
        artifact_type,
        datetime.fromisoformat(timestamp[1:-1]),
        _decode_text(phase),
    )


def _make_entry(match: re.Match[str]) -> SessionHistory:
    timestamp, action, phase, details, block = match.groups()
    return SessionHistory(
        datetime.fromisoformat(timestamp[1:-1]),
        _decode_name(action),
        _decode_text(phase),
        _decode_text(details) if block is None else _decode_block(block, "      "),
    )


def _decode_items(
    text: str,
    position: int,
    key: str,
    pattern: re.Pattern[str],
    make: Callable[[re.Match[str]], _T],
) -> tuple[list[_T], int, int]:
    """Read one list; return its items and where they begin and end."""
    empty = f"{key}: []\n"
    if text.startswith(empty, position):
        end = position + len(empty)
        return [], end, end
    opening = f"{key}:\n"
    if not text.startswith(opening, position):
        raise _NotOurs
    begin = end = position + len(opening)
    items = []
    match = pattern.match
    while (found := match(text, end)) is not None:
        items.append(make(found))
        end = found.end()
    if not items:
        raise _NotOurs
    return items, begin, end


@frozen
class SessionHead:
    """What stands before the lists of a session's file: enough to list and to clean up.

    Attributes: as those of `SessionContext`; `total_budget` and `tokens_used` as those of its
        `token_budget`.
    """

    session_id: str
    revision: int
    state: SessionState
    workflow_type: str | None
    current_phase: str | None
    attempt_number: int
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None
    total_budget: int
    tokens_used: int

    @classmethod
    def of(cls, session: SessionContext) -> SessionHead:
        """Take the head of a session that was read whole."""
        return cls(
            session_id=session.session_id,
            revision=session.revision,
            state=session.state,
            workflow_type=session.workflow_type,
            current_phase=session.current_phase,
            attempt_number=session.attempt_number,
            created_at=session.created_at,
            updated_at=session.updated_at,
            completed_at=session.completed_at,
            total_budget=session.token_budget.total_budget,
            tokens_used=session.token_budget.tokens_used,
        )


def _make_head(match: re.Match[str]) -> SessionHead:
    fields = match.groups()
    return SessionHead(
        _decode_name(fields[0]),
        int(fields[1]),
        SessionState(fields[2]),
        _decode_text(fields[3]),
        _decode_text(fields[4]),
        int(fields[5]),
        datetime.fromisoformat(fields[6][1:-1]),
        datetime.fromisoformat(fields[7][1:-1]),
        _decode_time(fields[8]),
        int(fields[9]),
        int(fields[10]),
    )


def _session_of(
    head: SessionHead,
    *,
    artifacts: Sequence[SessionArtifact] = (),
    history: Sequence[SessionHistory] = (),
    goal: str | None = None,
) -> SessionContext:
    """Build, and so judge, the session that a head begins."""
    return SessionContext(
        session_id=head.session_id,
        state=head.state,
        created_at=head.created_at,
        updated_at=head.updated_at,
        token_budget=TokenBudget(head.total_budget, head.tokens_used),
        workflow_type=head.workflow_type,
        current_phase=head.current_phase,
        attempt_number=head.attempt_number,
        completed_at=head.completed_at,
        artifacts=list(artifacts),
        history=list(history),
        goal=goal,
        revision=head.revision,
    )


def decode_head(data: bytes) -> SessionHead | None:
    """Read the head of a file from its first bytes, and judge it as the whole would be.

    Args:
        data: At least `HEAD_BYTES` of the file, or all of it.

    Returns:
        The head, or None if the file is not exactly as we write it, which says nothing about
        whether it is a session: `decode_session` does.
    """
    text = data.decode("utf-8", "surrogateescape")
    try:
        match = _SOUND_HEAD_RE.match(text)
        if match is not None:
            head = _make_head(match)
            if _in_order(head):
                return head
        match = _HEAD_RE.match(text)
        if match is None:
            return None
        head = _make_head(match)
        _session_of(head)
    except (_NotOurs, ValueError):
        return None
    return head


def _in_order(head: SessionHead) -> bool:
    """Tell whether the times of a head are as `SessionContext.faults` asks."""
    ended = head.completed_at
    if ended is None:
        return not head.state.is_terminal and head.created_at <= head.updated_at
    return head.state.is_terminal and head.created_at <= min(head.updated_at, ended)


_REVISION_RE: Final = re.compile(
    (
        re.escape(_HEADER) + rf"schema_version: 1\nsession_id: {_NAME}\nrevision: ({_COUNT})\n"
    ).encode()
)


def decode_revision(data: bytes) -> int | None:
    """Read the revision from the first `REVISION_BYTES` of a file.

    Returns:
        The revision, or None if the file does not begin as we write it.
    """
    match = _REVISION_RE.match(data)
    return None if match is None else int(match[1])


def _is_plain(data: bytes, text: str) -> bool:
    """Tell whether the file holds only characters that we write as they are."""
    if len(data) == len(text):
        return not data.translate(None, _PLAIN_BYTES)
    return not _UNPRINTABLE_RE.search(text)


def _decode_ours(data: bytes, text: str) -> tuple[SessionContext, bytes, bytes]:
    """Read a file that is exactly as we write it.

    Returns:
        The session, and its artifacts and history as they stand in the file.

    Raises:
        _NotOurs: It is not.
        InvalidSession: It is, and breaks the rules of the domain.
    """
    if not _is_plain(data, text):
        raise _NotOurs
    match = _HEAD_RE.match(text)
    if match is None or text.find("\nartifacts:", match.end(), match.end() + _GOAL_SPAN) < 0:
        raise _NotOurs
    goal = _GOAL_RE.match(text, match.end())
    if goal is None:
        raise _NotOurs
    head = _make_head(match)
    quoted, block = goal.groups()
    artifacts, first, second = _decode_items(
        text, goal.end(), "artifacts", _ARTIFACT_RE, _make_artifact
    )
    history, third, fourth = _decode_items(text, second, "history", _ENTRY_RE, _make_entry)
    if text[fourth:] != END_MARK.decode():
        raise _NotOurs
    session = _session_of(
        head,
        artifacts=artifacts,
        history=history,
        goal=_decode_text(quoted) if block is None else _decode_block(block, "  "),
    )
    return session, text[first:second].encode(), text[third:fourth].encode()


# --------------------------------------------------------------------------------- reading the rest

_MAX_DEPTH: Final = 4
_MAX_FAULTS: Final = 100
_MAX_FIELDS: Final = 64
"""How many fields of one mapping, and items of a list where there should be none, are looked at."""
_NULL_RE: Final = re.compile(r"~|null|Null|NULL|")
_BOOL_RE: Final = re.compile(r"(?i)y|n|yes|no|on|off|true|false")
_INT_RE: Final = re.compile(r"0|[-+]?[1-9][0-9]*")
_OTHER_RE: Final = re.compile(
    # What YAML 1.1 takes for a number or a time and is therefore no text.
    r"[-+]?(0[0-7_]*+|0b[01_]++|0x[0-9a-fA-F_]++|[0-9][0-9_]*+(?::[0-5]?[0-9])*+)"
    r"(\.[0-9_]*+)?([eE][-+]?[0-9]++)?"
    r"|[-+]?\.[0-9_]++([eE][-+]?[0-9]++)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt\s].*)?|=|<<"
)


@frozen
class _Scalar:
    text: str
    plain: bool
    line: int


@frozen
class _Mapping:
    fields: dict[str, _Node]
    line: int


@frozen
class _Sequence:
    items: list[Any]
    line: int


_Node = _Scalar | _Mapping | _Sequence


class _Faults(Exception):
    """The file is no session; the faults say why."""

    def __init__(self, *faults: str) -> None:
        super().__init__(*faults)
        self.faults = faults


_Judge = Callable[[int, "_Node"], object]
"""Turns an item of a list, given with its index, into what it stands for; remembers its faults."""


_BLANK_LINES: Final = "\n" * (1 << 20)
"""More than anybody means; libyaml takes a second for thirty times as many."""


def _parse(
    text: str,
    *,
    judges: Mapping[str, _Judge],
    on_version: Callable[[_Node], None],
) -> _Node:
    """Turn text into nodes, through libyaml's events, refusing what a session never has.

    However large and hostile the text, it is given up soon after it has shown that it is no
    session: the items of the two long lists are judged as they come (and are no nodes any more),
    every other list and mapping ends early.

    Args:
        text: The file.
        judges: What judges the items of the top level's lists, by the list's name.
        on_version: Called with `schema_version` as soon as it is read.
    """
    blank = text.find(_BLANK_LINES)
    if blank >= 0:
        line = text.count("\n", 0, blank) + 2
        raise _Faults(f"line {line}: more than {len(_BLANK_LINES) - 1:,} blank lines in a row")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        return _compose(loader, _Composer(judges, on_version))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise _Faults(f"{where}it is not YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise _Faults(f"it is not YAML: {' '.join(str(error).split())}") from error
    finally:
        loader.dispose()


class _Composer:
    """Builds nodes from events."""

    def __init__(self, judges: Mapping[str, _Judge], on_version: Callable[[_Node], None]) -> None:
        self.root: _Node | None = None
        self._judges = judges
        self._on_version = on_version
        self._judge: _Judge | None = None
        self._open: list[_Mapping | _Sequence] = []
        self._key: str | None = None

    def close(self) -> None:
        node = self._open.pop()
        self._key = None
        if len(self._open) == 1:
            self._judge = None
        elif len(self._open) == 2 and self._judge is not None:
            parent = self._open[1]
            if isinstance(parent, _Sequence):
                parent.items[-1] = self._judge(len(parent.items) - 1, node)

    def add(self, node: _Node) -> None:
        if not self._open:
            self.root = node
        elif len(self._open) == 1 and isinstance(node, _Sequence) and self._key is not None:
            self._judge = self._judges.get(self._key)
            self._add_to(self._open[0], node)
        elif not self._add_to(self._open[-1], node):
            return
        if isinstance(node, _Scalar):
            return
        if len(self._open) >= _MAX_DEPTH:
            raise _Faults(f"line {node.line}: nested deeper than a session ever is")
        self._open.append(node)

    def _add_to(self, parent: _Mapping | _Sequence, node: _Node) -> bool:
        """Put a node in its parent; say whether it is a value (and not a field's name)."""
        if isinstance(parent, _Sequence):
            if self._judge is None or len(self._open) != 2:
                if len(parent.items) >= _MAX_FIELDS:
                    raise _Faults(f"line {node.line}: a list where a session has none")
                parent.items.append(node)
            elif isinstance(node, _Scalar):
                parent.items.append(self._judge(len(parent.items), node))
            else:
                parent.items.append(node)  # judged when it ends
            return True
        if self._key is None:
            if not isinstance(node, _Scalar):
                raise _Faults(f"line {node.line}: a field's name is not a plain text")
            if node.text in parent.fields:
                raise _Faults(f"line {node.line}: the field {_short(node.text)!r} stands twice")
            if len(parent.fields) >= _MAX_FIELDS:
                raise _Faults(f"line {node.line}: more fields than a session has")
            self._key = node.text
            return False
        parent.fields[self._key] = node
        if self._key == "schema_version" and len(self._open) == 1:
            self._on_version(node)
        self._key = None
        return True


def _compose(loader: yaml.SafeLoader, composer: _Composer) -> _Node:
    next_event: Callable[[], yaml.Event] = loader.get_event
    while not isinstance(event := next_event(), yaml.StreamEndEvent):
        if isinstance(event, yaml.StreamStartEvent | yaml.DocumentEndEvent):
            continue
        line = event.start_mark.line + 1 if event.start_mark is not None else 0
        if isinstance(event, yaml.DocumentStartEvent):
            if composer.root is not None:
                raise _Faults(f"line {line}: a second document begins; a session is one")
            continue
        if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            composer.close()
            continue
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _Faults(f"line {line}: an anchor or alias (& or *); a session has none")
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise _Faults(f"line {line}: a tag ({_short(str(tag))}); a session has none")
        if isinstance(event, yaml.ScalarEvent):
            composer.add(_Scalar(event.value, event.implicit[0], line))
        elif isinstance(event, yaml.MappingStartEvent):
            composer.add(_Mapping({}, line))
        else:
            composer.add(_Sequence([], line))
    if composer.root is None:
        raise _Faults("it holds no YAML document")
    return composer.root


class _Fields:
    """Takes typed fields out of a mapping and remembers everything that is wrong."""

    def __init__(self, node: _Node, where: str, faults: list[str]) -> None:
        self._where = where
        self._faults = faults
        self._fields: dict[str, _Node] = {}
        if isinstance(node, _Mapping):
            self._fields = dict(node.fields)
        else:
            self._fault("", f"expected fields, found {_kind(node)}", node)

    def _fault(self, name: str, problem: str, node: _Node | None) -> None:
        line = "" if node is None else f"line {node.line}: "
        label = f"{self._where}{'.' if self._where and name else ''}{name}"
        self._faults.append(f"{line}{label}{': ' if label else ''}{problem}")
        if len(self._faults) >= _MAX_FAULTS:
            raise _Faults(*self._faults)

    def node(self, name: str) -> _Node | None:
        """Take a field; None, and a fault, if it is not there."""
        node = self._fields.pop(name, None)
        if node is None:
            self._fault(name, "is missing", None)
        return node

    def text(self, name: str) -> str | None:
        node = self.node(name)
        if node is None:
            return None
        if isinstance(node, _Scalar):
            if not node.plain:
                return node.text
            if _NULL_RE.fullmatch(node.text):
                return None
            if not _BOOL_RE.fullmatch(node.text) and not _OTHER_RE.fullmatch(node.text):
                return node.text
            self._fault(name, f"expected text, found {_short(node.text)}; put it in quotes", node)
        else:
            self._fault(name, f"expected text, found {_kind(node)}", node)
        return None

    def count(self, name: str) -> int:
        node = self.node(name)
        if isinstance(node, _Scalar) and node.plain and _INT_RE.fullmatch(node.text):
            if len(node.text) <= 20:
                return int(node.text)
            self._fault(name, "is too large a number", node)
        elif node is not None:
            self._fault(name, f"expected a whole number, found {_kind(node)}", node)
        return 1

    def time(self, name: str, *, optional: bool = False) -> datetime:
        node = self.node(name)
        if isinstance(node, _Scalar):
            if optional and node.plain and _NULL_RE.fullmatch(node.text):
                return None  # type: ignore[return-value]
            try:
                return datetime.fromisoformat(node.text)
            except ValueError:
                pass
        if node is not None:
            self._fault(name, f"expected a time in ISO 8601, found {_kind(node)}", node)
        return datetime(1970, 1, 1, tzinfo=UTC)

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        node = self.node(name)
        if isinstance(node, _Scalar) and node.text in choices:
            return node.text
        if node is not None:
            self._fault(name, f"expected one of {', '.join(choices)}, found {_kind(node)}", node)
        return choices[0]

    def items(self, name: str) -> list[Any]:
        node = self.node(name)
        if isinstance(node, _Sequence):
            return node.items
        if node is not None:
            self._fault(name, f"expected a list, found {_kind(node)}", node)
        return []

    def done(self) -> None:
        """Complain about the fields that nobody asked for."""
        for name, node in self._fields.items():
            self._fault(_short(name), "is not a field of a session", node)


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _kind(node: _Node) -> str:
    if isinstance(node, _Mapping):
        return "fields"
    if isinstance(node, _Sequence):
        return "a list"
    return repr(_short(node.text)) if node.text or not node.plain else "nothing"


def _build(make: Callable[[], _T], where: str, node: _Node, faults: list[str]) -> _T | None:
    """Call a constructor of the domain; put what it refuses among the faults."""
    try:
        return make()
    except InvalidSession as error:
        label = f"line {node.line}: {where}{'.' if where else ''}"
        faults.extend(f"{label}{fault}" for fault in error.faults)
        if len(faults) >= _MAX_FAULTS:
            raise _Faults(*faults) from error
        return None


def _decode_any(text: str, path: Path) -> SessionContext:
    """Read a file through libyaml, judging every field."""

    def refuse_newer(version: _Node) -> None:
        if isinstance(version, _Scalar) and version.plain and _INT_RE.fullmatch(version.text):
            number = int(version.text[:20])
            if number > SCHEMA_VERSION:
                raise UnsupportedSchema(path=path, schema_version=number, newest=SCHEMA_VERSION)

    of_artifacts: list[str] = []
    of_history: list[str] = []
    judges: dict[str, _Judge] = {
        "artifacts": lambda index, node: _decode_artifact(
            node, f"artifacts[{index}]", of_artifacts
        ),
        "history": lambda index, node: _decode_entry(node, f"history[{index}]", of_history),
    }
    root = _parse(text, judges=judges, on_version=refuse_newer)
    if not isinstance(root, _Mapping):
        raise _Faults(f"line {root.line}: expected the fields of a session, found {_kind(root)}")
    faults: list[str] = []
    fields = _Fields(root, "", faults)
    if fields.count("schema_version") != SCHEMA_VERSION:
        faults.append(f"schema_version: expected {SCHEMA_VERSION}")
    session_id = fields.text("session_id")
    revision = fields.count("revision")
    state = SessionState(fields.choice("state", tuple(state.value for state in SessionState)))
    workflow_type = fields.text("workflow_type")
    current_phase = fields.text("current_phase")
    attempt_number = fields.count("attempt_number")
    created_at = fields.time("created_at")
    updated_at = fields.time("updated_at")
    completed_at = fields.time("completed_at", optional=True)
    budget = _decode_budget(fields.node("token_budget"), faults)
    goal = fields.text("goal")
    artifacts = fields.items("artifacts")
    faults += of_artifacts
    history = fields.items("history")
    faults += of_history
    fields.done()
    if faults:
        raise _Faults(*faults)
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
        )
    except InvalidSession as error:
        raise _Faults(*error.faults) from error


def _decode_budget(node: _Node | None, faults: list[str]) -> TokenBudget:
    if node is None:
        return TokenBudget()
    fields = _Fields(node, "token_budget", faults)
    total = fields.count("total_budget")
    used = fields.count("tokens_used")
    fields.done()
    return _build(lambda: TokenBudget(total, used), "", node, faults) or TokenBudget()


def _decode_artifact(node: _Node, where: str, faults: list[str]) -> SessionArtifact | None:
    fields = _Fields(node, where, faults)
    path = fields.text("path") or ""
    artifact_type = fields.choice("artifact_type", ARTIFACT_TYPES)
    timestamp = fields.time("timestamp")
    phase = fields.text("phase")
    fields.done()
    return _build(
        lambda: SessionArtifact(path, artifact_type, timestamp, phase), where, node, faults
    )


def _decode_entry(node: _Node, where: str, faults: list[str]) -> SessionHistory | None:
    fields = _Fields(node, where, faults)
    timestamp = fields.time("timestamp")
    action = fields.text("action") or ""
    phase = fields.text("phase")
    details = fields.text("details")
    fields.done()
    return _build(lambda: SessionHistory(timestamp, action, phase, details), where, node, faults)


def decode_session(
    data: bytes, *, path: Path, encoder: SessionEncoder | None = None
) -> SessionContext:
    """Read a session's file.

    Args:
        data: The file, whole.
        path: Its path, for messages.
        encoder: If given, it takes over the text of the entries, so that the next save need not
            write them anew.

    Raises:
        SessionCorrupted: It is no session; the error names the file and every fault.
        UnsupportedSchema: A newer version wrote it.
    """
    try:
        text = _decode_bytes(data)
        try:
            session, artifacts, history = _decode_ours(data, text)
        except (_NotOurs, ValueError):
            # Whatever the quick reader stumbles over, the careful one gives the words for.
            return _decode_any(text, path)
    except _Faults as error:
        raise SessionCorrupted(path=path, faults=error.faults) from error
    if encoder is not None:
        encoder.seed(session, artifacts, history)
    return session


def _decode_bytes(data: bytes) -> str:
    if not data:
        raise _Faults("it is empty")
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise _Faults("line 1: it begins with a byte order mark; save it as UTF-8 without one")
    if b"\0" in data:
        raise _Faults(f"it holds binary data: a NUL byte at {data.index(0)}")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _Faults(f"line {line}: byte {error.start} is not UTF-8") from error
    if "\r" in text:
        line = text.count("\n", 0, text.index("\r")) + 1
        raise _Faults(
            f"line {line}: it has Windows line endings (CR); save it with Unix ones (dos2unix)"
        )
    if not data.endswith(END_MARK) and not text.rstrip().endswith("\n..."):
        raise _Faults("it is cut off: the last line is not the end mark '...'")
    return text
