"""`agentforge prune trash` and `restore`: list removed sessions, and bring one back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..... import prune
from .....base.errors import AmbiguousId
from ...context import Cli
from ...options import QUESTIONS_OPTION, argument
from ...output.documents import selected
from ...output.text import age_text
from .options import ROOT_OPTION, KindOptions, directories_of, outside_of, require_text


def _trash_of(
    targets: Sequence[prune.PruneTarget], cli: Cli
) -> list[tuple[prune.PruneTarget, prune.TrashRecord]]:
    return [
        (one, record)
        for one in targets
        for record in prune.list_trash(one.root, outside=outside_of(cli))
    ]


def show_trash(cli: Cli, selection: KindOptions) -> None:
    """List the sessions in the trash."""
    targets = directories_of(selection.select(cli))
    found = _trash_of(targets, cli)
    lost = [
        session_id
        for one in targets
        for session_id in prune.list_unrecorded(one.root, outside=outside_of(cli))
    ]
    columns = "kind session_id trashed_at purge_after size_bytes"
    documents = [selected(record, columns) for _, record in found]
    if cli.output.wrote({"trash": documents, "unrecorded": lost}):
        return
    for session_id in lost:
        cli.output.remark(
            f"left alone, its record is lost: {session_id}; "
            "'agentforge prune restore' with its whole id brings it back"
        )
    if not found:
        if not lost:
            cli.output.line("The trash is empty.")
        return
    now = cli.outside.clock()
    rows = (
        (
            *(one.kind, one.session_id),
            *(age_text((now - at).total_seconds()) for at in (one.trashed_at, one.purge_after)),
            prune.human_bytes(one.size_bytes),
        )
        for _, one in found
    )
    headings = ("KIND", "ID", "REMOVED", "GOES FOR GOOD", "SIZE")
    cli.output.table(*headings, rows=rows, right=("SIZE",))


def restore(
    cli: Cli,
    *,
    session: str = argument(
        "ID|ARCHIVE",
        "The id of a session in the trash, or an unambiguous part of it, or an archive.",
    ),
    selection: KindOptions,
) -> None:
    """Bring a session back from the trash, or from its archive."""
    from .....prune.archive.archive_format import SUFFIX

    require_text({"ID": session})
    archived = session.endswith(SUFFIX)
    targets = directories_of(selection.select(cli, with_missing=archived))
    if archived:
        path = Path(session)
        fitting = [one for one in targets if path.name.startswith(f"{one.kind}-")]
        back = prune.restore_archive(path, (fitting or targets)[0], outside=outside_of(cli))
    else:
        found = [(one, rec) for one, rec in _trash_of(targets, cli) if session in rec.session_id]
        exact = [pair for pair in found if pair[1].session_id == session] or found
        ids = sorted({record.session_id for _, record in exact})
        if len(ids) > 1:
            raise AmbiguousId(session, ids, "sessions in the trash")
        if ids:
            back = prune.restore_from_trash(exact[0][0], ids[0], outside=outside_of(cli))
        else:
            back = _restore_unlisted(cli, targets, session)
    places = {ROOT_OPTION: selection.workspace_root, QUESTIONS_OPTION: selection.questions}
    same = [word for option, place in places.items() if place for word in (option, place)]
    cli.output.outcome(
        {"session_id": back.name, "path": back},
        f"{back.name} is back: {back}",
        f"It is as old as it was: keep it with {cli.command('prune', 'pin', *same, back.name)}",
    )


def _restore_unlisted(cli: Cli, targets: Sequence[prune.PruneTarget], session_id: str) -> Path:
    """Restore a session whose record in the trash is lost, by its whole id."""
    from .....prune.removal.private_directory import TRASH

    for one in targets:
        if not (one.root / prune.PRIVATE / TRASH).is_dir():
            continue
        try:
            return prune.restore_from_trash(one, session_id, outside=outside_of(cli))
        except prune.NotInTrash:
            continue
    roots = " and ".join(os.fspath(one.root) for one in targets)
    raise prune.NotInTrash(session_id, Path(roots or "."))
