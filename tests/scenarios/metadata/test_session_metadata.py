"""The metadata of sessions: made with them, moved on by use, never in the way, never a guest's."""

from __future__ import annotations

import errno
import json
import os
import re
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from agentforge_sessions.sandbox import (
    create_session_sandbox,
    get_session_sandbox,
    list_session_files,
    prune_sessions,
    read_session_metadata,
)
from agentforge_sessions.sandbox.session_workspaces.session_directory import OsSessionFileSystem
from agentforge_sessions.sandbox.session_workspaces.session_metadata import SessionMetadata
from tests.support.listing import names_in

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("interpreter")]

NAME = ".metadata.json"
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


class NoMetadata(OsSessionFileSystem):
    """A file system on which the metadata cannot be written."""

    def __init__(self, number: int) -> None:
        self.number = number

    def open(self, path: str, flags: int, mode: int = 0o600, *, dir_fd: int | None = None) -> int:  # type: ignore[override]
        if flags & os.O_CREAT and (path == NAME or path.startswith(".incoming-")):
            raise OSError(self.number, os.strerror(self.number), path)
        return os.open(path, flags, mode, dir_fd=dir_fd)


# ---------------------------------------------------------------- creation


def test_scenario_create_session_with_metadata(root: Path) -> None:
    earliest = datetime.now(UTC)
    session_id, sandbox = create_session_sandbox(workspace_root=root)
    latest = datetime.now(UTC)
    fields = json.loads((sandbox.workspace / NAME).read_bytes())
    assert set(fields) == {"session_id", "created_at", "updated_at", "version"}
    assert fields["session_id"] == session_id
    assert fields["version"] == 1
    assert fields["created_at"] == fields["updated_at"]
    assert STAMP.fullmatch(fields["created_at"])
    assert earliest <= datetime.fromisoformat(fields["created_at"]) <= latest
    assert names_in(root) == [session_id]


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOSPC, errno.EROFS])
def test_scenario_session_creation_fails_gracefully_if_metadata_write_fails(
    root: Path, recorder: Any, number: int
) -> None:
    session_id, sandbox = create_session_sandbox(
        workspace_root=root, logger=recorder, fs=NoMetadata(number)
    )
    assert recorder.warnings == [
        (
            "session.metadata.failed",
            {"session_id": session_id, "operation": "create", "reason": os.strerror(number)},
        )
    ]
    assert os.listdir(sandbox.workspace) == []
    result = sandbox.execute("open('works.txt', 'w').write('yes')")
    assert result.success
    assert os.listdir(sandbox.workspace) == ["works.txt"]
    assert len(recorder.warnings) == 1


# ---------------------------------------------------------------- updates


def test_a_session_that_is_asked_to_counts_its_executions(root: Path) -> None:
    session_id, sandbox = create_session_sandbox(workspace_root=root, rich_metadata=True)
    path = root / session_id / ".metadata.json"
    made = json.loads(path.read_text())
    assert set(made) == {"session_id", "created_at", "updated_at", "version"}

    first = sandbox.execute("print(1)")
    after_first = json.loads(path.read_text())
    failed = sandbox.execute("raise ValueError('no\\nmore')")
    last = json.loads(path.read_text())

    assert (first.success, failed.success) == (True, False)
    assert after_first["updated_at"] > made["updated_at"]
    assert (after_first["execution_count"], after_first["last_error"]) == (1, None)
    assert last["updated_at"] == after_first["updated_at"]
    assert last["execution_count"] == 2
    assert last["total_fuel_consumed"] == first.fuel_consumed + failed.fuel_consumed > 0
    assert last["last_error"] == failed.stderr.strip().splitlines()[-1]
    assert get_session_sandbox(session_id, workspace_root=root).execute("1").success
    assert json.loads(path.read_text())["execution_count"] == 2
    assert prune_sessions(0, root).deleted_sessions == [session_id]


def test_an_update_sweeps_what_dead_processes_left_in_the_root(root: Path) -> None:
    session_id, sandbox = create_session_sandbox(workspace_root=root)
    (root / ".discarded-1" / "deep").mkdir(parents=True)
    (root / ".incoming-1").write_text("half")
    os.utime(root / ".incoming-1", (0, 0))
    (root / ".incoming-2").write_text("on its way")
    with capture_logs() as told:
        assert sandbox.execute("1").success
    assert names_in(root) == [".incoming-2", session_id]
    [swept] = [one for one in told if one["event"] == "session.swept"]
    assert (swept["count"], swept["names"]) == (2, [".discarded-1", ".incoming-1"])


