"""Groups that load a command's module and build the command on demand.

A command line uses one of some forty commands. Loading all their modules and building every option
takes longer than most commands run.

So does typer's conversion of values with pydantic. Most options are not given, and most values are
plain text, a number or a path: those are taken as they are. typer still converts every value whose
result is not certain, and makes all refusals.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from difflib import get_close_matches
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, cast

import typer
from typer import main as making
from typer.core import TyperCommand, TyperGroup
from typer.models import CommandInfo, TyperInfo

from ...base.plugins import Plugin, Register
from .signatures import expanded

_CONVERSION: Final = "_runtime_param"
"""Attribute of a typer parameter that holds its conversion; None until first needed.

The name is private to typer: in a version without it, typer converts every value.
"""
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,14}")
_CHECKS: Final = (
    *(("exists", False), ("writable", False), ("resolve_path", False)),
    *(("path_type", None), ("file_okay", True), ("dir_okay", True)),
)
"""Default settings of typer's path checks, apart from readability."""
_UNSURE: Final = object()
_VALUE: Final = re.compile(r"-.*|[0-9a-f-]*|.*[./].*")
"""Words that are an option, an id or a path rather than a mistyped command."""


class ListedCommand(NamedTuple):
    """Entry of a command in a group's list.

    Attributes:
        target: Its function or group, as `module:attribute`.
        text: Its help.
        panel: The heading above it in the help.
    """

    target: str
    text: str
    panel: str


class _CommandTable(Mapping[str, Any]):
    """Commands by name, in the order of the help; each is built on first access."""

    def __init__(self, group: str, listed: Mapping[str, ListedCommand]) -> None:
        self.register: Final = Register(group, {name: one.target for name, one in listed.items()})
        self.listed: Final = listed
        self._made: Final[dict[str, Any]] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            plugin = self.register.find(name)
            if plugin is None:
                raise KeyError(name)
            own = name in self.register.own
            self._made[name] = made = _make(name, plugin.load() if own else _added_by(plugin))
            if own:
                made.short_help = self.listed[name].text
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.listed)

    def __len__(self) -> int:
        return len(self.listed)

    def described(self) -> dict[str, ListedCommand]:
        """Return all commands, with those of other packages, without loading one."""
        return dict(self.listed) | {
            one.name: ListedCommand(one.target, f"Added by {one.package}.", "Added")
            for one in self.register.foreign()
        }


