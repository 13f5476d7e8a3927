"""Removing old question sessions through the prune engine; one that resists keeps no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..event_log import get_logger
from ..prune import Outside, PruneRootMissing, RetentionPolicy, prune
from .domain import CleanupResult
from .prune_target import CleanUpEvents, QuestionTarget

if TYPE_CHECKING:
    from .settings import QuestionsConfig
    from .store import QuestionStore

_log = get_logger("agentforge.questions")


def cleanup(store: QuestionStore, config: QuestionsConfig, outside: Outside) -> CleanupResult:
    """Delete the sessions that changed longer ago than `config.retention_s`, waiting ones too.

    Args:
        store: Where the sessions are.
        config: Says how old is old; with `retention_s` 0 no session is deleted.
        outside: Time, chance and the file system.

    Raises:
        prune.PruneError: The base can't be used, or another prune works on it.
        SessionBusy: Others held the base for too long.
    """
    target = QuestionTarget(store.base_dir, waiting_too=True)
    hours = config.retention_s / 3600 if config.retention_s > 0 else None
    try:
        done = prune(
            target,
            RetentionPolicy(max_age_hours=hours),
            observer=CleanUpEvents(_log),
            outside=outside,
        )
        with store.base_locked() as base_fd:
            hidden = [("", problem) for problem in store.sweep(base_fd)]
    except (PruneRootMissing, FileNotFoundError):
        return CleanupResult()
    failed = [(one.session_id, one.detail) for one in done.skipped]
    failed += list(done.errors.items())
    result = CleanupResult(
        deleted=done.deleted_sessions,
        kept=sum(1 for one in done.decisions if not one.remove),
        failed=[*sorted(failed), *hidden],
    )
    _log.info(
        "questions.cleaned_up",
        deleted=len(result.deleted),
        kept=result.kept,
        failed=len(result.failed),
    )
    return result
