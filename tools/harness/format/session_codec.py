"""Encodes sessions as YAML in one form, and decodes every form.

The output is plain block YAML 1.1 that any YAML library reads to the same values. Its form is so
regular that our reader needs no YAML parser for it: a file that is exactly as we write it is taken
apart by regular expressions, and every other one (edited by hand, say) goes through
`session_document`. Both ways end in the same constructors, so a file is checked in full however it
was read.

docs/session-format.md describes the format for people. The module is longer than most because the
two directions of one form are easier to keep alike side by side.
"""

# Annotations are evaluated here: as strings, each field's would be compiled at import.

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache, lru_cache, partial
from itertools import pairwise, repeat
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar
from zlib import crc32

from ...base.identifiers import SESSION_ID_PATTERN
from ..domain.session_checks import check, name_fault, path_fault, text_fault
from ..domain.session_data import (
    MAX_TAG_CHARS,
    MAX_TAGS,
    NO_DATA,
    NO_METADATA,
    NO_WORKFLOW_STATE,
    EntryData,
    freeze,
)
from ..domain.session_entries import sound_artifacts, sound_entries
from ..domain.session_fields import field_values
from ..errors import SessionCorrupted
from ..session_domain import (
    MAX_GOAL_CHARS,
    MAX_NAME_CHARS,
    InvalidSession,
    SessionArtifact,
    SessionContext,
    SessionHistory,
    SessionState,
    TokenBudget,
)
from ..session_layout import OWN_DATA_MINOR, SCHEMA_VERSION, STEPS_KEY
from ..views.session_head import OWN_FIELDS, SessionHead
from .session_digest import LINE as DIGEST_LINE
from .session_digest import GrowingChecksum, checksum_of, differs, digest_line
from .session_values import (
    BARE_TIME,
    BLOCK,
    COUNT,
    LONGEST_RESERVED,
    NAME,
    NAME_RE,
    OWN_INDENT,
    PLAIN,
    QUOTED,
    TIME,
    NotOurs,
    decode_block,
    decode_data,
    decode_known_text,
    decode_name,
    decode_text,
    encode_data,
    encode_name,
    encode_own_data,
    encode_recent_time,
    encode_text,
    indented,
    is_plain,
)

_T = TypeVar("_T")

END_MARK: Final = b"...\n"
HEADER: Final = "# A session of AgentForge Harness. Its fields: docs/session-format.md\n"


# ------------------------------------------------------------------------------------------ writing


def minor_version(session: SessionContext) -> int:
    """Return the minor schema version that a session is written in."""
    carries = (
        session.parent_id is not None
        or session.title is not None
        or session.tags
        or session.metadata
        or session.workflow_state
    )
    return max(session.schema_minor, OWN_DATA_MINOR if carries else 0)


def encode_head(session: SessionContext, *, revision: int, minor: int) -> bytes:
    """Encode everything before the session's own data, the artifacts and the history.

    Args:
        session: The session.
        revision: The revision to write instead of the session's.
        minor: The minor version of the file, as `minor_version` returns it.
    """
    budget = session.token_budget
    return (
        f"{HEADER}"
        f"schema_version: {_version(minor)}\n"
        f"session_id: {encode_name(session.session_id)}\n"
        f"{_encode_identity(session) if minor else ''}"
        f"revision: {revision}\n"
        f"state: {session.state.value}\n"
        f"workflow_type: {encode_name(session.workflow_type)}\n"
        f"current_phase: {encode_name(session.current_phase)}\n"
        f"attempt_number: {int(session.attempt_number)}\n"
        f"created_at: {encode_recent_time(session.created_at)}\n"
        f"updated_at: {encode_recent_time(session.updated_at)}\n"
        f"completed_at: {encode_recent_time(session.completed_at)}\n"
        f"token_budget:\n"
        f"  total_budget: {int(budget.total_budget)}\n"
        f"  tokens_used: {int(budget.tokens_used)}\n"
        f"  remaining: {int(budget.total_budget) - int(budget.tokens_used)}\n"
        f"{budget.newer_fields and indented(budget.newer_fields, '  ')}"
        f"goal: {encode_text(session.goal, indent=2)}\n"
    ).encode()


def _version(minor: int) -> str:
    return f'"{SCHEMA_VERSION}.{minor}"' if minor else str(SCHEMA_VERSION)


