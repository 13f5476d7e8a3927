"""`SessionManager` for event loops."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from ...harness import SessionManager
from ...wiring.bootstrap import build_manager
from .faces import ManagerTurns, fed, in_thread, in_turn, iterated
from .thread_call import require_anyio

if TYPE_CHECKING:
    from ...harness import LocalSessions, SessionContext


class AsyncSessionManager:
    """Manager of one session at a time, for an asyncio or trio event loop.

    The methods are those of `SessionManager`, awaited, with its guarantees: when one returns, its
    changes are on disk. Calls run one after another, in the order in which they were awaited;
    callables passed to a method are called in its thread. `async with manager.changes():` holds
    the manager's turn until the block ends; calls inside the block run within that turn.

    Cancellation: a call that still waits for its turn does nothing. A save that has started
    completes before the cancellation is raised. `run_phase()` and `ask()` end soon and record
    nothing: the session, on disk and in memory, is in the state that a killed worker leaves, and
    the next call or the next worker continues from there. No thread is ever left behind.

    For one event loop at a time.
    """

    def __init__(self, manager: SessionManager | LocalSessions | Path | str | None = None) -> None:
        """Create a manager without a session, or wrap an existing manager.

        Args:
            manager: A manager, as `build_manager()` returns it, or the place of the sessions: a
                store, the path of one, or None for `.agentforge/sessions`.

        Raises:
            ExtraMissing: anyio is not installed.
        """
        require_anyio()
        if not isinstance(manager, SessionManager):
            base = manager if isinstance(manager, Path | str) else None
            store = None if isinstance(manager, Path | str) else manager
            manager = build_manager(base, store=store)
        self._wrapped = manager
        self._turns = ManagerTurns(manager)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the manager, even if the block was cancelled."""
        from anyio import CancelScope

        with CancelScope(shield=True):
            await self.close()

    @property
    def synchronous(self) -> SessionManager:
        """The wrapped manager; call its methods only in callables that it calls."""
        return self._wrapped

    @property
    def store(self) -> LocalSessions:
        """The store that holds the sessions; its methods block."""
        return self._wrapped.store

    @property
    def current_session(self) -> SessionContext | None:
        """The manager's current session, or None; between calls it equals what is on disk."""
        return self._wrapped.current_session

    @property
    def can_ask(self) -> bool:
        """Whether `ask()` has a channel to a person."""
        return self._wrapped.can_ask

    create = in_thread(SessionManager.create)
    load = in_thread(SessionManager.load)
    open = in_thread(SessionManager.open)
    exists = in_thread(SessionManager.exists)
    delete = in_thread(SessionManager.delete)
    reload = in_thread(SessionManager.reload)
    release = in_thread(SessionManager.release)
    close = in_thread(SessionManager.close)
    save = in_thread(SessionManager.save)
    changes = in_turn(SessionManager.changes)

    pause = in_thread(SessionManager.pause)
    resume = in_thread(SessionManager.resume)
    complete = in_thread(SessionManager.complete)
    abort = in_thread(SessionManager.abort)

    advance_phase = in_thread(SessionManager.advance_phase)
    retry_phase = in_thread(SessionManager.retry_phase)
    check_executor = in_thread(SessionManager.check_executor)
    run_phase = in_thread(SessionManager.run_phase, waits=True)
    checkpoint_session = in_thread(SessionManager.checkpoint_session)
    workspace_path = in_thread(SessionManager.workspace_path)
    prepare_workspace = in_thread(SessionManager.prepare_workspace)
    checkpoints = in_thread(SessionManager.checkpoints)
    diff = in_thread(SessionManager.diff)
    rewind = in_thread(SessionManager.rewind)
    bring = in_thread(SessionManager.bring)
    begin_phase_again = in_thread(SessionManager.begin_phase_again)
    snapshots_disk_bytes = in_thread(SessionManager.snapshots_disk_bytes)
    sweep_snapshots = in_thread(SessionManager.sweep_snapshots)
    fork = in_thread(SessionManager.fork)

    ask = in_thread(SessionManager.ask, waits=True)

    record_tokens = in_thread(SessionManager.record_tokens)
    extend_budget = in_thread(SessionManager.extend_budget)
    can_continue = in_thread(SessionManager.can_continue)
    require_budget = in_thread(SessionManager.require_budget)

    describe = in_thread(SessionManager.describe)
    set_workflow_state = in_thread(SessionManager.set_workflow_state)
    update_workflow_state = in_thread(SessionManager.update_workflow_state)
    add_artifact = in_thread(SessionManager.add_artifact)
    get_artifacts = in_thread(SessionManager.get_artifacts)
    add_history = in_thread(SessionManager.add_history)
    record = in_thread(SessionManager.record)
    announce = in_thread(SessionManager.announce)
    briefing = in_thread(SessionManager.briefing)

    find = iterated(SessionManager.find)
    children = iterated(SessionManager.children)
    search = in_thread(SessionManager.search)
    page = in_thread(SessionManager.page)
    list = in_thread(SessionManager.list)
    cleanup_old_sessions = in_thread(SessionManager.cleanup_old_sessions)

    end_of_events = in_thread(SessionManager.end_of_events)
    events = fed(SessionManager.events)
