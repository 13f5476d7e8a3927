"""What every kind of sessions must keep to, to be pruned: one suite for all of them.

A kind takes part by an entry in `KINDS`.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

import pytest

from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.harness.prune_target import HarnessTarget
from agentforge_sessions.harness.session_layout import SESSION_FILE
from agentforge_sessions.prune import (
    PRIVATE,
    Dated,
    Disposal,
    PruneResult,
    PruneTarget,
    RetentionPolicy,
    TarArchiver,
    Undatable,
    pin,
    prune,
    restore_archive,
    restore_from_trash,
)
from agentforge_sessions.prune.domain import Reason
from agentforge_sessions.questions import QuestionSessions
from agentforge_sessions.questions.files.prune_target import QuestionTarget
from agentforge_sessions.questions.files.store import STATUS_FILE
from agentforge_sessions.sandbox import SandboxTarget
from tests.support.clock import START, FakeClock, FakeTokens
from tests.support.filesystem import Call, FaultyFileSystem, nth_call
from tests.support.prune_sites import (
    FakeTarget,
    Site,
    add_fake,
    below,
    guarded_site,
    locked,
    metadata,
    outside_of,
    tree_of,
    uuid_of,
)
from tests.support.questions import QUESTIONS, FakeIds

OLD: Final = RetentionPolicy(max_age_hours=24)


class Kind(Protocol):
    """How to make sessions of a kind.

    Attributes:
        record: The file that says how old a session is.
    """

    record: str

    def target(self, root: Path) -> PruneTarget:
        """Make the target of a root."""
        ...

    def add(self, root: Path, when: datetime) -> str:
        """Make a session that may be removed and was last used, or ended, at a time."""
        ...

    def use(self, root: Path, session_id: str, when: datetime) -> None:
        """Use a session, or change it: it must be seen to be another than before."""
        ...

    def unremovable(self, root: Path, when: datetime) -> list[str]:
        """Make a session of each state that its kind is never removed in."""
        ...


class SandboxKind:
    record = ".metadata.json"

    def __init__(self) -> None:
        self._count = 0

    def target(self, root: Path) -> PruneTarget:
        return SandboxTarget(root)

    def add(self, root: Path, when: datetime) -> str:
        self._count += 1
        name = uuid_of(self._count)
        (root / name / "deep").mkdir(parents=True)
        (root / name / "deep" / "data").write_bytes(b"x" * 500)
        self.use(root, name, when)
        return name

    def use(self, root: Path, session_id: str, when: datetime) -> None:
        (root / session_id / self.record).write_bytes(metadata(session_id, when))

    def unremovable(self, root: Path, when: datetime) -> list[str]:
        return []


class HarnessKind:
    record = SESSION_FILE

    def _manager(self, root: Path, when: datetime) -> SessionManager:
        return SessionManager(SessionStore(root), clock=FakeClock(when))

    def target(self, root: Path) -> PruneTarget:
        return HarnessTarget(root)

    def add(self, root: Path, when: datetime) -> str:
        manager = self._manager(root, when)
        session = manager.create("tdflow", "red", goal="a goal")
        (root / session.session_id / "workspace").mkdir(exist_ok=True)
        (root / session.session_id / "workspace" / "data").write_bytes(b"x" * 500)
        manager.complete()
        return session.session_id

    def use(self, root: Path, session_id: str, when: datetime) -> None:
        path = root / session_id / self.record
        other = self.add(root, when)
        text = (root / other / self.record).read_text().replace(other, session_id)
        path.write_text(text.replace("revision: 2", "revision: 9"))
        for here in sorted((root / other).rglob("*"), reverse=True):
            here.rmdir() if here.is_dir() else here.unlink()
        (root / other).rmdir()

    def unremovable(self, root: Path, when: datetime) -> list[str]:
        active = self._manager(root, when).create()
        manager = self._manager(root, when)
        paused = manager.create()
        manager.pause()
        return [active.session_id, paused.session_id]


class QuestionsKind:
    record = STATUS_FILE

    def __init__(self) -> None:
        self._ids, self._tokens = FakeIds(), FakeTokens()

    def _sessions(self, root: Path, when: datetime) -> QuestionSessions:
        return QuestionSessions(root, clock=FakeClock(when), new_id=self._ids, token=self._tokens)

    def target(self, root: Path) -> PruneTarget:
        return QuestionTarget(root)

    def add(self, root: Path, when: datetime) -> str:
        sessions = self._sessions(root, when)
        session_id = sessions.create_session(QUESTIONS)
        sessions.reject_session(session_id, "not now")
        return session_id

    def use(self, root: Path, session_id: str, when: datetime) -> None:
        path = root / session_id / self.record
        moment = when.strftime("%Y-%m-%dT%H:%M:%S.000Z")
        path.write_text(json.dumps({**json.loads(path.read_text()), "lastModified": moment}))

    def unremovable(self, root: Path, when: datetime) -> list[str]:
        return [self._sessions(root, when).create_session(QUESTIONS)]


class FakeKind:
    record = "dated"

    def __init__(self) -> None:
        self._count = 0

    def target(self, root: Path) -> PruneTarget:
        return FakeTarget(root)

    def add(self, root: Path, when: datetime) -> str:
        self._count += 1
        return add_fake(root, f"s-{self._count}", when)

    def use(self, root: Path, session_id: str, when: datetime) -> None:
        add_fake(root, session_id, when, state="done again")

    def unremovable(self, root: Path, when: datetime) -> list[str]:
        return [add_fake(root, "s-busy", when, state="busy with it")]


KINDS: Final[dict[str, Callable[[], Kind]]] = {
    "sandbox": SandboxKind,
    "agent": HarnessKind,
    "fake": FakeKind,
    "questions": QuestionsKind,
}


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with guarded_site(tmp_path / "site") as made:
        yield made


@pytest.fixture
def target(kind: Kind, site: Site) -> PruneTarget:
    return kind.target(site.root)


def ago(hours: float) -> datetime:
    return START - timedelta(hours=hours)


def date(
    target: PruneTarget, site: Site, session_id: str, fs: FaultyFileSystem | None = None
) -> Dated | Undatable | None:
    fd = os.open(site.root / session_id, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return target.date(fs or site.fs, fd, session_id)
    finally:
        os.close(fd)


def run(
    target: PruneTarget, site: Site, *, dry_run: bool = False, **disposal: object
) -> PruneResult:
    return prune(
        target,
        OLD,
        dry_run=dry_run,
        disposal=Disposal(**disposal),  # type: ignore[arg-type]
        outside=site.outside(),
    )


# ---------------------------------------------------------------- what it says of itself


def test_it_names_its_kind_its_root_and_its_guards(target: PruneTarget, site: Site) -> None:
    assert target.kind.isidentifier()
    assert target.root == site.root
    assert not isinstance(target.guards, str)
    for guard in target.guards:
        assert guard not in {"", ".", ".."}
        assert "/" not in guard


def test_it_owns_what_it_makes(kind: Kind, target: PruneTarget, site: Site) -> None:
    assert target.owns(kind.add(site.root, ago(1)))


def test_it_owns_nothing_else(kind: Kind, target: PruneTarget, site: Site) -> None:
    mine = kind.add(site.root, ago(1))
    for name in (
        "",
        ".",
        "..",
        "/",
        PRIVATE,
        ".gitkeep",
        f"{mine}~0123456789abcdef",
        f"{mine}/",
        f"./{mine}",
        f"../{mine}",
        f"{mine}/x",
        f"{mine}\n",
        f" {mine}",
        f"{mine}\0",
        f".discarded-{mine}",
        f"{mine}.json",
        mine[:-1] + "\udcff",
        mine * 9,
    ):
        assert not target.owns(name), name


# ---------------------------------------------------------------- dates


def test_a_session_is_dated_by_when_it_was_last_used(
    kind: Kind, target: PruneTarget, site: Site
) -> None:
    for hours in (0, 1.5, 1_000, 500_000):
        session_id = kind.add(site.root, ago(hours))
        dated = date(target, site, session_id)
        assert isinstance(dated, Dated)
        assert dated.at == ago(hours)
        assert dated.at.utcoffset() == timedelta(0)
        assert dated.at.tzinfo is UTC
        assert dated.removable


def test_the_version_stays_until_the_session_changes(
    kind: Kind, target: PruneTarget, site: Site
) -> None:
    session_id = kind.add(site.root, ago(5))
    first, second = date(target, site, session_id), date(target, site, session_id)
    assert first == second
    kind.use(site.root, session_id, ago(1))
    third = date(target, site, session_id)
    assert isinstance(first, Dated)
    assert isinstance(third, Dated)
    assert (third.at, third.version, third.state) != (first.at, first.version, first.state)


def test_dating_changes_nothing_and_writes_nothing(
    kind: Kind, target: PruneTarget, site: Site
) -> None:
    session_id = kind.add(site.root, ago(5))
    before = tree_of(site.top)
    date(target, site, session_id)
    assert tree_of(site.top) == before
    assert [call for call in site.fs.trace if call.writing] == []
    assert all(
        call.operation in {"open", "close", "pread", "fstat", "stat"} for call in site.fs.trace
    )


def test_everything_is_opened_relative_to_the_sessions_descriptor(
    kind: Kind, target: PruneTarget, site: Site
) -> None:
    """Where its name leads to by now is nobody's business."""
    session_id = kind.add(site.root, ago(5))
    fd = os.open(site.root / session_id, os.O_RDONLY | os.O_DIRECTORY)
    (site.root / session_id).rename(site.top / "moved")
    kind.add(site.root, ago(1))
    try:
        dated = target.date(site.fs, fd, session_id)
    finally:
        os.close(fd)
    assert isinstance(dated, Dated)
    assert dated.at == ago(5)


