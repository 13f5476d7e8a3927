"""Sessions as YAML: the one form that is written, and every form that is read.

What is written is plain block YAML 1.1 that any YAML library reads to the same values. Its form is
so regular that a reader of ours needs no YAML parser for it: a file that is exactly as we write it
is taken apart by regular expressions, and every other one (edited by hand, say) goes through
`session_document`. Both ways end in the same constructors, so nothing is believed because of how it
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
from ..domain.entry_data import NO_DATA, EntryData, freeze
from ..domain.session_checks import check, name_fault, path_fault, text_fault
from ..domain.session_data import MAX_TAG_CHARS, MAX_TAGS, NO_METADATA, NO_WORKFLOW_STATE
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
from ..session_layout import OWN_DATA_MINOR, SCHEMA_VERSION
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
    """Return the minor version of the form that a session is written in."""
    carries = (
        session.parent_id is not None
        or session.title is not None
        or session.tags
        or session.metadata
        or session.workflow_state
    )
    return max(session.schema_minor, OWN_DATA_MINOR if carries else 0)


def encode_head(session: SessionContext, *, revision: int, minor: int) -> bytes:
    """Write all that comes before the session's own data, the artifacts and the history.

    Args:
        session: The session.
        revision: The revision to write in its place.
        minor: The minor version of the whole, as `minor_version` says.
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
    """Write where a session comes from and what people call it; nothing of what it has not."""
    parent, title, tags = session.parent_id, session.title, session.tags
    return (
        ("" if parent is None else f"parent_id: {encode_name(parent)}\n")
        + ("" if title is None else f"title: {encode_text(title)}\n")
        + ("tags:\n" + "".join([f"  - {encode_name(tag)}\n" for tag in tags]) if tags else "")
    )


def encode_artifact(artifact: SessionArtifact) -> str:
    """Write an artifact as it stands in the list."""
    return (
        f"  - path: {encode_text(artifact.path)}\n"
        f"    artifact_type: {encode_name(artifact.artifact_type)}\n"
        f"    timestamp: {encode_recent_time(artifact.timestamp)}\n"
        f"    phase: {encode_name(artifact.phase)}\n"
        f"{indented(artifact.newer_fields, '    ')}"
    )


def encode_entry(entry: SessionHistory) -> str:
    """Write an entry of the history as it stands in the list."""
    return (
        f"  - timestamp: {encode_recent_time(entry.timestamp)}\n"
        f"    action: {encode_name(entry.action)}\n"
        f"    phase: {encode_name(entry.phase)}\n"
        f"    details: {encode_text(entry.details)}\n"
        f"{encode_data(entry.data)}"
        f"{indented(entry.newer_fields, '    ')}"
    )


class _EncodedList(Generic[_T]):
    """A list as it stands in the file, grown as the list grows.

    The entries can't be changed, so what was written for them stays good as long as the list
    still begins with the same ones; comparing that takes one look at each pointer.
    """

    def __init__(self, key: str, kind: type[_T], encode: Callable[[_T], str]) -> None:
        self._key = key
        self.kind = kind
        self._encode = encode
        self.seed([], b"")

    def seed(self, entries: list[_T], encoded: bytes) -> None:
        """Take over entries and the lines that are written for them, less those of the key."""
        self._entries = entries.copy()
        self._bytes = bytearray(f"{self._key}:\n".encode() + encoded)
        self.checksum = GrowingChecksum()

    def piece(self, entries: list[_T]) -> bytearray:
        """Return the list as it is written; good until the next call."""
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
        """Write entries; nothing is kept yet, so one that can't be written changes nothing."""
        if not all(type(entry) is self.kind for entry in entries):
            raise InvalidSession([f"{self._key}: holds what is no {self.kind.__name__}"])
        return "".join(map(self._encode, entries)).encode()


class SessionEncoder:
    """Writes one session again and again, paying for each entry once.

    What can't be changed in place is judged and written again only where another object is set.
    """

    def __init__(self) -> None:
        self._own_data: dict[str, tuple[Mapping[str, Any], bytes]] = {}
        self._artifacts = _EncodedList("artifacts", SessionArtifact, encode_artifact)
        self._history = _EncodedList("history", SessionHistory, encode_entry)
        self._judged: tuple[object, ...] = ()

    def encode(self, session: SessionContext, *, revision: int) -> list[bytes | bytearray]:
        """Write the session's file, in pieces that are good until the next call.

        Args:
            session: What to write; checked first.
            revision: The revision to write in its place.

        Raises:
            InvalidSession: It breaks the rules of the domain, so it must not reach the disk.
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
        """Return a field of data as it stands in the file."""
        known = self._own_data.get(name)
        if known is None or known[0] is not data:
            known = self._own_data[name] = (data, encode_own_data(name, data).encode())
        return known[1]

    def seed(self, session: SessionContext, artifacts: bytes, history: bytes) -> None:
        """Take over a session as it was judged, and its lists as they stand in its file."""
        self._judged = field_values(session)
        self._artifacts.seed(session.artifacts, artifacts)
        self._history.seed(session.history, history)


def encode_session(session: SessionContext) -> bytes:
    """Write a session's file in one piece.

    Raises:
        InvalidSession: It breaks the rules of the domain.
    """
    return b"".join(SessionEncoder().encode(session, revision=session.revision))


# ----------------------------------------------------------------------------------- reading a head

HEAD_BYTES: Final = 4096
"""How much of a file is enough to read its head (`goal`, the one long field, comes after it)."""


def compiled_later(text: str) -> Callable[[], re.Pattern[str]]:
    """Return what compiles an expression when it is first called; few commands need all."""
    return cache(partial(re.compile, text))


def _head_pattern(
    *, identity: str, name: str, tag: str, count: str, positive: str
) -> Callable[[], re.Pattern[str]]:
    """Write the expression for a head whose fields look so."""
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
"""A plain text without blanks."""
SOUND_HEAD_RE: Final = _head_pattern(
    identity=SESSION_ID_PATTERN,
    name=rf"(?=.{{1,{MAX_NAME_CHARS}}}\n){PLAIN}",
    tag=rf"(?=.{{1,{MAX_TAG_CHARS}}}\n){_WORD}",
    count="(?:0|[1-9][0-9]{0,17})",
    positive="[1-9][0-9]{0,17}",
)
"""What no rule of the domain has anything against, its times aside: most heads, judged cheaply."""


_REVISION, _STATE, _CREATED_AT = 6, 7, 11
"""The groups of a head's expression that a stamp is made of."""


