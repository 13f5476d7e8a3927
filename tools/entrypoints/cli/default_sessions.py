"""Which sessions a command line is about that names none, or is still being typed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

    from ...base.settings.configuration import Configuration
    from ...harness.session_ports import LocalSessions


def default_base(configuration: Configuration | None = None) -> Path | None:
    """Return the default directory of the sessions, or None for `./.agentforge/sessions`."""
    if configuration is not None and configuration.sessions is not None:
        return configuration.sessions
    from ...harness.store.sessions_place import sessions_directory

    return sessions_directory(Path.cwd())


def sessions_brought(base: Path | None, *, named: bool) -> LocalSessions | None:
    """Return the sessions that came with the project's repository; None if there is no such place.

    They are where the project's own would be, in its `.agentforge`, and commands go by others.

    Args:
        base: Where the command's sessions are.
        named: Whether the command line says where.
    """
    from ...fleet.stores import open_folder
    from ...harness.store.sessions_place import brought_with, sessions_directory

    brought = None if base is None or named else brought_with(Path.cwd())
    if brought is None or base != sessions_directory(Path.cwd()):
        return None
    return open_folder(brought, None)


def sessions_being_typed(context: typer.Context) -> LocalSessions:
    """Return the sessions that a command line which is being typed is about; the caller closes it.

    Raises:
        AgentForgeError: The configuration, or the store, can't be used.
    """
    from ...base.settings.configuration import load_configuration
    from ...fleet.stores import open_sessions

    given, configured = context.find_root().params, load_configuration()
    base, store = given.get("base"), given.get("store") or configured.store.url
    return open_sessions(Path(base) if base else default_base(configured), store=store)
