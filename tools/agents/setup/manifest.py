"""Where agent programs keep their files, and our record of what an installation changed there.

The record is one JSON file for each program and scope; it makes the installation undoable. It is
outside the project, so that what came with a clone can't say what an uninstallation removes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from ...base.data_folder import state_folder, state_of
from ...base.files import AtomicFileWriter, OsFileSystem, make_durable_directory, read_regular_file
from ..programs.meter import object_of

_MAX_BYTES: Final = 4 * 1024 * 1024
_VERSION: Final = 1
_INSTALLED: Final = "installed"


class InstallationManifest(NamedTuple):
    """The changes of one installation.

    Attributes:
        files: The digest of each of our files, by its path.
        blocks: The text inserted into each file of the person's, by its path.
        created: Those of these files, and the folders, that did not exist before.
        commands: Our commands that the program runs.
        members: The members put into each JSON file of the person's, by its path.
    """

    files: dict[str, str]
    blocks: dict[str, str]
    created: list[str]
    commands: list[str]
    members: dict[str, list[str]] = {}  # noqa: RUF012 (never changed)


def read_manifest(path: Path) -> InstallationManifest | None:
    """Return the manifest, or None if there is none or it is not valid.

    Raises:
        ReadError: The file can't be read.
    """
    data = read_regular_file(OsFileSystem(), str(path), path=path, max_bytes=_MAX_BYTES)
    found = object_of(data) if data else None
    if found is None or found.get("version") != _VERSION:
        return None
    files, blocks, created, commands = (
        found.get(name) for name in InstallationManifest._fields[:4]
    )
    members = found.get("members", {})
    if not (isinstance(files, dict) and isinstance(blocks, dict)):
        return None
    if not (isinstance(created, list) and isinstance(commands, list) and isinstance(members, dict)):
        return None
    return InstallationManifest(files, blocks, created, commands, members)


def write_manifest(path: Path, manifest: InstallationManifest) -> None:
    """Save a manifest, before or after the installation.

    Raises:
        WriteError: It could not be saved.
    """
    make_durable_directory(OsFileSystem(), path.parent)
    with AtomicFileWriter(path) as file:
        file.write(json.dumps({"version": _VERSION, **manifest._asdict()}, indent=1) + "\n")


class Scope(StrEnum):
    """Whose conversations call the hook."""

    USER = "user"
    PROJECT = "project"


class Places(NamedTuple):
    """The folders of one person and one project.

    Attributes:
        home: The person's.
        project: The project's.
        environment: The environment variables, which may name other folders.
    """

    home: Path
    project: Path
    environment: Mapping[str, str]

    def claude(self, scope: Scope) -> Path:
        """Return the folder of Claude Code's files."""
        if scope is Scope.PROJECT:
            return self.project / ".claude"
        return self._named("CLAUDE_CONFIG_DIR") or self.home / ".claude"

    def codex(self, scope: Scope) -> Path:
        """Return the folder of Codex's files."""
        if scope is Scope.PROJECT:
            return self.project / ".codex"
        return self._named("CODEX_HOME") or self.home / ".codex"

    def gemini(self, scope: Scope) -> Path:
        """Return the folder of Gemini CLI's files."""
        if scope is Scope.PROJECT:
            return self.project / ".gemini"
        return (self._named("GEMINI_CLI_HOME") or self.home) / ".gemini"

    def opencode(self, scope: Scope) -> Path:
        """Return the folder of opencode's files."""
        if scope is Scope.PROJECT:
            return self.project / ".opencode"
        return (self._named("XDG_CONFIG_HOME") or self.home / ".config") / "opencode"

    def state(self, scope: Scope) -> Path:
        """Return the folder of our manifests and saved files."""
        environment = {**self.environment, "HOME": str(self.home)}
        if scope is Scope.PROJECT:
            return state_of(self.project, _INSTALLED, environment)
        return state_folder(environment) / _INSTALLED

    def _named(self, variable: str) -> Path | None:
        value = self.environment.get(variable, "")
        return Path(value) if value.startswith("/") else None
