"""Old sessions go from a PostgreSQL store, and nothing else ever does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import frozen

from agentforge_sessions.base.files import DirectoryLock, FileSystem, OsFileSystem
from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import SessionManager
from agentforge_sessions.harness.session_layout import RUN_LOCKS, SESSION_FILE, WORKSPACE
from agentforge_sessions.harness.stream_port import NewEntry
from agentforge_sessions.prune import (
    Candidate,
    Disposal,
    InvalidRetentionPolicy,
    PruneEnvironment,
    PruneResult,
    Reason,
    RetentionPolicy,
    SkipReason,
    TarArchiver,
    prune,
)
from agentforge_sessions.wiring import pruning
from agentforge_sessions.wiring.fleet import prune_fleet
from tests.support.clock import FakeClock

OLD: Final = RetentionPolicy(max_age_hours=24)
TABLES: Final = (
    *("sessions where id", "session_documents where session_id"),
    *("session_history where session_id", "session_artifacts where session_id"),
    *("session_attachments where session_id", "submissions where session_id"),
    *("procrastinate_jobs where queueing_lock", "questions where agent_session"),
)


@frozen
class Fleet:
    """A store of sessions in every state, and the machine that prunes it."""

    database: Database
    store: PostgresStore
    clock: FakeClock
    base: Path

    def made(self, end: str | None = None) -> str:
        """Keep a session that has all that a store can have of one."""
        manager = SessionManager(self.store, clock=self.clock)
        session_id = manager.create(
            "tdflow", "red", goal="a goal", attachments={RUN_LOCKS[0]: b"phases"}
        ).session_id
        manager.add_artifact("a.py", "created")
        self.store.keep_step(session_id, "0001.json", b"{}")
        workspace = self.store.workspace_path(session_id)
        workspace.mkdir()
        (workspace / "a.py").write_text("made here")
        if end is not None:
            getattr(manager, end)()
        self.execute(
            "insert into agentforge.submissions (session_id, queue) values (%s, 'work')", session_id
        )
        self.clock.advance(60)
        return session_id

    def execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with self.database.connection() as connection:
            found = connection.execute(statement.encode(), values)
            return found.fetchall() if found.description else []

    def rows(self, session_id: str) -> dict[str, int]:
        """Return how many rows each table has of a session."""
        return {
            table: self.execute(f"select count(*) from agentforge.{table} = %s", session_id)[0][0]
            for table in TABLES
        }

    def prune(self, policy: RetentionPolicy = OLD, **more: Any) -> PruneResult:
        outside = PruneEnvironment(clock=self.clock, actor=lambda: {"user": "tester"})
        return prune(self.store.prunable(), policy, outside=outside, **more)

    def lines(self) -> list[Mapping[str, Any]]:
        """Return the audit log."""
        return [
            row[0] for row in self.execute("select line from agentforge.removals order by number")
        ]

    def reason(self, result: PruneResult, session_id: str) -> tuple[Reason, ...]:
        (decision,) = (one for one in result.decisions if one.candidate.session_id == session_id)
        return decision.reasons


@pytest.fixture
def fleet(database: Database, base: Path) -> Fleet:
    return Fleet(database, PostgresStore(database, base), FakeClock(), base)


def test_only_what_ended_long_ago_goes_and_a_dry_run_says_so_before(fleet: Fleet) -> None:
    old = [fleet.made("complete"), fleet.made("abort")]
    kept = [fleet.made(), fleet.made("pause")]
    fleet.clock.advance(2 * 86_400)
    recent = fleet.made("complete")

    seen = fleet.prune(dry_run=True)
    assert seen.deleted_sessions == old
    assert fleet.store.list_sessions() == sorted([*old, *kept, recent])
    done = fleet.prune()

    assert done.deleted_sessions == old
    assert done.errors == {}
    assert done.reclaimed_bytes == seen.reclaimed_bytes > 0
    assert fleet.store.list_sessions() == sorted([*kept, recent])
    assert [fleet.reason(done, one) for one in kept] == [(Reason.STATE,)] * 2
    for session_id in kept:
        assert (fleet.store.workspace_path(session_id) / "a.py").is_file()
    assert fleet.prune().deleted_sessions == []


def test_a_session_goes_with_all_that_is_stored_of_it_and_leaves_a_line(fleet: Fleet) -> None:
    gone, other = fleet.made("complete"), fleet.made()
    for session_id in (gone, other):
        fleet.execute(
            "insert into agentforge.questions (id, status, created_at, changed_at, agent_session, "
            "request, status_document) values (gen_random_uuid()::text, 'pending', now(), now(), "
            "%s, '', '')",
            session_id,
        )
        with fleet.database.transaction() as connection:
            connection.execute("set local search_path to agentforge")
            connection.execute(
                "insert into procrastinate_jobs (queue_name, task_name, lock, queueing_lock) "
                "values ('work', 'agentforge.run_session', %(id)s, %(id)s)",
                {"id": session_id},
            )
    before = fleet.rows(other)
    assert all(before.values())
    fleet.clock.advance(2 * 86_400)
    result = fleet.prune()

    assert result.deleted_sessions == [gone]
    assert set(fleet.rows(gone).values()) == {0}
    assert fleet.rows(other) == before
    assert not fleet.store.session_directory(gone).exists()
    (line,) = fleet.lines()
    assert line["session_id"] == gone
    assert line["event"] == "removed"
    assert line["reasons"] == ["expired"]
    assert line["state"] == "completed"
    assert line["by"] == {"user": "tester"}
    assert line["run"]


def test_what_is_pinned_led_or_has_a_job_that_runs_stays(fleet: Fleet) -> None:
    pinned, led, working = (fleet.made("complete") for _ in range(3))
    fleet.clock.advance(2 * 86_400)
    source = fleet.store.prunable()
    assert source.pin(pinned) is True
    assert source.pin(pinned) is False
    fleet.execute(
        "insert into agentforge.procrastinate_jobs (queue_name, task_name, lock, status) "
        "values ('work', 'agentforge.run_session', %s, 'doing')",
        working,
    )
    lock = fleet.store.run_lock(led, RUN_LOCKS[0], timeout_s=0.0)
    lock.acquire()
    try:
        result = fleet.prune()
    finally:
        lock.release()
    assert result.deleted_sessions == []
    assert {one.session_id: one.reason for one in result.skipped} == {
        pinned: SkipReason.PINNED,
        led: SkipReason.IN_USE,
        working: SkipReason.IN_USE,
    }
    assert source.pinned() == {pinned}
    assert source.unpin(pinned) is True
    assert fleet.prune().deleted_sessions == [pinned, led]


@pytest.mark.parametrize("change", ["pin", "lead", "work", "delete", "revise"])
def test_each_is_looked_at_again_under_its_lock(fleet: Fleet, change: str) -> None:
    session_id = fleet.made("complete")
    fleet.clock.advance(2 * 86_400)
    source = fleet.store.prunable()
    found = source.inspect(now=fleet.clock(), before=None)
    (candidate,) = found.candidates
    lock = fleet.store.run_lock(session_id, RUN_LOCKS[0], timeout_s=0.0)
    match change:
        case "pin":
            source.pin(session_id)
        case "lead":
            lock.acquire()
        case "work":
            fleet.execute(
                "insert into agentforge.procrastinate_jobs (queue_name, task_name, lock, status) "
                "values ('work', 'x', %s, 'doing')",
                session_id,
            )
        case "delete":
            fleet.store.delete(session_id)
        case "revise":
            fleet.execute("update agentforge.sessions set revision = revision + 1")
    try:
        kept = source.remove(candidate, {"event": "removed"}, archiver=None)
    finally:
        lock.release()
    expected = {
        "pin": Reason.PINNED,
        "lead": Reason.IN_USE,
        "work": Reason.IN_USE,
        "delete": Reason.GONE,
        "revise": Reason.CHANGED,
    }
    assert kept is expected[change]
    assert fleet.store.exists(session_id) is (change != "delete")


def test_nothing_goes_that_was_not_shown_before(fleet: Fleet) -> None:
    shown = fleet.made("complete")
    fleet.clock.advance(2 * 86_400)
    seen = fleet.prune(dry_run=True)
    other = fleet.made("complete")
    fleet.clock.advance(2 * 86_400)
    done = fleet.prune(only=[one for one in seen.decisions if one.remove])
    assert done.deleted_sessions == [shown]
    assert fleet.reason(done, other) == (Reason.LIMIT,)


def test_the_rules_are_those_of_directories(fleet: Fleet) -> None:
    ended = [fleet.made("complete" if number % 2 else "abort") for number in range(6)]
    open_ = fleet.made()
    fleet.clock.advance(3_600)

    def would(policy: RetentionPolicy) -> list[str]:
        return fleet.prune(policy, dry_run=True).deleted_sessions

    assert would(RetentionPolicy()) == []
    assert would(RetentionPolicy(max_sessions=3)) == ended[:4]
    assert would(RetentionPolicy(max_sessions=3, max_deletions=2)) == ended[:2]
    assert would(RetentionPolicy(max_sessions=3, keep_states=["aborted"])) == ended[1:4:2]
    assert would(RetentionPolicy(max_sessions=3, min_age_hours=2)) == []
    assert would(RetentionPolicy(max_age_hours=0)) == ended
    size = fleet.prune(RetentionPolicy(max_total_bytes=0), dry_run=True)
    assert size.deleted_sessions == ended
    assert [one.rule for one in size.unmet] == ["max_total_bytes"]
    assert fleet.store.exists(open_)


def test_a_session_that_cannot_be_dated_is_left_alone(fleet: Fleet) -> None:
    broken, future = fleet.made("complete"), fleet.made("complete")
    fleet.execute(
        "update agentforge.sessions set updated_at = created_at - interval '1 day' where id = %s",
        broken,
    )
    fleet.execute(
        "update agentforge.sessions set completed_at = %s where id = %s",
        fleet.clock() + timedelta(days=30),
        future,
    )
    result = fleet.prune(RetentionPolicy(max_age_hours=0))
    assert result.deleted_sessions == []
    assert {one.session_id: one.reason for one in result.skipped} == {
        broken: SkipReason.CORRUPTED_METADATA,
        future: SkipReason.FUTURE,
    }


class Laid:
    """An archiver that notes what it was given."""

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails
        self.found: dict[str, bytes] = {}

    def archive(self, fs: FileSystem, session_fd: int, candidate: Candidate) -> Path:
        if self.fails:
            raise OSError(28, "No space left on device")
        top = Path(f"/proc/self/fd/{session_fd}")
        self.found = {
            str(file.relative_to(top)): file.read_bytes()
            for file in top.rglob("*")
            if file.is_file()
        }
        return Path(f"/archives/{candidate.session_id}")


def test_an_archive_has_what_a_store_of_files_would_have(fleet: Fleet) -> None:
    session_id = fleet.made("complete")
    document = fleet.store.read_document(session_id)
    fleet.clock.advance(2 * 86_400)
    archiver = Laid()
    result = fleet.prune(disposal=Disposal(archiver=archiver))
    assert result.archives == {session_id: f"/archives/{session_id}"}
    assert archiver.found == {
        SESSION_FILE: document,
        RUN_LOCKS[0]: b"phases",
        "steps/0001.json": b"{}",
        f"{WORKSPACE}/a.py": b"made here",
    }
    assert fleet.lines()[0]["archive"] == f"/archives/{session_id}"


def test_without_its_archive_a_session_stays(fleet: Fleet) -> None:
    session_id = fleet.made("complete")
    before = fleet.rows(session_id)
    fleet.clock.advance(2 * 86_400)
    result = fleet.prune(disposal=Disposal(archiver=Laid(fails=True)))
    assert result.deleted_sessions == []
    assert result.errors == {session_id: "it was kept: No space left on device"}
    assert fleet.rows(session_id) == before
    assert fleet.lines() == []
    assert (fleet.store.workspace_path(session_id) / "a.py").is_file()


@pytest.mark.parametrize(
    ("policy", "disposal"),
    [
        (RetentionPolicy(min_free_space_gb=1), Disposal()),
        (OLD, Disposal(grace=timedelta(days=1))),
        (OLD, Disposal(audit_path=Path("audit.jsonl"))),
    ],
    ids=["free space", "trash", "audit log"],
)
def test_what_a_store_cannot_do_is_refused_before_anything_goes(
    fleet: Fleet, policy: RetentionPolicy, disposal: Disposal
) -> None:
    session_id = fleet.made("complete")
    fleet.clock.advance(40 * 86_400)
    with pytest.raises(InvalidRetentionPolicy):
        fleet.prune(policy, disposal=disposal)
    assert fleet.store.exists(session_id)


def test_another_machine_clears_the_directories_of_what_was_removed_and_no_other(
    fleet: Fleet, tmp_path: Path
) -> None:
    removed, busy, there = fleet.made("complete"), fleet.made("complete"), fleet.made()
    elsewhere = PostgresStore(fleet.database, tmp_path / "elsewhere")
    unknown, of_files = "session_20200101_000000_000001", fleet.made("complete")
    for session_id in (removed, busy, there, unknown, of_files):
        (elsewhere.session_directory(session_id) / WORKSPACE).mkdir(parents=True)
    (elsewhere.session_directory(of_files) / SESSION_FILE).write_text("of a store of files")
    fleet.clock.advance(2 * 86_400)
    assert sorted(fleet.prune().deleted_sessions) == sorted([removed, busy, of_files])

    with DirectoryLock(OsFileSystem(), elsewhere.workspace_path(busy), timeout_s=0.0):
        assert elsewhere.clear_directories() == [removed]
    left = {one.name for one in elsewhere.base_path.iterdir()}
    assert left == {busy, there, unknown, of_files}
    assert elsewhere.clear_directories() == [busy]


def test_a_deletion_by_hand_leaves_a_line_as_well(fleet: Fleet) -> None:
    session_id = fleet.made()
    assert fleet.store.delete(session_id)
    (line,) = fleet.lines()
    assert (line["session_id"], line["reasons"]) == (session_id, ["asked for"])
    assert set(fleet.rows(session_id).values()) == {0}


def test_the_fleets_prune_needs_the_address_of_its_store_alone(
    fleet: Fleet, tmp_path: Path
) -> None:
    old = fleet.made("complete")
    fleet.clock.advance(31 * 86_400)
    recent = fleet.made("complete")
    base, archives = tmp_path / "elsewhere", tmp_path / "archives"
    (base / old / WORKSPACE).mkdir(parents=True)

    def prune(**more: Any) -> list[str]:
        url = fleet.database.url
        return pruning.prune_store(url, base, clock=fleet.clock, **more).deleted_sessions

    assert prune(dry_run=True) == [old]
    assert fleet.store.exists(old)
    assert prune(archive=archives) == [old]
    assert fleet.store.list_sessions() == [recent]
    assert not (base / old).exists()
    (archive,) = archives.glob("*.tar.zst")
    assert archive.name.startswith(f"agent-{old}-")


# ------------------------------------------------------------------------------------ transcripts

TALK: Final = "agent-codex-1"


def talked(fleet: Fleet, *, stream: str = TALK) -> str:
    """Add to a transcript of a session that goes on, and return the transcript's name."""
    session_id = fleet.made()
    add(fleet, session_id, stream)
    return f"{session_id}/{stream}"


