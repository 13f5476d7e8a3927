"""Commands as plain functions, and the options that typer reads from them.

A command takes the global options as a `Cli`, a group of options as an instance of an attrs class
whose fields are options, and a single option as itself. typer has no groups: it gets a function
that has the options of all of them. What the docstring says of a parameter, or of a field, is the
help of its option.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import cache, partial
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import typer
from attrs import fields, has
from typer.models import ParameterInfo

from .context import Cli, cli_of
from .options import flag, parse_duration

_DURATIONS: Final = (timedelta, timedelta | None)
_CONTEXT: Final = "context"
_JSON: Final = "as_json"
_AS_JSON: Final = flag("--json", "Write JSON for programs, including errors.")


def expanded(act: Callable[..., None]) -> Callable[..., None]:
    """Return a function for typer that has an option for each field of a command's groups.

    A command with global options gets `--json`.
    """
    hints = get_type_hints(act, include_extras=True)
    del hints["return"]
    text, helps = _described(act)
    taken = [
        parameter
        for name, one in inspect.signature(act).parameters.items()
        for parameter in _parameters(name, hints[name], one.default, helps)
    ]
    if Cli in hints.values():
        taken.append(_parameter(_JSON, bool, _AS_JSON))
    if typer.Context not in hints.values():
        taken.append(_parameter(_CONTEXT, typer.Context, inspect.Parameter.empty))

    def call(**given: Any) -> None:
        context = given[_CONTEXT]
        made = {name: _made(name, hints[name], given) for name in hints if hints[name] is not Cli}
        clis = {name: cli_of(context, json=given[_JSON]) for name in hints if hints[name] is Cli}
        act(**made, **clis)

    call.__doc__ = text
    call.__annotations__ = {}
    call.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    return call


_hints = cache(partial(get_type_hints, include_extras=True))
_SECTION: Final = re.compile(r"\n\n(?:Args|Attributes):\n((?: .*\n?)+)")
_ENTRY: Final = re.compile(r"^    (\w+): (.*(?:\n     .*)*)", re.MULTILINE)


@cache
def _described(what: Any) -> tuple[str, Mapping[str, str]]:
    """Return a docstring without its list of parameters or attributes, and that list."""
    text = inspect.getdoc(what) or ""
    found = _SECTION.search(text)
    if found is None:
        return text, {}
    helps = {name: " ".join(said.split()) for name, said in _ENTRY.findall(found[1])}
    return text.replace(found[0], "\n\n").strip(), helps


def _parameters(
    name: str, hint: Any, default: Any, helps: Mapping[str, str], panel: str | None = None
) -> Iterator[inspect.Parameter]:
    """Yield a parameter's options; a group yields those of its fields, recursively.

    The help shows the options of a group under the heading that its attribute `panel` names.
    """
    if hint is Cli:
        return
    if not has(hint):
        found = _parameter(name, hint, default, helps.get(name))
        if isinstance(found.default, ParameterInfo):
            found.default.rich_help_panel = panel
        yield found
        return
    helps, panel = _described(hint)[1], getattr(hint, "panel", panel)
    for one in fields(hint):
        yield from _parameters(one.name, _hints(hint)[one.name], one.default, helps, panel)


def _made(name: str, hint: Any, given: Mapping[str, Any]) -> Any:
    if not has(hint):
        return given[name]
    return hint(
        **{one.name: _made(one.name, _hints(hint)[one.name], given) for one in fields(hint)}
    )


def _parameter(name: str, hint: Any, default: Any, text: str | None = None) -> inspect.Parameter:
    """Return a parameter in the form that typer reads: with the option as its default."""
    if get_origin(hint) is Annotated:
        hint, *notes = get_args(hint)
        default = next((one for one in notes if isinstance(one, ParameterInfo)), default)
    if isinstance(default, ParameterInfo) and default.help is None:
        default.help = text
    if hint in _DURATIONS:  # typer knows none
        default.parser = parse_duration
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def given(group: Any, *, without: tuple[str, ...] = ()) -> list[str]:
    """Return the names of a group's options that differ from their defaults, recursively.

    An argument has its name in the help.

    Args:
        group: The group.
        without: Names of its fields that do not count.
    """
    found = []
    kind: Any = type(group)
    for one in fields(kind):
        hint, value = _hints(kind)[one.name], getattr(group, one.name)
        if one.name in without:
            continue
        if has(hint):
            found += given(value)
            continue
        declared = _parameter(one.name, hint, one.default).default
        if value not in (declared.default, None, [], ()):
            found.append((declared.param_decls or [declared.metavar])[0])
    return found
