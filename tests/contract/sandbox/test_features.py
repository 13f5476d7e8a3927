"""What an execution may be given, and what it may not take: each with a pool and without."""

from __future__ import annotations

import asyncio
import functools
import os
import pickle
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentforge_sessions.base.cancellation import CancelToken
from agentforge_sessions.sandbox import (
    ExecutionPolicy,
    InputFileError,
    InvalidExecution,
    InvalidPolicy,
    ReadOnlyMount,
    Sandbox,
    SandboxClosed,
    SandboxResult,
    WorkspaceBusy,
    WorkspaceError,
    create_sandbox,
)
from agentforge_sessions.sandbox.result_parts import ToolCallRecord
from tests.support.promptness import given_time, soonest, when

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("any_pool")]


# ---------------------------------------------------------------- files and variables


def test_files_are_there_and_are_no_change(sandbox: Sandbox) -> None:
    result = sandbox.execute(
        "print(open('in/größe.txt').read(), open('b', 'rb').read())\nopen('b', 'ab').write(b'!')",
        files={"in/größe.txt": "ü", "b": b"\xff\0", "unused": bytearray(b"x")},
    )
    assert result.stdout == "ü b'\\xff\\x00'\n"
    assert (result.files_created, result.files_modified) == ((), ("b",))
    assert (sandbox.workspace / "b").read_bytes() == b"\xff\0!"


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/x",
        "../x",
        "a/../b",
        "./a",
        "a//b",
        "a/",
        "nul\0",
        "\ud800",
        "x" * 256,
        ".metadata.json",
        ".METADATA.json",
        3,
    ],
)
def test_a_file_path_that_is_none_is_refused(sandbox: Sandbox, path: str) -> None:
    with pytest.raises(InvalidExecution) as caught:
        sandbox.execute("1", files={path: b"", "fine": 3})  # type: ignore[dict-item]
    assert len(caught.value.faults) == 2
    assert os.listdir(sandbox.workspace) == []


def test_a_file_that_cannot_be_placed_is_named(sandbox: Sandbox) -> None:
    (sandbox.workspace / "link").symlink_to("/etc")
    with pytest.raises(InputFileError) as caught:
        sandbox.execute("open('ran', 'w')", files={"first": b"", "link/x": b""})
    assert (caught.value.path, caught.value.placed) == ("link/x", ("first",))
    assert sorted(os.listdir(sandbox.workspace)) == ["first", "link"]


def test_variables_are_there_as_json_carries_them(sandbox: Sandbox) -> None:
    result = sandbox.execute(
        "print(sorted(n for n in dir() if n[:2] != '__'), rows, text, none)",
        inject={"rows": [1, 2.5, {"a": (True, None)}], "text": "ü\"'\n\0", "none": None},
    )
    assert result.stdout == (
        "['none', 'rows', 'text'] [1, 2.5, {'a': [True, None]}] ü\"'\n\0 None\n"
    )


def test_variables_that_cannot_be_carried_are_refused(sandbox: Sandbox) -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(InvalidExecution) as caught:
        sandbox.execute(
            "1",
            inject={
                "nan": float("nan"),
                "thing": object(),
                "loop": loop,
                "1a": 1,
                "class": 1,
                "__name__": 1,
                "fine": 1,
            },
        )
    assert len(caught.value.faults) == 6


def test_wrong_kinds_of_the_new_arguments_are_refused_together(sandbox: Sandbox) -> None:
    with pytest.raises(InvalidExecution) as caught:
        sandbox.execute(
            "1",
            files=[],  # type: ignore[arg-type]
            inject=3,  # type: ignore[arg-type]
            on_stdout="x",  # type: ignore[arg-type]
            on_stderr=1,  # type: ignore[arg-type]
            cancel=threading.Event(),  # type: ignore[arg-type]
        )
    assert [fault.split()[0] for fault in caught.value.faults] == [
        "files",
        "inject",
        "on_stdout",
        "on_stderr",
        "cancel",
    ]


