"""Which sessions `prune` and its commands apply to, and the values that they accept."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ...context import Cli
from ...options import QUESTIONS_OPTION, InvalidDuration, option, parse_duration

if TYPE_CHECKING:
    from .....prune import Outside, PruneTarget
    from .....wiring.pruning import PruneKind

ALL: Final = "all"
ROOT_OPTION: Final = "--workspace-root"

Kind = Annotated[
    str,
    typer.Option(
        "--kind",
        metavar="KIND",
        help="The kind of sessions: sandbox, harness, questions or all.",
    ),
]
WorkspaceRoot = Annotated[
    str | None,
    option(f"{ROOT_OPTION} DIR", "Directory of the sandbox sessions; ./workspace by default."),
]


def outside_of(cli: Cli) -> Outside:
    """Return the environment of a prune, with the command's clock."""
    from .....prune import Outside

    return Outside(clock=cli.outside.clock)


def require_text(given: Mapping[str, str | None]) -> None:
    """Refuse empty values, such as those of an unset variable: they would mean something else.

    Raises:
        typer.BadParameter: One is empty.
    """
    for name, value in given.items():
        if value is not None and not value.strip():
            raise typer.BadParameter("it is empty; nothing was done", param_hint=name)


def duration(text: str, name: str) -> timedelta:
    """Return the duration that the option of this name was given.

    Raises:
        InvalidDuration: The text is no duration.
    """
    try:
        return parse_duration(text)
    except InvalidDuration as error:
        error.param_hint = name
        raise


def select_kinds(
    cli: Cli,
    wanted: str,
    workspace_root: str | None,
    questions: str | None,
    *,
    with_missing: bool = False,
) -> dict[str, PruneKind]:
    """Return the kinds that `--kind` names.

    `all` leaves out a kind whose default directory does not exist, unless `with_missing`.

    Raises:
        typer.BadParameter: There is no such kind, or a directory is an empty text.
    """
    from .....wiring.pruning import prune_kinds

    named = {"sandbox": workspace_root, "questions": questions}
    require_text({ROOT_OPTION: workspace_root, QUESTIONS_OPTION: questions})
    kinds = prune_kinds(store=cli.store(), workspace_root=workspace_root, questions_dir=questions)
    if wanted == ALL:
        return {
            name: one
            for name, one in kinds.items()
            if with_missing or named.get(name) is not None or one.is_there
        }
    if wanted not in kinds:
        known = ", ".join([*kinds, ALL])
        raise typer.BadParameter(f"{wanted!r} is none of {known}", param_hint="--kind")
    return {wanted: kinds[wanted]}


def directories_of(kinds: Mapping[str, PruneKind]) -> list[PruneTarget]:
    """Return the kinds whose sessions are directories: a database has no trash.

    Raises:
        typer.BadParameter: None of them are.
    """
    found = [one.directories for one in kinds.values() if one.directories is not None]
    if kinds and not found:
        raise typer.BadParameter(
            "these sessions are in a database, which has no trash; an archive brings them back: "
            "restore it into a folder, and copy it from there (agentforge store copy)",
            param_hint="--kind",
        )
    return found


def missing_kinds(cli: Cli, kinds: Mapping[str, PruneKind]) -> dict[str, Path]:
    """Return the default directory of each kind that `kinds` leaves out."""
    from .....wiring.pruning import prune_kinds

    known = prune_kinds(store=cli.store())
    return {name: one.target.root for name, one in known.items() if name not in kinds}
