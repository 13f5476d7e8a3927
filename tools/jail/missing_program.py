"""The program that a command did not find in its jail, and how to show it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

SHIMS: Final = "shims"
"""The folder in which pyenv, rbenv, asdf and the like put their stand-ins."""
NOT_FOUND: Final = 127
"""The exit code of shells, `env` and npm for a missing program."""
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
