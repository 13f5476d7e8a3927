"""`agentforge prune pin` and `unpin`: keep a session from every prune."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from ...context import cli_of
from ...errors import AmbiguousTrash, NoSessionToPin
from ...options import AsJson, QuestionsDirectory, argument
from .options import ALL, Kind, WorkspaceRoot, outside_of, require_text, select_kinds

if TYPE_CHECKING:
    from .....bootstrap import PruneKind

_SessionToPin = Annotated[str, argument("ID", "The session's id, or an unambiguous part of it.")]


def add_to(group: typer.Typer) -> None:
    """Add these commands to the group."""
    group.command("pin", help="Keep a session from every prune until it is unpinned.")(_change)
    group.command("unpin", help="Let prunes remove a pinned session again.")(_change)


def _change(
    context: typer.Context,
    session: _SessionToPin,
    kind: Kind = ALL,
    workspace_root: WorkspaceRoot = None,
    questions: QuestionsDirectory = None,
    as_json: AsJson = False,
) -> None:
    from .....prune import pin, pinned, unpin

    cli = cli_of(context, json=as_json)
    require_text({"ID": session})
    kinds = select_kinds(cli, kind, workspace_root, questions)
    names = {name: _names(one) for name, one in kinds.items()}
    keep = context.info_name == "pin"
    if not keep:  # a pin outlives its session
        for name, one in kinds.items():
            names[name] |= pinned(one.target.root, outside=outside_of(cli))
    one, session_id = _place(kinds, session, names)
    changed = (pin if keep else unpin)(one.target, session_id, outside=outside_of(cli))
    was = "" if changed else " already"
    cli.output.outcome(
        {"session_id": session_id, "pinned": keep, "changed": changed},
        f"{session_id} is{was} {'pinned' if keep else 'not pinned'}.",
    )


def _names(kind: PruneKind) -> frozenset[str]:
    from .....prune import PruneRootMissing

    try:
        return frozenset(os.listdir(kind.target.root))
    except FileNotFoundError:
        raise PruneRootMissing(kind.target.root) from None


def _place(
    kinds: Mapping[str, PruneKind], wanted: str, names: Mapping[str, frozenset[str]]
) -> tuple[PruneKind, str]:
    """Return the one session whose id matches a text."""
    places = [
        (kinds[kind], name)
        for kind, there in names.items()
        for name in sorted(there)
        if kinds[kind].target.owns(name) and wanted in name
    ]
    exact = [place for place in places if place[1] == wanted] or places
    if not exact:
        raise NoSessionToPin(wanted, [one.target.root for one in kinds.values()])
    if len({name for _, name in exact}) > 1:
        raise AmbiguousTrash(wanted, sorted({name for _, name in exact}))
    return exact[0]
