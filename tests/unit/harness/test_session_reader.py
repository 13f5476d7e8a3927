"""Whatever stands in a session's place: `exists`, `load`, `list_sessions`, `summaries` agree.

A session that can't be read is there for all of them and a typed error, and nothing hangs.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge_sessions.base.files import ReadError
from agentforge_sessions.base.files.log_frames import encode_log
from agentforge_sessions.base.settings.spending import Amount
from agentforge_sessions.harness import (
    SessionContext,
    SessionCorrupted,
    SessionStore,
    SessionSummary,
    UnreadableSession,
)
from agentforge_sessions.harness.steps.program_sessions import led
from tests.support.descriptors import held_below
from tests.support.mounts import immutable
from tests.support.recorded_programs import begin_program
from tests.support.sessions import session_id as an_id

S, OTHER = an_id(1), an_id(2)
LIMIT = 4_000


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        place = os.getcwd()
        os.chdir(path.parent)  # the name of a socket may have 107 bytes
        try:
            bound.bind(path.name)
        finally:
            os.chdir(place)


def _instead(make: Callable[[Path], object]) -> Callable[[Path], None]:
    """Put something in the place of the session's file."""

    def plant(directory: Path) -> None:
        (directory / "session.yaml").unlink()
        make(directory / "session.yaml")

    return plant


def _directory_instead(make: Callable[[Path], object]) -> Callable[[Path], None]:
    """Put something in the place of the session's directory."""

    def plant(directory: Path) -> None:
        directory.rename(directory.with_name("moved"))
        make(directory)

    return plant


def _content(content: bytes) -> Callable[[Path], None]:
    return lambda directory: (directory / "session.yaml").write_bytes(content) and None


UNREADABLE: dict[str, Callable[[Path], None]] = {
    "a FIFO": _instead(os.mkfifo),
    "a directory": _instead(Path.mkdir),
    "a socket": _instead(_socket),
    "a device": _instead(lambda path: path.symlink_to("/dev/zero")),
    "a link": _instead(lambda path: path.symlink_to(path.parent.with_name(OTHER) / path.name)),
    "a dangling link": _instead(lambda path: path.symlink_to("nowhere")),
    "a link to itself": _instead(lambda path: path.symlink_to(path.name)),
    "an oversize file": lambda directory: os.truncate(directory / "session.yaml", LIMIT + 1),
    "a huge sparse file": lambda directory: os.truncate(directory / "session.yaml", 2**40),
    "an empty file": _content(b""),
    "no YAML": _content(b"state: [\n"),
    "no text": _content(b"\xff\xfe\0"),
    "a list": _content(b"- 1\n...\n"),
    "another session": lambda directory: (
        (directory / "session.yaml").write_bytes(
            (directory.with_name(OTHER) / "session.yaml").read_bytes()
        )
        and None
    ),
    "a linked directory": _directory_instead(lambda path: path.symlink_to("moved")),
    "a dangling directory": _directory_instead(lambda path: path.symlink_to("nowhere")),
}
NO_SESSION: dict[str, Callable[[Path], None]] = {
    "no file": _instead(lambda path: None),
    "no directory": _directory_instead(lambda path: None),
    "a file for the directory": _directory_instead(Path.touch),
    "a FIFO for the directory": _directory_instead(os.mkfifo),
}


@pytest.fixture
def store(base: Path) -> SessionStore:
    made = SessionStore(base, max_file_bytes=LIMIT, lock_timeout_s=0.2)
    for session_id in (S, OTHER):
        made.save(SessionContext.create(session_id=session_id))
    return made


@pytest.mark.parametrize("what", UNREADABLE)
def test_what_cant_be_read_is_there_for_everybody(
    store: SessionStore, base: Path, what: str
) -> None:
    UNREADABLE[what](base / S)

    assert store.exists(S) is True
    assert store.list_sessions() == [S, OTHER]
    unreadable, readable = store.summaries()
    assert isinstance(unreadable, UnreadableSession)
    assert isinstance(readable, SessionSummary)
    assert unreadable.session_id == S
    with pytest.raises((SessionCorrupted, ReadError)) as caught:
        store.load(S)
    assert type(caught.value) is type(unreadable.error)
    assert str(caught.value) == str(unreadable.error)
    assert store.resolve(S) == S
    assert held_below(base) == []


@pytest.mark.parametrize("what", NO_SESSION)
def test_what_is_no_session_is_there_for_nobody(store: SessionStore, base: Path, what: str) -> None:
    NO_SESSION[what](base / S)

    assert store.exists(S) is False
    assert store.load(S) is None
    assert store.list_sessions() == [OTHER]
    assert [one.session_id for one in store.summaries()] == [OTHER]
    assert store.delete(S) is False


@pytest.mark.parametrize("what", ["a linked directory", "a link", "a directory"])
def test_what_is_in_a_sessions_place_is_never_written_through(
    store: SessionStore, base: Path, what: str
) -> None:
    session = store.load(S)
    assert session is not None
    UNREADABLE[what](base / S)
    other = (base / OTHER / "session.yaml").read_bytes()
    session.add_history("noted")

    with pytest.raises(Exception) as caught:
        store.save(session)

    assert type(caught.value).__module__.startswith("agentforge_sessions.")
    assert session.revision == 1
    assert (base / OTHER / "session.yaml").read_bytes() == other


def test_a_closed_directory_is_a_session_that_cant_be_read(store: SessionStore, base: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything; test_real_disks has the same as another user")
    (base / S).chmod(0)
    try:
        assert store.exists(S) is True
        assert store.list_sessions() == [S, OTHER]
        assert isinstance(next(iter(store.summaries())), UnreadableSession)
        with pytest.raises((SessionCorrupted, ReadError)):
            store.load(S)
    finally:
        (base / S).chmod(0o700)


def test_an_immutable_session_is_read_as_any_other(store: SessionStore, base: Path) -> None:
    with immutable(base / S / "session.yaml"):
        assert store.load(S) is not None
        assert store.list_sessions() == [S, OTHER]


@pytest.mark.parametrize("goal", ["short", "a long one\n" * 350], ids=["short", "long"])
def test_a_listing_has_what_a_program_recorded_since_its_file_was_written(
    base: Path, goal: str
) -> None:
    store = SessionStore(base)
    session_id = begin_program(store)
    session = store.load(session_id)
    assert session is not None
    session.goal = goal
    store.save(session)
    with led(store, session_id) as log:
        spent, now = Amount(50), log.clock()
        log.record("a#1", 0, codec="json", body=b"1", spent=spent, started=now, took_us=0)
    [listed] = store.summaries()
    assert isinstance(listed, SessionSummary)
    assert listed.head.tokens_used == 50


@pytest.mark.parametrize("written_by", ["us", "hand"])
def test_a_log_of_steps_that_cant_be_read_hides_no_other_session(
    store: SessionStore, base: Path, written_by: str
) -> None:
    session_id = begin_program(store)
    folder = base / session_id
    (folder / "streams").mkdir()
    (folder / "streams" / "steps.log").write_bytes(encode_log([(b"of another program", b"")]))
    if written_by == "hand":
        text = (folder / "session.yaml").read_text()
        (folder / "session.yaml").write_text(text.replace("revision: 1", "revision:   1"))
    found = {one.session_id: type(one) for one in store.summaries()}
    kind = UnreadableSession if written_by == "hand" else SessionSummary
    assert found == {session_id: kind, S: SessionSummary, OTHER: SessionSummary}
