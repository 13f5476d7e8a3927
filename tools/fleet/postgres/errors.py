"""Typed errors of a PostgreSQL store, with fields."""

from __future__ import annotations

from ...base.errors import ErrorKind
from ...harness import HarnessError


class StoreError(HarnessError, kind=ErrorKind.STORAGE, kw_only=True):
    """Base of the errors about a PostgreSQL store."""

    store: str
    """The store's address, without its password."""


class InvalidStoreAddress(StoreError, kind=ErrorKind.USAGE, kw_only=True):
    """A text is not the address of a store."""

    message = """{store} names no store: {reason}. A store is a folder, or
    postgresql://user@host:port/database?sslmode=verify-full."""
    reason: str


class StoreUnavailable(StoreError, retryable=True, kw_only=True):
    """The database does not answer, or ended the connection.

    If the connection was lost during a commit, the change may or may not have been made; repeating
    a save is safe, since the revision is checked.
    """

    message = """{store} does not answer: {reason}. Nothing that was saved before is lost; try again
    once it is there."""
    reason: str


class StorePooled(StoreError, kind=ErrorKind.USAGE):
    """The address is a pooler's, and the request lasts longer than a transaction.

    Through a pooler, a lock would be released, and a notification lost, without an error.
    """

    message = """{store} is a connection pooler, and the locks of runs need the server itself. Name
    its address in AGENTFORGE_STORE_DIRECT, or as `direct` in [store] of the configuration (a pooler
    in session mode may be named there, too); nothing was begun."""


class StoreRefused(StoreError, kw_only=True):
    """The database refused a statement; none of it took effect."""

    message = "{store} refused: {reason} ({sqlstate:or no code}). Nothing of it was written."
    sqlstate: str | None
    """PostgreSQL's five-character code of the reason; None if it gave none."""
    reason: str


class StoreForbidden(StoreRefused):
    """The role of the address lacks the right; nothing was done."""

    message = """{store} does not allow this role to do that: {reason}. Grant it the right, or name
    a role that has it (docs/scale-out.md says which each needs); nothing was done."""


class RoleUnbounded(StoreError, kind=ErrorKind.REFUSED, kw_only=True):
    """A role could still change records: it owns the tables, or has rights through another role."""

    message = """the role {role} owns the tables of {store}, is a superuser or has rights by another
    role, and no grant keeps it from changing what was recorded. Nothing was changed; name a role of
    the programs' own, which `create role NAME login` makes."""
    role: str


class StoreFull(StoreRefused):
    """The database's disk or a quota of it is full; nothing was written."""


class StoreNotMigrated(StoreError, kind=ErrorKind.REFUSED, kw_only=True):
    """The database lacks tables that this program needs."""

    message = """{store} {state}, and this program needs migration {needed}. Run `agentforge --store
    {store} fleet store migrate` once, as a role that may create tables; nothing was changed."""
    found: int
    """The number of its last migration; 0 if it has none."""
    needed: int

    @property
    def state(self) -> str:
        """What tables the database has."""
        return f"is at migration {self.found}" if self.found else "holds no sessions yet"


class StoreTooNew(StoreError, kind=ErrorKind.REFUSED, kw_only=True):
    """A newer program has migrated the database."""

    message = """{store} is at migration {found}, and this program knows {known} and none later.
    Install the release that migrated it; nothing was read or changed."""
    found: int
    known: int


class NotSubmitted(StoreError, kind=ErrorKind.REFUSED):
    """The session is not submitted to the fleet."""

    message = """session {session_id} was not submitted to the workers of {store}. Nothing was
    changed; `agentforge fleet submit --session {session_id}` does that."""
    session_id: str