def _encode_identity(session: SessionContext) -> str:
    """Encode the parent, title and tags; absent ones are omitted."""
    parent, title, tags = session.parent_id, session.title, session.tags
    return (
        ("" if parent is None else f"parent_id: {encode_name(parent)}\n")
        + ("" if title is None else f"title: {encode_text(title)}\n")
        + ("tags:\n" + "".join([f"  - {encode_name(tag)}\n" for tag in tags]) if tags else "")
    )


def encode_artifact(artifact: SessionArtifact) -> str:
    """Encode an artifact as an item of the file's list."""
    return (
        f"  - path: {encode_text(artifact.path)}\n"
        f"    artifact_type: {encode_name(artifact.artifact_type)}\n"
        f"    timestamp: {encode_recent_time(artifact.timestamp)}\n"
        f"    phase: {encode_name(artifact.phase)}\n"
        f"{indented(artifact.newer_fields, '    ')}"
    )


def encode_entry(entry: SessionHistory) -> str:
    """Encode a history entry as an item of the file's list."""
    return (
        f"  - timestamp: {encode_recent_time(entry.timestamp)}\n"
        f"    action: {encode_name(entry.action)}\n"
        f"    phase: {encode_name(entry.phase)}\n"
        f"    details: {encode_text(entry.details)}\n"
        f"{encode_data(entry.data)}"
        f"{indented(entry.newer_fields, '    ')}"
    )


class _EncodedList(Generic[_T]):
    """The encoded form of a growing list.

    Entries are immutable, so their encoded text stays valid as long as the list still begins with
    the same ones; checking that compares one pointer per entry.
    """

    def __init__(self, key: str, kind: type[_T], encode: Callable[[_T], str]) -> None:
        self._key = key
        self.kind = kind
        self._encode = encode
        self.seed([], b"")

    def seed(self, entries: list[_T], encoded: bytes) -> None:
        """Start from entries and their encoded lines, without the key's line."""
        self._entries = entries.copy()
        self._bytes = bytearray(f"{self._key}:\n".encode() + encoded)
        self.checksum = GrowingChecksum()

    def piece(self, entries: list[_T]) -> bytearray:
        """Return the encoded list; valid until the next call."""
        new = entries[len(self._entries) :]
        encoded = self._encoded(new) if new else b""
        self._entries += new
        if self._entries != entries:  # compared in place: a slice would touch every entry
            self.seed([], b"")
            encoded = self._encoded(entries)
            self._entries = entries.copy()
        self._bytes += encoded
        return self._bytes if entries else bytearray(f"{self._key}: []\n".encode())

    def _encoded(self, entries: list[_T]) -> bytes:
        """Encode entries without storing them, so that a failure changes nothing."""
        if not all(type(entry) is self.kind for entry in entries):
            raise InvalidSession([f"{self._key}: holds what is no {self.kind.__name__}"])
        return "".join(map(self._encode, entries)).encode()


class SessionEncoder:
    """Encodes one session repeatedly, encoding each entry only once.

    An immutable value is checked and encoded again only if it was replaced by another object.
    """

    def __init__(self) -> None:
        self._own_data: dict[str, tuple[Mapping[str, Any], bytes]] = {}
        self._artifacts = _EncodedList("artifacts", SessionArtifact, encode_artifact)
        self._history = _EncodedList("history", SessionHistory, encode_entry)
        self._judged: tuple[object, ...] = ()

    def encode(self, session: SessionContext, *, revision: int) -> list[bytes | bytearray]:
        """Encode the session's file, in pieces that are valid until the next call.

        Args:
            session: The session; checked first.
            revision: The revision to write instead of the session's.

        Raises:
            InvalidSession: It violates the rules of the domain, so it must not reach the disk.
        """
        faults = session.faults(self._judged)
        if faults:
            raise InvalidSession(faults)
        self._judged = field_values(session)
        before: list[bytes | bytearray] = [
            encode_head(session, revision=revision, minor=minor_version(session)),
            self._encoded_data("metadata", session.metadata),
            self._encoded_data("workflow_state", session.workflow_state),
            self._artifacts.piece(session.artifacts),
        ]
        history, newer = self._history.piece(session.history), session.newer_fields.encode()
        checksum = self._history.checksum.behind(checksum_of(before), history)
        return [*before, history, newer, digest_line(crc32(newer, checksum)), END_MARK]

    def _encoded_data(self, name: str, data: Mapping[str, Any]) -> bytes:
        """Return a data field as encoded in the file."""
        known = self._own_data.get(name)
        if known is None or known[0] is not data:
            known = self._own_data[name] = (data, encode_own_data(name, data).encode())
        return known[1]

    def seed(self, session: SessionContext, artifacts: bytes, history: bytes) -> None:
        """Start from a checked session and its lists as encoded in its file."""
        self._judged = field_values(session)
        self._artifacts.seed(session.artifacts, artifacts)
        self._history.seed(session.history, history)


