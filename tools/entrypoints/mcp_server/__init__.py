"""The harness and its questions as tools of an MCP server, for AI clients.

    agentforge mcp                 # over standard input and output
    agentforge mcp --http          # streamable HTTP on loopback

`mcp_server.serving` runs it. Importing this package loads neither the `mcp` SDK nor any other
optional dependency; `require_sdk` checks that the SDK is installed.
"""

from __future__ import annotations

from .errors import (
    AddressUnavailable,
    InvalidArguments,
    NotLoopback,
    TokenRefused,
    TokenRequired,
    UnknownToolSet,
    require_sdk,
)
from .offer import EVERYTHING, Offer, ToolSet

__all__ = [
    "EVERYTHING",
    "AddressUnavailable",
    "InvalidArguments",
    "NotLoopback",
    "Offer",
    "TokenRefused",
    "TokenRequired",
    "ToolSet",
    "UnknownToolSet",
    "require_sdk",
]
