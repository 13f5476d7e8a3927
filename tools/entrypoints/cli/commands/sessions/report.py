"""`agentforge report`: the story of a session as one HTML page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..... import harness
from ...asking.question_sessions import question_sessions
from ...context import Cli
from ...options import QuestionPlace, SessionId, misuse, option

if TYPE_CHECKING:
    from .....base.question import Question


def report(
    cli: Cli,
    session_id: SessionId,
    out: Path | None = option(
        "--out, -o FILE", "Where to write it; to ID.html here by default, - is standard output."
    ),
) -> None:
    """Write the story of a session as one HTML page that opens without a network."""
    from .....base.files import DirectoryLock, OsFileSystem, replace_file

    if out == Path("-"):
        if cli.output.json:
            raise typer.BadParameter("the page and --json can't share standard output")
        cli.output.page(_page(cli, session_id)[1])
        return
    place = _report_place(out) if out is not None else None
    session, page = _page(cli, session_id)
    place = place or _report_place(Path(f"{session.session_id}.html"))
    fs = OsFileSystem()
    with DirectoryLock(fs, place.parent, follow=True) as lock:
        replace_file(fs, lock.fd, place.name, [page.encode()], path=place)
    cli.output.outcome(
        {"session_id": session.session_id, "path": str(place)}, f"Wrote {out or place.name}"
    )


def _page(cli: Cli, shortened: str) -> tuple[harness.SessionContext, str]:
    """Return a session and its page."""
    from .....wiring.bootstrap import open_snapshots
    from ....pages.session_page import session_report
    from ....pages.values.material import PageSource

    manager, session = cli.load(shortened, manager=cli.keeping_manager())
    snapshots = open_snapshots(cli.store(), cli.objects_url)
    is_here = snapshots.is_here(session.session_id)
    source = PageSource(
        session,
        manager.store,
        workspace=manager.store.workspace_path(session.session_id) if is_here else None,
        differences=lambda before, after: manager.diff(before, after, patch=True),
        questions=lambda question_id: _questions(cli, question_id),
    )
    return session, session_report(source, now=cli.outside.clock())


def _questions(cli: Cli, question_id: str) -> Sequence[Question]:
    """Return the questions that were asked under an id."""
    return (
        question_sessions(cli, QuestionPlace(None, shared=False)).get(question_id).request.questions
    )


def _report_place(path: Path) -> Path:
    """Return the file that is written, behind links; refuse what a file must not take the place of.

    A page is put in place of what is there by its name: of a device that would be the end.
    """
    place = Path(os.path.realpath(path))
    if place.exists() and not place.is_file():
        raise misuse("--out", f"{place} is there and is no regular file; nothing was written")
    return place
