"""Repositories for tests, made by the plain git of the machine, inside a temporary folder only."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

MOMENT = "2026-01-02T03:04:05Z"


def plain_git(
    work_tree: Path,
    *arguments: str | bytes | Path,
    home: Path | None = None,
    check: bool = True,
    stdin: bytes = b"",
) -> subprocess.CompletedProcess[bytes]:
    """Run git as a person in a checkout does, with a home of the test's own."""
    return subprocess.run(
        ["git", "-C", work_tree, *arguments],
        env=user_environment(work_tree.parent if home is None else home),
        input=stdin,
        capture_output=True,
        check=check,
        timeout=60,
    )


def user_environment(home: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Ada",
        "GIT_AUTHOR_EMAIL": "ada@example.org",
        "GIT_COMMITTER_NAME": "Ada",
        "GIT_COMMITTER_EMAIL": "ada@example.org",
        "GIT_AUTHOR_DATE": MOMENT,
        "GIT_COMMITTER_DATE": MOMENT,
        "LC_ALL": "C",
    }


def new_checkout(path: Path, files: Mapping[str, str | bytes] | None = None) -> Path:
    """Make a repository with one commit of these files; without a commit where there are none."""
    path.mkdir(parents=True)
    plain_git(path, "init", "-q", "-b", "main")
    if files is not None:
        write_files(path, files)
        commit_all(path, "begin")
    return path


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)


def commit_all(path: Path, message: str) -> str:
    plain_git(path, "add", "-A", "-f")
    plain_git(path, "commit", "-q", "--allow-empty", "-m", message)
    return plain_git(path, "rev-parse", "HEAD").stdout.decode().strip()


def canary(folder: Path) -> tuple[Path, Path]:
    """Make a program that leaves a file when it runs; return the program and the file."""
    program, ran = folder / "canary.sh", folder / "canary-ran"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> "{ran}"\ncat\nexit 0\n')
    program.chmod(0o755)
    return program, ran
