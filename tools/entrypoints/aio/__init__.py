"""Asynchronous API: sessions, sandboxes and workflows from an asyncio or trio event loop.

    from agentforge_sessions.entrypoints.aio import AsyncSessionManager

    manager = AsyncSessionManager()
    session = await manager.create("tdflow", "red", goal="An interval scheduler")
    with anyio.move_on_after(60):
        await manager.run_phase(code)       # ends with the scope; the session is intact

Each method runs the synchronous class's method in a separate thread while the loop continues; the
rules exist only once. Requires the extra `async` (anyio).
"""

from typing import TYPE_CHECKING

from ...base.exports import on_first_use

if TYPE_CHECKING:
    from .faces import AsyncEventFeed
    from .manager import AsyncSessionManager
    from .runner import AsyncWorkflowRunner
    from .sandbox import AsyncSandbox
else:
    __getattr__ = on_first_use(
        __name__,
        {
            "faces": "AsyncEventFeed",
            "manager": "AsyncSessionManager",
            "runner": "AsyncWorkflowRunner",
            "sandbox": "AsyncSandbox",
        },
    )

__all__ = [
    "AsyncEventFeed",
    "AsyncSandbox",
    "AsyncSessionManager",
    "AsyncWorkflowRunner",
]
