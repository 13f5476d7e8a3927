"""A turn with a journal runs again as it ran, and goes on where it was killed."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.sandbox.host.machine import SUSPENDED
from agentforge_sessions.sandbox.live.errors import TurnDiverged, TurnJournalDamaged
from agentforge_sessions.sandbox.live.journal.journal_file import JournalFile
from agentforge_sessions.sandbox.live.journal.live_journal import INPUT_REQUEST, LiveJournal
from agentforge_sessions.sandbox.live.journal.ops import Op
from tests.support.journaled import LIMITS, CountedCalls, Killed, Sink, run
from tests.support.soak import SOAKING
from tests.support.trees import tree_of

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)

EFFECTS = """
import os, random, sqlite3, tempfile, time
print("begun", time.time(), random.random(), os.urandom(4).hex())
os.makedirs("d/e", exist_ok=True)
with open("d/a.txt", "w") as file:
    for i in range(5):
        file.write(f"line {i}\\n")
        file.flush()
with open("d/a.txt", "a") as file:
    file.write("more")
    file.flush()
    os.rename("d/a.txt", "d/e/b.txt")
    file.write("after the move")
os.link("d/e/b.txt", "l")
os.symlink("d", "s")
db = sqlite3.connect("x.db")
db.execute("create table t(a)")
for i in range(3):
    db.execute("insert into t values(?)", (i,))
    db.commit()
print(db.execute("select count(*) from t").fetchone())
with tempfile.NamedTemporaryFile() as file:
    file.write(b"x" * 1000)
    file.flush()
    print(os.stat(file.name).st_size)
with tempfile.TemporaryFile(dir=".") as file:
    file.write(b"in no place")
    file.flush()
    file.seek(3)
    print(file.read())
with open("d/e/b.txt", "r+") as file:
    file.truncate(9)
os.utime("d/e/b.txt", ns=(5, 7))
os.unlink("l")
os.mkdir("z")
os.rmdir("z")
os.rename("d/e", "d/f")
print(sorted(os.listdir(".")), os.readlink("s"))
"""

HANDLES = """
import os
def ask(text):
    return input(text)
os.mkdir("d")
moved, removed, replaced = open("d/moved", "w+"), open("removed", "w+"), open("replaced", "w+")
shut = open("shut", "w"); shut.write("shut"); shut.close()
low = os.open("low", os.O_CREAT | os.O_RDWR)
for file in (moved, removed, replaced):
    file.write("before ")
    file.flush()
os.rename("d/moved", "d/there")
os.rename("d", "e")
os.unlink("removed")
open("by", "w").write("another")
os.rename("by", "replaced")
removed.write("and after ")
removed.flush()
temporary = open("/tmp/t", "w+")
temporary.write("temporary ")
temporary.flush()
listing = os.scandir(".")
first = next(listing).name
answer = ask("?")
for file in (moved, removed, replaced, temporary):
    file.write(answer)
    file.flush()
    file.seek(0)
    print(file.read())
print(sorted([first, *(entry.name for entry in listing)]))
os.write(low, b"low")
print(open("replaced").read(), open("e/there").read(), os.fstat(removed.fileno()).st_nlink)
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, bytes]:
    workspace = tmp_path_factory.mktemp("undisturbed")
    sink = Sink()
    ended = run(workspace, EFFECTS, sink)
    assert ended.outcome.exit_code == 0, ended.outcome.stderr
    return ended, tree_of(workspace), sink.data


def test_a_turn_that_runs_again_touches_no_file_and_ends_with_the_same_memory(
    tmp_path: Path, undisturbed: tuple[Any, Any, bytes]
) -> None:
    first, _, entries = undisturbed
    sink = Sink(entries)
    again = run(tmp_path, EFFECTS, sink)
    assert again.made == 1  # the write to a file that had no name any more
    assert not list(tmp_path.iterdir())
    assert again.memory == first.memory
    assert again.outcome == first.outcome  # its output, its fuel, its calls on names
    assert sink.data == entries


