"""What the tools on workspaces return, typed; paths are told as texts that JSON can hold."""

from __future__ import annotations

from typing import Annotated, Any

from mcp_types import CallToolResult
from pydantic import BaseModel, BeforeValidator, Field

from ....harness.views.checkpoints import CheckpointEntry
from ..results import SessionStateResult, Values, sound

_SHORT = 12


def _sound(value: Any) -> Any:
    return sound(value) if isinstance(value, str) else value


_Text = Annotated[str, BeforeValidator(_sound)]
"""A path or a reason, in which bytes that are no UTF-8 are spelled out."""


class CheckpointResult(Values):
    """A checkpoint."""

    number: int
    snapshot: Annotated[str | None, Field(description="The workspace at it; null: not kept.")]
    at: str
    action: str
    phase: str | None
    attempt: int
    name: Annotated[str | None, Field(description="The attempt's name, as green-2.")]
    succeeded: bool | None
    unkept: Annotated[str | None, BeforeValidator(_sound), Field(description="Why not kept.")]
    in_force: Annotated[bool, Field(description="False: the session went back behind it.")]

    @classmethod
    def of(cls, found: CheckpointEntry) -> CheckpointResult:
        """Describe a checkpoint."""
        return cls.model_validate(found)

    def line(self) -> str:
        """Describe it in one line."""
        kept = f"snapshot {self.snapshot[:_SHORT]}" if self.snapshot else "no snapshot"
        why = f" ({self.unkept})" if self.unkept else ""
        back = "" if self.in_force else "; the session went back behind it"
        return (
            f"{self.number}: {self.name or 'no phase'}, attempt {self.attempt}, {self.action}, "
            f"{self.at}; {kept}{why}{back}"
        )


class CheckpointsResult(BaseModel):
    """The checkpoints of a session, oldest first, the last ones where there are more."""

    session_id: str
    checkpoints: list[CheckpointResult]
    total: int


class ChangedFileResult(Values):
    """What became of one file."""

    path: _Text
    kind: str
    old_mode: str
    new_mode: str
    insertions: Annotated[int | None, Field(description="null: a binary file.")]
    deletions: int | None

    def line(self) -> str:
        """Describe it in one line."""
        if self.insertions is None or self.deletions is None:
            return f"{self.path} ({self.kind}, binary)"
        return f"{self.path} ({self.kind}, +{self.insertions} -{self.deletions})"


class DiffResult(BaseModel):
    """What differs between two states of a workspace."""

    session_id: str
    files: list[ChangedFileResult]
    files_total: int
    insertions: int
    deletions: int
    patch: Annotated[str, Field(description="Cut in its middle where truncated.")]
    truncated: bool


class RewindResult(BaseModel):
    """A session that went back."""

    session: SessionStateResult
    checkpoint: CheckpointResult


class ForkResult(BaseModel):
    """A new session, and the one that it was forked from."""

    session: SessionStateResult
    parent_id: str


class AppliedPathResult(Values):
    """A path that changed in the checkout, or would."""

    path: _Text
    change: str


class ApplyResult(BaseModel):
    """What an apply did, or would do."""

    session_id: str
    checkout: str
    paths: list[AppliedPathResult]
    paths_total: int
    ignored: Annotated[int, Field(description="New files that the repository's rules ignore.")]
    left_out: Annotated[int, Field(description="Changed paths that `files` leaves out.")]
    commit: str | None
    branch: str | None
    dry_run: bool
    nothing_to_do: bool


class ExportResult(BaseModel):
    """A session's files as a new folder."""

    session_id: str
    snapshot: str
    folder: str


CheckpointsAnswer = Annotated[CallToolResult, CheckpointsResult]
DiffAnswer = Annotated[CallToolResult, DiffResult]
RewindAnswer = Annotated[CallToolResult, RewindResult]
ForkAnswer = Annotated[CallToolResult, ForkResult]
ApplyAnswer = Annotated[CallToolResult, ApplyResult]
ExportAnswer = Annotated[CallToolResult, ExportResult]
