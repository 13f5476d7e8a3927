"""Errors of the server itself, typed and with fields."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from ...base.errors import AgentForgeError, ErrorKind, ExtraMissing


class CallCancelled(AgentForgeError):
    """The client left during its call; the call was cancelled."""

    message = "the client left; the call was cancelled"


class InvalidArguments(AgentForgeError, ValueError):
    """A tool was called with invalid arguments; nothing was done."""

    message = """the arguments of {tool} were refused: {faults:;}. Nothing was done; correct them
    and call again (the tool's input schema says what it takes)."""
    tool: str
    faults: Sequence[str]
    """Every fault, each as "argument: what is wrong"."""


class NoOneSession(AgentForgeError, LookupError, kind=ErrorKind.NOT_FOUND):
    """A tool was called without a session, and it is not clear which one is meant."""

    message = """{problem}; nothing was done. The briefing names the session, `find` finds others:
    pass its id as `session`. If there is none, the person's next prompt may begin one."""
    problem: str


class OutsideProject(AgentForgeError, ValueError, kind=ErrorKind.REFUSED):
    """A client named a folder outside the project; nothing was done."""

    message = "{folder!r} is no folder of this server's project: {problem}. Nothing was done."
    folder: str
    problem: str


class UnknownToolSet(AgentForgeError, ValueError, kind=ErrorKind.USAGE):
    """There is no tool set of this name."""

    message = "there is no set of tools {name!r}; there are: {known:,}. Nothing was started."
    name: str
    known: Sequence[str]


class NotLoopback(AgentForgeError, kind=ErrorKind.USAGE):
    """The address is reachable from other machines, which was not allowed explicitly."""

    message = """{host} is reachable from other machines, and every client of this server can read
    the sessions and run code in the sandbox; nothing was started. Use 127.0.0.1, or add
    --allow-remote and --token-file."""
    host: str


class TokenRequired(AgentForgeError, kind=ErrorKind.USAGE):
    """The server may listen where other machines can reach it, but has no token."""

    message = """--allow-remote without --token-file would let every machine that reaches {host}
    read the sessions and run code in the sandbox; nothing was started. Make a token with (umask
    077; openssl rand -hex 32 > token) and add --token-file token, or leave --allow-remote out."""
    host: str


class AddressUnavailable(AgentForgeError, kind=ErrorKind.CONFLICT):
    """The server can't listen at the given address."""

    message = """can't listen on {host} port {port}: {reason}; nothing was started. Stop what uses
    the port, or name another one (--port 0 takes a free one)."""
    host: str
    port: int
    reason: str
    """The system's error."""


class TokenRefused(AgentForgeError, kind=ErrorKind.USAGE):
    """A file can't serve as the access token."""

    message = """{path} can't be the access token: {reason}; nothing was started. Make one with:
    (umask 077; openssl rand -hex 32 > {path})"""
    path: Path
    reason: str


def require_sdk() -> None:
    """Return if the `mcp` SDK is installed, without loading it.

    Raises:
        ExtraMissing: The SDK is not installed.
    """
    if importlib.util.find_spec("mcp") is None:
        raise ExtraMissing("the MCP server", "the package 'mcp'", "mcp")
