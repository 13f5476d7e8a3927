"""The packs and places of sessions in PostgreSQL, and the packs of work trees themselves."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import IO, Final

from ..objects import (
    ObjectMissing,
    ObjectStoreFull,
    ObjectStoreRefused,
    ObjectStoreUnavailable,
    StoredObject,
)
from ..objects.objects import MOST_BESIDE_BYTES, checked_key
from ..objects.pack_index import Pack, PackKind, PackPlace
from .database import Connection, OnDatabase, advisory_key
from .errors import StoreFull, StoreRefused, StoreUnavailable

_PIECE: Final = 1 << 20

_ADD: Final = (
    "insert into agentforge.session_packs (session_id, kind, key, sha256, size_bytes, snapshots, "
    "base) values (%s, %s, %s, %s, %s, %s, %s) on conflict (key) do nothing"
)
_PUT: Final = (
    "insert into agentforge.pack_objects (key, content) values (%s, %s) on conflict do nothing "
    "returning key"
)
_GET: Final = "select substring(content from %s for %s) from agentforge.pack_objects where key = %s"
_LIST: Final = "select key, octet_length(content), stored_at from agentforge.pack_objects"
_RELEASED: Final = """
    select id, coalesce((select array_agg(one) from agentforge.session_packs packs,
        unnest(packs.snapshots) one where packs.session_id = id), '{}')
    from agentforge.sessions left join agentforge.session_places places on places.session_id = id
    where id = any(%(ids)s)
        and (state in ('completed', 'aborted') or places.place <> %(place)s)
"""


class PostgresObjects(OnDatabase):
    """Objects as rows, each of at most 64 MiB. An `ObjectStore`.

    Args:
        database: The database of the sessions.
    """

    @property
    def name(self) -> str:
        """The database's address."""
        return self._database.name

    def put(self, key: str, content: IO[bytes]) -> bool:
        """Store an object unless it exists; see `ObjectStore`."""
        size = content.seek(0, os.SEEK_END)
        if size > MOST_BESIDE_BYTES:
            reason = f"an object of {size:,} bytes is more than {MOST_BESIDE_BYTES:,} bytes"
            raise ObjectStoreRefused(store=self.name, reason=reason)
        content.seek(0)
        with self._statements() as connection:
            row = connection.execute(_PUT, (checked_key(key), content.read())).fetchone()
        return row is not None

    def get(self, key: str, target: IO[bytes]) -> None:
        """Write an object to a file; see `ObjectStore`."""
        found = self.find(key)
        if found is None:
            raise ObjectMissing(store=self.name, key=key)
        for start in range(0, found.size, _PIECE):
            with self._statements() as connection:
                row = connection.execute(_GET, (start + 1, _PIECE, key), binary=True).fetchone()
            if row is None:
                raise ObjectMissing(store=self.name, key=key)
            target.write(row[0])

    def find(self, key: str) -> StoredObject | None:
        """Return an object's description; see `ObjectStore`."""
        with self._statements() as connection:
            row = connection.execute(_LIST + " where key = %s", (checked_key(key),)).fetchone()
        return None if row is None else StoredObject(*row)

    def list(self) -> Iterator[StoredObject]:
        """Yield all objects; see `ObjectStore`."""
        with self._statements() as connection:
            rows = connection.execute(_LIST).fetchall()
        yield from (StoredObject(*row) for row in rows)

    def delete(self, key: str) -> None:
        """Remove an object; see `ObjectStore`."""
        with self._statements() as connection:
            connection.execute(
                "delete from agentforge.pack_objects where key = %s", (checked_key(key),)
            )

    @contextmanager
    def _statements(self) -> Iterator[Connection]:
        """Run statements, each of at most a minute; the store's errors become an object store's."""
        try:
            with self._database.transaction() as connection:
                connection.execute("set local statement_timeout = '60s'")
                yield connection
        except StoreUnavailable as error:
            raise ObjectStoreUnavailable(store=self.name, reason=error.reason) from error
        except StoreRefused as error:
            kind = ObjectStoreFull if isinstance(error, StoreFull) else ObjectStoreRefused
            raise kind(store=self.name, reason=error.reason) from error


