"""The programs that a command starts besides its own, as far as its own words name them plainly.

Only the words that a person wrote are examined: a shell's text, and the words after programs such
as `env` that start another. Programs that a Makefile or a package.json starts are not included:
these files are the workspace's, which has no say in what a jail shows.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

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