def _head_in(text: str) -> re.Match[str] | None:
    """What `HEAD_RE` finds: the sound heads are some of its own, and by then compiled mostly."""
    return SOUND_HEAD_RE().match(text) or HEAD_RE().match(text)


def make_head(match: re.Match[str]) -> SessionHead:
    """Build a head from what `HEAD_RE` found; `NotOurs` if a value is spelled otherwise."""
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
    """Read tags back; `NotOurs` if they are spelled otherwise or not in their order."""
    tags = tuple([decode_name(line[4:]) for line in lines.split("\n")[:-1]])
    if any(first >= second for first, second in pairwise(tags)):
        raise NotOurs
    return tags


def session_of(head: SessionHead, **others: Any) -> SessionContext:
    """Build, and so judge, the session that a head begins; `others` are its other fields."""
    return SessionContext(
        **{name: getattr(head, name) for name in OWN_FIELDS},
        token_budget=TokenBudget(head.total_budget, head.tokens_used),
        **others,
    )


def _sound_session(head: SessionHead, **others: Any) -> SessionContext:
    """Build the session that a head begins, of fields that are judged already."""
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
    """Read the head of a file from its first bytes, and judge it as the whole would be.

    Args:
        data: At least `HEAD_BYTES` of the file, or all of it.

    Returns:
        The head, or None if the file is not exactly as we write it, which says nothing about
        whether it is a session: `decode_session` does.
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


def _is_sound(head: SessionHead) -> bool:
    """Return whether what no expression can judge is as `SessionContext.faults` asks."""
    if head.parent_id == head.session_id or len(head.tags) > MAX_TAGS:
        return False
    ended = head.completed_at
    if ended is None:
        return not head.state.is_terminal and head.created_at <= head.updated_at
    return head.state.is_terminal and head.created_at <= min(head.updated_at, ended)


class SessionStamp(NamedTuple):
    """What a save compares with the stored session before it replaces it.

    Attributes: as those of `SessionContext`.
    """

    revision: int
    state: SessionState
    created_at: datetime


def decode_stamp(data: bytes) -> SessionStamp | None:
    """Read the stamp from the first `HEAD_BYTES` of a file.

    Returns:
        The stamp, or None if the file does not begin as we write it.
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
"""More than a goal ever takes: ten characters for one at most, and its margin."""
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
"""An artifact, or the end of the list, where the last group is."""
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
    """Read a session's file.

    Args:
        data: The file, whole.
        path: Its path, for messages.
        encoder: If given, it takes over the text of the entries, so that the next save need not
            write them anew.

    A file that has another digest than its content is read all the same, and the session says so
    (`SessionContext.unlike_its_digest`).

    Raises:
        SessionCorrupted: It is no session; the error names the file and every fault.
        UnsupportedSchema: A newer version wrote it.
    """
    text = _decode_bytes(data, path)
    carries_digest = None
    try:
        session, artifacts, history = decode_ours(data, text)
    except (NotOurs, ValueError):
        # Whatever the quick reader stumbles over, the careful one gives the words for.
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
    """Return whether a file of ours has no end; other programs may end theirs as they like."""
    return (
        text.startswith(HEADER)
        and not data.endswith(END_MARK)
        and not text.rstrip().endswith("\n...")
    )


def decode_ours(data: bytes, text: str) -> tuple[SessionContext, bytes, bytes]:
    """Read a file that is exactly as we write it.

    Returns:
        The session, and its artifacts and history as they stand in the file.

    Raises:
        NotOurs: It is not.
        InvalidSession: It is, and breaks the rules of the domain.
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
    """Return whether what follows a goal is near enough for there to be one."""
    end = position + _GOAL_SPAN
    return any(text.find(f"\n{key}", position, end) >= 0 for key in _BEHIND_GOAL)


def decode_goal(data: bytes, *, path: Path) -> str | None:
    """Read the goal of a session's file, and of one as we write it no more than that.

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
    """Read the artifacts, each value judged once; return them and where they begin and end."""
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
    """Read the entries as `_decode_artifacts` does; what a large session takes long for."""
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
    """Read one list; return each group of its items, and where they begin and end.

    The groups of all items are in one list at first: to keep a tuple of each item has the garbage
    collector look at them again and again, which takes as long as to read them.
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
    """Read a name, or null, back and judge it; remembered, for a session has few of them."""
    if not NAME_RE.fullmatch(scalar):
        raise NotOurs
    name = decode_text(scalar)
    check(name_fault("name", name, optional=True))
    return name


@lru_cache(maxsize=512)
def _sound_name(scalar: str) -> str:
    """Read a name that can't be null back and judge it; remembered as well."""
    name = _sound_name_or_null(scalar)
    if name is None:
        raise NotOurs
    return name


class _SoundData(dict[str, EntryData]):
    """The data of entries, each text of it read and judged once: many have the same."""

    def __missing__(self, text: str) -> EntryData:
        data, faults = freeze(decode_data(text))
        check(faults)
        self[text] = data
        return data
