"""Question sessions in a terminal, and the same in a browser; see docs/terminal.md.

Importing this package loads no Textual: `run_terminal` and `run_web` do, and say what to install
where it is missing.
"""

from ..loopback import AddressRefused
from .errors import ExtraMissing, NoTerminal, TerminalError, TerminalFailed
from .launch import DEFAULT_PORT, Ended, drafts_directory, run_terminal, run_web

__all__ = [
    "DEFAULT_PORT",
    "AddressRefused",
    "Ended",
    "ExtraMissing",
    "NoTerminal",
    "TerminalError",
    "TerminalFailed",
    "drafts_directory",
    "run_terminal",
    "run_web",
]