def test_the_most_memory_that_a_guest_held_is_told(sandbox: Sandbox) -> None:
    little = sandbox.execute("1").memory_peak
    assert little is not None
    much = sandbox.execute("x = bytearray(100 << 20); del x").memory_peak
    assert much is not None
    assert little + (60 << 20) < much < little + (120 << 20)
    assert sandbox.execute("1").memory_peak == little  # none of it is the next one's
    assert sandbox.execute("raise SystemExit(3)").memory_peak == little
    assert sandbox.execute("while True: pass", timeout=0.2).memory_peak is None


# ---------------------------------------------------------------- output as it comes


def test_lines_are_handed_on_while_the_guest_runs(sandbox: Sandbox) -> None:
    seen: list[tuple[str, bool]] = []
    errors: list[str] = []
    go = sandbox.workspace / "go"

    def on_stdout(text: str) -> None:
        seen.append((text, go.exists()))
        if text.startswith("one"):
            go.touch()

    result = sandbox.execute(
        "import os, sys, time\n"
        "print('one ü')\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
        "print('two')\n"
        "print('three', file=sys.stderr)\n"
        "print('end', end='')",
        on_stdout=on_stdout,
        on_stderr=errors.append,
    )
    assert result.success, result
    assert seen[0] == ("one ü\n", False)
    assert "".join(text for text, _ in seen) == result.stdout == "one ü\ntwo\nend"
    assert "".join(errors) == result.stderr == "three\n"


def test_bytes_that_are_no_text_are_handed_on_replaced(sandbox: Sandbox) -> None:
    seen: list[str] = []
    result = sandbox.execute(
        "import sys\n"
        "for part in (b'a\\xc3', b'\\xbc', b'\\xff', b'\\xe2\\x82'):\n"
        "    sys.stdout.buffer.write(part); sys.stdout.buffer.flush()",
        on_stdout=seen.append,
    )
    assert "".join(seen) == result.stdout == "aü\ufffd\ufffd"


def test_no_more_is_handed_on_than_is_kept(tmp_path: Path) -> None:
    policy = ExecutionPolicy(output_bytes=100)
    seen: list[str] = []
    result = create_sandbox(workspace=tmp_path / "w", policy=policy).execute(
        "for i in range(100): print('x' * 9)", on_stdout=seen.append
    )
    assert result.truncated
    assert "".join(seen) == result.stdout


def test_what_is_written_past_the_streams_is_handed_on_too(sandbox: Sandbox) -> None:
    seen: list[tuple[str, str]] = []
    result = sandbox.execute(
        "import os, posix\n"
        "print('one')\n"
        "print(os.write(1, memoryview(b'two\\n')), posix.write(2, b'three\\n'))\n"
        "fd = os.open('file', os.O_WRONLY | os.O_CREAT)\n"
        "print(os.write(fd, b'in a file'))",
        on_stdout=lambda text: seen.append(("out", text)),
        on_stderr=lambda text: seen.append(("err", text)),
    )
    assert (result.stdout, result.stderr) == ("one\ntwo\n4 6\n9\n", "three\n")
    assert "".join(text for stream, text in seen if stream == "out") == result.stdout
    assert "".join(text for stream, text in seen if stream == "err") == result.stderr
    assert seen.index(("out", "two\n")) < seen.index(("err", "three\n"))
    assert (sandbox.workspace / "file").read_bytes() == b"in a file"


def test_without_callbacks_writing_is_the_systems_own(sandbox: Sandbox) -> None:
    result = sandbox.execute(
        "import os, sys; print(os.write, type(sys.stdout.buffer.raw).__name__)"
    )
    assert result.stdout == "<built-in function write> FileIO\n"


# ---------------------------------------------------------------- stopping


