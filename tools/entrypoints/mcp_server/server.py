"""The MCP server: its tools, what it tells the model of them, and where each call goes."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from typing import Any, Final

import anyio
from attrs import define, field
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
)

from ...event_log import get_logger
from .calls import Call
from .client_disconnect import exchange_over
from .errors import McpServerError
from .tool import Tool, failed

NAME: Final = "agentforge"
INSTRUCTIONS: Final = """\
AgentForge keeps long-running work alive beyond this context.

Begin with session_list: if a session of this work is there, read session_brief and go on where \
it stands; else begin one with session_create and keep its id. Move to the next phase with \
session_advance. Run Python in the session's sealed sandbox with run_code (its result is recorded \
in the session); record what you do outside the sandbox with session_record, and tokens that \
neither of them was given with session_record_tokens. End with session_complete. When a call \
returns, its change is on disk: after a crash or a context reset, session_brief has what matters. \
Calls that change one session run one after the other, so you may send several at once.

Ask the person with ask_user_questions whenever a decision is theirs; put questions that belong \
together into one call. It waits for the answers; if your client cancels the call or leaves, the \
questions are withdrawn. With non_blocking it returns an id at once and the questions stay, also \
after your client has left: fetch the answers with get_answered_questions. A person may reject the \
questions, or ask you to elaborate or rephrase: do that and ask again.

An error says what happened, what was kept and what to do. Code that ran but could not be \
recorded is no error: its result says so (recorded: false).
"""

_log = get_logger("agentforge.mcp")


class ServerStopping(McpServerError):
    """The server was told to stop while a call was under way."""

    def __init__(self) -> None:
        super().__init__(
            "the server is stopping; what was on disk before this call is kept, questions that it "
            "waited for were withdrawn, and code that it ran was stopped. Start the server again "
            "and look at the session."
        )


@define
class CallsUnderWay:
    """The calls being served, so that they can be stopped before the server does.

    Attributes:
        stopping: Whether no further call is begun.
    """

    stopping: bool = False
    _scopes: set[anyio.CancelScope] = field(factory=set, init=False)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._scopes)

    def stop(self) -> None:
        """Cancel what is under way and refuse what comes."""
        self.stopping = True
        for scope in self._scopes:
            scope.cancel()

    def begin(self) -> anyio.CancelScope:
        """Return a scope for a call; `end` it."""
        scope = anyio.CancelScope()
        self._scopes.add(scope)
        if self.stopping:
            scope.cancel()
        return scope

    def end(self, scope: anyio.CancelScope) -> None:
        """Forget a call."""
        self._scopes.discard(scope)


def _call_ids() -> Callable[[], str]:
    prefix = secrets.token_hex(8)
    numbers = itertools.count(1)
    return lambda: f"mcp-{prefix}-{next(numbers)}"


def build_server(
    tools: Iterable[Tool],
    *,
    under_way: CallsUnderWay | None = None,
    new_call_id: Callable[[], str] | None = None,
) -> Server[dict[str, Any]]:
    """Make a server of tools.

    Args:
        tools: What it offers.
        under_way: Keeps the calls being served.
        new_call_id: Names each call.
    """
    by_name: Mapping[str, Tool] = {tool.name: tool for tool in tools}
    listings = [tool.listing() for tool in by_name.values()]
    schemas = {listing.name: listing.input_schema for listing in listings}
    calls = under_way if under_way is not None else CallsUnderWay()
    next_id = new_call_id if new_call_id is not None else _call_ids()

    async def list_tools(
        _: ServerRequestContext[dict[str, Any]], __: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=listings)

    async def call_tool(
        context: ServerRequestContext[dict[str, Any]], params: CallToolRequestParams
    ) -> CallToolResult:
        tool = by_name.get(params.name)
        if tool is None:
            raise MCPError(
                INVALID_PARAMS,
                f"Unknown tool: {params.name[:100]!r}. There are: {', '.join(by_name)}.",
            )
        call = Call(call_id=next_id(), report=context.session.report_progress)
        _log.info("mcp.call", tool=tool.name, call_id=call.call_id)
        over = exchange_over(context.request)
        scope = calls.begin()
        try:
            with scope:
                if over is None:
                    return await tool.call(call, params.arguments)
                return await _while_client_listens(tool, call, params.arguments, over)
        finally:
            calls.end(scope)
        _log.warning("mcp.call_cancelled", tool=tool.name, call_id=call.call_id, reason="stopping")
        error = ServerStopping()
        return failed(error, message=str(error))

    return Server(
        NAME,
        version=version("agentforge-sessions"),
        title="AgentForge Harness",
        instructions=INSTRUCTIONS,
        get_tool_input_schema=schemas.get,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def _while_client_listens(
    tool: Tool, call: Call, arguments: Mapping[str, Any] | None, over: anyio.Event
) -> CallToolResult:
    """Do a call, and cancel it when the exchange that carries it is over."""
    results: list[CallToolResult] = []

    async def cancel_when_over() -> None:
        await over.wait()
        _log.warning("mcp.client_left", tool=tool.name, call_id=call.call_id)
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(cancel_when_over)
        results.append(await tool.call(call, arguments))
        group.cancel_scope.cancel()
    if results:
        return results[0]
    error = ClientLeft()
    return failed(error, message=str(error))  # nobody reads it


class ClientLeft(McpServerError):
    """The client went away while its call was under way."""

    def __init__(self) -> None:
        super().__init__("the client went away; the call was cancelled")