def encode_session(session: SessionContext) -> bytes:
    """Encode a session's file in one piece.

    Raises:
        InvalidSession: It violates the rules of the domain.
    """
    return b"".join(SessionEncoder().encode(session, revision=session.revision))


# ----------------------------------------------------------------------------------- reading a head

HEAD_BYTES: Final = 4096
"""How many bytes always contain the head (`goal`, the one long field, comes after it)."""


_STEPS: Final = f"\n  {STEPS_KEY}:\n".encode()
_WITHOUT_OWN_DATA: Final = f"{HEADER}schema_version: 1\n".encode()


def compiled_later(text: str) -> Callable[[], re.Pattern[str]]:
    """Return a function that compiles the pattern on its first call; few commands need all."""
    return cache(partial(re.compile, text))


def _head_pattern(
    *, identity: str, name: str, tag: str, count: str, positive: str
) -> Callable[[], re.Pattern[str]]:
    """Return the pattern of a head with these field patterns."""
    return compiled_later(
        re.escape(HEADER) + rf'schema_version: (1|"1\.{OWN_DATA_MINOR}")\n'
        rf"session_id: ({identity})\n"
        rf"(?:parent_id: ({identity})\n)?"
        rf"(?:title: ({name})\n)?"
        rf"(?:tags:\n((?:  - {tag}\n)++))?"
        rf"revision: ({count})\n"
        r"state: (active|paused|completed|aborted)\n"
        rf"workflow_type: ({name})\n"
        rf"current_phase: ({name})\n"
        rf"attempt_number: ({positive})\n"
        rf"created_at: ({TIME})\n"
        rf"updated_at: ({TIME})\n"
        rf"completed_at: (null|{TIME})\n"
        r"token_budget:\n"
        rf"  total_budget: ({positive})\n"
        rf"  tokens_used: ({count})\n"
        r"  remaining: -?(?:0|[1-9][0-9]{0,18})\n(?=goal:)"
    )


HEAD_RE: Final = _head_pattern(identity=NAME, name=NAME, tag=NAME, count=COUNT, positive=COUNT)
_WORD: Final = r"[A-Za-z_][A-Za-z0-9_./()+=]*+(?:-++[A-Za-z0-9_./()+=]++)*+"
"""A plain scalar without blanks."""
SOUND_HEAD_RE: Final = _head_pattern(
    identity=SESSION_ID_PATTERN,
    name=rf"(?=.{{1,{MAX_NAME_CHARS}}}\n){PLAIN}",
    tag=rf"(?=.{{1,{MAX_TAG_CHARS}}}\n){_WORD}",
    count="(?:0|[1-9][0-9]{0,17})",
    positive="[1-9][0-9]{0,17}",
)
"""Heads that satisfy every domain rule except on times: most heads, checked cheaply."""


_REVISION, _STATE, _CREATED_AT = 6, 7, 11
"""The groups of a head's pattern that make up a stamp."""


def _head_in(text: str) -> re.Match[str] | None:
    """Match `HEAD_RE`, trying its stricter subset first, which is usually compiled by then."""
    return SOUND_HEAD_RE().match(text) or HEAD_RE().match(text)


def make_head(match: re.Match[str]) -> SessionHead:
    """Build a head from a `HEAD_RE` match; raise `NotOurs` if a value is written differently."""
    _, identity, parent, title, tags, *found = match.groups()
    return SessionHead(
        decode_name(identity),
        int(found[0]),
        SessionState(found[1]),
        decode_known_text(found[2]),
        decode_known_text(found[3]),
        int(found[4]),
        datetime.fromisoformat(found[5][1:-1]),
        datetime.fromisoformat(found[6][1:-1]),
        None if found[7] == "null" else datetime.fromisoformat(found[7][1:-1]),
        int(found[8]),
        int(found[9]),
        None if title is None else decode_name(title),
        () if tags is None else _decode_tags(tags),
        None if parent is None else decode_name(parent),
    )


