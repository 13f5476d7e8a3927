"""A machine's state is captured between two turns, and goes on in the same or another machine."""

from __future__ import annotations

import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from agentforge_sessions.sandbox import prepare
from agentforge_sessions.sandbox.host.preview1 import rights
from agentforge_sessions.sandbox.live.errors import ProgramSnapshotRefused
from agentforge_sessions.sandbox.live.snapshot_file import ProgramSnapshot
from tests.support.live_machines import LiveMachine, loaded, machines, saved

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)

NewMachine = Callable[..., LiveMachine]
SECOND: Final = 1_000_000_000


@pytest.fixture
def new(tmp_path: Path) -> Iterator[NewMachine]:
    prepare()
    with machines(tmp_path / "w") as one:
        yield one


OBJECTS: Final = {
    "variables, closures and cycles": (
        "def counter(at):\n"
        "    def more():\n"
        "        nonlocal at\n"
        "        at += 1\n"
        "        return at\n"
        "    return more\n"
        "more, ring = counter(40), []\n"
        "ring.append(ring)\n"
        "more()",
        "print(more(), ring[0] is ring)",
        "42 True\n",
    ),
    "a generator half-way": (
        "def steps():\n"
        "    with open('log', 'w') as file:\n"
        "        for i in range(5):\n"
        "            print(i, file=file)\n"
        "            yield i\n"
        "left = steps(); next(left); next(left)",
        "print(*left, open('log').read().split())",
        "2 3 4 ['0', '1', '2', '3', '4']\n",
    ),
    "a file that is written to, with what is not flushed yet": (
        "file = open('new', 'w'); file.write('one ')",
        "file.write('two'); file.close(); print(open('new').read())",
        "one two\n",
    ),
    "a file that is read and written": (
        "file = open('both', 'w+b'); file.write(b'abcdef'); file.seek(2)",
        "print(file.read(2)); file.write(b'X'); file.seek(0); print(file.read())",
        "b'cd'\nb'abcdXf'\n",
    ),
    "a file that is appended to": (
        "open('log', 'w').write('0'); file = open('log', 'a'); file.write('1')",
        "file.write('2'); file.close(); print(open('log').read())",
        "012\n",
    ),
    "an open file without a name": (
        "import os\n"
        "file = open('gone', 'w+'); file.write('still '); file.flush(); os.unlink('gone')",
        "file.write('here'); file.seek(0); print(file.read(), os.listdir())",
        "still here []\n",
    ),
    "temporary files": (
        "import tempfile, os\n"
        "named = tempfile.NamedTemporaryFile('w+'); named.write('named')\n"
        "plain = tempfile.TemporaryFile('w+'); plain.write('plain')\n"
        "folder = tempfile.mkdtemp(); os.symlink('deep', folder + '/link')\n"
        "os.mkdir(folder + '/deep'); open(folder + '/deep/file', 'w').write('deep')\n"
        "os.link(folder + '/deep/file', folder + '/twin')",
        "for each in (named, plain): each.seek(0); print(each.read())\n"
        "print(os.path.exists(named.name), open(folder + '/link/file').read())\n"
        "open(folder + '/twin', 'a').write('er'); print(open(folder + '/deep/file').read())\n"
        "named.close(); print(os.path.exists(named.name), folder[5:] in os.listdir('/tmp'))",
        "named\nplain\nTrue deep\ndeeper\nFalse True\n",
    ),
    "a directory that is being read": (
        "import os\n"
        "for i in range(300): open(f'{i:03}', 'w').close()\n"
        "found = os.scandir(); seen = [next(found).name for _ in range(7)]\n"
        "os.unlink(seen[0])",
        "seen += [each.name for each in found]; print(len(seen), len(set(seen)))",
        "300 300\n",
    ),
    "a database in memory, with a cursor half-way": (
        "import sqlite3\n"
        "base = sqlite3.connect(':memory:'); base.execute('create table t(x)')\n"
        "base.executemany('insert into t values(?)', [(i,) for i in range(1000)])\n"
        "found = base.execute('select x from t order by x'); found.fetchmany(10)",
        "print(next(found), sum(x for x, in found))",
        "(10,) 499445\n",
    ),
    "a database on disk, with an open transaction": (
        "import sqlite3\n"
        "base = sqlite3.connect('base.db'); base.execute('create table t(x)'); base.commit()\n"
        "base.execute('insert into t values(1)')",
        "base.execute('insert into t values(2)'); base.commit()\n"
        "print(sqlite3.connect('base.db').execute('select * from t').fetchall())",
        "[(1,), (2,)]\n",
    ),
    "chance": (
        "import random, copy\n"
        "random.seed(7); random.random(); wanted = copy.deepcopy(random.Random())\n"
        "wanted.setstate(random.getstate()); wanted = wanted.random()",
        "print(random.random() == wanted)",
        "True\n",
    ),
    "what was imported, and an exception with its traceback": (
        "import sys, json, re, types\n"
        "sys.modules['made'] = types.ModuleType('made'); sys.modules['made'].x = 5\n"
        "pattern = re.compile('a(.)')\n"
        "try: json.loads('{')\n"
        "except ValueError as error: caught = error",
        "import made, traceback\n"
        "print(made.x, pattern.search('cab')[1], len(traceback.format_exception(caught)) > 4)",
        "5 b True\n",
    ),
}


