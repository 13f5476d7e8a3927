"""`agentforge prune pin` and `unpin`: keep a session from every prune."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, cast

from ..... import harness, prune
from .....base.errors import AmbiguousId
from ...context import Cli
from ...options import argument
from ...output.errors import NoSessionToPin
from .options import KindOptions, outside_of, require_text

if TYPE_CHECKING:
    from .....wiring.pruning import PruneKind

_SessionToPin = Annotated[str, argument("ID", "The session's id, or an unambiguous part of it.")]


def pin(cli: Cli, session: _SessionToPin, selection: KindOptions) -> None:
    """Keep a session from every prune until it is unpinned."""
    _change(cli, session, selection, keep=True)


def unpin(cli: Cli, session: _SessionToPin, selection: KindOptions) -> None:
    """Let prunes remove a pinned session again."""
    _change(cli, session, selection, keep=False)


def _change(cli: Cli, session: str, selection: KindOptions, *, keep: bool) -> None:
    require_text({"ID": session})
    kinds = selection.select(cli)
    names = {name: _names(cli, one, session) for name, one in kinds.items()}
    if not keep:  # a pin outlives its session
        for name, one in kinds.items():
            names[name] |= _pinned(cli, one)
    one, session_id = _place(kinds, session, names)
    changed = _set(cli, one, session_id, keep=keep)
    was = "" if changed else " already"
    cli.output.outcome(
        {"session_id": session_id, "pinned": keep, "changed": changed},
        f"{session_id} is{was} {'pinned' if keep else 'not pinned'}.",
    )


def _set(cli: Cli, kind: PruneKind, session_id: str, *, keep: bool) -> bool:
    from ..... import prune

    if kind.stored is not None:
        return (kind.stored.pin if keep else kind.stored.unpin)(session_id)
    target = cast("prune.PruneTarget", kind.directories)
    return (prune.pin if keep else prune.unpin)(target, session_id, outside=outside_of(cli))


def _pinned(cli: Cli, kind: PruneKind) -> frozenset[str]:
    if kind.stored is not None:
        return kind.stored.pinned()
    return prune.pinned(kind.target.root, outside=outside_of(cli))


def _names(cli: Cli, kind: PruneKind, wanted: str) -> frozenset[str]:
    directories = kind.directories
    if directories is None:
        try:
            return frozenset({cli.store().resolve(wanted)})
        except harness.SessionNotFound:
            return frozenset()
    try:
        return frozenset(filter(directories.owns, os.listdir(directories.root)))
    except FileNotFoundError:
        raise prune.PruneRootMissing(directories.root) from None


def _place(
    kinds: Mapping[str, PruneKind], wanted: str, names: Mapping[str, frozenset[str]]
) -> tuple[PruneKind, str]:
    """Return the one session whose id matches a text."""
    places = [
        (kinds[kind], name)
        for kind, there in names.items()
        for name in sorted(there)
        if wanted in name
    ]
    exact = [place for place in places if place[1] == wanted] or places
    if not exact:
        raise NoSessionToPin(wanted, [one.target.root for one in kinds.values()])
    if len({name for _, name in exact}) > 1:
        raise AmbiguousId(wanted, sorted({name for _, name in exact}))
    return exact[0]
