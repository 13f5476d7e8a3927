"""A session as rows: columns for searched values, the YAML form's own text for the rest.

The artifacts and the entries of the history are stored as they appear in a session's file, one row
each, and are read by the same reader: any text that YAML can express is preserved exactly, and a
session that goes from files to rows and back is identical to the byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from attrs import define, fields, frozen

from ....base.identifiers import is_session_id
from ....harness.domain.session_fields import BUDGET, SESSION, as_column
from ....harness.errors import SessionCorrupted
from ....harness.format.session_codec import (
    END_MARK,
    decode_session,
    encode_artifact,
    encode_entry,
    encode_head,
    minor_version,
    session_of,
)
from ....harness.format.session_values import encode_own_data, encode_text
from ....harness.session_domain import (
    InvalidSession,
    InvalidSessionId,
    SessionArtifact,
    SessionContext,
    SessionHistory,
    SessionState,
    TokenBudget,
)
from ....harness.views.session_head import SessionHead

_NO_GOAL: Final = f"{encode_text(None, indent=2)}\n"
_FIELDS: Final = {one.name: one for one in (*SESSION, *BUDGET)}
_FIRST: Final = SessionHead._fields.index("title")
SAVED: Final = SessionHead._fields[2:_FIRST]
"""The columns of a head that any save may change, after its id and its revision."""
DESCRIBED: Final = SessionHead._fields[_FIRST:]
"""The columns of a head that few saves change."""


@frozen
class Document:
    """The parts of a session besides its head and its lists; they seldom change.

    Attributes:
        goal: In the YAML form.
        goal_words: Its searched form (`searched_text`); None without a goal.
        title_words: The same of the title.
        schema_minor: The form's minor version, if a newer program wrote it.
        newer_fields: The session's fields that a newer program wrote, as YAML.
        newer_budget_fields: The same of its budget.
        metadata: In the YAML form, with its name; empty if there is none.
        workflow_state: The same.
    """

    goal: str
    goal_words: str | None
    title_words: str | None
    schema_minor: int
    newer_fields: str
    newer_budget_fields: str
    metadata: str
    workflow_state: str

    @classmethod
    def of(cls, session: SessionContext) -> Document:
        """Create it from a session."""
        goal = session.goal
        return cls(
            encode_text(goal, indent=2),
            None if goal is None else searched_text(goal),
            None if session.title is None else searched_text(session.title),
            session.schema_minor,
            session.newer_fields,
            session.token_budget.newer_fields,
            encode_own_data("metadata", session.metadata),
            encode_own_data("workflow_state", session.workflow_state),
        )

    @staticmethod
    def source_of(session: SessionContext) -> tuple[object, ...]:
        """Return all its inputs; if they are equal, so are the documents."""
        return (
            session.goal,
            session.title,
            session.schema_minor,
            session.newer_fields,
            session.token_budget.newer_fields,
            _Same(session.metadata),
            _Same(session.workflow_state),
        )

    def values(self) -> dict[str, object]:
        """Return its columns by name."""
        return {name: getattr(self, name) for name in DOCUMENT}


DOCUMENT: Final = tuple(one.name for one in fields(Document))
"""The columns of a session's document."""


@define(eq=False)
class _Same:
    """Equal only to a holder of the same object, since 1, 1.0 and True are equal to each other.

    Attributes:
        value: An immutable value.
    """

    value: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    __hash__ = None  # type: ignore[assignment]


class NewRows(NamedTuple):
    """The rows that a save adds to a session's lists.

    Attributes:
        artifacts: Each in the form of a session's file.
        history: The same of the history.
        stored_artifacts: How many are stored before them.
        stored_history: The same of the history.
        size_bytes: The size of all rows after the save.
    """

    artifacts: list[str]
    history: list[str]
    stored_artifacts: int
    stored_history: int
    size_bytes: int

    @classmethod
    def of(
        cls,
        artifacts: Sequence[SessionArtifact],
        history: Sequence[SessionHistory],
        stored: tuple[int, int, int] = (0, 0, 0),
    ) -> NewRows:
        """Encode the rows of some artifacts and entries, after the stored ones and their size."""
        made = [encode_artifact(one) for one in artifacts]
        happened = [encode_entry(one) for one in history]
        size = stored[2]
        for row in (*made, *happened):
            size += len(row.encode())
        return cls(made, happened, stored[0], stored[1], size)

    def values(self) -> dict[str, object]:
        """Return the parameters of a statement that adds them."""
        return {
            "artifacts": self.artifacts,
            "history": self.history,
            "entry": self.history[0] if self.history else None,  # the only one, in most saves
            "n_artifacts": self.stored_artifacts + len(self.artifacts),
            "n_history": self.stored_history + len(self.history),
            "stored_artifacts": self.stored_artifacts,
            "stored_history": self.stored_history,
            "size_bytes": self.size_bytes,
        }