@pytest.mark.parametrize(("before", "after", "printed"), OBJECTS.values(), ids=OBJECTS)
def test_a_program_goes_on_in_another_machine(
    new: NewMachine, before: str, after: str, printed: str
) -> None:
    first = new()
    first.run(before)
    snapshot = saved(first.capture())
    first.machine.close_files()
    second = new()
    second.restore(loaded(snapshot))
    assert saved(second.capture()).description.ranges == snapshot.description.ranges
    assert second.run(after) == printed


def test_a_turn_that_must_not_count_is_undone_in_the_same_machine(new: NewMachine) -> None:
    live = new()
    live.run("import os; x, file = [1], open('/tmp/a', 'w+'); file.write('a'); file.flush()")
    state, counted = live.capture(), live.counted()
    live.run(
        "x.append(2); file.close(); os.unlink('/tmp/a'); os.mkdir('/tmp/b'); os.chdir('/tmp/b')\n"
        "more = [open('c', 'w'), os.open('.', os.O_RDONLY), os.scandir('/app')]; list(more[2])"
    )
    live.restore(state)
    assert live.counted() == counted
    again = live.capture()
    assert again._replace(monotonic_ns=0, wall_ns=0) == state._replace(monotonic_ns=0, wall_ns=0)
    code = "file.seek(0); print(x, file.read(), sorted(os.listdir('/tmp')), 'more' in globals())"
    assert live.run(code) == "[1] a ['.home', 'a'] False\n"


def test_what_is_restored_counts_as_if_it_had_been_opened(new: NewMachine) -> None:
    first, second = new(), new()
    first.run(
        "import os\n"
        "def big(name):\n"
        "    file = open(name, 'w+b'); file.write(bytes(5000)); file.flush(); return file\n"
        "held = [big(name) for name in ('/app/a', '/tmp/b', '/tmp/c')]; os.unlink('/tmp/c')\n"
        "os.mkdir('/tmp/d'); os.link('/tmp/b', '/tmp/d/e'); os.symlink('d/e', '/tmp/f')\n"
        "found = os.scandir('/tmp'); next(found)"
    )
    second.restore(loaded(saved(first.capture())))
    assert second.counted() == first.counted()
    for live in (first, second):
        live.run(
            "for each in held: each.close()\n"
            "found.close(); import shutil\n"
            "for name in ('b', 'd/e', 'f'): os.unlink('/tmp/' + name)\n"
            "os.rmdir('/tmp/d')"
        )
    assert second.counted() == first.counted()