def add(fleet: Fleet, session_id: str, stream: str = TALK) -> None:
    head = json.dumps({"copied": fleet.clock().isoformat()}).encode()
    fleet.store.append_entries(session_id, stream, [NewEntry(head, b"{}")])


def pruned_transcripts(fleet: Fleet, **more: Any) -> PruneResult:
    (kind,) = pruning.transcripts_kind(fleet.store).values()
    outside = PruneEnvironment(clock=fleet.clock, actor=lambda: {"user": "tester"})
    policy = RetentionPolicy(max_age_hours=kind.max_age_hours)
    return kind.prune(policy, outside=outside, **more)


def entries(fleet: Fleet, name: str) -> int:
    return len(fleet.store.read_entries(*name.split("/")).entries)


def test_a_transcript_goes_after_a_month_and_its_session_stays(fleet: Fleet) -> None:
    assert pruning.transcripts_kind(fleet.store) == {}
    old, stream = talked(fleet), talked(fleet, stream="thread")
    fleet.clock.advance(30 * 86_400)
    new = talked(fleet)

    assert pruned_transcripts(fleet, dry_run=True).deleted_sessions == [old]
    assert entries(fleet, old) == 1
    assert pruned_transcripts(fleet).deleted_sessions == [old]

    assert [entries(fleet, one) for one in (old, stream, new)] == [0, 1, 1]
    assert fleet.store.exists(old.partition("/")[0])
    (line,) = fleet.lines()
    assert [line[one] for one in ("event", "kind", "session_id", "reasons")] == [
        "removed", "transcripts", old, ["expired"],
    ]  # fmt: skip
    add(fleet, old.partition("/")[0])
    assert entries(fleet, old) == 1
    assert pruned_transcripts(fleet).deleted_sessions == []


