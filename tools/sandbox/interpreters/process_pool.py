"""This process's pool of interpreters: its size, its counts, its end."""

from __future__ import annotations

import atexit
import os
import threading
from typing import TYPE_CHECKING, Final, Protocol

from attrs import evolve

from ...base.errors import shown
from ...base.event_log import get_logger
from ..policy import DEFAULT_FUEL, ExecutionPolicy
from .interpreter_class import InterpreterClass
from .ready_interpreters import ReadyInterpreters
from .runtime import ensure_ready

if TYPE_CHECKING:
    from ..compiled.status import PoolStats

POOL_VARIABLE: Final = "AGENTFORGE_SANDBOX_POOL"
"""The environment variable that sets the pool's size before anything else does."""

RESTORE_VARIABLE: Final = "AGENTFORGE_SANDBOX_RESTORE"
"""The environment variable that, set to 0, makes every interpreter single-use."""

DEFAULT_POOL_SIZE: Final = 2
MAX_POOL_SIZE: Final = 64

_log = get_logger("agentforge.sandbox")

_pool_lock = threading.Lock()
_pool: ReadyInterpreters | None = None
_restore: bool | None = None
_abandoned: list[ReadyInterpreters] = []
_beside: KeptBeside | None = None


class KeptBeside(Protocol):
    """What is kept ready along with interpreters, and is closed with them."""

    def count(self) -> int:
        """Return how many there are."""

    def close(self) -> None:
        """End them."""


def keep_beside(kept: KeptBeside) -> None:
    """Register the spare worker process to be counted and closed with the pool."""
    global _beside  # noqa: PLW0603 (one for the process)
    _beside = kept


def keeps_spare_worker() -> bool:
    """Return whether to keep a worker process ready: only if interpreters are."""
    pool = the_pool()
    return pool.size > 0 and not pool.closed


def _size_from_environment() -> int:
    text = os.environ.get(POOL_VARIABLE, "").strip()
    if not text:
        return DEFAULT_POOL_SIZE
    try:
        return _checked_size(int(text))
    except ValueError:
        _log.warning(
            "pool.size_ignored", variable=POOL_VARIABLE, value=shown(text), used=DEFAULT_POOL_SIZE
        )
        return DEFAULT_POOL_SIZE


def _restore_from_environment() -> bool:
    text = os.environ.get(RESTORE_VARIABLE, "").strip()
    if text not in {"", "0", "1"}:
        # Any other value is taken as a wish for less than the default.
        _log.warning("pool.restore_ignored", variable=RESTORE_VARIABLE, value=shown(text), used="0")
    return text in {"", "1"}


def _checked_size(size: object) -> int:
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= MAX_POOL_SIZE:
        raise ValueError(
            f"the size of the interpreter pool must be an integer from 0 to {MAX_POOL_SIZE}, not "
            f"{shown(size)}; the pool is as it was"
        )
    return size


def the_pool() -> ReadyInterpreters:
    """Return this process's pool."""
    global _pool, _restore  # noqa: PLW0603 (one for the process)
    with _pool_lock:
        if _pool is None:
            if _restore is None:
                _restore = _restore_from_environment()
            _pool = _new_pool(_size_from_environment(), restore=_restore)
        return _pool


def configure_pool(size: int = DEFAULT_POOL_SIZE, *, restore: bool | None = None) -> None:
    """Set how many interpreters are kept ready; also reopens a closed pool.

    Args:
        size: 0 to 64; 0 turns the pool off: each execution opens its own interpreter, and no spare
            worker process is kept ready.
        restore: Whether a used interpreter is restored for another use, or closed. None leaves the
            setting unchanged; initially it comes from `AGENTFORGE_SANDBOX_RESTORE`, by default
            True.

    Raises:
        ValueError: The size is refused; the pool is unchanged.
    """
    global _pool, _restore  # noqa: PLW0603
    checked = _checked_size(size)
    with _pool_lock:
        if restore is not None:
            _restore = restore
        elif _restore is None:
            _restore = _restore_from_environment()
        restoring = _restore
        if _pool is not None and not _pool.closed:
            pool = _pool
        else:
            pool = _pool = _new_pool(checked, restore=restoring)
    pool.resize(checked, restore=restoring)
    if checked == 0:
        _close_beside()


def pool_stats() -> PoolStats:
    """Return the counts of this process's pool so far."""
    stats = the_pool().stats()
    return stats if _beside is None else evolve(stats, spare_workers=_beside.count())


def close_pool() -> None:
    """Close the interpreters opened ahead and open no more; executions open their own.

    Ends the spare worker process, too. Called automatically when the process ends. `configure_pool`
    reopens the pool.
    """
    the_pool().close()
    _close_beside()


def _close_beside() -> None:
    if _beside is not None:
        _beside.close()


def warm_pool(*, policy: ExecutionPolicy | None = None) -> None:
    """Fill the pool, and return once it is full; may precede the first execution.

    Does nothing if the pool is off or closed.

    Args:
        policy: The policy to prepare interpreters for. None means the last execution's policy, or
            the default policy before the first execution.

    Raises:
        SandboxUnavailable: This process or machine cannot run guests now.
    """
    pool = the_pool()
    kind = pool.wanted if policy is None else None
    policy = policy or ExecutionPolicy()
    cache = ensure_ready(metered=policy.fuel_budget != DEFAULT_FUEL)
    pool.fill(kind or InterpreterClass.of(policy, cache))


def _new_pool(size: int, *, restore: bool) -> ReadyInterpreters:
    atexit.unregister(_at_exit)
    atexit.register(_at_exit)
    return ReadyInterpreters(size, restore=restore)


def _at_exit() -> None:
    if _pool is not None:
        _pool.close()


def _after_fork() -> None:
    """Give a forked child a pool of its own; it must not touch its parent's interpreters."""
    global _pool, _pool_lock  # noqa: PLW0603
    _pool_lock = threading.Lock()
    if _pool is not None:
        _abandoned.append(_pool)  # referenced, so that nothing of the parent's is closed
        _pool = ReadyInterpreters(0)


os.register_at_fork(after_in_child=_after_fork)