def test_a_token_stops_a_guest_at_once(sandbox: Sandbox) -> None:
    token = CancelToken()
    began = sandbox.workspace / "began"

    def once(code: str) -> float:
        nonlocal token
        token, stopped = CancelToken(), []
        began.unlink(missing_ok=True)

        def stop() -> None:
            stopped.append(time.monotonic())
            token.cancel()

        stopper = when(began.exists, stop)
        result = sandbox.execute("open('began', 'w').close()\n" + code, cancel=token)
        took = time.monotonic() - stopped[0]
        stopper.join()
        assert (result.trapped, result.exit_code, result.success) == ("cancelled", None, False)
        assert result.files_created == ("began",)
        assert token.cancelled
        return took

    for code in ("while True: pass", "import time; time.sleep(100)"):
        assert soonest(functools.partial(once, code), 0.5) <= 0.5
    result = sandbox.execute("open('again', 'w')", cancel=token)
    assert (result.trapped, result.files_created) == ("cancelled", ())
    assert not (sandbox.workspace / "again").exists()
    assert sandbox.execute("print(1)", cancel=CancelToken()).success


def test_an_execution_does_not_block_the_event_loop(sandbox: Sandbox) -> None:
    code = (
        "import os, time\n"
        "open('began', 'w').close()\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
        "print(input())"
    )

    async def work() -> SandboxResult:
        task = asyncio.create_task(sandbox.execute_async(code, stdin="in", timeout=60))
        while not (sandbox.workspace / "began").exists():  # it runs, and so does this loop
            await asyncio.sleep(0.01)
        assert not task.done()
        (sandbox.workspace / "go").touch()
        return await task

    assert asyncio.run(work()).stdout == "in\n"


def test_a_cancelled_task_stops_its_guest(sandbox: Sandbox) -> None:
    async def work() -> float:
        task = asyncio.create_task(
            sandbox.execute_async("open('began', 'w').close()\nwhile True: pass")
        )
        while not (sandbox.workspace / "began").exists():
            await asyncio.sleep(0.01)
        (sandbox.workspace / "began").unlink()
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - started

    assert soonest(lambda: asyncio.run(work()), 0.5) <= 0.5
    assert sandbox.execute("print(1)").success


def test_an_asynchronous_execution_raises_as_the_other(sandbox: Sandbox) -> None:
    with pytest.raises(InvalidExecution):
        asyncio.run(sandbox.execute_async("a\0b"))
    sandbox.workspace.rmdir()
    with pytest.raises(WorkspaceError):
        asyncio.run(sandbox.execute_async("1"))


# ---------------------------------------------------------------- quotas and mounts


def test_a_workspace_cannot_be_filled_past_its_quota(tmp_path: Path) -> None:
    policy = ExecutionPolicy(workspace_bytes=1 << 20, workspace_files=50)
    sandbox = create_sandbox(workspace=tmp_path / "w", policy=policy)
    result = sandbox.execute(
        "import errno\n"
        "try:\n"
        "    for i in range(20):\n"
        "        with open(str(i), 'wb') as file: file.write(bytes(100_000))\n"
        "except OSError as error: print(i, error.errno == errno.ENOSPC)\n"
    )
    assert result.stdout == "10 True\n"
    assert result.metadata["quota_exceeded"] == ("workspace_bytes",)
    assert result.metadata["refused_writes"] == 1
    held = sum(path.stat().st_size for path in sandbox.workspace.iterdir())
    assert held <= 1 << 20
    more = sandbox.execute("for i in range(100): open(f'f{i}', 'w').close()")
    assert "No space left" in more.stderr
    assert more.metadata["quota_exceeded"] == ("workspace_files",)
    assert len(os.listdir(sandbox.workspace)) == 50


