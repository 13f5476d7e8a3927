"""Durable programs: they wait for answers, survive their process, and lose one turn at most."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.sandbox import (
    ExecutionPolicy,
    InvalidExecution,
    InvalidPolicy,
    ProgramElsewhere,
    ProgramSnapshot,
    ProgramSnapshotRefused,
    ProgramSuspended,
    ReadOnlyMount,
    RequestFailed,
    Sandbox,
    SandboxResult,
    UnknownRequest,
    WorkspaceError,
    create_sandbox,
    create_session_sandbox,
    delete_session_workspace,
    get_session_sandbox,
    list_session_files,
)

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)

Make = Callable[..., Sandbox]

ASKS = """
from agentforge import ask
seen = [1, 2]
def total():
    return sum(seen)
answer = await ask("Deploy?", options=["yes", "no"], title="Deployment")
print(answer, total())
"""


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Create durable sandboxes; the test closes them, or this does."""
    made: list[Sandbox] = []

    def create(name: str = "w", **options: Any) -> Sandbox:
        options = {"stateful": True, "durable": True, **options}
        made.append(create_sandbox(workspace=tmp_path / name, **options))
        return made[-1]

    yield create
    for sandbox in made:
        sandbox.close()


# ---------------------------------------------------------------- waiting


def test_a_program_that_asks_is_suspended_and_goes_on_with_the_answer(make: Make) -> None:
    sandbox = make()
    asked = sandbox.execute(ASKS)
    assert (asked.success, asked.exit_code, asked.trapped) == (False, None, None)
    assert asked.suspended is not None
    (request,) = asked.suspended.requests
    assert (request.kind, request.question, request.options) == ("ask", "Deploy?", ("yes", "no"))
    assert request.title == "Deployment"
    assert [frame.line for frame in asked.suspended.where] == [6]
    assert asked.suspended.where[0].names["seen"] == "[1, 2]"
    assert sandbox.suspended == asked.suspended
    done = sandbox.resume({request.id: "yes"})
    assert (done.success, done.stdout, done.suspended) == (True, "yes 3\n", None)
    assert sandbox.execute("print(answer)").stdout == "yes\n"


def test_answers_come_in_any_order_and_some_later(make: Make) -> None:
    sandbox = make()
    first = sandbox.execute(
        "import asyncio\n"
        "from agentforge import ask, call\n"
        "async def one(name):\n"
        "    print(name, await ask(name))\n"
        "async with asyncio.TaskGroup() as group:\n"
        "    for name in 'abc':\n"
        "        group.create_task(one(name))\n"
        "print(await asyncio.gather(ask('d'), call('size', of='e')))\n"
    )
    ids = {request.question: request.id for request in waiting(first)}
    assert sorted(ids) == ["a", "b", "c"]
    second = sandbox.resume({ids["c"]: 3})
    assert second.stdout == "c 3\n"
    assert [request.question for request in waiting(second)] == ["a", "b"]
    third = sandbox.resume({ids["b"]: None, ids["a"]: [1]})
    assert sorted(third.stdout.splitlines()) == ["a [1]", "b None"]
    asked, called = waiting(third)
    assert (called.kind, called.tool, called.arguments) == ("call", "size", {"of": "e"})
    assert sandbox.resume({asked.id: 1, called.id: {"n": 2}}).stdout == "[1, {'n': 2}]\n"


def test_an_answer_may_be_a_failure_which_the_program_can_catch(make: Make) -> None:
    sandbox = make()
    (request,) = waiting(
        sandbox.execute(
            "from agentforge import ask\n"
            "try:\n    await ask('?')\nexcept Exception as error:\n    print(error)"
        )
    )
    answer = RequestFailed("nobody is there")
    assert sandbox.resume({request.id: answer}).stdout == "nobody is there\n"


