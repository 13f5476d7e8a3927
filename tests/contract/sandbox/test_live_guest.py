"""The guest's side of durable programs: what can be awaited over turns, and what is as ever."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import create_sandbox
from tests.support.live_guests import LiveGuest

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)

HOUR_NS = 3600 * 10**9
IMPORTS = "import asyncio, time\nfrom agentforge import *\n"


@pytest.fixture
def guest() -> Iterator[LiveGuest]:
    made = LiveGuest.opened()
    yield made
    made.machine.close()


# ---------------------------------------------------------------- suspending


def test_a_program_waits_at_its_top_level_and_goes_on_with_the_answer(guest: LiveGuest) -> None:
    asked = guest.run(
        f"{IMPORTS}print('before')\n"
        "chosen = await ask('Deploy?', options=['yes', 'no'], title='Now', multi_select=True)\n"
        "print(chosen)"
    )
    assert asked.printed == "before\n"
    said = asked.suspended
    assert said["requests"] == [
        {
            "id": 1,
            "kind": "ask",
            "question": "Deploy?",
            "options": ["yes", "no"],
            "title": "Now",
            "multi_select": True,
        }
    ]
    assert said["wake_at"] is None
    assert [(each["file"], each["line"], each["function"]) for each in said["where"]] == [
        ("/app/<script>", 4, "<module>")
    ]
    assert guest.resume({1: {"value": ["yes"]}}).printed == "['yes']\n"


def test_answers_come_in_any_order_and_each_goes_to_its_request(guest: LiveGuest) -> None:
    asked = guest.run(
        f"{IMPORTS}async def main():\n"
        "    async with asyncio.TaskGroup() as group:\n"
        "        one = group.create_task(ask('one'))\n"
        "        two = group.create_task(call('tool', x=b'1', y=[2]))\n"
        "    return one.result(), two.result(), await asyncio.gather(*(ask(n) for n in 'ab'))\n"
        "print(asyncio.run(main()))"
    )
    assert asked.asked == [(1, "ask"), (2, "call")]
    assert asked.suspended["requests"][1]["arguments"] == {"x": {"$bytes": "MQ=="}, "y": [2]}
    assert guest.resume({2: {"value": {"$bytes": "Mg=="}}}).asked == [(1, "ask")]
    assert guest.resume({1: {"value": {"x": None}}}).asked == [(3, "ask"), (4, "ask")]
    assert (
        guest.resume({4: {"value": 4}, 3: {"value": 3}}).printed == "({'x': None}, b'2', [3, 4])\n"
    )


def test_unknown_and_second_answers_change_nothing(guest: LiveGuest) -> None:
    source = f"{IMPORTS}async def f():\n    return await ask('a'), await ask('b')\nprint(await f())"
    guest.run(source)
    assert guest.resume({7: {"value": 0}}).asked == [(1, "ask")]
    assert guest.resume({1: {"value": 1}, 2: {"value": 0}}).asked == [(2, "ask")]
    assert guest.resume({1: {"value": 0}}).asked == [(2, "ask")]
    assert guest.resume({2: {"value": 2}}).printed == "(1, 2)\n"


def test_a_number_is_never_used_for_two_requests(guest: LiveGuest) -> None:
    assert guest.run(f"{IMPORTS}await ask('a')").asked == [(1, "ask")]
    guest.resume({1: {"value": 1}})
    assert guest.run("x = await asyncio.wait_for(ask('b'), 60)").asked == [(2, "ask")]
    guest.host.answer = lambda said: said["id"]
    assert guest.run("def f(): return ask('c')\nprint(f())").printed == "3\n"
    assert guest.run("await ask('d')").asked[-1] == (4, "ask")


def test_an_error_as_answer_is_raised_where_it_is_awaited(guest: LiveGuest) -> None:
    guest.run(
        f"{IMPORTS}async def f():\n    try:\n        await ask('x')\n"
        "    except Unanswered as error:\n        print('caught', error)\n"
        "    await ask('y')\nawait f()"
    )
    assert guest.resume({1: {"error": "first"}}).asked == [(2, "ask")]
    ended = guest.resume({2: {"error": "nobody is there"}})
    assert ended.outcome.exit_code == 1
    assert ended.error == (
        "Traceback (most recent call last):\n"
        '  File "/app/<script>", line 9, in <module>\n'
        "    await f()\n"
        '  File "/app/<script>", line 8, in f\n'
        "    await ask('y')\n"
        "agentforge.Unanswered: nobody is there\n"
    )


def an_hour_later(guest: LiveGuest) -> None:
    of_machine = guest.machine.guest
    wall_ns = of_machine.moment.wall_ns
    of_machine.go_on_at(of_machine.monotonic_ns() + HOUR_NS)
    of_machine.moment = of_machine.moment._replace(wall_ns=lambda: wall_ns() + HOUR_NS)


def test_a_limit_of_time_ends_a_question(guest: LiveGuest) -> None:
    asked = guest.run(
        f"{IMPORTS}try:\n    async with asyncio.timeout(3600): await ask('x')\n"
        "except TimeoutError: print('late')"
    )
    assert 3000 < asked.suspended["wake_at"] - time.time() < 3700
    assert guest.resume().asked == [(1, "ask")]
    an_hour_later(guest)
    later = guest.resume()
    assert (later.printed, later.frames) == ("late\n", [])


def test_who_sleeps_until_a_moment_wakes_at_it(guest: LiveGuest) -> None:
    code = f"{IMPORTS}moment = time.time() + 3600\nawait sleep_until(moment)\nprint('awake')"
    assert guest.run(code).asked == [(1, "sleep")]
    an_hour_later(guest)
    assert guest.resume().printed == "awake\n"


def test_a_short_sleep_is_waited_for_and_a_long_one_suspends(guest: LiveGuest) -> None:
    assert guest.run(f"{IMPORTS}await asyncio.sleep(0.01)\nprint(1)").frames == []
    for code in ("await sleep_until(0)", "await sleep_until(time.time() + 0.01)", "sleep_until(0)"):
        assert guest.run(code).frames == []
    asleep = guest.run("await asyncio.sleep(3600)")
    assert 3000 < asleep.suspended["wake_at"] - time.time() < 3700
    assert asleep.asked == []


@pytest.mark.parametrize(
    "moment",
    ["time.time() + 3600", "datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)"],
)
def test_a_program_sleeps_until_a_moment_or_until_it_is_woken(
    guest: LiveGuest, moment: str
) -> None:
    asleep = guest.run(f"{IMPORTS}import datetime\nprint(await sleep_until({moment}))")
    assert asleep.asked == [(1, "sleep")]
    assert 3000 < asleep.suspended["requests"][0]["until"] - time.time() < 3700
    assert 3000 < asleep.suspended["wake_at"] - time.time() < 3700
    assert guest.resume().asked == [(1, "sleep")]
    assert guest.resume({1: {"value": None}}).printed == "None\n"


def test_what_runs_beside_the_program_lives_on_between_turns(guest: LiveGuest) -> None:
    guest.run(
        f"{IMPORTS}queue = asyncio.Queue()\n"
        "async def work():\n    while True: print('got', await queue.get())\n"
        "worker = asyncio.create_task(work())\nawait asyncio.sleep(0)"
    )
    assert (
        guest.run("await queue.put(1)\nfor _ in '123': await asyncio.sleep(0)").printed == "got 1\n"
    )
    assert guest.run(f"{IMPORTS}await queue.put(await ask('x'))").asked == [(1, "ask")]
    assert guest.resume({1: {"value": 2}}).printed == "got 2\n"


def test_a_program_that_nothing_can_wake_is_ended_with_a_word(guest: LiveGuest) -> None:
    ended = guest.run(f"{IMPORTS}async def f():\n    await asyncio.Event().wait()\nawait f()")
    assert ended.outcome.exit_code == 1
    assert ended.error.splitlines()[1] == '  File "/app/<script>", line 5, in <module>'
    assert ended.error.endswith(
        "agentforge.Deadlock: nothing will ever wake this program: "
        "it waits for no answer and for no time\n"
    )
    stubborn = (
        "async def f():\n    while True:\n        try: await asyncio.Event().wait()\n"
        "        except asyncio.CancelledError: pass\nawait f()"
    )
    assert "agentforge.Deadlock" in guest.run(stubborn).error
    assert guest.run("print(1)").printed == "1\n"


@pytest.mark.parametrize(
    "how", ["raise SystemExit(7)", "asyncio.create_task(leave()); await ask('x')"]
)
def test_an_exit_after_a_suspension_is_the_programs_exit(guest: LiveGuest, how: str) -> None:
    guest.run(f"{IMPORTS}async def leave(): raise SystemExit(7)\nawait ask('a')\n{how}")
    ended = guest.resume({1: {"value": 0}})
    assert (ended.outcome.exit_code, ended.error, ended.frames) == (7, "", [])
    assert guest.run("print(1)").printed == "1\n"


# ---------------------------------------------------------------- plain functions


def test_a_plain_function_asks_the_host_at_once(guest: LiveGuest) -> None:
    guest.host.answer = lambda said: [said["kind"], said.get("question"), said["id"]]
    turn = guest.run(
        f"{IMPORTS}def deep(n):\n    here = n\n"
        "    return [ask('x') for name in '1'] if n == 0 else deep(n - 1)\n"
        "print(deep(1), call('t', a=1), checkpoint('c'), (lambda: ask('y'))())"
    )
    assert (
        turn.printed
        == "[['ask', 'x', 1]] ['call', None, 2] ['checkpoint', None, 3] ['ask', 'y', 4]\n"
    )
    assert [each["op"] for each in turn.frames] == ["request"] * 4
    assert [(each["line"], each["function"]) for each in turn.frames[0]["where"]] == [
        (6, "<module>"),
        (5, "deep"),
        (5, "deep"),
    ]
    assert turn.frames[0]["where"][2]["names"] == {"n": "0", "here": "0", "name": "'1'"}


def test_agents_and_gates_are_calls(guest: LiveGuest) -> None:
    guest.host.answer = lambda said: [said["tool"], said["arguments"]]
    turn = guest.run(
        f"{IMPORTS}def f():\n"
        "    return agent('do it', name='a', gate=None), gate(), gate('lint', strict=True)\n"
        "for each in f(): print(each)\n"
        "await asyncio.gather(agent('x', writes=['a']), gate())"
    )
    assert turn.frames[-1]["requests"] == [
        {"id": 4, "kind": "call", "tool": "agent", "arguments": {"prompt": "x", "writes": ["a"]}},
        {"id": 5, "kind": "call", "tool": "gate", "arguments": {"kind": "tests_pass"}},
    ]
    assert turn.printed == (
        "['agent', {'prompt': 'do it', 'name': 'a'}]\n"
        "['gate', {'kind': 'tests_pass'}]\n"
        "['gate', {'kind': 'lint', 'strict': True}]\n"
    )


def test_what_a_plain_function_is_refused_is_raised_there(guest: LiveGuest) -> None:
    ended = guest.run(f"{IMPORTS}def f():\n    return ask('x')\nf()")
    assert ended.error == (
        "Traceback (most recent call last):\n"
        '  File "/app/<script>", line 5, in <module>\n'
        "    f()\n"
        "    ~^^\n"
        '  File "/app/<script>", line 4, in f\n'
        "    return ask('x')\n"
        "agentforge.Unanswered: nobody answers\n"
    )


def test_a_checkpoint_is_made_at_once_also_where_it_is_awaited(guest: LiveGuest) -> None:
    guest.host.answer = lambda said: said["name"]
    assert (
        guest.run(f"{IMPORTS}print(await checkpoint('x'), await checkpoint())").printed
        == "x None\n"
    )


def test_a_loop_within_a_plain_function_runs_beside_the_programs(guest: LiveGuest) -> None:
    guest.host.answer = lambda said: said["question"]
    turn = guest.run(
        f"{IMPORTS}async def inner(n):\n    await asyncio.sleep(0.001)\n    return await ask(n)\n"
        "def plain(n): return asyncio.run(inner(n))\n"
        "async def main():\n    task = asyncio.current_task()\n    found = plain('a'), plain('b')\n"
        "    assert asyncio.current_task() is task\n    return *found, await ask('c')\n"
        "print(asyncio.run(main()))"
    )
    assert turn.asked == [(3, "ask")]
    assert guest.resume({3: {"value": "c"}}).printed == "('a', 'b', 'c')\n"


def test_a_script_without_an_await_of_its_own_asks_at_once_beside_asyncio_run(
    guest: LiveGuest,
) -> None:
    guest.host.answer = lambda said: said["question"]
    source = (
        f"{IMPORTS}async def main(): return await ask('first')\n"
        "print(asyncio.run(main()))\nprint(ask('second'))"
    )
    assert guest.run(source).asked == [(1, "ask")]
    assert guest.resume({1: {"value": 1}}).printed == "1\nsecond\n"


@pytest.mark.parametrize(
    "code",
    [
        "import asyncio as aio\nprint(aio.run(main()))",
        "from asyncio import run\nprint(run(main()))",
        "from asyncio import run as go\nprint(f'{go(main())}')",
        "import asyncio\nif __name__ == '__main__':\n    print(asyncio.run(main(), debug=False))",
        "import asyncio\ntry:\n    print(asyncio.run(main=main()))\nfinally:\n    pass",
    ],
)
def test_asyncio_run_at_the_top_level_is_suspended_by_whatever_name(
    guest: LiveGuest, code: str
) -> None:
    source = f"from agentforge import ask\nasync def main(): return await ask('x')\n{code}"
    assert guest.run(source).asked == [(1, "ask")]
    assert guest.resume({1: {"value": 5}}).printed == "5\n"
    assert guest.run(code).asked == [(2, "ask")]


def test_standard_input_comes_first_and_then_input_is_a_question(guest: LiveGuest) -> None:
    guest.host.answer = lambda said: f"{said['kind']} {said['question']}"
    script = "def name(): return input('name? ')\nprint([name(), name(), input()])"
    turn = guest.run(script, stdin=b"first\n")
    assert turn.printed == "name? name? ['first', 'input name? ', 'input ']\n"
    guest.host.answer = None
    assert guest.run(script).error.endswith("EOFError: nobody answers\n")
    assert guest.run("import sys\nprint(list(sys.stdin))").printed == "[]\n"


def test_a_request_that_nobody_awaits_is_warned_of_by_its_name(guest: LiveGuest) -> None:
    turn = guest.run(f"{IMPORTS}ask('x'), call('t'), checkpoint()\nawait asyncio.sleep(0)")
    warned = re.findall(r"coroutine '(\w+)' was never awaited", turn.error)
    assert sorted(warned) == ["ask", "call", "checkpoint"]
    assert turn.frames == []


# ---------------------------------------------------------------- bounds


@pytest.mark.parametrize(
    "code",
    [
        "await ask(1)",
        "await call('t', x=object())",
        "await call('t', x=float('nan'))",
        "await ask('x', options=[1])",
        "await ask('\\ud800')",
        "await call('t', x={1: 2})",
        "await call('t', x={'$bytes': 'x'})",
        "await call('t', x=1 << 300)",
        "x = []\nfor _ in range(100): x = [x]\nawait call('t', x=x)",
        "await ask('x' * (1 << 20))",
        "await asyncio.gather(*(ask('x' * 1000) for _ in range(999)))",
        "await asyncio.gather(*(ask('x') for _ in range(1001)))",
        "ask('x' * (1 << 20))",
    ],
)
def test_what_is_no_request_is_refused_where_it_is_made(guest: LiveGuest, code: str) -> None:
    ended = guest.run(f"{IMPORTS}def f(): pass\n{code}")
    assert ended.outcome.exit_code == 1
    assert f'  File "/app/<script>", line {4 + code.count(chr(10))}, in <module>' in ended.error
    assert "agentforge>" not in ended.error
    assert ended.error.splitlines()[-1].startswith(("TypeError", "ValueError", "RuntimeError"))
    assert ended.frames == []


def test_variables_are_shown_short_and_without_running_their_code(guest: LiveGuest) -> None:
    asked = guest.run(
        f"{IMPORTS}class Hostile(str):\n"
        "    def __getattribute__(self, name): raise SystemExit(9)\n"
        "    __repr__ = __len__ = __iter__ = __getitem__ = __eq__ = __hash__ = __bool__ = (\n"
        "        lambda *_: 1 / 0)\n"
        "class Meta(type):\n"
        "    def __getattribute__(self, name): raise SystemExit(9)\n"
        "class Odd(metaclass=Meta): pass\n"
        "async def f():\n"
        "    hostile, odd, text = Hostile('x'), Odd(), 'y' * 100_000\n"
        "    number, numbers, own = 1 << 100_000, list(range(1000)), {1: [[[[1]]]], 'b': {2}}\n"
        "    nested = []; nested.append(nested); empty = (); kind = Odd; pair = (1.5, None, b'z')\n"
        "    await ask('x')\n"
        "await f()"
    )
    names = asked.suspended["where"][-1]["names"]
    assert names == {
        "hostile": "<Hostile>",
        "odd": "<Odd>",
        "text": f"{'y' * 60!r}...",
        "number": "<int of 100001 bits>",
        "numbers": "[0, 1, 2, 3, ... (1000)]",
        "own": "{1: [[...]], 'b': {2}}",
        "nested": "[[[...]]]",
        "empty": "()",
        "pair": "(1.5, None, b'z')",
    }


def test_where_it_waits_is_bounded(guest: LiveGuest) -> None:
    names = "; ".join(f"name_{i} = {{i: 'x' * 100 for i in range(100)}}" for i in range(100))
    asked = guest.run(
        f"{IMPORTS}async def f(n):\n    {names}\n    return await (f(n - 1) if n else ask('x'))\n"
        "await f(100)"
    )
    where = asked.suspended["where"]
    assert len(where) == 16
    assert {len(each["names"]) for each in where} == {16}
    assert len(str(where)) < 100_000


def test_with_its_memory_full_a_program_still_says_what_it_waits_for(guest: LiveGuest) -> None:
    asked = guest.run(
        f"{IMPORTS}held = []\n"
        "for size in (1 << 20, 1 << 12, 1 << 8):\n"
        "    try:\n        while True: held.append(bytearray(size))\n"
        "    except MemoryError: pass\n"
        "await ask('x')\nheld.clear()\nprint('well')"
    )
    assert asked.asked == [(1, "ask")]
    assert guest.resume({1: {"value": 0}}).printed == "well\n"


# ---------------------------------------------------------------- as ever

AS_EVER = [
    "print(1)",
    "1 / 0",
    "syntax error",
    "raise SystemExit",
    "raise SystemExit(3)",
    "raise SystemExit('words')",
    "from __future__ import annotations\nx: unknown = 1\nprint(x)",
    "print(__name__, __file__, sorted(vars()))\nimport sys\nprint(sys.argv, sys.path)",
    "x = 1 is 1\nimport asyncio\nasync def main(): return '\\d'\nprint(asyncio.run(main()))",
    "import asyncio\nasync def main(): return 1\ndef f(): return asyncio.run(main())\nprint(f())",
    "import asyncio\nprint([asyncio.run(asyncio.sleep(0, i)) for i in range(3)])",
    "import asyncio\nwith asyncio.Runner() as runner: print(runner.run(asyncio.sleep(0, 1)))",
    "import asyncio\nasync def main():\n    try: asyncio.run(main())\n"
    "    except RuntimeError as error: print(error)\nasyncio.run(main())",
    "import asyncio\nasync def aside():\n    try: await asyncio.sleep(100)\n"
    "    finally: print('cancelled')\n"
    "async def main():\n    asyncio.create_task(aside())\n    await asyncio.sleep(0)\n"
    "asyncio.run(main())\nprint('after')",
    "import asyncio\nasync def items():\n    try: yield 1\n    finally: print('closed')\n"
    "async def main():\n    async for _ in items(): break\n    print('end')\nasyncio.run(main())",
    "import asyncio\nasync def f(n): raise ValueError(n)\nasync def main():\n"
    "    async with asyncio.TaskGroup() as group:\n"
    "        group.create_task(f(1)); group.create_task(f(2))\nawait main()",
    "import asyncio\ntry: asyncio.run(asyncio.wait_for(asyncio.Event().wait(), 0.01))\n"
    "except TimeoutError: print('late')",
    "from asyncio import run\nasync def main(): raise SystemExit(4)\nrun(main())",
    "def run(x): return x + 1\nclass A:\n    def run(self): return 2\nprint(run(1), A().run())",
    "import sys\nprint(sys.stdin.read(), list(sys.stdin))",
    "import os\nos._exit(3)",
    "try:\n    1 / 0\nexcept Exception as error:\n    raise KeyError(1) from error",
]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int | None, str, str]]:
    found = {}
    for code in AS_EVER:
        with create_sandbox(workspace=tmp_path_factory.mktemp("w"), stateful=True) as sandbox:
            result = sandbox.execute(code)
        found[code] = (result.exit_code, result.stdout, result.stderr)
    return found


@pytest.mark.parametrize("code", AS_EVER)
def test_code_that_knows_nothing_of_this_runs_as_ever(
    guest: LiveGuest, code: str, expected: dict[str, tuple[int | None, str, str]]
) -> None:
    turn = guest.run(code)
    outcome = turn.outcome
    assert (outcome.exit_code, outcome.stdout.decode(), turn.error) == expected[code]
    assert turn.frames == []


def test_what_is_set_for_a_context_stays_in_turns_that_await_and_others(guest: LiveGuest) -> None:
    sets = "\nimport decimal\nprint(decimal.getcontext().prec)\ndecimal.getcontext().prec += 1"
    for number, code in enumerate(["", "await asyncio.sleep(0)", "asyncio.run(asyncio.sleep(0))"]):
        assert guest.run(f"import asyncio\n{code}{sets}").printed == f"{28 + number}\n"


def test_names_stay_and_arguments_are_each_turns_own(guest: LiveGuest) -> None:
    assert (
        guest.run("import sys\nx = sys.argv[1:]\nprint(x)", argv=("a", "")).printed == "['a', '']\n"
    )
    assert guest.run("print(x, sys.argv)").printed == "['a', ''] ['/app/<script>']\n"
    assert guest.run("1 / 0").outcome.exit_code == 1
    assert guest.run("def f(n): return f(n + 1)\nf(0)").outcome.exit_code == 1
    assert guest.run("print(x)").printed == "['a', '']\n"


def test_code_may_spoil_what_the_driver_uses(guest: LiveGuest) -> None:
    spoilt = (
        "import asyncio, builtins, json\n"
        "builtins.print = builtins.sorted = json.dumps = json.loads = asyncio.run = None"
    )
    guest.run("from agentforge import ask")
    guest.run(spoilt)
    assert guest.run("x = await ask('x')").asked == [(1, "ask")]
    assert guest.resume({1: {"value": 1}}).outcome.exit_code == 0


# ---------------------------------------------------------------- chance


def test_two_programs_draw_other_numbers_and_so_does_one_that_is_reseeded(guest: LiveGuest) -> None:
    code = (
        "import random, tempfile, uuid, os\nprint(random.random(), tempfile.mktemp(), uuid.uuid4())"
    )
    other = LiveGuest.opened()
    drawn = [each.run(code).printed.split() for each in (guest, other)]
    other.machine.close()
    assert not {*drawn[0]} & {*drawn[1]}
    again = "random.seed(1)\nstate = random.random()\nrandom.seed(1)"
    guest.run(again)
    assert guest.run("print(random.random() == state)").printed == "True\n"
    guest.run(again)
    assert guest.reseed().printed == ""
    assert guest.run("print(random.random() == state)").printed == "False\n"


def test_a_module_of_the_workspace_comes_before_one_that_is_loaded(tmp_path: Path) -> None:
    from agentforge_sessions.sandbox.host.files.memory_files import MemoryTree, ReadOnlyFile

    tree = MemoryTree(None)
    content = b"own = 1"

    def read(buffers: list[memoryview], at: int) -> int:
        part = content[at : at + len(buffers[0])]
        buffers[0][: len(part)] = part
        return len(part)

    tree.add(b"selectors.py", ReadOnlyFile(tree, len(content), read))
    guest = LiveGuest.opened(app=tree.root)
    assert guest.run("import selectors\nprint(selectors.own)").printed == "1\n"
    assert guest.run("from agentforge import ask\nprint(await ask('x'))").asked == [(1, "ask")]
    assert guest.resume({1: {"value": {"a": 1}}}).printed == "{'a': 1}\n"
    guest.machine.close()
