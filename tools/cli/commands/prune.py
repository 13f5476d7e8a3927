"""`agentforge prune`: what is old goes, after it was shown and agreed to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from attrs import define

from tools.cli.context import Cli, cli_of
from tools.cli.durations import parse_duration, tell_age
from tools.cli.errors import AmbiguousTrash
from tools.cli.exit_codes import ExitCode
from tools.cli.options import AsJson, Yes
from tools.cli.sizes import parse_size

if TYPE_CHECKING:
    from tools.bootstrap import PruneKind
    from tools.prune import (
        Decision,
        Outside,
        PruneObserver,
        PruneResult,
        RetentionPolicy,
        TrashRecord,
    )

_SHOWN: Final = 200
_TRASH_FOR: Final = "7d"
_ALL: Final = "all"

_WHY: Final = {
    "expired": "too old",
    "too_many": "too many",
    "too_large": "too large together",
    "low_space": "disk nearly full",
    "recent": "changed meanwhile",
    "state": "not ended",
    "pinned": "pinned",
    "in_use": "in use",
    "limit": "over the limit",
}


def add_to(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("prune", short_help="Remove old sessions of every kind; asks first.")(prune)


@define
class _Work:
    """One kind of sessions on its way through a prune.

    Attributes:
        kind: The sessions.
        policy: The rules.
        found: What a dry run said.
        done: What the run did; None in a dry run.
    """

    kind: PruneKind
    policy: RetentionPolicy
    found: PruneResult
    done: PruneResult | None = None

    @property
    def name(self) -> str:
        return self.kind.target.kind

    @property
    def removals(self) -> list[Decision]:
        return [one for one in self.found.decisions if one.remove]


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
        Path | None,
        typer.Option(
            "--workspace-root",
            metavar="DIR",
            help="Where the sandbox sessions are; ./workspace by default.",
            show_default=False,
        ),
    ] = None,
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
            "--keep-last", min=0, metavar="N", help="All but the N newest.", show_default=False
        ),
    ] = None,
    max_size: Annotated[
        str | None,
        typer.Option(
            "--max-size",
            metavar="BYTES",
            help="The oldest, until all together have no more than this, as in 10GB.",
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
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would go.", show_default=False)
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
    archive: Annotated[
        Path | None,
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
        str, typer.Option("--trash-for", metavar="AGE", help="How long the trash keeps them.")
    ] = _TRASH_FOR,
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

    Without a rule, sandbox sessions go that were not used for 24 hours, and agent sessions that
    ended 30 days ago. What can't be dated, is in use, active or paused, belongs to another user or
    is pinned stays. Each removal is written to .prune/audit.jsonl of its directory before it
    happens.
    """
    cli = cli_of(context, json=as_json)
    kinds = _kinds(cli, kind, workspace_root)
    actions = {
        "--restore": restore,
        "--list-trash": list_trash,
        "--pin": pin,
        "--unpin": unpin,
        "--repair": repair,
    }
    asked = [name for name, value in actions.items() if value]
    if len(asked) > 1:
        raise typer.BadParameter(f"{asked[0]} and {asked[1]} don't go together")
    if restore:
        _restore(cli, kinds, restore)
    elif list_trash:
        _list_trash(cli, kinds)
    elif pin or unpin:
        _pin(cli, kinds, pin or unpin or "", on=bool(pin))
    elif repair:
        _repair(cli, kinds, dry_run=dry_run, yes=yes)
    else:
        rules: dict[str, Any] = {
            "max_age_hours": None if older_than is None else _hours(older_than),
            "max_sessions": keep_last,
            "max_total_bytes": None if max_size is None else parse_size(max_size, "--max-size"),
            "min_free_space_gb": (
                None if min_free is None else parse_size(min_free, "--min-free") / (1 << 30)
            ),
        }
        always = {"keep_states": keep_state or (), "max_deletions": limit}
        grace = parse_duration(trash_for) if trash else None
        _prune(cli, kinds, rules, always, dry_run=dry_run, yes=yes, archive=archive, grace=grace)


def _hours(text: str) -> float:
    return parse_duration(text) / timedelta(hours=1)