def test_unknown_and_repeated_answers_are_refused_before_anything_runs(make: Make) -> None:
    sandbox = make()
    with pytest.raises(UnknownRequest):
        sandbox.resume({1: "yes"})
    (request,) = waiting(sandbox.execute(ASKS))
    with pytest.raises(UnknownRequest) as refused:
        sandbox.resume({request.id: "no", request.id + 1: "yes"})
    assert list(refused.value.waiting) == [request.id]
    with pytest.raises(ProgramSuspended):
        sandbox.execute("open('ran', 'w')", files={"placed": "x"})
    assert os.listdir(sandbox.workspace) == []
    assert sandbox.resume({request.id: "yes"}).stdout == "yes 3\n"
    with pytest.raises(UnknownRequest):
        sandbox.resume({request.id: "yes"})
    with pytest.raises(InvalidExecution):
        sandbox.resume({"1": "yes"})  # type: ignore[dict-item]


def test_a_program_that_sleeps_says_until_when(make: Make) -> None:
    sandbox = make()
    until = datetime.now(UTC) + timedelta(hours=9)
    slept = sandbox.execute(
        f"from agentforge import sleep_until\nawait sleep_until({until.timestamp()})\nprint('up')"
    )
    assert slept.suspended is not None
    assert slept.suspended.wake_at is not None
    assert abs(slept.suspended.wake_at - until) < timedelta(seconds=2)
    early = sandbox.resume()
    assert (early.stdout, early.suspended is not None) == ("", True)


def test_a_timeout_fires_when_it_is_resumed_later(make: Make) -> None:
    sandbox = make()
    result = sandbox.execute(
        "import asyncio\nfrom agentforge import ask\n"
        "try:\n    async with asyncio.timeout(2):\n        await ask('now?')\n"
        "except TimeoutError:\n    print('too late')\n"
    )
    assert result.suspended is not None
    until = result.suspended.wake_at
    assert until is not None
    while datetime.now(UTC) < until:
        time.sleep(0.05)
    assert sandbox.resume().stdout == "too late\n"


# ---------------------------------------------------------------- plain functions

SCRIPT = """
import random
from agentforge import ask

log = open('log', 'a')

def question(n):
    with open(f'asked{n}', 'w') as file:
        _ = file.write('once')
    _ = log.write(f'{n} '); log.flush()
    print('asking', n)
    return ask(f'q{n}') if n < 2 else input('line: ')

answers = [question(n) for n in range(3)]
print(answers, random.random() < 1)
"""


def test_plain_functions_wait_as_well_and_do_everything_once(make: Make) -> None:
    sandbox = make()
    sandbox.execute("log = None")
    result, printed = sandbox.execute(SCRIPT), []
    for number, kind in enumerate(("ask", "ask", "input")):
        (request,) = waiting(result)
        assert (request.kind, request.id) == (kind, number + 1)
        assert result.suspended is not None
        assert result.suspended.where[-1].function == "question"
        assert result.metadata["turn_lost"] is None
        printed.append(result.stdout)
        snapshot = ProgramSnapshot(bytes(sandbox.snapshot()))
        sandbox = Sandbox.restore(snapshot, sandbox.workspace)
        result = sandbox.resume({request.id: f"a{number}"})
    assert printed == ["asking 0\n", "asking 1\n", "asking 2\nline: "]
    assert (result.stdout, result.success) == ("['a0', 'a1', 'a2'] True\n", True)
    assert (sandbox.workspace / "log").read_text() == "0 1 2 "
    assert sandbox.execute("print(answers[2])").stdout == "a2\n"


def test_a_failure_as_an_answer_is_raised_in_a_plain_function(make: Make) -> None:
    sandbox = make()
    code = "try:\n    input()\nexcept EOFError as error:\n    print(error)"
    (request,) = waiting(sandbox.execute(code))
    assert sandbox.resume({request.id: RequestFailed("closed")}).stdout == "closed\n"


