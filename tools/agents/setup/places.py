"""The folders of agent programs' own files, and of our manifests."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple


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
        if scope is Scope.PROJECT:
            return self.project / ".agentforge" / "installed"
        named = self._named("XDG_STATE_HOME") or self.home / ".local" / "state"
        return named / "agentforge" / "installed"

    def _named(self, variable: str) -> Path | None:
        value = self.environment.get(variable, "")
        return Path(value) if value.startswith("/") else None
