"""`agentforge report`: the story of a session as one HTML page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ..context import cli_of
from ..options import AsJson, SessionId, option


def add_to(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("report", short_help="Write the story of a session as one HTML page.")(report)


def report(
    context: typer.Context,
    session_id: SessionId,
    out: Annotated[
        Path | None,
        option(
            "--out, -o FILE", "Where to write it; to ID.html here by default, - is standard output."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the story of a session as one HTML page that opens without a network."""
    from ....durable import DirectoryLock, OsFileSystem, replace_file
    from ....workflows.report import session_report

    cli = cli_of(context, json=as_json)
    manager, session = cli.load(session_id)
    if out == Path("-"):
        if cli.output.json:
            raise typer.BadParameter("the page and --json can't share standard output")
        cli.output.page(session_report(session, manager.store))
        return
    place = _report_place(out if out is not None else Path(f"{session.session_id}.html"))
    page = session_report(session, manager.store)
    fs = OsFileSystem()
    with DirectoryLock(fs, place.parent, follow=True) as lock:
        replace_file(fs, lock.fd, place.name, [page.encode()], path=place)
    cli.output.outcome(
        {"session_id": session.session_id, "path": str(place)}, f"Wrote {out or place.name}"
    )


def _report_place(path: Path) -> Path:
    """Return the file that is written, behind links; refuse what a file must not take the place of.

    A page is put in place of what is there by its name: of a device that would be the end.
    """
    place = Path(os.path.realpath(path))
    if place.exists() and not place.is_file():
        raise typer.BadParameter(
            f"{place} is there and is no regular file; nothing was written", param_hint="--out"
        )
    return place
