"""A system call under a guest's program fails: the program, or its result, says so.

Every system call that a program makes on the own host is made to fail in turn. Nothing is raised
but that no program can be run; the next execution of the same sandbox is as any other.
"""

from __future__ import annotations

import ast
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from agentforge_sessions.sandbox import SandboxUnavailable, prepare
from agentforge_sessions.sandbox.host.preview1.guest import ERRNOS
from agentforge_sessions.sandbox.interpreters.process_pool import configure_pool, pool_stats
from agentforge_sessions.sandbox.workspaces.quota import usage_counter
from agentforge_sessions.sandbox.workspaces.workspace_tree import measure_tree
from tests.support.descriptors import held_below
from tests.support.filesystem import every_call_from, nth_call
from tests.support.host_calls import FaultyCalls
from tests.support.own_sandboxes import sandbox_with
from tests.support.soak import SOAKING

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(1800)

NUMBERS: Final = (errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EDQUOT)
EACH: Final = [(number,) for number in NUMBERS] if SOAKING else [NUMBERS]
"""The errnos that the calls fail with, one after the other."""

STEP: Final = 1 if SOAKING else 12
"""Of the calls that fail, one in so many."""

PROGRAM = """
import os, shutil, sqlite3
told = []

def attempt(do):
    try:
        do()
    except sqlite3.Error as error:
        told.append('sqlite')
    except OSError as error:
        told.append(error.errno)
    except BaseException as error:
        told.append(type(error).__name__)

def write(name, text, mode='w'):
    with open(name, mode) as file:
        file.write(text)

def log():
    with sqlite3.connect('data.db') as connection:
        connection.execute('create table if not exists t(a)')
        connection.execute('insert into t values(1)')
    connection.close()

attempt(lambda: write('plain.txt', 'x' * 10_000))
attempt(lambda: write('plain.txt', 'y' * 10_000, 'a'))
attempt(lambda: os.makedirs('d/e/f', exist_ok=True))
attempt(lambda: write('d/e/f/deep.txt', 'deep'))
attempt(lambda: os.rename('d', 'moved'))
attempt(lambda: os.symlink('e/f/deep.txt', 'moved/link'))
attempt(lambda: open('moved/link').read())
attempt(lambda: shutil.copytree('moved', 'copy', symlinks=True))
attempt(log)
attempt(lambda: os.utime('plain.txt', (5, 6)))
attempt(lambda: shutil.rmtree('moved'))
attempt(lambda: write('/tmp/private', 'z' * 1000))
attempt(lambda: sorted(os.walk('.')))
print(told)
"""
AFTERWARDS = "open('afterwards', 'w').write('x'); print(open('kept').read())"


def test_a_disk_that_refuses_every_close_is_a_loss_and_no_error(tmp_path: Path) -> None:
    calls = FaultyCalls()
    sandbox = sandbox_with(calls, tmp_path / "w")
    calls.begin(every_call_from(0, errno.EIO, ["close"]))
    result = sandbox.execute(
        "import os\n"
        "held = os.open('held', os.O_CREAT | os.O_WRONLY); os.write(held, b'x')\n"
        "other = os.open('other', os.O_CREAT | os.O_WRONLY); os.write(other, b'x')\n"
        "try: os.close(other)\n"
        "except OSError as error: print(error.errno)\n"
    )
    assert (result.stdout, result.exit_code, result.success) == ("29\n", 0, False)
    assert [(lost.path, lost.errno, lost.at) for lost in result.lost_writes] == [
        ("held", "EIO", "close"),
        ("other", "EIO", "close"),
    ]
    assert held_below(tmp_path) == []


def test_a_process_without_descriptors_left_runs_none_and_says_so(tmp_path: Path) -> None:
    calls = FaultyCalls()
    sandbox = sandbox_with(calls, tmp_path / "w")
    calls.begin(every_call_from(0, errno.EMFILE, ["dup"]))
    with pytest.raises(SandboxUnavailable, match="Too many open files"):
        sandbox.execute("print(1)")
    calls.begin()
    assert sandbox.execute("print(1)").success
    assert held_below(tmp_path) == []


@pytest.fixture(autouse=True)
def _no_pool() -> Iterator[None]:
    """Nothing is opened ahead or kept, so that what is open is a program's."""
    prepare()
    before = pool_stats().size
    configure_pool(0)
    yield
    configure_pool(before)


def test_a_program_is_told_of_a_fault_and_the_next_one_runs(tmp_path: Path) -> None:
    calls = FaultyCalls()

    def run(top: Path, plan: object) -> list[object] | None:
        """What the program was told, or None if it could not be run, or not to its end."""
        sandbox = sandbox_with(calls, top / "w")
        (top / "w" / "kept").write_text("as it was")
        calls.begin(plan)  # type: ignore[arg-type]
        told: list[object] | None = None
        try:
            result = sandbox.execute(PROGRAM)
        except SandboxUnavailable:
            pass
        else:
            told = ast.literal_eval(result.stdout) if result.stdout else None
            if result.lost_writes:
                assert not result.success
        trace, failed = calls.trace, calls.failed
        calls.begin()
        afterwards = sandbox.execute(AFTERWARDS)
        assert (afterwards.success, afterwards.stdout) == (True, "as it was\n"), afterwards
        assert held_below(top) == []
        root = os.open(top / "w", os.O_RDONLY)
        seen = os.fstat(root)
        usage = usage_counter((seen.st_dev, seen.st_ino))._usage
        held = measure_tree(root, max_entries=10_000)
        os.close(root)
        assert usage is None or (usage.bytes, usage.entries) == held
        sandbox.close()
        calls.trace, calls.failed = trace, failed
        return told

    assert run(tmp_path / "whole", None) == []
    count = len(calls.trace)
    met = 0
    for numbers in EACH:
        for index in range(0, count, STEP):
            number = numbers[index // STEP % len(numbers)]
            told = run(tmp_path / f"{number}-{index}", nth_call(index, number))
            [failed] = calls.failed
            if told and {ERRNOS[number], "sqlite", None} & set(told):  # shutil's own has no number
                met += 1
            elif told == []:  # it was told nothing, so nothing is missing
                here = tmp_path / f"{number}-{index}" / "w"
                assert (here / "plain.txt").read_text() == "x" * 10_000 + "y" * 10_000, failed
                assert (here / "copy/e/f/deep.txt").read_text() == "deep", failed
                assert not (here / "moved").exists(), failed
    assert met > count // STEP // 3
