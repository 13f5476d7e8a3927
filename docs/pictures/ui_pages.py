"""Takes the pictures of `agentforge ui`: `python docs/pictures/ui_pages.py`.

A recorded agent develops a component in a temporary folder, other sessions are made up beside it,
the real command serves them all, and a real Chromium shows the pages. It needs the extra `dev` and
Debian's `chromium`.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Page, sync_playwright

from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.questions import Asker, Option, Question, QuestionSessions

ROOT: Final = Path(__file__).resolve().parents[2]
IMAGES: Final = ROOT / "docs" / "images"
CHROMIUM: Final = "/usr/bin/chromium"
SPECIFICATION: Final = ROOT / "examples" / "specs" / "session-manager.yaml"
RECORDING: Final = ROOT / "examples" / "recordings" / "session_domain"
WIDE: Final = (1280, 860)
NARROW: Final = (390, 844)
DATABASE: Final = Question(
    title="Database",
    prompt="The integration tests need a database. Which one should they run against?",
    options=(
        Option(label="PostgreSQL (recommended)", description="as in production; needs a server"),
        Option(label="SQLite", description="in memory; nothing to install"),
    ),
)
SCOPE: Final = Question(
    title="Scope",
    prompt="Which of these may change with it?",
    options=("Public API", "Configuration", "Tests"),
    multi_select=True,
)
MADE_UP: Final = (
    # goal, workflow, phase, budget, spent, minutes ago, how it stands, tags
    (
        "Move the billing tables to PostgreSQL 18",
        "tdflow",
        "plan",
        250_000,
        31_400,
        4,
        "paused",
        "billing",
    ),
    (
        "Retry failed webhooks with backoff",
        "tdflow",
        "green",
        200_000,
        168_200,
        1,
        "active",
        "http",
    ),
    (
        "Property tests for the interval scheduler",
        "tdflow",
        "red",
        100_000,
        12_900,
        2,
        "active",
        "",
    ),
    (
        "Find out why the nightly import takes four hours",
        "review",
        "measure",
        80_000,
        41_000,
        9,
        "active",
        "urgent",
    ),
    ("Split the settings module", "spec", "review", 120_000, 99_100, 55, "paused", ""),
    (
        "Say in the help which options exclude each other",
        "spec",
        "write",
        60_000,
        22_000,
        130,
        "completed",
        "docs",
    ),
    ("Drop the XML exporter", "tdflow", "refactor", 90_000, 93_500, 380, "aborted", ""),
    (
        "Type the public API strictly",
        "tdflow",
        "verify",
        300_000,
        187_000,
        1500,
        "completed",
        "types",
    ),
    (
        "Read configuration from one place",
        "tdflow",
        "verify",
        150_000,
        64_000,
        2900,
        "completed",
        "",
    ),
)


def main() -> None:
    """Take the pictures anew."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        session = develop(folder)
        asked = make_up(folder)
        with serving(folder) as address, sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            take(browser, address(), "/", "ui-sessions.png")
            take(browser, address(), "/", "ui-sessions-dark.png", scheme="dark")
            take(browser, address(), "/", "ui-phone.png", scheme="dark", size=NARROW)
            take(browser, address(), f"/sessions/{session}", "ui-session.png", size=(1280, 1010))
            take(browser, address(), f"/sessions/{asked}", "ui-question.png")
            take(browser, address(), "/prune?keep_last=4", "ui-prune.png")
            browser.close()


def develop(folder: Path) -> str:
    """Develop a component with the recorded agent; return its session."""
    command = Path(sys.executable).with_name("agentforge")
    words = ("run", "tdflow", str(SPECIFICATION), "--component", "session_domain")
    agent = ("--agent", f"recorded:{RECORDING}", "--json")
    subprocess.run([command, *words, *agent], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (session,) = (folder / ".agentforge" / "sessions").glob("session_*")
    return session.name


def make_up(folder: Path) -> str:
    """Make sessions up; return the one that asks."""
    base = folder / ".agentforge" / "sessions"
    now = datetime.now(UTC)
    asking = ""
    for number, (goal, workflow, phase, budget, spent, ago, state, tag) in enumerate(MADE_UP):
        moment = now - timedelta(minutes=ago, seconds=number)
        manager = SessionManager(SessionStore(base), clock=lambda moment=moment: moment)
        tags = [tag] if tag else []
        session = manager.create(workflow, phase, budget, goal=goal, tags=tags)
        manager.record_tokens(spent)
        {"paused": manager.pause, "completed": manager.complete, "aborted": manager.abort}.get(
            state, lambda: None
        )()
        asking = asking or session.session_id
    asker = Asker.current(session=(base / asking).absolute())
    QuestionSessions(folder / ".agentforge" / "questions").create_session(
        [DATABASE, SCOPE], asker=asker
    )
    return asking


@contextmanager
def serving(folder: Path) -> Iterator[Callable[[], str]]:
    """Serve the pages of a folder; yield what gives an address that was not used."""
    command = Path(sys.executable).with_name("agentforge")
    process = subprocess.Popen(
        [command, "ui", "--port", "0", "--json"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def address() -> str:
        """Press Enter, for an address that was not used yet."""
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        return str(json.loads(process.stdout.readline())["url"])

    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def take(
    browser: Browser,
    url: str,
    path: str,
    name: str,
    *,
    scheme: Any = "light",
    size: tuple[int, int] = WIDE,
) -> None:
    """Take one picture."""
    origin, code = url.split("/#")
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
    )
    page: Page = context.new_page()
    page.goto(f"{origin}{path}#{code}")
    page.wait_for_selector("#link[data-state=live]")
    page.screenshot(path=IMAGES / name)
    context.close()


if __name__ == "__main__":
    main()
