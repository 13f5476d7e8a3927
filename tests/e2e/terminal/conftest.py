"""A real terminal (tmux) and a real browser (Chromium), as a person has them."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from attrs import define
from rich.console import Console
from rich.text import Text

from tests.support.question_desk import CHECKS, STORAGE
from tools.questions import QuestionSessions

ROOT = Path(__file__).parents[3]
DEADLINE_S = 60.0
COMMAND = (sys.executable, "-m", "tools.cli", "questions")


def until(holds: Callable[[], object], what: Callable[[], str]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, what()
        time.sleep(0.05)


def environment() -> dict[str, str]:
    """What the program finds: a plain locale, this tree, nobody's settings."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}


@define
class Tmux:
    """One terminal of 80 by 24 in a tmux server of its own."""

    socket: str
    home: str
    """Where the server's socket is: short, for such names have a limit of some 100 letters."""
    directory: Path

    def __call__(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self.socket, "-f", "/dev/null", *words],
            env={**environment(), "TMUX_TMPDIR": self.home},
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return done.stdout

    def start(self, *arguments: str) -> None:
        """Start the program, and say afterwards how it ended."""
        words = " ".join([*COMMAND, *arguments])
        script = f"{words}; echo ended with $?; exec sleep 600"
        self("new-session", "-d", "-x", "80", "-y", "24", f"sh -c '{script}'")

    def sees(self) -> str:
        return self("capture-pane", "-p")

    def waits_for(self, text: str) -> str:
        until(lambda: text in self.sees(), lambda: f"{text!r} never came:\n{self.sees()}")
        return self.sees()

    def picture(self, name: str) -> None:
        """Keep what is seen as SVG where AGENTFORGE_PICTURES says, for the documentation."""
        directory = os.environ.get("AGENTFORGE_PICTURES")
        if not directory:
            return
        console = Console(width=80, record=True, file=io.StringIO(), force_terminal=True)
        time.sleep(7)  # until passing messages have passed
        shown = Text.from_ansi(self("capture-pane", "-p", "-e", "-N").rstrip("\n"))
        console.print(shown, overflow="crop", no_wrap=True)
        svg = console.export_svg(title="agentforge questions", unique_id="terminal")
        svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # nothing from elsewhere
        Path(directory, name).write_text(svg, encoding="utf-8")

    def types(self, *keys: str) -> None:
        self("send-keys", *keys)


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    with tempfile.TemporaryDirectory(prefix="tmux-") as home:
        terminal = Tmux(f"agentforge-test-{uuid4().hex[:12]}", home, tmp_path)
        try:
            yield terminal
        finally:
            terminal("kill-server")


@pytest.fixture
def questions(tmp_path: Path) -> QuestionSessions:
    """The questions of the directory that the program starts in, one of them waiting."""
    sessions = QuestionSessions(tmp_path / ".agentforge" / "questions")
    sessions.create_session([STORAGE, CHECKS])
    return sessions
