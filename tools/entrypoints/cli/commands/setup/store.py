"""The group `agentforge store`: where the sessions are, its tables, and copies between stores."""

from __future__ import annotations

import os
from contextlib import ExitStack
from errno import ENOENT
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ...context import STORE_VARIABLE, Cli, cli_of
from ...options import AsJson, argument, option
from ...output.exit_codes import ExitCode
from ...output.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .....harness.session_ports import LocalSessions
    from .....harness.store.session_copy import CopiedSession

_STAYS: Final = (
    "Workspaces and their snapshots are no part of a store and were not copied; nor were questions "
    "that wait, and what the fleet was given to do."
)


def add_to(app: typer.Typer) -> None:
    """Add the group to the application."""
    group = typer.Typer(
        name="store",
        help="Look at where the sessions are, bring its tables, and copy sessions between stores.",
        short_help="Where the sessions are: its tables, and copies of it.",
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=False,
    )
    group.callback(invoke_without_command=True)(_help)
    group.command("status", short_help="Show the store, its tables and how many sessions.")(status)
    group.command("migrate", short_help="Bring the tables of a PostgreSQL store; repeatable.")(
        migrate
    )
    group.command("copy", short_help="Copy sessions between files and PostgreSQL.")(copy)
    app.add_typer(group)


def _help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _database_of(cli: Cli) -> str:
    """Return the address of the database that the sessions are in.

    Raises:
        typer.BadParameter: They are in files.
    """
    if cli.store_url is None or not cli.in_database:
        raise typer.BadParameter(
            f"names no database. Write agentforge --store postgresql://… store …, or set "
            f"{STORE_VARIABLE}; files need no tables",
            param_hint="--store",
        )
    return cli.store_url


# --------------------------------------------------------------------------------------- migrate


