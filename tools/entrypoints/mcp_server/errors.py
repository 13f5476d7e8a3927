"""What can go wrong with the server itself, as typed errors with fields."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path

from ...base.errors import AgentForgeError, ErrorKind


class McpServerError(AgentForgeError):
    """Base of the MCP server's own errors."""


class McpUnavailable(McpServerError):
    """The `mcp` SDK, which only this command needs, is not installed.

    Attributes:
        package: What is missing.
    """

    kind = ErrorKind.NOT_DONE

    def __init__(self, package: str = "mcp") -> None:
        super().__init__(
            f"the MCP server needs the package {package!r}, which is not installed; nothing was "
            "started. Install it with: pip install 'agentforge-sessions[mcp]'"
        )
        self.package = package


class InvalidArguments(McpServerError, ValueError):
    """A tool was called with arguments that it does not take; nothing was done.

    Attributes:
        tool: The tool.
        faults: Everything that is wrong, each as "argument: what is wrong".
    """

    def __init__(self, tool: str, faults: Iterable[str]) -> None:
        self.tool = tool
        self.faults = tuple(faults)
        super().__init__(
            f"the arguments of {tool} were refused: {'; '.join(self.faults)}. Nothing was done; "
            "correct them and call again (the tool's input schema says what it takes)."
        )


class OutsideProject(McpServerError, ValueError):
    """A client named a folder that is none of the project; nothing was done.

    Attributes:
        folder: What it named.
        problem: Why not.
    """

    kind = ErrorKind.REFUSED

    def __init__(self, folder: str, problem: str) -> None:
        super().__init__(
            f"{folder[:200]!r} is no folder of this server's project: {problem}. Nothing was done."
        )
        self.folder = folder
        self.problem = problem


class UnknownToolSet(McpServerError, ValueError):
    """There is no set of tools of this name.

    Attributes:
        name: What was given.
        known: The sets there are.
    """

    kind = ErrorKind.USAGE

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(known)
        super().__init__(
            f"there is no set of tools {name!r}; there are: {', '.join(self.known)}. Nothing was "
            "started."
        )


class _Exposed(McpServerError):
    kind = ErrorKind.USAGE
    _TEXT = ""

    def __init__(self, host: str) -> None:
        super().__init__(self._TEXT.format(host=host))
        self.host = host


class NotLoopback(_Exposed):
    """The server was asked to listen where other machines can reach it, without an explicit yes.

    Attributes:
        host: The address.
    """

    _TEXT = (
        "{host} is reachable from other machines, and every client of this server can read the "
        "sessions and run code in the sandbox; nothing was started. Use 127.0.0.1, or add "
        "--allow-remote and --token-file."
    )


class TokenRequired(_Exposed):
    """The server was allowed to listen where other machines can reach it, without a token.

    Attributes:
        host: The address.
    """

    _TEXT = (
        "--allow-remote without --token-file would let every machine that reaches {host} read the "
        "sessions and run code in the sandbox; nothing was started. Make a token with (umask 077; "
        "openssl rand -hex 32 > token) and add --token-file token, or leave --allow-remote out."
    )


class AddressUnavailable(McpServerError):
    """The server can't listen at the address it was given.

    Attributes:
        host: The address.
        port: The TCP port.
        reason: What the system answered.
    """

    kind = ErrorKind.CONFLICT

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(
            f"can't listen on {host} port {port}: {reason}; nothing was started. Stop what uses "
            "the port, or name another one (--port 0 takes a free one)."
        )
        self.host = host
        self.port = port
        self.reason = reason


class TokenRefused(McpServerError):
    """A file can't serve as the access token.

    Attributes:
        path: The file.
        reason: What is wrong with it.
    """

    kind = ErrorKind.USAGE

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path} can't be the access token: {reason}; nothing was started. Make one with: "
            f"(umask 077; openssl rand -hex 32 > {path})"
        )
        self.path = path
        self.reason = reason


def require_sdk() -> None:
    """Return if the `mcp` SDK is installed; it is not loaded.

    Raises:
        McpUnavailable: It is not.
    """
    if importlib.util.find_spec("mcp") is None:
        raise McpUnavailable
