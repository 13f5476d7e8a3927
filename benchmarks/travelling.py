"""What it costs that a workspace can go to another machine: its packs stored and fetched.

python -m benchmarks.travelling [--quick] [--json] [--files N] [--dir FOLDER]

The sessions are in a PostgreSQL of its own; the objects in a folder, and in a service as S3 on this
machine, whose answer costs more than a real network's.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import structlog

from agentforge_sessions.fleet.objects import open_objects
from agentforge_sessions.fleet.objects.workspace_packs import WorkspacePacks
from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.schema import migrate
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import SessionManager
from agentforge_sessions.harness.snapshot_port import SnapshotTaken
from agentforge_sessions.wiring.workspaces.session_snapshots import SessionSnapshots
from benchmarks.measure import Candidate, Row, compare, row, table
from benchmarks.snapshots import fill

_numbers = itertools.count()


class Place:
    """A machine's directory, and what keeps workspaces there.

    Args:
        base: The directory.
        database: Where the sessions are.
        objects: The object store's address; None: workspaces don't travel.
    """

    def __init__(self, base: Path, database: Database, objects: str | None) -> None:
        self.store = PostgresStore(database, base)
        index = self.store.pack_index()
        packs = WorkspacePacks(index, open_objects(objects) if objects else None, base)
        self.snapshots = SessionSnapshots(self.store, packs=packs)

    def begin(self, files: int) -> str:
        """Begin a session whose workspace has so many files, with a checkpoint."""
        manager = SessionManager(self.store, snapshots=self.snapshots)
        session_id = manager.create("work", "one").session_id
        fill(self.store.workspace_path(session_id), files)
        manager.checkpoint_session()
        return session_id

    def change(self, session_id: str) -> None:
        """Change one file."""
        file = self.store.workspace_path(session_id) / "000" / "000000.txt"
        file.write_text(f"{next(_numbers)}\n")

    def take(self, session_id: str) -> SnapshotTaken:
        """Keep the workspace as it is."""
        return self.snapshots.take(session_id, "one")


class Ground:
    """What all candidates work on.

    Args:
        folder: A folder of its own.
        database: Where the sessions are.
        stores: The addresses of the object stores, by what they are called.
        files: How many files a workspace has.
        rounds: How often each is timed.
    """

    def __init__(
        self, folder: Path, database: Database, stores: dict[str, str], files: int, rounds: int
    ) -> None:
        self.folder = folder
        self.database = database
        self.stores = stores
        self.files = files
        self.rounds = rounds

    def checkpoint(self) -> list[Row]:
        """A checkpoint of a workspace in which one file changed."""
        candidates = {}
        for name, objects in {"stays here": None, **self.stores}.items():
            place = Place(self.folder / f"checkpoint {name}", self.database, objects)
            session_id = place.begin(self.files)
            candidates[name] = Candidate(
                lambda place=place, one=session_id: place.take(one),
                lambda place=place, one=session_id: place.change(one),
            )
        return self._rows("checkpoint, 1 changed", candidates)

    def _rows(self, group: str, candidates: dict[str, Candidate]) -> list[Row]:
        timed = compare(candidates, rounds=self.rounds, budget_s=30)
        first, *others = timed
        rows = [row(group, self.files, first, timed[first])]
        return rows + [
            row(group, self.files, one, timed[one], reference=(first, timed[first]))
            for one in others
        ]

    def move(self) -> list[Row]:
        """A session that another machine takes up, which has all but the last checkpoint."""
        candidates = {}
        for name, objects in self.stores.items():
            places = [Place(self.folder / f"{one} {name}", self.database, objects) for one in "ab"]
            turns = itertools.cycle(places)
            session_id = next(turns).begin(self.files)
            last: list[SnapshotTaken] = []
            for place in places:
                place.snapshots.take_up(session_id, places[0].take(session_id))

            def work(one: str = session_id, last: list = last, here: list = places) -> None:
                here[1].change(one)
                last[:] = [here[1].take(one)]

            def take_up(one: str = session_id, last: list = last, here: list = places) -> None:
                here.reverse()
                here[1].snapshots.take_up(one, last[0])

            candidates[name] = Candidate(take_up, work)
        return self._rows("taken up, 1 changed", candidates)

    def first(self) -> list[Row]:
        """A session that a machine takes up which has nothing of it."""
        candidates = {}
        for name, objects in self.stores.items():
            here = Place(self.folder / f"first {name}", self.database, objects)
            session_id = here.begin(self.files)
            last = here.take(session_id)

            def take_up(
                name: str = name, objects: str = objects, one: str = session_id, last=last
            ) -> None:
                base = self.folder / f"there {next(_numbers)} {name}"
                Place(base, self.database, objects).snapshots.take_up(one, last)

            candidates[name] = Candidate(take_up)
        return self._rows("taken up, all files", candidates)


@contextmanager
def shared(folder: Path) -> Iterator[tuple[Database, dict[str, str]]]:
    """Run what machines share: a database, a folder, a service."""
    from tests.support.object_stores import BUCKET, credentials, s3_service
    from tests.support.postgres import postgres_server

    with ExitStack() as held:
        server = held.enter_context(postgres_server(uuid.uuid4().hex))
        database = held.enter_context(Database(server.url_of(server.new_database())))
        migrate(database)
        endpoint = held.enter_context(s3_service())
        held.enter_context(credentials())
        (folder / "objects").mkdir()
        yield (
            database,
            {
                "folder": (folder / "objects").as_uri(),
                "S3": f"s3://{BUCKET}/p?endpoint={endpoint}&region=us-east-1",
            },
        )


def main() -> int:
    """Measure, and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="10 rounds instead of 50")
    parser.add_argument("--json", action="store_true", help="write JSON")
    parser.add_argument("--files", type=int, default=10_000, help="how many files; 10,000")
    parser.add_argument("--dir", default=".benchmarks", help="where; .benchmarks by default")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    logging.disable(logging.INFO)
    Path(given.dir).mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=given.dir, prefix="travelling-") as scratch,
        shared(folder := Path(scratch).resolve()) as (database, stores),
    ):
        ground = Ground(folder, database, stores, given.files, 10 if given.quick else 50)
        rows = [*ground.checkpoint(), *ground.move(), *ground.first()]
    if given.json:
        print(json.dumps([one.as_fields() for one in rows], indent=1))
    else:
        print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
