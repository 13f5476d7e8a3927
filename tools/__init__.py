"""AgentForge Harness: durable, resumable sessions for long-running agents.

    from agentforge_sessions import build_manager

    manager = build_manager()
    session = manager.create("tdflow", "red", token_budget=50_000, goal="An interval scheduler")

Exports what most programs need. Each name loads its package on first access, so that importing this
package costs next to nothing. The subpackages have the rest.
"""

from typing import TYPE_CHECKING

from .base.exports import on_first_use

if TYPE_CHECKING:
    from .agents.running import CommandAgent
    from .base.errors import AgentForgeError
    from .base.release import __version__
    from .base.result import Failure, Success, attempt
    from .entrypoints.aio import AsyncSandbox, AsyncSessionManager, AsyncWorkflowRunner
    from .entrypoints.durable import AsyncSession, Budget, Retry, Session, Spend, session
    from .harness import (
        HarnessError,
        PhaseResult,
        SessionContext,
        SessionManager,
        SessionState,
        SessionStore,
    )
    from .prune import RetentionPolicy
    from .questions import QuestionSessions
    from .sandbox import (
        ExecutionPolicy,
        Sandbox,
        SandboxResult,
        create_sandbox,
        create_session_sandbox,
        prune_sessions,
    )
    from .wiring.bootstrap import build_agent_runner, build_manager, build_runner
    from .workflows import AgentWork, load_workflow
else:
    __getattr__ = on_first_use(
        __name__,
        {
            "entrypoints.aio": "AsyncSandbox AsyncSessionManager AsyncWorkflowRunner",
            "entrypoints.durable": "AsyncSession Budget Retry Session Spend session",
            "wiring.bootstrap": "build_agent_runner build_manager build_runner",
            "base.errors": "AgentForgeError",
            "harness": "HarnessError PhaseResult SessionContext SessionManager SessionState "
            "SessionStore",
            "prune": "RetentionPolicy",
            "questions": "QuestionSessions",
            "base.result": "Failure Success attempt",
            "base.release": "__version__",
            "sandbox": "ExecutionPolicy Sandbox SandboxResult create_sandbox "
            "create_session_sandbox prune_sessions",
            "agents.running": "CommandAgent",
            "workflows": "AgentWork load_workflow",
        },
    )

__all__ = [
    "AgentForgeError",
    "AgentWork",
    "AsyncSandbox",
    "AsyncSession",
    "AsyncSessionManager",
    "AsyncWorkflowRunner",
    "Budget",
    "CommandAgent",
    "ExecutionPolicy",
    "Failure",
    "HarnessError",
    "PhaseResult",
    "QuestionSessions",
    "RetentionPolicy",
    "Retry",
    "Sandbox",
    "SandboxResult",
    "Session",
    "SessionContext",
    "SessionManager",
    "SessionState",
    "SessionStore",
    "Spend",
    "Success",
    "__version__",
    "attempt",
    "build_agent_runner",
    "build_manager",
    "build_runner",
    "create_sandbox",
    "create_session_sandbox",
    "load_workflow",
    "prune_sessions",
    "session",
]
