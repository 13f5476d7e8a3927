"""`agentforge prune pin` and `unpin`: keep a session from every prune."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from ...context import Cli, cli_of
from ...errors import AmbiguousTrash, NoSessionToPin
from ...options import AsJson, QuestionsDirectory, argument
from .options import ALL, Kind, WorkspaceRoot, outside_of, require_text, select_kinds

if TYPE_CHECKING:
    from .....bootstrap import PruneKind

_SessionToPin = Annotated[str, argument("ID", "The session's id, or an unambiguous part of it.")]


def add_to(group: typer.Typer) -> None:
    """Add these commands to the group."""
    group.command("pin")(pin)
    group.command("unpin")(unpin)


def pin(
    context: typer.Context,
    session: _SessionToPin,
    kind: Kind = ALL,
    workspace_root: WorkspaceRoot = None,
    questions: QuestionsDirectory = None,
    as_json: AsJson = False,
) -> None:
    """Keep a session from every prune until it is unpinned."""
    from .....prune import pin as pin_session

    cli = cli_of(context, json=as_json)
    require_text({"ID": session})
    kinds = select_kinds(cli, kind, workspace_root, questions)
    one, session_id = _place(kinds, session, {name: _names(one) for name, one in kinds.items()})
    changed = pin_session(one.target, session_id, outside=outside_of(cli))
    _report(cli, session_id, pinned=True, changed=changed)


def unpin(
    context: typer.Context,
    session: _SessionToPin,
    kind: Kind = ALL,
    workspace_root: WorkspaceRoot = None,
    questions: QuestionsDirectory = None,
    as_json: AsJson = False,
) -> None:
    """Let prunes remove a pinned session again."""
    from .....prune import pinned
    from .....prune import unpin as unpin_session

    cli = cli_of(context, json=as_json)
    require_text({"ID": session})
    kinds = select_kinds(cli, kind, workspace_root, questions)
    names = {  # a pin outlives its session
        name: _names(one) | pinned(one.target.root, outside=outside_of(cli))
        for name, one in kinds.items()
    }
    one, session_id = _place(kinds, session, names)
    changed = unpin_session(one.target, session_id, outside=outside_of(cli))
    _report(cli, session_id, pinned=False, changed=changed)


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


def _report(cli: Cli, session_id: str, *, pinned: bool, changed: bool) -> None:
    if cli.output.json:
        cli.output.document({"session_id": session_id, "pinned": pinned, "changed": changed})
    else:
        was = "" if changed else " already"
        cli.output.line(f"{session_id} is{was} {'pinned' if pinned else 'not pinned'}.")
