"""What can go wrong with a PostgreSQL store, as typed errors with fields."""

from __future__ import annotations

from typing import ClassVar

from ...base.errors import ErrorKind
from ...harness import HarnessError


class StoreError(HarnessError):
    """Base of the errors about a PostgreSQL store.

    Attributes:
        store: The store's address, without its password.
    """

    kind = ErrorKind.STORAGE

    def __init__(self, message: str, *, store: str, session_id: str | None = None) -> None:
        super().__init__(message, session_id=session_id)
        self.store = store


class StoreExtraMissing(StoreError):
    """The packages that a PostgreSQL store needs are not installed."""

    kind = ErrorKind.NOT_DONE

    def __init__(self, *, store: str) -> None:
        super().__init__(
            f"{store} is a PostgreSQL store, and the packages for it are not installed: "
            "pip install 'agentforge-sessions[postgres]'. Nothing was begun.",
            store=store,
        )


class InvalidStoreAddress(StoreError):
    """A text names no store."""

    kind = ErrorKind.USAGE

    def __init__(self, *, store: str, reason: str) -> None:
        super().__init__(
            f"{store} names no store: {reason}. A store is a folder, or "
            "postgresql://user@host:port/database?sslmode=verify-full.",
            store=store,
        )


class StoreUnavailable(StoreError):
    """The database does not answer, or ended the connection.

    What was asked may or may not have been done where the connection was lost while it was being
    committed; a save is repeated safely, since the revision is checked.

    Attributes:
        reason: What the database or the network said.
    """

    retryable: ClassVar[bool] = True

    def __init__(self, *, store: str, reason: str) -> None:
        super().__init__(
            f"{store} does not answer: {reason}. Nothing that was saved before is lost; try again "
            "once it is there.",
            store=store,
        )
        self.reason = reason


class StorePooled(StoreError):
    """A pooler stands before the database, and what is asked for lasts longer than a transaction.

    A lock would be let go of, and a notification be lost, without a word.
    """

    kind = ErrorKind.USAGE

    def __init__(self, *, store: str) -> None:
        super().__init__(
            f"{store} is a connection pooler, and the locks of runs need the server itself. Name "
            "its address in AGENTFORGE_STORE_DIRECT, or as `direct` in [store] of the "
            "configuration (a pooler in session mode may be named there, too); nothing was begun.",
            store=store,
        )


class StoreRefused(StoreError):
    """The database refused a statement; nothing of it was done.

    Attributes:
        sqlstate: PostgreSQL's code of the reason, five characters; None where it gave none.
        reason: What it said.
    """

    def __init__(self, *, store: str, sqlstate: str | None, reason: str) -> None:
        super().__init__(
            f"{store} refused: {reason} ({sqlstate or 'no code'}). Nothing of it was written.",
            store=store,
        )
        self.sqlstate = sqlstate
        self.reason = reason


class StoreForbidden(StoreRefused):
    """The role that the address names may not do that; nothing was done."""

    def __init__(self, *, store: str, sqlstate: str | None, reason: str) -> None:
        super().__init__(store=store, sqlstate=sqlstate, reason=reason)
        self.args = (
            f"{store} does not allow this role to do that: {reason}. Grant it the right, or name "
            "a role that has it (docs/scale-out.md says which each needs); nothing was done.",
        )


class RoleUnbounded(StoreError):
    """A role can't be kept from changing records: it owns the tables, or has rights by another.

    Attributes:
        role: The role.
    """

    kind = ErrorKind.REFUSED

    def __init__(self, *, store: str, role: str) -> None:
        super().__init__(
            f"the role {role} owns the tables of {store}, is a superuser or has rights by another "
            "role, and no grant keeps it from changing what was recorded. Nothing was changed; "
            "name a role of the programs' own, which `create role NAME login` makes.",
            store=store,
        )
        self.role = role


class StoreFull(StoreRefused):
    """The database's disk is full, or a quota of it; nothing was written."""


class StoreNotMigrated(StoreError):
    """The database lacks tables that this program needs.

    Attributes:
        found: The number of its last migration; 0 where it has none.
        needed: That of this program.
    """

    kind = ErrorKind.REFUSED

    def __init__(self, *, store: str, found: int, needed: int) -> None:
        state = f"is at migration {found}" if found else "holds no sessions yet"
        super().__init__(
            f"{store} {state}, and this program needs migration {needed}. Run `agentforge --store "
            f"{store} store migrate` once, as a role that may create tables; nothing was changed.",
            store=store,
        )
        self.found = found
        self.needed = needed


class StoreTooNew(StoreError):
    """A newer program has migrated the database.

    Attributes:
        found: The number of its last migration.
        known: The last one that this program knows.
    """

    kind = ErrorKind.REFUSED

    def __init__(self, *, store: str, found: int, known: int) -> None:
        super().__init__(
            f"{store} is at migration {found}, and this program knows {known} and none later. "
            "Install the release that migrated it; nothing was read or changed.",
            store=store,
        )
        self.found = found
        self.known = known


class NotSubmitted(StoreError):
    """The fleet does not work on a session."""

    kind = ErrorKind.REFUSED

    def __init__(self, session_id: str, *, store: str) -> None:
        super().__init__(
            f"session {session_id} was not submitted to the workers of {store}. Nothing was "
            f"changed; `agentforge submit --session {session_id}` does that.",
            store=store,
            session_id=session_id,
        )
