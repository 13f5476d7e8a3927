"""The only code that runs git, with a configuration of its own, and that parses its lists.

Git runs programs that its configuration, its environment and files in a work tree name: hooks,
fsmonitor, filters, textconv, merge drivers, signers, pagers, transports. None of them runs here.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from ...base.errors import reason_of
from ...base.program_run import Ended, ProgramRun, ProgramRunner, run_program
from ..errors import GitFailed, GitOutputTooLarge, GitTimedOut, GitUnavailable, printable

LEAST_VERSION: Final = (2, 39)
TIMEOUT_S: Final = 120.0
"""How long one run of git may take, in seconds."""
MAX_OUTPUT: Final = 64 << 20
"""The limit for one run's output, in bytes."""

_ENVIRONMENT: Final = {
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
    "GIT_ASKPASS": "false",
    "GIT_SSH_COMMAND": "false",
}
CONFIGURATION: Final = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "core.pager": "cat",
    "core.alternateRefsCommand": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "submodule.recurse": "false",
    "commit.gpgSign": "false",
    "log.showSignature": "false",
    "safe.directory": "*",  # git refuses other owners as it runs their programs; we don't
}
_VERSION: Final = re.compile(rb"git version (\d+)\.(\d+)")


_Look = tuple[str, int, int, int, int]
_GOOD_ENOUGH: Final[set[_Look]] = set()
"""The programs whose version this process has checked."""


def find_git(path: str | None = None) -> str | None:
    """Return the path of git, by the absolute folders of PATH; None if it is in none of them."""
    searched = os.environ.get("PATH", os.defpath) if path is None else path
    folders = [one for one in searched.split(os.pathsep) if os.path.isabs(one)]
    return shutil.which("git", path=os.pathsep.join(folders)) if folders else None


class GitOutput(NamedTuple):
    """The output of one run of git.

    Attributes:
        exit_code: One of those that the caller accepts.
        stdout: Its output, as bytes; names in it may contain anything but NUL.
        stderr: The end of its standard error.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes

    @property
    def line(self) -> str:
        """The first line of the output, such as an object's id."""
        return os.fsdecode(self.stdout.split(b"\n", 1)[0])

    @property
    def names(self) -> list[bytes]:
        """The NUL-terminated parts of the output."""
        return self.stdout.split(b"\0")[:-1]


class Git:
    """A git program; found, and its version checked, at first use."""

    def __init__(
        self,
        program: str | None = None,
        *,
        runner: ProgramRunner = run_program,
        find: Callable[[], str | None] = find_git,
    ) -> None:
        """Remember the program; nothing runs yet.

        Args:
            program: Its path; found in PATH if None.
            runner: Runs programs.
            find: Finds its path.
        """
        self._given = program
        self._runner = runner
        self._find = find

    @cached_property
    def program(self) -> str:
        """The path of git.

        Raises:
            GitUnavailable: It is missing, does not run, or is older than `LEAST_VERSION`.
        """
        required = ".".join(map(str, LEAST_VERSION))
        program = self._given if self._given is not None else self._find()
        if program is None:
            raise GitUnavailable("there is no git on this machine", required=required)
        look = self._look(program)
        if look is not None and look in _GOOD_ENOUGH:
            return program
        run = ProgramRun([program, "version"], {**_ENVIRONMENT, "PATH": _path(program)})
        try:
            ended = self._runner(run)
        except OSError as error:
            problem = f"{program} can't be run ({error.strerror})"
            raise GitUnavailable(problem, required=required, found=program) from error
        match = _VERSION.match(ended.stdout)
        if match is None:
            problem = f"{program} does not say its version"
            raise GitUnavailable(problem, required=required, found=program)
        version = tuple(map(int, match.groups()))
        if version < LEAST_VERSION:
            said = printable(ended.stdout, 80)
            problem = f"{program} is too old ({said})"
            raise GitUnavailable(problem, required=required, found=program, version=said)
        if look is not None:
            _GOOD_ENOUGH.add(look)
        return program

    def _look(self, program: str) -> _Look | None:
        """Return what identifies this version of the program; None with another runner."""
        if self._runner is not run_program:
            return None
        try:
            status = os.stat(program)
        except OSError:
            return None
        return program, status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns

    def run(
        self,
        arguments: Sequence[str | bytes],
        *,
        git_dir: Path,
        environment: Mapping[str, str],
        configuration: Mapping[str, str],
        options: ProgramRun,
        accept: Collection[int] = (0,),
    ) -> GitOutput:
        """Run one of git's commands; for `OwnRepository` and `UserRepository`.

        Raises:
            GitUnavailable: There is no usable git.
            GitFailed: It ended with an exit code that is not accepted.
            GitTimedOut: It took too long.
            GitOutputTooLarge: It printed too much.
        """
        command = os.fsdecode(arguments[0])
        program = self.program
        settings = {f"GIT_CONFIG_KEY_{i}": key for i, key in enumerate(configuration)}
        settings |= {f"GIT_CONFIG_VALUE_{i}": one for i, one in enumerate(configuration.values())}
        whole = {
            **_ENVIRONMENT,
            "PATH": _path(program),
            "GIT_CONFIG_COUNT": str(len(configuration)),
            **settings,
            **environment,
        }
        try:
            ended = self._runner(options._replace(words=[program, *arguments], environment=whole))
        except OSError as error:
            raise GitFailed(
                command=command,
                git_dir=git_dir,
                exit_code=None,
                problem=f"could not be started: {reason_of(error)}",
            ) from error
        _refuse_cut_short(ended, command, git_dir, options)
        if ended.exit_code not in accept:
            raise GitFailed(
                command=command,
                git_dir=git_dir,
                exit_code=ended.exit_code,
                output=printable(ended.stderr),
            )
        return GitOutput(ended.exit_code, ended.stdout, ended.stderr)


