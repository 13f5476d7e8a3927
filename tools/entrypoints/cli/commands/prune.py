"""`agentforge prune`: what is old goes, after it was shown and agreed to."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from attrs import evolve

from .. import prune_acts
from ..context import Cli, cli_of
from ..errors import Interrupted, OutputLost
from ..exit_codes import ExitCode, exit_code_of
from ..options import (
    QUESTIONS_OPTION,
    AsJson,
    InvalidDuration,
    QuestionsDirectory,
    Yes,
    parse_duration,
    parse_size,
)

if TYPE_CHECKING:
    from ....bootstrap import PruneKind
    from ....prune import Disposal, Outside, RetentionPolicy
    from ..prune_view import Work

_TRASH_FOR: Final = "7d"
_WAIT: Final = timedelta(minutes=1)
_HOUR: Final = timedelta(hours=1)
_ALL: Final = "all"


def add_to(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("prune", short_help="Remove old sessions of every kind; asks first.")(prune)


def prune(
    context: typer.Context,
    kind: Annotated[
        str,
        typer.Option(
            "--kind",
            metavar="KIND",
            help="sandbox, harness, questions or all: which sessions are meant.",
        ),
    ] = _ALL,
    workspace_root: Annotated[
        str | None,
        typer.Option(
            "--workspace-root",
            metavar="DIR",
            help="Where the sandbox sessions are; ./workspace by default.",
            show_default=False,
        ),
    ] = None,
    questions: QuestionsDirectory = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="AGE",
            help="Those not used, or ended, for this long, as in 24h or 7d.",
            show_default=False,
        ),
    ] = None,
    keep_last: Annotated[
        int | None,
        typer.Option(
            "--keep-last",
            min=0,
            metavar="N",
            help="All but the N newest of each kind.",
            show_default=False,
        ),
    ] = None,
    max_size: Annotated[
        str | None,
        typer.Option(
            "--max-size",
            metavar="BYTES",
            help="The oldest, until those of a kind have no more than this, as in 10GB.",
            show_default=False,
        ),
    ] = None,
    min_free: Annotated[
        str | None,
        typer.Option(
            "--min-free",
            metavar="BYTES",
            help="The oldest, until so much of the disk is free, as in 20GB.",
            show_default=False,
        ),
    ] = None,
    min_age: Annotated[
        str | None,
        typer.Option(
            "--min-age",
            metavar="AGE",
            help="For these three: none that was used or ended within this time, as in 2h.",
            show_default=False,
        ),
    ] = None,
    keep_state: Annotated[
        list[str] | None,
        typer.Option(
            "--keep-state",
            metavar="STATE",
            help="Never those in this state; may be repeated.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", min=0, metavar="N", help="At most N of each kind.", show_default=False
        ),
    ] = None,
    audit_log: Annotated[
        str | None,
        typer.Option(
            "--audit-log",
            metavar="PATH",
            help="Write the audit log to this file, for a directory whose disk is full.",
            show_default=False,
        ),
    ] = None,
    wait: Annotated[
        str | None,
        typer.Option(
            "--wait",
            metavar="TIME",
            help="How long to wait for another prune that is at work there; 60s by default.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would go.", show_default=False)
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
    archive: Annotated[
        str | None,
        typer.Option(
            "--archive",
            metavar="DIR",
            help="Keep a verified, compressed tar of each in this directory.",
            show_default=False,
        ),
    ] = None,
    trash: Annotated[
        bool,
        typer.Option("--trash", help="Put them into the trash, where they stay for --trash-for."),
    ] = False,
    trash_for: Annotated[
        str | None,
        typer.Option(
            "--trash-for",
            metavar="AGE",
            help=f"How long the trash keeps them; {_TRASH_FOR} by default.",
            show_default=False,
        ),
    ] = None,
    restore: Annotated[
        str | None,
        typer.Option(
            "--restore",
            metavar="ID",
            help="Bring a session back, from the trash or from the path of an archive.",
            show_default=False,
        ),
    ] = None,
    list_trash: Annotated[
        bool,
        typer.Option("--list-trash", help="List what is in the trash.", show_default=False),
    ] = False,
    pin: Annotated[
        str | None,
        typer.Option(
            "--pin", metavar="ID", help="Keep a session from every prune.", show_default=False
        ),
    ] = None,
    unpin: Annotated[
        str | None,
        typer.Option(
            "--unpin", metavar="ID", help="Let prunes take a session again.", show_default=False
        ),
    ] = None,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Give sandbox sessions metadata that have none that makes sense.",
            show_default=False,
        ),
    ] = False,
) -> None:
    """Remove old sessions of every kind; shows what would go, and asks first.

    Without a rule, sandbox sessions go that were not used for 24 hours, agent sessions that ended
    30 days ago, and question sessions as long after their end as the configuration says. What
    can't be dated, is in use, active or paused, belongs to another user or is pinned stays, and so
    do question sessions that the configuration keeps for ever. Each removal is written to
    .prune/audit.jsonl of its directory before it happens.
    """
    cli = cli_of(context, json=as_json)
    actions = {
        "--restore": restore,
        "--list-trash": list_trash or None,
        "--pin": pin,
        "--unpin": unpin,
        "--repair": repair or None,
    }
    pruning = {
        "--older-than": older_than,
        "--keep-last": keep_last,
        "--max-size": max_size,
        "--min-free": min_free,
        "--min-age": min_age,
        "--audit-log": audit_log,
        "--wait": wait,
        "--keep-state": keep_state or None,
        "--limit": limit,
        "--archive": archive,
        "--trash": trash or None,
        "--trash-for": trash_for,
    }
    looking = {"--dry-run": dry_run or None}
    places = {"--workspace-root": workspace_root, QUESTIONS_OPTION: questions}
    _require_whole({**actions, "--archive": archive, "--audit-log": audit_log, **places})
    _require_together(actions, pruning, looking)
    kinds = _kinds(
        cli,
        kind,
        workspace_root,
        questions,
        unmade=restore is not None and prune_acts.is_archive(restore),
    )
    if restore is not None:
        same = [word for option, place in places.items() if place for word in (option, place)]
        prune_acts.restore(cli, kinds, restore, same)
    elif list_trash:
        prune_acts.show_trash(cli, kinds)
    elif pin is not None:
        prune_acts.pin_session(cli, kinds, pin)
    elif unpin is not None:
        prune_acts.unpin_session(cli, kinds, unpin)
    elif repair:
        prune_acts.repair(cli, kinds, dry_run=dry_run, yes=yes)
    else:
        rules: dict[str, Any] = {
            "max_age_hours": None
            if older_than is None
            else _duration(older_than, "--older-than") / _HOUR,
            "max_sessions": keep_last,
            "max_total_bytes": None if max_size is None else parse_size(max_size, "--max-size"),
            "min_free_space_gb": (
                None if min_free is None else parse_size(min_free, "--min-free") / (1 << 30)
            ),
        }
        always = {
            "keep_states": keep_state or (),
            "max_deletions": limit,
            "min_age_hours": None if min_age is None else _duration(min_age, "--min-age") / _HOUR,
        }
        _require_states(cli, keep_state or ())
        waited = _duration(wait, "--wait") if wait is not None else _WAIT
        disposal = evolve(
            _disposal(cli, archive, trash_for, trash=trash),
            audit_path=None if audit_log is None else Path(audit_log),
            lock_timeout_s=waited.total_seconds(),
        )
        missing = _missing(cli, kinds) if kind == _ALL else {}
        policies = _policies(kinds, rules, always)
        if "questions" in kinds and not dry_run:
            prune_acts.end_unattended(cli, kinds["questions"].target.root)
        _prune(cli, kinds, policies, disposal, missing, dry_run=dry_run, yes=yes)


def _duration(text: str, option: str) -> timedelta:
    try:
        return parse_duration(text)
    except InvalidDuration as error:
        error.param_hint = option
        raise


# -------------------------------------------------------------------------------- the command line


def _require_whole(given: Mapping[str, object]) -> None:
    """Refuse empty texts, such as of a variable that is not set: they would mean something else."""
    for option, value in given.items():
        if isinstance(value, str) and not value.strip():
            raise typer.BadParameter("it is empty; nothing was done", param_hint=option)


def _require_together(
    actions: Mapping[str, object], pruning: Mapping[str, object], looking: Mapping[str, object]
) -> None:
    """Refuse options that would be passed over."""
    asked = [name for name, value in actions.items() if value is not None]
    extra = asked[1:]
    if asked:
        extra += [name for name, value in pruning.items() if value is not None]
    if asked and asked[0] not in {"--repair", "--list-trash"}:
        extra += [name for name, value in looking.items() if value is not None]
    if extra:
        raise typer.BadParameter(f"{asked[0]} and {extra[0]} don't go together; nothing was done")
    if pruning["--trash-for"] is not None and pruning["--trash"] is None:
        raise typer.BadParameter(
            "it needs --trash, without which sessions are removed for good; nothing was done",
            param_hint="--trash-for",
        )


def _require_states(cli: Cli, wanted: Sequence[str]) -> None:
    """Refuse states that no session can be in: those that are to be kept would go."""
    from ....bootstrap import prune_kinds

    known = {state for one in prune_kinds(cli.base).values() for state in one.states}
    for state in wanted:
        if state not in known:
            raise typer.BadParameter(
                f"{state!r} is none of {', '.join(sorted(known))}", param_hint="--keep-state"
            )


def _kinds(
    cli: Cli, wanted: str, workspace_root: str | None, questions: str | None, *, unmade: bool
) -> dict[str, PruneKind]:
    """Return the kinds that are meant; with `all`, less those that nobody has made or named.

    Args:
        cli: The global options.
        wanted: The name of a kind, or `all`.
        workspace_root: Where the sandbox sessions are, if that was said.
        questions: Where the question sessions are, if that was said.
        unmade: Whether those that nobody has made are meant as well.
    """
    from ....bootstrap import prune_kinds

    kinds = prune_kinds(cli.base, workspace_root=workspace_root, questions_dir=questions)
    if wanted == _ALL:
        said = {"sandbox": workspace_root, "questions": questions}
        return {
            name: one
            for name, one in kinds.items()
            if unmade or said.get(name) is not None or os.path.lexists(one.target.root)
        }
    if wanted not in kinds:
        known = ", ".join([*kinds, _ALL])
        raise typer.BadParameter(f"{wanted!r} is none of {known}", param_hint="--kind")
    return {wanted: kinds[wanted]}


def _missing(cli: Cli, kinds: Mapping[str, PruneKind]) -> dict[str, Path]:
    """Return the kinds that nobody has made, with where they would be."""
    from ....bootstrap import prune_kinds

    known = prune_kinds(cli.base)
    return {name: one.target.root for name, one in known.items() if name not in kinds}


def _policies(
    kinds: Mapping[str, PruneKind], rules: Mapping[str, Any], always: Mapping[str, Any]
) -> dict[str, RetentionPolicy]:
    """Make the rules of each kind: those that were given, or its own age.

    A kind whose configuration keeps it for ever has none, whatever was given.
    """
    from ....prune import RetentionPolicy

    ruled = any(rule is not None for rule in rules.values())
    policies = {}
    for name, one in kinds.items():
        if one.max_age_hours is None:
            policies[name] = RetentionPolicy()
        elif ruled:
            policies[name] = RetentionPolicy(**rules, **always)
        else:
            policies[name] = RetentionPolicy(
                **{**rules, "max_age_hours": one.max_age_hours}, **always
            )
    return policies


def _disposal(cli: Cli, archive: str | None, trash_for: str | None, *, trash: bool) -> Disposal:
    from ....prune import Disposal, TarArchiver

    archiver = None
    if archive is not None:
        archiver = TarArchiver(directory=Path(archive), clock=cli.outside.clock)
    grace = _duration(trash_for or _TRASH_FOR, "--trash-for") if trash else None
    return Disposal(grace=grace, archiver=archiver)


# ------------------------------------------------------------------------------------------ prune


def _prune(
    cli: Cli,
    kinds: Mapping[str, PruneKind],
    policies: Mapping[str, RetentionPolicy],
    disposal: Disposal,
    missing: Mapping[str, Path],
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    from ....prune import human_bytes
    from .. import prune_view

    works = _look(cli, kinds, policies, disposal, dry_run=dry_run)
    count = sum(len(work.removals) for work in works)
    trashed = disposal.grace is not None
    lost: OutputLost | None = None

    def show() -> None:
        if not cli.output.json:
            for name, root in missing.items():
                cli.output.line(f"{name}: there is no directory {root}.")
            prune_view.show(cli, works, archived=disposal.archiver is not None, trashed=trashed)

    # Where nobody reads it before: a log on a full disk must not keep the disk from being freed.
    later = yes and not dry_run and not cli.output.interactive
    if not later:
        show()
    if not dry_run:
        if count:
            verb = "Move to the trash" if trashed else "Remove for good"
            freed = human_bytes(sum(work.freed for work in works))
            cli.output.ask(
                f"{verb} {prune_view.counted(count)} ({freed})?",
                operation=f"pruning {prune_view.counted(count)}",
                yes=yes,
            )
        _apply(cli, works, disposal)
    if later:
        try:
            show()
        except OutputLost as error:
            lost = error
    prune_view.tell(cli, works, missing, dry_run=dry_run)
    if lost is not None:
        raise lost
    failed = [work.failed for work in works if work.failed is not None]
    if failed:
        raise typer.Exit(exit_code_of(failed[0]))
    if any(work.is_undone for work in works):
        raise typer.Exit(ExitCode.NOT_DONE)


def _look(
    cli: Cli,
    kinds: Mapping[str, PruneKind],
    policies: Mapping[str, RetentionPolicy],
    disposal: Disposal,
    *,
    dry_run: bool,
) -> list[Work]:
    """Look through each root; one that is refused keeps no other from being pruned."""
    from ....prune import PruneError
    from ....prune import prune as run
    from ....sandbox.prune_target import prune_events
    from ..prune_view import Work

    works = [Work(kind, policies[name]) for name, kind in kinds.items()]
    freed: Counter[int] = Counter()  # by device: what those before it are to free
    for work in works:
        try:
            work.found = run(
                work.kind.target,
                work.policy,
                dry_run=True,
                disposal=disposal,
                observer=prune_events(work.name) if dry_run else None,
                outside=_freeing(prune_acts.outside_of(cli), freed),
            )
        except PruneError as error:
            if len(works) == 1:
                raise
            work.failed = error
            continue
        if disposal.grace is None and work.removals:
            with suppress(OSError):  # it is gone by now, as the run will tell
                device = os.stat(work.kind.target.root).st_dev
                freed[device] += sum(one.candidate.disk_bytes for one in work.removals)
    return works


def _freeing(outside: Outside, freed: Mapping[int, int]) -> Outside:
    """Count as free what is going to be."""

    def free(fd: int) -> int:
        return outside.free_bytes(fd) + freed.get(os.fstat(fd).st_dev, 0)

    return evolve(outside, free_bytes=free)


def _apply(cli: Cli, works: Sequence[Work], disposal: Disposal) -> None:
    from ....prune import PruneError
    from ....prune import prune as run
    from ....sandbox.prune_target import prune_events
    from .. import prune_view

    try:
        with prune_view.progress(cli, sum(len(work.removals) for work in works)) as advance:
            for work in works:
                if work.found is None:
                    continue
                try:
                    work.done = run(
                        work.kind.target,
                        work.policy,
                        only=work.removals,
                        disposal=disposal,
                        observer=prune_view.observer(advance, prune_events(work.name)),
                        outside=prune_acts.outside_of(cli),
                    )
                except PruneError as error:
                    if len(works) == 1:
                        raise
                    work.failed = error
    except KeyboardInterrupt:
        raise Interrupted(_interrupted(works)) from None


def _interrupted(works: Sequence[Work]) -> str:
    """Say what a prune that was interrupted leaves: what is told of each comes later."""
    from ..prune_view import counted

    planned = [
        os.path.join(work.kind.target.root, one.candidate.session_id)
        for work in works
        for one in work.removals
    ]
    out = sum(not os.path.lexists(path) for path in planned)
    return (
        f"interrupted: {out:,} of {counted(len(planned))} are gone or out of sight, the others are "
        "as they were. The next prune finishes what was begun; .prune/audit.jsonl names each"
    )
