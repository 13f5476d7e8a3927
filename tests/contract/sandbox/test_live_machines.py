"""A machine's state is captured between two turns, and goes on in the same or another machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from agentforge_sessions.sandbox import prepare
from tests.support.live_machines import LiveMachine, loaded, machines, saved

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)

NewMachine = Callable[[], LiveMachine]


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
        "found = steps(); next(found); next(found)",
        "print(*found, open('log').read().split())",
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
