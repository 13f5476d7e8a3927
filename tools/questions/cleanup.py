"""Removing old question sessions; one that resists never keeps the others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import structlog

from tools.durable import DurableError, RemovalError
from tools.questions.domain import CleanupResult
from tools.questions.errors import QuestionError, SessionNotFound
from tools.questions.settings import QuestionsConfig
from tools.questions.store import QuestionStore

_log = structlog.get_logger("agentforge.questions")
_LOCK_WAIT_S = 0.5


def cleanup(store: QuestionStore, config: QuestionsConfig, now: datetime) -> CleanupResult:
    """Delete the sessions that last changed longer ago than `config.retention_s`.

    A session whose status can't be read counts from the last change of its directory. The age is
    read again under the session's lock, so a session that somebody is changing stays.

    Args:
        store: Where the sessions are.
        config: Says how old is old; with `retention_s` 0 nothing is deleted.
        now: The time, aware.

    Raises:
        AtomicReadError: The base is there and can't be read.
        SessionBusy: Others held the base for too long.
    """
    names = store.names()
    deleted: list[tuple[datetime, str]] = []
    failed: list[tuple[str, str]] = []
    kept = 0
    horizon = now - timedelta(seconds=config.retention_s) if config.retention_s else None
    for name in names:
        try:
            changed = _last_change(store, name)
            if horizon is not None and changed < horizon and _remove(store, name, horizon):
                deleted.append((changed, name))
            else:
                kept += 1
        except RemovalError as error:  # out of every listing; the next clean-up empties it
            deleted.append((now, name))
            failed.append((name, str(error)))
        except SessionNotFound:
            continue
        except (QuestionError, DurableError, OSError) as error:
            failed.append((name, str(error)))
            _log.warning("question.cleanup_failed", session_id=name, error=str(error))
    try:
        with store.base_locked() as base_fd:
            failed += [("hidden", problem) for problem in store.sweep(base_fd)]
    except FileNotFoundError:
        pass
    deleted.sort()
    result = CleanupResult(
        deleted=tuple(name for _, name in deleted), kept=kept, failed=tuple(failed)
    )
    _log.info(
        "questions.cleaned_up",
        deleted=len(result.deleted),
        kept=result.kept,
        failed=len(result.failed),
    )
    return result


def _recorded_change(store: QuestionStore, name: str) -> datetime | None:
    """Return when a session changed last, by its status; None if that can't be read.

    Raises:
        SessionNotFound: It is gone.
    """
    try:
        record = store.read_record(name)
    except SessionNotFound:
        raise
    except QuestionError:
        return None
    return max(record.created_at, record.last_modified)


def _last_change(store: QuestionStore, name: str) -> datetime:
    """Return when a session changed last: by its status or, without one, by its directory."""
    signature = store.signature(name)
    if signature is None:
        raise SessionNotFound(name, path=store.base_dir)
    recorded = _recorded_change(store, name)
    return recorded or datetime.fromtimestamp(signature.changed_ns / 1e9, UTC)


def _remove(store: QuestionStore, name: str, horizon: datetime) -> bool:
    """Delete a session if it is still old; return whether it was."""
    with store.base_locked() as base_fd, store.locked(name, timeout_s=_LOCK_WAIT_S):
        recorded = _recorded_change(store, name)
        if recorded is not None and recorded >= horizon:
            return False
        store.discard(base_fd, name)
    _log.info("question.deleted", session_id=name)
    return True
