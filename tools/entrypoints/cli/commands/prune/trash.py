"""`agentforge prune trash` and `restore`: list removed sessions, and bring one back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .....base.errors import AmbiguousId
from ...context import Cli, cli_of
from ...options import QUESTIONS_OPTION, AsJson, QuestionsDirectory, argument
from ...output.text import age_text
from .options import (
    ALL,
    ROOT_OPTION,
    Kind,
    WorkspaceRoot,
    directories_of,
    outside_of,
    require_text,
    select_kinds,
)

if TYPE_CHECKING:
    from .....prune import PruneTarget, TrashRecord


def add_to(group: typer.Typer) -> None:
    """Add these commands to the group."""
    group.command("trash")(show_trash)
    group.command("restore")(restore)


def _trash_of(targets: Sequence[PruneTarget], cli: Cli) -> list[tuple[PruneTarget, TrashRecord]]:
    from .....prune import list_trash

    return [
        (one, record) for one in targets for record in list_trash(one.root, outside=outside_of(cli))
    ]


def show_trash(
    context: typer.Context,
    kind: Kind = ALL,
    workspace_root: WorkspaceRoot = None,
    questions: QuestionsDirectory = None,
    as_json: AsJson = False,
) -> None:
    """List the sessions in the trash."""
    from .....prune import list_unrecorded

    cli = cli_of(context, json=as_json)
    targets = directories_of(select_kinds(cli, kind, workspace_root, questions))
    found = _trash_of(targets, cli)
    lost = [
        session_id
        for one in targets
        for session_id in list_unrecorded(one.root, outside=outside_of(cli))
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
            f"left alone, its record is lost: {session_id}; "
            "'agentforge prune restore' with its whole id brings it back"
        )
    if not found:
        if not lost:
            cli.output.line("The trash is empty.")
        return
    from .....prune import human_bytes
    from ...output import render

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


def restore(
    context: typer.Context,
    session: Annotated[
        str,
        argument(
            "ID|ARCHIVE",
            "The id of a session in the trash, or an unambiguous part of it, or an archive.",
        ),
    ],
    kind: Kind = ALL,
    workspace_root: WorkspaceRoot = None,
    questions: QuestionsDirectory = None,
    as_json: AsJson = False,
) -> None:
    """Bring a session back from the trash, or from its archive."""
    from .....prune import restore_archive, restore_from_trash
    from .....prune.archive.archive_format import SUFFIX

    cli = cli_of(context, json=as_json)
    require_text({"ID": session})
    archived = session.endswith(SUFFIX)
    kinds = select_kinds(cli, kind, workspace_root, questions, with_missing=archived)
    targets = directories_of(kinds)
    if archived:
        path = Path(session)
        fitting = [one for one in targets if path.name.startswith(f"{one.kind}-")]
        back = restore_archive(path, (fitting or targets)[0], outside=outside_of(cli))
    else:
        found = [(one, rec) for one, rec in _trash_of(targets, cli) if session in rec.session_id]
        exact = [pair for pair in found if pair[1].session_id == session] or found
        ids = sorted({record.session_id for _, record in exact})
        if len(ids) > 1:
            raise AmbiguousId(session, ids, "sessions in the trash")
        if ids:
            back = restore_from_trash(exact[0][0], ids[0], outside=outside_of(cli))
        else:
            back = _restore_unlisted(cli, targets, session)
    if cli.output.json:
        cli.output.document({"session_id": back.name, "path": back})
    else:
        places = {ROOT_OPTION: workspace_root, QUESTIONS_OPTION: questions}
        same = [word for option, place in places.items() if place for word in (option, place)]
        cli.output.line(f"{back.name} is back: {back}")
        cli.output.line(
            f"It is as old as it was: keep it with {cli.command('prune', 'pin', *same, back.name)}"
        )


def _restore_unlisted(cli: Cli, targets: Sequence[PruneTarget], session_id: str) -> Path:
    """Restore a session whose record in the trash is lost, by its whole id."""
    from .....prune import PRIVATE, NotInTrash, restore_from_trash
    from .....prune.removal.private_directory import TRASH

    for one in targets:
        if not (one.root / PRIVATE / TRASH).is_dir():
            continue
        try:
            return restore_from_trash(one, session_id, outside=outside_of(cli))
        except NotInTrash:
            continue
    roots = " and ".join(os.fspath(one.root) for one in targets)
    raise NotInTrash(session_id, Path(roots or "."))
