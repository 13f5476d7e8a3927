"""What continuous integration runs, and how `make` installs agents, with stand-ins for programs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def stand_in(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f'#!/bin/sh\necho "{name} $*" >> "$CALLED"\n{script}\n')
    path.chmod(0o755)


def path_of(folder: Path, *tools: str) -> str:
    """Return a search path that has the stand-ins, and of this machine these tools alone."""
    folder.mkdir(exist_ok=True)
    for tool in tools:
        found = shutil.which(tool)
        assert found is not None
        (folder / tool).symlink_to(found)
    return str(folder)


def run(command: list[str], folder: Path, called: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(folder), "CALLED": str(called)}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def ci_run(
    tmp_path: Path, make: str = "", *, npm: bool = True
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run what continuous integration runs; return how it ended, and what it called."""
    tools, called = tmp_path / "bin", tmp_path / "called"
    path_of(tools, *TOOLS)
    stand_in(tools, "make", make)
    if npm:
        stand_in(tools, "npm", "")
    done = run([str(ROOT / ".ci" / "run")], tools, called)
    return done, called.read_text().splitlines()


GOALS = [
    "make test test-all",
    "make test-pythons GOAL=test-quick",
]
TOOLS = ("dirname", "env", "bash", "sh", "mktemp", "tee", "rm", "grep", "timeout")


def test_the_real_agents_are_tried_where_npm_can_install_them(tmp_path: Path) -> None:
    done, called = ci_run(tmp_path)
    assert done.returncode == 0, done.stderr
    assert called == [*GOALS, "make agents", "make test-agents"]
    assert "left out" not in done.stdout


def test_without_npm_the_real_agents_are_left_out_with_the_reason(tmp_path: Path) -> None:
    done, called = ci_run(tmp_path, npm=False)
    assert done.returncode == 0, done.stderr
    assert called == GOALS
    assert "left out: there is no npm" in done.stdout


def failing(error: str) -> str:
    """Return a stand-in for make, by which no agent can be installed."""
    return f'[ "$1" != agents ] || {{ echo "npm error code {error}" >&2; exit 2; }}'


@pytest.mark.parametrize("error", ["ENOTFOUND", "ECONNREFUSED", "E503", "ENOSPC", "EBADPLATFORM"])
def test_what_npm_can_not_install_is_tried_again_and_left_out_with_its_words(
    tmp_path: Path, error: str
) -> None:
    done, called = ci_run(tmp_path, failing(error))
    assert done.returncode == 0, done.stderr
    assert called == [*GOALS, "make agents", "make agents"]
    assert f"npm error code {error}" in done.stdout
    assert "left out: npm could not install" in done.stdout


def test_an_installation_that_succeeds_the_second_time_is_tried(tmp_path: Path) -> None:
    failed = tmp_path / "failed"
    once = f'[ "$1" != agents ] || [ -e {failed} ] || {{ : > {failed}; exit 2; }}'
    done, called = ci_run(tmp_path, once)
    assert done.returncode == 0, done.stderr
    assert called[-2:] == ["make agents", "make test-agents"]


@pytest.mark.parametrize("error", ["ETARGET", "EINTEGRITY"])
def test_a_pinned_version_that_the_registry_does_not_have_is_red(
    tmp_path: Path, error: str
) -> None:
    done, called = ci_run(tmp_path, failing(error))
    assert done.returncode != 0
    assert called == [*GOALS, "make agents"]
    assert "AGENTS in the Makefile" in done.stdout


@pytest.mark.parametrize("goal", ["test", "test-pythons", "test-agents"])
def test_a_red_test_is_red(tmp_path: Path, goal: str) -> None:
    done, _ = ci_run(tmp_path, f'[ "$1" != {goal} ]')
    assert done.returncode != 0


def test_a_program_is_installed_once_and_what_failed_leaves_none(tmp_path: Path) -> None:
    tools, called, prefix = tmp_path / "bin", tmp_path / "called", tmp_path / "agents"
    path_of(tools, "make", "bash", "sh", "cat", "rm", "mkdir")
    make = ["make", "agents", f"AGENTS_PREFIX={prefix}", "AGENTS=one=package@1.2"]
    stand_in(tools, "npm", f"mkdir -p {prefix}/one/node_modules/.bin; exit 1")
    failed = run(make, tools, called)
    assert failed.returncode != 0
    assert "one=package@1.2 could not be installed" in failed.stderr
    assert os.listdir(prefix / "one") == []

    stand_in(tools, "npm", f"mkdir -p {prefix}/one/node_modules/.bin")
    for _ in range(2):
        assert run(make, tools, called).returncode == 0
    assert len(called.read_text().splitlines()) == 2
    assert (prefix / "one" / "node_modules" / ".bin").is_dir()
