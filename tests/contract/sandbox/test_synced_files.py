"""What a guest's `fsync` does: answered at once, or by the disk where the policy says so."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

import pytest

from agentforge_sessions.sandbox import ExecutionPolicy, SandboxResult, create_sandbox, prepare
from tests.support.filesystem import Call
from tests.support.host_calls import FaultyCalls
from tests.support.own_sandboxes import sandbox_with

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)

SYNCED: Final = ExecutionPolicy(sync_files=True)
PROGRAM: Final = """
import errno, os
def synced(fd, sync=os.fsync):
    try: sync(fd)
    except OSError as error: print(errno.errorcode[error.errno])
    else: print('kept')
with open('f', 'w') as file:
    file.write('x')
    file.flush()
    synced(file.fileno())
    synced(file.fileno(), os.fdatasync)
synced(os.open('.', os.O_RDONLY))
for other in ('/tmp/f', '/app/g'):
    with open(other, 'w') as file: synced(file.fileno())
synced(0)
synced(99)
"""


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    prepare()


def run(calls: FaultyCalls, workspace: Path, policy: ExecutionPolicy) -> SandboxResult:
    with sandbox_with(calls, workspace, policy) as sandbox:
        return sandbox.execute(PROGRAM)


def syncs(calls: FaultyCalls) -> int:
    return sum(call.operation == "fsync" for call in calls.trace)


def test_it_is_answered_at_once_by_default(tmp_path: Path) -> None:
    calls = FaultyCalls()
    result = run(calls, tmp_path / "w", ExecutionPolicy())
    assert result.stdout.split() == ["kept"] * 6 + ["EBADF"], result
    assert syncs(calls) == 0


def test_the_disk_answers_where_the_policy_says_so(tmp_path: Path) -> None:
    calls = FaultyCalls()
    result = run(calls, tmp_path / "w", SYNCED)
    assert result.stdout.split() == ["kept"] * 6 + ["EBADF"], result
    assert result.success
    assert syncs(calls) == 4  # the file twice, its directory, the other file


def test_what_the_disk_did_not_keep_is_told_by_the_call_and_is_no_success(tmp_path: Path) -> None:
    def plan(_: int, call: object) -> int | None:
        return errno.EIO if isinstance(call, Call) and call.operation == "fsync" else None

    calls = FaultyCalls()
    calls.begin(plan)
    result = run(calls, tmp_path / "w", SYNCED)
    assert result.stdout.split() == ["EIO", "EIO", "EIO", "kept", "EIO", "kept", "EBADF"], result
    assert (result.exit_code, result.success) == (0, False)
    told = [(lost.path, lost.errno, lost.at) for lost in result.lost_writes]
    assert told == [("f", "EIO", "sync"), ("g", "EIO", "sync")]


def test_each_counts_as_a_call_on_a_file(tmp_path: Path) -> None:
    policy = ExecutionPolicy(sync_files=True, file_calls=100)
    with create_sandbox(workspace=tmp_path / "w", policy=policy) as sandbox:
        result = sandbox.execute("import os\nwith open('f', 'w') as f:\n while 1: os.fsync(f)")
        assert result.trapped == "files"
        assert sandbox.execute("print(1)").stdout == "1\n"


def test_a_process_apart_does_so_too(tmp_path: Path) -> None:
    with create_sandbox(workspace=tmp_path / "w", policy=SYNCED, isolation="process") as sandbox:
        result = sandbox.execute(PROGRAM)
    assert result.stdout.split() == ["kept"] * 6 + ["EBADF"], result
    assert sorted(os.listdir(tmp_path / "w")) == ["f", "g"]
