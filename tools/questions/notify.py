"""Notifying a person that a question waits: bell, title, desktop notification, command.

Only the first two are on by default. Nothing here can make the asking fail: errors are logged.
Texts of a question are data: they are never part of a command line, and no terminal acts on them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TextIO

from ..base.event_log import get_logger
from ..base.person_notification import BackgroundCommands, Runner, plain
from .config import NotifyConfig
from .domain import QuestionSession
from .files.wire import request_document

_SHOWN_CHARS: Final = 80
_BODY_CHARS: Final = 400

_log = get_logger("agentforge.questions")

Notify = Callable[[QuestionSession], None]
"""Notifies a person of a new question; returns at once and never raises."""


class Notifier:
    """Notifies a person of new questions, as configured.

    The bell and the title are written to the given terminal; without a terminal they are left out.
    The command of `on_question` runs in a shell, in the background, with the session's request.json
    on its standard input and these variables: AGENTFORGE_QUESTION_ID, AGENTFORGE_QUESTION_TITLE,
    AGENTFORGE_QUESTION_PROMPT (of the first question, made plain), AGENTFORGE_QUESTION_COUNT and
    AGENTFORGE_QUESTIONS (the directory, or the store's address). Its output is discarded.
    """

    def __init__(
        self,
        config: NotifyConfig,
        base_dir: Path | str,
        *,
        terminal: TextIO | None = None,
        run: Runner | None = None,
        which: Callable[[str], str | None] = shutil.which,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """Store the settings.

        Args:
            config: The kinds of notification.
            base_dir: The directory of the question sessions, or the address of a store.
            terminal: The terminal of a person, or None.
            run: Runs commands.
            which: Finds programs.
            environment: The environment variables that commands get.
        """
        self._config = config
        self._place = str(base_dir)
        self._terminal = terminal
        self._commands = BackgroundCommands(
            _log, "question.not_told", run=run, which=which, environment=environment
        )

    def notify(self, session: QuestionSession) -> None:
        """Notify the person of a new question; returns at once and never raises."""
        first = session.questions[0] if session.questions else None
        title = plain(first.title, _SHOWN_CHARS) if first is not None else ""
        prompt = plain(first.prompt, _BODY_CHARS) if first is not None else ""
        self._notify_terminal(title)
        about = {
            "AGENTFORGE_QUESTION_ID": session.session_id,
            "AGENTFORGE_QUESTION_TITLE": title,
            "AGENTFORGE_QUESTION_PROMPT": prompt,
            "AGENTFORGE_QUESTION_COUNT": str(len(session.questions)),
            "AGENTFORGE_QUESTIONS": (
                self._place if "://" in self._place else os.path.abspath(self._place)
            ),
        }
        if self._config.desktop:
            self._commands.show_on_desktop(title, prompt)
        if self._config.on_question is not None:
            document = (json.dumps(request_document(session.request)) + "\n").encode()
            self._commands.start_shell("on_question", self._config.on_question, document, about)

    def _notify_terminal(self, title: str) -> None:
        if self._terminal is None or not (self._config.bell or self._config.title):
            return
        try:
            if self._terminal.isatty():
                if self._config.title:
                    self._terminal.write(f"\x1b]2;Question: {title}\x1b\\")
                if self._config.bell:
                    self._terminal.write("\a")
                self._terminal.flush()
        except (OSError, ValueError) as error:  # the terminal was closed
            _log.warning("question.not_told", by="terminal", error=str(error))

    def wait(self) -> None:
        """Wait until the running commands have ended."""
        self._commands.wait()
