"""Plan, confirm and run a prune of several kinds, one directory after another."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import typer
from attrs import evolve

from ..... import prune
from .....base.errors import AgentForgeError
from .....sandbox.prune_target import prune_events
from ...context import Cli
from ...output.errors import ExitCode, Interrupted, OutputLost, exit_code_of
from ...output.text import counted
from . import view
from .view import Work


def remove(
    cli: Cli,
    works: Sequence[Work],
    disposal: prune.Disposal,
    missing: Mapping[str, Path],
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    """Show the plan, ask, remove the sessions, and report the result.

    Args:
        cli: The global options.
        works: The kinds of sessions, each with its rules.
        disposal: How sessions are removed.
        missing: The default directories that do not exist.
        dry_run: Whether to remove nothing.
        yes: Whether to skip the confirmation.

    Raises:
        typer.Exit: A directory was refused, or a session to remove is still there.
    """
    for work in works:
        if work.name == "questions" and not dry_run:
            _end_unattended(cli, work.kind.target.root)
    _look(cli, works, disposal, dry_run=dry_run)
    count = sum(len(work.removals) for work in works)
    trashed = disposal.grace is not None
    lost: OutputLost | None = None

    def show() -> None:
        if not cli.output.json:
            for name, root in missing.items():
                cli.output.line(f"{name}: there is no directory {root}.")
            view.show(cli, works, archived=disposal.archiver is not None, trashed=trashed)

    # Without a reader, show the plan later: a log on a full disk must not prevent freeing the disk.
    later = yes and not dry_run and not cli.output.interactive
    if not later:
        show()
    if not dry_run:
        if count:
            verb = "Move to the trash" if trashed else "Remove for good"
            freed = prune.human_bytes(sum(work.plan.reclaimed_bytes for work in works))
            cli.output.ask(f"{verb} {counted(count)} ({freed})?", yes=yes)
        _apply(cli, works, disposal)
    if later:
        try:
            show()
        except OutputLost as error:
            lost = error
    view.report(cli, works, missing, dry_run=dry_run)
    if lost is not None:
        raise lost
    failed = [work.failed for work in works if work.failed is not None]
    if failed:
        raise typer.Exit(exit_code_of(failed[0]))
    if any(work.is_undone for work in works):
        raise typer.Exit(ExitCode.NOT_DONE)


def _look(cli: Cli, works: Sequence[Work], disposal: prune.Disposal, *, dry_run: bool) -> None:
    """Plan the prune of each root; a refused root does not stop the others."""
    freed: Counter[int] = Counter()  # by device: the bytes that roots planned before will free
    for work in works:
        try:
            work.found = work.kind.prune(
                work.policy,
                dry_run=True,
                disposal=disposal,
                observer=prune_events(work.name) if dry_run else None,
                outside=_freeing(prune.PruneEnvironment(clock=cli.outside.clock), freed),
            )
        except prune.PruneError as error:
            if len(works) == 1:
                raise
            work.failed = error
            continue
        if disposal.grace is None and work.removals and work.kind.directories is not None:
            with suppress(OSError):  # removed meanwhile; the run will report it
                device = os.stat(work.kind.target.root).st_dev
                freed[device] += sum(one.candidate.disk_bytes for one in work.removals)


def _freeing(outside: prune.PruneEnvironment, freed: Mapping[int, int]) -> prune.PruneEnvironment:
    """Return an environment that counts the bytes of planned removals as free."""

    def free(fd: int) -> int:
        return outside.free_bytes(fd) + freed.get(os.fstat(fd).st_dev, 0)

    return evolve(outside, free_bytes=free)


def _apply(cli: Cli, works: Sequence[Work], disposal: prune.Disposal) -> None:
    try:
        for work in works:
            if work.found is None:
                continue
            try:
                work.done = work.kind.prune(
                    work.policy,
                    only=work.removals,
                    disposal=disposal,
                    observer=prune_events(work.name),
                    outside=prune.PruneEnvironment(clock=cli.outside.clock),
                )
            except prune.PruneError as error:
                if len(works) == 1:
                    raise
                work.failed = error
            _forget_deleted(cli, work)
    except KeyboardInterrupt:
        raise Interrupted(_interrupted(works)) from None


def _forget_deleted(cli: Cli, work: Work) -> None:
    """Release what repositories and the object store hold for removed agent sessions."""
    if work.name == "agent" and work.done is not None:
        from .....wiring.bootstrap import forget_deleted
        from .....wiring.pruning import collect_packs

        forget_deleted(cli.store())
        try:
            collect_packs(cli.store(), cli.objects_url)
        except AgentForgeError as error:  # the next prune retries
            cli.output.remark(f"warning: {error}")


def _interrupted(works: Sequence[Work]) -> str:
    """Return a message on what an interrupted prune did, as no session's report is available."""
    planned = [
        os.path.join(work.kind.target.root, one.candidate.session_id)
        for work in works
        if work.kind.directories is not None
        for one in work.removals
    ]
    out = sum(not os.path.lexists(path) for path in planned)
    return (
        f"interrupted: {out:,} of {counted(len(planned))} were removed or hidden, the others are "
        "unchanged. The next prune finishes what was begun; .prune/audit.jsonl names each"
    )


def _end_unattended(cli: Cli, directory: Path) -> None:
    """End question sessions whose asker no longer runs: an answer could not be delivered.

    A session that can't be read or ended is reported by the prune that follows, or stays unchanged.
    """
    from .....questions import AtomicReadError
    from .....wiring.bootstrap import open_questions

    with suppress(AtomicReadError):
        open_questions(directory, clock=cli.outside.clock).pending()
