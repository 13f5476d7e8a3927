"""The group `agentforge sandbox`."""

from __future__ import annotations

from typing import Final

from ...on_demand import commands_in, new_group

_LISTED: Final = (
    ("exec", "execution:execute", "Run code in a session's workspace."),
    ("shell", "execution", "Type Python at a prompt in a session's workspace."),
    ("list", "files:list_", "List the sandbox sessions, the last used first."),
    ("delete", "files", "Delete a sandbox session with its workspace; asks first."),
    ("ls", "files", "List the files in a session's workspace."),
    ("cat", "files", "Write a file of a session's workspace to standard output."),
    ("put", "files", "Copy a file into a session's workspace."),
    ("rm", "files", "Delete a file or directory of a session's workspace; asks first."),
)
"""Each command's name, module and help, in the order of the help."""


group = new_group(
    "sandbox",
    commands_in(__package__, _LISTED),
    help="Run code in the sandbox, and manage the files of its sessions.",
    short_help="Run code in the sandbox; list and change its files.",
)
