"""The real command, its pages in a real Chromium, driven by mouse and keyboard."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from attrs import define, field

from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.questions import Asker, Question, QuestionSessions
from agentforge_sessions.wiring.bootstrap import open_snapshots
from tests.support.page_address import another_address
from tests.support.person import PERSON
from tests.support.questions import DATABASE, FEATURES

ROOT = Path(__file__).parents[3]
_NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = os.environ.get("AGENTFORGE_CHROMIUM") or next(
    filter(None, map(shutil.which, _NAMES)), None
)
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
REBOUND = "rebound.example"


@define
class Project:
    """A folder with sessions and questions, and the command that shows them."""

    folder: Path
    url: str
    process: subprocess.Popen[str]

    @property
    def origin(self) -> str:
        return self.url.split("/#")[0]

    def address(self) -> str:
        """Press Enter at the server for an address that was not used yet."""
        return another_address(self.process)

    @property
    def base(self) -> Path:
        return self.folder / ".agentforge" / "sessions"

    @property
    def questions(self) -> QuestionSessions:
        return QuestionSessions(self.folder / ".agentforge" / "questions")

    def begin(self, goal: str, **more: Any) -> str:
        return SessionManager(SessionStore(self.base)).create(goal=goal, **more).session_id

    def lead(self, session_id: str, *, keeping: bool = False) -> SessionManager:
        store = SessionStore(self.base)
        manager = SessionManager(store, snapshots=open_snapshots(store) if keeping else None)
        manager.open(session_id)
        return manager

    def session(self, session_id: str) -> Any:
        return SessionStore(self.base).load(session_id)

    def ask(self, *questions: Question, session_id: str | None = None) -> str:
        place = None if session_id is None else (self.base / session_id).absolute()
        asker = None if place is None else Asker.current(session=place)
        return self.questions.create_session(questions or (DATABASE, FEATURES), asker=asker)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with_server = serving(tmp_path_factory.mktemp("project"))
    yield next(with_server)
    next(with_server, None)


def serving(folder: Path, *options: str) -> Iterator[Project]:
    (folder / ".agentforge").mkdir(exist_ok=True)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", *PERSON) if name in os.environ}
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "agentforge_sessions.entrypoints.cli", "ui"),
            *("--port", "0", "--json", *options),
        ],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()
    try:
        yield Project(folder, json.loads(line)["url"], process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors


@pytest.fixture(scope="session")
def playwright() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium here; AGENTFORGE_CHROMIUM names one")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as driver:
        yield driver


@pytest.fixture(scope="session")
def chromium(playwright: Any) -> Iterator[Any]:
    browser = playwright.chromium.launch(
        executable_path=CHROMIUM,
        args=[*FLAGS, f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1"],
    )
    yield browser
    browser.close()


@pytest.fixture
def chromium_profile(playwright: Any, tmp_path: Path) -> Callable[[], Any]:
    """Starts a browser as a person has it, with a profile on disk in `profile`."""

    @contextmanager
    def start() -> Iterator[Any]:
        context = playwright.chromium.launch_persistent_context(
            str(tmp_path / "profile"), executable_path=CHROMIUM, args=list(FLAGS)
        )
        context.set_default_timeout(30_000)
        try:
            yield context
        finally:
            context.close()

    return start


@define
class Visit:
    """A person's browser: its pages, and all that they asked for and complained of."""

    context: Any
    project: Project
    requested: list[str] = field(factory=list)
    complaints: list[str] = field(factory=list)

    def open(self, path: str = "/", *, key: bool = True) -> Any:
        page = self.context.new_page()
        page.on("request", lambda one: self.requested.append(one.url))
        page.on("pageerror", lambda one: self.complaints.append(str(one)))
        page.on("dialog", lambda one: self.complaints.append(f"a dialog: {one.message}"))
        page.on("console", lambda one: self._hear(one))  # noqa: PLW0108 (it marks what it is given)
        fragment = self.project.address().split("#")[1] if key else ""
        page.goto(f"{self.project.origin}{path}#{fragment}")
        if key:
            page.wait_for_selector("#view > *")
        return page

    def _hear(self, message: Any) -> None:
        superseded = message.text.startswith(("htmx:afterRequest,", "htmx:sendAbort,"))
        if message.type in {"error", "warning"} and not superseded:
            self.complaints.append(message.text)  # a request that failed says `sendError` besides


@pytest.fixture
def visits(chromium: Any, project: Project) -> Iterator[Callable[..., Visit]]:
    opened: list[Visit] = []

    def begin(**options: Any) -> Visit:
        context = chromium.new_context(**options)
        context.set_default_timeout(30_000)
        opened.append(Visit(context, project))
        return opened[-1]

    yield begin
    for one in opened:
        one.context.close()
        strangers = {
            url for url in one.requested if urlsplit(url).netloc != urlsplit(project.url).netloc
        }
        assert not strangers
        assert not one.complaints


@pytest.fixture
def visit(visits: Callable[..., Visit]) -> Visit:
    return visits(viewport={"width": 1280, "height": 900})
