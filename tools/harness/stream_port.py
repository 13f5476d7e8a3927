"""The port to a session's streams: append-only lists of any number of entries.

A conversation, or a graph's checkpoints, would make the session's own document large and each save
slow. They are stored beside it, in a stream: named and ordered, each entry with a small head, from
which an index is built, and a body, which is read on demand.
"""

# Annotations are evaluated here: as strings, each field's would be compiled at import.

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from ..base import stream_entry

StreamEntry = stream_entry.StreamEntry
MAX_ENTRY_BYTES: Final = 256 << 20
"""Most bytes of a single append, heads and bodies."""


class NewEntry(NamedTuple):
    """An entry to be appended.

    Attributes:
        head: The data for an index; should be small.
        body: The rest.
    """

    head: bytes
    body: bytes


class StreamMark(NamedTuple):
    """How far a stream was read; only its own store interprets the numbers."""

    one: int = 0
    two: int = 0
    three: int = 0


class StreamPart(NamedTuple):
    """The result of reading a stream.

    Attributes:
        entries: The entries, without their bodies.
        mark: How far the stream was read.
        anew: Whether these are all entries: no mark was given, or the stream was replaced or
            removed since that mark.
    """

    entries: list[StreamEntry]
    mark: StreamMark
    anew: bool


class StreamTail(NamedTuple):
    """The end of a stream.

    Attributes:
        entries: The last entries, in order, without their bodies.
        mark: How far the stream was read.
        whole: Whether these are all entries.
    """

    entries: list[StreamEntry]
    mark: StreamMark
    whole: bool


class StreamRow(NamedTuple):
    """A stream as a store of rows has it.

    Attributes:
        session_id: Its session.
        stream: Its name.
        mark: The mark of its end: another one if the stream changed.
        size: The bytes of its heads and bodies.
        is_pinned: Whether its session is pinned.
        head: The head of its last entry; empty if it has none.
    """

    session_id: str
    stream: str
    mark: StreamMark
    size: int
    is_pinned: bool
    head: bytes


class SessionStreams(Protocol):
    """Stores the streams of sessions.

    Every implementation guarantees: when an append returns, its entries survive the death of the
    process; when it raises, none of them is there (except for a `WriteError` that is `visible`). A
    reader sees all entries of an append or none, and appends in one order, the same for all. No
    append of concurrent processes is lost. The streams are deleted with their session. One suite,
    `tests/contract/harness/test_session_streams_contract.py`, checks all of them.
    """

    def append_entries(
        self,
        session_id: str,
        stream: str,
        entries: Sequence[NewEntry],
        *,
        expected: StreamMark | None = None,
    ) -> StreamMark:
        """Append entries to a stream, all or none; the first ones create it.

        Args:
            session_id: The session; it has not ended.
            stream: The stream's name.
            entries: The entries; with none, nothing changes.
            expected: How far the caller read the stream: if it has other content since, nothing is
                written. None: whatever it holds.

        Returns:
            The mark after them; without entries, `expected` or one at the beginning.

        Raises:
            InvalidSessionId: The id is malformed.
            ValueError: `stream` is not a valid stream name, or the entries are too large together.
            SessionNotFound: There is no such session.
            InvalidStateTransition: The session has ended.
            StreamMoved: Another worker wrote it since it was read; nothing was written.
            ReadError: What is stored is damaged; nothing was written.
            WriteError: The store refused.
        """
        ...

    def replace_entries(
        self,
        session_id: str,
        stream: str,
        entries: Sequence[NewEntry],
        *,
        expected: StreamMark | None = None,
    ) -> None:
        """Replace all entries of a stream; earlier marks and positions become invalid.

        Args and raises as of `append_entries`; there is no limit to their size.
        """
        ...

    def read_entries(
        self, session_id: str, stream: str, *, since: StreamMark | None = None
    ) -> StreamPart:
        """Return the entries of a stream, in order; none without a session or a stream.

        Args:
            session_id: The session.
            stream: The stream's name.
            since: How far it was read before: return only later entries, if the mark is still
                valid.

        Raises:
            InvalidSessionId: The id is malformed.
            ValueError: `stream` is not a valid stream name.
            ReadError: What is stored is damaged, or the store refused.
        """
        ...

    def read_last(self, session_id: str, stream: str, count: int) -> StreamTail:
        """Return the last entries of a stream, at a cost that does not grow with its length.

        None without a session or a stream. There may be more than requested, and the first append
        among them may be incomplete.

        Args:
            session_id: The session.
            stream: The stream's name.
            count: The least number of entries, if there are so many; 1 or more.

        Raises:
            InvalidSessionId: The id is malformed.
            ValueError: `stream` is not a valid stream name, or `count` is less than 1.
            ReadError: What was read is damaged, or the store refused.
        """
        ...

    def read_bodies(
        self, session_id: str, stream: str, entries: Sequence[StreamEntry], *, mark: StreamMark
    ) -> list[bytes]:
        """Return the bodies of entries, in the order given.

        Args:
            session_id: The session.
            stream: The stream's name.
            entries: Entries that were read; or their recorded positions, for which a store need not
                notice that other entries are there now.
            mark: The mark that was read with the last of them, or a later one.

        Raises:
            InvalidSessionId: The id is malformed.
            ValueError: `stream` is not a valid stream name.
            StreamMoved: The stream was replaced or removed since; read it again.
            ReadError: What is stored there is damaged or is another entry, or the store refused.
        """
        ...


def require_count(count: int) -> None:
    """Raise if fewer than one entry is requested from the end of a stream.

    Raises:
        ValueError: `count` is less than 1.
    """
    if count < 1:
        raise ValueError(f"{count} is no number of entries: use 1 or more")
