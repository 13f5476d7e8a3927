"""The group `agentforge sandbox`."""

from __future__ import annotations

from typing import ClassVar, Final

import typer

from .....base.plugins import Register
from ...on_demand import GroupOnDemand, add_group, commands_in

_MODULES: Final = {
    "execution": "exec shell",
    "sessions": "list delete",
    "files": "ls cat put rm",
}
"""The commands of each module, in the order of the help."""


class _SandboxGroup(GroupOnDemand):
    register: ClassVar = Register("", commands_in(__package__, _MODULES))


def add_to(app: typer.Typer) -> None:
    """Add the group to the application."""
    add_group(
        app,
        _SandboxGroup,
        _help,
        name="sandbox",
        help="Run code in the sandbox, and manage the files of its sessions.",
        short_help="Run code in the sandbox; list and change its files.",
    )


def _help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
