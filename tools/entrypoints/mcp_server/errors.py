"""What can go wrong with the server itself, as typed errors with fields."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from ...base.errors import AgentForgeError, ErrorKind, ExtraMissing


class CallCancelled(AgentForgeError):
    """The client left while its call was under way; the call was cancelled."""

    message = "the client left; the call was cancelled"


class InvalidArguments(AgentForgeError, ValueError):
    """A tool was called with arguments that it does not take; nothing was done."""

    message = """the arguments of {tool} were refused: {faults:;}. Nothing was done; correct them
    and call again (the tool's input schema says what it takes)."""
    tool: str
    faults: Sequence[str]
    """Everything that is wrong, each as "argument: what is wrong"."""


class OutsideProject(AgentForgeError, ValueError, kind=ErrorKind.REFUSED):
    """A client named a folder that is none of the project; nothing was done."""

    message = "{folder!r} is no folder of this server's project: {problem}. Nothing was done."
    folder: str
    problem: str


class UnknownToolSet(AgentForgeError, ValueError, kind=ErrorKind.USAGE):
    """There is no set of tools of this name."""

    message = "there is no set of tools {name!r}; there are: {known:,}. Nothing was started."
    name: str
    known: Sequence[str]


class NotLoopback(AgentForgeError, kind=ErrorKind.USAGE):
    """The server was asked to listen where other machines can reach it, without an explicit yes."""

    message = """{host} is reachable from other machines, and every client of this server can read
    the sessions and run code in the sandbox; nothing was started. Use 127.0.0.1, or add
    --allow-remote and --token-file."""
    host: str


class TokenRequired(AgentForgeError, kind=ErrorKind.USAGE):
    """The server was allowed to listen where other machines can reach it, without a token."""

    message = """--allow-remote without --token-file would let every machine that reaches {host}
    read the sessions and run code in the sandbox; nothing was started. Make a token with (umask
    077; openssl rand -hex 32 > token) and add --token-file token, or leave --allow-remote out."""
    host: str


class AddressUnavailable(AgentForgeError, kind=ErrorKind.CONFLICT):
    """The server can't listen at the address it was given."""

    message = """can't listen on {host} port {port}: {reason}; nothing was started. Stop what uses
    the port, or name another one (--port 0 takes a free one)."""
    host: str
    port: int
    reason: str
    """What the system answered."""


class TokenRefused(AgentForgeError, kind=ErrorKind.USAGE):
    """A file can't serve as the access token."""

    message = """{path} can't be the access token: {reason}; nothing was started. Make one with:
    (umask 077; openssl rand -hex 32 > {path})"""
    path: Path
    reason: str


def require_sdk() -> None:
    """Return if the `mcp` SDK is installed; it is not loaded.

    Raises:
        ExtraMissing: It is not.
    """
    if importlib.util.find_spec("mcp") is None:
        raise ExtraMissing("the MCP server", "the package 'mcp'", "mcp")
