"""The port by which machines find a session's workspace, and the packs that it consists of."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from typing import Literal, Protocol, runtime_checkable

from attrs import field, frozen

from .objects import ObjectStore

PackKind = Literal["workspace", "agent"]
"""The contents of a pack: the workspace, or the agent program's own data."""


@frozen
class Pack:
    """A pack of objects in the object store.

    Attributes:
        key: Its key there.
        sha256: The hash of its bytes, in hexadecimal digits.
        size: Its length in bytes.
        kind: Its contents.
        snapshots: The snapshots that this and all packs before it complete, oldest first.
        base: The commit that the work started from, or None if it started from nothing.
        number: Its place among the session's; 0 for one that the index does not know yet.
    """

    key: str
    sha256: str
    size: int
    kind: PackKind
    snapshots: tuple[str, ...]
    base: str | None = None
    number: int = field(default=0, eq=False)


@frozen
class PackPlace:
    """The place where a session's workspace was used last.

    Attributes:
        place: The id of its base.
        host: The machine, for messages.
        turn: How often the session was taken up in another place.
    """

    place: str
    host: str
    turn: int


@runtime_checkable
class PackIndex(Protocol):
    """The packs and the places of sessions, shared by all machines.

    Guarantees required of every implementation: when a call returns, its effect is durable; it
    belongs to its session, and is deleted with it. One suite,
    `tests/contract/object_store/test_pack_index_contract.py`, tests this for all of them.
    """

    @property
    def space(self) -> str:
        """The prefix of the keys of all its packs, unique to this index.

        Raises:
            AgentForgeError: The index does not answer.
        """
        ...

    @property
    def objects(self) -> ObjectStore | None:
        """The store beside the index, for the packs of work trees; None if it has none."""
        ...

    def packs(self, session_id: str, kind: PackKind) -> list[Pack]:
        """Return a session's packs of a kind, in the order in which they were added.

        Raises:
            AgentForgeError: The index does not answer.
        """
        ...

    def add(self, session_id: str, pack: Pack) -> None:
        """Add a pack; does nothing if it exists.

        Raises:
            AgentForgeError: The index does not answer, or there is no such session.
        """
        ...

    def replace(self, session_id: str, former: Collection[int], pack: Pack, *, place: str) -> bool:
        """Replace packs by one, if the caller's place is still the session's.

        Args:
            session_id: The session.
            former: The numbers of the packs to replace.
            pack: A pack with all their contents.
            place: The caller's place.

        Returns:
            Whether it did; False if another place has taken up the session.
        """
        ...

    def place(self, session_id: str) -> PackPlace | None:
        """Return the session's last place, or None if it has none."""
        ...

    def take_up(self, session_id: str, place: str, host: str, *, former: PackPlace | None) -> bool:
        """Make `place` the session's place.

        Args:
            session_id: The session.
            place: The new place.
            host: The machine, for messages.
            former: The return value of the caller's `place` call.

        Returns:
            Whether it did; False if another has taken up the session since.
        """
        ...

    def exclusive(self, session_id: str) -> AbstractContextManager[None]:
        """Serialise naming an already stored pack with removing unnamed packs."""
        ...

    def named(self, keys: Collection[str]) -> set[str]:
        """Return the keys that belong to some pack."""
        ...

    def released(self, session_ids: Collection[str], place: str) -> Mapping[str, frozenset[str]]:
        """Return the sessions whose files a place need not retain, with all of their snapshots.

        They were taken up elsewhere since, or have ended; the snapshots are those of all packs.

        Args:
            session_ids: The sessions to check.
            place: The place.
        """
        ...


@runtime_checkable
class KeepsPacks(Protocol):
    """Sessions that several machines work on."""

    def pack_index(self) -> PackIndex:
        """Return the index of their packs."""
        ...
