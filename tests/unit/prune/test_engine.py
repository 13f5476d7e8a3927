"""The engine: what it does between a decision and a removal, and what it leaves alone."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from agentforge_sessions.base.files import OsFileSystem
from agentforge_sessions.prune import (
    Disposal,
    InvalidRetentionPolicy,
    PruneResult,
    PruneRootUnusable,
    RetentionPolicy,
    pin,
    prune,
    restore_from_trash,
)
from agentforge_sessions.prune.domain import Reason
from agentforge_sessions.sandbox import SandboxTarget
from tests.support.filesystem import Call, FaultyFileSystem, nth_of
from tests.support.mounts import immutable
from tests.support.prune_sites import (
    FakeTarget,
    Site,
    Watcher,
    add_fake,
    below,
    metadata,
    outside_of,
    tree_of,
    uuid_of,
    write_files,
)

OLD = RetentionPolicy(max_age_hours=24)
SHARED, EXCLUSIVE = fcntl.LOCK_SH, fcntl.LOCK_EX


def run(site: Site, policy: RetentionPolicy = OLD, **options: Any) -> PruneResult:
    disposal = {key: options.pop(key) for key in ("grace", "batch", "archiver") if key in options}
    return prune(
        SandboxTarget(site.root),
        policy,
        disposal=Disposal(**disposal),
        outside=site.outside(),
        **options,
    )


def run_fakes(site: Site, policy: RetentionPolicy = OLD, **options: Any) -> PruneResult:
    return prune(FakeTarget(site.root), policy, outside=site.outside(), **options)


def fake(site: Site, name: str, age_hours: float = 30, **fields: Any) -> str:
    return add_fake(site.root, name, site.clock.now - timedelta(hours=age_hours), **fields)


@contextmanager
def locked(path: Path, how: int = EXCLUSIVE) -> Iterator[None]:
    fd = os.open(path, os.O_RDONLY)
    fcntl.flock(fd, how)
    try:
        yield
    finally:
        os.close(fd)


def why(result: PruneResult) -> dict[str, tuple[Reason, ...]]:
    return {one.candidate.session_id: one.reasons for one in result.decisions}


def once(when: Callable[[Call], bool], act: Callable[[], object]) -> Callable[[Call], None]:
    """Do something before the first call that fits."""
    done: list[Call] = []

    def before(call: Call) -> None:
        if not done and when(call):
            done.append(call)
            act()

    return before


def on(operation: str, text: str) -> Callable[[Call], bool]:
    return lambda call: call.operation == operation and text in call.path


def run_and_take(site: Site, name: str) -> PruneResult:
    """Run, and lock a session right after it was decided."""
    with ExitStack() as held:
        site.fs.before = once(
            on("mkdir", ".prune"), lambda: held.enter_context(locked(site.root / name))
        )
        return run(site)


# ---------------------------------------------------------------- arguments


def test_all_faults_of_a_disposal_are_told_at_once() -> None:
    with pytest.raises(InvalidRetentionPolicy) as caught:
        Disposal(grace=timedelta(-1), lock_timeout_s=float("nan"), batch=0)
    assert len(caught.value.faults) == 3
    for name in ("grace", "lock_timeout_s", "batch"):
        assert name in str(caught.value)


@pytest.mark.parametrize("batch", [1, 2, 3, 7, 100])
def test_any_batch_removes_the_same(site: Site, batch: int) -> None:
    old = [site.add(age_hours=60 - number) for number in range(7)]
    result = run(site, batch=batch)
    assert result.deleted_sessions == old
    events = [event for event, _ in site.events()]
    assert events.count("removing") == events.count("removed") == 7
    assert site.hidden() == []


def test_none_but_those_that_were_shown_go(site: Site) -> None:
    old = [site.add(age_hours=60 - number) for number in range(3)]
    young = site.add(age_hours=1)
    shown = [one for one in run(site, dry_run=True).decisions if one.candidate.session_id == old[1]]
    result = run(site, only=shown)
    assert result.deleted_sessions == [old[1]]
    assert site.sessions() == sorted([old[0], old[2], young])
    assert why(result)[old[0]] == (Reason.LIMIT,)
    assert run(site, only=[]).deleted_sessions == []


def test_one_that_is_not_as_it_was_shown_stays(site: Site) -> None:
    old = site.add(age_hours=60)
    shown = run(site, dry_run=True).decisions
    used = site.clock.now - timedelta(hours=50)
    (site.root / old / ".metadata.json").write_bytes(metadata(old, used))
    result = run(site, only=shown)
    assert result.deleted_sessions == []
    assert why(result)[old] == (Reason.CHANGED,)


def test_one_that_was_shown_and_is_gone_is_told(site: Site) -> None:
    gone, old = site.add(age_hours=60), site.add(age_hours=50)
    shown = [one for one in run(site, dry_run=True).decisions if one.remove]
    (site.root / gone).rename(site.top / "taken")
    result = run(site, only=shown)
    assert result.deleted_sessions == [old]
    assert why(result)[gone] == (Reason.GONE,)


def test_an_observer_is_told_in_order(site: Site) -> None:
    old = [site.add(age_hours=60), site.add(age_hours=50)]
    legacy = site.add(age_hours=None)
    site.fs.plan = lambda _, call: errno.EPERM if on("rename", old[0])(call) else None
    watcher = Watcher()
    result = run(site, observer=watcher)
    assert watcher.told == [
        ("started", False),
        ("skipped", legacy),
        ("candidate", old[0]),
        ("candidate", old[1]),
        ("failed", old[0]),
        ("deleted", old[1]),
        ("completed", result),
    ]


# ---------------------------------------------------------------- in use


@pytest.mark.parametrize("held", [".", "guard"], ids=["itself", "its guard"])
@pytest.mark.parametrize("how", [SHARED, EXCLUSIVE])
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_session_that_somebody_works_in_stays(
    site: Site, held: str, how: int, dry_run: bool
) -> None:
    busy, idle = fake(site, "s-1"), fake(site, "s-2")
    with locked(site.root / busy / held, how):
        result = run_fakes(site, dry_run=dry_run)
    assert result.deleted_sessions == [idle]
    assert why(result)[busy] == (Reason.IN_USE,)
    assert result.errors == {}
    assert busy in site.sessions()


@pytest.mark.parametrize("operation", ["open", "stat"])
@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.EACCES])
def test_a_guard_that_can_not_be_asked_keeps_its_session(
    site: Site, operation: str, number: int
) -> None:
    """Not knowing whether somebody holds it is no reason to take it for free."""
    busy, idle = fake(site, "s-1"), fake(site, "s-2")
    text = f"{busy}/guard"
    with locked(site.root / busy / "guard"):
        for late in (False, True):  # found when it is inspected, or only when it is locked
            seen = 0

            def plan(_: int, call: Call, late: bool = late) -> int | None:
                nonlocal seen
                if not on(operation, text)(call):
                    return None
                seen += 1
                return number if seen > (2 if operation == "stat" and late else late) else None

            site.fs.begin(plan)
            result = run_fakes(site, max_age(24))
            assert busy not in result.deleted_sessions
            assert (site.root / busy / "file").exists()
            site.fs.begin()
            if idle not in site.sessions():
                fake(site, idle)


@pytest.mark.parametrize("number", [errno.EBADF, errno.ENOLCK, errno.ENOSYS])
@pytest.mark.parametrize("late", [False, True], ids=["when it is looked at", "when it is held"])
def test_a_session_that_can_not_be_locked_stays_and_it_is_said_why(
    site: Site, number: int, late: bool
) -> None:
    """As over NFS, where a directory can be locked to read and not to write."""
    old = site.add(age_hours=60)
    seen = iter(range(9))

    def plan(_: int, call: Call) -> int | None:
        asked = call.operation == "flock" and call.path.endswith(old)
        return number if asked and next(seen) == late else None

    site.fs.begin(plan)
    result = run(site)

    assert site.sessions() == [old]
    assert result.skipped == ()
    assert (
        result.errors[old]
        == f"nobody can tell whether it is in use, it can't be locked ({os.strerror(number)})"
    )


def max_age(hours: float) -> RetentionPolicy:
    return RetentionPolicy(max_age_hours=hours)


@pytest.mark.parametrize("plant", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("file")])
def test_what_is_in_a_guards_place_neither_blocks_nor_keeps(site: Site, plant: Any) -> None:
    name = fake(site, "s-1")
    (site.root / name / "guard").unlink()
    plant(site.root / name / "guard")
    assert run_fakes(site).deleted_sessions == [name]


# ---------------------------------------------------------------- changed meanwhile


@pytest.mark.parametrize("trashed", [False, True])
def test_a_session_that_is_used_just_before_it_is_renamed_is_put_back(
    site: Site, trashed: bool
) -> None:
    """A writer holds no lock that the prune asks for: it only refreshes the metadata."""
    used, other = site.add(age_hours=60), site.add(age_hours=50)

    def use() -> None:
        (site.root / used / ".metadata.json").write_bytes(metadata(used, site.clock.now))

    site.fs.before = once(on("rename", used), use)
    result = run(site, grace=timedelta(days=1) if trashed else None)

    assert result.deleted_sessions == [other]
    assert why(result)[used] == (Reason.CHANGED,)
    assert site.sessions() == [used]
    assert (site.root / used / "data.txt").read_bytes() == b"x" * 100
    assert ("kept", used) in site.events()
    assert [name for name in site.hidden("trash") if name.startswith(used)] == []
    assert site.hidden() == []


def test_a_session_that_is_used_just_before_it_is_renamed_goes_to_no_new_one(site: Site) -> None:
    """Where its name is taken by then, it is put into the root beside that."""
    used = site.add(age_hours=60)

    def use() -> None:
        (site.root / used / ".metadata.json").write_bytes(metadata(used, site.clock.now))

    def take() -> None:
        (site.root / used).mkdir()
        (site.root / used / "new").write_text("new")

    before_rename = once(on("rename", used), use)
    after_rename = once(
        lambda call: (
            call.operation == "open"
            and ".metadata" in call.path
            and not (site.root / used).exists()
        ),
        take,
    )

    def before(call: Call) -> None:
        before_rename(call)
        after_rename(call)

    site.fs.before = before
    result = run(site)

    assert result.deleted_sessions == []
    [beside] = [name for name in site.sessions() if name != used]
    assert (site.root / beside / "data.txt").read_bytes() == b"x" * 100
    assert (site.root / used / "new").read_text() == "new"
    assert beside in result.errors[used]


@pytest.mark.parametrize("content", [None, b"{", b""])
def test_a_session_whose_metadata_went_after_it_was_decided_is_kept(
    site: Site, content: bytes | None
) -> None:
    old = site.add(age_hours=60)
    path = site.root / old / ".metadata.json"
    act: Callable[[], object] = (
        path.unlink if content is None else lambda: path.write_bytes(content)
    )
    site.fs.before = once(on("mkdir", ".prune"), act)
    assert run(site).deleted_sessions == []
    assert site.sessions() == [old]


def test_a_state_that_changed_after_it_was_decided_keeps_the_session(site: Site) -> None:
    name = fake(site, "s-1")
    site.fs.before = once(on("mkdir", ".prune"), lambda: fake(site, name, state="busy"))
    assert run_fakes(site).deleted_sessions == []
    assert site.sessions() == [name]


def test_a_session_that_somebody_else_removed_is_no_error(site: Site) -> None:
    gone, old = site.add(age_hours=60), site.add(age_hours=50)
    site.fs.before = once(
        on("mkdir", ".prune"), lambda: (site.root / gone).rename(site.top / "taken")
    )
    result = run(site)
    assert result.deleted_sessions == [old]
    assert result.errors == {}
    assert why(result)[gone] == (Reason.GONE,)


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_is_in_use_by_its_removal_is_gone_once_it_is_removed(
    site: Site, dry_run: bool
) -> None:
    """Another process holds it locked when it is opened, and has removed it by the answer."""
    gone, old = site.add(age_hours=60), site.add(age_hours=50)
    with locked(site.root / gone):
        seen: list[Call] = []

        def remove(call: Call) -> None:
            if call.operation == "flock" and not seen:
                seen.append(call)
                (site.root / gone).rename(site.top / "taken")

        site.fs.before = remove
        result = run(site, dry_run=dry_run)
    assert seen
    assert result.deleted_sessions == [old]
    assert (result.skipped_sessions, result.errors) == ([], {})


@pytest.mark.parametrize("shown", [False, True])
def test_a_prune_beside_another_finds_gone_what_that_one_removed(site: Site, shown: bool) -> None:
    """The second looks while the first holds a session, and waits for the first to end."""
    first, old = site.add(age_hours=60), site.add(age_hours=50)
    only = run(site, dry_run=True).decisions if shown else None
    (site.root / ".prune").mkdir(mode=0o700)
    with ExitStack() as other:
        other.enter_context(locked(site.root / ".prune"))
        other.enter_context(locked(site.root / first))

        def end(_: float) -> None:
            if (site.root / first).exists():  # the pauses go on until both locks are free
                return
            other.close()

        waited: list[Call] = []

        def remove(call: Call) -> None:
            if call.operation == "flock" and ".prune" in call.path and not waited:
                waited.append(call)
                (site.root / first).rename(site.top / "taken")

        site.fs.before = remove
        result = prune(
            SandboxTarget(site.root), OLD, only=only, outside=evolve(site.outside(), sleep=end)
        )
    assert waited
    assert result.deleted_sessions == [old]
    assert (result.skipped_sessions, result.errors, result.busy) == ([], {}, False)
    assert why(result).get(first) == ((Reason.GONE,) if shown else None)


def test_what_is_in_use_beside_a_prune_that_goes_on_is_told_and_nothing_goes(site: Site) -> None:
    busy, old = site.add(age_hours=60), site.add(age_hours=50)
    (site.root / ".prune").mkdir(mode=0o700)
    with locked(site.root / ".prune"), locked(site.root / busy):
        result = prune(
            SandboxTarget(site.root),
            OLD,
            disposal=Disposal(lock_timeout_s=0),
            outside=site.outside(),
        )
    assert result.busy
    assert result.skipped_sessions == [busy]
    assert why(result) == {busy: (Reason.IN_USE,), old: (Reason.BUSY,)}


def test_a_session_that_is_gone_after_it_was_announced_is_no_error(site: Site) -> None:
    gone, old = site.add(age_hours=60), site.add(age_hours=50)
    site.fs.before = once(
        on("rename", f".prune/going/{gone}"), lambda: (site.root / gone).rename(site.top / "taken")
    )
    result = run(site)
    assert result.deleted_sessions == [old]
    assert result.errors == {}
    assert why(result)[gone] == (Reason.GONE,)
    assert ("kept", gone) in site.events()


@pytest.mark.parametrize("late", [False, True], ids=["before it is locked", "after"])
@pytest.mark.parametrize("kind", ["link", "file", "directory", "fifo"])
def test_what_is_put_in_a_sessions_place_is_left_there(site: Site, kind: str, late: bool) -> None:
    old = site.add(age_hours=60)
    path = site.root / old

    def swap() -> None:
        path.rename(site.top / "taken")
        if kind == "link":
            path.symlink_to(site.beside)
        elif kind == "file":
            path.write_text("somebody's")
        elif kind == "fifo":
            os.mkfifo(path)
        else:
            (path / "precious").mkdir(parents=True)

    when = on("rename", f"going/{old}") if late else on("mkdir", ".prune")
    site.fs.before = once(when, swap)
    result = run(site)

    assert result.deleted_sessions == []
    assert (site.top / "taken" / "data.txt").exists()
    assert site.sessions() == [old]
    assert {"link": path.is_symlink, "file": path.is_file}.get(kind, path.exists)()
    assert kind != "directory" or (path / "precious").is_dir()
    if late:
        assert "was left there" in result.errors[old]
        assert site.events()[-1] == ("kept", old)
    site.fs.before = None
    run(site)
    assert site.sessions() == [old]
    assert (site.top / "taken" / "data.txt").exists()


def test_what_is_swapped_twice_is_deleted_by_no_later_prune(site: Site) -> None:
    """It was renamed by mistake, and its name was taken before it could be given back."""
    old = site.add(age_hours=60)
    path = site.root / old

    def swap() -> None:
        path.rename(site.top / "taken")
        (path / "precious").mkdir(parents=True)

    def again(call: Call) -> None:
        if call.operation == "stat" and f"going/{old}" in call.path:
            path.mkdir(exist_ok=True)
            (path / "also precious").touch()

    first = once(on("rename", f"going/{old}"), swap)

    def before(call: Call) -> None:
        first(call)
        again(call)

    site.fs.before = before
    result = run(site)
    site.fs.before = None

    assert result.deleted_sessions == []
    assert (path / "also precious").exists()
    run(site)
    [aside] = [name for name in site.sessions() if name != old]
    assert aside.startswith(f"{old}~")
    assert (site.root / aside / "precious").is_dir()
    assert aside in result.errors[old]


# ---------------------------------------------------------------- what resists


@pytest.mark.parametrize("nth", [0, 1])
@pytest.mark.parametrize("grace", [None, timedelta(days=1)])
def test_a_rename_that_is_not_durable_is_taken_back(
    site: Site, nth: int, grace: timedelta | None
) -> None:
    """The sync of the place it went to fails, or that of the root."""
    old = [site.add(age_hours=60), site.add(age_hours=50)]
    before = tree_of(site.root)
    run(site, grace=grace)
    for name in old:
        if grace is None:
            site.add(age_hours=60, session_id=name)
        else:
            restore_from_trash(SandboxTarget(site.root), name, outside=site.outside())
    if grace is None:
        before = outside_of(tree_of(site.root), [".prune"])
    place = "going" if grace is None else "trash"
    renamed: list[str] = []

    def plan(_: int, call: Call) -> int | None:
        if call.operation == "rename":
            renamed.append(call.path)
        wanted = (f".prune/{place}", "/root")[nth]
        if call.operation == "fsync" and len(renamed) >= 2 and call.path.endswith(wanted):
            return errno.EIO
        return None

    site.fs.begin(plan)
    result = run(site, grace=grace)

    assert site.fs.failed
    assert result.deleted_sessions == []
    assert sorted(result.errors) == old
    assert all("fsync of the root" in error for error in result.errors.values())
    assert outside_of(tree_of(site.root), [".prune"]) == before
    assert site.hidden(place) == []
    site.fs.begin()
    assert sorted(run(site, grace=grace).deleted_sessions) == old


def test_a_removal_that_was_begun_is_finished_by_the_next_prune(site: Site) -> None:
    for name in ("left~1", uuid_of(7) + "~0a", "no token", "~", "a~b~c"):
        (site.private / "going" / name / "deep" / "er").mkdir(parents=True)
        (site.private / "going" / name / "deep" / "file").touch()
        (site.private / "going" / name / "link").symlink_to(site.beside)
    (site.private / "going" / "a file~1").touch()
    (site.private / "going" / "a link~1").symlink_to(site.beside)
    os.mkfifo(site.private / "going" / "a fifo~1")
    os.chmod(site.private, 0o700)
    young = site.add(age_hours=1)

    result = run(site)

    assert site.hidden() == []
    assert site.sessions() == [young]
    assert uuid_of(7) in result.finished_sessions
    assert "a~b" in result.finished_sessions
    assert len(result.finished_sessions) == 8
    assert {event for event, _ in site.events()} == {"finished"}


def test_a_dry_run_names_what_the_run_finishes_and_finishes_nothing(site: Site) -> None:
    (site.private / "going" / "left~1").mkdir(parents=True)
    before = tree_of(site.top)
    named = run(site, dry_run=True)
    assert tree_of(site.top) == before
    assert str(named) == (
        "Would delete 0 sessions (0 B), skipped 0, would finish 1 begun before [dry run]"
    )
    assert named.finished_sessions == run(site).finished_sessions == ["left"]


def test_what_can_not_be_finished_is_told_and_keeps_no_other_from_going(site: Site) -> None:
    (site.private / "going" / "left~1").mkdir(parents=True)
    (site.private / "going" / "left~1" / "stubborn").touch()
    old = site.add(age_hours=60)
    site.fs.plan = lambda _, call: errno.EPERM if on("unlink", "stubborn")(call) else None

    result = run(site)

    assert result.deleted_sessions == [old]
    assert "out of sight in .prune/going/left~1," in result.errors["left"]
    assert "stubborn" in result.errors["left"]


def test_sessions_of_which_nothing_is_to_go_are_not_even_measured(site: Site) -> None:
    young = [site.add(age_hours=1) for _ in range(3)]
    run(site)
    assert not [call for call in site.fs.trace if call.path.endswith("data.txt")]
    assert site.sessions() == young


def test_a_root_that_can_not_be_listed_is_told(site: Site) -> None:
    site.add(age_hours=60)
    site.fs.plan = nth_of("listdir", 0, errno.EIO)
    watcher = Watcher()
    with pytest.raises(PruneRootUnusable) as caught:
        run(site, observer=watcher)
    assert caught.value.reason == os.strerror(errno.EIO)
    assert isinstance(caught.value, OSError)


def test_several_names_of_one_file_count_once(site: Site) -> None:
    old = site.add(age_hours=60, files={"a": b"x" * 10_000})
    os.link(site.root / old / "a", site.root / old / "b")
    single = sum(path.stat().st_size for path in (site.root / old).iterdir() if path.name != "b")
    assert run(site, dry_run=True).reclaimed_bytes == single


def test_a_hard_link_to_a_file_outside_loses_only_its_name(site: Site) -> None:
    old = site.add(age_hours=60)
    os.link(site.beside / "file", site.root / old / "hard")
    assert run(site).deleted_sessions == [old]
    assert (site.beside / "file").read_bytes() == b"alive"


def test_the_directory_of_a_session_is_the_one_that_is_emptied(site: Site) -> None:
    """Moved out of `going` while it is emptied, it is still the one, and nothing else is."""
    old = site.add(age_hours=60)
    victim = site.top / "victim"
    (victim / "precious").mkdir(parents=True)

    def swap() -> None:
        [hidden] = site.hidden()
        (site.private / "going" / hidden).rename(site.top / "moved")
        (site.private / "going" / hidden).symlink_to(victim)

    site.fs.before = once(on("unlink", ""), swap)
    result = run(site)

    assert (victim / "precious").is_dir()
    assert result.deleted_sessions == []
    assert result.unfinished_sessions == [old]
    site.fs.before = None
    run(site)
    assert (victim / "precious").is_dir()
    assert site.hidden() == []


def test_what_is_written_into_a_session_as_it_goes_goes_with_it(site: Site) -> None:
    old = site.add(age_hours=60)

    def write() -> None:
        [hidden] = site.hidden()
        (site.private / "going" / hidden / "late").touch()

    site.fs.before = once(on("rmdir", old), write)
    result = run(site)

    assert result.deleted_sessions == [old]
    assert result.unfinished_sessions == []
    assert site.hidden() == []


def test_an_archiver_that_is_interrupted_lets_go_of_everything(site: Site) -> None:
    names = [site.add(age_hours=60), site.add(age_hours=50)]
    before = below(tree_of(site.root), names[1])

    class Interrupted:
        def archive(self, fs: object, session_fd: int, candidate: Any) -> Path:
            if candidate.session_id == names[0]:
                raise OSError(errno.EIO, "no")
            raise KeyboardInterrupt

    refused: list[int] = []

    class Strict(OsFileSystem):
        def close(self, fd: int) -> None:  # type: ignore[override]
            try:
                os.close(fd)
            except OSError:
                refused.append(fd)
                raise

    site.fs = FaultyFileSystem(real=Strict())
    with pytest.raises(KeyboardInterrupt):
        run(site, archiver=Interrupted())

    assert site.fs.open_descriptors == {}
    assert refused == []  # nothing is closed twice: the number may be somebody else's by then
    assert below(tree_of(site.root), names[1]) == before


# ---------------------------------------------------------------- what is not ours


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a file away takes root")
@pytest.mark.parametrize("where", [".", "data.txt", "deep/er", "deep/er/file"])
def test_a_session_that_holds_another_users_file_is_left_alone(site: Site, where: str) -> None:
    theirs, old = site.add(age_hours=60), site.add(age_hours=50)
    os.chown(site.root / theirs / where, 12_345, -1)
    before = below(tree_of(site.root), theirs)

    result = run(site)

    assert result.deleted_sessions == [old]
    assert [(one.session_id, str(one.reason)) for one in result.skipped] == [
        (theirs, "other_owner")
    ]
    assert below(tree_of(site.root), theirs) == before


@pytest.mark.parametrize("ahead_s", [1, 299, 301, 10**9])
@pytest.mark.parametrize(
    "policy", [RetentionPolicy(max_sessions=0), RetentionPolicy(max_total_bytes=0)]
)
def test_a_session_from_the_future_is_never_deleted_and_it_is_told(
    site: Site, ahead_s: float, policy: RetentionPolicy
) -> None:
    name = site.add(age_hours=-ahead_s / 3_600)
    result = run(site, policy)
    assert result.deleted_sessions == []
    assert [(one.session_id, str(one.reason)) for one in result.skipped] == [
        (name, "dated_in_the_future")
    ]
    assert site.sessions() == [name]


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_is_needed_is_told_and_counted(site: Site, dry_run: bool) -> None:
    busy, pinned, young = site.add(age_hours=60), site.add(age_hours=50), site.add(age_hours=1)
    pin(SandboxTarget(site.root), pinned, outside=site.outside())
    pin(SandboxTarget(site.root), young, outside=site.outside())
    watcher = Watcher()
    with locked(site.root / busy):
        result = run(site, dry_run=dry_run, observer=watcher)
    assert [(one.session_id, str(one.reason)) for one in result.skipped] == [
        (busy, "in_use"),
        (pinned, "pinned"),
    ]
    assert result.skipped_sessions == [busy, pinned]
    assert [told for told in watcher.told if told[0] == "skipped"] == [
        ("skipped", busy),
        ("skipped", pinned),
    ]
    assert site.sessions() == [busy, pinned, young]


def test_what_is_taken_after_it_was_decided_is_told_and_counted(site: Site) -> None:
    old = site.add(age_hours=60)
    result = run_and_take(site, old)
    assert [(one.session_id, str(one.reason)) for one in result.skipped] == [(old, "in_use")]
    assert result.skipped_sessions == [old]
    assert why(result)[old] == (Reason.IN_USE,)
    assert (result.deleted_sessions, site.sessions()) == ([], [old])


def test_an_unmet_bound_is_in_the_result(site: Site) -> None:
    legacy = [site.add(age_hours=None) for _ in range(3)]
    dated = [site.add(age_hours=hours) for hours in (50, 40, 30)]
    result = run(site, RetentionPolicy(max_sessions=2))
    assert result.deleted_sessions == dated[:1]
    assert site.sessions() == sorted([*legacy, *dated[1:]])
    assert [(told.rule, told.bound, told.stays) for told in result.unmet] == [
        ("max_sessions", 2, 5)
    ]
    assert str(result).endswith("skipped 3, 5 sessions stay, more than 2")


def test_how_many_more_are_due_is_in_the_result(site: Site) -> None:
    for number in range(5):
        site.add(age_hours=90 - number)
    result = run(site, RetentionPolicy(max_age_hours=24, max_deletions=2))
    assert result.due == 3
    assert "3 more due" in str(result)
    assert run(site).due == 0


# ---------------------------------------------------------------- half made, half deleted


DISCARDED = ".discarded-00000000000000d1"
INCOMING = ".incoming-0000000000000000000000000000000"


def stray(site: Site, name: str, age_hours: float = 0) -> str:
    write_files(site.root / name, {"deep/er/file": b"x" * 9})
    at = (site.clock.now - timedelta(hours=age_hours)).timestamp()
    os.utime(site.root / name, (at, at))
    return name


def test_what_dead_processes_left_is_swept_and_told(site: Site) -> None:
    gone = [stray(site, DISCARDED), stray(site, INCOMING + "1", 2)]
    (site.root / (INCOMING + "f")).write_text("half")
    os.utime(site.root / (INCOMING + "f"), (0, 0))
    kept = [
        stray(site, INCOMING + "2", 0.5),
        stray(site, ".other"),
        stray(site, "x" + DISCARDED),
        stray(site, ".discarded-notes"),
        stray(site, ".incoming-mail", 99),
        stray(site, DISCARDED + "\n"),
    ]
    before = tree_of(site.top)

    would = run(site, dry_run=True)
    assert would.swept == [*gone, INCOMING + "f"]
    assert tree_of(site.top) == before

    result = run(site)
    assert result.swept == would.swept
    assert "swept 3 left half done" in str(result)
    assert site.sessions() == sorted(kept)
    assert site.hidden() == []
    assert site.events() == [
        *(("sweeping", name) for name in result.swept),
        *(("swept", name) for name in result.swept),
    ]
    assert run(site).swept == []


def test_nothing_is_swept_while_somebody_holds_the_root(site: Site) -> None:
    """Whoever deletes a session holds the root locked, and it has such a name meanwhile."""
    name = stray(site, DISCARDED)
    with locked(site.root):
        assert run(site, dry_run=True).swept == []
        assert run(site).swept == []
    with locked(site.root / name):
        assert run(site).swept == []
    assert run(site).swept == [name]


def test_a_sweep_that_resists_is_told_and_goes_on_with_the_next_prune(site: Site) -> None:
    stray(site, DISCARDED)
    other = stray(site, DISCARDED[:-1] + "2")
    (site.root / DISCARDED / "top").touch()
    with immutable(site.root / DISCARDED / "top"):
        result = run(site)
        assert result.swept == [other]
        assert list(result.errors) == [DISCARDED]
    assert run(site).finished_sessions == [DISCARDED]
