"""Checkouts with a result to apply, and what a test compares before and after."""

from __future__ import annotations

import functools
import os
import stat
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import define

from agentforge_sessions.repository.apply.applied import Applied, ApplyServices
from agentforge_sessions.repository.apply.apply import apply_result, plan_apply
from agentforge_sessions.repository.apply.apply_plan import ApplyOptions
from tests.support.repositories import (
    commit_all,
    git_dir_of,
    head_of,
    know_files,
    new_checkout,
    plain_git,
    refs_of,
    user_environment,
)
from tests.support.trees import Tree, lay_out, tree_of

Files = Mapping[str, "str | bytes | None"]
Step = Files | Sequence[str] | Callable[[Path], object]


def lay(folder: Path, files: Files) -> None:
    """Write files; None deletes one, a text that begins with "-> " makes a link."""
    for name, content in files.items():
        path = folder / name
        if content is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()
        if isinstance(content, str) and content.startswith("-> "):
            path.unlink(missing_ok=True)
            path.symlink_to(content[3:])
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)


def arrange(top: Path, *steps: Step, home: Path | None = None) -> None:
    """Lay files, run the words of a git command or call a function of a checkout, in turn."""
    for step in steps:
        if callable(step):
            step(top)
        elif isinstance(step, Mapping):
            lay(top, step)
        else:
            plain_git(top, *step, home=home)


def look_at(path: Path) -> tuple[int, object]:
    """The mode of what stands at a path, and its content or what the link says."""
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return mode, os.readlink(path)
    return mode, path.read_bytes() if stat.S_ISREG(mode) else None


def seen(top: Path) -> dict[str, tuple[object, ...]]:
    """All that is in a checkout and of its index, HEAD, refs and stash, to the byte."""
    found: dict[str, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(top):
        if folder == str(top) and ".git" in folders:
            folders.remove(".git")
        for name in [*folders, *files]:
            path = Path(folder) / name
            mode, shown = look_at(path)
            found[str(path.relative_to(top))] = (0 if stat.S_ISLNK(mode) else mode, shown)
    git_dir = git_dir_of(top)
    index = git_dir / "index"
    found["(index)"] = (index.read_bytes() if index.exists() else None,)
    found["(lock)"] = ((git_dir / "index.lock").exists(), (git_dir / "agentforge-apply").exists())
    refs = "".join(f"{target} {name}\n" for name, target in refs_of(git_dir).items())
    head, commit = head_of(git_dir)
    found["(refs)"] = (refs.encode(), head.encode(), commit.encode())
    return found


def files_of(top: Path) -> dict[str, object]:
    """The files of a checkout, without modes."""
    return {
        name: one[1]
        for name, one in seen(top).items()
        if not name.startswith("(") and one[1] is not None
    }


@define
class Site:
    """A checkout, and a session's repository with a base and a result.

    Attributes:
        top: The checkout.
        own: The session's repository.
        base: The base commit.
        result: The result's commit.
        services: What applies with.
    """

    top: Path
    own: Path
    base: str
    result: str
    services: ApplyServices

    @property
    def objects(self) -> list[Path]:
        return [self.own / ".git" / "objects"]

    @property
    def call(self) -> dict[str, Any]:
        return {
            "base": self.base,
            "result": self.result,
            "objects": self.objects,
            "services": self.services,
        }

    def apply(self, **options: Any) -> Applied:
        return apply_result(self.top, **self.call, label="it", options=ApplyOptions(**options))

    def plan(self, **options: Any) -> Applied:
        return plan_apply(self.top, **self.call, options=ApplyOptions(**options))

    def git(self, *arguments: str, **more: Any) -> str:
        return plain_git(self.top, *arguments, **more).stdout.decode("utf-8", "surrogateescape")

    def status(self) -> list[str]:
        return self.git("status", "--porcelain", "-uall").splitlines()


def services_in(folder: Path, **more: Any) -> ApplyServices:
    """Services that see a home of the test's own."""
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    home = folder / "home"
    home.mkdir(exist_ok=True)
    environment = {**user_environment(home)}
    return ApplyServices(environment=environment, scratch=scratch, **more)


def new_site(folder: Path, begin: Files, change: Files, **more: Any) -> Site:
    """Make a checkout with one commit, and a session that changed some files of it."""
    if (folder / "checkout").exists():
        return session_of(folder, folder / "checkout", change, **more)
    tree, base, result = _made(tuple(begin.items()), tuple(change.items()))
    lay_out(tree, folder)
    top, own = folder / "checkout", folder / "own"
    for one in (top, own):
        know_files(one)
    return Site(top, own, base, result, services_in(folder, **more))


@functools.cache
def _made(
    begin: tuple[tuple[str, str | bytes | None], ...],
    change: tuple[tuple[str, str | bytes | None], ...],
) -> tuple[Tree, str, str]:
    """Have git make a checkout and a session's repository, once in this process.

    Returns:
        Both of them, the base and the result.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        top = new_checkout(folder / "checkout")
        lay(top, dict(begin))
        commit_all(top, "begin")
        site = session_of(folder, top, dict(change))
        parts = {b"checkout": top, b"own": site.own}
        tree: dict[bytes, tuple[str, bytes | str]] = {}
        for part, place in parts.items():
            tree[part] = ("d", "")
            tree |= {os.path.join(part, path): one for path, one in tree_of(place).items()}
        return tree, site.base, site.result


def session_of(folder: Path, top: Path, change: Files, **more: Any) -> Site:
    """Have a session change the files of a checkout's commit."""
    own = folder / "own"
    subprocess.run(
        ["git", "clone", "-q", "--no-hardlinks", str(top), str(own)],
        check=True,
        env=user_environment(folder),
        capture_output=True,
    )
    base = head_of(git_dir_of(own))[1]
    lay(own, change)
    result = commit_all(own, "result")
    return Site(top, own, base, result, services_in(folder, **more))
