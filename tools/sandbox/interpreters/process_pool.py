"""The pool of interpreters of this process: its size, its state, its end."""

from __future__ import annotations

import atexit
import os
import threading
from typing import TYPE_CHECKING, Final, Protocol

from attrs import evolve

from ...base.errors import shown
from ...base.event_log import get_logger
from ..policy import ExecutionPolicy
from .interpreter_class import InterpreterClass
from .ready_interpreters import ReadyInterpreters
from .runtime import ensure_ready

if TYPE_CHECKING:
    from ..compiled.status import PoolStats

POOL_VARIABLE: Final = "AGENTFORGE_SANDBOX_POOL"
"""The environment variable that sets the pool's size before anything else does."""

RESTORE_VARIABLE: Final = "AGENTFORGE_SANDBOX_RESTORE"
"""The environment variable that, set to 0, has every interpreter used once only."""

DEFAULT_POOL_SIZE: Final = 2
MAX_POOL_SIZE: Final = 64

_log = get_logger("agentforge.sandbox")

_pool_lock = threading.Lock()
_pool: ReadyInterpreters | None = None
_restore: bool | None = None
_abandoned: list[ReadyInterpreters] = []
_beside: KeptBeside | None = None


class KeptBeside(Protocol):
    """What is kept ready beside interpreters, and ends with them."""

    def count(self) -> int:
        """How many there are."""

    def close(self) -> None:
        """End them."""


def keep_beside(kept: KeptBeside) -> None:
    """Have the worker process that is kept ready counted and closed with the pool."""
    global _beside  # noqa: PLW0603 (one for the process)
    _beside = kept


def keeps_spare_worker() -> bool:
    """Return whether a worker process is kept ready: where interpreters are."""
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
        # A value other than these asks for less than what is usual.
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
    """The pool of this process."""
    global _pool, _restore  # noqa: PLW0603 (one for the process)
    with _pool_lock:
        if _pool is None:
            if _restore is None:
                _restore = _restore_from_environment()
            _pool = _new_pool(_size_from_environment(), restore=_restore)
        return _pool


def configure_pool(size: int = DEFAULT_POOL_SIZE, *, restore: bool | None = None) -> None:
    """Keep this many interpreters ready; also after `close_pool`.

    Args:
        size: 0 to 64; 0 switches the pool off, and each execution opens its own interpreter; no
            worker process is kept ready then.
        restore: Whether a used interpreter is made what it was and used again, or closed. None
            leaves that as it is: at first as the variable `AGENTFORGE_SANDBOX_RESTORE` says, else
            True.

    Raises:
        ValueError: The size is refused; the pool is as it was.
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
    """What the pool of this process did so far."""
    stats = the_pool().stats()
    return stats if _beside is None else evolve(stats, spare_workers=_beside.count())


def close_pool() -> None:
    """Close the interpreters opened ahead and stop opening more; executions open their own.

    The worker process that is kept ready is ended, too. Done by itself when the process ends.
    `configure_pool` starts again.
    """
    the_pool().close()
    _close_beside()


def _close_beside() -> None:
    if _beside is not None:
        _beside.close()


def warm_pool(*, policy: ExecutionPolicy | None = None) -> None:
    """Fill the pool, and return once it is full; before the first execution, too.

    A pool that is off or closed is as full as it gets.

    Args:
        policy: Have interpreters for executions under this policy ready. None has those of the
            last execution's, and before the first those of the default policy.

    Raises:
        SandboxUnavailable: This process or machine cannot run guests now.
    """
    pool = the_pool()
    kind = pool.wanted if policy is None else None
    pool.fill(kind or InterpreterClass.of(policy or ExecutionPolicy(), ensure_ready()))


def _new_pool(size: int, *, restore: bool) -> ReadyInterpreters:
    atexit.unregister(_at_exit)
    atexit.register(_at_exit)
    return ReadyInterpreters(size, restore=restore)


def _at_exit() -> None:
    if _pool is not None:
        _pool.close()


def _after_fork() -> None:
    """A forked child has no pool thread and may touch no interpreter of its parent."""
    global _pool, _pool_lock  # noqa: PLW0603
    _pool_lock = threading.Lock()
    if _pool is not None:
        _abandoned.append(_pool)  # kept, so that nothing of the parent's is closed here
        _pool = ReadyInterpreters(0)


os.register_at_fork(after_in_child=_after_fork)