def test_a_turn_that_is_killed_between_an_effect_and_its_note_does_each_once(
    tmp_path: Path, undisturbed: tuple[Any, Any, bytes]
) -> None:
    first, files, _ = undisturbed
    assert first.made > 250
    for last in range(1, first.made + 2, 1 if SOAKING else 19):
        for after in (True, False) if SOAKING else (last % 2 == 0,):
            workspace = tmp_path / f"{last}-{after}"
            workspace.mkdir()
            sink = Sink()
            with pytest.raises(Killed):
                run(workspace, EFFECTS, sink, real=CountedCalls(last, after=after))
            gone_on = run(workspace, EFFECTS, sink)
            assert gone_on.outcome.exit_code == 0, (last, gone_on.outcome.stderr)
            assert tree_of(workspace) == files, last
            again = run(workspace, EFFECTS, sink)
            assert (again.made, again.memory) == (1, gone_on.memory), last


def test_a_turn_may_be_killed_again_and_again(
    tmp_path: Path, undisturbed: tuple[Any, Any, bytes]
) -> None:
    sink = Sink()
    kills = 0
    while True:
        try:
            ended = run(tmp_path, EFFECTS, sink, real=CountedCalls(40, after=kills % 2 == 0))
            break
        except Killed:
            kills += 1
    assert kills > 5
    assert ended.outcome.exit_code == 0, ended.outcome.stderr
    assert tree_of(tmp_path) == undisturbed[1]


def test_a_process_that_is_killed_goes_on_from_its_journal_in_another(
    tmp_path: Path, undisturbed: tuple[Any, Any, bytes]
) -> None:
    for last in (60, 131, 202):
        workspace, path = tmp_path / str(last), tmp_path / f"{last}.journal"
        workspace.mkdir()
        program = (
            "import os, sys\n"
            "from pathlib import Path\n"
            "from agentforge_sessions.sandbox.live.journal.journal_file import JournalFile\n"
            "from tests.contract.sandbox.test_journal import EFFECTS\n"
            "from tests.support.journaled import CountedCalls, Killed, Sink, run\n"
            "class Deadly(CountedCalls):\n"
            "    def end(self): os.kill(os.getpid(), 9)\n"
            "journal = JournalFile.create(Path(sys.argv[2]), b'start')\n"
            "sink = Sink(then=journal.append)\n"
            "run(Path(sys.argv[1]), EFFECTS, sink, real=Deadly(int(sys.argv[3])))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, workspace, path, str(last)], check=False
        )
        assert done.returncode == -signal.SIGKILL
        journal = JournalFile.open(path, b"start")
        assert journal is not None
        assert journal.is_of_this_boot
        ended = run(workspace, EFFECTS, Sink(journal.entries, then=journal.append))
        journal.close()
        assert ended.outcome.exit_code == 0, ended.outcome.stderr
        assert tree_of(workspace) == undisturbed[1]


