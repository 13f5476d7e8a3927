"""The MCP server: its tools, its instructions for the model, and the boundary of each call."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterable, Mapping, MutableMapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, InputRequiredResult, TextContent

from ...base.errors import AgentForgeError
from ...base.event_log import bound_fields, get_logger
from .calls import CancelScopes, beside
from .errors import CallCancelled
from .stdio import Streams
from .tool import Tool, failed

NAME: Final = "agentforge"
_GUIDE: Final = Path(__file__).with_name("instructions.txt")
"""Sentences for the model, each after the tool that it needs; an empty line begins a paragraph."""
_READING: Final = " This server changes nothing; its tools read what is kept."


def instructions(tools: Mapping[str, Tool]) -> str:
    """Return instructions for the use of these tools."""
    text = gap = ""
    for line in _GUIDE.read_text("utf-8").splitlines():
        name, _, said = line.partition("\t")
        if name in {"-", *tools}:
            text += f"{gap}{said}"
        gap = " " if line else "\n\n"
    reads_only = all(one.is_read_only for one in tools.values())
    return text + (_READING if tools and reads_only else "")


_EXCHANGE_KEY: Final = "agentforge.exchange_over"
_log = get_logger("agentforge.mcp")


class ServerStopping(AgentForgeError):
    """The server began to stop during a call."""

    message = """the server is stopping; what was on disk before this call is unchanged, questions
    that it waited for were withdrawn, and code that it ran was stopped. Start the server again and
    look at the session."""


# By the protocol's own rule, the calls of a client that disconnects from a stateful HTTP session
# go on in the session. Here no one could fetch the answer of such a call later, so it is
# cancelled: the application around the SDK's marks each exchange, and sets the mark at its end.


def mark_exchange(scope: MutableMapping[str, Any]) -> anyio.Event:
    """Mark an ASGI exchange and return the event to set when it is over."""
    over = anyio.Event()
    scope[_EXCHANGE_KEY] = over
    return over


def exchange_over(request: object) -> anyio.Event | None:
    """Return the event that is set when the exchange of `request` ends; None if not over HTTP."""
    scope = getattr(request, "scope", None)
    over = scope.get(_EXCHANGE_KEY) if isinstance(scope, MutableMapping) else None
    return over if isinstance(over, anyio.Event) else None


class HarnessServer(MCPServer[Any]):
    """The SDK's server with our tools, errors as results, and cancellable calls."""

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        under_way: CancelScopes | None = None,
        notice: str | None = None,
    ) -> None:
        """Create a server.

        Args:
            tools: The offered tools.
            under_way: The scopes of running calls.
            notice: A notice to the person, sent as a line of the first answer.
        """
        self._notice = notice
        self._tools = {tool.name: tool for tool in tools}
        self._under_way = under_way if under_way is not None else CancelScopes()
        self._prefix = secrets.token_hex(8)
        self._numbers = itertools.count(1)
        super().__init__(
            NAME,
            version=version("agentforge-sessions"),
            title="AgentForge Harness",
            instructions=instructions(self._tools),
            tools=list(self._tools.values()),
            subscriptions=False,
        )

    async def run_over(self, streams: Streams) -> None:
        """Serve one client over a pair of streams until it leaves.

        For transports other than its own, the SDK has a public name only for HTTP sessions.
        """
        self.streamable_http_app()
        server = self.session_manager.app
        await server.run(streams.read, streams.write, server.create_initialization_options())

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool; errors become results, and the call is cancelled when its client leaves.

        Raises:
            MCPError: There is no such tool.
        """
        if name not in self._tools:
            raise MCPError(
                INVALID_PARAMS,
                f"Unknown tool: {name[:100]!r}. There are: {', '.join(self._tools)}.",
            )
        over = exchange_over(context.request_context.request) if context is not None else None
        with bound_fields(call_id=f"mcp-{self._prefix}-{next(self._numbers)}", tool=name):
            _log.info("mcp.call")
            results: list[CallToolResult | InputRequiredResult] = []
            with self._under_way.scope() as scope:

                async def end_with_client() -> None:
                    if over is not None:
                        await over.wait()
                        _log.warning("mcp.client_left")
                        scope.cancel()

                async with beside(end_with_client):
                    results.append(await self._outcome(name, arguments, context))
            if results:
                return self._with_notice(results[0])
            if over is not None and over.is_set():
                return failed(CallCancelled())
            _log.warning("mcp.call_cancelled", reason="stopping")
        return failed(ServerStopping())

    def _with_notice(
        self, result: CallToolResult | InputRequiredResult
    ) -> CallToolResult | InputRequiredResult:
        if self._notice is None or not isinstance(result, CallToolResult):
            return result
        line = TextContent(type="text", text=f"Note for the person: {self._notice}")
        self._notice = None
        return result.model_copy(update={"content": [*result.content, line]})

    async def _outcome(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None
    ) -> CallToolResult | InputRequiredResult:
        try:
            result = await super().call_tool(name, arguments, context)
        except Exception as error:  # noqa: BLE001 (the boundary: no traceback reaches a model)
            match error:
                case AgentForgeError():
                    _log.info("mcp.call_refused", error=type(error).__name__)
                case OSError():
                    _log.warning("mcp.call_failed", error=str(error))
                case _:
                    _log.exception("mcp.call_crashed")
            return failed(error)
        _log.info("mcp.call_done")
        return result