def test_scenario_update_timestamp_on_successful_execution(
    root: Path, clock: Any, recorder: Any
) -> None:
    session_id, sandbox = create_session_sandbox(workspace_root=root, clock=clock, logger=recorder)
    file = sandbox.workspace / NAME
    fields = json.loads(file.read_bytes())
    file.write_text(json.dumps({**fields, "owner": "alice", "tags": [1, 2.5, None]}))
    created = clock.now
    seen = [created]
    for _ in range(3):
        later = clock.advance(seconds=90)
        assert sandbox.execute("pass").success
        metadata = read_session_metadata(session_id, root)
        assert metadata == SessionMetadata(
            session_id=session_id,
            created_at=created,
            updated_at=later,
            extra={"owner": "alice", "tags": [1, 2.5, None]},
        )
        seen.append(later)
    after = json.loads(file.read_bytes())
    assert {**after, "updated_at": ""} == {
        **fields,
        "owner": "alice",
        "tags": [1, 2.5, None],
        "updated_at": "",
    }
    told = [fields for _, event, fields in recorder.told if event == "session.metadata.updated"]
    assert [datetime.fromisoformat(str(one["updated_at"])) for one in told] == seen[1:]


def test_updated_at_moves_on_even_if_the_clock_does_not(root: Path, clock: Any) -> None:
    session_id, sandbox = create_session_sandbox(workspace_root=root, clock=clock)
    created = clock.now
    sandbox.execute("pass")
    clock.advance(days=-400)
    sandbox.execute("pass")
    metadata = read_session_metadata(session_id, root)
    assert metadata is not None
    assert metadata.created_at == created
    assert metadata.updated_at == created + timedelta(microseconds=2)


def test_an_execution_that_failed_does_not_count_as_use(root: Path, clock: Any) -> None:
    _, sandbox = create_session_sandbox(workspace_root=root, clock=clock)
    before = (sandbox.workspace / NAME).read_bytes()
    clock.advance(hours=1)
    assert not sandbox.execute("raise SystemExit(3)").success
    assert (sandbox.workspace / NAME).read_bytes() == before


def test_an_execution_succeeds_even_if_the_update_fails(root: Path, recorder: Any) -> None:
    session_id, sandbox = create_session_sandbox(workspace_root=root)
    before = (sandbox.workspace / NAME).read_bytes()
    sandbox = get_session_sandbox(
        session_id, workspace_root=root, logger=recorder, fs=NoMetadata(errno.ENOSPC)
    )
    assert sandbox.execute("print('ran')").stdout == "ran\n"
    assert (sandbox.workspace / NAME).read_bytes() == before
    assert recorder.warnings == [
        (
            "session.metadata.failed",
            {
                "session_id": session_id,
                "operation": "update",
                "reason": os.strerror(errno.ENOSPC),
            },
        )
    ]
    assert names_in(root) == [session_id]


def test_scenario_skip_timestamp_update_for_sessions_without_metadata(
    root: Path, recorder: Any
) -> None:
    (root / "legacy-1").mkdir(parents=True)
    sandbox = get_session_sandbox("legacy-1", workspace_root=root, logger=recorder)
    assert sandbox.execute("open('new.txt', 'w').write('x')").success
    assert os.listdir(root / "legacy-1") == ["new.txt"]
    assert [event for _, event, _ in recorder.told] == [
        "session.retrieved",
        "execution.start",
        "execution.complete",
    ]


def test_scenario_handle_corrupted_metadata_gracefully(root: Path, recorder: Any) -> None:
    session_id, sandbox = create_session_sandbox(workspace_root=root, logger=recorder)
    file = sandbox.workspace / NAME
    file.write_bytes(b'{"session_id": "cut of')
    before = file.stat()
    assert sandbox.execute("print('ran')").stdout == "ran\n"
    assert file.read_bytes() == b'{"session_id": "cut of'
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    ((event, fields),) = recorder.warnings
    assert event == "session.metadata.corrupted"
    assert fields["session_id"] == session_id
    assert "it is no JSON (Unterminated string" in str(fields["reason"])


# ---------------------------------------------------------------- the file's form


