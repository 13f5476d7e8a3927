"""Where what the pages show is; loads nothing."""

from __future__ import annotations

from pathlib import Path

from attrs import field, frozen


@frozen(kw_only=True)
class UiPlaces:
    """Where the sessions and all that belongs to them are.

    Attributes:
        sessions: Their directory; `.agentforge/sessions` if None.
        store: The address of their store, if they are not in that directory's files.
        direct: The database server itself, where the store's address is a connection pooler.
        objects: The object store of their workspaces, or None.
        questions: The directory of the question sessions; the configured one, or the store, if
            None.
        command: What a command line that selects the same sessions begins with.
    """

    sessions: Path | None = None
    store: str | None = field(default=None, repr=False)
    direct: str | None = field(default=None, repr=False)
    objects: str | None = None
    questions: Path | None = None
    command: str = "agentforge"
