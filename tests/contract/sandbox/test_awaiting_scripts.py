"""Scripts that use asyncio: its loops work without sockets, and scripts may await."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import Sandbox, create_sandbox, prepare
from agentforge_sessions.sandbox.guest.guest_code import AWAITING, COROUTINE

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(params=[False, True], ids=["fresh", "stateful"])
def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sandbox]:
    prepare()
    with create_sandbox(workspace=tmp_path / "w", stateful=request.param) as made:
        yield made


def printed(sandbox: Sandbox, script: str) -> str:
    result = sandbox.execute(script)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def test_a_script_runs_a_loop_and_then_another(sandbox: Sandbox) -> None:
    script = (
        "import asyncio, time\n"
        "async def nap(seconds): await asyncio.sleep(seconds); return seconds\n"
        "async def main(): return await asyncio.gather(nap(0.02), nap(0.01), nap(0))\n"
        "began = time.monotonic()\n"
        "print(asyncio.run(main()), asyncio.run(main()))\n"
        "assert time.monotonic() - began >= 0.04\n"
    )
    for _ in range(2):
        assert printed(sandbox, script) == "[0.02, 0.01, 0] [0.02, 0.01, 0]\n"


def test_tasks_queues_and_limits_of_time_work(sandbox: Sandbox) -> None:
    script = (
        "import asyncio\n"
        "async def make(queue):\n"
        "    for i in range(3): await queue.put(i)\n"
        "async def main():\n"
        "    queue = asyncio.Queue(1)\n"
        "    async with asyncio.TaskGroup() as group:\n"
        "        group.create_task(make(queue))\n"
        "        print([await queue.get() for _ in range(3)])\n"
        "    try:\n"
        "        async with asyncio.timeout(0.01): await asyncio.sleep(100)\n"
        "    except TimeoutError: print('late')\n"
        "    asyncio.get_running_loop().call_soon_threadsafe(print, 'soon')\n"
        "    await asyncio.sleep(0)\n"
        "with asyncio.Runner() as runner: runner.run(main())\n"
    )
    assert printed(sandbox, script) == "[0, 1, 2]\nlate\nsoon\n"


def test_a_script_may_await_at_its_top_level(sandbox: Sandbox) -> None:
    script = (
        "from __future__ import annotations\n"
        "import asyncio\n"
        "number = await asyncio.sleep(0.01, 5)\n"
        "async def count():\n"
        "    for i in range(3): yield i\n"
        "async with asyncio.timeout(60): listed = [i async for i in count()]\n"
        "async for last in count(): pass\n"
        "print(number, listed, last, __name__, sorted(vars())[-3:])\n"
    )
    assert printed(sandbox, script) == ("5 [0, 1, 2] 2 __main__ ['last', 'listed', 'number']\n")


def test_what_an_awaiting_script_raises_is_told_as_of_any_script(sandbox: Sandbox) -> None:
    result = sandbox.execute("import asyncio\nawait asyncio.sleep(0)\n1 / 0\n")
    assert result.exit_code == 1
    assert result.stderr == (
        "Traceback (most recent call last):\n"
        '  File "/app/<script>", line 3, in <module>\n'
        "    1 / 0\n"
        "    ~~^~~\n"
        "ZeroDivisionError: division by zero\n"
    )


def test_an_awaiting_script_ends_with_its_exit_code(sandbox: Sandbox) -> None:
    result = sandbox.execute("import asyncio, sys\nawait asyncio.sleep(0)\nsys.exit(7)\n")
    assert (result.exit_code, result.stderr) == (7, "")


def test_a_wait_of_a_loop_ends_with_the_deadline(sandbox: Sandbox) -> None:
    result = sandbox.execute("import asyncio\nawait asyncio.sleep(10_000)\n", timeout=1)
    assert result.trapped == "deadline"


def test_await_in_a_plain_function_is_wrong_as_ever(sandbox: Sandbox) -> None:
    result = sandbox.execute("def f(): await 1\n")
    assert result.exit_code == 1
    assert "SyntaxError: 'await' outside async function" in result.stderr


def test_who_does_not_await_loads_no_loop(sandbox: Sandbox) -> None:
    assert printed(sandbox, "import sys; print('asyncio' in sys.modules)") == "False\n"


def test_the_names_of_an_awaiting_turn_are_there_in_the_next(tmp_path: Path) -> None:
    prepare()
    with create_sandbox(workspace=tmp_path / "w", stateful=True) as made:
        printed(made, "import asyncio\nfound = await asyncio.sleep(0, 'found')\n")
        assert printed(made, "print(found, await asyncio.sleep(0, 'again'))") == "found again\n"


def test_the_flags_are_those_of_python() -> None:
    assert (ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, inspect.CO_COROUTINE) == (AWAITING, COROUTINE)
