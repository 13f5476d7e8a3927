"""Question sessions in a terminal; see docs/terminal.md.

Importing this package loads no Textual: `run_terminal` does, and says what to install where it is
missing.
"""

from .errors import NoTerminal, TerminalFailed
from .launch import Ended, drafts_directory, run_terminal

__all__ = [
    "Ended",
    "NoTerminal",
    "TerminalFailed",
    "drafts_directory",
    "run_terminal",
]
