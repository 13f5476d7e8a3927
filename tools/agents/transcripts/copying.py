"""Copy what is new in a program's files of a conversation to the session's stream, once each.

The last entry of each append says how far the files were read, so both are stored or neither: a
killed process, a lost binding or a full disk neither doubles an entry nor loses one.
"""

# Annotations are evaluated here: as strings, each field's would have to be compiled.

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

from ..programs.meter import UsageMeter, count_of, read_new_lines
from .entries import (
    COPIED,
    Place,
    Stored,
    TranscriptEntry,
    encoded,
    head_of,
    is_open,
    joined,
    masked,
    reference,
    short,
    stream_of,
)

if TYPE_CHECKING:
    from datetime import datetime

    from ...harness.session_ports import LocalSessions

_READERS: Final = {"claude-code": "claude_code", "codex": "codex", "gemini": "gemini"}
_TAIL: Final = 256
"""How many last entries are compared with new ones."""
_MOST_ENTRIES: Final = 4_000
_MOST_CHARS: Final = 8 << 20
"""How much one call copies, so that no hook takes long; the next call goes on."""
_MOST_TIME_CHARS: Final = 40
_READ: Final = "read"


class _Reader(Protocol):
    """The interface of a program's module."""

    WANTED: tuple[bytes, ...]
    entries_of: Callable[[Mapping[str, Any]], Iterator[TranscriptEntry]]


class ConversationSource(NamedTuple):
    """A conversation of an agent program, and where the program writes it.

    Attributes:
        program: The program.
        name: The program's id of it.
        files: Its own file first, then those of its sub-agents.
        begins: From where on each file belongs to the session, in bytes, if not from its beginning.
        entries: What the program reports itself, where it writes no files.
    """

    program: str
    name: str
    files: Sequence[str] = ()
    begins: Mapping[str, object] = MappingProxyType({})
    entries: Sequence[TranscriptEntry] = ()


class _Known:
    """What the end of a stream says: how far the files were read, and the last entries."""

    def __init__(self) -> None:
        self.offsets: dict[str, int] = {}
        self.turn = 0
        self.ids: dict[str, bool] = {}

    def add(self, head: Mapping[str, Any]) -> None:
        """Take the next entry's head."""
        self.turn = max(self.turn, count_of(head.get("turn")))
        key, read = head.get("id"), head.get(_READ)
        if isinstance(key, str):
            self.ids[key] = head.get("open") is True
        if isinstance(read, dict):
            self.offsets = {str(name): count_of(one) for name, one in read.items()}

    def has(self, entry: TranscriptEntry) -> bool:
        """Return whether an entry is stored already; not if its result was missing then."""
        key = short(entry.id)
        return key in self.ids and (not self.ids[key] or is_open(entry))


def copy_transcript(
    sessions: "LocalSessions",
    session_id: str,
    conversation: ConversationSource,
    *,
    how: str,
    now: "datetime",
) -> int:
    """Append what is new of a conversation to its stream; return how many entries that are.

    The caller holds the conversation's lock.

    Args:
        sessions: The sessions.
        session_id: The session, which has not ended.
        conversation: The conversation.
        how: What is stored, one of `privacy.TRANSCRIPTS`.
        now: The time, for entries whose time is not known.

    Raises:
        AgentForgeError: The stream is damaged, the session has ended, or the store refused; what
            is missing then is copied by the next call.
    """
    if how == "none":
        return 0
    stream = stream_of(conversation.program, conversation.name)
    known = _known(sessions, session_id, stream, _TAIL)
    if any(_is_shorter(one, known) for one in conversation.files):
        known = _known(sessions, session_id, stream, None)
    found, offsets = _new_entries(conversation, known)
    stored = []
    for entry, place in found:
        if entry.kind == "user" and not entry.child:
            known.turn += 1
        at = entry.at if 0 < len(entry.at) <= _MOST_TIME_CHARS else now.isoformat()
        stored.append(_stored(entry._replace(at=at), known.turn, place, how))
    if stored:
        stored[-1].head.update({_READ: offsets, COPIED: now.isoformat()})
        sessions.append_entries(session_id, stream, [encoded(one) for one in stored])
    return len(stored)


def _stored(entry: TranscriptEntry, turn: int, place: Place, how: str) -> Stored:
    return masked(entry, turn) if how == "masked" else reference(entry, turn, place)


def _known(sessions: "LocalSessions", session_id: str, stream: str, count: int | None) -> _Known:
    """Read the last entries' heads, or all of them."""
    known = _Known()
    if count is None:
        entries = sessions.read_entries(session_id, stream).entries
    else:
        entries = sessions.read_last(session_id, stream, count).entries
    for one in entries:
        known.add(head_of(one.head))
    return known


def _is_shorter(path: str, known: _Known) -> bool:
    """Return whether a file has lost what was read of it: its entries may come again."""
    try:
        return os.stat(path).st_size < known.offsets.get(os.path.basename(path), 0)
    except (OSError, ValueError):
        return False


def _new_entries(
    conversation: ConversationSource, known: _Known
) -> tuple[list[tuple[TranscriptEntry, Place]], dict[str, int]]:
    """Return the entries that are not stored, and how far the files are read then."""
    places: dict[str, Place] = {}
    found: list[TranscriptEntry] = []

    def take(entries: Iterator[TranscriptEntry] | Sequence[TranscriptEntry], place: Place) -> int:
        size = 0
        for one in entries:
            places.setdefault(one.id, place)
            found.append(one)
            size += sum(len(text) for text in one.body.values() if isinstance(text, str))
        return size

    take(conversation.entries, Place("", 0))
    offsets = dict(known.offsets)
    module = _READERS.get(conversation.program)
    if module is not None:
        reader = cast(_Reader, import_module(f".{module}", __package__))
        room = _MOST_CHARS
        for path in dict.fromkeys(conversation.files):
            name = os.path.basename(path)
            meter = UsageMeter()
            begin = count_of(conversation.begins.get(path))
            meter.offsets[path] = max(offsets.get(name, 0), begin)
            child = "" if path == conversation.files[0] else name.removesuffix(".jsonl")
            for line in read_new_lines(path, meter, reader.WANTED):
                if room <= 0 or len(found) > _MOST_ENTRIES:
                    break  # before its entries: the offset is still that of this line
                place = Place(path, meter.offsets[path])
                entries = (one._replace(child=child) for one in reader.entries_of(line))
                room -= take(entries, place)
            offsets[name] = meter.offsets[path]
    new = [one for one in joined(found) if not known.has(one)]
    return [(one, places[one.id]) for one in new], {n: at for n, at in offsets.items() if at}
