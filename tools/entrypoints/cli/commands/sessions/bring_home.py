"""Commands that bring a session's result to where a person works: apply, export."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .....base.errors import listed
from ...context import Cli, cli_of
from ...options import AsJson, SessionId, argument, complete_session_ids, option
from ...output.text import counted_of

if TYPE_CHECKING:
    from .....repository.apply.applied import Applied

_Id = Annotated[
    str | None,
    argument("ID", "The session's id, or a part of it.", autocompletion=complete_session_ids),
]
_At = Annotated[
    str | None,
    option("--at CHECKPOINT", "The result at this checkpoint; the workspace's last by default."),
]
_SHOWN = 50
_NAMED = 10


def add_to(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.command("apply", short_help="Bring a session's result into your checkout, whole.")(apply)
    app.command("export", short_help="Write a session's files to a new folder.")(export)


def apply(
    context: typer.Context,
    session_id: _Id = None,
    at: _At = None,
    repo: Annotated[
        Path | None,
        option("--repo PATH", "The checkout; the one that the session began from by default."),
    ] = None,
    files: Annotated[
        list[str] | None,
        option("--files GLOB", "Only these paths, as in '*.py' or src/**; may be repeated."),
    ] = None,
    commit: Annotated[
        bool, option("--commit", "Commit it; the commit holds nothing else.")
    ] = False,
    message: Annotated[str | None, option("--message, -m TEXT", "The commit's message.")] = None,
    branch: Annotated[
        str | None,
        option("--branch NAME", "Commit it on this new branch; the checkout stays as it is."),
    ] = None,
    hooks: Annotated[
        bool,
        option("--hooks", "With --commit: commit by your own git, with its hooks and signing."),
    ] = False,
    filters: Annotated[
        bool, option("--filters", "Run the filter programs of your git, such as Git LFS.")
    ] = False,
    dry_run: Annotated[bool, option("--dry-run", "Only show what would change.")] = False,
    go_on: Annotated[bool, option("--continue", "Finish an apply that was interrupted.")] = False,
    abort: Annotated[bool, option("--abort", "Undo an apply that was interrupted.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring a session's result into your checkout: as a whole, or not at all.

    What the session changed is merged with your commit, written to the files and staged. Where
    that would touch work that is not committed, nothing is done, and every such path is named.
    """
    cli = cli_of(context, json=as_json)
    if go_on or abort:
        _require_alone(
            {
                "a session": session_id is not None,
                "each other": go_on and abort,
                "--dry-run": dry_run,
                "--commit": commit,
                "--message": message is not None,
                "--branch": branch is not None,
                "--files": bool(files),
                "--at": at is not None,
                "--hooks": hooks,
                "--filters": filters,
            }
        )
        _take_up(cli, repo or Path(), forward=go_on)
        return
    if session_id is None:
        raise typer.BadParameter(
            "name a session; `agentforge list` shows those that are", param_hint="ID"
        )
    if hooks and not commit:
        raise typer.BadParameter("hooks run at a commit; add --commit", param_hint="--hooks")
    if branch is not None and (commit or hooks):
        raise typer.BadParameter(
            "a branch gets its commit by itself, without --commit and --hooks",
            param_hint="--branch",
        )
    if message is not None and not (commit or branch is not None):
        raise typer.BadParameter(
            "only a commit has a message; add --commit or --branch", param_hint="--message"
        )
    from .....repository.apply.apply_plan import ApplyOptions

    options = ApplyOptions(
        files=tuple(files or ()),
        commit=commit,
        message=message,
        branch=branch,
        hooks=hooks,
        run_filters=filters,
    )
    _, session = cli.load(cli.own_id(session_id))
    from .....wiring.bootstrap import session_results

    results = session_results(cli.store(), cli.objects_url)
    applied = results.apply(session, options, at=at, checkout=repo, dry_run=dry_run)
    if applied.left_out and not (applied.paths or applied.already or applied.ignored):
        shown = ", ".join(applied.left_out[:_NAMED])
        more = f" and {len(applied.left_out) - _NAMED} more" if applied.left_out[_NAMED:] else ""
        raise typer.BadParameter(
            f"no changed path matches, so nothing was done. Changed: {shown}{more}",
            param_hint="--files",
        )
    _show(cli, applied, session.session_id)


