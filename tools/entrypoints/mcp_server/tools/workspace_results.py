"""Typed results of the tools on workspaces; paths are text that JSON can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, PrivateAttr

from ....base.errors import counted
from ..results import SessionStateResult, ToolResult, Values, sound

if TYPE_CHECKING:
    from ....repository.apply.applied import Applied

_SHORT = 12


def _sound(value: Any) -> Any:
    return sound(value) if isinstance(value, str) else value


_Text = Annotated[str, BeforeValidator(_sound)]
"""Path or reason, with bytes that are not UTF-8 escaped."""


class CheckpointResult(Values):
    """Checkpoint of a session.

    Attributes:
        snapshot: The workspace at the checkpoint; null if not saved.
        name: The attempt's name, such as green-2.
        unkept: Why the workspace was not saved.
        in_force: False if the session went back to before it.
    """

    number: int
    snapshot: str | None
    at: str
    action: str
    phase: str | None
    attempt: int
    name: str | None
    succeeded: bool | None
    unkept: Annotated[str | None, BeforeValidator(_sound)]
    in_force: bool

    def line(self) -> str:
        """Describe it in one line."""
        kept = f"snapshot {self.snapshot[:_SHORT]}" if self.snapshot else "no snapshot"
        why = f" ({self.unkept})" if self.unkept else ""
        back = "" if self.in_force else "; the session went back behind it"
        return (
            f"{self.number}: {self.name or 'no phase'}, attempt {self.attempt}, {self.action}, "
            f"{self.at}; {kept}{why}{back}"
        )


class CheckpointsResult(ToolResult):
    """Last checkpoints of a session, oldest first."""

    session_id: str
    checkpoints: list[CheckpointResult]
    total: int

    def in_words(self) -> str:
        """Describe each checkpoint in one line."""
        return (
            "\n".join(one.line() for one in self.checkpoints)
            or "The session has no checkpoint yet."
        )


class ChangedFileResult(Values):
    """Change of one file.

    Attributes:
        insertions: null for a binary file.
    """

    path: _Text
    kind: str
    old_mode: str
    new_mode: str
    insertions: int | None
    deletions: int | None

    def line(self) -> str:
        """Describe it in one line."""
        if self.insertions is None or self.deletions is None:
            return f"{self.path} ({self.kind}, binary)"
        return f"{self.path} ({self.kind}, +{self.insertions} -{self.deletions})"


class DiffResult(ToolResult):
    """Differences between two states of a workspace.

    Attributes:
        patch: Cut in its middle if truncated.
    """

    session_id: str
    files: list[ChangedFileResult]
    files_total: int
    insertions: int
    deletions: int
    patch: str
    truncated: bool

    def in_words(self) -> str:
        """Describe each file in one line, then the changed lines."""
        lines = [one.line() for one in self.files]
        if self.files_total > len(self.files):
            lines.append(f"({self.files_total - len(self.files)} more files)")
        if self.patch:
            lines.append(self.patch)
        return "\n".join(lines) or "Nothing changed."


class RewindResult(ToolResult):
    """Session that went back to a checkpoint."""

    session: SessionStateResult
    checkpoint: CheckpointResult

    def in_words(self) -> str:
        """Describe the session and its checkpoint."""
        return f"{self.session.in_words()} It is back at {self.checkpoint.line()}."


class ForkResult(ToolResult):
    """New session, and the one that it was forked from."""

    session: SessionStateResult
    parent_id: str

    _at: str = PrivateAttr("")

    @classmethod
    def of(cls, session: SessionStateResult, *, parent_id: str, at: str) -> ForkResult:
        """Describe a fork that begins at a checkpoint, which is named as the client named it."""
        made = cls(session=session, parent_id=parent_id)
        made._at = at
        return made

    def in_words(self) -> str:
        """Describe the new session and its starting point."""
        return f"{self.session.in_words()} It begins at {self._at} of {self.parent_id}."


class AppliedPathResult(Values):
    """Path that changed in the checkout, or would change."""

    path: _Text
    change: str


class ApplyResult(ToolResult):
    """Outcome of an apply, or of its dry run.

    Attributes:
        ignored: New files that the repository's rules ignore.
        left_out: Changed paths that `files` leaves out.
    """

    session_id: str
    checkout: str
    paths: list[AppliedPathResult]
    paths_total: int
    ignored: int
    left_out: int
    commit: str | None
    branch: str | None
    dry_run: bool
    nothing_to_do: bool

    @classmethod
    def of(cls, session_id: str, applied: Applied, *, most: int) -> ApplyResult:
        """Describe an apply's outcome, with at most `most` paths."""
        return cls(
            session_id=session_id,
            checkout=str(applied.checkout),
            paths=[AppliedPathResult.model_validate(one) for one in applied.paths[:most]],
            paths_total=len(applied.paths),
            ignored=len(applied.ignored),
            left_out=len(applied.left_out),
            commit=applied.commit,
            branch=applied.branch,
            dry_run=applied.dry_run,
            nothing_to_do=applied.nothing_to_do,
        )

    def in_words(self) -> str:
        """Describe the action and the number of paths, then each path in one line."""
        where = self.branch or self.checkout
        count = counted(self.paths_total, "path")
        if self.nothing_to_do:
            head = f"Applied already: {self.checkout} has all of it."
        elif self.dry_run:
            head = f"Nothing was done; {count} would change in {where}."
        elif self.commit is not None:
            head = f"Committed {count} in {where} ({self.commit[:_SHORT]})."
        else:
            head = f"Applied {count} to {where}, staged and not committed."
        return sound("\n".join([head, *(f"- {one.change}: {one.path}" for one in self.paths)]))


class ExportResult(ToolResult):
    """New folder with a session's files."""

    session_id: str
    snapshot: str
    folder: str

    def in_words(self) -> str:
        """Describe the location of the files."""
        return f"The files of {self.session_id} are in {self.folder}."