def test_what_is_open_at_a_question_is_open_at_its_answer(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    at_once = run(whole, HANDLES, Sink(), answer=lambda _: b"answered\n", asks_for_input=True)
    assert at_once.outcome.exit_code == 0, at_once.outcome.stderr
    sink = Sink()
    asked = run(killed, HANDLES, sink, answer=lambda _: None, asks_for_input=True)
    assert asked.outcome.stopped == SUSPENDED
    later = run(killed, HANDLES, sink, answer=lambda _: b"answered\n", asks_for_input=True)
    assert later.outcome.stdout == at_once.outcome.stdout
    assert b"before and after answered" in later.outcome.stdout
    assert tree_of(killed) == tree_of(whole)
    assert run(killed, HANDLES, sink, asks_for_input=True).memory == later.memory


def test_what_is_open_at_a_question_is_open_in_a_copy_of_the_workspace(tmp_path: Path) -> None:
    first, copy = tmp_path / "first", tmp_path / "copy"
    first.mkdir()
    sink = Sink()
    run(first, HANDLES, sink, answer=lambda _: None, asks_for_input=True)
    shutil.copytree(first, copy)
    before = tree_of(first)
    there = run(copy, HANDLES, Sink(sink.data), answer=lambda _: b"new\n", asks_for_input=True)
    assert tree_of(first) == before
    here = run(first, HANDLES, sink, answer=lambda _: b"new\n", asks_for_input=True)
    assert there.outcome.stdout == here.outcome.stdout
    assert tree_of(copy) == tree_of(first)


def test_an_open_file_that_was_replaced_meanwhile_is_stale(tmp_path: Path) -> None:
    code = (
        "import os\n"
        "file = os.open('a', os.O_CREAT | os.O_RDWR)\n"
        "os.write(file, b'mine'); input()\n"
        "try:\n"
        "    os.write(file, b'more')\n"
        "except OSError as error:\n"
        "    print(error.errno)\n"
    )
    sink = Sink()
    run(tmp_path, code, sink, answer=lambda _: None, asks_for_input=True)
    (tmp_path / "b").write_text("another's")
    (tmp_path / "b").rename(tmp_path / "a")
    ended = run(tmp_path, code, sink, answer=lambda _: b"\n", asks_for_input=True)
    assert ended.outcome.stdout == b"72\n"
    assert (tmp_path / "a").read_text() == "another's"


def test_a_script_that_reads_its_input_is_suspended_at_each_question(tmp_path: Path) -> None:
    code = "def f():\n return input('name? ')\nprint([f(), f()], __import__('sys').stdin.read())"
    sink, seen = Sink(), []
    for answers in ([None], [b"Ada\n", None], [b"Bob\n", b"", None]):
        asked = iter(answers)

        def answer(request: bytes, asked: Any = asked) -> bytes | None:
            assert request == INPUT_REQUEST
            return next(asked)  # type: ignore[no-any-return]

        seen.append(run(tmp_path, code, sink, answer=answer, asks_for_input=True).outcome)
    assert [each.stopped for each in seen] == [SUSPENDED, SUSPENDED, None]
    assert seen[2].stdout.endswith(b"['Ada', 'Bob'] \n")


class Door:
    """Answers every request with a number, and records what the journal says of the call."""

    def __init__(self) -> None:
        self.journal: LiveJournal | None = None
        self.calls: list[Any] = []
        self.dies = False

    def admit(self, length: int) -> bytes | None:
        return None

    def __call__(self, request: bytes) -> bytes:
        assert self.journal is not None
        self.calls.append(self.journal.call)
        if self.dies:
            raise Killed
        number = json.loads(request)["id"]
        return json.dumps({"v": 1, "id": number, "ok": True, "value": len(self.calls)}).encode()


CALLS = """
import _host, json
def call(number, op):
    return json.loads(_host.call(json.dumps({"v": 1, "id": number, "op": op}).encode()))["value"]
print([call(number, "call") for number in (1, 2, 3)], call(4, "request"))
"""


def test_a_host_function_is_called_once_and_told_when_its_end_is_unknown(tmp_path: Path) -> None:
    sink, door = Sink(), Door()
    key: dict[str, Any] = {"session": "s", "sequence": 7, "answer": lambda _: None}
    first = run(tmp_path, CALLS, sink, door=door, **key)
    assert first.outcome.stopped == SUSPENDED
    assert [(*each[:3], each.uncertain) for each in door.calls] == [
        ("s", 7, number, False) for number in (1, 2, 3)
    ]
    key["answer"] = lambda frame: b'{"value": "' + str(len(frame)).encode() + b'"}'
    again = run(tmp_path, CALLS, sink, door=door, **key)
    assert again.outcome.stdout.startswith(b"[1, 2, 3] ")
    assert len(door.calls) == 3

    sink, door = Sink(), Door()
    door.dies = True
    with pytest.raises(Killed):
        run(tmp_path, CALLS, sink, door=door, **key)
    door.dies = False
    run(tmp_path, CALLS, sink, door=door, **key)
    assert [(each.call, each.uncertain) for each in door.calls] == [
        (1, False),
        (1, True),
        (2, False),
        (3, False),
    ]


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ("open('a', 'w').write('other')", "what it has done so far differs"),
        ("import os; os.mkdir('a')", "differs"),
        ("print('nothing')", "it does"),
    ],
)
def test_another_turn_than_the_journal_s_is_stopped(
    tmp_path: Path, other: str, reason: str
) -> None:
    sink = Sink()
    run(tmp_path, "open('a', 'w').write('content')", sink)
    with pytest.raises(TurnDiverged, match=reason) as stopped:
        run(tmp_path, other, sink)
    assert stopped.value.call > 0
    assert stopped.value.function
    assert (tmp_path / "a").read_text() == "content"


def test_a_turn_that_ends_before_its_journal_is_refused(tmp_path: Path) -> None:
    sink = Sink()
    run(tmp_path, "print(1)", sink)
    with pytest.raises(TurnDiverged, match="its journal goes on"):
        run(tmp_path, "print(1)", Sink(sink.data + bytes((Op.WAIT, 0, 0))))


