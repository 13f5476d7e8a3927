"""The two kinds of repositories that git runs on: one of our own, and a person's.

- `OwnRepository`: a directory that this library made and no one else writes to. This module sets
  its whole configuration; the work tree may be hostile.
- `UserRepository`: a person's. It is read with every program that its configuration names switched
  off; only the refs of `change` and the work trees of `add_work_tree` are written.

The repository, the work tree and the index are always named: git looks for none of them, so a
`.git` in a work tree is never read. Names are passed NUL-terminated in both directions; paths are
literal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ...base.program_run import ProgramRun
from ..errors import NotARepository, UnknownRevision, printable
from .git_command import CONFIGURATION, MAX_OUTPUT, TIMEOUT_S, Git, GitOutput

_OWN_CONFIGURATION: Final = {
    **CONFIGURATION,
    "core.autocrlf": "false",
    "core.fileMode": "true",
    "core.symlinks": "true",
    "core.ignoreCase": "false",
    "core.precomposeUnicode": "false",
    "core.protectHFS": "false",  # the names that it refuses are ordinary files here
    "core.protectNTFS": "false",
    "core.trustctime": "true",
    "core.logAllRefUpdates": "false",
    "user.name": "agentforge",
    "user.email": "agentforge@localhost",
}
_READING: Final = frozenset(
    {
        *("cat-file", "check-ignore", "check-ref-format", "config", "diff-index", "diff-tree"),
        *("for-each-ref", "ls-files", "ls-tree", "merge-base"),
        *("rev-list", "rev-parse", "show-ref", "symbolic-ref"),
    }
)
_WITHOUT_CONTENTS: Final = frozenset(
    {"check-ref-format", "rev-parse", "show-ref", "symbolic-ref", "update-ref"}
)
"""The commands that convert, merge and compare no file's content: none of them needs a program of
`_PROGRAM_KEYS`, so that the repository's configuration need not be listed for it.
"""
_DIFFING: Final = frozenset({"diff", "diff-index", "diff-tree"})
_PROGRAM_KEYS: Final = re.compile(
    r"(?:filter\..*\.(?:clean|smudge|process|required)|merge\..*\.driver"
    r"|diff\..*\.(?:command|textconv)|diff\.external)",
    re.DOTALL,
)
_PROGRAM_OPTIONS: Final = re.compile(rb"--(?:textc|filt|ext-d|exec|upload-|receive-)")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OwnRepository:
    """A repository that this library made, in a directory that only it writes to.

    Attributes:
        git_dir: The repository's directory.
        work_tree: Its work tree, if the commands need one.
        index: The index; the repository's own if None.
        git: The program.
    """

    git_dir: Path
    work_tree: Path | None = None
    index: Path | None = None
    git: Git = field(default_factory=Git, kw_only=True)

    def run(
        self,
        *arguments: str | bytes,
        stdin: bytes = b"",
        accept: Collection[int] = (0,),
        configuration: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
        max_output: int = MAX_OUTPUT,
        output_fd: int | None = None,
        held: Sequence[int] = (),
        umask: int = -1,
    ) -> GitOutput:
        """Run one of git's commands.

        Args:
            arguments: The command and its arguments; names from a person or a work tree come after
                `--end-of-options` or `--`.
            stdin: Its input.
            accept: The exit codes that are an answer.
            configuration: More configuration, for this run.
            environment: More environment: names and dates of a commit, or other objects.
            timeout_s: How long it may take, in seconds.
            max_output: The limit for its output, in bytes.
            output_fd: An open file that receives its output instead.
            held: Descriptors that it holds open, so that a lock lasts until it has ended, too.
            umask: The bits that no new file of it has; this process's own if -1.

        Raises:
            GitUnavailable: There is no usable git.
            GitFailed: It ended with another exit code; `GitTimedOut` and `GitOutputTooLarge` if it
                was ended at a limit.
        """
        return self.git.run(
            _without_programs(arguments),
            git_dir=self.git_dir,
            environment={
                **_place(self.git_dir, self.work_tree, self.index),
                **(environment or {}),
            },
            configuration={**_OWN_CONFIGURATION, **(configuration or {})},
            options=ProgramRun((), {}, stdin, timeout_s, max_output, output_fd, held, umask),
            accept=accept,
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class UserRepository:
    """A person's repository, of which only objects, refs and the index are read.

    Every program that its configuration names is switched off; the index is not refreshed.

    Attributes:
        git_dir: The repository's directory; a linked work tree's own.
        work_tree: The checkout.
        common_dir: The directory of its refs and objects; `git_dir`, except for a linked work tree.
        index: Its index.
        objects: The directory of its objects.
        object_format: "sha1" or "sha256".
        shallow: Whether its history is cut off.
        git: The program.
    """

    git_dir: Path
    work_tree: Path
    common_dir: Path
    index: Path
    objects: Path
    object_format: str
    shallow: bool
    git: Git = field(default_factory=Git, kw_only=True)

    @classmethod
    def at(cls, path: Path, git: Git | None = None) -> UserRepository:
        """Return the repository whose checkout a folder is, or is in.

        Raises:
            NotARepository: There is none, it has no checkout, or its checkout is elsewhere.
            GitUnavailable: There is no usable git.
            GitFailed: Git can't read it.
        """
        git = git if git is not None else Git()
        resolved = path.resolve()
        if not resolved.is_dir():
            raise NotARepository(path, "it is no folder")
        output = git.run(
            [
                *("-C", os.fspath(resolved), "rev-parse", "--path-format=absolute"),
                *("--show-toplevel", "--absolute-git-dir", "--git-common-dir"),
                *("--git-path", "index", "--git-path", "objects"),
                *("--show-object-format", "--is-shallow-repository"),
            ],
            git_dir=resolved,
            environment={"GIT_CEILING_DIRECTORIES": ""},
            configuration=CONFIGURATION,
            options=ProgramRun((), {}, timeout_s=TIMEOUT_S),
            accept=(0, 128),
        )
        found = os.fsdecode(output.stdout).splitlines()
        if output.exit_code != 0 or len(found) != 7:
            reason = printable(output.stderr) or "its path can't be distinguished from several"
            raise NotARepository(path, reason.removeprefix("fatal: "))
        top, git_dir, common_dir, index, objects = map(Path, found[:5])
        if not resolved.is_relative_to(top):
            raise NotARepository(path, f"its configuration names another checkout, {top}")
        return cls(git_dir, top, common_dir, index, objects, found[5], found[6] == "true", git=git)

    def run(
        self,
        *arguments: str | bytes,
        accept: Collection[int] = (0,),
        configuration: Mapping[str, str] | None = None,
    ) -> GitOutput:
        """Run one of git's commands that only read.

        Args:
            arguments: The command and its arguments.
            accept: The exit codes that are an answer.
            configuration: How the person's git turns files into contents; names no program.

        Raises:
            ValueError: The command is not one that only reads.
            GitUnavailable: There is no usable git.
            GitFailed: It ended with another exit code, or at a limit.
        """
        if arguments[0] not in _READING:
            raise ValueError(f"git {arguments[0]!r} is not known to only read")
        return self._run(arguments, accept, configuration or {})

    def change(self, *arguments: str, held: Sequence[int] = ()) -> GitOutput:
        """Change a ref, by `update-ref`; no hook runs.

        Args:
            arguments: The command and its arguments.
            held: Descriptors that it holds open, so that a lock lasts until it has ended, too.

        Raises:
            ValueError: It is another command.
            GitUnavailable: There is no usable git.
            GitFailed: It ended with another exit code, or at a limit.
        """
        if arguments[0] != "update-ref":
            raise ValueError(f"git {arguments[0]!r} is none that changes a person's repository")
        return self._run(arguments, (0,), {}, held)

    def add_work_tree(self, folder: Path, branch: str) -> None:
        """Make a linked work tree on a new branch from HEAD, without files; no hook runs.

        Args:
            folder: The work tree, which must not exist or be empty.
            branch: The branch, which must not exist.

        Raises:
            GitUnavailable: There is no usable git.
            GitFailed: There is such a branch or folder, or no commit yet.
        """
        self._run(
            (
                "worktree",
                "add",
                "--quiet",
                "--no-checkout",
                "-b",
                branch,
                os.fspath(folder),
                "HEAD",
            ),
            (0,),
            {},
        )
        UserRepository.at(folder, self.git)._run(("read-tree", "HEAD"), (0,), {})

    def resolve(self, revision: str) -> str:
        """Return the id of the commit that a name refers to.

        Raises:
            UnknownRevision: There is none.
            GitFailed: As for `run`.
        """
        hint = []
        if "\0" not in revision and "\n" not in revision:
            wanted = f"{revision}^{{commit}}"
            output = self.run(
                *("rev-parse", "--verify", "--quiet", "--end-of-options", wanted),
                accept=(0, 1, 128),
            )
            if output.exit_code == 0:
                return output.line
        if revision == "HEAD":
            hint = ["It has no commit yet; make one first."]
        raise UnknownRevision(revision, git_dir=self.git_dir, hint=hint)

    def _run(
        self,
        arguments: Sequence[str | bytes],
        accept: Collection[int],
        configuration: Mapping[str, str],
        held: Sequence[int] = (),
    ) -> GitOutput:
        off = {} if arguments[0] in _WITHOUT_CONTENTS else self._programs_off()
        return self.git.run(
            _without_programs(arguments),
            git_dir=self.git_dir,
            environment=_place(self.git_dir, self.work_tree, self.index),
            configuration={**CONFIGURATION, **configuration, **off},
            options=ProgramRun((), {}, timeout_s=TIMEOUT_S, held=held),
            accept=accept,
        )

    def _programs_off(self) -> dict[str, str]:
        """Return the configuration that switches off each program that the repository's names."""
        listed = self.git.run(
            ["config", "--list", "--name-only", "-z", "--includes"],
            git_dir=self.git_dir,
            environment=_place(self.git_dir, self.work_tree, self.index),
            configuration=CONFIGURATION,
            options=ProgramRun((), {}, timeout_s=TIMEOUT_S),
        )
        keys = {os.fsdecode(name) for name in listed.names}
        return {key: _switched_off(key) for key in keys if _PROGRAM_KEYS.fullmatch(key)}


def _switched_off(key: str) -> str:
    """Return the value for a program's key: no program runs, and anything that needs one fails."""
    if key.endswith((".driver", ".required")):
        return "false"  # an empty merge driver would take one side; this one reports a conflict
    return ""


def _place(git_dir: Path, work_tree: Path | None, index: Path | None) -> dict[str, str]:
    place = {"GIT_DIR": os.fspath(git_dir)}
    if work_tree is not None:
        place["GIT_WORK_TREE"] = os.fspath(work_tree)
    if index is not None:
        place["GIT_INDEX_FILE"] = os.fspath(index)
    return place


def _without_programs(arguments: Sequence[str | bytes]) -> list[str | bytes]:
    """Return the arguments with a diff's programs switched off.

    Raises:
        ValueError: An option asks for a program.
    """
    for one in map(os.fsencode, arguments):
        if one in {b"--", b"--end-of-options"}:
            break
        if _PROGRAM_OPTIONS.match(one):
            raise ValueError(f"git's option {one!r} runs a program")
    if arguments[0] in _DIFFING:
        safe = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
        return [arguments[0], *safe, *arguments[1:]]
    return list(arguments)
