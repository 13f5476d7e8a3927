"""Pruning's part of the composition root: the kinds of sessions, and a whole store.

It builds on `bootstrap`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from ..base.clock import Clock, utc_now
from ..fleet.stores import open_database
from ..harness import SessionState
from .bootstrap import forget_deleted, opened_sessions, pack_index_of

if TYPE_CHECKING:
    from ..fleet.objects.workspace_packs import Collected
    from ..harness.session_ports import LocalSessions
    from ..prune import PruneResult, PruneTarget, RetentionPolicy, StoredSessions


DEFAULT_ENDED_HOURS: Final = 30 * 24.0
"""How long ended agent sessions are retained when no rule is named, in hours."""


@frozen(kw_only=True)
class PruneKind:
    """A kind of sessions that can be pruned.

    Attributes:
        target: Where the sessions are, and how their age is determined.
        max_age_hours: The age at which they are removed when no rule is named, in hours; None if
            the configuration retains them for ever, whatever rule is named.
        states: The states they may be in; none if the kind has no states.

    Sessions that a store has as rows have no directory, no trash and no list of unfinished
    removals.
    """

    target: PruneTarget | StoredSessions
    max_age_hours: float | None
    states: frozenset[str] = frozenset()

    @property
    def directories(self) -> PruneTarget | None:
        """The sessions as directories; None if a store has them as rows."""
        from ..prune import PruneTarget

        return self.target if isinstance(self.target, PruneTarget) else None

    @property
    def stored(self) -> StoredSessions | None:
        """The sessions as rows of a store; None if they are directories."""
        from ..prune import PruneTarget

        return None if isinstance(self.target, PruneTarget) else self.target

    @property
    def is_there(self) -> bool:
        """Whether their directory exists; always true of a store."""
        return self.stored is not None or os.path.lexists(self.target.root)

    def prune(self, policy: RetentionPolicy, **more: Any) -> PruneResult:
        """Prune the sessions; see `prune.prune`."""
        from ..prune import prune

        return prune(self.target, policy, **more)


def prune_kinds(
    base_path: Path | str | None = None,
    *,
    store: LocalSessions | str | None = None,
    workspace_root: Path | str | None = None,
    questions_dir: Path | str | None = None,
) -> dict[str, PruneKind]:
    """Return the kinds of sessions that can be pruned, by name.

    Args:
        base_path: The agent sessions' directory; `.agentforge/sessions` if None.
        store: The agent sessions' store, if not that directory: an open one, or an address for
            `fleet.stores.open_sessions`.
        workspace_root: The sandbox sessions' directory; `workspace` if None.
        questions_dir: The question sessions' directory; the configured one if None.

    Raises:
        questions.InvalidConfig: The configuration can't be used.
    """
    from ..harness.prune_target import HarnessTarget
    from ..questions import DEFAULT_BASE_DIR
    from ..questions.config import load_config
    from ..questions.files.prune_target import QuestionTarget
    from ..questions.session_status import SessionStatus
    from ..sandbox.prune_target import DEFAULT_AGE_HOURS, SandboxTarget
    from ..sandbox.session_workspaces.session_directory import DEFAULT_ROOT

    sandboxes = SandboxTarget(DEFAULT_ROOT if workspace_root is None else Path(workspace_root))
    found = opened_sessions(base_path, store)
    prunable = getattr(found, "prunable", None)  # a store that has sessions as rows
    sessions = HarnessTarget(found.base_path) if prunable is None else prunable()
    config = load_config()
    directory = questions_dir if questions_dir is not None else config.directory
    questions = QuestionTarget(DEFAULT_BASE_DIR if directory is None else Path(directory))
    kept_s = config.questions.retention_s
    return {
        sandboxes.kind: PruneKind(target=sandboxes, max_age_hours=DEFAULT_AGE_HOURS),
        sessions.kind: PruneKind(
            target=sessions,
            max_age_hours=DEFAULT_ENDED_HOURS,
            states=frozenset(state.value for state in SessionState),
        ),
        questions.kind: PruneKind(
            target=questions,
            max_age_hours=kept_s / 3600 if kept_s > 0 else None,
            states=frozenset(state.value for state in SessionStatus),
        ),
    }


def transcripts_kind(sessions: LocalSessions) -> dict[str, PruneKind]:
    """Return the transcripts of agents' conversations as a kind, by its name; empty without any.

    They are no sessions: there is no trash for them, and they are pinned with their sessions.
    """
    from ..agents.transcripts.prune_target import transcript_target

    target = transcript_target(sessions)
    if target.is_empty:
        return {}
    return {target.kind: PruneKind(target=target, max_age_hours=DEFAULT_ENDED_HOURS)}


def prune_store(
    store: str,
    base_path: Path | str | None = None,
    *,
    objects: str | None = None,
    policy: RetentionPolicy | None = None,
    archive: Path | None = None,
    dry_run: bool = False,
    clock: Clock = utc_now,
) -> PruneResult:
    """Remove old sessions from a database, once for all its machines, and their files on this one.

    Safe to run on several machines at once. On each machine it also deletes the directories of
    sessions that were removed elsewhere.

    Args:
        store: The database.
        base_path: The sessions' directory on this machine; `.agentforge/sessions` if None.
        objects: The object store of the workspaces; objects that no session names are removed.
        policy: The sessions to remove; those that ended 30 days ago if None.
        archive: Where to archive each session first; none is archived if None.
        dry_run: Whether to only report what would be removed.
        clock: The time.

    Raises:
        StoreError: The store does not answer or is no database; its log lists what was removed.
    """
    from ..fleet.postgres.store import PostgresStore
    from ..harness.prune_target import CleanUpEvents
    from ..prune import Disposal, PruneEnvironment, RetentionPolicy, TarArchiver, prune

    sessions = PostgresStore(open_database(store), base_path)
    try:
        result = prune(
            sessions.prunable(),
            policy or RetentionPolicy(max_age_hours=DEFAULT_ENDED_HOURS),
            dry_run=dry_run,
            disposal=Disposal(
                archiver=None if archive is None else TarArchiver(directory=archive, clock=clock)
            ),
            observer=CleanUpEvents(),
            outside=PruneEnvironment(clock=clock),
        )
        if not dry_run:
            sessions.clear_directories()
            forget_deleted(sessions)
            collect_packs(sessions, objects)
    finally:
        sessions.close()
    return result


def collect_packs(
    store: LocalSessions, objects: str | None, *, older_than_s: float = 86_400.0
) -> Collected:
    """Remove packs that no session names from the object store; do nothing for files.

    Args:
        store: The sessions.
        objects: The address of the object store, or None.
        older_than_s: Younger packs are retained in any case, in seconds: their worker may be about
            to name them.

    Raises:
        AgentForgeError: The object store or the database does not answer.
    """
    from ..fleet.objects import open_objects
    from ..fleet.objects.workspace_packs import Collected, collect

    index = pack_index_of(store)
    if index is None:
        return Collected()
    opened = None if objects is None else open_objects(objects)
    found = [
        collect(index, one, older_than_s=older_than_s)
        for one in (opened, index.objects)
        if one is not None
    ]
    return Collected(sum(one.objects for one in found), sum(one.size for one in found))
