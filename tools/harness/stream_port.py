"""The port to the streams of a session: entries that are only ever added, as many as there come.

A conversation, or a graph's checkpoints, would make the session's own document large and each of
its saves slow. They are kept beside it, in a stream: named, in order, each entry a small head,
which an index is built of, and a body, which is read when it is needed.
"""

# Annotations are evaluated here: as strings, each field's would be compiled at import.

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

MAX_ENTRY_BYTES: Final = 256 << 20
"""The most that a single append takes, heads and bodies."""


class NewEntry(NamedTuple):
    """An entry that is to be added.

    Attributes:
        head: What an index is built of; better small.
        body: The rest.
    """

    head: bytes
    body: bytes


class StreamEntry(NamedTuple):
    """An entry that is kept.

    Attributes:
        position: Its place; that of a later entry of the same stream is greater, or the same if the
            body of this one is empty.
        size: The bytes of its body.
        check: What the store judges the body by.
        head: Its head.
    """

    position: int
    size: int
    check: int
    head: bytes


class StreamMark(NamedTuple):
    """How far a stream was read; only its own store reads the numbers."""

    one: int = 0
    two: int = 0
    three: int = 0


class StreamPart(NamedTuple):
    """What was read of a stream.

    Attributes:
        entries: The entries, without their bodies.
        mark: How far the stream was read.
        anew: Whether these are all there are: the stream was replaced or removed since the mark
            that was given, or none was given.
    """

    entries: list[StreamEntry]
    mark: StreamMark
    anew: bool


class StreamTail(NamedTuple):
    """The end of a stream.

    Attributes:
        entries: The last entries, in order, without their bodies.
        mark: How far the stream was read.
        whole: Whether these are all there are.
    """

    entries: list[StreamEntry]
    mark: StreamMark
    whole: bool


class SessionStreams(Protocol):
    """Keeps the streams of sessions.

    Guarantees asked of every implementation: when an append returns, its entries survive the death
    of the process; when it raises, none of them is there (a `WriteError` that is `visible`
    excepted). A reader sees all entries of an append or none, and appends in one order, the same
    for all. Appends of several processes are all kept. The streams go with their session. One
    suite, `tests/contract/harness/test_session_streams_contract.py`, holds all of them to this.
    """

    def append_entries(
        self,
        session_id: str,
        stream: str,
        entries: Sequence[NewEntry],
        *,
        expected: StreamMark | None = None,
    ) -> None:
        """Add entries to the end of a stream, all or none; the first ones begin it.

        Args:
            session_id: The session; it has not ended.
            stream: The stream's name.
            entries: The entries; none is no change.
            expected: How far the caller read the stream: what it does not know keeps it from being
                written to. None: whatever it holds.

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
        """Have a stream hold these entries and no others; what others read of it stands no more.

        Args and raises as of `append_entries`; there is no limit to their size.
        """
        ...

    def read_entries(
        self, session_id: str, stream: str, *, since: StreamMark | None = None
    ) -> StreamPart:
        """Return what a stream holds, in order; nothing where there is no session, or no stream.

        Args:
            session_id: The session.
            stream: The stream's name.
            since: How far it was read before: only what was added since, if that still stands.

        Raises:
            InvalidSessionId: The id is malformed.
            ValueError: `stream` is not a valid stream name.
            ReadError: What is stored is damaged, or the store refused.
        """
        ...

    def read_last(self, session_id: str, stream: str, count: int) -> StreamTail:
        """Return the last entries of a stream, at a cost that does not grow with its length.

        Nothing where there is no session, or no stream. More than were asked for may come, and an
        append of which only the end does.

        Args:
            session_id: The session.
            stream: The stream's name.
            count: How many at least, if there are so many; 1 or more.

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
            entries: Entries that were read; or their places as they were noted, of which a store
                need not notice that other entries stand there now.
            mark: The mark that was read with the last of them, or a later one.

        Raises:
            InvalidSessionId: The id is malformed.
            ValueError: `stream` is not a valid stream name.
            StreamMoved: The stream was replaced or removed since; read it anew.
            ReadError: What is stored there is damaged or another's, or the store refused.
        """
        ...


def require_count(count: int) -> None:
    """Refuse to read less than one entry from the end of a stream.

    Raises:
        ValueError: It is less.
    """
    if count < 1:
        raise ValueError(f"{count} is no number of entries: use 1 or more")