def _require_alone(others: Mapping[str, bool]) -> None:
    """Refuse what has no meaning where an apply is taken up: what it does is in its journal."""
    given = [name for name, is_given in others.items() if is_given]
    if given:
        raise typer.BadParameter(
            f"an interrupted apply is finished or undone as it was begun; leave out {given[0]}"
            if given[0] != "each other"
            else "finish the apply or undo it: not both",
            param_hint="--continue/--abort",
        )


def _take_up(cli: Cli, checkout: Path, *, forward: bool) -> None:
    from .....repository.apply.apply import abort_apply, continue_apply

    applied = continue_apply(checkout) if forward else abort_apply(checkout)
    done = "finished" if forward else "undone"
    cli.output.outcome(
        {**_document(applied), "outcome": done},
        f"The apply to {applied.checkout} is {done}: "
        f"{counted_of(len(applied.paths), 'path')} {'changed' if forward else 'as before'}.",
    )


def _show(cli: Cli, applied: Applied, session_id: str) -> None:
    if cli.output.json:
        cli.output.document({"session_id": session_id, **_document(applied)})
        return
    line = cli.output.line
    signs = {"added": "A", "modified": "M", "deleted": "D"}
    for one in applied.paths[:_SHOWN]:
        line(f"{signs[one.change]} {one.path}")
    if len(applied.paths) > _SHOWN:
        line(f"and {len(applied.paths) - _SHOWN} more")
    if applied.ignored:
        name = "it" if len(applied.ignored) == 1 else "them"
        line(
            f"{counted_of(len(applied.ignored), 'new file')} stayed out, since your ignore rules "
            f"name {name}: {listed(applied.ignored, most=_NAMED, what='')}"
        )
    if applied.left_out:
        line(f"{counted_of(len(applied.left_out), 'changed path')} stayed out by --files.")
    count = counted_of(len(applied.paths), "path")
    if applied.nothing_to_do and not applied.already:
        line(f"There is nothing to apply: {applied.checkout} has all that the session changed.")
    elif applied.nothing_to_do:
        line(f"Applied already: {applied.checkout} has all of it.")
    elif applied.dry_run:
        line(f"Nothing was done; {count} would change in {applied.branch or applied.checkout}.")
    elif applied.branch is not None:
        line(f"Committed {count} on branch {applied.branch} ({(applied.commit or '')[:12]}).")
    elif applied.commit is not None and not applied.paths:
        line(f"Committed what was staged before in {applied.checkout} ({applied.commit[:12]}).")
    elif applied.commit is not None:
        line(f"Committed {count} in {applied.checkout} ({applied.commit[:12]}).")
    else:
        line(f"Applied {count} to {applied.checkout}, staged and not committed.")


def _document(applied: Applied) -> dict[str, Any]:
    return {
        "checkout": applied.checkout,
        "paths": [{"path": one.path, "change": one.change} for one in applied.paths],
        "already": list(applied.already),
        "ignored": list(applied.ignored),
        "left_out": list(applied.left_out),
        "commit": applied.commit,
        "branch": applied.branch,
        "dry_run": applied.dry_run,
        "nothing_to_do": applied.nothing_to_do,
    }


def export(
    context: typer.Context,
    session_id: SessionId,
    folder: Annotated[Path, argument("DIR", "The new folder; nothing may be there.")],
    at: _At = None,
    as_json: AsJson = False,
) -> None:
    """Write a session's files to a new folder, which appears whole."""
    cli = cli_of(context, json=as_json)
    _, session = cli.load(session_id)
    from .....wiring.bootstrap import session_results

    snapshot = session_results(cli.store(), cli.objects_url).export(session, folder, at=at)
    cli.output.outcome(
        {"session_id": session.session_id, "snapshot": snapshot, "folder": folder.resolve()},
        f"The files of {session.session_id} are in {folder}.",
    )
