"""Notify a person away from the terminal: a desktop notification, and a command of their own.

Both run in the background, in threads that end with the commands. Nothing here fails the work:
errors are logged. Texts are data: they are never part of a command line that a shell parses.
"""

from __future__ import annotations

import html
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from attrs import define, field

COMMAND_SECONDS: Final = 30.0
"""The time limit of a command; then it is killed, with all that it started."""
MOST_WAITING: Final = 100
"""How many commands for one purpose may wait in line."""
_OSASCRIPT: Final = (
    "on run argv\ndisplay notification (item 2 of argv) with title (item 1 of argv)\nend run"
)

Runner = Callable[[Sequence[str], bytes, Mapping[str, str]], int]
"""Runs a command with this standard input and environment; returns its exit code."""


def plain(text: str, limit: int) -> str:
    """Return text on one line without terminal control characters, cut to `limit` characters."""
    flat = "".join(char if char.isprintable() else " " for char in text)
    flat = " ".join(flat.split())
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"


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


def _runner(given: Runner | None) -> Runner:
    return given if given is not None else run_command


@define(eq=False)
class BackgroundCommands:
    """Runs commands in the background, each in a thread, and logs those that fail.

    Args:
        log: A structlog logger.
        failed: The event that is logged for a failed command; with `by` and `error`.
        run: Runs a command.
        which: Finds programs.
        environment: The environment variables of the commands.
        platform: The operating system, as `sys.platform` names it.
    """

    _log: Any
    _failed: str
    _run: Runner = field(default=None, converter=_runner, kw_only=True)
    _which: Callable[[str], str | None] = field(default=shutil.which, kw_only=True)
    _environment: Mapping[str, str] = field(default=os.environ, kw_only=True)
    _platform: str = field(default=sys.platform, kw_only=True)
    _threads: list[threading.Thread] = field(factory=list, init=False)

    def show_on_desktop(self, title: str, body: str) -> None:
        """Show a desktop notification: by `notify-send`, on macOS by `osascript`.

        Args:
            title: Its title, plain.
            body: Its text, plain; markup in it has no effect.
        """
        name = "osascript" if self._platform == "darwin" else "notify-send"
        program = self._which(name)
        if program is None:
            self._log.warning(self._failed, by="desktop", error=f"{name} is missing")
        elif name == "osascript":
            self.start("desktop", [program, "-e", _OSASCRIPT, "--", title, body], b"", {})
        else:
            shown = html.escape(body, quote=False)
            self.start("desktop", [program, "--app-name=agentforge", "--", title, shown], b"", {})

    def start_shell(
        self, by: str, command_line: str, data: bytes, about: Mapping[str, str]
    ) -> None:
        """Start a person's own command line in a shell; see `start`."""
        self.start(by, ["sh", "-c", command_line], data, about)

    def start(self, by: str, command: Sequence[str], data: bytes, about: Mapping[str, str]) -> None:
        """Start a command.

        Args:
            by: Its purpose, for the log.
            command: The program and its arguments.
            data: Its standard input.
            about: Additional environment variables.
        """
        self._in_thread(by, lambda: self._work(by, command, data, about))

    def _in_thread(self, by: str, work: Callable[[], None]) -> None:
        self._threads = [one for one in self._threads if one.is_alive()]
        thread = threading.Thread(target=work, name=f"agentforge-notify-{by}")
        self._threads.append(thread)
        try:
            thread.start()
        except RuntimeError as error:  # no more threads, or the interpreter is ending
            self._log.warning(self._failed, by=by, error=str(error))

    def _work(self, by: str, command: Sequence[str], data: bytes, about: Mapping[str, str]) -> None:
        try:
            code = self._run(command, data, {**self._environment, **about})
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self._log.warning(self._failed, by=by, error=str(error))
            return
        if code != 0:
            self._log.warning(self._failed, by=by, error=f"exit code {code}")

    def wait(self) -> None:
        """Wait until all running commands have ended."""
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()


@define(eq=False)
class OrderedCommands(BackgroundCommands):
    """Background commands in start order, one at a time for each purpose.

    For commands that may come in great numbers: at most `MOST_WAITING` wait; further ones are
    dropped and logged.
    """

    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _lines: dict[str, deque[Callable[[], None]]] = field(factory=dict, init=False)

    def start(self, by: str, command: Sequence[str], data: bytes, about: Mapping[str, str]) -> None:
        """Start a command after those before it have ended; see `BackgroundCommands.start`."""
        with self._lock:
            begins = by not in self._lines
            line = self._lines.setdefault(by, deque())
            if len(line) >= MOST_WAITING:
                self._log.warning(self._failed, by=by, error=f"{MOST_WAITING} wait already")
                return
            line.append(lambda: self._work(by, command, data, about))
        if begins:
            self._in_thread(by, lambda: self._work_off(by))

    def finish(self, timeout_s: float) -> None:
        """Wait for all commands; when the time is over, drop those that have not started.

        Args:
            timeout_s: How long commands may still be started, in seconds.
        """
        until = time.monotonic() + timeout_s
        for thread in list(self._threads):
            if thread.ident is not None:
                thread.join(max(0.0, until - time.monotonic()))
        with self._lock:
            for by, line in self._lines.items():
                if line:
                    error = f"{len(line)} were left out at the end"
                    self._log.warning(self._failed, by=by, error=error)
                    line.clear()
        self.wait()

    def _work_off(self, by: str) -> None:
        while True:
            with self._lock:
                if not self._lines[by]:
                    del self._lines[by]
                    return
                work = self._lines[by].popleft()
            work()
