"""The group `agentforge sandbox`."""

from __future__ import annotations

from typing import Final

import typer

from ...on_demand import add_group, commands_in

_MODULES: Final = {
    "execution": "exec shell",
    "sessions": "list delete",
    "files": "ls cat put rm",
}
"""The commands of each module, in the order of the help."""


def commands(app: typer.Typer) -> None:
    """Add the group to an application."""
    add_group(
        app,
        "sandbox",
        commands_in(__package__, _MODULES),
        help="Run code in the sandbox, and manage the files of its sessions.",
        short_help="Run code in the sandbox; list and change its files.",
    )