def test_a_turn_that_ran_out_of_something_runs_out_of_it_again(tmp_path: Path) -> None:
    code = "import os\nfor i in range(10**6): os.path.exists(f'a{i}')"
    few = LIMITS._replace(fuel=200_000_000)
    sink = Sink()
    first = run(tmp_path, code, sink, limits=few)
    again = run(tmp_path, code, sink, limits=few)
    assert first.outcome.stopped is not None
    assert again.outcome.stopped == first.outcome.stopped


def test_only_what_is_new_is_handed_on(tmp_path: Path) -> None:
    code = "print('one', flush=True); input(); print('two', flush=True)"
    handed: list[bytes] = []
    sink = Sink()
    for answer in (None, b"\n"):
        ended = run(
            tmp_path,
            code,
            sink,
            answer=lambda _, answer=answer: answer,
            asks_for_input=True,
            hand_on=(handed.append, None),
        )
    assert ended.outcome.stdout == b"one\ntwo\n"
    assert b"".join(handed) == b"one\ntwo\n"


def test_a_refused_growth_is_refused_again_without_counting(tmp_path: Path) -> None:
    code = (
        "def write(name, count):\n"
        "    with open(name, 'w') as file:\n"
        "        file.write('x' * count)\n"
        "write('a', 600)\n"
        "try:\n"
        "    write('b', 600)\n"
        "except OSError as error:\n"
        "    print(error.errno)\n"
        "write('c', 100)\n"
        "print(input())"
    )
    few = {"workspace_bytes": 1000}
    sink = Sink()
    run(tmp_path, code, sink, answer=lambda _: None, asks_for_input=True, quota=few)
    (tmp_path / "a").unlink()
    ended = run(tmp_path, code, sink, answer=lambda _: b"y\n", asks_for_input=True, quota=few)
    assert ended.outcome.stdout == b"51\ny\n"


def test_a_typical_turn_takes_few_bytes(
    tmp_path: Path, undisturbed: tuple[Any, Any, bytes]
) -> None:
    path = tmp_path / "turn.afjournal"
    journal = JournalFile.create(path, b"start")
    (tmp_path / "w").mkdir()
    run(tmp_path / "w", "print(1); open('a', 'w').write('b')", Sink(then=journal.append))
    assert path.stat().st_size < 1500
    assert len(undisturbed[2]) < 8192


def test_a_journal_whose_end_is_torn_is_cut_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "turn.afjournal"
    journal = JournalFile.create(path, b"start")
    journal.append(b"one")
    journal.append(b"two" * 200)
    journal.close()
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        opened = JournalFile.open(path, b"start")
        if opened is None:
            continue
        assert (b"one" + b"two" * 200).startswith(opened.entries)
        opened.append(b"three")
        opened.close()
        again = JournalFile.open(path, b"start")
        assert again is not None
        assert again.entries == opened.entries + b"three"
        again.close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_damaged_journal_and_one_of_another_turn_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "turn.afjournal"
    journal = JournalFile.create(path, b"start")
    journal.append(b"one")
    journal.append(b"two")
    journal.close()
    whole = path.read_bytes()
    with pytest.raises(TurnJournalDamaged, match="another state or code"):
        JournalFile.open(path, b"other")
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes((whole[at] ^ 0x55,)) + whole[at + 1 :])
        try:
            opened = JournalFile.open(path, b"start")
        except TurnJournalDamaged:
            continue
        found = b"" if opened is None else opened.entries
        assert found in (b"", b"one"), at  # it is the end that is damaged
        if opened is not None:
            opened.close()


def test_spoilt_notes_never_touch_a_file(
    tmp_path: Path, undisturbed: tuple[Any, Any, bytes]
) -> None:
    entries = undisturbed[2]
    for at in range(0, len(entries), 11 if SOAKING else 97):
        spoilt = entries[:at] + bytes((entries[at] ^ 0xFF,)) + entries[at + 1 :]
        try:
            ended = run(tmp_path, EFFECTS, Sink(spoilt))
        except (TurnJournalDamaged, TurnDiverged):
            pass
        else:
            assert ended.made <= 1, at  # another time or another chance: the file has checksums
        assert not list(tmp_path.iterdir())