def migrate(
    context: typer.Context,
    role: Annotated[
        str | None,
        option(
            "--role NAME",
            "Give this role the rights that programs need: it reads and writes sessions, and can't "
            "change the records of what was removed and migrated.",
        ),
    ] = None,
    dry_run: Annotated[bool, option("--dry-run", "Only show what would be run.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring the tables of a PostgreSQL store to where this program is.

    All that is missing is run, or nothing. Safe to repeat, and to run on several machines at once:
    the others wait, and then have nothing to do. Every program of the fleet has to be of the
    release that migrated it.
    """
    from .....fleet.opening import migrate_store

    cli = cli_of(context, json=as_json)
    url = _database_of(cli)
    done = migrate_store(url, role=role, dry_run=dry_run)
    if cli.output.json:
        cli.output.document(
            {
                "store": cli.store().where,
                "dry_run": dry_run,
                "role": role,
                "migrations": [{"number": one.number, "name": one.name} for one in done],
            }
        )
        return
    for one in done:
        cli.output.line(f"{'would run' if dry_run else 'ran'}  {one.number:04} {one.name}")
    where = cli.store().where
    if role is not None:
        cli.output.line(f"{'would give' if dry_run else 'gave'} {role} the rights of programs")
    if not done:
        cli.output.line(f"{where} has all the tables that this program needs.")
    elif not dry_run:
        cli.output.line(f"{where} is ready.")


# ---------------------------------------------------------------------------------------- status


def status(context: typer.Context, as_json: AsJson = False) -> None:
    """Show where the sessions are, whether its tables fit this program, and how many there are.

    The exit code is 1 where this program can't work with it.
    """
    cli = cli_of(context, json=as_json)
    found = _database_status(cli) if cli.in_database else _files_status(cli.store())
    if cli.output.json:
        cli.output.document(found)
    else:
        _show_status(cli, found)
    if not found["usable"]:
        raise typer.Exit(ExitCode.NOT_DONE)


def _database_status(cli: Cli) -> dict[str, Any]:
    from .....fleet.opening import store_status

    found = store_status(_database_of(cli))
    return {
        "store": found.store,
        "kind": "postgresql",
        "usable": found.is_usable,
        "server": found.server,
        "pooled": found.pooled,
        "direct": cli.store_direct is not None,
        "migration": found.found,
        "needed": found.needed,
        "sessions": dict(found.sessions),
        "size_bytes": found.size_bytes,
    }


def _files_status(store: LocalSessions) -> dict[str, Any]:
    from .....harness import UnreadableSession

    sessions: dict[str, int] = {}
    size = 0
    for one in store.summaries():
        if isinstance(one, UnreadableSession):
            state = "unreadable"
        else:
            state, size = one.head.state.value, size + one.size_bytes
        sessions[state] = sessions.get(state, 0) + 1
    return {
        "store": store.where,
        "kind": "files",
        "usable": True,
        "sessions": dict(sorted(sessions.items())),
        "size_bytes": size,
    }


def _show_status(cli: Cli, found: dict[str, Any]) -> None:
    from .....prune import human_bytes

    states = ", ".join(f"{count} {state}" for state, count in found["sessions"].items())
    cli.output.line(f"store      {found['store']}")
    if found["kind"] == "postgresql":
        pooler = "" if not found["pooled"] else ", behind a pooler"
        if pooler and not found["direct"]:
            pooler += "; AGENTFORGE_STORE_DIRECT is not set, so that nothing can be run from here"
        cli.output.line(f"server     PostgreSQL {found['server']}{pooler}")
        cli.output.line(f"tables     migration {found['migration']} of {found['needed']}")
    if found["usable"]:
        cli.output.line(f"sessions   {states or 'none yet'}")
    cli.output.line(f"size       {human_bytes(found['size_bytes'])}")
    if found["usable"]:
        return
    newer = found["migration"] > found["needed"]
    cli.output.line(
        "A newer program has migrated it: install the release that did."
        if newer
        else f"It lacks tables. Run once: {cli.command('store', 'migrate')}"
    )


# ------------------------------------------------------------------------------------------ copy


def copy(
    context: typer.Context,
    source: Annotated[str, argument("FROM", "A folder, file://… or postgresql://…")],
    target: Annotated[str, argument("TO", "Likewise.")],
    session: Annotated[
        list[str] | None,
        option("--session ID", "Only this one, by its id or a part of it; may be repeated."),
    ] = None,
    dry_run: Annotated[bool, option("--dry-run", "Only show what would be copied.")] = False,
    adopt: Annotated[
        bool, option("--adopt", "Also sessions that are not yours; their copies are.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Copy sessions between stores, exactly: ids, revisions, times, history, attachments, steps.

    What is there already, the same in everything, is left alone, so that an interrupted copy is
    finished by repeating it. A session that differs from what is there, that a run is at, that
    can't be read or that is not yours is left, named, and the others are copied; the exit code is
    then 1.
    """
    from .....fleet.stores import is_elsewhere
    from .....harness.session_ports import require_own
    from .....harness.store.session_copy import copy_sessions

    cli = cli_of(context, json=as_json)
    with ExitStack() as opened:
        here, there = (_open(cli, one, opened) for one in (source, target))
        if not is_elsewhere(source) and not here.base_path.is_dir():
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), str(here.base_path))
        ids = None if session is None else [here.resolve(one) for one in session]

        def check(session_id: str) -> None:  # a copy is own, since it is made here
            if not adopt:
                require_own(here, session_id)

        steps = copy_sessions(here, there, ids, dry_run=dry_run, check=check)
        done = _shown(cli, steps, dry_run=dry_run)
        _report(cli, here, there, done, dry_run=dry_run)
    if any(one.error is not None for one in done):
        raise typer.Exit(ExitCode.NOT_DONE)


def _open(cli: Cli, address: str, opened: ExitStack) -> LocalSessions:
    """Open one of the stores of a copy."""
    from .....fleet.stores import open_sessions

    if not address:
        raise typer.BadParameter("the address is empty", param_hint="FROM or TO")
    store = open_sessions(cli.base, store=address)
    opened.callback(store.close)
    return store


def _shown(cli: Cli, steps: Iterable[CopiedSession], *, dry_run: bool) -> list[CopiedSession]:
    """Say what becomes of each session, as it is done."""
    done = []
    for one in steps:
        done.append(one)
        if not cli.output.json:
            outcome = "would copy" if dry_run and one.outcome == "copied" else one.outcome.value
            reason = "" if one.error is None else f": {one.error}"
            cli.output.line(f"{outcome:13}  {one.session_id}{reason}")
    return done


def _report(
    cli: Cli,
    source: LocalSessions,
    target: LocalSessions,
    done: list[CopiedSession],
    *,
    dry_run: bool,
) -> None:
    from .....harness.store.session_copy import CopyOutcome

    named = {
        outcome: [one.session_id for one in done if one.outcome is outcome]
        for outcome in CopyOutcome
    }
    if cli.output.json:
        cli.output.document(
            {
                "from": source.where,
                "to": target.where,
                "dry_run": dry_run,
                "copied": named[CopyOutcome.COPIED],
                "already_there": named[CopyOutcome.PRESENT],
                "left": [
                    {
                        "session_id": one.session_id,
                        "type": type(one.error).__name__,
                        "message": str(one.error),
                    }
                    for one in done
                    if one.error is not None
                ],
            }
        )
        return
    copied, there, left = (len(named[outcome]) for outcome in CopyOutcome)
    verb = "would be copied" if dry_run else "copied"
    cli.output.line(
        f"{counted(copied)} {verb} from {source.where} to {target.where}; "
        f"{there} already there, {left} left."
    )
    if copied and not dry_run:
        cli.output.line(_STAYS)
