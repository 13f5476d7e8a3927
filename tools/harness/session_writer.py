"""Sessions to bytes: the one form that is written, each entry of a session paid for once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from .session_data import encode_data
from .session_domain import (
    InvalidSession,
    SessionArtifact,
    SessionContext,
    SessionHistory,
)
from .session_newer import indented
from .session_scalars import (
    END_MARK,
    HEADER,
    SCHEMA_VERSION,
    encode_name,
    encode_recent_time,
    encode_text,
)

_T = TypeVar("_T")


def _encode_artifact(artifact: SessionArtifact) -> str:
    return (
        f"  - path: {encode_text(artifact.path)}\n"
        f"    artifact_type: {encode_name(artifact.artifact_type)}\n"
        f"    timestamp: {encode_recent_time(artifact.timestamp)}\n"
        f"    phase: {encode_name(artifact.phase)}\n"
        f"{indented(artifact.newer_fields, '    ')}"
    )


def _encode_entry(entry: SessionHistory) -> str:
    return (
        f"  - timestamp: {encode_recent_time(entry.timestamp)}\n"
        f"    action: {encode_name(entry.action)}\n"
        f"    phase: {encode_name(entry.phase)}\n"
        f"    details: {encode_text(entry.details)}\n"
        f"{encode_data(entry.data)}"
        f"{indented(entry.newer_fields, '    ')}"
    )


def encode_head(session: SessionContext, *, revision: int) -> bytes:
    """Write all that comes before the artifacts and the history."""
    budget = session.token_budget
    newer = session.schema_minor
    version = f'"{SCHEMA_VERSION}.{newer}"' if newer else str(SCHEMA_VERSION)
    return (
        f"{HEADER}"
        f"schema_version: {version}\n"
        f"session_id: {encode_name(session.session_id)}\n"
        f"revision: {revision}\n"
        f"state: {session.state.value}\n"
        f"workflow_type: {encode_name(session.workflow_type)}\n"
        f"current_phase: {encode_name(session.current_phase)}\n"
        f"attempt_number: {int(session.attempt_number)}\n"
        f"created_at: {encode_recent_time(session.created_at)}\n"
        f"updated_at: {encode_recent_time(session.updated_at)}\n"
        f"completed_at: {encode_recent_time(session.completed_at)}\n"
        f"token_budget:\n"
        f"  total_budget: {int(budget.total_budget)}\n"
        f"  tokens_used: {int(budget.tokens_used)}\n"
        f"  remaining: {budget.tokens_remaining}\n"
        f"{indented(budget.newer_fields, '  ')}"
        f"goal: {encode_text(session.goal, indent=2)}\n"
    ).encode()


class _EncodedList(Generic[_T]):
    """A list's entries as they stand in the file, grown as the list grows.

    The entries can't be changed, so what was written for them stays good as long as the list
    still begins with the same ones; comparing that takes one look at each pointer.
    """

    def __init__(self, key: str, kind: type[_T], encode: Callable[[_T], str]) -> None:
        self._key = key
        self.kind = kind
        self._encode = encode
        self._entries: list[_T] = []
        self._bytes = bytearray()

    def seed(self, entries: list[_T], encoded: bytes) -> None:
        self._entries = entries.copy()
        self._bytes = bytearray(encoded)

    def pieces(self, entries: list[_T]) -> list[bytes | bytearray]:
        new = entries[len(self._entries) :]
        encoded = self._encoded(new) if new else b""
        self._entries += new
        if self._entries != entries:  # compared in place: a slice would touch every entry
            self._entries, self._bytes = [], bytearray()
            encoded = self._encoded(entries)
            self._entries = entries.copy()
        self._bytes += encoded
        if not entries:
            return [f"{self._key}: []\n".encode()]
        return [f"{self._key}:\n".encode(), self._bytes]

    def _encoded(self, entries: list[_T]) -> bytes:
        """Write entries; nothing is kept yet, so one that can't be written changes nothing."""
        if not all(type(entry) is self.kind for entry in entries):
            raise InvalidSession([f"{self._key}: holds what is no {self.kind.__name__}"])
        return "".join(map(self._encode, entries)).encode()


class SessionEncoder:
    """Writes one session again and again, paying for each entry once."""

    def __init__(self) -> None:
        self._artifacts = _EncodedList("artifacts", SessionArtifact, _encode_artifact)
        self._history = _EncodedList("history", SessionHistory, _encode_entry)

    def encode(self, session: SessionContext, *, revision: int) -> list[bytes | bytearray]:
        """Write the session's file, in pieces that are good until the next call.

        Args:
            session: What to write; checked first.
            revision: The revision to write in its place.

        Raises:
            InvalidSession: It breaks the rules of the domain, so it must not reach the disk.
        """
        faults = session.faults()
        if faults:
            raise InvalidSession(faults)
        return [
            encode_head(session, revision=revision),
            *self._artifacts.pieces(session.artifacts),
            *self._history.pieces(session.history),
            session.newer_fields.encode(),
            END_MARK,
        ]

    def seed(self, session: SessionContext, artifacts: bytes, history: bytes) -> None:
        """Take over what a session's lists look like in the file it was read from."""
        self._artifacts.seed(session.artifacts, artifacts)
        self._history.seed(session.history, history)


def encode_session(session: SessionContext) -> bytes:
    """Write a session's file in one piece.

    Raises:
        InvalidSession: It breaks the rules of the domain.
    """
    return b"".join(SessionEncoder().encode(session, revision=session.revision))
