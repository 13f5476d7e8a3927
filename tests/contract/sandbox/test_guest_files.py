"""What programs find of files on the own host: a machine as any other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import ExecutionPolicy, Sandbox, create_sandbox, prepare

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    prepare()
    return create_sandbox(workspace=tmp_path / "w")


def test_two_connections_to_a_database_agree(sandbox: Sandbox) -> None:
    result = sandbox.execute(
        "import sqlite3\n"
        "one, other = sqlite3.connect('x.db'), sqlite3.connect('x.db')\n"
        "one.execute('create table t(a)')\n"
        "for i in range(5):\n"
        "    one.execute('insert into t values(?)', (i,))\n"
        "    one.commit()\n"
        "    assert other.execute('select count(*) from t').fetchall() == [(i + 1,)]\n"
        "one.execute('insert into t values(9)')\n"
        "one.rollback()\n"
        "print(other.execute('select sum(a) from t').fetchall())\n"
        "print(one.execute('pragma journal_mode=wal').fetchall())\n"
    )
    assert (result.stdout, result.stderr) == ("[(10,)]\n[('delete',)]\n", "")


def test_a_log_is_read_back_by_the_script_that_writes_it(sandbox: Sandbox) -> None:
    result = sandbox.execute(
        "import logging\n"
        "logging.basicConfig(filename='log', format='%(message)s')\n"
        "logging.warning('one')\n"
        "with open('log') as log: print(log.read(), end='')\n"
        "logging.warning('two')\n"
    )
    assert (result.stdout, (sandbox.workspace / "log").read_text()) == ("one\n", "one\ntwo\n")


def test_links_and_times_are_those_of_a_system(sandbox: Sandbox) -> None:
    result = sandbox.execute(
        "import os, pathlib\n"
        "pathlib.Path('a').write_text('x')\n"
        "os.symlink('a', 's'); os.link('a', 'h')\n"
        "pathlib.Path('h').write_text('both')\n"
        "print(open('s').read(), os.readlink('s'), os.stat('a').st_nlink, os.path.islink('s'))\n"
        "print(sorted(entry.name for entry in os.scandir() if entry.is_symlink()))\n"
        "for target in ('/etc/passwd', '../out'):\n"
        "    try: os.symlink(target, 'out'); print('made', target)\n"
        "    except OSError as error: print(type(error).__name__)\n"
        "os.utime('a', ns=(5, 6)); print(os.stat('h').st_mtime_ns)\n"
    )
    assert result.stdout == "both a 2 True\n['s']\nPermissionError\nPermissionError\n6\n"
    assert result.files_created == ("a", "h")
    assert os.readlink(sandbox.workspace / "s") == "a"


def test_a_program_of_two_executions_finds_its_links(sandbox: Sandbox) -> None:
    sandbox.execute("import os; open('a', 'w').write('x'); os.symlink('a', 's'); os.link('a', 'h')")
    result = sandbox.execute("open('h', 'a').write('y'); print(open('s').read(), open('h').read())")
    assert result.stdout == "xy xy\n"


def test_what_is_open_may_be_removed_and_replaced(sandbox: Sandbox) -> None:
    result = sandbox.execute(
        "import os\n"
        "f = open('f', 'w+'); f.write('old'); f.flush()\n"
        "open('g', 'w').write('new'); os.replace('g', 'f')\n"
        "f.seek(0); print(f.read(), open('f').read())\n"
        "os.remove('f'); f.write('er'); f.flush(); f.seek(0); print(f.read(), os.listdir())\n"
    )
    assert (result.stdout, result.files_created) == ("old new\nolder []\n", ())


def test_a_large_file_is_opened_without_being_read(sandbox: Sandbox) -> None:
    with (sandbox.workspace / "large").open("wb") as file:
        file.truncate(200 << 20)
    policy = ExecutionPolicy(memory_bytes=64 << 20)
    result = create_sandbox(workspace=sandbox.workspace, policy=policy).execute(
        "f = open('large', 'rb'); f.seek(-5, 2); print(f.read())"
    )
    assert result.stdout == f"{bytes(5)!r}\n"


def test_a_database_whose_writer_was_ended_is_whole_once_its_lock_is_removed(
    sandbox: Sandbox,
) -> None:
    ended = sandbox.execute(
        "import sqlite3\n"
        "db = sqlite3.connect('x.db'); db.execute('create table t(a)'); db.commit()\n"
        "db.execute('insert into t values(1)')\n"
        "while True: pass\n",
        fuel=1_000_000_000,
    )
    assert (ended.trapped, (sandbox.workspace / "x.db.lock").is_dir()) == ("fuel", True)
    result = sandbox.execute(
        "import os, sqlite3\n"
        "db = sqlite3.connect('x.db', timeout=0)\n"
        "try: db.execute('select * from t')\n"
        "except sqlite3.OperationalError as error: print(error)\n"
        "os.rmdir('x.db.lock')\n"
        "print(db.execute('select * from t').fetchall())\n"
        "db.execute('insert into t values(2)'); db.commit()\n"
        "print(db.execute('select * from t').fetchall(), os.listdir())\n"
    )
    assert result.stdout == "database is locked\n[]\n[(2,)] ['x.db']\n"
    assert result.stderr == ""
