"""The sandbox behind `run_code` obeys its token."""

from __future__ import annotations

import threading

from tools.bootstrap import SandboxPhaseExecutor
from tools.harness import SessionManager, SessionStore
from tools.sandbox import CancelToken


def test_code_is_stopped_from_another_thread_and_its_run_recorded(store: SessionStore) -> None:
    token = CancelToken()
    manager = SessionManager(store, executor=SandboxPhaseExecutor(store, kept=0, cancel=token))
    manager.create(goal="g", initial_phase="red")
    timer = threading.Timer(0.5, token.cancel)
    timer.start()
    result = manager.run_phase("while True: pass", deadline_s=100)
    timer.join()
    assert (result.success, result.trapped) == (False, "cancelled")
    assert manager.current_session is not None
    assert manager.current_session.history[-1].action == "phase_failed"
