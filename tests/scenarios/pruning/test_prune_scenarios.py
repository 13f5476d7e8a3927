"""Pruning session workspaces: each scenario of the requirements, named for it."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agentforge_sessions.prune import PruneError, PruneResult, PruneRootMissing, PruneRootUnusable
from agentforge_sessions.sandbox import (
    create_session_sandbox,
    get_session_sandbox,
    prepare,
    prune_sessions,
)
from tests.support.filesystem import Call
from tests.support.mounts import immutable
from tests.support.prune_sites import Site, outside_of, size_of, tree_of, uuid_of
from tests.support.recorder import Recorder

HOUR = timedelta(hours=1)


def prune(site: Site, hours: float = 24, **options: object) -> PruneResult:
    return prune_sessions(hours, site.root, outside=site.outside(), **options)  # type: ignore[arg-type]


def failing(operation: str, where: str, number: int) -> Callable[[int, Call], int | None]:
    """Fail every call of one operation on a path that holds a text."""
    return lambda _, call: number if call.operation == operation and where in call.path else None


# ---------------------------------------------------------------- what goes


def test_scenario_prune_sessions_that_the_sandbox_made(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    now = datetime.now(UTC)
    old, _ = create_session_sandbox(workspace_root=root, clock=lambda: now - 25 * HOUR)
    young, _ = create_session_sandbox(workspace_root=root, clock=lambda: now - 23 * HOUR)

    assert prune_sessions(older_than_hours=24, workspace_root=root).deleted_sessions == [old]
    assert sorted(os.listdir(root)) == [".prune", young]


def test_scenario_dry_run_mode_lists_candidates_without_deleting(
    site: Site, recorder: Recorder
) -> None:
    old = [site.add(age_hours=hours) for hours in (48, 47)]
    site.add(age_hours=1)
    legacy = site.add(age_hours=None)
    before = tree_of(site.root)

    result = prune(site, 24, dry_run=True, logger=recorder)

    assert result.deleted_sessions == old
    assert result.skipped_sessions == [legacy]
    assert result.reclaimed_bytes == sum(size_of(site.root / name) for name in old)
    assert result.dry_run
    assert tree_of(site.root) == before
    assert [one["session_id"] for one in recorder.of("session.prune.candidate")] == old
    assert recorder.of("session.prune.deleted") == []
    assert {call.operation for call in site.fs.trace if call.writing} == set()


@pytest.mark.parametrize("dry_run", [True, False])
def test_scenario_calculate_disk_space_reclaimed(site: Site, dry_run: bool) -> None:
    files = {"a": b"x" * 1_048_576, "deep/b": b"y" * 524_288, "deep/er/empty": b""}
    old = [site.add(age_hours=30, files=files), site.add(age_hours=31)]
    (site.root / old[0] / "deep" / "link").symlink_to("b")
    young = site.add(age_hours=1, files={"big": b"z" * 999_999})
    expected = sum(size_of(site.root / name) for name in old)

    result = prune(site, 24, dry_run=dry_run)

    assert sorted(result.deleted_sessions) == old
    assert result.reclaimed_bytes == expected > 1_572_864
    assert young in site.sessions()


def test_scenario_calculate_disk_space_before_deletion(site: Site) -> None:
    """What a session holds is added up before the first of its files goes."""
    site.add(age_hours=30)

    prune(site, 24)

    steps = [(call.operation, call.path) for call in site.fs.trace]
    measured = [at for at, (op, path) in enumerate(steps) if op == "stat" and "data.txt" in path]
    gone = [at for at, (op, _) in enumerate(steps) if op in {"unlink", "rename"}]
    assert measured[0] < gone[0]


# ---------------------------------------------------------------- what resists


def test_scenario_handle_permission_errors_gracefully_when_a_session_can_not_be_moved(
    site: Site, recorder: Recorder
) -> None:
    old = [site.add(age_hours=30 + number) for number in range(5)]
    refused = old[2]
    whole = tree_of(site.root / refused)
    site.fs.plan = failing("rename", refused, errno.EACCES)

    result = prune(site, 24, logger=recorder)

    assert result.errors == {refused: os.strerror(errno.EACCES)}
    assert sorted(result.deleted_sessions) == sorted(set(old) - {refused})
    assert site.sessions() == [refused]
    assert tree_of(site.root / refused) == whole
    assert result.reclaimed_bytes > 0
    [failed] = recorder.of("session.prune.failed")
    assert failed == {"session_id": refused, "error": os.strerror(errno.EACCES)}
    assert ("warning", "session.prune.failed", failed) in recorder.told


def test_scenario_handle_permission_errors_gracefully_when_a_file_can_not_be_deleted(
    site: Site,
) -> None:
    old = [site.add(age_hours=30 + number) for number in range(5)]
    with immutable(site.root / old[1] / "data.txt"):
        result = prune(site, 24)

        assert sorted(result.deleted_sessions) == sorted(set(old) - {old[1]})
        assert list(result.errors) == [old[1]] == result.unfinished_sessions
        assert "data.txt" in result.errors[old[1]]
        assert "the next prune tries again" in result.errors[old[1]]
        assert site.sessions() == []
        assert len(site.hidden()) == 1
    again = prune(site, 24)
    assert again.finished_sessions == [old[1]]
    assert site.hidden() == []


def test_scenario_handle_permission_errors_gracefully_when_a_directory_is_immutable(
    site: Site,
) -> None:
    old = [site.add(age_hours=30 + number) for number in range(3)]
    whole = tree_of(site.root / old[1])
    with immutable(site.root / old[1]):
        result = prune(site, 24)

        assert sorted(result.deleted_sessions) == [old[0], old[2]]
        assert list(result.errors) == [old[1]]
        assert site.sessions() == [old[1]]
        assert tree_of(site.root / old[1]) == whole


def test_scenario_handle_permission_errors_gracefully_when_metadata_can_not_be_read(
    site: Site,
) -> None:
    old = [site.add(age_hours=30 + number) for number in range(3)]
    site.fs.plan = failing("open", f"{old[0]}/.metadata.json", errno.EACCES)

    result = prune(site, 24)

    assert result.skipped_sessions == []
    assert list(result.errors) == [old[0]]
    assert os.strerror(errno.EACCES) in result.errors[old[0]]
    assert sorted(result.deleted_sessions) == old[1:]


# ---------------------------------------------------------------- the root


def test_scenario_default_workspace_root(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    old = site.add(age_hours=99)
    site.root.rename(tmp_path / "workspace")
    site.root.mkdir()

    result = prune_sessions(outside=site.outside())

    assert result.deleted_sessions == [old]
    assert not (tmp_path / "workspace" / old).exists()


def test_scenario_validate_workspace_root_before_pruning(site: Site, recorder: Recorder) -> None:
    """A root that is none is refused before anything is looked at, told or made."""
    (site.top / "file").write_text("kept")
    os.mkfifo(site.top / "fifo")
    (site.top / "dangling").symlink_to("nowhere")
    before = tree_of(site.top)
    for name, kind in (
        ("file", PruneRootUnusable),
        ("fifo", PruneRootUnusable),
        ("dangling", PruneRootMissing),
        ("missing", PruneRootMissing),
        ("nul\0byte", PruneRootUnusable),
        ("n" * 300, PruneRootUnusable),
    ):
        for dry_run in (True, False):
            with pytest.raises(kind) as caught:
                prune_sessions(0, site.top / name, dry_run, recorder, outside=site.outside())
            assert isinstance(caught.value, PruneError)
            assert caught.value.path == site.top / name
            if kind is PruneRootMissing:
                assert "nothing was removed" in str(caught.value)
    assert recorder.told == []
    assert tree_of(site.top) == before


# ---------------------------------------------------------------- the result


def test_scenario_prune_result_contains_operation_details(site: Site) -> None:
    old = [site.add(age_hours=hours) for hours in (50, 40, 30)]
    young = site.add(age_hours=1)
    legacy = site.add(age_hours=None)
    broken = site.add(age_hours=None, files={".metadata.json": b"{"})
    site.fs.plan = failing("rename", old[1], errno.EPERM)

    result = prune(site, 24)

    assert result.deleted_sessions == [old[0], old[2]]
    assert result.skipped_sessions == [legacy, broken]
    assert result.reclaimed_bytes > 0
    assert result.errors == {old[1]: os.strerror(errno.EPERM)}
    assert result.dry_run is False
    assert result.duration_s >= 0
    assert [(str(one.reason), one.session_id) for one in result.skipped] == [
        ("no_metadata", legacy),
        ("corrupted_metadata", broken),
    ]
    assert [(one.candidate.session_id, one.remove) for one in result.decisions] == [
        *((name, True) for name in old),
        (young, False),
    ]


def test_scenario_prune_result_supports_string_representation(site: Site) -> None:
    size = 1_572_864
    name = site.add(age_hours=30, files={"x": b""})
    rest = size - size_of(site.root / name)
    (site.root / name / "x").write_bytes(b"x" * rest)
    site.add(age_hours=None)

    would = str(prune(site, 24, dry_run=True))
    did = str(prune(site, 24))

    assert would == "Would delete 1 session (1.5 MB), skipped 1 [dry run]"
    assert did == "Deleted 1 session (1.5 MB), skipped 1"


# ---------------------------------------------------------------- events


@pytest.mark.parametrize("dry_run", [True, False])
def test_scenario_log_pruning_lifecycle_events(
    site: Site, recorder: Recorder, dry_run: bool
) -> None:
    old = [site.add(age_hours=48), site.add(age_hours=36)]
    site.add(age_hours=1)
    sizes = [size_of(site.root / name) for name in old]

    result = prune(site, 24.5, dry_run=dry_run, logger=recorder)

    told = recorder.told
    assert told[0] == (
        "info",
        "session.prune.started",
        {"threshold": 24.5, "workspace_root": str(site.root), "dry_run": dry_run},
    )
    candidates = recorder.of("session.prune.candidate")
    assert [
        {key: one[key] for key in ("session_id", "age_hours", "size_bytes")} for one in candidates
    ] == [
        {"session_id": old[0], "age_hours": 48.0, "size_bytes": sizes[0]},
        {"session_id": old[1], "age_hours": 36.0, "size_bytes": sizes[1]},
    ]
    deleted = recorder.of("session.prune.deleted")
    assert [one["session_id"] for one in deleted] == ([] if dry_run else old)
    level, event, fields = told[-1]
    assert (level, event) == ("info", "session.prune.completed")
    assert isinstance(fields["duration"], float)
    assert {key: fields[key] for key in ("deleted_count", "skipped_count", "reclaimed_bytes")} == {
        "deleted_count": 2,
        "skipped_count": 0,
        "reclaimed_bytes": sum(sizes),
    }
    assert fields["reclaimed_bytes"] == result.reclaimed_bytes
    assert {level for level, _, _ in told} == {"info"}
    order = ["started", "candidate", "deleted", "completed"]
    steps = [order.index(name.removeprefix("session.prune.")) for name in recorder.names()]
    assert steps == sorted(steps)


def test_scenario_log_warnings_for_skipped_sessions(site: Site, recorder: Recorder) -> None:
    legacy = site.add(age_hours=None)
    broken = site.add(age_hours=None, files={".metadata.json": b"not json"})
    strange = site.add(age_hours=None, files={".metadata.json": b"[]"})
    site.add(age_hours=48)

    result = prune(site, 24, logger=recorder)

    assert result.skipped_sessions == [legacy, broken, strange]
    skipped = recorder.of("session.prune.skipped")
    assert [(one["session_id"], one["reason"]) for one in skipped] == [
        (legacy, "no_metadata"),
        (broken, "corrupted_metadata"),
        (strange, "corrupted_metadata"),
    ]
    assert recorder.names("warning") == ["session.prune.skipped"] * 3
    assert all(one["detail"] for one in skipped)


# ---------------------------------------------------------------- what is never touched


def test_scenario_prevent_deletion_of_non_session_directories(
    site: Site, recorder: Recorder
) -> None:
    old = site.add(age_hours=99)
    content = (site.root / old / ".metadata.json").read_bytes()
    names = [
        "shared",
        ".git",
        "node_modules",
        "not-a-uuid",
        uuid_of(7).upper().replace("0", "A"),
        "A" + uuid_of(16)[1:],
        uuid_of(17)[:-1] + "F",
        "{" + uuid_of(8) + "}",
        uuid_of(9) + "\n",
        uuid_of(10) + ".bak",
        uuid_of(11).replace("-", ""),
        "x" + uuid_of(12),
        "urn:uuid:" + uuid_of(13),
        "session_20260101_000000_00000000",
        "\udcff" + uuid_of(14),
        uuid_of(15).replace("0", "\u0660", 1),
    ]
    for name in names:
        (site.root / name).mkdir()
        (site.root / name / "file").write_text("kept")
        (site.root / name / ".metadata.json").write_bytes(content)
    (site.root / "file.txt").write_text("kept")
    (site.root / uuid_of(99)).write_text("a file with a session's name")
    before = tree_of(site.root)

    result = prune(site, 0, logger=recorder)

    assert result.deleted_sessions == [old]
    assert result.skipped_sessions == []
    assert len(result.decisions) == 1
    assert outside_of(tree_of(site.root), [".prune"]) == outside_of(before, [old])
    told = json.dumps([fields for _, _, fields in recorder.told])
    assert not any(json.dumps(name)[1:-1] in told for name in [*names, uuid_of(99), "file.txt"])


def test_scenario_execute_legacy_session_without_metadata(site: Site) -> None:
    """A session from before there was metadata runs code as any other, and stays without."""
    prepare()
    legacy = uuid_of(1)
    (site.root / legacy).mkdir()
    (site.root / legacy / "data.txt").write_text("from before")

    sandbox = get_session_sandbox(legacy, workspace_root=site.root)
    result = sandbox.execute("print(open('data.txt').read())")

    assert result.success
    assert result.stdout == "from before\n"
    assert os.listdir(site.root / legacy) == ["data.txt"]


def test_scenario_prune_skips_legacy_sessions(site: Site, recorder: Recorder) -> None:
    dated = [site.add(age_hours=hours) for hours in (0, 1, 9_999)]
    legacy = [site.add(age_hours=None) for _ in range(3)]
    for name in legacy:
        os.utime(site.root / name, (0, 0))
    whole = [tree_of(site.root / name) for name in legacy]

    result = prune(site, 0, logger=recorder)

    assert sorted(result.deleted_sessions) == dated
    assert result.skipped_sessions == legacy
    assert site.sessions() == legacy
    assert [tree_of(site.root / name) for name in legacy] == whole
    assert {one["reason"] for one in recorder.of("session.prune.skipped")} == {"no_metadata"}


def test_scenario_names_in_the_audit_log_are_those_in_the_result(site: Site) -> None:
    old = [site.add(age_hours=99), site.add(age_hours=98)]

    prune(site, 24)

    assert site.events() == [
        *(("removing", name) for name in old),
        *(("removed", name) for name in old),
    ]
    line = site.audit()[0]
    assert re.fullmatch(r"2026-03-01T09:30:00\.000000Z", str(line["at"]))
    assert line["reasons"] == ["expired"]
    assert line["kind"] == "sandbox"
    assert line["by"] == {
        "user": "tester",
        "uid": 0,
        "pid": 1,
        "host": "here",
        "program": "pytest",
    }