class PostgresPacks(OnDatabase):
    """A `PackIndex`.

    Args:
        database: The database of the sessions.
    """

    @cached_property
    def space(self) -> str:
        """The prefix of its packs' keys; see `PackIndex`."""
        with self._database.transaction() as connection:
            connection.execute(
                "insert into agentforge.pack_space default values on conflict do nothing"
            )
            row = connection.execute("select name from agentforge.pack_space").fetchone()
        assert row is not None  # noqa: S101 (it was inserted if it was missing)
        return str(row[0])

    @cached_property
    def objects(self) -> PostgresObjects:
        """The store of work trees' packs in the same database."""
        return PostgresObjects(self._database)

    def packs(self, session_id: str, kind: PackKind) -> list[Pack]:
        """Return a session's packs; see `PackIndex`."""
        rows = self._database.all(
            "select key, sha256, size_bytes, snapshots, base, number from "
            "agentforge.session_packs where session_id = %s and kind = %s order by number",
            (session_id, kind),
        )
        return [
            Pack(key, sha256, size, kind, tuple(snapshots), base, number)
            for key, sha256, size, snapshots, base, number in rows
        ]

    def add(self, session_id: str, pack: Pack) -> None:
        """Add a pack; see `PackIndex`."""
        with self._database.connection() as connection:
            _add(connection, session_id, pack)

    def replace(self, session_id: str, former: Collection[int], pack: Pack, *, place: str) -> bool:
        """Replace packs by one; see `PackIndex`."""
        with self._database.transaction() as connection:
            held = connection.execute(
                "select place from agentforge.session_places where session_id = %s for update",
                (session_id,),
            ).fetchone()
            if held is None or held[0] != place:
                return False
            connection.execute(
                "delete from agentforge.session_packs where session_id = %s and number = any(%s)",
                (session_id, list(former)),
            )
            _add(connection, session_id, pack)
        return True

    def place(self, session_id: str) -> PackPlace | None:
        """Return the session's last place; see `PackIndex`."""
        row = self._database.one(
            "select place, host, turn from agentforge.session_places where session_id = %s",
            (session_id,),
        )
        return None if row is None else PackPlace(*row)

    def take_up(self, session_id: str, place: str, host: str, *, former: PackPlace | None) -> bool:
        """Make `place` the session's place; see `PackIndex`."""
        if former is None:
            row = self._database.one(
                "insert into agentforge.session_places (session_id, place, host) "
                "values (%s, %s, %s) on conflict (session_id) do nothing returning turn",
                (session_id, place, host),
            )
        else:
            row = self._database.one(
                "update agentforge.session_places set place = %s, host = %s, turn = turn + 1, "
                "taken_up_at = now() where session_id = %s and place = %s and turn = %s "
                "returning turn",
                (place, host, session_id, former.place, former.turn),
            )
        return row is not None

    @contextmanager
    def exclusive(self, session_id: str) -> Iterator[None]:
        """Lock a session's packs; see `PackIndex`."""
        key = advisory_key(f"packs {session_id}")
        with self._database.transaction() as connection:
            connection.execute("select pg_advisory_xact_lock(%s)", (key,))
            yield

    def named(self, keys: Collection[str]) -> set[str]:
        """Return the keys that belong to some pack; see `PackIndex`."""
        rows = self._database.all(
            "select key from agentforge.session_packs where key = any(%s)", (list(keys),)
        )
        return {row[0] for row in rows}

    def released(self, session_ids: Collection[str], place: str) -> Mapping[str, frozenset[str]]:
        """Return the sessions whose files a place need not retain; see `PackIndex`."""
        rows = self._database.all(_RELEASED, {"ids": list(session_ids), "place": place})
        return {session_id: frozenset(snapshots) for session_id, snapshots in rows}


def _add(connection: Connection, session_id: str, pack: Pack) -> None:
    found = (pack.kind, pack.key, pack.sha256, pack.size, list(pack.snapshots), pack.base)
    connection.execute(_ADD, (session_id, *found))