def searched_text(text: str) -> str:
    """Return the searched form of a text: folded, without what PostgreSQL can't store."""
    return text.casefold().replace("\0", " ")


@define
class StoredLists:
    """A session's stored rows, so that the next save adds only what is new.

    Attributes:
        state: Its state.
        described: Its title, tags and parent.
        document: Its document's row.
        source: The inputs of that row.
        artifacts: Its artifacts, as they are stored.
        history: Its history, as it is stored.
        size_bytes: The size of the rows of both.
    """

    state: SessionState
    described: tuple[object, ...]
    document: Document
    source: tuple[object, ...]
    artifacts: list[SessionArtifact]
    history: list[SessionHistory]
    size_bytes: int

    @classmethod
    def of(cls, session: SessionContext, *, size_bytes: int) -> StoredLists:
        """Create it from a session that was just read or written."""
        return cls(
            session.state,
            described(session),
            Document.of(session),
            Document.source_of(session),
            session.artifacts.copy(),
            session.history.copy(),
            size_bytes,
        )

    def grow(self, session: SessionContext) -> NewRows | None:
        """Take over the new entries of a session's lists.

        Entries can't be changed, so this compares each pointer once. A caller that does not store
        the returned rows must not use these lists again.

        Returns:
            The new rows; None if the session's lists don't start with the stored ones.

        Raises:
            InvalidSession: A list contains something that is not its kind of entry.
        """
        before = len(self.artifacts), len(self.history), self.size_bytes
        artifacts = session.artifacts[before[0] :]
        history = session.history[before[1] :]
        self.artifacts += artifacts
        self.history += history
        # Compared in place: a slice would touch every entry.
        if self.artifacts != session.artifacts or self.history != session.history:
            return None
        new = NewRows.of(artifacts, history, before)
        self.size_bytes = new.size_bytes
        return new


def column_names(names: Iterable[str]) -> bytes:
    """Return names, or expressions of them, as a list in a statement."""
    return ", ".join(names).encode()


def _columns(session: SessionContext, names: Sequence[str]) -> dict[str, object]:
    head = SessionHead.of(session)
    return {name: as_column(_FIELDS[name], getattr(head, name)) for name in names}


def head_values(session: SessionContext) -> dict[str, object]:
    """Return the columns of a session's head by name, except the revision."""
    return _columns(session, SAVED)


def described(session: SessionContext) -> tuple[object, ...]:
    """Return the seldom-changed values of a session that a listing shows."""
    return session.title, session.tags, session.parent_id


def described_values(session: SessionContext) -> dict[str, object]:
    """Return the columns of those values by name."""
    return _columns(session, DESCRIBED)


def head_of(session_id: str, row: Sequence[Any]) -> SessionHead:
    """Convert a row, in the order of `SessionHead`, to a head."""
    revision, state, *rest = row
    *rest, title, tags, parent_id = rest
    own: Sequence[Any] = (*rest, title, tuple(tags), parent_id)
    return SessionHead(session_id, revision, SessionState(state), *own)


def session_of_rows(
    head: SessionHead, document: Document, artifacts: str, history: str, *, where: str
) -> SessionContext:
    """Build and validate the session of some rows.

    Args:
        head: Its head.
        document: Its document.
        artifacts: The rows of its artifacts, one after the other.
        history: The rows of its history, one after the other.
        where: What to call it in messages.

    Raises:
        SessionCorrupted: They are not a valid session.
        UnsupportedSchema: A newer program wrote them.
    """
    try:
        shell = session_of(head)
        shell.schema_minor = document.schema_minor
        shell.token_budget = TokenBudget(
            head.total_budget, head.tokens_used, document.newer_budget_fields
        )
        carries = 1 if document.metadata or document.workflow_state else 0
        minor = max(minor_version(shell), carries)
        begun = encode_head(shell, revision=head.revision, minor=minor).decode()
        text = (
            f"{begun.removesuffix(_NO_GOAL)}{document.goal}\n"
            f"{document.metadata}{document.workflow_state}"
            f"{_list('artifacts', artifacts)}{_list('history', history)}"
            f"{document.newer_fields}{END_MARK.decode()}"
        )
        return decode_session(text.encode(), path=Path(where))
    except (SessionCorrupted, InvalidSession) as error:
        raise SessionCorrupted(
            path=where, faults=error.faults, session_id=head.session_id
        ) from error


def _list(key: str, rows: str) -> str:
    return f"{key}:\n{rows}" if rows else f"{key}: []\n"


def checked_id(session_id: str) -> str:
    """Return a valid session id unchanged.

    Raises:
        InvalidSessionId: It is not valid.
    """
    if not is_session_id(session_id):
        raise InvalidSessionId(session_id)
    return session_id
