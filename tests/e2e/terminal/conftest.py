"""A real terminal (tmux) and a real browser (Chromium), as a person has them."""

from __future__ import annotations

import html
import io
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from attrs import define
from rich.console import Console
from rich.text import Text

from agentforge_sessions.questions import QuestionSessions
from tests.support.person import PERSON
from tests.support.question_queue import CHECKS, STORAGE

ROOT = Path(__file__).parents[3]
DEADLINE_S = 60.0
PICTURES = ROOT / "docs" / "images"
FIRST = "3f0c1b52-7c57-4d2f-9d0e-0d3b9a3a1f6e"
LATE = "9a1e77c0-51f4-4b53-8a43-5f0f6a0f8c11"
COMMAND = (sys.executable, "-m", "agentforge_sessions.entrypoints.cli", "questions")


def until(holds: Callable[[], object], what: Callable[[], str]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, what()
        time.sleep(0.05)


def environment() -> dict[str, str]:
    """What the program finds: a plain locale, this tree, nobody's settings."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", *PERSON) if name in os.environ}
    return {**kept, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}


def lines_of(text: str) -> list[str]:
    """Return the lines of a text that hold anything, without the spaces and without the time."""
    still = re.sub(r"waiting \d+(:\d\d)+", "waiting", text.replace("\xa0", " "))
    lines = ["".join(line.split()) for line in still.splitlines()]
    return [line for line in lines if line]


def drawn_lines(picture: Path) -> list[str]:
    """Return the lines of a terminal that an SVG of Rich shows, without the spaces."""
    rows: dict[float, list[tuple[float, str]]] = {}
    pattern = r'<text class="terminal-r\d+" x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>'
    for x, y, told in re.findall(pattern, picture.read_text(encoding="utf-8")):
        rows.setdefault(float(y), []).append((float(x), html.unescape(told)))
    return lines_of("\n".join("".join(told for _, told in sorted(rows[y])) for y in sorted(rows)))


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
        # A server that ends with its last session may take a new one along.
        self("start-server", ";", "set-option", "-g", "exit-empty", "off")
        self("new-session", "-d", "-x", "80", "-y", "24", f"sh -c '{script}'")

    def sees(self) -> str:
        return self("capture-pane", "-p")

    def waits_for(self, *texts: str) -> str:
        """Wait until all of these are seen at once: a screen is drawn piece by piece."""
        seen = ""

        def all_seen() -> bool:
            nonlocal seen
            seen = self.sees()
            return all(text in seen for text in texts)

        until(all_seen, lambda: f"{texts!r} never came:\n{self.sees()}")
        return seen

    def picture(self, name: str) -> None:
        """See what the documentation's picture shows; with AGENTFORGE_PICTURES make it there."""
        directory = os.environ.get("AGENTFORGE_PICTURES")
        if not directory:
            drawn = drawn_lines(PICTURES / name)
            until(
                lambda: lines_of(self.sees()) == drawn,
                lambda: (
                    f"docs/images/{name} shows something else; AGENTFORGE_PICTURES=docs/images "
                    f"makes it anew:\n{self.sees()}"
                ),
            )
            return
        console = Console(width=80, record=True, file=io.StringIO(), force_terminal=True)
        # the keys at the foot come last, and passing messages pass
        until(
            lambda: lines_of(self.sees().splitlines()[-1]) and " New: " not in self.sees(),
            lambda: f"the screen was never whole:\n{self.sees()}",
        )
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
    """The questions of the directory that the program starts in, one of them waiting.

    They are asked two hours and a half ago, so that a test sees "2 h" however long it takes.
    """
    sessions = QuestionSessions(
        tmp_path / ".agentforge" / "questions",
        clock=lambda: datetime.now(UTC) - timedelta(hours=2, minutes=30),
    )
    sessions.create_session([STORAGE, CHECKS], session_id=FIRST)
    return sessions
