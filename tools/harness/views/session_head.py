"""A session in a listing: its head, or why it can't be read; pure."""

# Annotations are evaluated here: as strings, each field's would be compiled at import.

from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple, Self

from ..errors import SessionCorrupted
from ..session_domain import SessionContext, SessionState


class SessionHead(NamedTuple):
    """The fields at the start of a session's file: enough to list and to clean up.

    Attributes: as those of `SessionContext`; `total_budget` and `tokens_used` as those of its
        `token_budget`.
    """

    session_id: str
    revision: int
    state: SessionState
    workflow_type: str | None
    current_phase: str | None
    attempt_number: int
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None
    total_budget: int
    tokens_used: int
    title: str | None = None
    tags: tuple[str, ...] = ()
    parent_id: str | None = None

    @classmethod
    def of(cls, session: SessionContext) -> Self:
        """Return the head of a session that was read completely."""
        budget = session.token_budget
        return cls(
            **{name: getattr(session, name) for name in OWN_FIELDS},
            total_budget=budget.total_budget,
            tokens_used=budget.tokens_used,
        )

    def with_more(self, tokens: int) -> Self:
        """Return it with tokens that were spent since it was written."""
        return self._replace(tokens_used=self.tokens_used + tokens) if tokens > 0 else self


OWN_FIELDS: Final = tuple(
    name for name in SessionHead._fields if name not in {"total_budget", "tokens_used"}
)
"""The fields of a head that a session has under the same names."""


class SessionSummary(NamedTuple):
    """A session in a listing.

    Attributes:
        head: Its fields, without the artifacts and the history.
        where: Where it is stored: its file, or its address in a store.
        size_bytes: Its size.
    """

    head: SessionHead
    where: str
    size_bytes: int

    @property
    def path(self) -> Path:
        """The session's file."""
        return Path(self.where)

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.head.session_id


class UnreadableSession(NamedTuple):
    """A session that exists but can't be read.

    Attributes:
        session_id: Its directory's name.
        path: Its file.
        error: Why it can't be read.
    """

    session_id: str
    path: Path
    error: SessionCorrupted