def test_a_stopped_resume_of_a_plain_function_leaves_it_waiting(make: Make) -> None:
    sandbox = make()
    (request,) = waiting(sandbox.execute("if input() == 'loop':\n    while True: pass\nprint(1)"))
    lost = sandbox.resume({request.id: "loop"}, timeout=0.5)
    assert (lost.trapped, waiting(lost)) == ("deadline", [request])
    assert sandbox.resume({request.id: "go"}).stdout == "1\n"


# ---------------------------------------------------------------- losing a turn


@pytest.mark.parametrize(
    ("code", "limits", "trap"),
    [
        ("x = 2\nwhile True: pass", {"timeout": 0.3}, "deadline"),
        ("x = 2\nimport os; os._exit(4)", {}, None),
        ("x = 2\nimport os\nfor _ in range(999): os.stat('.')", {}, "files"),
        ("x = 2\nimport os; os.abort()", {}, "crash"),
    ],
)
def test_a_stopped_turn_is_undone_and_that_is_said(
    make: Make, code: str, limits: dict[str, Any], trap: str | None
) -> None:
    sandbox = make(policy=ExecutionPolicy(file_calls=500))
    assert sandbox.execute("x = 1\nfile = open('/tmp/f', 'w+')\nfile.write('a')").success
    lost = sandbox.execute(code, **limits)
    assert (lost.trapped, lost.metadata["turn_lost"] is None) == (trap, False)
    result = sandbox.execute("file.write('b'); file.seek(0); print(x, file.read())")
    assert (result.stdout, result.metadata["turn_lost"]) == ("1 ab\n", None)
    assert result.metadata["state_lost"] is None


def test_a_lost_resume_leaves_the_program_waiting(make: Make) -> None:
    sandbox = make()
    (request,) = waiting(
        sandbox.execute(
            "from agentforge import ask\n"
            "if await ask('?') == 'loop':\n    while True: pass\nprint('ok')"
        )
    )
    lost = sandbox.resume({request.id: "loop"}, timeout=0.3)
    assert (lost.trapped, waiting(lost)) == ("deadline", [request])
    assert lost.metadata["turn_lost"] == "deadline"
    assert sandbox.resume({request.id: "go"}).stdout == "ok\n"


def test_limits_are_not_refilled_by_waiting(make: Make) -> None:
    sandbox = make(policy=ExecutionPolicy(output_bytes=10, file_calls=50_000))
    code = "from agentforge import ask\nwhile True:\n    await ask('?')\n    print('abcdef')"
    (request,) = waiting(sandbox.execute(code))
    shown = sandbox.resume({request.id: 1})
    (request,) = waiting(shown)
    rest = sandbox.resume({request.id: 1})
    assert (shown.stdout + rest.stdout, rest.truncated) == ("abcdef\nabc", True)


def test_a_frame_that_makes_no_sense_loses_the_turn(make: Make) -> None:
    sandbox = make()
    sandbox.execute("x = 1")
    lost = sandbox.execute(
        "x = 2\nimport _host\n"
        """_host.call(b'{"v":1,"id":1,"op":"suspended","requests":[{"id":-1}]}')"""
    )
    assert (lost.trapped, lost.suspended) == ("crash", None)
    assert "waits for is unclear" in str(lost.metadata["turn_lost"])
    assert sandbox.execute("print(x)").stdout == "1\n"


# ---------------------------------------------------------------- on disk

CHILD = """
import json, os, sys
from pathlib import Path
from agentforge_sessions.sandbox import create_sandbox
workspace, durable, code, answers = sys.argv[1:]
sandbox = create_sandbox(workspace=Path(workspace), stateful=True, durable=Path(durable))
if code:
    result = sandbox.execute(code)
else:
    result = sandbox.resume({int(k): v for k, v in json.loads(answers).items()})
waiting = [] if result.suspended is None else [one.id for one in result.suspended.requests]
print(json.dumps([result.stdout, result.stderr, result.exit_code, waiting]), flush=True)
os.kill(os.getpid(), 9)
"""


