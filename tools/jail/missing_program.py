"""Which program a command did not find in its jail, and what shows it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

SHIMS: Final = "shims"
"""The folder that pyenv, rbenv, asdf and their like keep their stand-ins in."""
NOT_FOUND: Final = 127
"""The exit code by which shells, `env` and npm say that a program was not found."""
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
"""What shells, `env` and `make` print of a program that they did not find."""
_OF_MAKE: Final = re.compile(r"^make\S*: \*\*\* .*\bError 127\s*$", re.MULTILINE)


@frozen(kw_only=True)
class MissingProgram:
    """A program that was looked for in a jail and is not there.

    Attributes:
        name: The program, or None where nothing says which it was.
        found: Where this machine has it, or None.
        read: What shows it, if it is named in `read`: files and folders.
        refused: Whether it may not be shown, or a folder of it.
        shim: Whether what was found is a stand-in that looks for a version when it starts.
    """

    name: str | None
    found: Path | None = None
    read: tuple[Path, ...] = ()
    refused: bool = False
    shim: bool = False

    @property
    def hint(self) -> str:
        """What to change, in one line."""
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
    """Return the program that a run says was not found; "" where it doesn't say which.

    Returns:
        None where the run did not end for want of a program.
    """
    texts = [output[-_TAIL:].decode("utf-8", "replace") for output in outputs]
    if exit_code != NOT_FOUND and not any(map(_OF_MAKE.search, texts)):
        return None
    said = [str(found["name"]) for text in texts for one in _SAID for found in one.finditer(text)]
    # A path in the workspace is one that the tests ask for, or that is still to be built.
    named = [name for name in said if "/" not in name or name.startswith("/")]
    return (named[0] if named else None) if said else ""
