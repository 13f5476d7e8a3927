"""No file, however broken or hostile, gives anything but a typed error, soon, and cheaply."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.base.files import ReadError
from agentforge_sessions.harness import (
    SessionCorrupted,
    SessionManager,
    SessionStore,
    SessionSummary,
    SessionUnreadable,
    UnreadableSession,
)
from agentforge_sessions.harness.errors import UnsupportedSchema
from agentforge_sessions.harness.format.session_codec import decode_session
from tests.corpus.build import CASES, HEAD, SESSION_ID, VALID, Case
from tests.support.promptness import soonest
from tests.support.soak import SOAKING

ROOT = Path(__file__).parents[2]
SMALL = [case for case in CASES if not case.large]
USUAL = {
    "a sparse file of a terabyte",
    "1,000,000 fields",
    "a goal of 31 MB, quoted escapes",
    "a number of 31 MB",
    "31 MB of empty maps as history",
    "31 MB of brackets on lines of their own",
}
"""One for each way in which a file can cost much; the soak has all of them."""
LARGE = [case for case in CASES if case.large and (SOAKING or case.name in USUAL)]
SLOWER = {"a goal of 31 MB, sexagesimal": 3.0}
"""What takes nearly a second of work because all of it is sound YAML; a busy machine adds to it."""
REFERENCES = 4
"""A second is four times the reference of `measure_load` where nothing is slow. A processor that
others slow down takes longer for both, and may take as many times as long."""
ERRORS = {"corrupted": SessionCorrupted, "schema": UnsupportedSchema, "read": SessionUnreadable}


def named(case: Case) -> str:
    return case.name.encode("ascii", "replace").decode().replace(" ", "_")


def fingerprint(path: Path) -> tuple[object, ...]:
    status = path.lstat()
    small_file = stat.S_ISREG(status.st_mode) and status.st_size < 100_000
    content = path.read_bytes() if small_file else b""
    return status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, content


def put(case: Case, base: Path) -> tuple[Path, list[str]]:
    """Make a base with two sound sessions around the broken one."""
    store = SessionStore(base)
    neighbours = [SessionManager(store).create("tdflow", "red").session_id for _ in range(2)]
    path = base / SESSION_ID / "session.yaml"
    path.parent.mkdir()
    case.make(path)
    return path, sorted(neighbours)


def test_the_corpus_has_names_that_differ_and_is_large_enough() -> None:
    names = [case.name for case in CASES]
    assert set(names) >= USUAL | set(SLOWER)
    assert len(set(names)) == len(names)
    assert len(SMALL) >= 80


def test_the_file_that_the_corpus_is_made_from_is_sound() -> None:
    session = decode_session(VALID.encode(), path=Path("x"))
    assert session.session_id == SESSION_ID
    assert VALID.startswith(HEAD)
    for case in SMALL:
        assert case.says, case.name


@pytest.mark.parametrize("case", SMALL, ids=named)
def test_a_broken_file_gives_a_typed_error_and_harms_nobody(case: Case, tmp_path: Path) -> None:
    base = tmp_path / "sessions"
    path, neighbours = put(case, base)
    before = fingerprint(path)
    store = SessionStore(base)
    manager = SessionManager(store)
    current = manager.load(neighbours[0])
    began = time.process_time()

    with pytest.raises((SessionCorrupted, ReadError)) as caught:
        manager.load(SESSION_ID)

    error = caught.value
    assert time.process_time() - began < 1.0
    assert type(error) is ERRORS[case.kind]
    assert error.path == (path.parent if path.parent.is_symlink() else path)
    assert str(error.path) in str(error)
    caught.match(f"(?s){case.says}")
    if isinstance(error, SessionCorrupted):
        assert error.faults
        assert all(fault and len(fault) < 500 for fault in error.faults)
    assert manager.current_session is current

    found = list(store.summaries())
    of_it = [one for one in found if one.session_id == SESSION_ID]
    if case.listed == "unreadable":
        [unreadable] = of_it
        assert isinstance(unreadable, UnreadableSession)
        assert type(unreadable.error) is type(error)
        assert unreadable.path == path
    elif case.listed == "summary":
        [summary] = of_it
        assert isinstance(summary, SessionSummary | UnreadableSession)
        if isinstance(summary, SessionSummary):
            assert summary.head.revision == 3
    else:
        assert of_it == []
    sound = [one for one in found if one.session_id != SESSION_ID]
    assert [one.session_id for one in sound] == neighbours
    assert all(isinstance(one, SessionSummary) for one in sound)
    listed = store.list_sessions()
    assert [known for known in listed if known != SESSION_ID] == neighbours
    assert (SESSION_ID in listed) is store.exists(SESSION_ID) is (case.listed != "absent")
    assert fingerprint(path) == before


def measured(base: Path) -> dict[str, Any]:
    """Load the broken session in a process of its own; return what that tells."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.measure_load", str(base), SESSION_ID],
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


@pytest.mark.parametrize("case", LARGE, ids=named)
def test_a_huge_file_is_refused_within_a_second_and_200_mib(case: Case, tmp_path: Path) -> None:
    base = tmp_path / "sessions"
    path, neighbours = put(case, base)
    before = fingerprint(path)
    told: dict[str, Any] = {}

    def part_of_the_limit() -> float:
        told.update(measured(base))
        assert told["kind"] == case.kind, told
        assert told["path"] == str(path)
        assert told["said_chars"] < 20_000
        assert told["mib"] < 200, told
        assert told["listed"].count("SessionSummary") == 2 + (case.listed == "summary")
        second = max(1.0, REFERENCES * told["reference_seconds"])
        return max(
            told["seconds"] / (SLOWER.get(case.name, 1.0) * second),
            told["listing_seconds"] / second,
        )

    try:
        assert soonest(part_of_the_limit, 1) < 1, told
        assert fingerprint(path) == before
        assert len(neighbours) == 2
    finally:
        path.unlink()


@pytest.mark.parametrize("name", ["a FIFO", "a directory", "a symbolic link"])
def test_what_has_no_regular_file_is_not_deleted(name: str, tmp_path: Path) -> None:
    [case] = [case for case in CASES if case.name == name]
    base = tmp_path / "sessions"
    path, _ = put(case, base)
    before = fingerprint(path)

    with pytest.raises(SessionUnreadable):
        SessionStore(base).delete(SESSION_ID)

    assert fingerprint(path) == before


@pytest.mark.parametrize("name", ["empty", "billion laughs"])
def test_a_broken_session_can_be_deleted(name: str, tmp_path: Path) -> None:
    [case] = [case for case in CASES if case.name == name]
    base = tmp_path / "sessions"
    put(case, base)

    assert SessionStore(base).delete(SESSION_ID) is True

    assert not (base / SESSION_ID).exists()


def test_a_broken_file_is_never_overwritten_by_a_save(tmp_path: Path) -> None:
    base = tmp_path / "sessions"
    store = SessionStore(base)
    manager = SessionManager(store)
    session = manager.create()
    path = store.session_path(session.session_id)
    path.write_text("what somebody wrote instead\n...\n")

    with pytest.raises(SessionCorrupted):
        manager.add_history("noted")

    assert path.read_text() == "what somebody wrote instead\n...\n"
    assert session.revision == 1
    assert len(session.history) == 1