def in_a_process(
    tmp_path: Path, code: str = "", answers: dict[int, Any] | None = None
) -> tuple[str, str, int | None, list[int]]:
    """Run or resume in a process that is killed once it has the result."""
    arguments = [tmp_path / "w", tmp_path / "d", code, json.dumps(answers or {})]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    stdout, stderr, exit_code, ids = json.loads(done.stdout)
    return stdout, stderr, exit_code, ids


def test_a_suspended_program_goes_on_in_another_process_after_a_kill(tmp_path: Path) -> None:
    code = (
        "import sqlite3\nfrom agentforge import ask\n"
        "base = sqlite3.connect('base')\n"
        "base.execute('create table t (x)'); base.commit()\n"
        "base.execute('insert into t values (1)')\n"
        "file = open('text', 'w'); _ = file.write('before ')\n"
        "lines = (n for n in range(9)); _ = next(lines)\n"
        "said = await ask('?')\n"
        "base.execute('insert into t values (2)'); base.commit()\n"
        "print(said, next(lines), base.execute('select * from t').fetchall())\n"
        "_ = file.write('after'); file.close()\n"
    )
    _, stderr, exit_code, ids = in_a_process(tmp_path, code)
    assert (stderr, exit_code) == ("", None)
    state = tmp_path / "d" / "state.aflive"
    assert state.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0o700
    stdout, stderr, exit_code, _ = in_a_process(tmp_path, answers={ids[0]: "go"})
    assert (stdout, stderr, exit_code) == ("go 1 [(1,), (2,)]\n", "", 0)
    assert (tmp_path / "w" / "text").read_text() == "before after"


KILLED = """
import os, sys
from pathlib import Path
from agentforge_sessions.sandbox import create_sandbox, current_call

def die(number: int) -> str:
    \"\"\"End this process, the first time.\"\"\"
    marker = Path(sys.argv[1]) / f'died{number}'
    if marker.exists():
        return f'{current_call().call} again {current_call().uncertain}'
    marker.touch()
    os.kill(os.getpid(), 9)

sandbox = create_sandbox(
    workspace=Path(sys.argv[1]) / 'w', stateful=True, durable=Path(sys.argv[1]) / 'd', tools=[die]
)
result = sandbox.resume() if sandbox.suspended else sandbox.execute(sys.argv[2])
print(result.stdout, result.stderr, sep='', end='')
"""


def test_a_program_killed_within_its_turn_goes_on_and_does_everything_once(tmp_path: Path) -> None:
    code = (
        "import os\nfrom host import tools\n"
        "for n in range(3):\n"
        "    with open('log', 'a') as log:\n        _ = log.write(f'{n} ')\n"
        "    os.mkdir(f'made{n}')\n"
        "    print(n, tools.die(n))\n"
    )
    arguments = [sys.executable, "-c", KILLED, tmp_path, code]
    for _ in range(3):
        died = subprocess.run(arguments, capture_output=True, text=True, check=False)
        assert (died.returncode, died.stderr) == (-signal.SIGKILL, "")
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    printed = "0 2 again True\n1 3 again True\n2 4 again True\n"  # the first call lists them
    assert (done.stdout, done.stderr) == (printed, "")
    assert (tmp_path / "w" / "log").read_text() == "0 1 2 "


def test_a_plain_function_goes_on_in_another_process_after_a_kill(tmp_path: Path) -> None:
    _, stderr, _, ids = in_a_process(tmp_path, SCRIPT)
    for number in range(2):
        assert stderr == ""
        _, stderr, _, ids = in_a_process(tmp_path, answers={ids[0]: number})
    stdout, stderr, exit_code, _ = in_a_process(tmp_path, answers={ids[0]: "line"})
    assert (stdout, stderr, exit_code) == ("[0, 1, 'line'] True\n", "", 0)
    assert (tmp_path / "w" / "log").read_text() == "0 1 2 "