def _kinds(cli: Cli, wanted: str, workspace_root: Path | None) -> dict[str, PruneKind]:
    """Return the kinds that are meant; with `all`, those whose directory is there."""
    from tools.bootstrap import prune_kinds

    kinds = prune_kinds(cli.base, workspace_root=workspace_root)
    if wanted == _ALL:
        return {name: one for name, one in kinds.items() if one.target.root.is_dir()}
    if wanted not in kinds:
        known = ", ".join([*kinds, _ALL])
        raise typer.BadParameter(f"{wanted!r} is none of {known}", param_hint="--kind")
    return {wanted: kinds[wanted]}


def _outside(cli: Cli) -> Outside:
    from tools.prune import Outside

    return Outside(clock=cli.outside.clock)


# ------------------------------------------------------------------------------------------ prune


def _prune(
    cli: Cli,
    kinds: dict[str, PruneKind],
    rules: dict[str, Any],
    always: dict[str, Any],
    *,
    dry_run: bool,
    yes: bool,
    archive: Path | None,
    grace: timedelta | None,
) -> None:
    from tools.prune import Disposal, RetentionPolicy, TarArchiver, human_bytes
    from tools.prune import prune as run

    archiver = None
    if archive is not None:
        archiver = TarArchiver(directory=archive, clock=cli.outside.clock)
    disposal = Disposal(grace=grace, archiver=archiver)
    ruled = any(rule is not None for rule in rules.values())
    works = []
    for one in kinds.values():
        given = rules if ruled else {**rules, "max_age_hours": one.max_age_hours}
        policy = RetentionPolicy(**given, **always)
        found = run(one.target, policy, dry_run=True, outside=_outside(cli))
        works.append(_Work(one, policy, found))
    count = sum(len(work.removals) for work in works)
    freed = sum(work.found.reclaimed_bytes for work in works)
    if not cli.output.json:
        _show(cli, works, archived=archive is not None, trashed=grace is not None)
    if not dry_run:
        if count:
            verb = "Move to the trash" if grace is not None else "Remove for good"
            cli.output.ask(
                f"{verb} {_counted(count)} ({human_bytes(freed)})?",
                operation=f"pruning {_counted(count)}",
                yes=yes,
            )
        with _progress(cli, count) as advance:
            for work in works:
                work.done = run(
                    work.kind.target,
                    work.policy,
                    only=work.removals,
                    disposal=disposal,
                    observer=_observer(advance),
                    outside=_outside(cli),
                )
    _tell(cli, works, dry_run=dry_run)
    if any(work.done is not None and (work.done.errors or _missed(work)) for work in works):
        raise typer.Exit(ExitCode.NOT_DONE)


def _missed(work: _Work) -> list[Decision]:
    """Return what was to go and was kept, because it changed or is in use now."""
    if work.done is None:
        return []
    went = {*work.done.deleted_sessions, *work.done.errors}
    planned = {one.candidate.session_id for one in work.removals}
    return [
        one
        for one in work.done.decisions
        if one.candidate.session_id in planned - went and not one.remove
    ]


def _observer(advance: Callable[[], None]) -> PruneObserver:
    """Make an observer that moves a bar on."""
    from tools.prune import Silent

    class Progress(Silent):
        def deleted(self, *_: object, **__: object) -> None:
            advance()

        def failed(self, *_: object, **__: object) -> None:
            advance()

    return Progress()


@contextmanager
def _progress(cli: Cli, count: int) -> Iterator[Callable[[], None]]:
    """Show how far a prune is, where a person watches and it takes a while."""
    if not cli.output.interactive or count < _SHOWN:
        yield lambda: None
        return
    from rich.progress import Progress

    with Progress(console=cli.output.console, transient=True) as bar:
        task = bar.add_task("Pruning", total=count)
        yield lambda: bar.advance(task)


def _show(cli: Cli, works: Sequence[_Work], *, archived: bool, trashed: bool) -> None:
    """Show what would go, why, and what is left alone because nobody can date it."""
    from tools.cli import render
    from tools.prune import human_bytes

    now = cli.outside.clock()
    removals = [(work, one) for work in works for one in work.removals]
    if removals:
        made = render.table("KIND", "ID", "STATE", "LAST USED", "SIZE", "WHY", right=("SIZE",))
        for work, one in removals[:_SHOWN]:
            candidate = one.candidate
            made.add_row(
                work.name,
                render.words(candidate.session_id),
                render.state_text(candidate.state or ""),
                tell_age((now - candidate.dated_at).total_seconds()),
                human_bytes(candidate.size_bytes),
                ", ".join(_WHY[reason] for reason in one.reasons),
            )
        cli.output.show(made)
        if len(removals) > _SHOWN:
            cli.output.line(f"… and {len(removals) - _SHOWN:,} more (--json names them all)")
    for work in works:
        for reason, names in _skipped(work.found).items():
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            cli.output.remark(
                f"left alone, {reason.replace('_', ' ')}: {', '.join(names[:3])}{more}"
            )
    how = " into the trash" if trashed else ""
    how += ", with an archive of each" if archived else ""
    freed = sum(work.found.reclaimed_bytes for work in works)
    if removals:
        cli.output.line(f"{_counted(len(removals))} would go{how}: {human_bytes(freed)}.")
    elif works:
        cli.output.line("No session has to go.")
    else:
        cli.output.line("There are no sessions here.")


