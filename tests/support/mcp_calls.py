"""Calls of tools without a wire."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from mcp import Client
from mcp.server.mcpserver import Context
from mcp_types import CallToolResult, ClientCapabilities

from agentforge_sessions.entrypoints.mcp_server.server import HarnessServer
from agentforge_sessions.entrypoints.mcp_server.tool import tools_of

Report = Callable[[float, float | None, str | None], Awaitable[None]]


class DirectCall(Context[Any, Any]):
    """A call that no client made, which reports its progress to a function."""

    _report: Report | None

    def __init__(self, report: Report | None = None) -> None:
        super().__init__()
        self._report = report

    @property
    def client_capabilities(self) -> ClientCapabilities | None:
        """None are declared."""
        return None

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Report to the function, if there is one."""
        if self._report is not None:
            await self._report(progress, total, message)


async def answer(owner: object, tool: str, **arguments: object) -> CallToolResult:
    """Return what a client gets that calls a tool of an owner, or one of some tools."""
    tools = owner if isinstance(owner, list | tuple) else tools_of(owner)
    with anyio.fail_after(60):
        async with Client(HarnessServer(tools)) as client:
            return await client.call_tool(tool, arguments)
