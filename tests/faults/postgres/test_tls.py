"""A store behind TLS: the server's certificate is looked at, and a wrong one is refused."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentforge_sessions.fleet.postgres.address import for_command_line
from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.errors import StoreForbidden, StoreUnavailable
from agentforge_sessions.fleet.postgres.schema import migrate
from agentforge_sessions.harness import SessionState
from tests.support.fleet import QUICK, Fleet, fleet_of, workflow
from tests.support.own_postgres import OwnPostgres, own_postgres, system_programs

_PROGRAMS = system_programs()
pytestmark = pytest.mark.skipif(
    _PROGRAMS is None or shutil.which("openssl") is None,
    reason="no PostgreSQL of the system, which knows TLS, or no openssl",
)


def openssl(*words: str, place: Path) -> None:
    subprocess.run(["openssl", *words], check=True, cwd=place, capture_output=True, timeout=120)


def authority(place: Path, name: str) -> Path:
    """Make a certificate authority of a test's own; return its certificate."""
    openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
        *("-keyout", f"{name}.key", "-out", f"{name}.crt", "-days", "2", "-subj", f"/CN={name}"),
        place=place,
    )
    return place / f"{name}.crt"


def certificate(place: Path, host: str) -> None:
    """Have the authority `ours` sign a certificate for a host: `server.crt` and `server.key`."""
    openssl(
        *("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
        *("-keyout", "server.key", "-out", "server.csr", "-subj", f"/CN={host}"),
        place=place,
    )
    (place / "names").write_text(f"subjectAltName=DNS:{host}\n")
    openssl(
        *("x509", "-req", "-in", "server.csr", "-CA", "ours.crt", "-CAkey", "ours.key"),
        *("-CAcreateserial", "-days", "2", "-out", "server.crt", "-extfile", "names"),
        place=place,
    )
    (place / "server.key").chmod(0o600)
    if os.geteuid() == 0:
        for name in ("server.key", "server.crt"):
            os.chown(place / name, 65534, 65534)


class Secured:
    """A server with a certificate for `localhost`, and the authorities that there are."""

    def __init__(self, own: OwnPostgres, place: Path, port: int) -> None:
        self.own, self.place, self.port = own, place, port

    def url(self, *, host: str = "localhost", authority: str = "ours", mode: str) -> str:
        root = self.place / f"{authority}.crt"
        return (
            f"postgresql://postgres@{host}:{self.port}/postgres?sslmode={mode}&sslrootcert={root}"
        )


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    with tempfile.TemporaryDirectory() as name, socket.socket() as found:
        place = Path(name)
        place.chmod(0o755)
        for one in ("ours", "theirs"):
            authority(place, one).chmod(0o644)
        certificate(place, "localhost")
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
        found.close()
        options = (
            "ssl=on",
            f"ssl_cert_file={place / 'server.crt'}",
            f"ssl_key_file={place / 'server.key'}",
        )
        with own_postgres(place / "own", options, programs=_PROGRAMS, port=port) as own:
            with Database(own.url) as database:
                migrate(database)
            rules = own.data / "pg_hba.conf"
            rules.write_text("local all all trust\nhostssl all all 127.0.0.1/32 trust\n")
            own.run("select pg_reload_conf()")
            yield Secured(own, place, port)


def test_a_store_is_led_over_a_connection_whose_certificate_is_right(secured: Secured) -> None:
    with Database(secured.url(mode="verify-full")) as database:
        row = database.one("select ssl, version from pg_stat_ssl where pid = pg_backend_pid()")
        assert row is not None
        assert row[0] is True
        with database.connect() as connection:  # of a run's lock
            assert connection.pgconn.ssl_in_use


def test_a_server_whose_certificate_another_authority_signed_is_refused(secured: Secured) -> None:
    with (
        Database(secured.url(mode="verify-full", authority="theirs")) as database,
        pytest.raises(StoreUnavailable, match="certificate verify failed"),
    ):
        database.one("select 1")


def test_a_server_of_another_name_is_refused(secured: Secured) -> None:
    with (
        Database(secured.url(mode="verify-full", host="127.0.0.1")) as database,
        pytest.raises(StoreUnavailable, match="does not match host name"),
    ):
        database.one("select 1")


def test_without_tls_the_server_takes_nobody(secured: Secured) -> None:
    with (
        Database(secured.url(mode="disable")) as database,
        pytest.raises(StoreForbidden, match="no encryption"),
    ):
        database.one("select 1")


def test_a_suggested_command_keeps_how_the_server_is_known(secured: Secured) -> None:
    url = secured.url(mode="verify-full")
    shown = for_command_line(url.replace("postgres@", "postgres:secret@"))
    assert "sslmode=verify-full" in shown
    assert "sslrootcert=" in shown
    assert "secret" not in shown


def test_a_worker_and_its_processes_work_by_tls_alone(secured: Secured, tmp_path: Path) -> None:
    with (
        Database(secured.url(mode="verify-full")) as database,
        fleet_of(database, tmp_path) as fleet,
    ):
        fleet.worker()
        session_id = fleet.submit(workflow(QUICK))
        fleet.wait_for(session_id, SessionState.COMPLETED)
        rows = secured.own.run(
            "select count(*) from pg_stat_activity join pg_stat_ssl using (pid) "
            "where application_name like 'agentforge%' and not ssl and client_addr is not null"
        )
        assert rows == [(0,)]


def test_a_worker_whose_server_is_another_takes_nothing(secured: Secured, tmp_path: Path) -> None:
    with Database(secured.url(mode="verify-full", authority="theirs")) as database:
        fleet = Fleet(database, tmp_path)
        try:
            worker = fleet.worker()
            said = worker.wait_for("fleet.worker.restarting")
            assert "certificate verify failed" in said["reason"]
        finally:
            fleet.close()