def _skipped(result: PruneResult) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for one in result.skipped:
        grouped.setdefault(str(one.reason), []).append(one.session_id)
    return grouped


def _tell(cli: Cli, works: Sequence[_Work], *, dry_run: bool) -> None:
    if cli.output.json:
        cli.output.document(
            {"dry_run": dry_run, "kinds": {work.name: _document(work) for work in works}}
        )
        return
    if dry_run:
        cli.output.line("Nothing was removed: this was a dry run.")
        return
    for work in works:
        done = work.done
        if done is None:
            continue
        for session_id, error in done.errors.items():
            cli.output.remark(f"warning: {session_id}: {error}")
        for one in _missed(work):
            why = ", ".join(_WHY[reason] for reason in one.reasons)
            cli.output.remark(f"warning: {one.candidate.session_id} was kept: {why}")
        if done.deleted_sessions or done.errors or done.finished_sessions or done.purged_sessions:
            cli.output.line(f"{work.name}: {done}.")


def _document(work: _Work) -> dict[str, Any]:
    result = work.done or work.found
    return {
        "root": work.kind.target.root,
        "deleted": result.deleted_sessions,
        "reclaimed_bytes": result.reclaimed_bytes,
        "errors": result.errors,
        "unfinished": result.unfinished_sessions,
        "finished": result.finished_sessions,
        "purged": result.purged_sessions,
        "archives": result.archives,
        "skipped": [
            {"session_id": one.session_id, "reason": one.reason, "detail": one.detail}
            for one in result.skipped
        ],
        "decisions": [
            {
                "session_id": one.candidate.session_id,
                "remove": one.remove,
                "reasons": one.reasons,
                "dated_at": one.candidate.dated_at,
                "size_bytes": one.candidate.size_bytes,
                "state": one.candidate.state,
            }
            for one in result.decisions
        ],
        "duration_s": round(result.duration_s, 4),
    }


# ---------------------------------------------------------------------------------- trash and pins


def _trash_of(kinds: dict[str, PruneKind], cli: Cli) -> list[tuple[PruneKind, TrashRecord]]:
    from tools.prune import list_trash

    return [
        (one, record)
        for one in kinds.values()
        for record in list_trash(one.target.root, outside=_outside(cli))
    ]


def _list_trash(cli: Cli, kinds: dict[str, PruneKind]) -> None:
    found = _trash_of(kinds, cli)
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
                ]
            }
        )
        return
    if not found:
        cli.output.line("The trash is empty.")
        return
    from tools.cli import render
    from tools.prune import human_bytes

    now = cli.outside.clock()
    made = render.table("KIND", "ID", "REMOVED", "GOES FOR GOOD", "SIZE", right=("SIZE",))
    for _, record in found:
        made.add_row(
            render.words(record.kind),
            render.words(record.session_id),
            tell_age((now - record.trashed_at).total_seconds()),
            tell_age((now - record.purge_after).total_seconds()),
            human_bytes(record.size_bytes),
        )
    cli.output.show(made)


def _restore(cli: Cli, kinds: dict[str, PruneKind], wanted: str) -> None:
    from tools.prune import NotInTrash, restore_archive, restore_from_trash
    from tools.prune.packing import SUFFIX

    if wanted.endswith(SUFFIX):
        path = Path(wanted)
        fitting = [one for name, one in kinds.items() if path.name.startswith(f"{name}-")]
        chosen = fitting or list(kinds.values())
        if not chosen:
            raise typer.BadParameter("there is no directory to restore it to", param_hint="--kind")
        back = restore_archive(path, chosen[0].target, outside=_outside(cli))
    else:
        found = [(one, rec) for one, rec in _trash_of(kinds, cli) if wanted in rec.session_id]
        exact = [pair for pair in found if pair[1].session_id == wanted] or found
        ids = sorted({record.session_id for _, record in exact})
        if not ids:
            roots = " and ".join(os.fspath(one.target.root) for one in kinds.values())
            raise NotInTrash(wanted, Path(roots or "."))
        if len(ids) > 1:
            raise AmbiguousTrash(wanted, ids)
        back = restore_from_trash(exact[0][0].target, ids[0], outside=_outside(cli))
    if cli.output.json:
        cli.output.document({"session_id": back.name, "path": back})
    else:
        cli.output.line(f"{back.name} is back: {back}")
        cli.output.line(
            f"It is as old as it was: keep it with {cli.command('prune', '--pin', back.name)}"
        )


