"""Question sessions in a terminal; see docs/questions.md.

Importing this package does not import Textual; `run_terminal` does, and says what to install if it
is missing.
"""

from .errors import NoTerminal, TerminalFailed
from .launch import TerminalEnd, drafts_directory, run_terminal

__all__ = [
    "NoTerminal",
    "TerminalEnd",
    "TerminalFailed",
    "drafts_directory",
    "run_terminal",
]
