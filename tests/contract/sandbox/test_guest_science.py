"""The template with numpy and pandas: made by itself, and what is quicker by it stays the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import ExecutionPolicy, Sandbox, create_sandbox, runtime_info
from agentforge_sessions.sandbox.compiled.compiled_module import making
from agentforge_sessions.sandbox.interpreters.process_pool import close_pool, configure_pool

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)

USES = "import pandas as pd\nprint(pd.DataFrame({'a': [1, 2]}).a.sum())"
LOADED = "import sys\nprint('pandas' in sys.modules)"
NAMED = "if 0:\n    import pandas\n" + LOADED
"""Counts as a script that imports it, and takes no time for that."""

UNMADE = f"""
import os, sys, threading
from agentforge_sessions.sandbox import create_sandbox

def making():
    return [one for one in threading.enumerate() if one.name == "sandbox-science"]

def execute(times):
    for _ in range(times):
        assert sandbox.execute({NAMED!r}).stdout == "False\\n"

sandbox = create_sandbox(workspace=sys.argv[1])
"""


def _end_making() -> None:
    for thread in threading.enumerate():
        if thread.name == "sandbox-science":
            thread.join()


def _process(program: str, workspace: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", UNMADE + program, workspace],
        env={**os.environ, "WASI_PYTHON_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def unmade(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the compiled interpreter, in which no process has made it yet."""
    compiled = runtime_info().cache_file
    assert compiled is not None
    cache = tmp_path_factory.mktemp("unmade") / "cache"
    cache.mkdir(mode=0o700)
    shutil.copyfile(compiled, cache / compiled.name)
    (cache / compiled.name).chmod(0o600)
    return cache


@pytest.fixture(scope="module", autouse=True)
def _made(tmp_path_factory: pytest.TempPathFactory) -> None:
    sandbox = create_sandbox(workspace=tmp_path_factory.mktemp("made"))
    while sandbox.execute(NAMED).stdout != "True\n":
        _end_making()


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return create_sandbox(workspace=tmp_path / "w")


def test_a_script_that_imports_it_finds_it_there(sandbox: Sandbox) -> None:
    first = f"{LOADED}\n{USES}"
    for _ in range(3):
        result = sandbox.execute(first)
        assert (result.stdout, result.stderr) == ("True\n3\n", "")
        assert result.fuel_consumed is not None
        assert result.fuel_consumed < 100_000_000  # importing it takes 4,000,000,000


def test_a_script_that_uses_it_costs_little_from_the_first_on(sandbox: Sandbox) -> None:
    code = (
        "import pandas as pd\n"
        "frame = pd.DataFrame({'name': list('abab'), 'value': [1, 2, 3, 4]})\n"
        "print(frame.groupby('name').value.sum().tolist())"
    )
    result = sandbox.execute(code)
    assert result.stdout == "[4, 6]\n"
    assert result.fuel_consumed is not None
    assert result.fuel_consumed < 6_500_000  # 8,800,000 where nothing of it ran before


