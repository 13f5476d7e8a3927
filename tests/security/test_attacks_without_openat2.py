"""The attacks on an own host whose kernel has no `openat2`, or whose process may not use it.

Paths are then walked a component at a time; what is contained with it has to be contained without.
That these attacks do meet the other way of walking is shown as well.
"""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import ExecutionPolicy, Sandbox, prepare
from tests.security import test_attacks as attacks
from tests.support.host_calls import FaultyCalls, FullDisk, WithoutOpenat2
from tests.support.own_sandboxes import sandbox_with
from tests.support.soak import SOAKING

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)

OF_PATHS = [
    "read_by_climbing",
    "metadata_in_every_spelling",
    "swap_links_under_way",
    "rename_tricks",
    "read_through_planted_links",
]
"""Those that a walk by component is for; the quick run tries these and a few others."""

HERE = attacks.ATTACKS if SOAKING else [*OF_PATHS, *attacks.QUICK[::24]]
APART = attacks.ATTACKS if SOAKING else OF_PATHS[:2]


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    prepare()


def attack(sandbox: Sandbox, ground: attacks.Ground, name: str) -> None:
    """Run an attack, and see that it is contained and that the sandbox goes on."""
    source = (attacks.HERE / "attacks" / f"{name}.py").read_text()
    before = ground.outside()
    result = ground.attacked(sandbox, source)
    transcript = f"\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}\n{result.metadata}"
    assert attacks.problems(source, result, before, ground.outside()) == [], transcript
    held = attacks.held_by(ground.workspace)
    assert held[0] <= sandbox.policy.workspace_bytes
    assert held[1] <= sandbox.policy.workspace_files
    afterwards = sandbox.execute(attacks.AFTERWARDS, timeout=attacks.DEADLINE_S)
    assert afterwards.stdout == attacks.CLEAN, afterwards.stderr
    for left in ground.workspace.iterdir():  # deeper than what pytest's own cleaning manages
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)


def ground_for(tmp_path: Path, name: str) -> attacks.Ground:
    base = tmp_path / "base"
    base.mkdir()
    return attacks.build_ground(base, ExecutionPolicy(**attacks.needs(name)))


@pytest.mark.parametrize("name", HERE)
def test_attack_is_contained_without_openat2(tmp_path: Path, name: str) -> None:
    ground = ground_for(tmp_path, name)
    policy = ground.sandbox.policy
    with sandbox_with(WithoutOpenat2(errno.ENOSYS), ground.workspace, policy) as sandbox:
        attack(sandbox, ground, name)


@pytest.mark.parametrize("name", APART)
def test_attack_is_contained_by_a_process_apart_without_openat2(tmp_path: Path, name: str) -> None:
    ground = ground_for(tmp_path, name)
    policy = ground.sandbox.policy
    refused = WithoutOpenat2(errno.EPERM)  # as a filter of system calls may answer
    with sandbox_with(refused, ground.workspace, policy, isolation="process") as sandbox:
        attack(sandbox, ground, name)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
def test_openat2_is_asked_for_once_and_paths_are_walked_by_component(
    tmp_path: Path, number: int
) -> None:
    calls = FaultyCalls(real=WithoutOpenat2(number))
    with sandbox_with(calls, tmp_path / "w") as sandbox:
        result = sandbox.execute(
            "import os; os.makedirs('a/b/c'); open('a/b/c/f', 'w').write('x'); os.remove('a/b/c/f')"
        )
        assert result.success, result.stderr
    operations = [call.operation for call in calls.trace]
    assert operations.count("openat2") == 1
    assert operations.count("open") > 6


def test_a_process_apart_serves_files_with_the_system_calls_it_is_given(tmp_path: Path) -> None:
    with sandbox_with(FullDisk(), tmp_path / "w", isolation="process") as sandbox:
        result = sandbox.execute("open('f', 'w').write('x')")
    assert result.stderr.endswith("OSError: [Errno 51] No space left on device\n")
    assert [lost.errno for lost in result.lost_writes] == ["ENOSPC"]