def _decode_tags(lines: str) -> tuple[str, ...]:
    """Decode tags; raise `NotOurs` if they are written differently or out of order."""
    tags = tuple([decode_name(line[4:]) for line in lines.split("\n")[:-1]])
    if any(first >= second for first, second in pairwise(tags)):
        raise NotOurs
    return tags


def session_of(head: SessionHead, **others: Any) -> SessionContext:
    """Build and check the session of a head; `others` are its other fields."""
    return SessionContext(
        **{name: getattr(head, name) for name in OWN_FIELDS},
        token_budget=TokenBudget(head.total_budget, head.tokens_used),
        **others,
    )


def _sound_session(head: SessionHead, **others: Any) -> SessionContext:
    """Build the session of a head from fields that are already checked."""
    session: SessionContext = object.__new__(SessionContext)
    budget = TokenBudget(head.total_budget, head.tokens_used)
    for fields in (_UNSET, {name: getattr(head, name) for name in OWN_FIELDS}, others):
        for name, value in fields.items():
            object.__setattr__(session, name, value)
    object.__setattr__(session, "token_budget", budget)
    return session


_UNSET: Final[Mapping[str, Any]] = {
    "metadata": NO_METADATA,
    "workflow_state": NO_WORKFLOW_STATE,
    "schema_minor": 0,
    "newer_fields": "",
    "unlike_its_digest": False,
}


def decode_head(data: bytes) -> SessionHead | None:
    """Decode the head of a file from its first bytes, and check it as a full read would.

    Args:
        data: At least `HEAD_BYTES` of the file, or all of it.

    Returns:
        The head, or None if the file is not exactly as we write it. It may still be a session:
        `decode_session` decides.
    """
    text = data.decode("utf-8", "surrogateescape")
    try:
        match = SOUND_HEAD_RE().match(text)
        if match is not None:
            head = make_head(match)
            if _is_sound(head):
                return head
        match = HEAD_RE().match(text)
        if match is None:
            return None
        head = make_head(match)
        session_of(head)
    except (NotOurs, ValueError):
        return None
    return head


def may_have_steps(beginning: bytes) -> bool:
    """Return whether the file that begins so may be that of a session with a log of steps."""
    if beginning.startswith(_WITHOUT_OWN_DATA):
        return False
    return _STEPS in beginning or b"\nartifacts:" not in beginning


def _is_sound(head: SessionHead) -> bool:
    """Return whether the head passes the checks that no pattern can make."""
    if head.parent_id == head.session_id or len(head.tags) > MAX_TAGS:
        return False
    ended = head.completed_at
    if ended is None:
        return not head.state.is_terminal and head.created_at <= head.updated_at
    return head.state.is_terminal and head.created_at <= min(head.updated_at, ended)


class SessionStamp(NamedTuple):
    """The fields of a stored session that a save compares before it replaces it.

    Attributes: as those of `SessionContext`.
    """

    revision: int
    state: SessionState
    created_at: datetime


def decode_stamp(data: bytes) -> SessionStamp | None:
    """Decode the stamp from the first `HEAD_BYTES` of a file.

    Returns:
        The stamp, or None if the file does not start as we write it.
    """
    match = _head_in(data.decode("utf-8", "surrogateescape"))
    if match is None:
        return None
    try:
        created_at = datetime.fromisoformat(match[_CREATED_AT][1:-1])
    except ValueError:
        return None
    return SessionStamp(int(match[_REVISION]), SessionState(match[_STATE]), created_at)


# -------------------------------------------------------------------------- reading a whole session

_GOAL_SPAN: Final = 20 * MAX_GOAL_CHARS
"""More than a goal can take: at most ten characters for one, and its margin."""
_GOAL_RE: Final = compiled_later(rf"goal: (?:({NAME})\n|({BLOCK % '  '}))")
_END_RE: Final = compiled_later(rf"(?:{DIGEST_LINE})?\.\.\.\n\Z")
_BEHIND_GOAL: Final = ("artifacts:", "metadata:", "workflow_state:")
_OWN_DATA: Final = r"%s:\n((?:  [^\n]*+\n|\n++)++)"
_OWN_DATA_RE: Final = compiled_later(
    rf"(?:{_OWN_DATA % 'metadata'})?(?:{_OWN_DATA % 'workflow_state'})?"
)
_ARTIFACT_RE: Final = compiled_later(
    rf"  - path: (?:({NAME})\n|({BLOCK % '      '}))    artifact_type: (created|modified)\n"
    rf'    timestamp: "({BARE_TIME})"\n    phase: ([^\n]++)\n|()'
)
"""An artifact, or the end of the list (the last group)."""
_ENTRY_RE: Final = compiled_later(
    rf'  - timestamp: "({BARE_TIME})"\n'
    r"    action: ([^\n]++)\n    phase: ([^\n]++)\n"
    rf"    details: (?:\"([^\"\\\n]*+)\"\n|({PLAIN})\n|({QUOTED})\n|({BLOCK % '      '}))"
    r"(?:    data:\n((?:      [^\n]*+\n|\n++)++))?|()"
)
"""An entry, or the end of the list."""


