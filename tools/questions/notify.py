"""Notifying a person that a question waits: bell, title, desktop notification, command.

Only the first two are on by default. Nothing here can fail the asking: what goes wrong is logged.
Texts of a question are data: they are never part of a command line, and no terminal acts on them.
"""

from __future__ import annotations

import html
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TextIO

from ..event_log import get_logger
from .config import NotifyConfig
from .domain import QuestionSession
from .wire import request_document

COMMAND_SECONDS: Final = 30.0
"""How long a command may take; then it is killed, with all that it started."""
_SHOWN_CHARS: Final = 80
_BODY_CHARS: Final = 400

_log = get_logger("agentforge.questions")

Runner = Callable[[Sequence[str], bytes, Mapping[str, str]], int]
"""Runs a command with this standard input and environment; returns its exit code."""


Notify = Callable[[QuestionSession], None]
"""Notifies a person of a new question; returns at once and never raises."""


def plain(text: str, limit: int) -> str:
    """Return text on one line that no terminal acts on, cut to `limit` characters."""
    flat = "".join(char if char.isprintable() else " " for char in text)
    flat = " ".join(flat.split())
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"


class Notifier:
    """Notifies a person of new questions, as the configuration says.

    The bell and the title go to the terminal that is given; without a terminal they are left out.
    The command of `on_question` runs in a shell, in the background, with the session's request.json
    on its standard input and these variables: AGENTFORGE_QUESTION_ID, AGENTFORGE_QUESTION_TITLE,
    AGENTFORGE_QUESTION_PROMPT (of the first question, made plain), AGENTFORGE_QUESTION_COUNT and
    AGENTFORGE_QUESTIONS (the directory, or the store's address). Its output goes nowhere.
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
        """Make a notifier.

        Args:
            config: What to do.
            base_dir: Where the question sessions are: a directory, or the address of a store.
            terminal: The terminal of a person, or None.
            run: Runs commands.
            which: Finds programs.
            environment: The environment variables that commands get.
        """
        self._config = config
        self._place = str(base_dir)
        self._terminal = terminal
        self._run = run if run is not None else run_command
        self._which = which
        self._environment = environment
        self._threads: list[threading.Thread] = []

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
            program = self._which("notify-send")
            if program is None:
                _log.warning("question.not_told", by="desktop", error="notify-send is missing")
            else:
                body = html.escape(prompt, quote=False)
                self._start(
                    "desktop", [program, "--app-name=agentforge", "--", title, body], b"", {}
                )
        if self._config.on_question is not None:
            document = (json.dumps(request_document(session.request)) + "\n").encode()
            self._start("on_question", ["sh", "-c", self._config.on_question], document, about)

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

    def _start(
        self, by: str, command: Sequence[str], data: bytes, about: Mapping[str, str]
    ) -> None:
        def work() -> None:
            try:
                code = self._run(command, data, {**self._environment, **about})
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                _log.warning("question.not_told", by=by, error=str(error))
                return
            if code != 0:
                _log.warning("question.not_told", by=by, error=f"exit code {code}")

        self._threads = [one for one in self._threads if one.is_alive()]
        thread = threading.Thread(target=work, name=f"agentforge-notify-{by}")
        self._threads.append(thread)
        try:
            thread.start()
        except RuntimeError as error:  # no more threads, or the interpreter ends
            _log.warning("question.not_told", by=by, error=str(error))

    def wait(self) -> None:
        """Wait until the commands under way have ended."""
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()


def run_command(
    command: Sequence[str],
    data: bytes,
    environment: Mapping[str, str],
    *,
    timeout_s: float = COMMAND_SECONDS,
) -> int:
    """Run a command in a process group of its own; see `Runner`.

    Raises:
        OSError: It can't be started.
        subprocess.TimeoutExpired: It took too long and was killed with its group.
    """
    with subprocess.Popen(  # noqa: S603 (the person's own configuration names the command)
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=dict(environment),
        start_new_session=True,
    ) as process:
        try:
            process.communicate(data, timeout=timeout_s)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return process.returncode