def test_a_file_beyond_the_limit_is_not_opened(tmp_path: Path) -> None:
    policy = ExecutionPolicy(file_bytes=1 << 20)
    sandbox = create_sandbox(workspace=tmp_path / "w", policy=policy)
    sandbox.workspace.joinpath("big").write_bytes(bytes(1 << 21))
    result = sandbox.execute(
        "import errno\ntry: open('big')\nexcept OSError as e: print(e.errno == errno.EFBIG)"
    )
    assert result.stdout == "True\n"
    assert result.metadata["quota_exceeded"] == ("file_bytes",)


def test_file_calls_are_limited(tmp_path: Path) -> None:
    policy = ExecutionPolicy(file_calls=20)
    sandbox = create_sandbox(workspace=tmp_path / "w", policy=policy)
    result = sandbox.execute("import os\nwhile True: os.listdir()")
    assert (result.trapped, result.exit_code) == ("files", None)
    assert result.metadata["file_calls"] == 20


def test_a_mount_is_read_and_never_written(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "data.txt").write_text("data")
    (source / "link").symlink_to("/etc/passwd")
    os.mkfifo(source / "pipe")
    policy = ExecutionPolicy(mounts=(ReadOnlyMount(source, "/data/set"),))
    sandbox = create_sandbox(workspace=tmp_path / "w", policy=policy)
    code = (
        "import os\n"
        "print(open('/data/set/sub/data.txt').read(), os.listdir('/data/set'))\n"
        "for call in (lambda: open('/data/set/new', 'w'), lambda: os.mkdir('/data/set/d'),\n"
        "             lambda: os.remove('/data/set/sub/data.txt'),\n"
        "             lambda: open('/data/set/pipe'),\n"
        "             lambda: open('/data/set/link'), lambda: os.rename('/data/set/sub', 'x'),\n"
        "             lambda: open('/data/set/sub/data.txt', 'r+')):\n"
        "    try: call(); print('DONE')\n"
        "    except OSError: pass\n"
    )
    for stdin in (None, "x"):
        assert sandbox.execute(code, stdin=stdin).stdout == "data ['sub']\n"
    assert sorted(os.listdir(source)) == ["link", "pipe", "sub"]
    (source / "sub" / "data.txt").unlink()
    (source / "sub").rmdir()
    (source / "link").unlink()
    (source / "pipe").unlink()
    source.rmdir()
    with pytest.raises(WorkspaceError) as caught:
        sandbox.execute("1")
    assert caught.value.path == source


# ---------------------------------------------------------------- the functions of the host


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def broken(text: str) -> str:
    """Fail."""
    raise RuntimeError(f"secret of the host {text}")


async def later(text: str) -> str:
    """Answer a little later."""
    await asyncio.sleep(0.05)
    return text * 2


TOOL_CODE = """
from host import tools
print(tools.add(1), tools.later('ab'))
for call in (lambda: tools.add(7, 1), lambda: tools.broken('x' * 500), lambda: tools.add('1'),
             lambda: tools.gone()):
    try:
        call()
    except Exception as error:
        print(type(error).__name__, error)
"""


def test_functions_of_the_host_are_called_and_recorded(tmp_path: Path) -> None:
    sandbox = create_sandbox(
        workspace=tmp_path / "w",
        tools=[add, broken, later],
        gate=lambda call: call.arguments.get("a") != 7,
    )
    for stdin in (None, "input"):
        result = sandbox.execute(TOOL_CODE, stdin=stdin)
        assert result.stdout.startswith("3 abab\n"), result
        assert "secret" not in result.stdout + result.stderr
        calls = result.tool_calls
        assert [(call.name, call.outcome) for call in calls[:5]] == [
            ("add", "ok"),
            ("later", "ok"),
            ("add", "denied"),
            ("broken", "failed"),
            ("add", "failed"),
        ]
        assert calls[0].arguments == "a=1"
        assert calls[1].duration_s >= 0.05
        assert (calls[2].arguments, calls[2].duration_s) == ("a=7, b=1", 0.0)
        assert len(calls[3].arguments) <= 200
        assert calls[4].detail == "invalid_arguments"
        assert pickle.loads(pickle.dumps(result)) == result
    assert sandbox.execute("1").tool_calls == ()


