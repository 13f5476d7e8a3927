"""Output of a prune of several kinds: the plan before it, and each result after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from attrs import define

from ..... import prune
from .....prune.domain import WORDS, PruneResult, Reason, human_bytes
from .....prune.errors import PruneError
from ...output.documents import error_document, selected
from ...output.text import State, age_text, counted, some_of

if TYPE_CHECKING:
    from pathlib import Path

    from .....wiring.pruning import PruneKind
    from ...context import Cli

_SHOWN: Final = 200
_NAMED: Final = 3

_SPARED: Final = frozenset({Reason.RECENT, Reason.GONE, Reason.BUSY})


@define
class Work:
    """State of one kind of sessions during a prune.

    Attributes:
        kind: The kind of sessions.
        policy: The rules.
        found: The result of the dry run; None if the root can't be read.
        done: The result of the run; None in a dry run, or if the root was refused.
        failed: Why the root was refused, or None.
    """

    kind: PruneKind
    policy: prune.RetentionPolicy
    found: PruneResult | None = None
    done: PruneResult | None = None
    failed: PruneError | None = None

    @property
    def name(self) -> str:
        """The kind's name."""
        return self.kind.target.kind

    @property
    def plan(self) -> PruneResult:
        """The result of the dry run; empty if the root can't be read."""
        return self.found or PruneResult()

    @property
    def removals(self) -> list[prune.Decision]:
        """The decisions to remove a session."""
        return [one for one in self.plan.decisions if one.remove]

    @property
    def is_undone(self) -> bool:
        """Whether a session planned for removal is still there."""
        return self.done is not None and bool(self.done.errors or self.kept())

    def kept(self) -> dict[str, list[str]]:
        """Return the ids of sessions planned for removal that stayed, by the reason in words."""
        found: dict[str, list[str]] = {}
        for one in self._stayed():
            if not _SPARED.issuperset(one.reasons):
                why = ", ".join(WORDS[reason] for reason in one.reasons)
                found.setdefault(why, []).append(one.candidate.session_id)
        planned = {one.candidate.session_id for one in self.removals}
        planned.difference_update(*found.values())
        for left in () if self.done is None else self.done.skipped:
            if left.session_id in planned:
                found.setdefault(_spaced(left.reason), []).append(left.session_id)
        return found

    def spared(self, reason: Reason) -> list[str]:
        """Return the ids of sessions that no longer had to be removed, for this reason alone."""
        return [one.candidate.session_id for one in self._stayed() if one.reasons == (reason,)]

    def _stayed(self) -> Iterator[prune.Decision]:
        if self.done is not None:
            planned = {one.candidate.session_id for one in self.removals}
            planned.difference_update(self.done.deleted_sessions, self.done.errors)
            for one in self.done.decisions:
                if one.candidate.session_id in planned and not one.remove:
                    yield one


def _spaced(reason: str) -> str:
    return str(reason).replace("_", " ")


def _named(ids: Sequence[str]) -> str:
    return some_of(ids, _NAMED)


# ----------------------------------------------------------------------------------------- before


def show(cli: Cli, works: Sequence[Work], *, archived: bool, trashed: bool) -> None:
    """Show what would be removed and why, and what would stay."""
    for work in works:
        if work.failed is not None and work.found is None:
            cli.output.remark(f"warning: {work.name}: {work.failed}")
    removals = [(work, one) for work in works for one in work.removals]
    if removals:
        _show_table(cli, removals)
    for work in works:
        _show_left_alone(cli, work)
    how = "moved to the trash" if trashed else "removed"
    how += ", with an archive of each" if archived else ""
    freed = human_bytes(sum(work.plan.reclaimed_bytes for work in works))
    later = ", which is free once its time there is over" if trashed else ""
    if removals:
        cli.output.line(f"{counted(len(removals))} would be {how}: {freed}{later}.")
    elif works:
        cli.output.line("There is nothing to remove.")
    else:
        cli.output.line("There are no sessions here.")
    due = sum(work.plan.due for work in works)
    if due:
        cli.output.line(f"{counted(due)} more {_are(due)} due, beyond the limit.")
    _show_leftovers(cli, works)


