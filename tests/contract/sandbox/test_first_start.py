"""The first execution of a process: it waits for nobody and compiles nothing that is there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import runtime_info
from agentforge_sessions.sandbox.compiled.compiled_module import making

EXECUTED = """
import sys
from agentforge_sessions.sandbox import create_sandbox
print(create_sandbox(workspace=sys.argv[1]).execute("print(6 * 7)").stdout, end="")
"""

# The engine and what loads it are there before the limit is: only the compiled file has no room.
WITHOUT_ROOM = """
import os, resource, sys
import wasmtime
from agentforge_sessions.sandbox import SandboxUnavailable
from agentforge_sessions.sandbox.interpreters import (guest_interpreter, runtime)
from agentforge_sessions.sandbox.host.engine.loaded_engine import the_engine
the_engine()
with open('/proc/self/statm') as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (128 << 20),) * 2)
try:
    runtime.ensure_ready()
except SandboxUnavailable as error:
    print(error.reason)
"""

SET_UP = """
from agentforge_sessions.sandbox import prepare
prepare(print)
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of this module's own, with a copy of the compiled interpreter."""
    file = runtime_info().cache_file
    assert file is not None
    assert file.exists(), "compile the interpreter first: agentforge setup"
    directory = tmp_path_factory.mktemp("compiled") / "cache"
    directory.mkdir(mode=0o700)
    shutil.copyfile(file, directory / file.name)
    (directory / file.name).chmod(0o600)
    yield directory / file.name
    shutil.rmtree(directory)


def run(program: str, compiled: Path, *arguments: object) -> list[str]:
    environment = {**os.environ, "WASI_PYTHON_CACHE": str(compiled.parent)}
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_who_finds_the_interpreter_compiled_waits_for_nobody_who_compiles(
    compiled: Path, tmp_path: Path
) -> None:
    with making(compiled.parent) as locked:
        assert locked
        assert run(EXECUTED, compiled, tmp_path) == ["42"]


def test_a_file_that_the_system_cannot_load_now_is_not_compiled_anew(
    compiled: Path,
) -> None:
    before = compiled.stat()
    (said,) = run(WITHOUT_ROOM, compiled)
    assert re.fullmatch(
        r"the compiled interpreter in .* cannot be loaded \(Cannot allocate memory\); it was kept",
        said,
    )
    assert os.path.samestat(compiled.stat(), before)
