"""A command line in this process, with a clock, a pause and an executor of the test's own."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from attrs import define, field

from agentforge_sessions.entrypoints.cli.context import CliEnvironment
from agentforge_sessions.entrypoints.cli.main import run
from agentforge_sessions.harness import PhaseResult, SessionContext, SessionManager, SessionStore

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Terminal(io.StringIO):
    """A keyboard at which something was typed."""

    def isatty(self) -> bool:
        return True


@define
class Ended:
    """How a command line ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)

    @property
    def documents(self) -> list[Any]:
        """The JSON documents on standard output, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]


@define
class ScriptedExecutor:
    """Answers each execution with the next of the results it was given."""

    results: list[PhaseResult | BaseException] = field(factory=list)
    default: PhaseResult = field(factory=lambda: PhaseResult(success=True, exit_code=0))
    before: Callable[[str], None] | None = None

    def execute(
        self,
        code: str,
        *,
        session_id: str,
        deadline_s: float | None = None,
        fuel: int | None = None,
    ) -> PhaseResult:
        if self.before is not None:
            self.before(session_id)
        result = self.results.pop(0) if self.results else self.default
        if isinstance(result, BaseException):
            raise result
        return result


@define
class CommandLine:
    """`agentforge --base BASE …`, in this process."""

    base: Path
    capture: pytest.CaptureFixture[str]
    now: datetime = START
    pauses: int = 0
    during_pause: Callable[[int], None] | None = None
    executor: ScriptedExecutor = field(factory=ScriptedExecutor)

    def __call__(self, *arguments: object) -> Ended:
        self.capture.readouterr()
        outside = CliEnvironment(clock=lambda: self.now, sleep=self._sleep, executor=self.executor)
        code = run(["--base", str(self.base), *map(str, arguments)], outside)
        captured = self.capture.readouterr()
        return Ended(int(code), captured.out, captured.err)

    def _sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.pauses += 1
        if self.pauses > 100:
            raise AssertionError("waits for ever")
        if self.during_pause is not None:
            self.during_pause(self.pauses)

    def later(self, **duration: float) -> None:
        self.now += timedelta(**duration)

    @property
    def store(self) -> SessionStore:
        return SessionStore(self.base)

    def manager(self, session_id: str | None = None) -> SessionManager:
        manager = SessionManager(self.store, clock=lambda: self.now)
        if session_id is not None:
            assert manager.load(session_id) is not None
        return manager

    def begin(self, **fields: Any) -> SessionManager:
        manager = self.manager()
        manager.create(**{"workflow_type": "spec", "initial_phase": "red", **fields})
        return manager

    def new(self, **fields: Any) -> str:
        return self.new_id(self.begin(**fields))

    @staticmethod
    def new_id(manager: SessionManager) -> str:
        session = manager.current_session
        assert session is not None
        return session.session_id

    def session(self, session_id: str) -> SessionContext:
        """The session as it is saved."""
        found = self.store.load(session_id)
        assert found is not None
        return found

    def corrupt(self, session_id: str, content: bytes = b"state: [unclosed\n") -> Path:
        path = self.store.session_path(session_id)
        path.write_bytes(content)
        return path


@pytest.fixture
def agentforge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[CommandLine]:
    for variable in ("AGENTFORGE_BASE", "AGENTFORGE_DEBUG", "NO_COLOR", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    yield CommandLine(tmp_path / "sessions", capsys)
    structlog.reset_defaults()


@pytest.fixture
def workflow(tmp_path: Path) -> Path:
    """A workflow of two phases; the second allows two attempts."""
    path = tmp_path / "two.yaml"
    path.write_text(
        """\
schema_version: 1
name: two
workflow_type: spec
goal: Do two things.
token_budget: 1000
phases:
  - name: one
    code: print(1)
    tokens: 100
  - name: two
    code: print(2)
    tokens: 200
    retry:
      max_attempts: 2
""",
        encoding="utf-8",
    )
    return path
