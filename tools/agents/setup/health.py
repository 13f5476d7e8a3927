"""Check whether what was installed in the agent programs is still there and works."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from .installation import manifest_path
from .manifest import Manifest, read_manifest
from .pieces import PIECES
from .places import Places, Scope


class Installed(NamedTuple):
    """One installation.

    Attributes:
        program: The agent program.
        scope: Whose conversations it is for.
        problems: Its faults; empty if there are none.
        commands: Our commands that the program runs, by absolute paths.
    """

    program: str
    scope: Scope
    problems: tuple[str, ...]
    commands: tuple[str, ...]


def installed_programs(places: Places) -> list[Installed]:
    """Return each installation with its faults.

    Raises:
        ReadError: A manifest can't be read.
    """
    found = []
    for program in PIECES:
        for scope in Scope:
            manifest = read_manifest(manifest_path(places, program, scope))
            if manifest is not None:
                problems, commands = tuple(_problems(manifest)), tuple(manifest.commands)
                found.append(Installed(program, scope, problems, commands))
    return found


def _problems(manifest: Manifest) -> list[str]:
    problems = []
    for name, digest in manifest.files.items():
        content = _content(name)
        if content is None:
            problems.append(f"{name} is missing")
        elif hashlib.sha256(content).hexdigest() != digest:
            problems.append(f"{name} was changed")
    for name, inserted in manifest.blocks.items():
        if inserted.encode() not in (_content(name) or b""):
            problems.append(f"{name} has not our lines as they were put in")
    for name, members in manifest.members.items():
        content = _content(name) or b""
        if any(one.encode() not in content for one in members):
            problems.append(f"{name} has not our lines as they were put in")
    problems += [f"{one} can't be run" for one in manifest.commands if not os.access(one, os.X_OK)]
    return problems


def _content(name: str) -> bytes | None:
    try:
        return Path(name).read_bytes()
    except OSError:
        return None