def test_an_idle_program_is_on_disk_once_it_is_closed(make: Make, tmp_path: Path) -> None:
    with make(durable=tmp_path / "d") as first:
        first.execute("import math\nx = [math.pi]")
    again = make(durable=tmp_path / "d")
    assert again.suspended is None
    assert again.execute("print(len(x), math.tau > 6)").stdout == "1 True\n"


def test_two_sandboxes_cannot_go_on_with_one_program(make: Make, tmp_path: Path) -> None:
    one, other = (make(name, durable=tmp_path / "d") for name in ("w", "w"))
    (request,) = waiting(one.execute(ASKS))
    assert other.suspended is not None
    assert other.resume({request.id: "yes"}).stdout == "yes 3\n"
    with pytest.raises(ProgramElsewhere, match="use"):
        one.resume({request.id: "no"})
    other.close()
    with pytest.raises(ProgramElsewhere, match="continued"):
        one.resume({request.id: "no"})


def test_a_snapshot_within_a_turn_gives_the_program_to_nobody(make: Make, tmp_path: Path) -> None:
    other = make(durable=tmp_path / "d")
    refused = []

    def look() -> int:
        """Take a snapshot of the running program, and try to go on with it."""
        taken = len(bytes(sandbox.snapshot()))
        with pytest.raises(ProgramElsewhere):
            other.snapshot()
        refused.append(taken)
        return taken

    sandbox = make(durable=tmp_path / "d", tools=[look])
    sandbox.execute("x = 1")
    assert sandbox.execute("from host import tools\nprint(tools.look() > 0)").stdout == "True\n"
    assert len(refused) == 1


def test_an_idle_program_is_saved_and_given_up_to_others(make: Make, tmp_path: Path) -> None:
    one = make(durable=tmp_path / "d", idle_s=0.2)
    one.execute("x = 1")
    other = make(durable=tmp_path / "d")
    printed = None
    while printed is None:
        try:
            printed = other.execute("print(x)").stdout
        except ProgramElsewhere:
            time.sleep(0.05)
    assert printed == "1\n"
    with pytest.raises(ProgramElsewhere):
        one.execute("x = 2")


def test_a_program_waits_for_a_workspace_that_is_not_there(make: Make, tmp_path: Path) -> None:
    sandbox = make()
    (request,) = waiting(sandbox.execute(ASKS))
    sandbox.workspace.rename(tmp_path / "elsewhere")
    with pytest.raises(WorkspaceError):
        sandbox.resume({request.id: "yes"})
    (tmp_path / "elsewhere").rename(sandbox.workspace)
    assert sandbox.resume({request.id: "yes"}).stdout == "yes 3\n"


def test_a_program_with_a_full_memory_can_still_wait(make: Make) -> None:
    sandbox = make(policy=ExecutionPolicy(memory_bytes=80 << 20))
    code = (
        "from agentforge import ask\nheld = []\n"
        "try:\n    while True: held.append(bytes(1 << 12))\nexcept MemoryError:\n    pass\n"
        "answer = await ask('full?')\nheld.clear()\nprint(answer)\n"
    )
    (request,) = waiting(sandbox.execute(code))
    assert sandbox.resume({request.id: "yes"}).stdout == "yes\n"


def test_a_damaged_state_is_refused_and_left_as_it_is(make: Make, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "state.aflive").write_bytes(b"AFLIVE01 of somebody else")
    sandbox = make(durable=tmp_path / "d")
    for use in (lambda: sandbox.suspended, lambda: sandbox.execute("1"), sandbox.snapshot):
        with pytest.raises(ProgramSnapshotRefused):
            use()
    assert (tmp_path / "d" / "state.aflive").read_bytes() == b"AFLIVE01 of somebody else"


