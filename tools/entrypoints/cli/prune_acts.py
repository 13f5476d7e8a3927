"""What `agentforge prune` does beside pruning: the trash, archives brought back, pins, repair."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .context import Cli
from .errors import AmbiguousTrash, NoSessionToPin
from .exit_codes import ExitCode
from .text import age_text

if TYPE_CHECKING:
    from ...bootstrap import PruneKind
    from ...prune import Outside, TrashRecord


def outside_of(cli: Cli) -> Outside:
    """Return what a prune needs of the world, with the command's clock."""
    from ...prune import Outside

    return Outside(clock=cli.outside.clock)


def is_archive(text: str) -> bool:
    """Tell whether a text names an archive, and not a session."""
    from ...prune.archive_format import SUFFIX

    return text.endswith(SUFFIX)


def end_unattended(cli: Cli, directory: Path) -> None:
    """End question sessions that wait for an answer which nobody can take any more.

    What can't be read or ended is told by the prune that follows, or stays as it waits.

    Args:
        cli: The global options.
        directory: Where the question sessions are.
    """
    from ...adapters.question_channel import open_questions
    from ...questions import AtomicReadError

    with suppress(AtomicReadError):
        open_questions(directory, clock=cli.outside.clock).pending()


# ---------------------------------------------------------------------------------- trash and pins


def _trash_of(kinds: Mapping[str, PruneKind], cli: Cli) -> list[tuple[PruneKind, TrashRecord]]:
    from ...prune import list_trash

    return [
        (one, record)
        for one in kinds.values()
        for record in list_trash(one.target.root, outside=outside_of(cli))
    ]


def show_trash(cli: Cli, kinds: Mapping[str, PruneKind]) -> None:
    """List what is in the trash."""
    from ...prune import list_unrecorded

    found = _trash_of(kinds, cli)
    lost = [
        session_id
        for one in kinds.values()
        for session_id in list_unrecorded(one.target.root, outside=outside_of(cli))
    ]
    if cli.output.json:
        cli.output.document(
            {
                "trash": [
                    {
                        "kind": record.kind,
                        "session_id": record.session_id,
                        "trashed_at": record.trashed_at,
                        "purge_after": record.purge_after,
                        "size_bytes": record.size_bytes,
                    }
                    for _, record in found
                ],
                "unrecorded": lost,
            }
        )
        return
    for session_id in lost:
        cli.output.remark(
            f"left alone, its record is lost: {session_id}; --restore with its whole id brings it "
            "back"
        )
    if not found:
        if not lost:
            cli.output.line("The trash is empty.")
        return
    from ...prune import human_bytes
    from . import render

    now = cli.outside.clock()
    made = render.table("KIND", "ID", "REMOVED", "GOES FOR GOOD", "SIZE", right=("SIZE",))
    for _, record in found:
        made.add_row(
            render.words(record.kind),
            render.words(record.session_id),
            age_text((now - record.trashed_at).total_seconds()),
            age_text((now - record.purge_after).total_seconds()),
            human_bytes(record.size_bytes),
        )
    cli.output.show(made)


def restore(cli: Cli, kinds: Mapping[str, PruneKind], wanted: str, same: Sequence[str]) -> None:
    """Bring a session back from the trash, or from its archive.

    Args:
        cli: The global options.
        kinds: The kinds that are meant.
        wanted: The session's id or a part of it, or the path of an archive.
        same: Options that mean the same directory in the command that is told.
    """
    from ...prune import restore_archive, restore_from_trash

    if is_archive(wanted):
        path = Path(wanted)
        fitting = [one for name, one in kinds.items() if path.name.startswith(f"{name}-")]
        chosen = fitting or list(kinds.values())
        back = restore_archive(path, chosen[0].target, outside=outside_of(cli))
    else:
        found = [(one, rec) for one, rec in _trash_of(kinds, cli) if wanted in rec.session_id]
        exact = [pair for pair in found if pair[1].session_id == wanted] or found
        ids = sorted({record.session_id for _, record in exact})
        if len(ids) > 1:
            raise AmbiguousTrash(wanted, ids)
        if ids:
            back = restore_from_trash(exact[0][0].target, ids[0], outside=outside_of(cli))
        else:
            back = _restore_unlisted(cli, kinds, wanted)
    if cli.output.json:
        cli.output.document({"session_id": back.name, "path": back})
    else:
        cli.output.line(f"{back.name} is back: {back}")
        cli.output.line(
            "It is as old as it was: keep it with "
            f"{cli.command('prune', *same, '--pin', back.name)}"
        )


def _restore_unlisted(cli: Cli, kinds: Mapping[str, PruneKind], session_id: str) -> Path:
    """Bring back a session whose record in the trash is lost, by its whole id."""
    from ...prune import PRIVATE, NotInTrash, restore_from_trash
    from ...prune.private_directory import TRASH

    for one in kinds.values():
        if not (one.target.root / PRIVATE / TRASH).is_dir():
            continue
        try:
            return restore_from_trash(one.target, session_id, outside=outside_of(cli))
        except NotInTrash:
            continue
    roots = " and ".join(os.fspath(one.target.root) for one in kinds.values())
    raise NotInTrash(session_id, Path(roots or "."))


