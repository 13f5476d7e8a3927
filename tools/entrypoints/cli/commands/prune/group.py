"""`agentforge prune`: show the old sessions, ask, and remove them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from attrs import frozen

from ...context import Cli
from ...on_demand import new_group
from ...options import (
    QUESTIONS_OPTION,
    QuestionsDirectory,
    Yes,
    flag,
    misuse,
    option,
    parse_duration,
    parse_size,
)
from ...tree import TREE

if TYPE_CHECKING:
    from .....prune import Disposal, PruneTarget, RetentionPolicy
    from .....wiring.pruning import PruneKind

ALL: Final = "all"
TRANSCRIPTS: Final = "transcripts"
ROOT_OPTION: Final = "--workspace-root"

WorkspaceRoot = Annotated[
    str | None,
    option(f"{ROOT_OPTION} DIR", "Directory of the sandbox sessions; ./workspace by default."),
]


@frozen
class KindOptions:
    """Options that select the kinds of sessions a command applies to.

    Attributes:
        kind: The kind: sandbox, agent, questions, transcripts or all.
    """

    kind: Annotated[
        str,
        option("--kind KIND", default=ALL, show_default=True),
    ]
    workspace_root: WorkspaceRoot
    questions: QuestionsDirectory

    def known(self, cli: Cli) -> dict[str, PruneKind]:
        """Return all kinds, by name.

        Raises:
            typer.BadParameter: The name of a directory is empty.
        """
        from .....wiring.pruning import prune_kinds

        require_text({ROOT_OPTION: self.workspace_root, QUESTIONS_OPTION: self.questions})
        return prune_kinds(
            store=cli.store(), workspace_root=self.workspace_root, questions_dir=self.questions
        )

    def select(self, cli: Cli, *, with_missing: bool = False) -> dict[str, PruneKind]:
        """Return the kinds that `--kind` names.

        `all` leaves out a kind whose default directory does not exist, unless `with_missing`.

        Raises:
            typer.BadParameter: There is no such kind, or the name of a directory is empty.
        """
        kinds = self.known(cli)
        if self.kind == ALL:
            named = {"sandbox": self.workspace_root, "questions": self.questions}
            return {
                name: one
                for name, one in kinds.items()
                if with_missing or named.get(name) is not None or one.is_there
            }
        if self.kind not in kinds:
            known = ", ".join([*kinds, ALL])
            raise misuse("--kind", f"{self.kind!r} is none of {known}")
        return {self.kind: kinds[self.kind]}


def require_text(given: Mapping[str, str | None]) -> None:
    """Reject empty values, such as an unset variable gives: they would mean something else.

    Raises:
        typer.BadParameter: A value is empty.
    """
    for name, value in given.items():
        if value is not None and not value.strip():
            raise misuse(name, "it is empty; nothing was done")


def directories_of(kinds: Mapping[str, PruneKind]) -> list[PruneTarget]:
    """Return the kinds whose sessions are directories; a database has no trash.

    Raises:
        typer.BadParameter: Kinds are given, but none has directories.
    """
    found = [one.directories for one in kinds.values() if one.directories is not None]
    if kinds and not found:
        raise misuse(
            "--kind",
            "these sessions are in a database, which has no trash; an archive brings them back: "
            "restore it into a folder, and copy it from there (agentforge fleet store copy)",
        )
    return found


_TRASH_FOR: Final = "7d"
_WAIT: Final = "60s"
_HOUR: Final = timedelta(hours=1)
_GIB: Final = 1 << 30


@frozen
class RemovalRules:
    """Options that select the sessions to remove.

    Attributes:
        older_than: Remove sessions last used, or ended, longer ago than this, as in 24h or 7d.
        keep_last: Remove all but the N newest of each kind.
        max_size: Remove the oldest until a kind takes no more than this, as in 10GB.
        min_free: Remove the oldest until this much of the disk is free, as in 20GB.
        min_age: With these three: keep what was used or ended within this time, as in 2h; 1h by
            default with --min-free.
        keep_state: Never remove sessions in this state; may be repeated.
        limit: Remove at most N of each kind.
    """

    older_than: timedelta | None = option("--older-than AGE")
    keep_last: int | None = option("--keep-last N", min=0)
    max_size: int | None = option("--max-size BYTES", parser=parse_size)
    min_free: int | None = option("--min-free BYTES", parser=parse_size)
    min_age: timedelta | None = option("--min-age AGE")
    keep_state: list[str] | None = option("--keep-state STATE")
    limit: int | None = option("--limit N", min=0)

    def policy(self, kind: PruneKind) -> RetentionPolicy:
        """Return the policy of a kind: the given rules, else the kind's default age.

        A kind that the configuration keeps for ever has no rules, even if rules were given.
        """
        from .....prune import RetentionPolicy

        if kind.max_age_hours is None:
            return RetentionPolicy()
        rules: dict[str, Any] = {
            "max_age_hours": _hours(self.older_than),
            "max_sessions": self.keep_last,
            "max_total_bytes": self.max_size,
            "min_free_space_gb": None if self.min_free is None else self.min_free / _GIB,
        }
        if all(rule is None for rule in rules.values()):
            rules = {"max_age_hours": kind.max_age_hours}
        return RetentionPolicy(
            **rules,
            keep_states=self.keep_state or (),
            max_deletions=self.limit,
            min_age_hours=_hours(self.min_age),
        )


@frozen
class Removal:
    """Options of the removal: archive, trash, audit log and wait.

    Attributes:
        archive: Keep a verified, compressed tar of each in this directory.
        trash: Move them to the trash for the time of --trash-for.
        audit_log: Write the audit log to this file, for a directory whose disk is full.
    """

    archive: str | None = option("--archive DIR")
    trash: bool = flag("--trash")
    trash_for: timedelta | None = option(
        "--trash-for AGE", f"How long the trash keeps them; {_TRASH_FOR} by default."
    )
    audit_log: str | None = option("--audit-log PATH")
    wait: timedelta = option(
        "--wait TIME",
        f"Maximum wait for another prune of the directory; {_WAIT} by default.",
        _WAIT,
    )

    def disposal(self, cli: Cli) -> Disposal:
        """Return these options as the prune engine takes them.

        Raises:
            typer.BadParameter: A value is empty, or an option lacks the one it needs.
        """
        from .....prune import Disposal, TarArchiver

        require_text({"--archive": self.archive, "--audit-log": self.audit_log})
        if self.trash_for is not None and not self.trash:
            raise misuse(
                "--trash-for",
                "it needs --trash, without which sessions are removed for good; nothing was done",
            )
        archiver = None
        if self.archive is not None:
            archiver = TarArchiver(directory=Path(self.archive), clock=cli.outside.clock)
        return Disposal(
            grace=(self.trash_for or parse_duration(_TRASH_FOR)) if self.trash else None,
            archiver=archiver,
            audit_path=None if self.audit_log is None else Path(self.audit_log),
            lock_timeout_s=self.wait.total_seconds(),
        )


def prune(
    context: typer.Context,
    cli: Cli,
    selection: KindOptions,
    rules: RemovalRules,
    removal: Removal,
    yes: Yes,
    dry_run: bool = flag("--dry-run"),
) -> None:
    """Remove old sessions of every kind; shows what would be removed, and asks first.

    Without a rule: sandbox sessions not used for 24 hours, agent sessions that ended 30 days ago
    and agents' transcripts as old, question sessions whose time in the configuration is over.
    Never: those that can't be dated, are in use, active, paused, pinned or another user's.

    Args:
        dry_run: Only show what would be removed.
    """
    if context.invoked_subcommand is not None:
        _require_no_options(context)
        return
    from .removal import remove
    from .view import Work

    transcripts = _transcripts(cli, selection, rules, removal)
    if selection.kind == TRANSCRIPTS:
        known, kinds = transcripts, transcripts
    else:
        known, kinds = selection.known(cli), {**selection.select(cli), **transcripts}
    states = sorted({state for one in known.values() for state in one.states})
    for state in rules.keep_state or ():  # a misspelt state would let its sessions be removed
        if state not in states:
            raise misuse("--keep-state", f"{state!r} is none of {', '.join(states)}")
    works = [Work(one, rules.policy(one)) for one in kinds.values()]
    missing = {name: one.target.root for name, one in known.items() if name not in kinds}
    if selection.kind != ALL:
        missing = {}
    remove(cli, works, removal.disposal(cli), missing, dry_run=dry_run, yes=yes)


def _transcripts(
    cli: Cli, selection: KindOptions, rules: RemovalRules, removal: Removal
) -> dict[str, PruneKind]:
    """Return the kind of the transcripts if it is selected; not by `all` where it has no trash.

    Raises:
        typer.BadParameter: An option is given that only sessions have.
    """
    if selection.kind not in {ALL, TRANSCRIPTS}:
        return {}
    only = {
        "--trash": removal.trash,
        "--archive": removal.archive is not None,
        "--audit-log": removal.audit_log is not None,
        "--min-free": rules.min_free is not None,
    }
    for name, is_given in only.items():
        if is_given and selection.kind == TRANSCRIPTS:
            raise misuse(name, "transcripts are removed for good, and no session with them")
    if any(only.values()):
        return {}
    from .....wiring.pruning import transcripts_kind

    return transcripts_kind(cli.store())


group = new_group(
    "prune",
    TREE["prune"],
    callback=prune,
    subcommand_metavar="[COMMAND]",
)


def _require_no_options(context: typer.Context) -> None:
    """Reject options of `prune` itself before a subcommand, which would ignore them."""
    for one in context.command.params:
        if not one.name or one.name == "as_json":
            continue
        source = context.get_parameter_source(one.name)
        if source is not None and source.name == "COMMANDLINE":
            raise misuse(
                one.opts[0],
                f"it does not apply to 'agentforge prune {context.invoked_subcommand}', whose own "
                "options stand after it; nothing was done",
            )


def _hours(age: timedelta | None) -> float | None:
    return None if age is None else age / _HOUR
