"""`[privacy]` of the person's own configuration: what is hidden from which agent program.

    [privacy]
    transcripts = "masked"         # or "references", or "none": what a session has of transcripts

    [privacy.codex]
    hides = ["claude-code"]        # or ["*"]: the conversations of every other program

A project can't relax it: only `$XDG_CONFIG_HOME/agentforge/config.toml` is read; of a project's own
file `transcripts` alone, where it is stricter. A name that is not in `READERS` makes the section
unusable, since a misspelt name would hide nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from ..data_folder import configuration_folder, read_plain
from .choices import TRANSCRIPTS

READERS: Final = ("claude-code", "codex", "gemini", "opencode", "openai", "anthropic")
"""The allowed names: the agent programs, and the kinds of endpoints that runs use."""
_SHORT: Final = {"claude": "claude-code"}
_FILE: Final = "config.toml"
_SECTION: Final = "privacy"
_MAX_BYTES: Final = 1024 * 1024
_ALL: Final = "*"
_TRANSCRIPTS: Final = "transcripts"


def read_privacy(
    program: str | None, environment: Mapping[str, str] = os.environ
) -> Callable[[str], bool]:
    """Return a test whether text of a program's conversations may be shown to a program.

    The empty name means text that may come from any program's conversations: it may be shown where
    nothing is hidden. If the file or the section can't be used, only the program's own
    conversations are shown: what a person wanted hidden must not appear.

    Args:
        program: The reader, by its name in the section or as `--agent` names it; None, or any other
            text, if unknown: then everything hidden from any reader is hidden.
        environment: Locates the person's configuration.
    """
    reader = _known(program or "")
    try:
        hidden = _hidden_from(reader, _section(configuration_folder(environment) / _FILE))
    except (OSError, ValueError, RecursionError):
        hidden = frozenset({_ALL})

    def may_show(of: str) -> bool:
        if not of:
            return not hidden
        return of == reader or not hidden & {of, _ALL}

    return may_show


def read_transcripts(data_folder: Path, environment: Mapping[str, str] = os.environ) -> str:
    """Return what a session has of the transcripts of conversations, one of `TRANSCRIPTS`.

    The stricter of what the person's configuration and the project's file say; "masked" if neither
    says it, and "none" if one can't be used.

    Args:
        data_folder: The project's `.agentforge`.
        environment: Locates the person's configuration.
    """
    found = len(TRANSCRIPTS) - 1
    for folder in (configuration_folder(environment), data_folder):
        try:
            found = min(found, _transcripts_in(_section(folder / _FILE)))
        except (OSError, ValueError, RecursionError):
            return TRANSCRIPTS[0]
    return TRANSCRIPTS[found]


def _transcripts_in(section: Mapping[str, Any]) -> int:
    """Return the place in `TRANSCRIPTS` of what a section says.

    Raises:
        ValueError: It says something else.
    """
    said = section.get(_TRANSCRIPTS, TRANSCRIPTS[-1])
    if said not in TRANSCRIPTS:
        raise ValueError(f"privacy.{_TRANSCRIPTS}: {said!r} is none of {', '.join(TRANSCRIPTS)}")
    return TRANSCRIPTS.index(said)


def privacy_problem(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return why `[privacy]` is unusable, so that other programs' text is hidden; None if it isn't.

    None also if there is no such section.
    """
    path = configuration_folder(environment) / _FILE
    try:
        section = _section(path)
        _transcripts_in(section)
        _hidden_from(None, section)
    except (OSError, ValueError, RecursionError) as error:
        return f"{path}: {error}"
    return None


def _known(name: str) -> str | None:
    """Return a reader by its own name or the word before the first colon, or None."""
    word = name.partition(":")[0]
    word = _SHORT.get(word, word)
    return word if word in READERS else None


def _section(path: Path) -> Mapping[str, Any]:
    """Return the section; empty if there is none.

    Raises:
        OSError: The file can't be read.
        ValueError: The file is not TOML, or the section is not a table.
    """
    try:
        text = read_plain(os.fspath(path), most=_MAX_BYTES + 1)
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


def _hidden_from(reader: str | None, section: Mapping[str, Any]) -> frozenset[str]:
    """Return whose text is hidden from a reader; for None, whose is hidden from any.

    Raises:
        ValueError: The section as a whole can't be used.
    """
    hidden: set[str] = set()
    for name, said in section.items():
        if name == _TRANSCRIPTS:
            continue
        hides = said.get("hides", []) if isinstance(said, dict) and set(said) <= {"hides"} else None
        if not isinstance(hides, list):
            raise ValueError(f"privacy.{name}: expected hides, a list of agent programs")  # noqa: TRY004 (a fault of the file)
        found = {one if one == _ALL else _named(one, name) for one in hides}
        if reader in {None, _named(name, name)}:
            hidden |= found
    return frozenset(hidden)


def _named(said: object, where: str) -> str:
    name = _SHORT.get(said, said) if isinstance(said, str) else None
    if name not in READERS:
        raise ValueError(f"privacy.{where}: {said!r} is none of {', '.join(READERS)}")
    return name


__all__ = ["READERS", "privacy_problem", "read_privacy", "read_transcripts"]
