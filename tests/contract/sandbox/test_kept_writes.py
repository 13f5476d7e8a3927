"""A write that was not kept is an error at the write, and never a success."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from agentforge_sessions.sandbox import (
    ExecutionPolicy,
    Sandbox,
    create_sandbox,
    create_session_sandbox,
    prepare,
    read_session_metadata,
)
from agentforge_sessions.sandbox.result_parts import LostWrite
from tests.support.mounts import mounted_tmpfs

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)

LIMIT: Final = 1 << 20
POLICY: Final = ExecutionPolicy(
    workspace_bytes=LIMIT,
    workspace_files=50,
    memory_bytes=128 << 20,
    file_bytes=1 << 30,
    temporary_bytes=LIMIT,
)


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    prepare()


@pytest.fixture(scope="module", params=[None, "process"], ids=["here", "apart"])
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sandbox]:
    workspace = tmp_path_factory.mktemp("shared") / "w"
    with create_sandbox(workspace=workspace, policy=POLICY, isolation=request.param) as made:
        yield made


@pytest.fixture
def sandbox(shared: Sandbox) -> Sandbox:
    """One over an empty workspace; a worker may have served other tests."""
    for left in shared.workspace.iterdir():
        left.rmdir() if left.is_dir() else left.unlink()
    return shared


LOSING = {
    "in_a_destructor": "open('{0}', 'wb').write(bytes(4000)) and print('went on')",
    "at_exit": "left = open('{0}', 'wb'); left.write(bytes(4000)); print('went on')",
    "at_close_ignored": "f = open('{0}', 'wb')\nf.write(bytes(4000))\n"
    "try: f.close()\nexcept OSError: print('went on')",
    "without_a_buffer": "import os\nfd = os.open('{0}', os.O_WRONLY | os.O_CREAT)\n"
    "try: os.write(fd, bytes(4000))\nexcept OSError: print('went on')",
    "by_growing": "import os\nf = open('{0}', 'wb')\n"
    "try: os.ftruncate(f.fileno(), 4000)\nexcept OSError: print('went on')",
}


@pytest.mark.parametrize("name", LOSING)
@pytest.mark.parametrize("path", ["lost.bin", "/tmp/lost.bin"])
def test_what_the_quota_refuses_is_no_success(sandbox: Sandbox, name: str, path: str) -> None:
    full = sandbox.execute(f"open('full', 'wb').write(bytes({LIMIT - 1000}))")
    assert full.success
    apart = path.startswith("/tmp")  # what lies in memory has a quota of its own
    filled = f"open('/tmp/full', 'wb').write(bytes({LIMIT - 1000}))\n" if apart else ""
    result = sandbox.execute(filled + LOSING[name].format(path))
    assert result.stdout == "went on\n"
    assert (result.exit_code, result.trapped, result.success) == (0, None, False)
    assert result.lost_writes == (LostWrite(path=path, method="write", errno="ENOSPC", at="write"),)
    quota = "temporary_bytes" if apart else "workspace_bytes"
    assert result.metadata["quota_exceeded"] == (quota,)
    held = sum(file.stat().st_size for file in sandbox.workspace.iterdir())
    assert held <= LIMIT


def test_the_error_comes_at_the_write(sandbox: Sandbox) -> None:
    result = sandbox.execute(
        "import os\n"
        "fds = [os.open(str(i), os.O_WRONLY | os.O_CREAT) for i in range(4)]\n"
        "told = []\n"
        "for _ in range(5):\n"
        "    for fd in fds:\n"
        "        try: os.write(fd, bytes(100_000))\n"
        "        except OSError as error: told.append(error.errno)\n"
        "for fd in fds: os.close(fd)\n"
        "print(told)\n"
    )
    assert result.stdout == f"{[51] * 10}\n"  # ten of twenty fit; 51 is the guest's ENOSPC
    assert [lost.path for lost in result.lost_writes] == ["0", "1", "2", "3"]
    assert sum(file.stat().st_size for file in sandbox.workspace.iterdir()) == 1_000_000


MADE_GOOD = {
    "removed": "os.remove('f')",
    "replaced": "open('g', 'wb').close(); os.replace('g', 'f')",
    "begun_anew": "open('f', 'wb').write(b'short')",
    "written_after_all": "os.remove('big'); os.write(fd, bytes(400_000))",
    "moved_away_and_removed": "os.rename('f', 'h'); os.remove('h')",
}


@pytest.mark.parametrize("name", MADE_GOOD)
def test_a_program_that_copes_with_a_full_disk_succeeds(tmp_path: Path, name: str) -> None:
    sandbox = create_sandbox(workspace=tmp_path / "w", policy=POLICY)
    result = sandbox.execute(
        "import os\n"
        "open('big', 'wb').write(bytes(800_000))\n"
        "fd = os.open('f', os.O_WRONLY | os.O_CREAT)\n"
        "try: os.write(fd, bytes(400_000))\n"
        "except OSError: pass\n"
        f"{MADE_GOOD[name]}\n"
    )
    assert result.success, result
    assert result.lost_writes == ()
    assert result.metadata["refused_writes"] == 1


def test_a_lost_file_is_told_by_the_name_that_it_has_at_the_end(tmp_path: Path) -> None:
    sandbox = create_sandbox(workspace=tmp_path / "w", policy=POLICY)
    result = sandbox.execute(
        "import os\n"
        "os.mkdir('d')\n"
        "f = open('d/f', 'wb', 0)\n"
        "try: f.write(bytes(2_000_000))\n"
        "except OSError: pass\n"
        "os.rename('d', 'e')\n"
    )
    assert [lost.path for lost in result.lost_writes] == ["e/f"]


def test_a_refusal_that_a_call_answered_is_the_programs_own_affair(tmp_path: Path) -> None:
    sandbox = create_sandbox(workspace=tmp_path / "w", policy=POLICY)
    result = sandbox.execute(
        "import os\n"
        "for i in range(60):\n"
        "    try: open(str(i), 'w').close()\n"
        "    except OSError: break\n"
        "try: os.mkdir('d')\n"
        "except OSError: print('none made')\n"
    )
    assert (result.success, result.stdout, result.lost_writes) == (True, "none made\n", ())


def test_a_session_is_not_used_by_what_was_lost(tmp_path: Path) -> None:
    session_id, sandbox = create_session_sandbox(workspace_root=tmp_path, policy=POLICY)
    before = read_session_metadata(session_id, tmp_path)
    result = sandbox.execute(f"left = open('f', 'wb', {4 << 20}); left.write(bytes(2_000_000))")
    assert result.exit_code == 0
    assert not result.success
    assert read_session_metadata(session_id, tmp_path) == before


def test_the_next_execution_of_a_kept_interpreter_is_judged_by_itself(tmp_path: Path) -> None:
    with create_sandbox(workspace=tmp_path / "w", policy=POLICY, stateful=True) as sandbox:
        lost = sandbox.execute(
            "f = open('f', 'wb', 0)\ntry: f.write(bytes(2_000_000))\nexcept OSError: pass"
        )
        assert not lost.success
        assert sandbox.execute("f.write(b'x' * 1000)").success
        assert sandbox.execute("f.close()").success
    assert (tmp_path / "w" / "f").stat().st_size == 1000


def test_a_file_may_be_larger_than_the_memory(tmp_path: Path) -> None:
    policy = ExecutionPolicy(memory_bytes=64 << 20)
    sandbox = create_sandbox(workspace=tmp_path / "w", policy=policy)
    result = sandbox.execute(
        "with open('f', 'wb', 0) as f:\n    for _ in range(70): f.write(bytes(1 << 20))"
    )
    assert result.success, result
    assert (sandbox.workspace / "f").stat().st_size == 70 << 20


def test_a_disk_that_is_full_is_told_by_the_write(tmp_path: Path) -> None:
    with mounted_tmpfs(tmp_path / "disk", options="size=1m") as disk:
        sandbox = create_sandbox(workspace=disk / "w")
        result = sandbox.execute(
            "import errno, os\nfd = os.open('f', os.O_WRONLY | os.O_CREAT)\n"
            "try:\n"
            "    for _ in range(4): os.write(fd, bytes(1 << 20))\n"
            "except OSError as error: print(errno.errorcode[error.errno])"
        )
        assert (result.stdout, result.success) == ("ENOSPC\n", False)
        (lost,) = result.lost_writes
        assert (lost.path, lost.errno, lost.at) == ("f", "ENOSPC", "write")


# ---------------------------------------------------------------- times


def test_times_are_set_as_anywhere(sandbox: Sandbox) -> None:
    result = sandbox.execute(
        "import os\n"
        "from pathlib import Path\n"
        "Path('new.txt').touch()\n"
        "Path('/tmp/new.txt').touch()\n"
        "os.mkdir('d')\n"
        "for path in ('new.txt', 'd', '/tmp/new.txt', '/tmp', '.'):\n"
        "    os.utime(path, ns=(1_000, 2_000_000_000))\n"
        "    assert os.stat(path).st_mtime_ns == 2_000_000_000, path\n"
        "with open('new.txt', 'w') as file:\n"
        "    file.write('x')\n"
        "    file.flush()\n"
        "    os.utime(file.fileno(), (3, 4))\n"
        "assert os.stat('new.txt').st_mtime == 4\n"
        "os.utime('new.txt')\n"
        "print(os.stat('new.txt').st_mtime > 10**9, Path('new.txt').read_text())\n"
    )
    assert (result.stdout, result.stderr) == ("True x\n", "")
    assert result.success
    assert result.files_created == ("new.txt",)
    assert (sandbox.workspace / "new.txt").stat().st_mtime > 10**9
    assert (sandbox.workspace / "d").stat().st_mtime_ns == 2_000_000_000


def test_times_of_what_is_not_there_are_refused(tmp_path: Path) -> None:
    sandbox = create_sandbox(workspace=tmp_path / "w")
    own = sandbox.workspace / ".metadata.json"
    own.write_text("{}")
    os.symlink(own, sandbox.workspace / "link")
    before = own.stat().st_mtime_ns
    result = sandbox.execute(
        "import os\n"
        "for path in ('missing', 'd/missing', '.metadata.json', './.METADATA.json', 'link',\n"
        "             '/tmp/missing', 'file/'):\n"
        "    open('file', 'w').close()\n"
        "    try: os.utime(path, (1, 1)); print('SET', path)\n"
        "    except OSError as error: print(type(error).__name__)\n"
    )
    assert result.stdout == "FileNotFoundError\n" * 6 + "NotADirectoryError\n"
    assert own.stat().st_mtime_ns == before


def test_times_of_a_file_that_has_another_name_elsewhere_are_left(tmp_path: Path) -> None:
    sandbox = create_sandbox(workspace=tmp_path / "w")
    outside = tmp_path / "outside"
    outside.write_text("x")
    os.link(outside, sandbox.workspace / "linked")
    before = outside.stat().st_mtime_ns
    result = sandbox.execute(
        "import os\ntry: os.utime('linked', (1, 1))\nexcept PermissionError: print('refused')"
    )
    assert result.stdout == "refused\n"
    assert outside.stat().st_mtime_ns == before
