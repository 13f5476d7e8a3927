"""Interpreters opened ahead: counted, bounded, as new for each use, gone with the process."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from attrs import frozen
from structlog.testing import capture_logs

from agentforge_sessions.base.cancellation import CancelToken
from agentforge_sessions.sandbox import (
    ExecutionPolicy,
    ReadOnlyMount,
    Sandbox,
    SandboxResult,
    create_sandbox,
    prepare,
)
from agentforge_sessions.sandbox.interpreters.process_pool import (
    POOL_VARIABLE,
    RESTORE_VARIABLE,
    _restore_from_environment,
    _size_from_environment,
    close_pool,
    configure_pool,
    pool_stats,
    the_pool,
    warm_pool,
)
from agentforge_sessions.sandbox.request import checked_request
from agentforge_sessions.sandbox.workspaces.workspace_lock import claim
from tests.support.promptness import given_time, soonest

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(autouse=True)
def _fresh_pool() -> Iterator[None]:
    prepare()
    size = pool_stats().size
    close_pool()
    configure_pool(2, restore=True)
    yield
    close_pool()
    configure_pool(size, restore=True)


def ran_in(sandbox: Sandbox, code: str = "1") -> object:
    return sandbox.execute(code).metadata["interpreter"]


def filled() -> None:
    """Wait until the pool is as full as it gets, however busy the machine is."""
    warm_pool()


def test_the_first_execution_fills_the_pool_and_the_next_ones_use_it(sandbox: Sandbox) -> None:
    assert pool_stats().ready == 0
    assert ran_in(sandbox) == "opened"
    filled()
    # The one that the execution opened itself is kept, beside one more.
    assert (pool_stats().ready, pool_stats().opened, pool_stats().missed) == (2, 1, 1)
    assert ran_in(sandbox) == "pool"
    filled()
    stats = pool_stats()
    assert (stats.ready, stats.opened, stats.used, stats.restored) == (2, 1, 1, 2)


def test_executions_in_a_row_open_no_more_interpreters(sandbox: Sandbox) -> None:
    sandbox.execute("1")
    for number in range(20):
        filled()
        assert sandbox.execute(f"print({number})").stdout == f"{number}\n"
    filled()
    stats = pool_stats()
    assert (stats.opened, stats.missed, stats.used, stats.restored) == (1, 1, 20, 21)


def test_the_pool_can_be_filled_before_the_first_execution(life: Life) -> None:
    assert life.said["none"] == "0"
    assert life.said["before"] == "2 pool"
    assert life.said["of another class"] == "2 pool"


def test_an_interpreter_that_stays_away_is_replaced(sandbox: Sandbox) -> None:
    configure_pool(1)
    sandbox.execute("1")
    filled()
    began = threading.Event()
    thread = threading.Thread(
        target=sandbox.execute,
        args=("print('began', flush=True)\nimport time\nwhile True: time.sleep(0.1)",),
        kwargs={
            "timeout": 600,
            "on_stdout": lambda _: began.set(),
            "cancel": (stop := CancelToken()),
        },
    )
    thread.start()
    assert began.wait(60)
    filled()
    assert pool_stats().ready == 1
    stop.cancel()
    thread.join()
    filled()
    assert pool_stats().ready == 1


def test_every_interpreter_is_used_once_where_that_is_wanted(sandbox: Sandbox) -> None:
    configure_pool(2, restore=False)
    for _ in range(3):
        sandbox.execute("1")
        filled()
    assert pool_stats().restored == 0
    assert (pool_stats().opened, pool_stats().ready) == (4, 2)
    configure_pool(1)
    sandbox.execute("1")
    filled()
    assert pool_stats().restored == 0
    configure_pool(2, restore=True)
    sandbox.execute("1")
    filled()
    sandbox.execute("1")
    filled()
    assert pool_stats().restored >= 1


@pytest.mark.parametrize(
    ("value", "restores"), [("0", False), ("1", True), ("", True), (" ", True), ("never", False)]
)
def test_the_environment_says_whether_interpreters_are_restored(
    monkeypatch: pytest.MonkeyPatch, value: str, restores: bool
) -> None:
    monkeypatch.setenv(RESTORE_VARIABLE, value)
    with capture_logs() as told:
        assert _restore_from_environment() is restores
    assert [one["event"] for one in told] == ["pool.restore_ignored"] * (value == "never")


def test_a_process_whose_environment_says_so_restores_none(tmp_path: Path) -> None:
    done = run(
        "import sys\n"
        "from agentforge_sessions.sandbox import create_sandbox\n"
        "from agentforge_sessions.sandbox.interpreters.process_pool import *\n"
        "for _ in range(2):\n"
        "    create_sandbox(workspace=sys.argv[1]).execute('1')\n"
        "    warm_pool()\n"
        "stats = pool_stats()\n"
        "print(stats.size, stats.restored)",
        str(tmp_path / "w"),
        AGENTFORGE_SANDBOX_RESTORE="0",
        AGENTFORGE_SANDBOX_POOL="1",
    )
    assert done.stdout == "1 0\n", done.stderr


def test_nothing_of_an_execution_is_left_in_the_interpreter_of_the_next(sandbox: Sandbox) -> None:
    sandbox.execute("1")
    for number in range(10):
        filled()
        result = sandbox.execute(
            "import builtins, os, sys\n"
            "print(hasattr(builtins, 'seen'), os.path.exists('/tmp/seen'),\n"
            "      'colorsys' in sys.modules)\n"
            "builtins.seen = 1; open('/tmp/seen', 'w').close(); import colorsys"
        )
        assert result.metadata["interpreter"] == "pool"
        assert result.stdout == "False False False\n", number


def test_each_execution_sees_its_own_workspace(tmp_path: Path) -> None:
    sandboxes = [create_sandbox(workspace=tmp_path / str(number)) for number in range(4)]
    results: dict[int, str] = {}

    def work(number: int) -> None:
        for turn in range(5):
            result = sandboxes[number].execute(
                f"import os\nopen('{number}-{turn}', 'w').close()\nprint(sorted(os.listdir()))"
            )
            results[number] = result.stdout

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    for number in range(4):
        assert results[number] == f"{[f'{number}-{turn}' for turn in range(5)]}\n"
    filled()
    assert pool_stats().ready == 2


def test_an_execution_is_admitted_until_its_interpreter_is_back(sandbox: Sandbox) -> None:
    pool = the_pool()
    admission, inside = pool.admission, list[tuple[int, int]]()
    assert admission.most == len(os.sched_getaffinity(0))
    for _ in range(3):
        result = sandbox.execute(
            "print(1)", on_stdout=lambda _: inside.append((admission.inside, pool.stats().ready))
        )
        assert result.stdout == "1\n"
    assert inside == [(1, 0)] * 3
    assert (admission.inside, pool.stats().ready) == (0, 1)


def test_an_execution_of_another_class_opens_its_own(tmp_path: Path, sandbox: Sandbox) -> None:
    sandbox.execute("1")
    filled()
    other = create_sandbox(
        workspace=tmp_path / "o", policy=ExecutionPolicy(environment={"MINE": "1"})
    )
    result = other.execute("import os; print(os.environ['MINE'])")
    opened = {"opened", "pool"}
    assert result.stdout == "1\n"
    assert result.metadata["interpreter"] in opened
    filled()
    assert pool_stats().discarded == 2
    assert ran_in(other, "import os; assert os.environ['MINE']") == "pool"
    assert ran_in(sandbox) in opened
    limited = create_sandbox(
        workspace=tmp_path / "o", policy=ExecutionPolicy(memory_bytes=96 << 20)
    )
    assert limited.execute("bytearray(200 << 20)").trapped == "memory"


def test_what_cannot_be_pooled_leaves_the_pool_alone(tmp_path: Path, sandbox: Sandbox) -> None:
    sandbox.execute("1")
    filled()
    (tmp_path / "data").mkdir()
    policy = ExecutionPolicy(mounts=(ReadOnlyMount(tmp_path / "data", "/data"),))
    assert ran_in(create_sandbox(workspace=tmp_path / "w", policy=policy)) == "opened"
    assert ran_in(create_sandbox(workspace=tmp_path / "w", tools=[len_of])) == "opened"
    assert pool_stats().ready == 2
    assert pool_stats().missed == 1


def len_of(text: str) -> int:
    """How long a text is."""
    return len(text)


def test_an_input_and_callbacks_need_no_interpreter_of_their_own(sandbox: Sandbox) -> None:
    sandbox.execute("1")
    seen: list[str] = []
    for text in ("one\ntwo", "three"):
        filled()
        result = sandbox.execute(
            "import sys; print(input() + sys.stdin.read())", stdin=text, on_stdout=seen.append
        )
        assert result.metadata["interpreter"] == "pool"
        assert result.stdout == text.replace("\n", "") + "\n"
        assert seen.pop() == result.stdout
    filled()
    result = sandbox.execute(
        "import os; print([input for input in iter(lambda: os.read(0, 9), b'')])"
    )
    assert (result.metadata["interpreter"], result.stdout) == ("pool", "[]\n")


def test_the_next_interpreter_is_opened_once_the_workspace_is_free(sandbox: Sandbox) -> None:
    sandbox.execute("1")
    filled()
    request = checked_request(sandbox.policy, stateful=False, code="1")
    with contextlib.ExitStack() as afterwards:
        result = sandbox._execute(request, threading.Event(), afterwards)
        assert result.metadata["interpreter"] == "pool"
        with claim(sandbox.workspace, timeout_s=0) as root:
            assert root is not None
        assert pool_stats().ready == 1
        assert pool_stats().restored == 1
    filled()
    assert pool_stats().restored == 2
    assert pool_stats().ready == 2


def test_the_deadline_counts_from_the_turn(sandbox: Sandbox) -> None:
    sandbox.execute("1")

    def after_a_rest(limit_s: float) -> SandboxResult:
        filled()
        time.sleep(limit_s * 1.25)
        result = sandbox.execute("print('ran')", timeout=limit_s)
        assert result.metadata["interpreter"] == "pool"
        return result

    result = given_time(after_a_rest, 0.4, lambda one: one.stdout)
    assert result.stdout == "ran\n", "it was too late whenever it had rested"
    assert sandbox.execute("while True: pass", timeout=0.2).trapped == "deadline"


def test_the_fuel_of_an_execution_is_its_own(sandbox: Sandbox) -> None:
    sandbox.execute("1")
    used = set()
    for _ in range(3):
        filled()
        used.add(sandbox.execute("for i in range(100_000): pass").fuel_consumed)
    assert len(used) == 1


def test_a_closed_pool_opens_nothing_more(sandbox: Sandbox) -> None:
    sandbox.execute("1")
    filled()
    close_pool()
    close_pool()
    assert pool_stats().ready == 0
    assert ran_in(sandbox) == "opened"
    assert pool_stats().ready == 0
    configure_pool(1)
    sandbox.execute("1")
    filled()
    assert (pool_stats().size, pool_stats().ready) == (1, 1)


def test_a_pool_may_be_made_smaller(sandbox: Sandbox) -> None:
    sandbox.execute("1")
    filled()
    configure_pool(0)
    assert (pool_stats().size, pool_stats().ready) == (0, 0)
    assert ran_in(sandbox) == "opened"


@pytest.mark.parametrize("size", [-1, 65, True, 1.0, "2", None])
def test_a_size_that_is_none_is_refused(size: object) -> None:
    with pytest.raises(ValueError, match="pool must be an integer"):
        configure_pool(size)  # type: ignore[arg-type]
    assert pool_stats().size == 2


def run(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )


LIFE = """
import os, sys, threading, time
from agentforge_sessions.sandbox import *
from agentforge_sessions.sandbox.interpreters.process_pool import *