CHANGES: Final = {
    "removed": "os.unlink('file')",
    "replaced": "open('other', 'w').write('other'); os.replace('other', 'file')",
    "a link": "os.unlink('file'); os.symlink('twin', 'file')",
    "a directory": "os.unlink('file'); os.mkdir('file')",
    "below a link": "os.rename('below', 'moved'); os.symlink('moved', 'below')",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_file_that_is_no_longer_the_same_is_stale_to_the_guest_alone(
    new: NewMachine, change: str
) -> None:
    first, other = new(), new()
    name = "below/file" if "below" in change else "file"
    first.run(
        f"import os, errno; os.mkdir('below'); open('twin', 'w').close()\n"
        f"file = open({name!r}, 'w+b', buffering=0); file.write(b'mine'); x = 5\n"
    )
    state = first.capture()
    other.run(f"import os; {change}")
    second = new()
    second.restore(state)
    code = (
        "def what(act, *more):\n"
        "    try: return act(*more)\n"
        "    except OSError as error: return errno.errorcode[error.errno]\n"
        "acts = file.read, file.readall, file.truncate, (lambda: file.write(b'x'))\n"
        "print(x, {what(act) for act in (*acts, lambda: os.fstat(file.fileno()))}); file.close()"
    )
    if "below" in change:  # it is the same file, whatever leads there
        assert second.run("file.seek(0); print(file.read())") == "b'mine'\n"
        return
    assert second.capture().descriptors.opened[0].path is None
    third = new()
    third.restore(second.capture())
    for live in (second, third):
        assert live.run(code) == "5 {'ESTALE'}\n"
    assert second.machine.guest.descriptors._opened == 0


def test_a_file_that_has_grown_meanwhile_is_the_same(new: NewMachine) -> None:
    first, other, second = new(), new(), new()
    first.run("file = open('log', 'a+'); file.write('1'); file.flush()")
    state = first.capture()
    other.run("open('log', 'a').write('2')")
    second.restore(state)
    assert second.run("file.write('3'); file.seek(0); print(file.read())") == "123\n"


def test_files_of_a_copied_workspace_are_known_by_their_content(
    new: NewMachine, tmp_path: Path
) -> None:
    first = new()
    first.run(
        "import os\n"
        "opened = [open(name, 'a' if name == 'b' else 'w+') for name in 'abcd']\n"
        "for each in opened: each.write(each.name * 300_000); each.flush()\n"
        "os.mkdir('below'); here = os.open('below', os.O_RDONLY)"
    )
    state = first.capture()
    shutil.copytree(tmp_path / "w", tmp_path / "copy")
    with open(tmp_path / "copy" / "c", "r+") as changed:
        changed.write("x")
    with open(tmp_path / "copy" / "d", "a") as changed:
        changed.write("x")
    (tmp_path / "copy" / "below" / "x").write_text("123")
    code = (
        "print(os.stat('x', dir_fd=here).st_size)\n"
        "for each in opened:\n"
        "    try: each.write('!'); each.flush(); print(os.stat(each.name).st_size)\n"
        "    except OSError as error: print(error.strerror)"
    )
    with machines(tmp_path / "copy") as there:
        copied = there()
        copied.restore(loaded(saved(state)))
        assert copied.run(code).splitlines() == [
            "3",
            "300001",
            "300001",
            *["Stale file handle"] * 2,
        ]


@pytest.mark.parametrize("mode", ["w", "a", "x", "r+", "w+"])
def test_a_file_that_lost_the_name_it_was_opened_by_goes_on(new: NewMachine, mode: str) -> None:
    first, second = new(), new()
    first.run(
        "import os\n"
        + ("" if mode == "x" else "open('one', 'w').close(); open('two', 'w').close()\n")
        + f"one, two = open('one', {mode!r}), open('two', {mode!r}); os.mkdir('below')\n"
        "os.link('one', 'below/other')\n"
        "for each in one, two: each.write('1'); each.flush(); os.unlink(each.name)"
    )
    second.restore(loaded(saved(first.capture())))
    code = (
        "for each in one, two: each.write('2'); each.flush()\n"
        "print(open('below/other').read(), os.fstat(two.fileno()).st_size, os.listdir())"
    )
    assert second.run(code) == "12 2 ['below']\n"


def test_a_file_without_a_name_is_carried_again_and_shared_by_its_handles(new: NewMachine) -> None:
    live = new()
    live.run(
        "import os; one = open('gone', 'w+b', buffering=0); two = open('gone', 'rb', buffering=0)\n"
        "os.unlink('gone'); one.write(b'1')"
    )
    for i in "23":
        state = loaded(saved(live.capture()))
        assert len(state.temporary.nodes) == 3
        live = new()
        live.restore(state)
        live.run(f"one.write(b'{i}')")
    assert live.run("print(two.read(), os.fstat(two.fileno()).st_nlink)") == "b'123' 0\n"


def test_descriptors_without_files_go_on_too(new: NewMachine) -> None:
    first, second = new(), new()
    first.run(
        "import os, sys\n"
        "top, above = os.open('/', os.O_RDONLY), os.open('/usr/local', os.O_RDONLY)\n"
        "lib = next(each for each in sys.path if each.endswith('.zip'))\n"
        "zip, read = open(lib, 'rb'), os.open(os.path.dirname(lib), os.O_RDONLY); zip.read(4)\n"
        "os.mkdir('/tmp/x'); gone = os.open('/tmp/x', os.O_RDONLY); os.rmdir('/tmp/x')\n"
        "os.close(5)"
    )
    second.restore(loaded(saved(first.capture())))
    code = (
        "def kind(name, at): return os.stat(name, dir_fd=at).st_mode\n"
        "print(kind('app', top), kind('lib', above), zip.read(4), zip.tell())\n"
        "print(kind(os.path.basename(lib), read), os.fstat(gone).st_nlink)\n"
        "try: os.fstat(5)\n"
        "except OSError as error: print(error.strerror)"
    )
    assert second.run(code) == first.run(code)
    assert 5 not in second.machine.guest.descriptors


def test_numbers_flags_and_given_up_rights_are_as_they_were(new: NewMachine) -> None:
    first, second = new(), new()
    first.run(
        "import os; held = [os.open(name, os.O_RDWR | os.O_CREAT) for name in 'abcde']\n"
        "for i in (3, 1): os.close(held[i])"
    )
    table = first.machine.guest.descriptors
    number = min(number for number, each in table.opened().items() if each.counted)
    rights.give_up(table.get(number), rights.READ, 0)
    rights.give_up(table.get(7), rights.OPEN, rights.READ)
    table.get(number).flags, table.get(number).position = 5, 77
    second.restore(loaded(saved(first.capture())))
    for live in (first, second):
        found = live.machine.guest.descriptors
        each, above = found.get(number), found.get(7)
        assert rights.rights_of(each) == (rights.READ, 0)
        assert rights.rights_of(above) == (rights.OPEN, rights.READ)
        assert (each.flags, each.position) == (5, 77)
    opening = "print([os.open(name, os.O_RDWR | os.O_CREAT) for name in 'xyz'])"
    assert second.run(opening) == first.run(opening)


def test_time_goes_on_by_the_wall_clock_and_never_back(new: NewMachine) -> None:
    first, second, third = new(), new(), new()
    first.run("import time; then = time.monotonic()")
    state = first.capture(wall_ns=lambda: 100 * SECOND)
    second.restore(state, wall_ns=lambda: 160 * SECOND)
    third.restore(state, wall_ns=lambda: 40 * SECOND)
    code = "print(int(time.monotonic() - then) // 10)"
    assert second.run(code) == "6\n"
    assert third.run(code) == "0\n"
    assert third.machine.guest.monotonic_ns() >= state.monotonic_ns


def test_memory_that_has_grown_is_no_way_back_but_another_machine_is(new: NewMachine) -> None:
    live, other, larger = new(), new(), new()
    live.run("x = 1")
    state = live.capture()
    live.run("x = bytearray(60 << 20); x[-1] = 7; del x[0]; x.append(8)")
    with pytest.raises(ProgramSnapshotRefused, match="grown"):
        live.restore(state)
    assert live.run("print(len(x), x[-2:])") == f"{60 << 20} bytearray(b'\\x07\\x08')\n"
    other.restore(state)
    assert other.run("print(x)") == "1\n"
    larger.restore(loaded(saved(live.capture())))
    assert larger.run("print(len(x), x[-2:])") == f"{60 << 20} bytearray(b'\\x07\\x08')\n"


def test_another_template_is_refused(new: NewMachine) -> None:
    live = new()
    state = live.capture()._replace(template="0" * 64)
    with pytest.raises(ProgramSnapshotRefused, match="another prepared interpreter"):
        live.restore(state)


BEFORE_DEATH: Final = """
import os, signal, sys
from pathlib import Path
from tests.support.live_machines import LiveMachine, saved

live = LiveMachine(Path(sys.argv[1]))
live.run(sys.argv[3])
saved(live.capture()).save(Path(sys.argv[2]))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_program_goes_on_after_its_process_was_killed(new: NewMachine, tmp_path: Path) -> None:
    prepare()
    place = tmp_path / "state.aflive"
    (tmp_path / "w").mkdir(exist_ok=True)
    code = "\n".join(OBJECTS[name][0] for name in OF_THE_KILLED)
    done = subprocess.run(
        [sys.executable, "-c", BEFORE_DEATH, tmp_path / "w", place, code],
        cwd=Path(__file__).parents[3],
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    snapshot = ProgramSnapshot.load(place)
    assert snapshot is not None
    live = new()
    live.restore(loaded(snapshot))
    for name in OF_THE_KILLED:
        _, after, printed = OBJECTS[name]
        assert live.run(after) == printed


OF_THE_KILLED: Final = (
    "variables, closures and cycles",
    "a generator half-way",
    "a database in memory, with a cursor half-way",
)
