"""What a guest's program has the own host do ends with the deadline; what it holds has a limit."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from agentforge_sessions.base.cancellation import CancelToken
from agentforge_sessions.sandbox import ExecutionPolicy, Sandbox, create_sandbox, prepare
from tests.support.promptness import given_time, soonest, when

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)

TANGLE = """
import os
os.mkdir('d'); open('f', 'w').close()
through = 'd/../' * 810
os.symlink('f', 'l0')
for i in range(1, 39): os.symlink('l0', f'l{i}')
for i in range(60): os.symlink('l0', f'n{i}')
"""
"""Links, which the host below makes seconds to look at; made by the guest this would be work."""


def tangle(workspace: Path) -> None:
    through = "d/../" * 810
    for i in range(39):
        link = workspace / f"l{i}"
        link.unlink()
        link.symlink_to(through + (f"l{i - 1}" if i else "f"))
    for i in range(60):
        link = workspace / f"n{i}"
        link.unlink()
        link.symlink_to(through + "l38")


@pytest.fixture
def tangled(tmp_path: Path) -> Path:
    prepare()
    workspace = tmp_path / "w"
    assert create_sandbox(workspace=workspace).execute(TANGLE).success
    tangle(workspace)
    return workspace


LIST = "import os\nprint('begun', flush=True)\nos.listdir('.')\n"


def test_a_listing_of_links_ends_with_the_deadline(tangled: Path) -> None:
    sandbox = create_sandbox(workspace=tangled)

    def late() -> float:
        result = given_time(
            lambda seconds: sandbox.execute(LIST, timeout=seconds), 0.3, lambda it: it.stdout
        )
        assert result.trapped == "deadline"
        return result.duration_s - 0.3

    assert soonest(late, 0.2) <= 0.2


def test_a_listing_of_links_ends_when_it_is_cancelled(tangled: Path) -> None:
    sandbox, begun = create_sandbox(workspace=tangled), []

    def late() -> float:
        token = CancelToken()
        begun.clear()
        told: list[float] = []

        def cancel() -> None:
            told.append(time.monotonic())
            token.cancel()

        waiting = when(lambda: begun, cancel)
        result = sandbox.execute(LIST, on_stdout=begun.append, cancel=token)
        ended = time.monotonic()
        waiting.join()
        assert result.trapped == "cancelled"
        return ended - told[0]

    assert soonest(late, 0.2) <= 0.2


@pytest.mark.parametrize(("limit", "trap"), [("fuel", "fuel"), ("calls", "files")])
def test_a_listing_of_links_uses_up_fuel_and_file_calls(
    tangled: Path, limit: str, trap: str
) -> None:
    policy = ExecutionPolicy(file_calls=1000 if limit == "calls" else 10**9)
    sandbox = create_sandbox(workspace=tangled, policy=policy)
    fuel = 30_000_000 if limit == "fuel" else None
    assert sandbox.execute(LIST, fuel=fuel).trapped == trap


# ---------------------------------------------------------------- memory


def limited(workspace: Path, **limits: int) -> Sandbox:
    prepare()
    return create_sandbox(workspace=workspace, policy=ExecutionPolicy(**limits))  # type: ignore[arg-type]


def test_listings_that_are_open_have_a_limit_and_closing_them_makes_room(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    for i in range(5000):
        (tmp_path / f"w/{i}").touch()
    result = limited(tmp_path / "w", host_bytes=4 << 20).execute(
        "import errno, os\n"
        "held = []\n"
        "try:\n"
        "  while True:\n"
        "    held.append(os.scandir('.')); next(held[-1])\n"
        "except OSError as error: print(errno.errorcode[error.errno])\n"
        "print(10 < len(held) < 40)\n"
        "for each in held: each.close()\n"
        "print(len(os.listdir('.')))\n"
    )
    assert result.stdout == "ENOMEM\nTrue\n5000\n", result.stderr
    assert result.metadata["quota_exceeded"] == ("host_bytes",)


@pytest.mark.parametrize(
    ("make", "quota"),
    [
        ("os.symlink('x' * 4000, name)", "temporary_bytes"),
        ("os.mkdir(name)", "host_bytes"),
        ("open(name, 'w').close()", "host_bytes"),
        ("os.link('first', name)", "host_bytes"),
    ],
)
def test_names_and_targets_in_the_temporary_directory_have_a_limit(
    tmp_path: Path, make: str, quota: str
) -> None:
    sandbox = limited(
        tmp_path / "w", host_bytes=4 << 20, temporary_bytes=4 << 20, workspace_files=100_000
    )
    result = sandbox.execute(
        "import errno, os\n"
        "os.chdir('/tmp'); open('first', 'w').close()\n"
        "count = 0\n"
        "try:\n"
        "  while True:\n"
        "    name = f'n{count}'\n"
        f"    {make}\n"
        "    count += 1\n"
        "except OSError as error: print(errno.errorcode[error.errno])\n"
        "print(900 < count < 9000)\n"
        "for i in range(count): (os.rmdir if os.path.isdir(f'n{i}') else os.unlink)(f'n{i}')\n"
        "name = 'again'\n"
        f"{make}\n"
    )
    assert result.stdout == "ENOSPC\nTrue\n", result.stderr
    assert result.success
    assert result.metadata["quota_exceeded"] == (quota,)


def test_a_kept_interpreter_counts_what_earlier_executions_left_open(tmp_path: Path) -> None:
    prepare()
    policy = ExecutionPolicy(temporary_bytes=4 << 20)
    with create_sandbox(workspace=tmp_path / "w", policy=policy, stateful=True) as sandbox:
        made = sandbox.execute(
            "import errno, os\n"
            "os.mkdir('/tmp/d'); directory = os.open('/tmp/d', os.O_RDONLY)\n"
            "file = open('/tmp/f', 'wb'); _ = file.write(bytes(3 << 20)); file.flush()\n"
            "def told(call, *args):\n"
            "  try: call(*args); return 'done'\n"
            "  except OSError as error: return errno.errorcode[error.errno]\n"
            "def fill(name, size):\n"
            "  with open(name, 'wb', 0) as file: assert file.write(bytes(size)) == size\n"
        )
        assert made.success, made.stderr
        later = sandbox.execute(
            "print(os.listdir('/tmp'), file.tell())\n"
            "print(told(fill, '/tmp/g', 2 << 20))\n"
            "print(told(lambda: os.open('x', os.O_CREAT | os.O_WRONLY, dir_fd=directory)))\n"
            "file.close(); print(told(fill, '/tmp/g', 3 << 20))\n"
        )
    lines = later.stdout.splitlines()
    assert lines[1:] == ["ENOSPC", "ENOENT", "done"], later.stderr
    assert "'d'" not in lines[0]
    assert lines[0].endswith(" 3145728")
