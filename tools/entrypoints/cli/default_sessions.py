"""Sessions of a command line that names none, or that is still being typed."""

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
    """Return the sessions that came with the project's repository, or None.

    They are in the project's `.agentforge`, where its own would be; commands use others. Return
    None if there are none or if the command line names its sessions.

    Args:
        base: The directory of the command's sessions.
        named: Whether the command line names the sessions.
    """
    from ...fleet.stores import open_folder
    from ...harness.store.sessions_place import brought_with, sessions_directory

    brought = None if base is None or named else brought_with(Path.cwd())
    if brought is None or base != sessions_directory(Path.cwd()):
        return None
    return open_folder(brought, None)


def sessions_being_typed(context: typer.Context) -> LocalSessions:
    """Return the sessions of a command line that is being typed; the caller closes them.

    Raises:
        AgentForgeError: The configuration or the store can't be used.
    """
    from ...base.settings.configuration import load_configuration
    from ...fleet.stores import open_sessions

    given, configured = context.find_root().params, load_configuration()
    base, store = given.get("base"), given.get("store") or configured.store.url
    return open_sessions(Path(base) if base else default_base(configured), store=store)