class GroupOnDemand(TyperGroup):
    """Group of the commands that a subclass names.

    Attributes:
        group: The plugin group to which other packages add commands, or "".
        listed: The commands of this package.
    """

    group: ClassVar[str] = ""
    listed: ClassVar[Mapping[str, ListedCommand]]

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._on_demand = _CommandTable(self.group, self.listed)
        self.commands = cast("MutableMapping[str, Any]", self._on_demand)

    def get_params(self, ctx: Any) -> Any:
        """Return the group's own options, with those for shell completion."""
        found = super().get_params(ctx)
        spare_conversions(found)
        return found

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, without loading one."""
        del ctx
        return list(self._on_demand.described())

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, then the group's options."""
        self.format_commands(ctx, formatter)
        TyperCommand.format_options(cast("TyperCommand", self), ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each command with its help, without loading one."""
        del ctx
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, one in self._on_demand.described().items():
            panels.setdefault(one.panel, []).append((name, one.text))
        if len(panels) == 1:
            for heading, rows in panels.items():
                with formatter.section(heading):
                    formatter.write_dl(rows)
        else:  # a heading beside its commands takes no line
            wide = max(map(len, panels)) + 2
            most = max(len(name) for rows in panels.values() for name, _ in rows) + 2
            formatter.write_paragraph()
            for heading, rows in panels.items():
                for name, text in rows:
                    formatter.write(f"  {heading:<{wide}}{name:<{most}}{text}\n")
                    heading = ""  # noqa: PLW2901 (beside the first command alone)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word names.

        Raises:
            UsageError: No command has this name; the error names the one to type instead.
        """
        known = args[0] in self.commands or args[0].startswith("-")
        if not known and not ctx.resilient_parsing:
            group = ctx.command_path.partition(" ")[2]
            found = ctx.find_root().command.instead(group, args[0])
            ctx.fail(f"there is no command {f'{group} {args[0]}'.strip()!r}{found}")
        return super().resolve_command(ctx, args)

    def instead(self, group: str, word: str) -> str:
        """Return what to type instead of a word that names no command; "" by default."""
        del group, word
        return ""


class GroupWithDefault(GroupOnDemand):
    """Group whose command line that names none of its commands is one of its default command.

    Attributes:
        default: The name of the default command.
        alone: Options of the group itself that take no command.
    """

    default: ClassVar[str]
    alone: ClassVar[tuple[str, ...]] = ()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse a command line, and add the name of the default command that it leaves out."""
        if ctx.resilient_parsing or args[:1] in [[one] for one in ctx.help_option_names]:
            return super().parse_args(ctx, args)
        if not self.params:  # all options are the commands'
            return super().parse_args(ctx, self._complete(args))
        super().parse_args(ctx, args)
        words = [*ctx._protected_args, *ctx.args]
        if words or not any(ctx.params[one] for one in self.alone):
            words = self._complete(words)
        ctx._protected_args, ctx.args = words[:1], words[1:]
        return words[1:]

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names that a shell completes: a file's is no word of ours."""
        return [name for name in super().list_commands(ctx) if name != self.default]

    def _complete(self, words: list[str]) -> list[str]:
        word = words[0] if words else ""
        if word in self.listed and not (word == self.default and os.path.lexists(word)):
            return words
        mistyped = not _VALUE.fullmatch(word) and get_close_matches(word, self.listed)
        return words if mistyped and not os.path.lexists(word) else [self.chosen(word), *words]

    def chosen(self, word: str) -> str:
        """Return the name of the command for a first word that names none."""
        del word
        return self.default


def new_group(
    name: str,
    commands: Mapping[str, ListedCommand],
    *,
    callback: Callable[..., None] | None = None,
    kind: type[GroupOnDemand] = GroupOnDemand,
    **texts: Any,
) -> typer.Typer:
    """Return a group.

    Args:
        name: The group's name.
        commands: Its commands.
        callback: Called before each command, and if there is no command; shows the help by default.
        kind: The kind of group.
        texts: Its texts, as `typer.Typer` takes them.
    """
    made = typer.Typer(
        name=name,
        cls=type(kind.__name__, (kind,), {"listed": commands}),
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        **texts,
    )
    made.callback(invoke_without_command=True)(expanded(callback or _show_help))
    return made


def _show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _make(name: str, found: CommandInfo | TyperInfo | typer.Typer | Callable[..., None]) -> Any:
    """Build one command or group with its options."""
    style: Any = {"pretty_exceptions_short": True, "rich_markup_mode": None}
    if isinstance(found, typer.Typer):
        found = TyperInfo(found)
    if isinstance(found, TyperInfo):
        return making.get_group_from_info(found, suggest_commands=True, **style)
    if not isinstance(found, CommandInfo):
        found = CommandInfo(name, callback=expanded(found))
    if found.cls in (None, TyperCommand):
        found.cls = SparingCommand
    return making.get_command_from_info(found, **style)


_parts: Final[dict[str, typer.Typer]] = {}


def _added_by(plugin: Plugin) -> CommandInfo | TyperInfo:
    """Return the command that another package's plugin adds to an application.

    Raises:
        PluginUnusable: It adds no command of its name, or can't be loaded.
    """
    if plugin.target not in _parts:  # an application of several commands is asked once
        part = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
        plugin.load()(part)
        _parts[plugin.target] = part
    part = _parts[plugin.target]
    for command in part.registered_commands:
        if command.name == plugin.name:
            return command
    for group in part.registered_groups:
        if group.typer_instance is not None and group.typer_instance.info.name == plugin.name:
            return group
    raise plugin.unusable(f"the module of {plugin.name} has no such command")


# ------------------------------------------------------------------------ conversions of values


class SparingCommand(TyperCommand):
    """Command that converts only the values that need it, and shows its options by groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options under the heading of their group."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for one in self.get_params(ctx):
            record = one.get_help_record(ctx)
            heading = getattr(one, "rich_help_panel", None) or "Options"
            if record is not None:
                argument = one.param_type_name == "argument"
                sections.setdefault("Arguments" if argument else heading, []).append(record)
        for heading, records in filter(itemgetter(1), sections.items()):
            with formatter.section(heading):
                formatter.write_dl(records)

    def get_params(self, ctx: Any) -> Any:
        """Return the command's options, with `--help`."""
        found = super().get_params(ctx)
        spare_conversions(found)
        return found


def spare_conversions(parameters: Iterable[Any]) -> None:
    """Make parameters load their conversion only for values whose result is not certain."""
    for one in parameters:
        if getattr(one, _CONVERSION, one) is None and hasattr(one, "get_runtime_param"):
            setattr(one, _CONVERSION, _Sparing())


class _Sparing:
    """Placeholder of a parameter's conversion until a value needs it."""

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        """Return the value converted to the parameter's type."""
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        plain = _UNSURE if several else _plain(value, param.type_descriptor)
        if plain is not _UNSURE:
            return plain
        setattr(param, _CONVERSION, None)
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _plain(value: Any, wanted: Any) -> Any:
    """Return the converted value, or `_UNSURE` if the result is not certain."""
    kind, info = wanted.annotation, wanted.parameter_info
    if info.parser is not None:
        return _UNSURE
    if kind is int and type(value) is int:  # a default: typed values are text
        return value
    if kind is Path:
        return _plain_path(os.fspath(value), info)
    if not _is_plain(value):
        return _UNSURE
    return value if kind is str else _plain_number(value, info) if kind is int else _UNSURE


def _is_plain(text: object) -> bool:
    return isinstance(text, str) and text.isascii() and text.isprintable()


def _plain_number(text: str, info: Any) -> Any:
    if _NUMBER.fullmatch(text) is None:
        return _UNSURE
    number = int(text)
    fits = (info.min is None or info.min <= number) and (info.max is None or number <= info.max)
    return number if fits else _UNSURE


def _plain_path(text: str, info: Any) -> Any:
    if not text or not _is_plain(text) or any(getattr(info, one) != ok for one, ok in _CHECKS):
        return _UNSURE
    return Path(text) if os.access(text, os.R_OK) or not os.path.lexists(text) else _UNSURE
