"""Groups that load the module of a command, and build the command, on demand.

A command line asks for one of some forty. Loading the modules of all, and making each option of
each command, takes longer than most of them work.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, ClassVar, Final

import typer
from typer import main as making
from typer.core import TyperCommand, TyperGroup
from typer.models import CommandInfo, TyperInfo

from ...base.plugins import Plugin, Register
from .conversions import SparingCommand, spare_conversions


class _Commands(MutableMapping[str, Any]):
    """Commands by name, in the order of the help; each is built on first access."""

    def __init__(self, register: Register) -> None:
        self._register: Final = register
        self._names: Final = dict.fromkeys(register.own)
        self._made: Final[dict[str, Any]] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            plugin = self._register.find(name)
            if plugin is None:
                raise KeyError(name)
            self._made[name] = _make(_part_of(plugin), name)
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._names.setdefault(name)
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._names[name]
        self._made.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def described(self) -> dict[str, Any]:
        """Return the commands as a list of commands needs them: with their help alone."""
        own = {
            name: self._made[name] if name in self._made else _describe(self._own(name), name)
            for name in self._names
        }
        return own | {one.name: _described(one) for one in self._register.foreign()}

    def _own(self, name: str) -> typer.Typer:
        return _part_of(Plugin(name, "commands", self._register.own[name]))


class GroupOnDemand(TyperGroup):
    """A group of commands whose subclass has the register of what adds each to an application."""

    register: ClassVar[Register]

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands(self.register)

    def get_params(self, ctx: Any) -> Any:
        """Return the group's own options, with those for the shell's completion."""
        found = super().get_params(ctx)
        spare_conversions(found)
        return found

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, without loading one."""
        del ctx
        return [*self.commands, *(one.name for one in self.register.foreign())]

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


def commands_in(package: str, modules: Mapping[str, str]) -> dict[str, str]:
    """Return what adds each command of a group to an application, as `module:attribute`.

    Args:
        package: The package of the modules.
        modules: The commands of each module, in the order of the help, separated by spaces; its
            `add_to` adds them.
    """
    return {
        name: f"{package}.{module}:add_to"
        for module, names in modules.items()
        for name in names.split()
    }


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


_parts: Final[dict[str, typer.Typer]] = {}


def _part_of(plugin: Plugin) -> typer.Typer:
    """Return an application to which a plugin has added its command.

    Raises:
        PluginUnusable: It has not, or can't be loaded.
    """
    if plugin.target not in _parts:  # one that has several commands is asked once
        part = new_part()
        plugin.load()(part)
        _parts[plugin.target] = part
    part = _parts[plugin.target]
    try:
        _find(part, plugin.name)
    except LookupError as error:
        raise plugin.unusable(str(error)) from error
    return part


def _described(plugin: Plugin) -> Any:
    """Return a command of an installed package as a list needs it, which loads no such package."""
    return TyperCommand(plugin.name, help=f"Added by {plugin.package}.", params=[])


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