def test_a_transcript_that_is_added_to_or_pinned_after_the_look_stays(fleet: Fleet) -> None:
    changed, pinned, gone = talked(fleet), talked(fleet), talked(fleet)
    fleet.clock.advance(31 * 86_400)
    seen = pruned_transcripts(fleet, dry_run=True)
    assert len(seen.deleted_sessions) == 3
    (kind,) = pruning.transcripts_kind(fleet.store).values()
    add(fleet, changed.partition("/")[0])
    fleet.store.prunable().pin(pinned.partition("/")[0])
    fleet.store.delete(gone.partition("/")[0])
    stays = {
        one.candidate.session_id: kind.target.remove(one.candidate, one.logged(), archiver=None)
        for one in seen.decisions
    }
    assert stays == {changed: Reason.CHANGED, pinned: Reason.PINNED, gone: Reason.GONE}
    assert [entries(fleet, one) for one in (changed, pinned)] == [2, 1]
    assert kind.target.pinned() == {pinned.partition("/")[0]}


def test_a_transcript_of_a_database_that_cannot_be_dated_is_left_alone(fleet: Fleet) -> None:
    session_id = fleet.made()
    fleet.store.append_entries(session_id, TALK, [NewEntry(b"no json", b"x")])
    assert [one.reason for one in pruned_transcripts(fleet).skipped] == [SkipReason.NO_METADATA]
    assert entries(fleet, f"{session_id}/{TALK}") == 1


def test_a_transcript_of_a_database_has_no_trash_no_archive_and_no_log_elsewhere(
    fleet: Fleet, tmp_path: Path
) -> None:
    old = talked(fleet)
    fleet.clock.advance(31 * 86_400)
    for disposal in (Disposal(grace=timedelta(1)), Disposal(audit_path=tmp_path / "log")):
        with pytest.raises(InvalidRetentionPolicy):
            pruned_transcripts(fleet, disposal=disposal)
    archiver = TarArchiver(directory=tmp_path)
    result = pruned_transcripts(fleet, disposal=Disposal(archiver=archiver))
    assert list(result.errors) == [old]
    assert entries(fleet, old) == 1


def test_the_fleets_nightly_prune_removes_old_transcripts(fleet: Fleet, tmp_path: Path) -> None:
    old = talked(fleet)  # by the clock of the test, which began long ago
    found = prune_fleet(fleet.database.url, tmp_path / "elsewhere")
    assert found["transcripts"] == 1
    assert entries(fleet, old) == 0
