"""The group `agentforge sandbox`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

import typer

from ...on_demand import GroupOnDemand, Part, parts_in

_MODULES: Final = {
    "execution": "exec shell",
    "sessions": "list delete",
    "files": "ls cat put rm",
}
"""The commands of each module, in the order of the help."""


class _SandboxGroup(GroupOnDemand):
    parts: ClassVar[Mapping[str, Part]] = parts_in(__package__, _MODULES)


def add_to(app: typer.Typer) -> None:
    """Add the group to the application."""
    group = typer.Typer(
        name="sandbox",
        cls=_SandboxGroup,
        help="Run code in the sandbox, and manage the files of its sessions.",
        short_help="Run code in the sandbox; list and change its files.",
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    group.callback(invoke_without_command=True)(_help)
    app.add_typer(group)


def _help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
