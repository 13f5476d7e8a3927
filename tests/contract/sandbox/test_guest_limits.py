"""Where files end on the own host: what is refused is refused by the call, and in words."""

from __future__ import annotations

import sqlite3
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import ExecutionPolicy, Sandbox, create_sandbox, prepare
from agentforge_sessions.sandbox.host.files.files import Opening
from agentforge_sessions.sandbox.host.preview1.guest import ERRNOS
from tests.support.host_trees import in_memory, served
from tests.support.wasm_probe import PAGE, Probe

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)

EILSEQ = 25
NO_TEXT = b"\xff\xfe"
CREATE = Opening(read=True, write=True, create=True, follow=True)


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    prepare()
    policy = ExecutionPolicy(open_files=20, workspace_bytes=2 << 20, file_bytes=1 << 20)
    return create_sandbox(workspace=tmp_path / "w", policy=policy)


# ---------------------------------------------------------------- the guest's programs


def test_one_descriptor_too_many_is_refused_by_the_call_and_one_closed_is_room(
    sandbox: Sandbox,
) -> None:
    result = sandbox.execute(
        "import errno, os\n"
        "held = []\n"
        "try:\n  while True: held.append(os.open(f'f{len(held)}', os.O_CREAT | os.O_RDWR))\n"
        "except OSError as error: print(error.errno == errno.EMFILE, len(held) <= 20)\n"
        "print(os.path.exists(f'f{len(held)}'))\n"
        "os.write(held[0], b'goes on'); os.close(held.pop())\n"
        "held.append(os.open('after', os.O_CREAT | os.O_RDWR)); print(os.pread(held[0], 9, 0))\n"
    )
    assert result.stdout == "True True\nFalse\nb'goes on'\n", result.stderr


def test_a_hole_counts_as_what_it_could_hold(sandbox: Sandbox) -> None:
    result = sandbox.execute(
        "import errno, os\n"
        "def told(call, *args):\n"
        "  try: call(*args); return 'done'\n"
        "  except OSError as error: return errno.errorcode[error.errno]\n"
        "a, b, c = (os.open(name, os.O_CREAT | os.O_RDWR) for name in 'abc')\n"
        "print(told(os.ftruncate, a, 1 << 20), told(os.pwrite, b, b'x', (1 << 20) - 1))\n"
        "print(told(os.ftruncate, c, 1), told(os.pwrite, c, b'x', 5000), os.fstat(c).st_size)\n"
        "print(told(os.ftruncate, a, 1 << 21), told(os.ftruncate, a, 10))\n"
        "print(told(os.pwrite, c, b'x', 5000), os.fstat(c).st_size)\n"
    )
    assert result.stdout == "done done\nENOSPC ENOSPC 0\nEFBIG done\ndone 5001\n", result.stderr


@pytest.mark.parametrize("place", [".", "/tmp"])
def test_a_directory_may_change_while_it_is_read(sandbox: Sandbox, place: str) -> None:
    result = sandbox.execute(
        "import os\n"
        f"os.makedirs({place!r} + '/d'); os.chdir({place!r} + '/d')\n"
        "for i in range(300): open(f'old{i}', 'w').close()\n"
        "seen = []\n"
        "with os.scandir('.') as entries:\n"
        "  for i, entry in enumerate(entries):\n"
        "    seen.append(entry.name)\n"
        "    if i % 3 == 0: os.remove(entry.name)\n"
        "    elif i % 3 == 1: os.rename(entry.name, 'new-' + entry.name)\n"
        "    else: open(f'more{i}', 'w').close()\n"
        "old = [name for name in seen if name.startswith('old')]\n"
        "print(len(old), len(set(seen)) == len(seen), len(os.listdir('.')))\n"
    )
    assert result.stdout == "300 True 300\n", result.stderr


def test_a_name_that_is_no_text_is_refused_in_words(sandbox: Sandbox) -> None:
    result = sandbox.execute(
        "import os\n"
        "for call in (os.mkdir, os.stat, os.remove, lambda n: open(n, 'w')):\n"
        "  try: call(b'\\xff\\xfe')\n"
        "  except OSError as error: print(error.strerror)\n"
        "try: open('\\udcff', 'w')\n"
        "except OSError as error: print(error.strerror)\n"
    )
    assert result.stdout == "Illegal byte sequence\n" * 5, result.stderr
    assert result.files_created == ()


def test_a_rollback_journal_is_right_between_connections(sandbox: Sandbox) -> None:
    result = sandbox.execute(
        "import sqlite3\n"
        "one, other = (sqlite3.connect('x.db', timeout=0, isolation_level=None) for _ in '12')\n"
        "one.execute('create table t(a)')\n"
        "one.execute('begin immediate'); one.execute('insert into t values(1)')\n"
        "try: other.execute('begin immediate')\n"
        "except sqlite3.OperationalError as error: print(error)\n"
        "one.execute('rollback'); other.execute('begin immediate')\n"
        "other.execute('insert into t values(2)'); other.execute('commit')\n"
        "print(one.execute('select a from t').fetchall())\n"
        "print(one.execute('pragma integrity_check').fetchone()[0])\n"
    )
    assert result.stdout == "database is locked\n[(2,)]\nok\n", result.stderr


