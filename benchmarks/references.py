"""What the store is measured against: the stores that one would write without it.

Each does the whole job of its kind on the same session: it turns the domain's objects into YAML and
writes them, or reads the YAML and (where it says so) builds the domain's objects.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from agentforge_sessions.harness import (
    SessionArtifact,
    SessionContext,
    SessionHistory,
    SessionState,
    TokenBudget,
)


def as_fields(session: SessionContext) -> dict[str, Any]:
    """Turn a session into what YAML libraries write."""
    return {
        "session_id": session.session_id,
        "revision": session.revision,
        "state": session.state.value,
        "workflow_type": session.workflow_type,
        "current_phase": session.current_phase,
        "attempt_number": session.attempt_number,
        "created_at": session.created_at.isoformat(),
        "updated_at": session.updated_at.isoformat(),
        "completed_at": session.completed_at and session.completed_at.isoformat(),
        "token_budget": {
            "total_budget": session.token_budget.total_budget,
            "tokens_used": session.token_budget.tokens_used,
        },
        "goal": session.goal,
        "artifacts": [
            {
                "path": artifact.path,
                "artifact_type": artifact.artifact_type,
                "timestamp": artifact.timestamp.isoformat(),
                "phase": artifact.phase,
            }
            for artifact in session.artifacts
        ],
        "history": [
            {
                "timestamp": entry.timestamp.isoformat(),
                "action": entry.action,
                "phase": entry.phase,
                "details": entry.details,
                **({"data": dict(entry.data)} if entry.data else {}),
            }
            for entry in session.history
        ],
    }


def from_fields(fields: dict[str, Any]) -> SessionContext:
    """Build the domain's objects from what a YAML library read."""
    moment = datetime.fromisoformat
    return SessionContext(
        session_id=fields["session_id"],
        revision=fields["revision"],
        state=SessionState(fields["state"]),
        workflow_type=fields["workflow_type"],
        current_phase=fields["current_phase"],
        attempt_number=fields["attempt_number"],
        created_at=moment(fields["created_at"]),
        updated_at=moment(fields["updated_at"]),
        completed_at=fields["completed_at"] and moment(fields["completed_at"]),
        token_budget=TokenBudget(**fields["token_budget"]),
        goal=fields["goal"],
        artifacts=[
            SessionArtifact(
                one["path"], one["artifact_type"], moment(one["timestamp"]), one["phase"]
            )
            for one in fields["artifacts"]
        ],
        history=[
            SessionHistory(
                moment(one["timestamp"]),
                one["action"],
                one["phase"],
                one["details"],
                data=one.get("data", {}),
            )
            for one in fields["history"]
        ],
    )


class PlainStore:
    """PyYAML as it comes: its Python emitter, a temporary file, `shutil.move`; nothing is synced.

    `load` gives what `yaml.safe_load` gives: fields, no objects of the domain.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def save(self, session: SessionContext) -> None:
        """Write the session."""
        with tempfile.NamedTemporaryFile(
            "w", dir=self._directory, delete=False, encoding="utf-8"
        ) as file:
            yaml.dump(as_fields(session), file, Dumper=yaml.SafeDumper, sort_keys=False)
        shutil.move(file.name, self._directory / "session.yaml")

    def load(self) -> dict[str, Any]:
        """Read the fields."""
        with (self._directory / "session.yaml").open(encoding="utf-8") as file:
            fields: dict[str, Any] = yaml.safe_load(file)
        return fields


class LibyamlStore:
    """PyYAML over libyaml, with fsync and rename; `load` builds the domain's objects."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def save(self, session: SessionContext) -> None:
        """Write the session and sync its file."""
        temporary = self._directory / "session.yaml.tmp"
        with temporary.open("w", encoding="utf-8") as file:
            yaml.dump(as_fields(session), file, Dumper=yaml.CSafeDumper, sort_keys=False)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._directory / "session.yaml")

    def load(self) -> SessionContext:
        """Read the session."""
        return load_with_libyaml(self._directory / "session.yaml")


def load_with_libyaml(path: Path) -> SessionContext:
    """Read one file through libyaml and build the domain's objects."""
    return from_fields(yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader))


class RawWriter:
    """Writes bytes that are there already: create, write, fsync, close, rename.

    The least that a store must do that lets a reader see the old content or the new. It does not
    sync the directory, so the rename itself may be lost in a power failure; it locks nothing,
    compares nothing and can't undo.
    """

    def __init__(self, directory: Path) -> None:
        self._temporary = str(directory / "session.yaml.tmp")
        self._file = str(directory / "session.yaml")

    def save(self, content: bytes) -> None:
        """Write the content and sync its file."""
        fd = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(fd, rest) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(self._temporary, self._file)