def test_a_directory_without_a_record_has_no_date(
    kind: Kind, target: PruneTarget, site: Site
) -> None:
    session_id = kind.add(site.root, ago(5))
    (site.root / session_id / kind.record).unlink()
    assert not isinstance(date(target, site, session_id), Dated)


# ---------------------------------------------------------------- hostile records


def unix_socket(path: Path) -> None:
    here = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{here}/{path.name}")
    os.close(here)


def zero_device(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("making a device takes root")
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))


def holed(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


PLANTS: Final[dict[str, Callable[[Path], object]]] = {
    "a directory": Path.mkdir,
    "a fifo": os.mkfifo,
    "a socket": unix_socket,
    "an endless device": zero_device,
    "a loop": lambda path: path.symlink_to(path.name),
    "a dangling link": lambda path: path.symlink_to("nowhere"),
    "nothing": Path.touch,
    "10 MB": lambda path: path.write_bytes(b"x" * 10_000_000),
    "a terabyte of nothing": holed,
    "no text": lambda path: path.write_bytes(b"\xff\xfe\x00" * 100),
    "depths of lists": lambda path: path.write_bytes(b"[" * 50_000),
    "depths of maps": lambda path: path.write_bytes(b'{"a":' * 10_000),
    "depths of indents": lambda path: path.write_bytes(
        b"".join(b" " * n + b"a:\n" for n in range(1_000))
    ),
    "a list": lambda path: path.write_bytes(b"[]\n"),
    "a number": lambda path: path.write_bytes(b"9e999\n"),
    "nulls": lambda path: path.write_bytes(bytes(1_000)),
}


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.timeout(60)
def test_a_record_that_is_none_has_no_date_and_keeps_the_session(
    kind: Kind, target: PruneTarget, site: Site, plant: str
) -> None:
    session_id, old = kind.add(site.root, ago(99)), kind.add(site.root, ago(98))
    record = site.root / session_id / kind.record
    record.unlink()
    PLANTS[plant](record)

    dated = date(target, site, session_id)

    assert not isinstance(dated, Dated)
    assert not isinstance(dated, Undatable) or dated.detail
    result = run(target, site)
    assert result.deleted_sessions == [old]
    assert (site.root / session_id).is_dir()
    assert result.errors == {}
    if isinstance(dated, Undatable):
        assert result.skipped_sessions == [session_id]


def test_a_record_is_not_read_through_a_link(kind: Kind, target: PruneTarget, site: Site) -> None:
    session_id = kind.add(site.root, ago(99))
    record = site.root / session_id / kind.record
    record.rename(site.top / "record")
    record.symlink_to(site.top / "record")
    assert not isinstance(date(target, site, session_id), Dated)


def test_another_sessions_record_has_no_date(kind: Kind, target: PruneTarget, site: Site) -> None:
    if isinstance(kind, FakeKind):
        pytest.skip("its record names no session")
    session_id, other = kind.add(site.root, ago(99)), kind.add(site.root, ago(1))
    stolen = (site.root / session_id / kind.record).read_bytes()
    (site.root / other / kind.record).write_bytes(stolen)
    assert isinstance(date(target, site, other), Undatable)
    assert run(target, site).deleted_sessions == [session_id]


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.EMFILE, errno.ESTALE])
def test_whatever_call_fails_nothing_is_raised_and_no_date_is_made_up(
    kind: Kind, target: PruneTarget, site: Site, number: int
) -> None:
    session_id = kind.add(site.root, ago(99))
    whole = date(target, site, session_id)
    calls = len(site.fs.trace)
    assert calls >= 3
    for nth in range(calls):
        fs = FaultyFileSystem(plan=nth_call(nth, number))
        dated = date(target, site, session_id, fs)
        assert fs.failed
        assert dated == whole or isinstance(dated, Undatable)
        assert fs.open_descriptors == {}


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.ESTALE])
def test_whatever_call_fails_on_an_empty_directory_nothing_is_raised(
    kind: Kind, target: PruneTarget, site: Site, number: int
) -> None:
    session_id = kind.add(site.root, ago(99))
    for path in sorted((site.root / session_id).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    whole = date(target, site, session_id)
    for nth in range(len(site.fs.trace)):
        fs = FaultyFileSystem(plan=nth_call(nth, number))
        dated = date(target, site, session_id, fs)
        assert dated == whole or not isinstance(dated, Dated)


# ---------------------------------------------------------------- by the engine


def test_old_ones_go_and_nothing_else(kind: Kind, target: PruneTarget, site: Site) -> None:
    old = [kind.add(site.root, ago(hours)) for hours in (99, 50, 24.01)]
    young = [kind.add(site.root, ago(hours)) for hours in (24, 23.9, 1)]
    broken = kind.add(site.root, ago(99))
    (site.root / broken / kind.record).write_bytes(b"\xff")
    (site.root / "a file").write_text("kept")
    (site.root / "a directory").mkdir()
    before = tree_of(site.root)

    dry = run(target, site, dry_run=True)
    assert tree_of(site.root) == before
    result = run(target, site)

    assert result.deleted_sessions == dry.deleted_sessions == old
    assert result.skipped_sessions == dry.skipped_sessions == [broken]
    assert result.reclaimed_bytes == dry.reclaimed_bytes > 0
    assert outside_of(tree_of(site.root), [PRIVATE]) == outside_of(before, [PRIVATE, *old])
    assert {one.candidate.session_id for one in result.decisions} == {*old, *young}
    assert {line["kind"] for line in site.audit()} == {target.kind}


def test_those_that_may_not_go_stay_whatever_their_age(
    kind: Kind, target: PruneTarget, site: Site
) -> None:
    held = kind.unremovable(site.root, ago(99_999))
    old = kind.add(site.root, ago(99))
    everything = RetentionPolicy(max_age_hours=0, max_sessions=0, max_total_bytes=0)
    result = prune(target, everything, outside=site.outside())
    assert result.deleted_sessions == [old]
    reasons = {one.candidate.session_id: one.reasons for one in result.decisions}
    assert {name: reasons[name] for name in held} == dict.fromkeys(held, (Reason.STATE,))


def test_one_that_somebody_works_in_stays(kind: Kind, target: PruneTarget, site: Site) -> None:
    for guard in (None, *target.guards):
        busy, idle = kind.add(site.root, ago(99)), kind.add(site.root, ago(98))
        held = site.root / busy if guard is None else site.root / busy / guard
        if not held.exists():
            held.touch()
        with locked(held):
            result = run(target, site)
        assert result.deleted_sessions == [idle], guard
        reasons = {one.candidate.session_id: one.reasons for one in result.decisions}
        assert reasons[busy] == (Reason.IN_USE,)
        assert run(target, site).deleted_sessions == [busy]


def test_a_pinned_one_stays(kind: Kind, target: PruneTarget, site: Site) -> None:
    kept, old = kind.add(site.root, ago(99)), kind.add(site.root, ago(98))
    pin(target, kept, outside=site.outside())
    assert run(target, site).deleted_sessions == [old]


def is_lock_of_the_private(call: Call) -> bool:
    return call.operation == "flock" and call.path.endswith("/.prune")


def test_one_that_is_used_meanwhile_stays(kind: Kind, target: PruneTarget, site: Site) -> None:
    used = kind.add(site.root, ago(99))
    done: list[object] = []

    def meanwhile(call: Call) -> None:
        if not done and is_lock_of_the_private(call):
            done.append(call)
            kind.use(site.root, used, ago(0))

    site.fs.before = meanwhile
    result = run(target, site)
    assert done
    assert result.deleted_sessions == []
    assert (site.root / used).is_dir()


def test_one_comes_back_from_the_trash(kind: Kind, target: PruneTarget, site: Site) -> None:
    old = kind.add(site.root, ago(99))
    dated, whole = date(target, site, old), below(tree_of(site.root), old)
    run(target, site, grace=timedelta(days=1))
    assert not (site.root / old).exists()
    restore_from_trash(target, old, outside=site.outside())
    assert date(target, site, old) == dated
    assert below(tree_of(site.root), old) == whole


def test_one_comes_back_from_its_archive(kind: Kind, target: PruneTarget, site: Site) -> None:
    old = kind.add(site.root, ago(99))
    dated, whole = date(target, site, old), below(tree_of(site.root), old)
    archiver = TarArchiver(directory=site.top / "archives", clock=site.clock)
    result = run(target, site, archiver=archiver)
    assert not (site.root / old).exists()
    restore_archive(Path(result.archives[old]), target, outside=site.outside())
    assert date(target, site, old) == dated
    assert below(tree_of(site.root), old) == whole