def test_a_write_ahead_log_is_refused_in_words(sandbox: Sandbox) -> None:
    made = sqlite3.connect(sandbox.workspace / "wal.db")
    made.execute("pragma journal_mode=wal")
    made.execute("create table t(a)")
    made.commit()
    made.close()
    result = sandbox.execute(
        "import sqlite3\n"
        "connection = sqlite3.connect('new.db')\n"
        "print(connection.execute('pragma journal_mode=wal').fetchone()[0])\n"
        "try: sqlite3.connect('wal.db').execute('select * from t')\n"
        "except sqlite3.OperationalError as error: print(error)\n"
    )
    assert result.stdout == "delete\nunable to open database file\n", result.stderr


# ---------------------------------------------------------------- the functions


def test_every_function_refuses_a_name_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    with served(tmp_path) as tree, in_memory(tmp_path) as memory:
        memory.root.open(b"f", CREATE).close()
        probe = Probe([("/app", tree.root), ("/tmp", memory.root)])
        bad, good = probe.put(NO_TEXT, 6000), probe.put(b"f", 7000)
        for at in (3, 4):
            answers = [
                probe.call("path_open", at, 1, *bad, 1, 64, 0, 0, 64),
                probe.call("path_filestat_get", at, 0, *bad, 512),
                probe.call("path_filestat_set_times", at, 0, *bad, 1, 1, 5),
                probe.call("path_create_directory", at, *bad),
                probe.call("path_remove_directory", at, *bad),
                probe.call("path_unlink_file", at, *bad),
                probe.call("path_readlink", at, *bad, 512, 100, 64),
                probe.call("path_symlink", *bad, at, *probe.put(b"new", 8000)),
                probe.call("path_symlink", *good, at, *bad),
                probe.call("path_link", at, 0, *bad, at, *good),
                probe.call("path_link", at, 0, *good, at, *bad),
                probe.call("path_rename", at, *bad, at, *good),
                probe.call("path_rename", at, *good, at, *bad),
            ]
            assert answers == [EILSEQ] * len(answers)
        assert [entry.name for entry in memory.root.entries()] == [b"f"]
        probe.close()
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


LARGE = 60 << 20
LARGE_CALLS = [
    "random_get",
    "fd_write",
    "fd_pread",
    "fd_pread of memory",
    "fd_readdir",
    "path_readlink",
    "fd_prestat_dir_name",
]


def _calls(probe: Probe) -> dict[str, Callable[[], int]]:
    """Calls that name 60 MiB of the guest's memory."""
    buffers, path = probe.put(struct.pack("<II", PAGE, LARGE), 128), probe.put(b"f", 7000)
    return {
        "random_get": lambda: probe.call("random_get", PAGE, LARGE),
        "fd_write": lambda: probe.call("fd_write", 5, buffers[0], 1, 64),
        "fd_pread": lambda: probe.call("fd_pread", 5, buffers[0], 1, 0, 64),
        "fd_pread of memory": lambda: probe.call("fd_pread", 6, buffers[0], 1, 0, 64),
        "fd_readdir": lambda: probe.call("fd_readdir", 3, PAGE, LARGE, 0, 64),
        "path_readlink": lambda: probe.call("path_readlink", 3, *path, PAGE, LARGE, 64),
        "fd_prestat_dir_name": lambda: probe.call("fd_prestat_dir_name", 3, PAGE, LARGE),
    }


def _traced(call: Callable[[], int]) -> tuple[int, int]:
    """What a call answers, and the most that this process held more meanwhile."""
    tracemalloc.start()
    try:
        return call(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", LARGE_CALLS)
def test_a_call_on_much_memory_has_the_host_allocate_little(tmp_path: Path, name: str) -> None:
    """So `os.urandom(1 << 30)` costs the guest's memory alone."""
    with served(tmp_path) as tree, in_memory(tmp_path) as memory:
        probe = Probe([("/app", tree.root), ("/tmp", memory.root)])
        assert probe.call("grow", (62 << 20) // PAGE - 32) == 32
        assert probe.open(b"f", how=1, write=True) == (0, 5)
        assert probe.open(b"f", how=1, write=True, at=4) == (0, 6)
        held = memory.root.open(b"f", CREATE)
        held.truncate(LARGE)
        call = _calls(probe)[name]
        peak = LARGE
        for _ in range(20):  # other threads may allocate meanwhile: the least counts
            answer, seen = _traced(call)
            assert answer in (0, ERRNOS[22])  # EINVAL: the file is no link
            peak = min(peak, seen)
            if peak < 1 << 20:
                break
        assert peak < 1 << 20
        held.close()
        probe.close()
