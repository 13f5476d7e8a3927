"""Groups that load the module of a command, and build the command, on demand.

A command line asks for one of some forty. Loading the modules of all, and making each option of
each command, takes longer than most of them work.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any, ClassVar, Final

import typer
from typer import main as making
from typer.core import TyperCommand, TyperGroup
from typer.models import CommandInfo, TyperInfo

from .conversions import SparingCommand, spare_conversions

Part = Callable[[], typer.Typer]
"""Loads the part of an application that has a command, among others."""


class _Commands(MutableMapping[str, Any]):
    """Commands by name, in the order of the help; each is built on first access."""

    def __init__(self, parts: Mapping[str, Part]) -> None:
        self._parts: Final = dict(parts)
        self._made: Final[dict[str, Any]] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _make(self._parts[name](), name)
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._parts.setdefault(name, typer.Typer)
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._parts[name]
        self._made.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def described(self) -> dict[str, Any]:
        """Return the commands as a list of commands needs them: with their help alone."""
        return {
            name: self._made[name] if name in self._made else _describe(parts(), name)
            for name, parts in self._parts.items()
        }


class GroupOnDemand(TyperGroup):
    """A group of commands whose subclass names the part that has each command."""

    parts: ClassVar[Mapping[str, Part]]

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands(self.parts)

    def get_params(self, ctx: Any) -> Any:
        """Return the group's own options, with those for the shell's completion."""
        found = super().get_params(ctx)
        spare_conversions(found)
        return found

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, without loading one."""
        del ctx
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each command with its help, which takes no options of any."""
        listed = self.commands
        assert isinstance(listed, _Commands)  # noqa: S101 (made above)
        TyperGroup(commands=listed.described()).format_commands(ctx, formatter)


def add_group(
    app: typer.Typer, group: type[GroupOnDemand], callback: Callable[..., None], **settings: Any
) -> None:
    """Add a group to an application, with what it does without a command.

    Args:
        app: The application.
        group: The group.
        callback: What the group does; it is called before each command, too.
        settings: Of `typer.Typer`: its name and texts.
    """
    made = typer.Typer(cls=group, rich_markup_mode=None, pretty_exceptions_enable=False, **settings)
    made.callback(invoke_without_command=True)(callback)
    app.add_typer(made)


def parts_in(package: str, modules: Mapping[str, str]) -> dict[str, Part]:
    """Return what loads each command of a group.

    Args:
        package: The package of the modules.
        modules: The commands of each module, in the order of the help, separated by spaces; its
            `add_to` adds them to a part.
    """
    return {
        name: functools.partial(_load, f"{package}.{module}")
        for module, names in modules.items()
        for name in names.split()
    }


@functools.cache
def _load(module: str) -> typer.Typer:
    part = new_part()
    import_module(module).add_to(part)
    return part


def new_part() -> typer.Typer:
    """Return an application to which a module adds its commands."""
    return typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)


def _make(part: typer.Typer, name: str) -> Any:
    """Return one command or group, with its options."""
    found = _find(part, name)
    style: Any = {
        "pretty_exceptions_short": part.pretty_exceptions_short,
        "rich_markup_mode": part.rich_markup_mode,
    }
    if isinstance(found, CommandInfo):
        if found.cls in (None, TyperCommand):
            found.cls = SparingCommand
        return making.get_command_from_info(found, **style)
    return making.get_group_from_info(found, suggest_commands=part.suggest_commands, **style)


def _describe(part: typer.Typer, name: str) -> Any:
    found = _find(part, name)
    if not isinstance(found, CommandInfo):
        return _make(part, name)
    text = found.help or inspect.getdoc(found.callback)
    return TyperCommand(
        name, help=text, short_help=found.short_help, hidden=found.hidden, params=[]
    )


def _find(part: typer.Typer, name: str) -> CommandInfo | TyperInfo:
    for command in part.registered_commands:
        if command.name == name:
            return command
    for group in part.registered_groups:
        if group.typer_instance is not None and group.typer_instance.info.name == name:
            return group
    raise LookupError(f"the module of {name} has no such command")
