"""One suite for every implementation of the port to a session's streams."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest

from agentforge_sessions.base.files import ReadError
from agentforge_sessions.harness import (
    InvalidSessionId,
    InvalidStateTransition,
    LocalSessions,
    SessionContext,
    SessionManager,
    SessionNotFound,
    SessionStore,
)
from agentforge_sessions.harness.errors import StreamMoved
from agentforge_sessions.harness.store.session_copy import CopyOutcome, copy_sessions
from agentforge_sessions.harness.stream_port import (
    MAX_ENTRY_BYTES,
    NewEntry,
    StreamEntry,
    StreamMark,
)
from agentforge_sessions.testing import MemorySessions
from tests.support.clock import START
from tests.support.sessions import session_id as an_id
from tests.unit.harness.test_ids import HOSTILE

S, OTHER = an_id(1), an_id(2)
ONE, TWO, THREE = (NewEntry(b"1", b"one"), NewEntry(b"2", b""), NewEntry(b"", b"three" * 1000))
Open = Callable[[], LocalSessions]


@pytest.fixture
def sessions(opened: Open) -> LocalSessions:
    """The store, with a session in it."""
    sessions = opened()
    sessions.save(SessionContext.create("talk", session_id=S, now=START))
    return sessions


def contents(sessions: LocalSessions, session_id: str = S, stream: str = "log") -> list[NewEntry]:
    part = sessions.read_entries(session_id, stream)
    bodies = sessions.read_bodies(session_id, stream, part.entries, mark=part.mark)
    assert part.anew
    assert [entry.size for entry in part.entries] == [len(body) for body in bodies]
    positions = [entry.position for entry in part.entries]
    assert positions == sorted(positions)
    return [NewEntry(one.head, body) for one, body in zip(part.entries, bodies, strict=True)]


def test_entries_are_read_in_the_order_of_their_appends(
    sessions: LocalSessions, opened: Open
) -> None:
    sessions.append_entries(S, "log", [ONE, TWO])
    opened().append_entries(S, "log", [THREE])
    sessions.append_entries(S, "log", [ONE])
    assert contents(sessions) == contents(opened()) == [ONE, TWO, THREE, ONE]


def test_a_stream_that_was_never_written_is_empty(sessions: LocalSessions) -> None:
    assert contents(sessions) == []
    assert contents(sessions, OTHER) == []
    assert sessions.read_bodies(S, "log", [], mark=StreamMark()) == []


def test_streams_of_other_names_and_of_other_sessions_are_apart(sessions: LocalSessions) -> None:
    sessions.save(SessionContext.create("talk", session_id=OTHER, now=START))
    sessions.append_entries(S, "log", [ONE])
    sessions.append_entries(S, "other", [TWO])
    sessions.append_entries(OTHER, "log", [THREE])
    assert contents(sessions) == [ONE]
    assert contents(sessions, stream="other") == [TWO]
    assert contents(sessions, OTHER) == [THREE]


def test_an_append_of_nothing_changes_nothing(sessions: LocalSessions) -> None:
    sessions.append_entries(S, "log", [])
    assert sessions.read_attachments(S) == {}


def test_what_was_read_before_is_not_read_again(sessions: LocalSessions, opened: Open) -> None:
    sessions.append_entries(S, "log", [ONE, TWO])
    first = sessions.read_entries(S, "log")
    assert sessions.read_entries(S, "log", since=first.mark) == ([], first.mark, False)
    opened().append_entries(S, "log", [THREE])
    second = sessions.read_entries(S, "log", since=first.mark)
    assert [entry.head for entry in second.entries] == [THREE.head]
    assert not second.anew
    both = [*first.entries, *second.entries]
    read = sessions.read_bodies(S, "log", both, mark=second.mark)
    assert read == [b"one", b"", THREE.body]
    assert sessions.read_bodies(S, "log", both[:2][::-1], mark=first.mark) == [b"", b"one"]


def test_the_last_entries_are_the_end_of_all(sessions: LocalSessions, opened: Open) -> None:
    assert sessions.read_last(S, "log", 1) == ([], StreamMark(), True)
    assert sessions.read_last(OTHER, "log", 1) == ([], StreamMark(), True)
    for entries in ([ONE, TWO], [THREE], [TWO, TWO, THREE], [ONE]):
        sessions.append_entries(S, "log", entries)
    for store in (sessions, opened()):
        every = store.read_entries(S, "log")
        for count in range(1, 10):
            tail = store.read_last(S, "log", count)
            assert tail.entries == every.entries[-len(tail.entries) :]
            assert len(tail.entries) >= min(count, len(every.entries))
            assert tail.whole == (len(tail.entries) == len(every.entries))
            assert tail.mark == every.mark
        assert not store.read_last(S, "log", 2).whole
    with pytest.raises(ValueError, match="1 or more"):
        sessions.read_last(S, "log", 0)


def test_who_read_the_last_entries_goes_on_from_there(
    sessions: LocalSessions, opened: Open
) -> None:
    sessions.append_entries(S, "log", [ONE, TWO])
    sessions.append_entries(S, "log", [THREE])
    other = opened()
    tail = other.read_last(S, "log", 1)
    assert other.read_bodies(S, "log", tail.entries, mark=tail.mark)[-1] == THREE.body
    sessions.append_entries(S, "log", [ONE])
    with pytest.raises(StreamMoved):
        other.append_entries(S, "log", [TWO], expected=tail.mark)
    after = other.read_entries(S, "log", since=tail.mark)
    assert not after.anew
    assert [entry.head for entry in after.entries] == [ONE.head]
    other.append_entries(S, "log", [TWO], expected=after.mark)
    sessions.replace_entries(S, "log", [])
    assert other.read_last(S, "log", 1).entries == []
    assert other.read_last(S, "log", 1).whole


def test_a_body_is_read_by_its_place_as_it_was_noted(sessions: LocalSessions, opened: Open) -> None:
    sessions.append_entries(S, "log", [ONE, TWO, THREE])
    sessions.append_entries(S, "log", [ONE])
    entry = sessions.read_entries(S, "log").entries[2]
    noted = StreamEntry(entry.position, entry.size, crc32(THREE.body), b"")
    other = opened()
    mark = other.read_last(S, "log", 1).mark
    assert other.read_bodies(S, "log", [noted], mark=mark) == [THREE.body]
    with pytest.raises((ReadError, StreamMoved)):
        other.read_bodies(S, "log", [noted._replace(position=10**9)], mark=mark)


def test_a_stream_that_was_replaced_is_read_anew(sessions: LocalSessions, opened: Open) -> None:
    sessions.append_entries(S, "log", [ONE, TWO, THREE])
    before = sessions.read_entries(S, "log")
    opened().replace_entries(S, "log", [THREE], expected=before.mark)
    after = sessions.read_entries(S, "log", since=before.mark)
    assert after.anew
    assert [entry.head for entry in after.entries] == [THREE.head]
    with pytest.raises(StreamMoved):
        sessions.read_bodies(S, "log", before.entries, mark=before.mark)
    sessions.append_entries(S, "log", [TWO])
    assert contents(sessions) == [THREE, TWO]


def test_a_stream_that_was_replaced_by_one_of_the_same_size_is_read_anew(
    sessions: LocalSessions, opened: Open
) -> None:
    sessions.append_entries(S, "log", [NewEntry(b"a", b"first")])
    before = sessions.read_entries(S, "log")
    opened().replace_entries(S, "log", [NewEntry(b"b", b"other")])
    after = sessions.read_entries(S, "log", since=before.mark)
    assert after.anew
    assert [entry.head for entry in after.entries] == [b"b"]


def test_a_stream_of_a_session_made_anew_is_read_anew(
    sessions: LocalSessions, opened: Open
) -> None:
    sessions.append_entries(S, "log", [NewEntry(b"a", b"first")])
    before = sessions.read_entries(S, "log")
    other = opened()
    other.delete(S)
    assert sessions.read_entries(S, "log", since=before.mark) == ([], StreamMark(), True)
    other.save(SessionContext.create("talk", session_id=S, now=START))
    assert contents(sessions) == []
    other.append_entries(S, "log", [NewEntry(b"b", b"other")])
    after = sessions.read_entries(S, "log", since=before.mark)
    assert after.anew
    assert [entry.head for entry in after.entries] == [b"b"]


def test_a_stream_can_be_emptied(sessions: LocalSessions) -> None:
    sessions.replace_entries(S, "log", [])
    assert contents(sessions) == []
    sessions.append_entries(S, "log", [ONE])
    sessions.replace_entries(S, "log", [])
    assert contents(sessions) == []
    sessions.append_entries(S, "log", [TWO])
    assert contents(sessions) == [TWO]


@pytest.mark.parametrize("write", ["append_entries", "replace_entries"])
def test_what_the_caller_has_not_read_keeps_it_from_writing(
    sessions: LocalSessions, opened: Open, write: str
) -> None:
    nothing = sessions.read_entries(S, "log").mark
    opened().append_entries(S, "log", [ONE])
    with pytest.raises(StreamMoved) as refused:
        getattr(sessions, write)(S, "log", [TWO], expected=nothing)
    assert refused.value.retryable
    assert contents(sessions) == [ONE]
    mark = sessions.read_entries(S, "log").mark
    getattr(sessions, write)(S, "log", [TWO], expected=mark)
    with pytest.raises(StreamMoved):
        getattr(sessions, write)(S, "log", [THREE], expected=mark)
    assert contents(sessions)[-1] == TWO
    opened().delete(S)
    opened().save(SessionContext.create("talk", session_id=S, now=START))
    with pytest.raises(StreamMoved):
        getattr(sessions, write)(S, "log", [THREE], expected=mark)
    assert contents(sessions) == []


def test_the_first_append_may_expect_that_nothing_is_there(sessions: LocalSessions) -> None:
    nothing = sessions.read_entries(S, "log").mark
    sessions.append_entries(S, "log", [ONE], expected=nothing)
    assert contents(sessions) == [ONE]


def test_appends_of_several_workers_are_all_kept_in_one_order(
    sessions: LocalSessions, opened: Open
) -> None:
    workers, each = 4, 12

    def work(worker: int) -> None:
        own = opened()
        for number in range(each):
            own.append_entries(
                S, "log", [NewEntry(b"%d/%d" % (worker, number), b"a"), NewEntry(b"", b"b")]
            )

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(workers)]
    for thread in threads:
        thread.start()
    seen = sessions.read_entries(S, "log")
    heads = [entry.head for entry in seen.entries]
    while any(thread.is_alive() for thread in threads):
        seen = sessions.read_entries(S, "log", since=seen.mark)
        heads = [*([] if seen.anew else heads), *(entry.head for entry in seen.entries)]
        assert len(heads) % 2 == 0, "half an append was read"
    for thread in threads:
        thread.join()
    seen = sessions.read_entries(S, "log", since=seen.mark)
    heads = [*([] if seen.anew else heads), *(entry.head for entry in seen.entries)]
    assert heads == [entry.head for entry in contents(opened())]
    for worker in range(workers):
        own = [head for head in heads if head.startswith(b"%d/" % worker)]
        assert own == [b"%d/%d" % (worker, number) for number in range(each)]


def test_of_two_that_begin_a_stream_at_once_the_later_one_replaces_all(
    sessions: LocalSessions, opened: Open
) -> None:
    others = [opened(), opened()]
    barrier = threading.Barrier(2)

    def begin(place: int, stream: str) -> None:
        barrier.wait()
        others[place].replace_entries(S, stream, [(ONE, TWO)[place]])

    for number in range(12):
        stream = f"log{number}"
        threads = [threading.Thread(target=begin, args=(place, stream)) for place in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert contents(sessions, stream=stream) in ([ONE], [TWO])


@pytest.mark.parametrize("write", ["append_entries", "replace_entries"])
def test_a_session_that_has_ended_takes_no_entries(
    sessions: LocalSessions, opened: Open, write: str
) -> None:
    sessions.append_entries(S, "log", [ONE])
    manager = SessionManager(opened())
    manager.open(S)
    manager.pause()
    sessions.append_entries(S, "log", [TWO])
    manager.resume()
    manager.complete()
    with pytest.raises(InvalidStateTransition, match="add entries"):
        getattr(sessions, write)(S, "log", [THREE])
    assert contents(sessions) == [ONE, TWO]


@pytest.mark.parametrize("write", ["append_entries", "replace_entries"])
def test_no_entry_is_kept_without_its_session(sessions: LocalSessions, write: str) -> None:
    with pytest.raises(SessionNotFound):
        getattr(sessions, write)(OTHER, "log", [ONE])
    assert contents(sessions, OTHER) == []
    assert not sessions.exists(OTHER)


def test_streams_go_with_their_session(sessions: LocalSessions, opened: Open) -> None:
    sessions.append_entries(S, "log", [ONE])
    sessions.delete(S)
    assert contents(opened()) == []
    sessions.save(SessionContext.create("talk", session_id=S, now=START))
    assert contents(opened()) == []


def test_a_hostile_name_of_a_stream_is_refused(sessions: LocalSessions) -> None:
    for stream in ("", "../x", "a/b", ".hidden", "a" * 65, "a\n", "a\0b"):
        for call in calls(sessions, S, stream):
            with pytest.raises(ValueError, match="stream"):
                call()
    assert sessions.read_attachments(S) == {}


def test_a_hostile_id_is_refused(sessions: LocalSessions) -> None:
    for given in HOSTILE:
        for call in calls(sessions, given, "log"):
            with pytest.raises(InvalidSessionId):
                call()


def calls(sessions: LocalSessions, session_id: str, stream: str) -> list[Callable[[], object]]:
    return [
        lambda: sessions.append_entries(session_id, stream, [ONE]),
        lambda: sessions.replace_entries(session_id, stream, [ONE]),
        lambda: sessions.read_entries(session_id, stream),
        lambda: sessions.read_last(session_id, stream, 1),
        lambda: sessions.read_bodies(session_id, stream, [], mark=StreamMark()),
    ]


def test_an_append_that_is_too_large_is_refused(sessions: LocalSessions) -> None:
    large = NewEntry(b"", bytes(MAX_ENTRY_BYTES))
    with pytest.raises(ValueError, match="limit"):
        sessions.append_entries(S, "log", [large, ONE])
    assert contents(sessions) == []


def test_no_attachment_takes_the_place_of_the_streams(sessions: LocalSessions) -> None:
    with pytest.raises(ValueError, match="attachment"):
        sessions.save(
            SessionContext.create("talk", session_id=OTHER, now=START),
            attachments={"streams": b""},
        )


def test_a_fork_takes_the_streams_along(sessions: LocalSessions, opened: Open) -> None:
    sessions.append_entries(S, "log", [ONE, TWO])
    sessions.append_entries(S, "log", [THREE])
    fork = SessionContext.create("talk", session_id=OTHER, now=START)
    sessions.save(fork, inherited=sessions.read_attachments(S))
    assert contents(opened(), OTHER) == [ONE, TWO, THREE]
    sessions.append_entries(OTHER, "log", [ONE])
    assert contents(sessions, OTHER) == [ONE, TWO, THREE, ONE]
    assert contents(sessions) == [ONE, TWO, THREE]


@pytest.mark.parametrize("kind", ["files", "memory"])
def test_a_copy_in_another_store_has_the_streams(
    sessions: LocalSessions, opened: Open, tmp_path: Path, kind: str
) -> None:
    sessions.append_entries(S, "log", [ONE, TWO])
    sessions.append_entries(S, "log", [THREE])
    sessions.append_entries(S, "more", [TWO])
    there = tmp_path / "there"
    target: LocalSessions = SessionStore(there) if kind == "files" else MemorySessions(there)
    assert [one.outcome for one in copy_sessions(sessions, target)] == [CopyOutcome.COPIED]
    assert contents(target) == [ONE, TWO, THREE]
    assert [one.outcome for one in copy_sessions(sessions, target)] == [CopyOutcome.PRESENT]
    sessions.delete(S)
    assert [one.outcome for one in copy_sessions(target, sessions)] == [CopyOutcome.COPIED]
    assert contents(opened()) == [ONE, TWO, THREE]
    assert contents(opened(), stream="more") == [TWO]
    sessions.append_entries(S, "log", [ONE])
    assert contents(opened()) == [ONE, TWO, THREE, ONE]
