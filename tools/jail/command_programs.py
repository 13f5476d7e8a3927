"""The programs that a command starts, and the one that it did not find.

Only the words that a person wrote are examined: a shell's text, and the words after programs such
as `env` that start another. Programs that a Makefile or a package.json starts are not included:
these files are the workspace's, which has no say in what a jail shows.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"})
_STARTERS: Final = frozenset(
    {"env", "exec", "command", "nice", "nohup", "setsid", "time", "timeout"}
)
_ENDS: Final = re.compile(r"[;&|()\n]+")
_BEFORE_COMMANDS: Final = frozenset(
    {"!", "{", "do", "elif", "else", "if", "then", "until", "while"}
)
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_PROGRAM: Final = re.compile(r"[A-Za-z0-9_./+-]+")
_DURATION: Final = re.compile(r"[0-9.]+[smhd]?")
_MAX: Final = 32
"""The most programs of a text to name; one that starts more has its folders named instead."""

SHIMS: Final = "shims"
"""The folder in which pyenv, rbenv, asdf and the like put their stand-ins."""
NOT_FOUND: Final = 127
"""The exit code of shells, `env` and npm for a missing program."""
NOT_EXECUTABLE: Final = 126
"""Their exit code for one that may not be run."""
_TAIL: Final = 16_384
_SAID: Final = (
    re.compile(r"^\S.*: (?P<name>[A-Za-z0-9_./+-]+): (?:command )?not found\s*$", re.MULTILINE),
    re.compile(r"^\S.*: command not found: (?P<name>[A-Za-z0-9_./+-]+)\s*$", re.MULTILINE),
    re.compile(
        r"^(?:\S*/)?(?:bwrap|env|exec|make(?:\[[0-9]+\])?|nice|nohup|timeout|xargs): "
        r"(?:execvp |failed to run command )?['`\u2018]?(?P<name>[A-Za-z0-9_./+-]+)['\u2019]?"
        r": No such file or directory\s*$",
        re.MULTILINE,
    ),
)
"""The messages of shells, `env` and `make` about a missing program."""
_OF_MAKE: Final = re.compile(r"^make\S*: \*\*\* .*\bError 127\s*$", re.MULTILINE)


def started_by(command: Sequence[str]) -> tuple[str, ...]:
    """Return the names and absolute paths of programs that a command starts besides its own.

    Args:
        command: The program and its arguments.
    """
    found: dict[str, None] = {}
    for name in _started(list(command), depth=0):
        if name != command[0] and len(found) < _MAX:
            found.setdefault(name)
    return tuple(found)


def started_by_text(text: str) -> tuple[str, ...]:
    """Return the same for a shell's script."""
    return tuple(dict.fromkeys(_in_text(text, depth=0)))[:_MAX]


def is_shell(program: str) -> bool:
    """Return whether a program is one of the usual shells."""
    return os.path.basename(program) in SHELLS


def _started(words: list[str], depth: int) -> Iterator[str]:
    """Yield the program of some words, and those that it starts."""
    while words and _ASSIGNMENT.match(words[0]):
        words = words[1:]
    if not words or depth > 4:
        return
    program, rest = words[0], words[1:]
    name = os.path.basename(program)
    if _PROGRAM.fullmatch(program) and ("/" not in program or os.path.isabs(program)):
        yield program
    if name in SHELLS:
        text = _shells_text(rest)
        if text is not None:
            yield from _in_text(text, depth + 1)
    elif name in _STARTERS:
        while rest and (rest[0].startswith("-") or _DURATION.fullmatch(rest[0])):
            rest = rest[1:]
        yield from _started(rest, depth + 1)


def _shells_text(words: Sequence[str]) -> str | None:
    """Return the text that a shell is given: the word after the options, if one of them has a c."""
    given = named = False
    for word in words:
        if named:  # the name of an option, as in -o pipefail
            named = False
        elif not word.startswith(("-", "+")):
            return word if given else None
        elif not word.startswith("--"):
            given = given or "c" in word[1:]
            named = word.endswith(("o", "O"))
    return None


def _in_text(text: str, depth: int) -> Iterator[str]:
    """Yield the programs in a shell's text; anything after an open quote is ignored."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|()\n")
    lexer.whitespace = " \t\r"
    lexer.commenters = ""
    words: list[str] = []
    try:
        for token in lexer:
            if _ENDS.fullmatch(token):
                yield from _started(words, depth)
                words = []
            elif words or token not in _BEFORE_COMMANDS:
                words.append(token)
    except ValueError:
        return
    yield from _started(words, depth)


@frozen(kw_only=True)
class MissingProgram:
    """A program that was searched for in a jail and is missing there.

    Attributes:
        name: The program, or None if nothing names it.
        found: Its path on this machine, or None.
        read: The files and folders that show it, if they are named in `read`.
        refused: Whether it, or a folder of it, may not be shown.
        shim: Whether the path is a stand-in that looks for a version when it starts.
    """

    name: str | None
    found: Path | None = None
    read: tuple[Path, ...] = ()
    refused: bool = False
    shim: bool = False

    @property
    def hint(self) -> str:
        """The remedy, in one line."""
        if self.name is None:
            return (
                "a program was not found in the jail; name it in the command itself, or have "
                "`read` in [jail] of the configuration name the folder that it is in"
            )
        if self.found is not None and self.shim:
            tool = self.found.parent.parent.name.lstrip(".")
            return (
                f"{str(self.found)!r} is a stand-in that looks for a version when it starts, and "
                f"finds none in a jail; name the program itself: `{tool} which {self.name}` prints "
                "it, and a virtual environment has its own"
            )
        if self.found is None:
            return f"{self.name!r} is nowhere on this machine's PATH; install it"
        if self.refused or not self.read:
            return (
                f"{self.name!r} is {str(self.found)!r} on this machine, in a folder that no jail "
                "shows; install it elsewhere"
            )
        line = f"read = {json.dumps([str(one) for one in self.read], ensure_ascii=False)}"
        return (
            f"{self.name!r} is {str(self.found)!r} on this machine, and the jail does not show it: "
            f"the command does not name it itself. Add to [jail] in the configuration: {line}"
        )


def missing_name(exit_code: int | None, outputs: Sequence[bytes]) -> str | None:
    """Return the program that a run reports as missing; "" if it names none.

    Returns:
        None if the run ended for another reason than a missing program.
    """
    texts = [output[-_TAIL:].decode("utf-8", "replace") for output in outputs]
    if exit_code != NOT_FOUND and not any(map(_OF_MAKE.search, texts)):
        return None
    said = [str(found["name"]) for text in texts for one in _SAID for found in one.finditer(text)]
    # A relative path is one in the workspace that the tests ask for, or that is still to be built.
    named = [name for name in said if "/" not in name or name.startswith("/")]
    return (named[0] if named else None) if said else ""