def pin_session(cli: Cli, kinds: Mapping[str, PruneKind], wanted: str) -> None:
    """Keep a session from every prune."""
    from ...prune import pin

    one, session_id = _place(kinds, wanted, {name: _names(one) for name, one in kinds.items()})
    changed = pin(one.target, session_id, outside=outside_of(cli))
    _tell_pinned(cli, session_id, pinned=True, changed=changed)


def unpin_session(cli: Cli, kinds: Mapping[str, PruneKind], wanted: str) -> None:
    """Let prunes take a session again."""
    from ...prune import pinned, unpin

    names = {  # a pin outlives its session
        name: _names(one) | pinned(one.target.root, outside=outside_of(cli))
        for name, one in kinds.items()
    }
    one, session_id = _place(kinds, wanted, names)
    changed = unpin(one.target, session_id, outside=outside_of(cli))
    _tell_pinned(cli, session_id, pinned=False, changed=changed)


def _names(kind: PruneKind) -> frozenset[str]:
    from ...prune import PruneRootMissing

    try:
        return frozenset(os.listdir(kind.target.root))
    except FileNotFoundError:
        raise PruneRootMissing(kind.target.root) from None


def _place(
    kinds: Mapping[str, PruneKind], wanted: str, names: Mapping[str, frozenset[str]]
) -> tuple[PruneKind, str]:
    """Find the one session that a text means."""
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


def _tell_pinned(cli: Cli, session_id: str, *, pinned: bool, changed: bool) -> None:
    if cli.output.json:
        cli.output.document({"session_id": session_id, "pinned": pinned, "changed": changed})
    else:
        was = "" if changed else " already"
        cli.output.line(f"{session_id} is{was} {'pinned' if pinned else 'not pinned'}.")


# ----------------------------------------------------------------------------------------- repair


def repair(cli: Cli, kinds: Mapping[str, PruneKind], *, dry_run: bool, yes: bool) -> None:
    """Give sandbox sessions metadata that have none that makes sense."""
    from ...prune import RetentionPolicy
    from ...prune import prune as run
    from ...sandbox import repair_session_metadata
    from .prune_view import counted

    sandboxes = kinds.get("sandbox")
    if sandboxes is None:
        raise typer.BadParameter("only sandbox sessions have metadata", param_hint="--kind")
    root = sandboxes.target.root
    found = run(sandboxes.target, RetentionPolicy(), dry_run=True, outside=outside_of(cli))
    broken = [
        one.session_id
        for one in found.skipped
        if one.reason in {"no_metadata", "corrupted_metadata"}
    ]
    if broken and not dry_run:
        cli.output.ask(
            f"Make metadata for {counted(len(broken))}?",
            operation=f"repairing {counted(len(broken))}",
            yes=yes,
        )
    repaired: list[dict[str, Any]] = []
    errors: dict[str, str] = dict(found.errors)
    for session_id in broken:
        try:
            done = repair_session_metadata(
                session_id, root, dry_run=dry_run, clock=cli.outside.clock
            )
        except (OSError, ValueError) as error:  # the sandbox's errors are among these
            errors[session_id] = str(error)
            continue
        repaired.append(
            {
                "session_id": session_id,
                "action": done.action,
                "created_at": done.metadata.created_at,
                "updated_at": done.metadata.updated_at,
                "reason": done.reason,
            }
        )
    _tell_repair(cli, repaired, errors, dry_run=dry_run)
    if errors:
        raise typer.Exit(ExitCode.NOT_DONE)


def _tell_repair(
    cli: Cli, repaired: Sequence[dict[str, Any]], errors: dict[str, str], *, dry_run: bool
) -> None:
    if cli.output.json:
        cli.output.document({"dry_run": dry_run, "repaired": repaired, "errors": errors})
        return
    if not repaired and not errors:
        cli.output.line("All metadata is in order.")
        return
    from . import render
    from .prune_view import counted

    made = render.table("ID", "WAS", "CREATED", "LAST USED")
    for one in repaired:
        made.add_row(
            render.words(one["session_id"]),
            render.words(one["reason"] or "missing"),
            render.moment_text(one["created_at"]),
            render.moment_text(one["updated_at"]),
        )
    if repaired:
        cli.output.show(made)
    for session_id, error in errors.items():
        cli.output.remark(f"warning: {session_id}: {error}")
    if dry_run:
        cli.output.line("Nothing was written: this was a dry run.")
    elif repaired:
        cli.output.line(f"Repaired {counted(len(repaired))}.")
    else:
        cli.output.line("Nothing was repaired.")