def decode_session(
    data: bytes, *, path: Path, encoder: SessionEncoder | None = None
) -> SessionContext:
    """Decode a session's file.

    A file whose digest does not match its content is still read, and the session says so
    (`SessionContext.unlike_its_digest`).

    Args:
        data: The complete file.
        path: Its path, for messages.
        encoder: If given, it takes over the text of the entries, so that the next save need not
            encode them again.

    Raises:
        SessionCorrupted: It is not a session; the error names the file and every fault.
        UnsupportedSchema: A newer version wrote it.
    """
    text = _decode_bytes(data, path)
    carries_digest = None
    try:
        session, artifacts, history = decode_ours(data, text)
    except (NotOurs, ValueError):
        # When the fast reader fails, the careful one produces the error message.
        from .session_document import decode_any  # rare, and it takes long to load

        session, carries_digest = decode_any(text, path)
    else:
        if encoder is not None:
            encoder.seed(session, artifacts, history)
    if differs(data, carried=carries_digest):
        session.unlike_its_digest = True
    return session


def _decode_bytes(data: bytes, path: Path) -> str:
    fault = None
    text = ""
    if not data:
        fault = "it is empty"
    elif data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        fault = "line 1: it begins with a byte order mark; save it as UTF-8 without one"
    elif b"\0" in data:
        fault = f"it holds binary data: a NUL byte at {data.index(0)}"
    else:
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            fault = f"line {line}: byte {error.start} is not UTF-8"
    if "\r" in text:
        line = text.count("\n", 0, text.index("\r")) + 1
        fault = f"line {line}: it has Windows line endings (CR); save it with Unix ones (dos2unix)"
    elif _is_cut_off(data, text):
        fault = "it is cut off: the last line is not the end mark '...'"
    if fault is not None:
        raise SessionCorrupted(path=path, faults=[fault])
    return text


def _is_cut_off(data: bytes, text: str) -> bool:
    """Return whether a file of ours lacks its end; other programs may end theirs as they like."""
    return (
        text.startswith(HEADER)
        and not data.endswith(END_MARK)
        and not text.rstrip().endswith("\n...")
    )


def decode_ours(data: bytes, text: str) -> tuple[SessionContext, bytes, bytes]:
    """Decode a file that is exactly as we write it.

    Returns:
        The session, and its encoded artifacts and history.

    Raises:
        NotOurs: The file is not as we write it.
        InvalidSession: It is, but violates the rules of the domain.
    """
    if not is_plain(data, text):
        raise NotOurs
    match = _head_in(text)
    if match is None or not _goal_ends(text, match.end()):
        raise NotOurs
    goal = _GOAL_RE().match(text, match.end())
    if goal is None:
        raise NotOurs
    head = make_head(match)
    quoted, block = goal.groups()
    own = _OWN_DATA_RE().match(text, goal.end())
    metadata, state = (None, None) if own is None else own.groups()
    position = goal.end() if own is None else own.end()
    artifacts, first, second = _decode_artifacts(text, position)
    history, third, fourth = _decode_history(text, second)
    if not _END_RE().match(text, fourth):
        raise NotOurs
    text_of_goal = decode_text(quoted) if block is None else decode_block(block, "  ")
    lists = {"goal": text_of_goal, "artifacts": artifacts, "history": history}
    if metadata is None and state is None and match.re is SOUND_HEAD_RE() and _is_sound(head):
        check(text_fault("goal", text_of_goal, optional=True, limit=MAX_GOAL_CHARS))
        session = _sound_session(head, **lists)
    else:
        written = {"metadata": metadata, "workflow_state": state}
        own_data = {
            name: decode_data(one, indent=OWN_INDENT)
            for name, one in written.items()
            if one is not None
        }
        session = session_of(head, **lists, **own_data)
    if match[1] != _version(minor_version(session)):
        raise NotOurs
    return session, text[first:second].encode(), text[third:fourth].encode()


