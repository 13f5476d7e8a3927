"""The group `agentforge fleet store`: the store, its tables, and copies between stores."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack, closing
from errno import ENOENT
from typing import Any, Final

import typer

from ..... import harness, prune
from .....fleet.stores import is_elsewhere, migrate_store, open_sessions, store_status
from .....harness.session_ports import LocalSessions, require_own
from .....harness.store.session_copy import CopiedSession, CopyOutcome, copy_sessions
from ...context import STORE_VARIABLE, Cli
from ...options import argument, flag, misuse, option
from ...output.documents import error_document, selected
from ...output.errors import ExitCode
from ...output.text import counted

_STAYS: Final = (
    "Workspaces and their snapshots are no part of a store and were not copied; nor were questions "
    "that wait, and what the fleet was given to do."
)


def _database_of(cli: Cli) -> str:
    """Return the address of the database that holds the sessions.

    Raises:
        typer.BadParameter: The sessions are in files.
    """
    if cli.store_url is None or not cli.in_database:
        raise misuse(
            "--store",
            f"names no database. Write agentforge --store postgresql://… fleet store …, or set "
            f"{STORE_VARIABLE}; files need no tables",
        )
    return cli.store_url


# ---------------------------------------------------------------------------------------- status


def status(cli: Cli) -> None:
    """Show where the sessions are, whether its tables fit this program, and how many there are.

    The exit code is 1 where this program can't work with it.
    """
    found = _database_status(cli) if cli.in_database else _files_status(cli.store())
    if not cli.output.wrote(found):
        _show_status(cli, found)
    if not found["usable"]:
        raise typer.Exit(ExitCode.NOT_DONE)


def _database_status(cli: Cli) -> dict[str, Any]:
    found = store_status(_database_of(cli))
    return {
        "store": found.store,
        "kind": "postgresql",
        "usable": found.is_usable,
        **selected(found, "server pooled"),
        "direct": cli.store_direct is not None,
        "migration": found.found,
        **selected(found, "needed sessions size_bytes"),
    }


def _files_status(store: LocalSessions) -> dict[str, Any]:
    sessions: Counter[str] = Counter()
    size = 0
    for one in store.summaries():
        if isinstance(one, harness.UnreadableSession):
            sessions["unreadable"] += 1
        else:
            sessions[one.head.state.value] += 1
            size += one.size_bytes
    return {
        "store": store.where,
        "kind": "files",
        "usable": True,
        "sessions": dict(sorted(sessions.items())),
        "size_bytes": size,
    }


def _show_status(cli: Cli, found: dict[str, Any]) -> None:
    states = ", ".join(f"{count} {state}" for state, count in found["sessions"].items())
    cli.output.line(f"store      {found['store']}")
    if found["kind"] == "postgresql":
        pooler = ", behind a pooler" if found["pooled"] else ""
        if pooler and not found["direct"]:
            pooler += "; AGENTFORGE_STORE_DIRECT is not set, so that nothing can be run from here"
        cli.output.line(f"server     PostgreSQL {found['server']}{pooler}")
        cli.output.line(f"tables     migration {found['migration']} of {found['needed']}")
    if found["usable"]:
        cli.output.line(f"sessions   {states or 'none yet'}")
    cli.output.line(f"size       {prune.human_bytes(found['size_bytes'])}")
    if found["usable"]:
        return
    newer = found["migration"] > found["needed"]
    cli.output.line(
        "A newer program has migrated it: install the release that did."
        if newer
        else f"It lacks tables. Run once: {cli.command('fleet', 'store', 'migrate')}"
    )


# --------------------------------------------------------------------------------------- migrate


def migrate(
    cli: Cli,
    role: str | None = option("--role NAME"),
    dry_run: bool = flag("--dry-run"),
) -> None:
    """Bring the tables of a PostgreSQL store to where this program is.

    All that is missing is run, or nothing. Safe to repeat, and to run on several machines at once:
    the others wait, and then have nothing to do. Every program of the fleet has to be of the
    release that migrated it.

    Args:
        role: Give this role the rights that programs need: it reads and writes sessions, and can't
            change the records of what was removed and migrated.
        dry_run: Only show what would be run.
    """
    url = _database_of(cli)
    done = migrate_store(url, role=role, dry_run=dry_run)
    where = cli.store().where
    migrations = [selected(one, "number name") for one in done]
    about = {"store": where, "dry_run": dry_run, "role": role}
    if cli.output.wrote({**about, "migrations": migrations}):
        return
    for one in done:
        cli.output.line(f"{'would run' if dry_run else 'ran'}  {one.number:04} {one.name}")
    if role is not None:
        cli.output.line(f"{'would give' if dry_run else 'gave'} {role} the rights of programs")
    if not done:
        cli.output.line(f"{where} has all the tables that this program needs.")
    elif not dry_run:
        cli.output.line(f"{where} is ready.")


# ------------------------------------------------------------------------------------------ copy


def copy(
    cli: Cli,
    source: str = argument("FROM"),
    target: str = argument("TO"),
    session: list[str] | None = option("--session ID"),
    dry_run: bool = flag("--dry-run"),
    adopt: bool = flag("--adopt"),
) -> None:
    """Copy sessions between stores, exactly: ids, revisions, times, history, attachments, steps.

    What is there already, the same in everything, is left alone, so that an interrupted copy is
    finished by repeating it. A session that differs from what is there, that a run is at, that
    can't be read or that is not yours is left, named, and the others are copied; the exit code is
    then 1.

    Args:
        source: A folder, file://… or postgresql://…
        target: Likewise.
        session: Only this one, by its id or a part of it; may be repeated.
        dry_run: Only show what would be copied.
        adopt: Also sessions that are not yours; their copies are.
    """
    if not source or not target:
        raise misuse("FROM or TO", "the address is empty")
    with ExitStack() as opened:
        here, there = (
            opened.enter_context(closing(open_sessions(cli.base, store=one)))
            for one in (source, target)
        )
        if not is_elsewhere(source) and not here.base_path.is_dir():
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), str(here.base_path))
        ids = None if session is None else [here.resolve(one) for one in session]

        def check(session_id: str) -> None:  # a copy made here counts as the person's own
            if not adopt:
                require_own(here, session_id)

        steps = copy_sessions(here, there, ids, dry_run=dry_run, check=check)
        done = _shown(cli, steps, dry_run=dry_run)
        _report(cli, here, there, done, dry_run=dry_run)
    if any(one.error is not None for one in done):
        raise typer.Exit(ExitCode.NOT_DONE)


def _shown(cli: Cli, steps: Iterable[CopiedSession], *, dry_run: bool) -> list[CopiedSession]:
    """Run the steps of a copy, print each outcome at once, and return the outcomes."""
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
    named: dict[CopyOutcome, list[str]] = {outcome: [] for outcome in CopyOutcome}
    for one in done:
        named[one.outcome].append(one.session_id)
    failed = [
        {"session_id": one.session_id, **error_document(one.error)}
        for one in done
        if one.error is not None
    ]
    document = {
        "from": source.where,
        "to": target.where,
        "dry_run": dry_run,
        "copied": named[CopyOutcome.COPIED],
        "already_there": named[CopyOutcome.PRESENT],
        "left": failed,
    }
    if cli.output.wrote(document):
        return
    copied, there, left = (len(named[outcome]) for outcome in CopyOutcome)
    verb = "would be copied" if dry_run else "copied"
    cli.output.line(
        f"{counted(copied)} {verb} from {source.where} to {target.where}; "
        f"{there} already there, {left} left."
    )
    if copied and not dry_run:
        cli.output.line(_STAYS)