def _show_left_alone(cli: Cli, work: Work) -> None:
    """Show which sessions of a kind would stay and why, and which bounds would not be met."""
    plan = work.plan
    for reason, ids in _grouped((one.reason, one.session_id) for one in plan.skipped).items():
        cli.output.remark(f"left alone, {_spaced(reason)}: {_named(ids)}")
    young = [one.candidate.session_id for one in plan.decisions if one.reasons == (Reason.YOUNG,)]
    if young:
        within = "within --min-age (1h with --min-free)"
        cli.output.remark(f"left alone, used {within}: {_named(young)}")
    for error, ids in _grouped((why, one) for one, why in plan.errors.items()).items():
        cli.output.remark(f"warning: {_named(ids)}: {error}")
    if work.kind.max_age_hours is None:
        cli.output.remark(f"left alone, {work.name}: the configuration keeps them for ever")
    for unmet in plan.unmet:
        cli.output.remark(f"warning: {work.name}: {unmet}")


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _show_table(cli: Cli, removals: Sequence[tuple[Work, prune.Decision]]) -> None:
    now = cli.outside.clock()
    rows = (
        (
            work.name,
            one.candidate.session_id,
            State(one.candidate.state or ""),
            age_text((now - one.candidate.dated_at).total_seconds()),
            human_bytes(one.candidate.size_bytes),
            ", ".join(WORDS[reason] for reason in one.reasons),
        )
        for work, one in removals[:_SHOWN]
    )
    columns = ("KIND", "ID", "STATE", "LAST USED", "SIZE", "WHY")
    cli.output.table(*columns, rows=rows, right=("SIZE",))
    if len(removals) > _SHOWN:
        cli.output.line(f"… and {len(removals) - _SHOWN:,} more (--json names them all)")


def _show_leftovers(cli: Cli, works: Sequence[Work]) -> None:
    """Show what else a run would do: finish what earlier prunes left, and purge expired trash."""
    plans = [work.plan for work in works]
    if begun := sum(len(one.finished_sessions) for one in plans):
        cli.output.line(f"{counted(begun)} that an interrupted prune left would be removed.")
    if swept := [name for one in plans for name in one.swept]:
        cli.output.line(f"Leftovers of dead processes that would be removed: {_named(swept)}.")
    if purged := sum(len(one.purged_sessions) for one in plans):
        cli.output.line(
            f"{counted(purged)} would be deleted from the trash: the time there is over."
        )


# ------------------------------------------------------------------------------------------ after


def report(cli: Cli, works: Sequence[Work], missing: Mapping[str, Path], *, dry_run: bool) -> None:
    """Report the result of each kind."""
    if cli.output.json:
        kinds = {work.name: _document(work) for work in works}
        cli.output.document({"dry_run": dry_run, "kinds": kinds, "missing": missing})
        return
    if dry_run:
        cli.output.line("Nothing was removed: this was a dry run.")
        return
    for work in works:
        if work.done is not None:
            _report_kind(cli, work, work.done)
    for work in works:
        if work.failed is not None and work.found is not None:
            cli.output.remark(f"error: {work.failed}")


def _report_kind(cli: Cli, work: Work, done: PruneResult) -> None:
    for error, ids in _grouped((why, one) for one, why in done.errors.items()).items():
        if len(ids) <= _NAMED:
            for session_id in ids:
                cli.output.remark(f"warning: {session_id}: {error}")
        else:
            cli.output.remark(f"warning: {counted(len(ids))}: {error}: {_named(ids)}")
    for why, ids in work.kept().items():
        were = "was" if len(ids) == 1 else "were"
        cli.output.remark(f"warning: {_named(ids)} {were} kept: {why}")
    if gone := work.spared(Reason.GONE):
        cli.output.remark(
            f"{counted(len(gone))} had been removed by another process: {_named(gone)}"
        )
    if spared := work.spared(Reason.RECENT):
        cli.output.remark(f"{counted(len(spared))} no longer had to be removed: {_named(spared)}")
    if done.busy:
        cli.output.remark(
            f"{work.name}: another prune is at work there; {counted(done.due)} {_are(done.due)} "
            "left to it and to the next one"
        )
    parts = (done.deleted_sessions, done.errors, done.finished_sessions, done.purged_sessions)
    if any(parts) or done.swept:
        cli.output.line(f"{work.name}: {done}.")


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for key, session_id in pairs:
        grouped.setdefault(str(key), []).append(session_id)
    return grouped


def _document(work: Work) -> dict[str, Any]:
    failed = work.failed
    found = work.found if failed is None else None
    result = work.done or found or PruneResult()
    return {
        "root": work.kind.target.root,
        "failed": failed and error_document(failed),
        "deleted": result.deleted_sessions,
        **selected(result, "trashed reclaimed_bytes errors"),
        "unfinished": result.unfinished_sessions,
        "finished": result.finished_sessions,
        "purged": result.purged_sessions,
        **selected(result, "swept due"),
        "unmet": [selected(one, "rule bound stays") for one in result.unmet],
        "busy": result.busy,
        "kept_for_ever": work.kind.max_age_hours is None,
        "archives": result.archives,
        "skipped": [selected(one, "session_id reason detail") for one in result.skipped],
        "decisions": [
            {
                "session_id": one.candidate.session_id,
                **selected(one, "remove reasons"),
                **selected(one.candidate, "dated_at size_bytes state"),
            }
            for one in result.decisions
        ],
        "duration_s": round(result.duration_s, 4),
    }
