"""The asynchronous face: sessions, sandboxes and workflows from an event loop of asyncio or trio.

    from agentforge_sessions.entrypoints.aio import AsyncSessionManager

    manager = AsyncSessionManager()
    session = await manager.create("tdflow", "red", goal="An interval scheduler")
    with anyio.move_on_after(60):
        await manager.run_phase(code)       # ended with the scope; the session is whole

Each method is the one of the synchronous class, run in a thread of its own while the loop goes on;
there is no second copy of the rules. It needs the extra `async` (anyio).
"""

from typing import TYPE_CHECKING

from ...base.exports import on_first_use

if TYPE_CHECKING:
    from .event_feed import AsyncEventFeed
    from .manager import AsyncSessionManager
    from .runner import AsyncWorkflowRunner
    from .sandbox import AsyncSandbox
else:
    __getattr__ = on_first_use(
        __name__,
        {
            "event_feed": "AsyncEventFeed",
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
