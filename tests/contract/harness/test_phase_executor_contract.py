"""What every phase executor promises, whoever makes it.

A new one is one more entry in `EXECUTORS`: a function from the store of its sessions to it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from agentforge_sessions.base.cancellation import OperationCancelled, cancellable_sleep
from agentforge_sessions.base.errors import AgentForgeError
from agentforge_sessions.harness import (
    PhaseExecutor,
    PhaseResult,
    SessionContext,
    SessionManager,
    SessionStore,
)
from agentforge_sessions.harness.ports import ResumingExecutor, SuspendedProgram, Unanswered
from agentforge_sessions.jail import (
    CommandMissing,
    InvalidJail,
    JailLimits,
    JailPolicy,
    JailUnavailable,
)
from agentforge_sessions.sandbox import ExecutionPolicy, Sandbox, WorkspaceBusy, WorkspaceError
from agentforge_sessions.sandbox.workspaces.workspace_lock import claim
from agentforge_sessions.wiring.phases.executors import session_workspace
from agentforge_sessions.wiring.phases.jail_executor import JailPhaseExecutor
from agentforge_sessions.wiring.phases.sandbox_executor import SandboxPhaseExecutor
from tests.support.cancelling import cancelled_when
from tests.support.executors import FakeExecutor, WaitingExecutor
from tests.support.ids import sid

SESSION: Final = sid("1")
ONE, TWO, THREE, FOUR = map(sid, ("one", "two", "three", "four"))


class ScriptedExecutor(FakeExecutor):
    """Plays what a real executor does with the pieces of code that this suite runs."""

    workspace: Path
    waiting: WaitingExecutor

    def resume(self, program: bytes, answers: Mapping[int, object], **given: Any) -> PhaseResult:
        return self.waiting.resume(program, answers, **given)

    def execute(
        self,
        code: str,
        *,
        session_id: str,
        deadline_s: float | None = None,
        fuel: int | None = None,
        files: Mapping[str, bytes | str] | None = None,
    ) -> PhaseResult:
        super().execute(code, session_id=session_id, deadline_s=deadline_s, fuel=fuel)
        if code in WAITING:
            return self.waiting.execute(WAITING[code], session_id=session_id)
        if code == GOOD:
            return PhaseResult(success=True, exit_code=0, stdout="done\n")
        if code == ENDLESS:
            return PhaseResult(success=False, trapped="deadline" if fuel is None else "fuel")
        if code == WRITES:
            return PhaseResult(success=True, exit_code=0, files_created=("made.txt",))
        if code == EXITS:
            return PhaseResult(success=False, exit_code=3)
        if code == FILLS:
            return PhaseResult(success=False, exit_code=1, quota_exceeded=("workspace_bytes",))
        if code == FILLS_AND_COPES:
            return PhaseResult(success=True, exit_code=0, quota_exceeded=("workspace_bytes",))
        if code == FILLS_AND_SAYS_NOTHING:
            return PhaseResult(
                success=False,
                exit_code=0,
                quota_exceeded=("workspace_bytes",),
                lost_writes=("lost (ENOSPC)",),
            )
        if code == BEGINS:
            self.workspace.mkdir(parents=True)
            (self.workspace / "begun").touch()
            cancellable_sleep(3600)
        if code == CALLS_FILES:
            return PhaseResult(success=False, trapped="files")
        return PhaseResult(success=False, exit_code=1, stderr="Traceback: ValueError: no\n")


ASKS: Final = """
from agentforge import ask
print('first')
with open('log', 'a') as log:
    log.write('begun,')
    log.write(await ask('Deploy?', options=['yes', 'no'], title='Deploy'))
print('last')
"""
ASKS_TWICE: Final = """
import asyncio
from agentforge import ask
async def main():
    print(*await asyncio.gather(ask('One?'), ask('Two?')))
asyncio.run(main())
"""
SLEEPS: Final = """
from agentforge import sleep_until
await sleep_until(4102444800)
print('awake')
"""
READS: Final = """
def name():
    with open('log', 'a') as log:
        print('read', file=log)
    return input('Name? ')
print('\\nHello', name())
print('\\nHello', name())
"""
FAILS: Final = """
from agentforge import ask
try:
    await ask('Deploy?')
