"""An index of packs that is nothing but memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import count

from attrs import define, evolve, field

from agentforge_sessions.fleet.objects import ObjectStore
from agentforge_sessions.fleet.objects.pack_index import Pack, PackKind, PackPlace


class NoSuchSession(Exception):
    """What is noted has to be of a session."""


@define
class MemoryPacks:
    """A `PackIndex`.

    Attributes:
        exists: Returns whether there is such a session.
        has_ended: Returns whether a session has ended.
        before: Called with the operation before each call; what it raises is raised.
    """

    exists: Callable[[str], bool] = lambda _: True
    has_ended: Callable[[str], bool] = lambda _: False
    before: Callable[[str], object] = lambda _: None
    rows: dict[str, list[Pack]] = field(factory=dict)
    places: dict[str, PackPlace] = field(factory=dict)
    numbers: count[int] = field(factory=lambda: count(1))
    lock: threading.RLock = field(factory=threading.RLock)
    space: str = "5bace0000000feed"
    objects: ObjectStore | None = None

    def _rows(self) -> dict[str, list[Pack]]:
        """Return the packs of the sessions that are there."""
        return {one: rows for one, rows in self.rows.items() if self.exists(one)}

    def packs(self, session_id: str, kind: PackKind) -> list[Pack]:
        self.before("packs")
        return [one for one in self._rows().get(session_id, []) if one.kind == kind]

    def add(self, session_id: str, pack: Pack) -> None:
        self.before("add")
        with self.lock:
            if not self.exists(session_id):
                raise NoSuchSession(session_id)
            rows = self.rows.setdefault(session_id, [])
            if all(one.key != pack.key for one in rows):
                rows.append(evolve(pack, number=next(self.numbers)))

    def replace(self, session_id: str, former: Collection[int], pack: Pack, *, place: str) -> bool:
        self.before("replace")
        with self.lock:
            held = self.places.get(session_id)
            if held is None or held.place != place:
                return False
            rows = self.rows.get(session_id, [])
            self.rows[session_id] = [one for one in rows if one.number not in former]
            self.add(session_id, pack)
            return True

    def place(self, session_id: str) -> PackPlace | None:
        self.before("place")
        return self.places.get(session_id) if self.exists(session_id) else None

    def take_up(self, session_id: str, place: str, host: str, *, former: PackPlace | None) -> bool:
        self.before("take_up")
        with self.lock:
            if not self.exists(session_id):
                raise NoSuchSession(session_id)
            if self.places.get(session_id) != former:
                return False
            turn = 1 if former is None else former.turn + 1
            self.places[session_id] = PackPlace(place, host, turn)
            return True

    @contextmanager
    def exclusive(self, session_id: str) -> Iterator[None]:
        self.before("exclusive")
        with self.lock:
            yield

    def named(self, keys: Collection[str]) -> set[str]:
        self.before("named")
        return {one.key for rows in self._rows().values() for one in rows if one.key in keys}

    def released(self, session_ids: Collection[str], place: str) -> Mapping[str, frozenset[str]]:
        self.before("released")
        found = {}
        for one in session_ids:
            held = self.places.get(one)
            elsewhere = held is not None and held.place != place
            if self.exists(one) and (elsewhere or self.has_ended(one)):
                rows = self.rows.get(one, [])
                found[one] = frozenset(each for row in rows for each in row.snapshots)
        return found