def _refuse_cut_short(ended: Ended, command: str, git_dir: Path, options: ProgramRun) -> None:
    if ended.cut_short == "time":
        raise GitTimedOut(
            command=command,
            git_dir=git_dir,
            timeout_s=options.timeout_s,
            output=printable(ended.stderr),
        )
    if ended.cut_short == "output":
        raise GitOutputTooLarge(command=command, git_dir=git_dir, max_bytes=options.max_output)


def _path(program: str) -> str:
    return os.pathsep.join([os.path.dirname(program), "/usr/bin", "/bin"])


GITLINK: Final = "160000"
LINK: Final = "120000"
EXECUTABLE: Final = "100755"
_NONE: Final = "000000"


class Leaf(NamedTuple):
    """The entry of a tree or an index at a path.

    Attributes:
        mode: The mode, in six octal digits.
        oid: The object's id.
    """

    mode: str
    oid: str

    @property
    def is_submodule(self) -> bool:
        """Whether it is a commit of another repository."""
        return self.mode == GITLINK


class Difference(NamedTuple):
    """A path that differs between two trees.

    Attributes:
        path: The path, as git has it.
        old: Its entry in the first tree, or None.
        new: Its entry in the second, or None.
    """

    path: bytes
    old: Leaf | None
    new: Leaf | None


class IndexEntry(NamedTuple):
    """A path of an index.

    Attributes:
        leaf: Its mode and object.
        skipped: Whether it is marked skip-worktree, as paths outside a sparse checkout are.
        stage: 0, or the side of a conflict.
    """

    leaf: Leaf
    skipped: bool = False
    stage: int = 0

    def line(self, path: bytes) -> bytes:
        """Return its line in the input of `update-index -z --index-info`."""
        return f"{self.leaf.mode} {self.leaf.oid} {self.stage}\t".encode() + path


def parse_differences(output: bytes) -> list[Difference]:
    """Parse the output of `diff-tree -r -z --no-renames`."""
    fields = iter(output.split(b"\0"))
    return list(_differences(fields))


def _differences(fields: Iterator[bytes]) -> Iterator[Difference]:
    for head in fields:
        if head.startswith(b":"):
            old_mode, new_mode, old, new, _ = head[1:].decode("ascii").split(" ")
            yield Difference(next(fields), _leaf(old_mode, old), _leaf(new_mode, new))


def _leaf(mode: str, oid: str) -> Leaf | None:
    return None if mode == _NONE else Leaf(mode, oid)


def parse_index(output: bytes) -> Iterator[tuple[bytes, IndexEntry]]:
    """Parse the output of `ls-files -s -v -z`."""
    for line in output.split(b"\0")[:-1]:
        head, path = line.split(b"\t", 1)
        tag, mode, oid, stage = head.decode("ascii").split(" ")
        yield path, IndexEntry(Leaf(mode, oid), tag in {"S", "s"}, int(stage))


def parse_attributes(output: bytes) -> dict[bytes, dict[str, str]]:
    """Parse the output of `check-attr -z`: for each path, its attributes."""
    found: dict[bytes, dict[str, str]] = {}
    fields = output.split(b"\0")[:-1]
    for path, name, value in zip(fields[::3], fields[1::3], fields[2::3], strict=True):
        found.setdefault(path, {})[name.decode()] = value.decode("utf-8", "surrogateescape")
    return found


def index_lines(changes: Mapping[bytes, Leaf | None], id_length: int) -> bytes:
    """Return the input of `update-index -z --index-info`, removals before additions.

    Args:
        changes: The paths, and their new entries.
        id_length: The number of digits of an object's id.
    """
    removed = [path for path, leaf in changes.items() if leaf is None]
    kept = [(path, leaf) for path, leaf in changes.items() if leaf is not None]
    lines = [b"0 " + b"0" * id_length + b"\t" + path for path in removed]
    lines += [f"{leaf.mode} {leaf.oid}\t".encode() + path for path, leaf in kept]
    return joined(lines)


def joined(names: Sequence[bytes]) -> bytes:
    """Return names as git's `-z` options read them."""
    return b"".join(one + b"\0" for one in names)