def tell(what, *values): print(f"{what}:", *values, flush=True)

configure_pool(0)
warm_pool()
tell("none", pool_stats().ready)
configure_pool(2)
policy = ExecutionPolicy(environment={'MINE': '1'})
for what, given in (("before", None), ("of another class", policy)):
    sandbox = create_sandbox(workspace=sys.argv[1], policy=given)
    warm_pool(policy=given)
    tell(what, pool_stats().ready, sandbox.execute('1').metadata['interpreter'])
warm_pool(policy=policy)
if (pid := os.fork()) == 0:
    try:
        sandbox.execute('1')
    except SandboxUnavailable as error:
        alone = threading.active_count() == 1
        tell("child", 'spawn' in error.remedy, alone, pool_stats().ready)
    finally:
        os._exit(42)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42
tell("parent", sandbox.execute('1').metadata['interpreter'])
warm_pool(policy=policy)
tell("full", pool_stats().ready)
tell("at", time.monotonic())
"""


@frozen
class Life:
    """What a process said of its pool, how it ended, and what it left."""

    done: subprocess.CompletedProcess[str]
    ended: float
    left: list[str]

    @property
    def said(self) -> dict[str, str]:
        """What it said, by the name of each."""
        return dict(line.split(": ", 1) for line in self.done.stdout.splitlines())


def live(directory: Path) -> Life:
    temporary = directory / "tmp"
    temporary.mkdir(exist_ok=True)
    done = run(LIFE, str(directory / "w"), TMPDIR=str(temporary), AGENTFORGE_SANDBOX_POOL="2")
    return Life(done, time.monotonic(), os.listdir(temporary))


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Life:
    """A process that fills its pool, uses it, forks, and ends with a full one."""
    return live(tmp_path_factory.mktemp("life"))


def test_a_process_ends_at_once_with_a_full_pool_and_leaves_nothing(
    life: Life, tmp_path: Path
) -> None:
    lives = itertools.chain([life], (live(tmp_path) for _ in itertools.count()))

    def once() -> float:
        one = next(lives)
        assert (one.done.returncode, one.done.stderr) == (0, "")
        assert one.said["full"] == "2"
        assert one.left == []
        return one.ended - float(one.said["at"])

    assert soonest(once, 3) <= 3


def test_a_process_may_end_while_the_pool_is_being_filled(tmp_path: Path) -> None:
    done = run(
        "import sys\n"
        "from agentforge_sessions.sandbox import create_sandbox\n"
        "create_sandbox(workspace=sys.argv[1]).execute('1')\n",
        str(tmp_path / "w"),
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("value", "size"), [("0", 0), ("5", 5), ("", 2), ("many", 2), ("-1", 2), ("65", 2)]
)
def test_the_environment_sets_the_size(
    monkeypatch: pytest.MonkeyPatch, value: str, size: int
) -> None:
    monkeypatch.setenv(POOL_VARIABLE, value)
    with capture_logs() as told:
        assert _size_from_environment() == size
    ignored = value in ("many", "-1", "65")
    assert [one["event"] for one in told] == ["pool.size_ignored"] * ignored


def test_a_forked_child_has_no_pool_and_says_so(life: Life) -> None:
    assert life.said["child"] == "True True 0"
    assert life.said["parent"] == "pool"
