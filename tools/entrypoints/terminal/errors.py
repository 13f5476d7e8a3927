"""What can go wrong with the terminal itself."""

from __future__ import annotations

from pathlib import Path

from ...base.errors import AgentForgeError, ErrorKind


class TerminalError(AgentForgeError):
    """Base of the terminal's own errors."""


class ExtraMissing(TerminalError):
    """A package that only the terminal needs is not installed.

    Attributes:
        package: The package.
        extra: The extra of ours that brings it.
    """

    kind = ErrorKind.USAGE

    def __init__(self, package: str, *, extra: str = "terminal") -> None:
        super().__init__(
            f"`agentforge questions` needs {package}, which is not installed here; nothing was "
            f"done. Install it with: pip install 'agentforge-sessions[{extra}]'. Until then "
            "`agentforge history` shows the waiting questions and `agentforge answer` answers them."
        )
        self.package = package
        self.extra = extra


class NoTerminal(TerminalError):
    """Standard input, output or error is not a terminal that can be drawn in."""

    kind = ErrorKind.USAGE

    def __init__(self) -> None:
        super().__init__(
            "`agentforge questions` needs a terminal, and standard input, output or error is not "
            "one; nothing was done. Programs use `agentforge history --json` and `agentforge "
            "answer`; `agentforge ui` shows the questions in a browser."
        )


class TerminalFailed(TerminalError):
    """The application stopped because of an internal error.

    Attributes:
        drafts: Where what was typed is kept.
    """

    def __init__(self, cause: BaseException, *, drafts: Path) -> None:
        super().__init__(
            f"the terminal stopped because of an internal error ({type(cause).__name__}: {cause}). "
            f"Nothing was sent; what you typed is kept in {drafts}, and is shown when you start "
            "it again"
        )
        self.drafts = drafts
