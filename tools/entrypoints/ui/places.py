"""The locations of what the pages show; imports no server."""

from __future__ import annotations

from pathlib import Path

from attrs import field, frozen


@frozen(kw_only=True)
class UiPlaces:
    """Locations of the sessions and everything that belongs to them.

    Attributes:
        sessions: The sessions' directory; `.agentforge/sessions` if None.
        store: The address of the sessions' store; None if they are files in that directory.
        direct: The address of the database server itself if `store` is a connection pooler's.
        objects: The object store of the workspaces, or None.
        questions: The directory of the question sessions; the configured one, or the store, if
            None.
        command: The start of a command line that selects the same sessions, for messages.
    """

    sessions: Path | None = None
    store: str | None = field(default=None, repr=False)
    direct: str | None = field(default=None, repr=False)
    objects: str | None = None
    questions: Path | None = None
    command: str = "agentforge"