def test_the_program_of_a_session_lies_in_its_workspace_unseen(tmp_path: Path) -> None:
    options: dict[str, Any] = {"workspace_root": tmp_path, "stateful": True, "durable": True}
    session_id, sandbox = create_session_sandbox(**options)
    code = f"import os\n{ASKS}\nprint(os.listdir(), os.path.exists('.Program.State/state.aflive'))"
    with sandbox:
        (request,) = waiting(sandbox.execute(code))
    assert (tmp_path / session_id / ".program.state" / "state.aflive").exists()
    with get_session_sandbox(session_id, **options) as again:
        assert again.resume({request.id: "yes"}).stdout == "yes 3\n[] False\n"
    assert list_session_files(session_id, tmp_path) == []
    delete_session_workspace(session_id, tmp_path)
    assert not (tmp_path / session_id).exists()


# ---------------------------------------------------------------- snapshots and forks


def test_a_snapshot_goes_on_in_another_workspace_with_copies_of_the_files(
    make: Make, tmp_path: Path
) -> None:
    first = make()
    (request,) = waiting(
        first.execute("file = open('f', 'w'); _ = file.write('open')\nopen('/tmp/t', 'w')" + ASKS)
    )
    snapshot = ProgramSnapshot(bytes(first.snapshot()))
    shutil.copytree(first.workspace, tmp_path / "copy")
    with Sandbox.restore(snapshot, tmp_path / "copy") as again:
        assert again.suspended == first.suspended
        assert again.resume({request.id: "yes"}).stdout == "yes 3\n"
        assert again.execute("file.close()").success
    assert (tmp_path / "copy" / "f").read_text() == "open"
    assert (first.workspace / "f").read_text() == ""
    assert first.resume({request.id: "no"}).stdout == "no 3\n"


def test_a_snapshot_is_limited_by_the_policy_that_it_is_restored_with(
    make: Make, tmp_path: Path
) -> None:
    first = make()
    with pytest.raises(ProgramSnapshotRefused):
        first.snapshot()
    first.execute("held = bytes(200 << 20)")
    small = ExecutionPolicy(memory_bytes=128 << 20)
    with (
        Sandbox.restore(first.snapshot(), tmp_path / "v", policy=small) as restored,
        pytest.raises(ProgramSnapshotRefused, match="memory"),
    ):
        restored.execute("1")


def test_forks_go_on_apart_and_with_other_random_numbers(make: Make) -> None:
    origin = make()
    origin.execute("import random, os\nopen('shared', 'w').write('origin')")
    (request,) = waiting(
        origin.execute(
            "from agentforge import ask\n"
            "name = await ask('name')\n"
            "_ = open('shared', 'a').write(name)\n"
            "print(name, random.random())"
        )
    )
    forks = origin.fork(20)
    seen = [fork.resume({request.id: str(number)}).stdout for number, fork in enumerate(forks)]
    assert [line.split()[0] for line in seen] == [str(number) for number in range(20)]
    assert len({line.split()[1] for line in seen}) == 20
    assert {(fork.workspace / "shared").read_text() for fork in forks} == {
        f"origin{number}" for number in range(20)
    }
    assert len({fork.workspace for fork in forks}) == 20
    assert (origin.workspace / "shared").read_text() == "origin"
    assert origin.resume({request.id: "o"}).stdout.startswith("o ")
    with pytest.raises(InvalidExecution):
        origin.fork(2, [origin.workspace])
    for fork in forks:
        fork.close()


def test_a_sandbox_cannot_be_durable_everywhere(make: Make, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    mount = ReadOnlyMount(source=tmp_path / "m", target="/m")
    for refused in (
        {"stateful": False},
        {"isolation": "process"},
        {"durable": 1},
        {"durable": ""},
        {"durable": tmp_path / "w" / "inside"},
        {"policy": ExecutionPolicy(mounts=(mount,))},
    ):
        with pytest.raises(InvalidPolicy):
            make(**refused)
    with pytest.raises(InvalidExecution):
        make(durable=False).resume()


def waiting(result: SandboxResult) -> list[Any]:
    """The open requests of a suspended program."""
    assert result.suspended is not None, (result.stdout, result.stderr, result.metadata)
    return list(result.suspended.requests)