def test_another_process_begins_with_what_this_one_kept(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from agentforge_sessions.sandbox import create_sandbox\n"
        "result = create_sandbox(workspace=sys.argv[1]).execute(sys.argv[2])\n"
        "print(result.stdout, result.fuel_consumed < 100_000_000)\n"
    )
    code = f"{LOADED}\n{USES}\nimport random, uuid\nprint(random.random(), uuid.uuid4())"
    said = [
        subprocess.run(
            [sys.executable, "-c", program, tmp_path / "w", code],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for _ in range(2)
    ]
    assert [line[:2] + line[4:] for line in said] == [["True", "3", "True"]] * 2
    assert not set(said[0][2:4]) & set(said[1][2:4])


@pytest.mark.parametrize(
    "code", [LOADED, "print('pandas' in __import__('sys').modules) # import pandas"]
)
def test_a_script_that_does_not_begins_without(sandbox: Sandbox, code: str) -> None:
    sandbox.execute(USES)
    for _ in range(4):
        assert sandbox.execute(code).stdout == "False\n"


def test_nothing_of_an_execution_is_left_for_the_next(sandbox: Sandbox) -> None:
    sandbox.execute(f"{USES}\npd.left = 1\nopen('/tmp/left', 'w').close()")
    result = sandbox.execute(f"{USES}\nimport os\nprint(hasattr(pd, 'left'), os.listdir('/tmp'))")
    assert result.stdout == "3\nFalse ['.home']\n"


def test_an_interpreter_that_began_with_it_is_used_again(tmp_path: Path) -> None:
    close_pool()
    configure_pool(2, restore=True)
    sandbox = create_sandbox(workspace=tmp_path / "w")
    said = [
        sandbox.execute(f"{LOADED}\n{code}")
        for code in (USES, "", USES, "", "", USES, f"{USES}\npd.left = 1", USES)
    ]
    assert [result.stdout for result in said] == [
        "True\n3\n" if "3" in result.stdout else "False\n" for result in said
    ]
    assert [len(result.stdout) for result in said] == [7, 6, 7, 6, 6, 7, 7, 7]
    # The first is opened, and the second finds only what can no longer become small.
    assert [result.metadata["interpreter"] for result in said] == ["opened"] * 2 + ["pool"] * 6


def test_random_numbers_are_new_in_each_execution(sandbox: Sandbox) -> None:
    code = (
        "import numpy, random, uuid, tempfile\n"
        "print(random.random(), numpy.random.rand(), numpy.random.default_rng().random(),\n"
        "      uuid.uuid4(), tempfile.mktemp())"
    )
    said = [sandbox.execute(code).stdout.split() for _ in range(3)]
    assert len({each for line in said for each in line}) == 15


def test_the_policys_environment_and_memory_hold(tmp_path: Path) -> None:
    policy = ExecutionPolicy(environment={"MINE": "1"}, memory_bytes=256 << 20)
    sandbox = create_sandbox(workspace=tmp_path / "w", policy=policy)
    result = sandbox.execute(
        f"{USES}\nimport os\nprint(os.environ['MINE'], 'MPLBACKEND' in os.environ)"
    )
    assert result.stdout == "3\n1 False\n"
    assert sandbox.execute(f"{USES}\nbytearray(300 << 20)").trapped == "memory"


def test_a_policy_with_less_memory_than_it_has_goes_without(tmp_path: Path) -> None:
    policy = ExecutionPolicy(memory_bytes=64 << 20)
    sandbox = create_sandbox(workspace=tmp_path / "w", policy=policy)
    result = sandbox.execute(f"{LOADED}\nif 0:\n    import pandas")
    assert result.stdout == "False\n"


def test_a_module_of_the_workspace_comes_before_one_that_is_loaded(sandbox: Sandbox) -> None:
    (sandbox.workspace / "calendar.py").write_text("own = 1")
    (sandbox.workspace / "numpy").mkdir()
    (sandbox.workspace / "numpy" / "results.txt").touch()
    (sandbox.workspace / "secrets").mkdir()
    (sandbox.workspace / "secrets" / "__init__.py").write_text("own = 2")
    code = (
        "import pandas, numpy, calendar, secrets\nprint(calendar.own, secrets.own, numpy.int8(3))"
    )
    result = sandbox.execute(code)
    assert (result.stdout, result.stderr) == ("1 2 3\n", "")
    (sandbox.workspace / "pandas.py").write_text("own = 4")
    assert sandbox.execute("import pandas\nprint(pandas.own)").stdout == "4\n"


def test_the_second_import_has_it_made_at_the_lowest_priority(tmp_path: Path, unmade: Path) -> None:
    done = _process(
        "execute(1); print(len(making()))\n"
        "execute(1); (thread,) = making()\n"
        "thread_id = thread.native_id\n"
        "while (nice := os.getpriority(os.PRIO_PROCESS, thread_id)) != 19: os.sched_yield()\n"
        "print(nice)\n",
        tmp_path / "w",
        unmade,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n19\n", "")


def test_a_process_may_end_while_it_is_being_made(tmp_path: Path, unmade: Path) -> None:
    done = _process("execute(2); print(len(making()))", tmp_path / "w", unmade)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_where_another_process_makes_it_nothing_waits(tmp_path: Path, unmade: Path) -> None:
    with making(unmade, "science") as held:
        assert held
        done = _process(
            "for _ in range(3):\n"
            "    execute(2)\n"
            "    for one in making(): one.join()\n"
            "print(len(making()))\n",
            tmp_path / "w",
            unmade,
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
