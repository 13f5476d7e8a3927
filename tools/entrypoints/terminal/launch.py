"""Starts the application in this terminal."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import frozen

from ...base.errors import ExtraMissing
from .errors import NoTerminal, TerminalFailed
from .theme_name import ThemeName

if TYPE_CHECKING:
    from ...questions import QuestionSessions

_DUMB: Final = frozenset({"dumb", "unknown"})


@frozen(kw_only=True)
class TerminalEnd:
    """Drafts that remain after the application ended.

    Attributes:
        drafts: The ids of sessions that have drafts.
        where: The drafts' directory.
        lost: The texts that could not be saved, each with the reason.
    """

    drafts: tuple[str, ...]
    where: Path
    lost: tuple[str, ...] = ()


def drafts_directory(base_dir: Path) -> Path:
    """Return the drafts' directory for a directory of sessions: beside it, never in it."""
    absolute = Path(os.path.abspath(base_dir))
    return absolute.with_name(f"{absolute.name}-drafts")


def run_terminal(
    sessions: QuestionSessions,
    *,
    first: str | None = None,
    bell: bool = True,
    theme: ThemeName = ThemeName.DARK,
) -> TerminalEnd:
    """Show the questions in this terminal until the person leaves.

    Args:
        sessions: The question sessions.
        first: The session to show at once, or None for the queue.
        bell: Whether the terminal's bell rings when a session arrives.
        theme: The initial colours.

    Raises:
        ExtraMissing: Textual is not installed.
        NoTerminal: Standard input, output or error is not a terminal that supports drawing.
        TerminalFailed: The application failed with an internal error; drafts are on disk.
        QuestionStoreError: The store of the sessions can't be created or does not respond.
    """
    if not _at_terminal():
        raise NoTerminal
    try:
        from .app import QuestionsApp
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        raise ExtraMissing(
            "`agentforge questions`",
            "Textual",
            "terminal",
            ". Until then `agentforge questions history` shows the waiting questions and "
            "`agentforge answer` answers them.",
        ) from error
    from .drafts.draft_store import DraftStore
    from .question_queue import StoredQuestions

    queue = StoredQuestions(sessions)
    queue.prepare()
    where = drafts_directory(sessions.base_dir)
    app = QuestionsApp(queue, DraftStore(where), first=first, bell=bell, theme=theme)
    try:
        app.run()
    finally:
        drafts = app.drafts.save_all()
    if app.fault is not None:
        raise TerminalFailed(app.fault, drafts=where) from app.fault
    return TerminalEnd(drafts=drafts, where=where, lost=tuple(app.drafts.lost))


def _at_terminal() -> bool:
    """Return whether all streams are a terminal; Textual reads stdin and draws on stderr."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(one.isatty() for one in streams) and os.environ.get("TERM") not in _DUMB
