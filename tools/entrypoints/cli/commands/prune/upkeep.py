"""`agentforge prune trash`, `restore`, `pin`, `unpin` and `repair`: trash, pins, metadata."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer

from ..... import harness, prune, sandbox
from .....base.errors import AgentForgeError, AmbiguousId
from .....prune.archive_format import SUFFIX
from .....prune.removal.private_directory import TRASH
from .....sandbox.guest_paths import DAMAGED_NAME, PROGRAM_NAME, STATE_NAME
from ...context import Cli
from ...options import QUESTIONS_OPTION, Yes, argument, flag
from ...output.documents import selected
from ...output.errors import ExitCode, NoSessionToPin
from ...output.text import age_text, counted, moment_text
from ..sandbox.files import session_ids
from .group import (
    ROOT_OPTION,
    KindOptions,
    WorkspaceRoot,
    directories_of,
    require_text,
)

if TYPE_CHECKING:
    from .....wiring.pruning import PruneKind

_Place = TypeVar("_Place")
_SessionToPin = Annotated[str, argument("ID", "The session's id, or an unambiguous part of it.")]


def _fitting(
    found: Iterable[tuple[_Place, str]], wanted: str, what: str = "sessions"
) -> tuple[_Place, str] | None:
    """Return the one id, with its place, that equals or contains a text; None without a match.

    Raises:
        AmbiguousId: Several ids match.
    """
    places = [one for one in found if wanted in one[1]]
    exact = [one for one in places if one[1] == wanted] or places
    ids = sorted({session_id for _, session_id in exact})
    if len(ids) > 1:
        raise AmbiguousId(wanted, ids, what)
    return exact[0] if exact else None


# ------------------------------------------------------------------------------------- the trash


def _trash_of(
    targets: Sequence[prune.PruneTarget], cli: Cli
) -> list[tuple[prune.PruneTarget, prune.TrashRecord]]:
    return [
        (one, record)
        for one in targets
        for record in prune.list_trash(
            one.root, outside=prune.PruneEnvironment(clock=cli.outside.clock)
        )
    ]


def trash(cli: Cli, selection: KindOptions) -> None:
    """List the sessions in the trash."""
    targets = directories_of(selection.select(cli))
    found = [record for _, record in _trash_of(targets, cli)]
    lost = [
        session_id
        for one in targets
        for session_id in prune.list_unrecorded(
            one.root, outside=prune.PruneEnvironment(clock=cli.outside.clock)
        )
    ]
    columns = "kind session_id trashed_at purge_after size_bytes"
    documents = [selected(record, columns) for record in found]
    if cli.output.wrote({"trash": documents, "unrecorded": lost}):
        return
    for session_id in lost:
        cli.output.remark(
            f"never purged, its name in the trash has no dates: {session_id}; "
            "'agentforge prune restore' with its whole id brings it back"
        )
    if lost and not found:
        return
    now = cli.outside.clock()
    rows = (
        (
            *(one.kind, one.session_id),
            *(age_text((now - at).total_seconds()) for at in (one.trashed_at, one.purge_after)),
            prune.human_bytes(one.size_bytes),
        )
        for one in found
    )
    headings = ("KIND", "ID", "REMOVED", "GOES FOR GOOD", "SIZE")
    cli.output.table(*headings, rows=rows, right=("SIZE",), empty="The trash is empty.")


def restore(
    cli: Cli,
    *,
    session: str = argument("ID|ARCHIVE"),
    selection: KindOptions,
) -> None:
    """Bring a session back from the trash, or from its archive.

    Args:
        session: The id of a session in the trash, or an unambiguous part of it, or an archive.
    """
    require_text({"ID": session})
    archived = session.endswith(SUFFIX)
    targets = directories_of(selection.select(cli, with_missing=archived))
    if archived:
        path = Path(session)
        fitting = [one for one in targets if path.name.startswith(f"{one.kind}-")]
        back = prune.restore_archive(
            path, (fitting or targets)[0], outside=prune.PruneEnvironment(clock=cli.outside.clock)
        )
    else:
        trashed = [(one, record.session_id) for one, record in _trash_of(targets, cli)]
        found = _fitting(trashed, session, "sessions in the trash")
        back = (
            prune.restore_from_trash(
                *found, outside=prune.PruneEnvironment(clock=cli.outside.clock)
            )
            if found is not None
            else _restore_unlisted(cli, targets, session)
        )
    places = {ROOT_OPTION: selection.workspace_root, QUESTIONS_OPTION: selection.questions}
    same = [word for option, place in places.items() if place for word in (option, place)]
    cli.output.outcome(
        {"session_id": back.name, "path": back},
        f"{back.name} is back: {back}",
        f"It is as old as it was: keep it with {cli.command('prune', 'pin', *same, back.name)}",
    )


def _restore_unlisted(cli: Cli, targets: Sequence[prune.PruneTarget], session_id: str) -> Path:
    """Restore a session whose record in the trash is lost, by its full id."""
    for one in targets:
        if not (one.root / prune.PRIVATE / TRASH).is_dir():
            continue
        try:
            return prune.restore_from_trash(
                one, session_id, outside=prune.PruneEnvironment(clock=cli.outside.clock)
            )
        except prune.NotInTrash:
            continue
    roots = " and ".join(os.fspath(one.root) for one in targets)
    raise prune.NotInTrash(session_id, Path(roots or "."))


# ------------------------------------------------------------------------------------------ pins


def pin(cli: Cli, session: _SessionToPin, selection: KindOptions) -> None:
    """Keep a session from every prune until it is unpinned."""
    _pin(cli, session, selection, keep=True)


def unpin(cli: Cli, session: _SessionToPin, selection: KindOptions) -> None:
    """Let prunes remove a pinned session again."""
    _pin(cli, session, selection, keep=False)


def _pin(cli: Cli, session: str, selection: KindOptions, *, keep: bool) -> None:
    require_text({"ID": session})
    kinds = selection.select(cli).values()
    there = [(one, _names(cli, one, session)) for one in kinds]
    if not keep:  # a pin outlives its session
        there += [(one, _pinned(cli, one)) for one in kinds]
    found = _fitting(((one, name) for one, names in there for name in names), session)
    if found is None:
        raise NoSessionToPin(session, [one.target.root for one in kinds])
    kind, session_id = found
    if kind.stored is not None:
        changed = (kind.stored.pin if keep else kind.stored.unpin)(session_id)
    else:
        target = cast("prune.PruneTarget", kind.directories)
        changed = (prune.pin if keep else prune.unpin)(
            target, session_id, outside=prune.PruneEnvironment(clock=cli.outside.clock)
        )
    was = "" if changed else " already"
    cli.output.outcome(
        {"session_id": session_id, "pinned": keep, "changed": changed},
        f"{session_id} is{was} {'pinned' if keep else 'not pinned'}.",
    )


def _pinned(cli: Cli, kind: PruneKind) -> frozenset[str]:
    if kind.stored is not None:
        return kind.stored.pinned()
    return prune.pinned(kind.target.root, outside=prune.PruneEnvironment(clock=cli.outside.clock))


def _names(cli: Cli, kind: PruneKind, wanted: str) -> Iterable[str]:
    directories = kind.directories
    try:
        if directories is None:
            return [cli.store().resolve(wanted)]
        return sorted(filter(directories.owns, os.listdir(directories.root)))
    except harness.SessionNotFound:
        return ()
    except FileNotFoundError:
        raise prune.PruneRootMissing(kind.target.root) from None


# ---------------------------------------------------------------------------------------- repair


def repair(
    cli: Cli,
    workspace_root: WorkspaceRoot,
    yes: Yes,
    dry_run: bool = flag("--dry-run"),
) -> None:
    """Write metadata for sandbox sessions whose own is missing or corrupted; asks first.

    A session is dated by its files. Metadata that can't be read is left as it is. A program that is
    damaged is moved aside: the session's next shell starts without variables.

    Args:
        dry_run: Only show what would be written.
    """
    sandboxes = KindOptions("sandbox", workspace_root, None).select(cli)["sandbox"]
    found = sandboxes.prune(
        prune.RetentionPolicy(),
        dry_run=True,
        outside=prune.PruneEnvironment(clock=cli.outside.clock),
    )
    reasons = {"no_metadata", "corrupted_metadata"}
    broken = [one.session_id for one in found.skipped if one.reason in reasons]
    root = sandboxes.target.root
    errors: dict[str, str] = dict(found.errors)
    damaged = _damaged_programs(root, errors)
    if broken and not dry_run:
        cli.output.ask(f"Make metadata for {counted(len(broken))}?", yes=yes)
    if damaged and not dry_run:
        cli.output.ask(f"Move aside the damaged programs of {counted(len(damaged))}?", yes=yes)
    repaired: list[dict[str, Any]] = []
    for session_id in broken:
        try:
            done = sandbox.repair_session_metadata(
                session_id, root, dry_run=dry_run, clock=cli.outside.clock
            )
        except (OSError, ValueError) as error:  # includes the sandbox's errors
            errors[session_id] = str(error)
            continue
        dates = selected(done.metadata, "created_at updated_at")
        about = {"session_id": session_id, "action": done.action}
        repaired.append({**about, **dates, "reason": done.reason})
    for session_id in () if dry_run else damaged:
        from .....sandbox.live.stored_programs import move_aside

        try:
            move_aside(root / session_id / PROGRAM_NAME)
        except (OSError, AgentForgeError) as error:
            errors[session_id] = str(error)
    document = {"dry_run": dry_run, "repaired": repaired, "programs": damaged, "errors": errors}
    if not cli.output.wrote(document):
        for session_id, why in damaged.items():
            aside = (
                ""
                if dry_run or session_id in errors
                else f"; it is {PROGRAM_NAME}/{DAMAGED_NAME} now"
            )
            cli.output.line(f"{session_id}: its program is damaged: {why}{aside}")
        if not damaged or repaired or errors:
            _show_repaired(cli, repaired, errors, dry_run=dry_run)
    if errors:
        raise typer.Exit(ExitCode.NOT_DONE)


def _damaged_programs(root: Path, errors: dict[str, str]) -> dict[str, str]:
    """Return why a sandbox session's program is damaged, by its id; note what can't be read."""
    damaged = {}
    for session_id in session_ids(root):
        directory = root / session_id / PROGRAM_NAME
        if not os.path.lexists(directory / STATE_NAME):
            continue
        # It needs the engine, which not every machine has.
        from .....sandbox.live.stored_programs import damage_of

        try:
            why = damage_of(directory)
        except AgentForgeError as error:
            errors[session_id] = str(error)
            continue
        if why is not None:
            damaged[session_id] = why
    return damaged


def _show_repaired(
    cli: Cli, repaired: Sequence[dict[str, Any]], errors: dict[str, str], *, dry_run: bool
) -> None:
    if not repaired and not errors:
        cli.output.line("All metadata is in order.")
        return
    rows = [
        (
            *(one["session_id"], one["reason"] or "missing"),
            *(moment_text(one[name]) for name in ("created_at", "updated_at")),
        )
        for one in repaired
    ]
    if rows:
        cli.output.table("ID", "WAS", "CREATED", "LAST USED", rows=rows)
    for session_id, error in errors.items():
        cli.output.remark(f"warning: {session_id}: {error}")
    if dry_run:
        cli.output.line("Nothing was written: this was a dry run.")
    elif repaired:
        cli.output.line(f"Repaired {counted(len(repaired))}.")
    else:
        cli.output.line("Nothing was repaired.")