except Exception as error:
    print(error)
"""
WAITING: Final[dict[str, str]] = {
    ASKS: "say first\nappend log begun,\nask Deploy?\nappend log\nsay last",
    ASKS_TWICE: "ask One? | Two?\nanswers",
    SLEEPS: "sleep 2100-01-01T00:00:00+00:00\nsay awake",
    READS: "append log read\ninput Name? \nanswers\nappend log read\ninput Name? \nanswers",
    FAILS: "ask Deploy?\nanswers",
}
"""Programs that wait, each with the same in few words."""
GOOD: Final = "print('done')"
RAISES: Final = "raise ValueError('no')"
EXITS: Final = "raise SystemExit(3)"
ENDLESS: Final = "while True: pass"
WRITES: Final = "open('made.txt', 'w').write('x')"
BROKEN: Final = "def ("
FILLS: Final = """
for i in range(4):
    with open(str(i), 'wb') as file:
        file.write(bytes(1 << 19))
"""
FILLS_AND_COPES: Final = """
import os
try:
    for i in range(4):
        with open(str(i), 'wb') as file:
            file.write(bytes(1 << 19))
except OSError:
    os.remove(str(i))
"""
FILLS_AND_SAYS_NOTHING: Final = """
import os
os.remove('0')
left = open('lost', 'wb', 1 << 20)
left.write(bytes((1 << 19) + 1))
"""
BEGINS: Final = "open('begun', 'w').close()\nimport time; time.sleep(3600)"
CALLS_FILES: Final = "import os\nwhile True: os.path.exists('x')"
HOSTILE: Final = {
    "exits at once": "import os; os._exit(7)",
    "is killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "recurses": "import sys; sys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
    "prints no text": "import os; os.write(1, b'\\xff\\xfe\\x00'); os.write(2, b'\\xed\\xa0\\x80')",
    "has odd names": "open('\\x1b[2J\\u202e\\n', 'w').close(); open('x' * 255, 'w').close()",
    "raises with no words": ("class E(BaseException):\n    def __str__(self): raise self\nraise E"),
    "removes where it is": "import os, shutil\nshutil.rmtree('/app', ignore_errors=True)",
    "digs deep": "import os\nfor _ in range(500):\n    os.mkdir('d'); os.chdir('d')",
    "makes a file of its name": "open('.metadata.json', 'w').write('x')",
    "closes its output": "import os; os.close(1); os.close(2); print('x')",
}


def scripted(store: SessionStore) -> PhaseExecutor:
    made = ScriptedExecutor()
    made.workspace = store.workspace_path(SESSION)
    made.waiting = WaitingExecutor(store.workspace_path)
    return made


def sandboxed(store: SessionStore) -> PhaseExecutor:
    return SandboxPhaseExecutor(store, ExecutionPolicy(workspace_bytes=1 << 20, file_calls=2_000))


def jailed(store: SessionStore) -> PhaseExecutor:
    made = JailPhaseExecutor(store, JailPolicy(limits=JailLimits(memory_bytes=512 << 20)))
    try:
        made.check()
    except JailUnavailable as error:
        pytest.skip(str(error))
    return made


EXECUTORS: Final[dict[str, Callable[[SessionStore], PhaseExecutor]]] = {
    "scripted": scripted,
    "sandboxed": sandboxed,
    "jailed": jailed,
}
COUNTING: Final = ("scripted", "sandboxed")
"""Those that count fuel and calls on files, and refuse what goes beyond a quota."""


RESUMING: Final = ("scripted", "sandboxed")
"""Those that suspend code which waits, and resume it."""


def made(name: str, base: Path) -> PhaseExecutor:
    store = SessionStore(base)
    store.save(SessionContext.create(session_id=SESSION))
    return EXECUTORS[name](store)


@pytest.fixture(params=EXECUTORS)
def executor(request: pytest.FixtureRequest, base: Path) -> PhaseExecutor:
    return made(request.param, base)


@pytest.fixture(params=("sandboxed", "jailed"))
def real(request: pytest.FixtureRequest, base: Path) -> PhaseExecutor:
    return made(request.param, base)


@pytest.fixture(params=COUNTING)
def counting(request: pytest.FixtureRequest, base: Path) -> PhaseExecutor:
    return made(request.param, base)


def run(executor: PhaseExecutor, code: str, **limits: object) -> PhaseResult:
    return executor.execute(code, session_id=SESSION, **limits)  # type: ignore[arg-type]


def test_code_of_a_cancelled_operation_ends(executor: PhaseExecutor, base: Path) -> None:
    begun = SessionStore(base).workspace_path(SESSION) / "begun"
    error = cancelled_when(begun.exists, lambda: run(executor, BEGINS, deadline_s=600))
    assert isinstance(error, OperationCancelled)
    assert run(executor, GOOD).success, "another operation goes on"


@pytest.mark.parametrize("name", ["sandboxed", "jailed"])
def test_cancelled_operation_waits_no_longer_for_its_workspace(name: str, base: Path) -> None:
    executor = made(name, base)
    workspace = SessionStore(base).workspace_path(SESSION)
    assert run(executor, GOOD).success
    with claim(workspace, timeout_s=0):
        error = cancelled_when(lambda: True, lambda: run(executor, WRITES, deadline_s=600))
    assert isinstance(error, OperationCancelled)
    assert not (workspace / "made.txt").exists()


def test_it_is_a_phase_executor(executor: PhaseExecutor) -> None:
    assert isinstance(executor, PhaseExecutor)


def test_code_that_runs_to_its_end_succeeds(executor: PhaseExecutor) -> None:
    result = run(executor, GOOD)
    assert result.success
    assert result.exit_code == 0
    assert result.trapped is None
    assert result.stdout == "done\n"


@pytest.mark.parametrize("code", [RAISES, BROKEN])
def test_code_that_raises_is_in_the_result_and_raises_nothing_here(
    executor: PhaseExecutor, code: str
) -> None:
    result = run(executor, code)
    assert not result.success
    assert result.exit_code not in {0, None}
    assert result.stderr


def test_an_exit_code_is_told(executor: PhaseExecutor) -> None:
    result = run(executor, EXITS)
    assert not result.success
    assert result.exit_code == 3


def test_a_deadline_ends_code_that_never_would(executor: PhaseExecutor) -> None:
    _ends(executor, "deadline", deadline_s=0.5)


def test_fuel_ends_code_that_never_would(counting: PhaseExecutor) -> None:
    _ends(counting, "fuel", fuel=50_000_000)


def _ends(executor: PhaseExecutor, trap: str, **limits: float) -> None:
    began = time.monotonic()
    result = run(executor, ENDLESS, **limits)
    assert time.monotonic() - began < 30
    assert not result.success
    assert result.exit_code is None
    assert result.trapped == trap


def test_files_are_told_relative_to_the_workspace(executor: PhaseExecutor) -> None:
    result = run(executor, WRITES)
    assert "made.txt" in result.files_created
    for path in result.files_created + result.files_modified + result.files_deleted:
        assert not path.startswith("/")
        assert ".." not in path.split("/")


@pytest.mark.parametrize("there", [None, "a link", "another file"])
def test_code_finds_the_files_that_it_is_given_and_a_link_leads_nowhere(
    real: PhaseExecutor, base: Path, tmp_path: Path, there: str | None
) -> None:
    outside = tmp_path / "outside"
    outside.write_text("untouched")
    workspace = SessionStore(base).workspace_path(SESSION)
    workspace.mkdir(mode=0o700, exist_ok=True)
    if there == "a link":
        (workspace / "in.txt").symlink_to(outside)
    elif there is not None:
        (workspace / "in.txt").write_text("before")
    files = {"in.txt": "given", "deep/er.bin": b"\xff"}
    try:
        result = run(
            real,
            "print(open('in.txt').read(), open('deep/er.bin', 'rb').read())",
            files=files,
        )
    except (AgentForgeError, OSError):
        assert there == "a link", "it is refused, or replaced"
    else:
        assert result.stdout == "given b'\\xff'\n"
    assert outside.read_text() == "untouched"


def test_the_manager_records_what_it_says(executor: PhaseExecutor, base: Path) -> None:
    manager = SessionManager(SessionStore(base), executor=executor)
    session = manager.create("tdflow", "red")

    assert manager.run_phase(GOOD).success
    assert not manager.run_phase(RAISES).success
    manager.run_phase(WRITES)

    assert [entry.action for entry in session.history[1:]] == [
        *("phase_succeeded", "phase_failed", "phase_succeeded"),
    ]
    assert "made.txt" in [artifact.path for artifact in session.artifacts]
    assert SessionStore(base).load(session.session_id) == session


@pytest.mark.parametrize("way", HOSTILE)
def test_nothing_that_code_does_is_raised_and_the_next_phase_runs(
    executor: PhaseExecutor, way: str
) -> None:
    result = run(executor, HOSTILE[way])
    assert isinstance(result, PhaseResult)
    result.stdout.encode()
    result.stderr.encode()
    assert run(executor, GOOD).success


def test_a_quota_that_refused_something_is_told(counting: PhaseExecutor) -> None:
    result = run(counting, FILLS)
    assert not result.success
    assert result.exit_code == 1
    assert result.trapped is None
    assert result.quota_exceeded == ("workspace_bytes",)


def test_too_many_calls_on_files_are_a_limit(counting: PhaseExecutor) -> None:
    result = run(counting, CALLS_FILES)
    assert (result.success, result.exit_code, result.trapped) == (False, None, "files")


def test_the_history_names_the_limits_that_stood_in_the_way(
    counting: PhaseExecutor, base: Path
) -> None:
    manager = SessionManager(SessionStore(base), executor=counting)
    session = manager.create("tdflow", "red")

    assert manager.run_phase(FILLS_AND_COPES).success
    manager.run_phase(FILLS)
    manager.run_phase(CALLS_FILES)
    manager.run_phase(FILLS_AND_SAYS_NOTHING)

    entries = session.history[1:]
    assert [entry.action for entry in entries] == [
        *("phase_succeeded", "phase_failed", "phase_failed", "phase_failed"),
    ]
    assert "quota exceeded: workspace_bytes" in (entries[0].details or "")
    assert "exit code 1, quota exceeded: workspace_bytes" in (entries[1].details or "")
    assert "stopped by the limit on file calls" in (entries[2].details or "")
    assert "not kept: lost (ENOSPC)" in (entries[3].details or "")


# ------------------------------------------------------------------------------- code that waits


@pytest.fixture(params=RESUMING)
def resuming(request: pytest.FixtureRequest, base: Path) -> ResumingExecutor:
    executor = made(request.param, base)
    session_workspace(SessionStore(base), SESSION)
    assert isinstance(executor, ResumingExecutor)
    return executor


def suspended(executor: ResumingExecutor, code: str) -> SuspendedProgram:
    result = run(executor, code)
    assert (result.success, result.exit_code, result.trapped) == (False, None, None), result
    assert result.suspended is not None
    return result.suspended


def test_code_that_asks_says_what_and_where_it_waits(
    resuming: ResumingExecutor, base: Path
) -> None:
    result = run(resuming, ASKS)
    assert result.stdout.splitlines() == ["first"]
    assert result.suspended is not None
    [request] = result.suspended.requests
    assert (request.kind, request.prompt) == ("ask", "Deploy?")
    assert result.suspended.wake_at is None
    assert result.suspended.where[-1].endswith(" in <module>")


def test_a_program_goes_on_in_another_executor_as_often_as_it_is_resumed(
    resuming: ResumingExecutor, base: Path, request: pytest.FixtureRequest
) -> None:
    waits = suspended(resuming, ASKS)
    log = SessionStore(base).workspace_path(SESSION) / "log"
    before = log.read_bytes()
    other = EXECUTORS[request.node.callspec.params["resuming"]](SessionStore(base))
    assert isinstance(other, ResumingExecutor)
    for answer in ("yes", "no"):
        result = other.resume(waits.program, {1: answer}, session_id=SESSION)
        assert (result.success, result.stdout.splitlines()) == (True, ["last"])
        assert log.read_text() == f"begun,{answer}"
        log.write_bytes(before)


def test_answers_come_one_by_one_in_any_order(resuming: ResumingExecutor) -> None:
    waits = suspended(resuming, ASKS_TWICE)
    first, second = waits.requests
    half = resuming.resume(waits.program, {second.id: "2"}, session_id=SESSION)
    assert half.suspended is not None
    assert half.suspended.requests == (first,)
    done = resuming.resume(half.suspended.program, {first.id: "1"}, session_id=SESSION)
    assert sorted(done.stdout.replace(",", "").split()) == ["1", "2"]


def test_a_plain_script_that_reads_a_line_waits_for_it_and_does_nothing_twice(
    resuming: ResumingExecutor, base: Path
) -> None:
    waits, said = suspended(resuming, READS), ""
    for name in ("Ada", "Bob"):
        [request] = waits.requests
        assert (request.kind, (request.prompt or "").strip()) == ("input", "Name?")
        result = resuming.resume(waits.program, {request.id: name}, session_id=SESSION)
        said += result.stdout
        waits = result.suspended or waits
    assert result.success
    assert "Ada" in said
    assert "Bob" in said
    log = SessionStore(base).workspace_path(SESSION) / "log"
    assert log.read_text().count("read") == 2


def test_a_request_that_failed_is_an_error_that_code_may_handle(
    resuming: ResumingExecutor,
) -> None:
    waits = suspended(resuming, FAILS)
    failed = {1: Unanswered("not on Fridays")}
    result = resuming.resume(waits.program, failed, session_id=SESSION)
    assert result.success
    assert "not on Fridays" in result.stdout


def test_code_that_sleeps_says_until_when_and_still_sleeps_before(
    resuming: ResumingExecutor,
) -> None:
    waits = suspended(resuming, SLEEPS)
    assert waits.wake_at is not None
    assert abs(waits.wake_at - datetime(2100, 1, 1, tzinfo=UTC)) < timedelta(seconds=1)


# ------------------------------------------------------------------------------------- the sandbox


@pytest.fixture
def store(base: Path) -> SessionStore:
    return SessionStore(base)


def in_sessions(executor: SandboxPhaseExecutor, store: SessionStore, *names: str) -> None:
    for name in names:
        if name not in store.list_sessions():
            store.save(SessionContext.create(session_id=name))
        assert executor.execute(GOOD, session_id=name).success


def test_the_sandbox_of_a_workspace_is_kept_and_used_again(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    import agentforge_sessions.sandbox

    made: list[Path] = []
    create = agentforge_sessions.sandbox.create_sandbox

    def counted(**options: Any) -> Sandbox:
        made.append(options["workspace"])
        return create(**options)

    monkeypatch.setattr(agentforge_sessions.sandbox, "create_sandbox", counted)
    executor = SandboxPhaseExecutor(store)
    in_sessions(executor, store, ONE, TWO, ONE, TWO, ONE)
    assert [path.parent.name for path in made] == [ONE, TWO]
    assert executor.kept_sandboxes == 2


def test_the_sandbox_used_longest_ago_is_closed_when_there_are_too_many(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    close = Sandbox.close

    def noted(sandbox: Sandbox) -> None:
        closed.append(sandbox.workspace.parent.name)
        close(sandbox)

    monkeypatch.setattr(Sandbox, "close", noted)
    with SandboxPhaseExecutor(store, kept=2) as executor:
        in_sessions(executor, store, ONE, TWO, ONE, THREE)
        assert closed == [TWO]
        assert executor.kept_sandboxes == 2
        in_sessions(executor, store, TWO)
        assert closed == [TWO, ONE]
    assert sorted(closed[2:]) == sorted([THREE, TWO])
    assert executor.kept_sandboxes == 0


def test_a_closed_executor_still_answers_but_keeps_nothing(store: SessionStore) -> None:
    executor = SandboxPhaseExecutor(store)
    executor.close()
    in_sessions(executor, store, ONE)
    assert executor.kept_sandboxes == 0


def test_no_sandbox_is_closed_while_something_runs_in_it(store: SessionStore) -> None:
    executor = SandboxPhaseExecutor(store, kept=0)
    in_sessions(executor, store, ONE, TWO, THREE, FOUR)
    with ThreadPoolExecutor(8) as threads:
        results = threads.map(
            lambda i: executor.execute(GOOD, session_id=(ONE, TWO, THREE, FOUR)[i % 4]),
            range(24),
        )
        assert all(result.success for result in results)
    assert executor.kept_sandboxes == 0


def test_a_sandbox_in_use_outlives_those_that_are_trimmed(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = SandboxPhaseExecutor(store, kept=0)
    in_sessions(executor, store, ONE, TWO)
    execute = Sandbox.execute

    def meanwhile(sandbox: Sandbox, code: str, **options: Any) -> Any:
        if code == WRITES:
            executor.execute(GOOD, session_id=TWO)
            assert executor.kept_sandboxes == 1
            assert not sandbox.closed
        return execute(sandbox, code, **options)

    monkeypatch.setattr(Sandbox, "execute", meanwhile)
    assert executor.execute(WRITES, session_id=ONE).success
    assert executor.kept_sandboxes == 0


def test_a_workspace_that_is_made_anew_is_used_and_one_that_is_a_link_is_not(
    store: SessionStore, tmp_path: Path
) -> None:
    executor = SandboxPhaseExecutor(store)
    in_sessions(executor, store, ONE)
    workspace = store.workspace_path(ONE)
    workspace.rmdir()
    in_sessions(executor, store, ONE)
    workspace.rmdir()
    (tmp_path / "elsewhere").mkdir()
    workspace.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WorkspaceError):
        executor.execute(WRITES, session_id=ONE)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_workspace_of_a_relative_base_is_the_one_of_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SessionStore("sessions")
    executor = SandboxPhaseExecutor(store)
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        monkeypatch.chdir(tmp_path / place)
        store.save(SessionContext.create(session_id=SESSION))
        assert executor.execute(WRITES, session_id=SESSION).files_created == ("made.txt",)
        assert (tmp_path / place / "sessions" / SESSION / "workspace" / "made.txt").exists()


def test_a_workspace_held_by_others_is_told_as_busy_and_nothing_runs(store: SessionStore) -> None:
    in_sessions(SandboxPhaseExecutor(store), store, ONE)
    executor = SandboxPhaseExecutor(store, ExecutionPolicy(deadline_s=0.2))
    held = os.open(store.workspace_path(ONE), os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(WorkspaceBusy):
            executor.execute(WRITES, session_id=ONE)
    finally:
        os.close(held)
    assert not (store.workspace_path(ONE) / "made.txt").exists()


def test_a_negative_number_of_sandboxes_is_refused(store: SessionStore) -> None:
    with pytest.raises(ValueError, match="kept"):
        SandboxPhaseExecutor(store, kept=-1)


# --------------------------------------------------------------------------------------- the jail


@pytest.fixture
def jail(store: SessionStore) -> JailPhaseExecutor:
    store.save(SessionContext.create(session_id=SESSION))
    found = jailed(store)
    assert isinstance(found, JailPhaseExecutor)
    return found


def test_a_script_names_the_program_that_runs_it(jail: JailPhaseExecutor) -> None:
    result = run(jail, "#!/bin/sh\nread x < /etc/hosts; echo $0 >made.txt; exit 4\n")
    assert (result.exit_code, result.files_created) == (4, ("made.txt",))
    assert run(jail, "#!/usr/bin/env -S sh -e\nfalse\ntrue\n").exit_code == 1
    with pytest.raises(CommandMissing):
        run(jail, "#!/usr/bin/env no-such-program-here\n")


def test_files_that_change_and_go_are_told(jail: JailPhaseExecutor) -> None:
    run(jail, "open('a', 'w').close(); open('b', 'w').close()")
    result = run(jail, "import os; open('a', 'a').write('x'); os.remove('b')")
    assert (result.files_created, result.files_modified) == ((), ("a",))
    assert result.files_deleted == ("b",)


def test_a_script_in_a_jail_sees_no_session(jail: JailPhaseExecutor, base: Path) -> None:
    result = run(jail, f"import os; os.listdir({str(base)!r})")
    assert "FileNotFoundError" in result.stderr


def test_a_jail_takes_no_fuel(jail: JailPhaseExecutor) -> None:
    with pytest.raises(InvalidJail, match="deadline_s"):
        run(jail, GOOD, fuel=1000)


def test_a_jail_uses_no_workspace_that_is_a_link_or_held_by_others(
    jail: JailPhaseExecutor, store: SessionStore, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    store.workspace_path(SESSION).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WorkspaceError):
        run(jail, WRITES)
    assert list((tmp_path / "elsewhere").iterdir()) == []
