"""The port by which machines know where a session's workspace is, and of which packs it is made."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from typing import Literal, Protocol, runtime_checkable

from attrs import field, frozen

PackKind = Literal["workspace", "agent"]
"""What a pack is of: the workspace, or what the agent's program keeps of its own."""


@frozen
class Pack:
    """A pack of objects in the object store.

    Attributes:
        key: Its key there.
        sha256: The hash of its bytes, in hexadecimal digits.
        size: Its length in bytes.
        kind: What it is of.
        snapshots: The snapshots that are whole with it and all packs before it, oldest first.
        base: What the work began from, or None where it began from nothing.
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
class Place:
    """Where a session's workspace was worked in last.

    Attributes:
        place: The id of the base that it is in.
        host: The machine, for messages.
        turn: How often the session was taken up in another place.
    """

    place: str
    host: str
    turn: int


@runtime_checkable
class PackIndex(Protocol):
    """Knows the packs and the places of sessions, for every machine.

    Guarantees asked of every implementation: what a call has returned from is durable; it belongs
    to its session, and goes when that is deleted. One suite,
    `tests/contract/object_store/test_pack_index_contract.py`, holds all of them to this.
    """

    @property
    def space(self) -> str:
        """What the keys of all its packs begin with, and those of no other index.

        Raises:
            AgentForgeError: The index does not answer.
        """
        ...

    def packs(self, session_id: str, kind: PackKind) -> list[Pack]:
        """Return a session's packs of a kind, in the order in which they were added.

        Raises:
            AgentForgeError: The index does not answer.
        """
        ...

    def add(self, session_id: str, pack: Pack) -> None:
        """Add a pack; does nothing where it is there.

        Raises:
            AgentForgeError: The index does not answer, or there is no such session.
        """
        ...

    def replace(self, session_id: str, former: Collection[int], pack: Pack, *, place: str) -> bool:
        """Put a pack in the place of others, if the session is still worked in here.

        Args:
            session_id: The session.
            former: The numbers of the others.
            pack: What holds all that they do.
            place: Where the caller works.

        Returns:
            Whether it did; not where another place has taken the session up.
        """
        ...

    def place(self, session_id: str) -> Place | None:
        """Return where a session was worked in last, or None where it was nowhere."""
        ...

    def take_up(self, session_id: str, place: str, host: str, *, former: Place | None) -> bool:
        """Note that a session is worked in here from now on.

        Args:
            session_id: The session.
            place: Where.
            host: The machine, for messages.
            former: What `place` had returned.

        Returns:
            Whether it did; not where another has taken the session up since.
        """
        ...

    def exclusive(self, session_id: str) -> AbstractContextManager[None]:
        """Hold what adds a pack that was stored before against what removes it as unnamed."""
        ...

    def named(self, keys: Collection[str]) -> set[str]:
        """Return those of these keys that some pack has."""
        ...

    def released(self, session_ids: Collection[str], place: str) -> Mapping[str, frozenset[str]]:
        """Return the sessions that a place need not keep files of, with all of their snapshots.

        They were taken up elsewhere since, or have ended; the snapshots are those of all packs.

        Args:
            session_ids: The sessions that are asked about.
            place: The place.
        """
        ...


@runtime_checkable
class KeepsPacks(Protocol):
    """Sessions that several machines work on."""

    def pack_index(self) -> PackIndex:
        """Return the index of their packs."""
        ...