def test_functions_that_cannot_be_offered_are_refused(tmp_path: Path) -> None:
    def unhinted(thing) -> None:  # type: ignore[no-untyped-def]
        """No hint."""

    with pytest.raises(InvalidExecution) as caught:
        create_sandbox(workspace=tmp_path / "w", tools=[3, add, add, unhinted], gate=4)  # type: ignore[arg-type]
    assert len(caught.value.faults) >= 3
    with pytest.raises(InvalidExecution, match="gate needs tools"):
        create_sandbox(workspace=tmp_path / "w", gate=lambda call: True)


def test_without_functions_there_is_no_host(sandbox: Sandbox) -> None:
    assert not sandbox.execute("from host import tools; tools.add(1)").success
    assert isinstance(ToolCallRecord, type)


# ---------------------------------------------------------------- an interpreter that is kept


@pytest.fixture
def stateful(tmp_path: Path) -> Iterator[Sandbox]:
    with create_sandbox(workspace=tmp_path / "w", stateful=True) as made:
        yield made


def test_variables_persist_and_everything_else_is_of_its_own(stateful: Sandbox) -> None:
    first = stateful.execute("import math\nx = 41\nopen('a', 'w').close()", argv=["one"])
    second = stateful.execute(
        "import sys\nx += 1\nprint(x, math.pi > 3, sys.argv, y)", argv=["two"], inject={"y": 5}
    )
    assert (first.metadata["interpreter"], second.metadata["interpreter"]) == ("opened", "kept")
    assert second.stdout == "42 True ['/app/<script>', 'two'] 5\n"
    assert (first.files_created, second.files_created) == (("a",), ())
    assert stateful.stateful
    assert stateful.execute("print(y)\n").stdout == "5\n"


def test_an_exception_or_an_exit_keeps_the_variables(stateful: Sandbox) -> None:
    stateful.execute("x = 1")
    failed = stateful.execute("def f():\n    1 / 0\nf()")
    assert failed.exit_code == 1
    assert failed.stderr.count("/app/<script>") == 2
    assert "<turn" not in failed.stderr
    assert stateful.execute("import sys; sys.exit(3)").exit_code == 3
    result = stateful.execute("print(x)")
    assert (result.stdout, result.metadata["state_lost"]) == ("1\n", None)


@pytest.mark.parametrize(
    ("code", "limits", "trap", "lost"),
    [
        ("while True: pass", {"timeout": 0.2}, "deadline", "deadline"),
        ("while True: pass", {"fuel": 100_000_000}, "fuel", "out of fuel"),
        ("import os; os._exit(4)", {}, None, "exit"),
    ],
)
def test_a_lost_interpreter_is_replaced_and_that_is_told(
    stateful: Sandbox, code: str, limits: dict[str, float], trap: str | None, lost: str
) -> None:
    stateful.execute("x = 1")
    assert stateful.execute(code, **limits).trapped == trap  # type: ignore[arg-type]
    result = stateful.execute("print('x' in globals())")
    assert result.stdout == "False\n"
    assert result.metadata["state_lost"] == lost
    assert stateful.execute("1").metadata["state_lost"] is None


def test_a_cancelled_execution_loses_the_variables(stateful: Sandbox) -> None:
    token = CancelToken()
    stopper = when((stateful.workspace / "began").exists, token.cancel)
    code = "open('began', 'w').close()\nwhile True: pass"
    assert stateful.execute(code, cancel=token).trapped == "cancelled"
    stopper.join()
    assert stateful.execute("1").metadata["state_lost"] == "cancelled"