def _goal_ends(text: str, position: int) -> bool:
    """Return whether the field after a goal comes within the longest span of a goal."""
    end = position + _GOAL_SPAN
    return any(text.find(f"\n{key}", position, end) >= 0 for key in _BEHIND_GOAL)


def decode_goal(data: bytes, *, path: Path) -> str | None:
    """Decode a session's goal; of a file as we write it, nothing else is decoded.

    Raises: as `decode_session`.
    """
    text = data[: HEAD_BYTES + _GOAL_SPAN].decode("utf-8", "surrogateescape")
    match = _head_in(text)
    goal = None if match is None else _GOAL_RE().match(text, match.end())
    if goal is None or not text.startswith(_BEHIND_GOAL, goal.end()):
        return decode_session(data, path=path).goal
    quoted, block = goal.groups()
    try:
        return decode_text(quoted) if block is None else decode_block(block, "  ")
    except (NotOurs, ValueError):
        return decode_session(data, path=path).goal


def _decode_artifacts(text: str, position: int) -> tuple[list[SessionArtifact], int, int]:
    """Decode the artifacts, checking each value once; return them with their start and end."""
    empty = "artifacts: []\n"
    if text.startswith(empty, position):
        end = position + len(empty)
        return [], end, end
    columns, begin, end = _columns(text, position, "artifacts", _ARTIFACT_RE())
    paths, blocks, kinds, timestamps, phases = columns
    found = [
        decode_name(path) if block is None else decode_block(block, "      ")
        for path, block in zip(paths, blocks, strict=True)
    ]
    check([fault for path in found for fault in path_fault("path", path)])
    times = map(datetime.fromisoformat, timestamps)
    named = map(_sound_name_or_null, phases)
    return sound_artifacts(len(found), found, kinds, times, named, repeat("")), begin, end


def _decode_history(text: str, position: int) -> tuple[list[SessionHistory], int, int]:
    """Decode the entries as `_decode_artifacts` does; most of a large session's reading time."""
    columns, begin, end = _columns(text, position, "history", _ENTRY_RE())
    timestamps, actions, phases, *texts, data = columns
    details = [
        quoted
        if quoted is not None
        else (plain if len(plain) > LONGEST_RESERVED else decode_text(plain))
        if plain is not None
        else (decode_text(escaped) if escaped is not None else decode_block(block, "      "))
        for quoted, plain, escaped, block in zip(*texts, strict=True)
    ]
    known = _SoundData()
    entries = sound_entries(
        len(details),
        map(datetime.fromisoformat, timestamps),
        map(_sound_name, actions),
        map(_sound_name_or_null, phases),
        details,
        repeat(""),
        [NO_DATA if one is None else known[one] for one in data],
    )
    return entries, begin, end


def _columns(
    text: str, position: int, key: str, pattern: re.Pattern[str]
) -> tuple[list[list[Any]], int, int]:
    """Decode one list; return the groups of its items as columns, with the list's start and end.

    The groups of all items are in one list at first: with a tuple per item, the garbage collector
    would scan them again and again, which takes as long as reading them.
    """
    opening = f"{key}:\n"
    if not text.startswith(opening, position):
        raise NotOurs
    begin = end = position + len(opening)
    groups: list[Any] = []
    for found in pattern.finditer(text, begin):
        item = found.groups()
        if item[-1] is not None:
            end = found.start()
            break
        groups += item
    if not groups:
        raise NotOurs
    return [groups[at :: pattern.groups] for at in range(pattern.groups - 1)], begin, end


@lru_cache(maxsize=512)
def _sound_name_or_null(scalar: str) -> str | None:
    """Decode and check a name or null; cached, since a session has few names."""
    if not NAME_RE.fullmatch(scalar):
        raise NotOurs
    name = decode_text(scalar)
    check(name_fault("name", name, optional=True))
    return name


@lru_cache(maxsize=512)
def _sound_name(scalar: str) -> str:
    """Decode and check a name that can't be null; cached as well."""
    name = _sound_name_or_null(scalar)
    if name is None:
        raise NotOurs
    return name


class _SoundData(dict[str, EntryData]):
    """Cache of entry data by text, each decoded and checked once: many entries share theirs."""

    def __missing__(self, text: str) -> EntryData:
        data, faults = freeze(decode_data(text))
        check(faults)
        self[text] = data
        return data
