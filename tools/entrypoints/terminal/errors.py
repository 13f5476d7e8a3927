"""Errors of the terminal interface itself."""

from __future__ import annotations

from pathlib import Path

from ...base.errors import AgentForgeError, ErrorKind


class NoTerminal(AgentForgeError, kind=ErrorKind.USAGE):
    """Standard input, output or error is not a terminal that supports drawing."""

    message = """`agentforge questions` needs a terminal, and standard input, output or error is not
    one; nothing was done. Programs use `agentforge questions history --json` and `agentforge
    answer`; `agentforge ui` shows the questions in a browser."""


class TerminalFailed(AgentForgeError):
    """The application stopped because of an internal error."""

    message = """the terminal stopped because of an internal error ({problem}). Nothing was sent;
    what you typed is in {drafts}, and is shown when you start it again"""
    cause: BaseException
    drafts: Path
    """The directory of the drafts, which hold the typed text."""

    @property
    def problem(self) -> str:
        """The type and message of the cause."""
        return f"{type(self.cause).__name__}: {self.cause}"