def test_an_idle_interpreter_ends_by_itself(tmp_path: Path) -> None:
    with create_sandbox(workspace=tmp_path / "w", stateful=True, idle_s=0.2) as sandbox:

        def after_a_rest(rest_s: float) -> SandboxResult:
            sandbox.execute("x = 1")
            time.sleep(rest_s)  # whoever ends it may come late
            return sandbox.execute("print('x' in globals())")

        result = given_time(after_a_rest, 0.5, lambda one: one.metadata["state_lost"])
        assert (result.stdout, result.metadata["state_lost"]) == ("False\n", "idle")


def test_output_is_handed_on_by_a_kept_interpreter_too(stateful: Sandbox) -> None:
    seen: list[str] = []
    stateful.execute("print('one')", on_stdout=seen.append)
    assert stateful.execute("print('two')").stdout == "two\n"
    stateful.execute("print('three')", on_stdout=seen.append)
    assert seen == ["one\n", "three\n"]


def test_a_kept_interpreter_hands_on_for_as_long_as_it_lives(tmp_path: Path) -> None:
    policy = ExecutionPolicy(open_files=16)
    seen: list[str] = []
    with create_sandbox(workspace=tmp_path / "w", policy=policy, stateful=True) as kept:
        for number in range(20):
            result = kept.execute(
                f"import os; print({number}); _ = os.write(1, b'.')", on_stdout=seen.append
            )
            assert result.success, result
        assert kept.execute("print(len(__name__))").metadata["interpreter"] == "kept"
    assert "".join(seen) == "".join(f"{number}\n." for number in range(20))


def test_a_kept_interpreter_has_mounts_and_functions(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "data").write_text("d")
    policy = ExecutionPolicy(mounts=(ReadOnlyMount(tmp_path / "source", "/data"),))
    with create_sandbox(
        workspace=tmp_path / "w", policy=policy, stateful=True, tools=[add]
    ) as sandbox:
        for count in range(3):
            result = sandbox.execute(
                f"from host import tools\nprint(open('/data/data').read(), tools.add({count}))"
            )
            assert result.stdout == f"d {count + 2}\n"
            assert [call.arguments for call in result.tool_calls] == [f"a={count}"]


def test_a_kept_interpreter_has_no_standard_input(stateful: Sandbox) -> None:
    with pytest.raises(InvalidExecution, match="stdin"):
        stateful.execute("1", stdin="x")


def test_a_closed_sandbox_executes_nothing(tmp_path: Path) -> None:
    for kept in (False, True):
        sandbox = create_sandbox(workspace=tmp_path / "w", stateful=kept)
        sandbox.execute("1")
        sandbox.close()
        sandbox.close()
        assert sandbox.closed
        with pytest.raises(SandboxClosed) as caught:
            sandbox.execute("1")
        assert caught.value.path == sandbox.workspace


def test_wrong_numbers_of_seconds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidPolicy) as caught:
        create_sandbox(workspace=tmp_path / "w", idle_s=0, busy_timeout_s=float("nan"))
    assert len(caught.value.faults) == 2
    assert not (tmp_path / "w").exists()


# ---------------------------------------------------------------- one at a time


def test_two_sandboxes_on_one_workspace_wait_for_each_other(tmp_path: Path) -> None:
    first = create_sandbox(workspace=tmp_path / "w")
    second = create_sandbox(workspace=tmp_path / "w", busy_timeout_s=0.2)
    code = (
        "import os, time\n"
        "open('a', 'w').close()\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
        "time.sleep(0.3)\n"  # another waits by now, if it began to run at all
        "os.remove('go')"
    )
    thread = threading.Thread(target=first.execute, args=(code,))
    thread.start()
    while not (tmp_path / "w" / "a").exists():
        time.sleep(0.01)
    with pytest.raises(WorkspaceBusy) as caught:
        second.execute("open('b', 'w')")
    assert caught.value.held_by == "this process"
    (tmp_path / "w" / "go").touch()
    waiting = create_sandbox(workspace=tmp_path / "w").execute("import os; print(os.listdir())")
    thread.join()
    assert waiting.stdout == "['a']\n"
