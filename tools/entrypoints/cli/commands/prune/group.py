"""`agentforge prune`: remove old sessions, after they were shown and confirmed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import typer

from .....base.plugins import Register
from ...context import Cli, cli_of
from ...on_demand import GroupOnDemand, add_group, commands_in
from ...options import AsJson, QuestionsDirectory, Yes, option, parse_size
from .options import ALL, Kind, WorkspaceRoot, duration, missing_kinds, require_text, select_kinds

if TYPE_CHECKING:
    from .....prune import Disposal, RetentionPolicy
    from .....wiring.pruning import PruneKind

_TRASH_FOR: Final = "7d"
_WAIT: Final = "60s"
_HOUR: Final = timedelta(hours=1)
_GIB: Final = 1 << 30

_MODULES: Final = {"trash": "trash restore", "pins": "pin unpin", "repair": "repair"}
"""The commands of each module, in the order of the help."""


class _PruneGroup(GroupOnDemand):
    register: ClassVar = Register("", commands_in(__package__, _MODULES))


def add_to(app: typer.Typer) -> None:
    """Add the group to the application."""
    add_group(
        app,
        _PruneGroup,
        prune,
        name="prune",
        short_help="Remove old sessions of every kind; asks first.",
        subcommand_metavar="[COMMAND]",
    )


def prune(
    context: typer.Context,
    kind: Kind = ALL,
    workspace_root: WorkspaceRoot = None,
    questions: QuestionsDirectory = None,
    older_than: Annotated[
        str | None,
        option(
            "--older-than AGE",
            "Remove sessions last used, or ended, longer ago than this, as in 24h or 7d.",
        ),
    ] = None,
    keep_last: Annotated[
        int | None, option("--keep-last N", "Remove all but the N newest of each kind.", min=0)
    ] = None,
    max_size: Annotated[
        str | None,
        option(
            "--max-size BYTES",
            "Remove the oldest until a kind takes no more than this, as in 10GB.",
        ),
    ] = None,
    min_free: Annotated[
        str | None,
        option(
            "--min-free BYTES", "Remove the oldest until this much of the disk is free, as in 20GB."
        ),
    ] = None,
    min_age: Annotated[
        str | None,
        option(
            "--min-age AGE",
            "With these three: keep what was used or ended within this time, as in 2h; 1h by "
            "default with --min-free.",
        ),
    ] = None,
    keep_state: Annotated[
        list[str] | None,
        option("--keep-state STATE", "Never remove sessions in this state; may be repeated."),
    ] = None,
    limit: Annotated[
        int | None, option("--limit N", "Remove at most N of each kind.", min=0)
    ] = None,
    archive: Annotated[
        str | None,
        option("--archive DIR", "Keep a verified, compressed tar of each in this directory."),
    ] = None,
    trash: Annotated[
        bool, option("--trash", "Move them to the trash for the time of --trash-for.")
    ] = False,
    trash_for: Annotated[
        str | None,
        option("--trash-for AGE", f"How long the trash keeps them; {_TRASH_FOR} by default."),
    ] = None,
    audit_log: Annotated[
        str | None,
        option(
            "--audit-log PATH",
            "Write the audit log to this file, for a directory whose disk is full.",
        ),
    ] = None,
    wait: Annotated[
        str,
        option(
            "--wait TIME", f"Maximum wait for another prune of the directory; {_WAIT} by default."
        ),
    ] = _WAIT,
    dry_run: Annotated[bool, option("--dry-run", "Only show what would be removed.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove old sessions of every kind; shows what would be removed, and asks first.

    Without a rule, it removes sandbox sessions not used for 24 hours, agent sessions that ended
    30 days ago, and question sessions whose time in the configuration is over. It keeps sessions
    that can't be dated, are in use, active, paused or pinned, or belong to another user, and
    question sessions that the configuration keeps for ever. Each removal is recorded in
    .prune/audit.jsonl of its directory before it happens.
    """
    cli = cli_of(context, json=as_json)
    if context.invoked_subcommand is not None:
        _require_no_options(context)
        return
    require_text({"--archive": archive, "--audit-log": audit_log})
    rules = {
        "max_age_hours": _hours(older_than, "--older-than"),
        "max_sessions": keep_last,
        "max_total_bytes": None if max_size is None else parse_size(max_size, "--max-size"),
        "min_free_space_gb": None
        if min_free is None
        else parse_size(min_free, "--min-free") / _GIB,
    }
    limits = {
        "keep_states": keep_state or (),
        "max_deletions": limit,
        "min_age_hours": _hours(min_age, "--min-age"),
    }
    _require_states(cli, keep_state or ())
    disposal = _disposal(cli, archive, _grace(trash_for, trash=trash), audit_log, wait)
    kinds = select_kinds(cli, kind, workspace_root, questions)

    from .removal import remove

    remove(
        cli,
        kinds,
        _policies(kinds, rules, limits),
        disposal,
        missing_kinds(cli, kinds) if kind == ALL else {},
        dry_run=dry_run,
        yes=yes,
    )


# -------------------------------------------------------------------------------- the command line


def _require_no_options(context: typer.Context) -> None:
    """Refuse options of `prune` itself before one of its commands, which would ignore them."""
    for one in context.command.params:
        if not one.name or one.name == "as_json":
            continue
        source = context.get_parameter_source(one.name)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(
                f"it does not apply to 'agentforge prune {context.invoked_subcommand}', whose own "
                "options stand after it; nothing was done",
                param_hint=one.opts[0],
            )


def _require_states(cli: Cli, wanted: Sequence[str]) -> None:
    """Refuse states that no session can be in: the sessions in question would be removed."""
    from .....wiring.pruning import prune_kinds

    known = {state for one in prune_kinds(store=cli.store()).values() for state in one.states}
    for state in wanted:
        if state not in known:
            raise typer.BadParameter(
                f"{state!r} is none of {', '.join(sorted(known))}", param_hint="--keep-state"
            )


def _hours(text: str | None, option: str) -> float | None:
    return None if text is None else duration(text, option) / _HOUR


def _grace(trash_for: str | None, *, trash: bool) -> timedelta | None:
    if trash:
        return duration(trash_for or _TRASH_FOR, "--trash-for")
    if trash_for is not None:
        raise typer.BadParameter(
            "it needs --trash, without which sessions are removed for good; nothing was done",
            param_hint="--trash-for",
        )
    return None


def _disposal(
    cli: Cli, archive: str | None, grace: timedelta | None, audit_log: str | None, wait: str
) -> Disposal:
    from .....prune import Disposal, TarArchiver

    archiver = None
    if archive is not None:
        archiver = TarArchiver(directory=Path(archive), clock=cli.outside.clock)
    return Disposal(
        grace=grace,
        archiver=archiver,
        audit_path=None if audit_log is None else Path(audit_log),
        lock_timeout_s=duration(wait, "--wait").total_seconds(),
    )


def _policies(
    kinds: Mapping[str, PruneKind], rules: Mapping[str, Any], limits: Mapping[str, Any]
) -> dict[str, RetentionPolicy]:
    """Return the policy of each kind: the rules that were given, else the kind's own age.

    A kind that the configuration keeps for ever has no rule, whatever was given.
    """
    from .....prune import RetentionPolicy

    ruled = any(rule is not None for rule in rules.values())
    return {
        name: RetentionPolicy()
        if one.max_age_hours is None
        else RetentionPolicy(**(rules if ruled else {"max_age_hours": one.max_age_hours}), **limits)
        for name, one in kinds.items()
    }
