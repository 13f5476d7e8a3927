"""What continuous integration runs, and how `make` installs agents, with stand-ins for programs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

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


def test_everything_but_the_programs_of_others_is_tried(tmp_path: Path) -> None:
    tools, called = tmp_path / "bin", tmp_path / "called"
    path_of(tools, "dirname", "env", "bash", "sh")
    stand_in(tools, "make", "")
    done = run([str(ROOT / ".ci" / "run")], tools, called)
    assert done.returncode == 0, done.stderr
    goals = ["make test test-examples test-own-host", "make test-pythons GOAL=test-quick"]
    assert called.read_text().splitlines() == goals


def test_a_red_test_is_red(tmp_path: Path) -> None:
    tools, called = tmp_path / "bin", tmp_path / "called"
    path_of(tools, "dirname", "env", "bash", "sh")
    stand_in(tools, "make", '[ "$1" != test-pythons ]')
    assert run([str(ROOT / ".ci" / "run")], tools, called).returncode != 0


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
