"""`[privacy]` of the person's own configuration: what is not shown to which agent program.

    [privacy.codex]
    hides = ["claude-code"]        # or ["*"]: what was said in every other program

A project has no say in it: only `$XDG_CONFIG_HOME/agentforge/config.toml` is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from ..data_folder import configuration_folder

_FILE: Final = "config.toml"
_SECTION: Final = "privacy"
_MAX_BYTES: Final = 1024 * 1024
_ALL: Final = "*"


def read_privacy(
    program: str | None, environment: Mapping[str, str] = os.environ
) -> Callable[[str], bool]:
    """Return what says whether text of a program's conversations may be shown to a program.

    The empty name stands for text that may have been said in any program's conversations: it may
    be shown where nothing is hidden. Where the file or the section can't be used, nothing is shown
    but what was said in the program itself: what a person wanted hidden must not appear.

    Args:
        program: Who is to read it; None where that is not known, from which is hidden what is
            hidden from any.
        environment: Says where the person's configuration is.
    """
    try:
        hidden = _hidden_from(program, _section(configuration_folder(environment) / _FILE))
    except (OSError, ValueError, RecursionError):
        hidden = frozenset({_ALL})

    def may_show(of: str) -> bool:
        if not of:
            return not hidden
        return of == program or not hidden & {of, _ALL}

    return may_show


def _section(path: Path) -> Mapping[str, Any]:
    """Return the section; empty where there is none.

    Raises:
        OSError: The file can't be read.
        ValueError: It is no TOML, or the section is none.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    if len(text) > _MAX_BYTES:
        raise ValueError("the file is too long")
    if _SECTION.encode() not in text:
        return {}
    import tomllib  # few people have the section

    found = tomllib.loads(text.decode()).get(_SECTION, {})
    if not isinstance(found, dict):
        raise ValueError("privacy: expected a table")  # noqa: TRY004 (a fault of the file)
    return found


def _hidden_from(program: str | None, section: Mapping[str, Any]) -> frozenset[str]:
    readers = list(section) if program is None else [program]
    hidden: set[str] = set()
    for reader in readers:
        said = section.get(reader, {})
        hides = said.get("hides") if isinstance(said, dict) and set(said) <= {"hides"} else None
        if said and not (isinstance(hides, list) and all(isinstance(one, str) for one in hides)):
            raise ValueError(f"privacy.{reader}: expected hides, a list of agent programs")
        hidden.update(hides or ())
    return frozenset(hidden)


__all__ = ["read_privacy"]
