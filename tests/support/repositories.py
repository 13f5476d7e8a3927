"""Repositories for tests, made by the plain git of the machine, inside a temporary folder only."""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.support.trees import Tree, lay_out, tree_of

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
    tree = _made(None if files is None else frozenset(files.items()))
    lay_out(tree, path)
    if files is not None:
        know_files(path)
    return path


@functools.cache
def _made(files: frozenset[tuple[str, str | bytes]] | None) -> Tree:
    """Have git make a repository, once in this process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkout"
        path.mkdir()
        plain_git(path, "init", "-q", "-b", "main")
        if files is not None:
            write_files(path, dict(files))
            commit_all(path, "begin")
        return tree_of(path)


def know_files(path: Path) -> None:
    """Have the index of a checkout that was laid out know the files that are there now."""
    plain_git(path, "update-index", "-q", "--refresh")


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)


def commit_all(path: Path, message: str) -> str:
    """Commit all that is there, what is ignored too; return the commit's id."""
    plain_git(path, "add", "-A", "-f")
    # Else each commit starts another git, which looks whether it should pack, and never should.
    words = ("-c", "maintenance.auto=false", "commit", "-q", "--allow-empty", "-m", message)
    plain_git(path, *words)
    return head_of(git_dir_of(path))[1]


def git_dir_of(top: Path) -> Path:
    """Return where a checkout, or a bare repository, has its HEAD and index.

    Raises:
        FileNotFoundError: There is no repository.
    """
    place = top / ".git"
    if place.is_file():
        place = top / place.read_text().removeprefix("gitdir: ").rstrip("\n")
    elif not place.exists():
        place = top
    if not (place / "HEAD").exists():
        raise FileNotFoundError(place)
    return place


def common_dir_of(git_dir: Path) -> Path:
    """Return where a repository has its refs: of a linked work tree, where the first one does."""
    link = git_dir / "commondir"
    return git_dir / link.read_text().rstrip("\n") if link.exists() else git_dir


def refs_of(git_dir: Path) -> dict[str, str]:
    """Return what each ref is set to, by its name."""
    common = common_dir_of(git_dir)
    packed = common / "packed-refs"
    lines = packed.read_text().splitlines() if packed.exists() else []
    listed = (line.split(" ", 1) for line in lines if line[0] not in "#^")
    found = {name: target for target, name in listed}
    for place in {common, git_dir}:
        for path in (place / "refs").rglob("*"):
            if path.is_file():
                found[str(path.relative_to(place))] = path.read_text().rstrip("\n")
    return dict(sorted(found.items()))


def head_of(git_dir: Path) -> tuple[str, str]:
    """Return what HEAD says, and the id of its commit: empty where there is none yet.

    Raises:
        ValueError: HEAD is broken.
    """
    said = (git_dir / "HEAD").read_text().rstrip("\n")
    if said.startswith("ref: "):
        return said, refs_of(git_dir).get(said.removeprefix("ref: "), "")
    int(said, 16)
    return said, said


def canary(folder: Path) -> tuple[Path, Path]:
    """Make a program that leaves a file when it runs; return the program and the file."""
    program, ran = folder / "canary.sh", folder / "canary-ran"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> "{ran}"\ncat\nexit 0\n')
    program.chmod(0o755)
    return program, ran
