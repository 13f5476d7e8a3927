"""The sandbox behind `run_code` obeys its token."""

from __future__ import annotations

from agentforge_sessions.base.cancellation import CancelToken
from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.wiring.phases.sandbox_executor import SandboxPhaseExecutor
from tests.support.promptness import when


def test_code_is_stopped_from_another_thread_and_its_run_recorded(store: SessionStore) -> None:
    token = CancelToken()
    manager = SessionManager(store, executor=SandboxPhaseExecutor(store, kept=0, cancel=token))
    session = manager.create(goal="g", initial_phase="red")
    begun = store.workspace_path(session.session_id) / "begun"
    canceller = when(begun.exists, token.cancel)
    result = manager.run_phase("open('begun', 'w')\nwhile True: pass", deadline_s=100)
    canceller.join()
    assert (result.success, result.trapped) == (False, "cancelled")
    assert manager.current_session is not None
    assert manager.current_session.history[-1].action == "phase_failed"