def _pin(cli: Cli, kinds: dict[str, PruneKind], wanted: str, *, on: bool) -> None:
    from tools.prune import pin, unpin

    places = [
        (one, name)
        for one in kinds.values()
        for name in sorted(os.listdir(one.target.root))
        if one.target.owns(name) and wanted in name
    ]
    exact = [place for place in places if place[1] == wanted] or places
    if not exact:
        from tools.cli.errors import SandboxSessionNotFound

        raise SandboxSessionNotFound(wanted, path=Path("."))
    if len({name for _, name in exact}) > 1:
        raise AmbiguousTrash(wanted, sorted({name for _, name in exact}))
    one, session_id = exact[0]
    changed = (pin if on else unpin)(one.target, session_id, outside=_outside(cli))
    if cli.output.json:
        cli.output.document({"session_id": session_id, "pinned": on, "changed": changed})
    else:
        was = "" if changed else " already"
        cli.output.line(f"{session_id} is{was} {'pinned' if on else 'not pinned'}.")


# ----------------------------------------------------------------------------------------- repair


def _repair(cli: Cli, kinds: dict[str, PruneKind], *, dry_run: bool, yes: bool) -> None:
    from tools.prune import RetentionPolicy
    from tools.prune import prune as run
    from tools.sandbox import repair_session_metadata

    sandboxes = kinds.get("sandbox")
    if sandboxes is None:
        raise typer.BadParameter("only sandbox sessions have metadata", param_hint="--kind")
    root = sandboxes.target.root
    found = run(sandboxes.target, RetentionPolicy(), dry_run=True, outside=_outside(cli))
    broken = [
        one.session_id
        for one in found.skipped
        if one.reason in {"no_metadata", "corrupted_metadata"}
    ]
    if broken and not dry_run:
        cli.output.ask(
            f"Make metadata for {_counted(len(broken))}?",
            operation=f"repairing {_counted(len(broken))}",
            yes=yes,
        )
    repaired: list[dict[str, Any]] = []
    errors: dict[str, str] = {}
    for session_id in broken:
        try:
            done = repair_session_metadata(
                session_id, root, dry_run=dry_run, clock=cli.outside.clock
            )
        except (OSError, ValueError) as error:  # the sandbox's errors are among these
            errors[session_id] = str(error)
            continue
        repaired.append(
            {
                "session_id": session_id,
                "action": done.action,
                "created_at": done.metadata.created_at,
                "updated_at": done.metadata.updated_at,
                "reason": done.reason,
            }
        )
    _tell_repair(cli, repaired, errors, dry_run=dry_run)
    if errors:
        raise typer.Exit(ExitCode.NOT_DONE)


def _tell_repair(
    cli: Cli, repaired: Sequence[dict[str, Any]], errors: dict[str, str], *, dry_run: bool
) -> None:
    if cli.output.json:
        cli.output.document({"dry_run": dry_run, "repaired": repaired, "errors": errors})
        return
    if not repaired and not errors:
        cli.output.line("All metadata is in order.")
        return
    from tools.cli import render

    made = render.table("ID", "WAS", "CREATED", "LAST USED")
    for one in repaired:
        made.add_row(
            render.words(one["session_id"]),
            render.words(one["reason"] or "missing"),
            render.moment_text(one["created_at"]),
            render.moment_text(one["updated_at"]),
        )
    cli.output.show(made)
    for session_id, error in errors.items():
        cli.output.remark(f"warning: {session_id}: {error}")
    if dry_run:
        cli.output.line("Nothing was written: this was a dry run.")
    else:
        cli.output.line(f"Repaired {_counted(len(repaired))}.")


def _counted(number: int) -> str:
    return f"{number:,} session{'' if number == 1 else 's'}"