def test_scenario_metadata_schema_validation(root: Path) -> None:
    session_id, sandbox = create_session_sandbox(workspace_root=root)
    fields = json.loads((sandbox.workspace / NAME).read_bytes())
    assert str(uuid.UUID(fields["session_id"])) == sandbox.workspace.name
    assert uuid.UUID(fields["session_id"]).version == 4
    for name in ("created_at", "updated_at"):
        assert isinstance(fields[name], str)
        moment = datetime.fromisoformat(fields[name])
        assert moment.utcoffset() == timedelta(0)
    assert type(fields["version"]) is int
    assert fields["version"] == 1
    metadata = read_session_metadata(session_id, root)
    assert metadata is not None
    assert metadata.version == 1


# ---------------------------------------------------------------- the guest


def test_scenario_metadata_is_hidden_from_guest_code(root: Path, recorder: Any) -> None:
    session_id, sandbox = create_session_sandbox(workspace_root=root, logger=recorder)
    file = sandbox.workspace / NAME
    os.mkdir(sandbox.workspace / "sub")
    before, known = file.read_bytes(), file.stat()
    looked = sandbox.execute(
        "import os, glob, pathlib\n"
        "print(os.listdir('/app'), [e.name for e in os.scandir('.')])\n"
        "print(glob.glob('/app/.*'), [str(p) for p in pathlib.Path('/app').rglob('*json')])\n"
        "for path in ('/app/.metadata.json', '.metadata.json', './/.metadata.json',\n"
        "             'sub/../.metadata.json', '/app/sub/../.metadata.json'):\n"
        "    try: open(path); print('OPENED', path)\n"
        "    except FileNotFoundError: pass\n"
        "    try: os.stat(path); print('SEEN', path)\n"
        "    except FileNotFoundError: pass\n"
        "raise SystemExit(7)\n"  # no success, so the host does not touch the file either
    )
    assert looked.exit_code == 7, looked.stderr
    assert looked.stdout.splitlines() == ["['sub'] ['sub']", "[] []"]
    assert file.read_bytes() == before
    tried = sandbox.execute(
        "import os\n"
        "def attempt(what, *args):\n"
        "    try: what(*args); print('DID', what.__name__, args)\n"
        "    except OSError: pass\n"
        "open('bait.json', 'w').write('{}')\n"
        "spellings = ['.metadata.json', '/app/.metadata.json', 'sub/../.metadata.json',\n"
        "             './.metadata.json', '.METADATA.JSON', '.metadata.json/', '.Metadata.json']\n"
        "for path in spellings:\n"
        "    for mode in ('w', 'a', 'r+', 'x'):\n"
        "        attempt(open, path, mode)\n"
        "    for what in (os.remove, os.rmdir, os.mkdir):\n"
        "        attempt(what, path)\n"
        "    attempt(os.truncate, path, 0)\n"
        "    attempt(os.rename, path, 'stolen.json')\n"
        "    attempt(os.rename, 'bait.json', path)\n"
        "    attempt(os.link, path, 'linked.json')\n"
        "    attempt(os.symlink, path, 'symlinked.json')\n"
        "    attempt(open, 'symlinked.json')\n"
        "    try: os.utime(path, (1, 1))\n"  # the runner takes it and does nothing
        "    except OSError: pass\n"
        "raise SystemExit(7)\n"
    )
    assert tried.exit_code == 7, tried.stderr
    assert "DID" not in tried.stdout.replace("DID symlink", "")
    assert file.read_bytes() == before
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (known.st_ino, known.st_mtime_ns)
    assert "stolen.json" not in os.listdir(sandbox.workspace)
    for result in (looked, tried):
        listed = (*result.files_created, *result.files_modified, *result.files_deleted)
        assert NAME not in listed
    # Neither do the sandbox's own updates show in what an execution changed.
    quiet = sandbox.execute("pass")
    assert (quiet.files_created, quiet.files_modified, quiet.files_deleted) == ((), (), ())
    assert file.read_bytes() != before
    assert NAME not in list_session_files(session_id, root)


# ---------------------------------------------------------------- sessions from before


def test_scenario_execute_legacy_session_without_metadata(root: Path, recorder: Any) -> None:
    (root / "legacy-1").mkdir(parents=True)
    (root / "legacy-1" / "old.txt").write_text("from before")
    sandbox = get_session_sandbox("legacy-1", workspace_root=root, logger=recorder)
    for _ in range(2):
        result = sandbox.execute("print(open('old.txt').read())")
        assert result.stdout == "from before\n"
        assert result.metadata["session_id"] == "legacy-1"
    assert os.listdir(root / "legacy-1") == ["old.txt"]
    assert read_session_metadata("legacy-1", root) is None
    assert recorder.warnings == []
