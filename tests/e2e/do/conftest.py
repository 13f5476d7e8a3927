"""A repository in which `agentforge do` works, with a scripted agent and a scripted check."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import define, field

from agentforge_sessions.base.data_folder import project_folder
from agentforge_sessions.harness import SessionContext, SessionStore
from tests.e2e.cli.conftest import Installed, Process
from tests.support.own_project import require_jail
from tests.support.repositories import new_checkout, plain_git, user_environment
from tests.support.signals import usual_signals
from tests.support.trees import Tree, tree_of

PROGRAM: Final = Path(sys.executable).with_name("agentforge")
CHECK: Final = 'grep -q "^done$" work.txt || { echo "work.txt is not done" >&2; exit 1; }\n'
FILES: Final = {"work.txt": "begun\ndone\n", "check.sh": CHECK, "src/deep/note.txt": "a note\n"}


@define
class Desk:
    """A checkout, and the program in it.

    Attributes:
        checkout: The repository.
        environment: What the program is started with.
        prefix: What its command line begins with.
        agents: How many agents were scripted.
    """

    checkout: Path
    environment: dict[str, str]
    prefix: Sequence[str] = field(default=(), kw_only=True)
    agents: int = field(default=0, init=False)

    @property
    def store(self) -> SessionStore:
        folder = project_folder(self.checkout, self.environment)
        assert folder is not None
        return SessionStore(folder / "sessions")

    @property
    def session(self) -> SessionContext:
        """The only session."""
        (session_id,) = self.store.list_sessions()
        found = self.store.load(session_id)
        assert found is not None
        return found

    @property
    def actions(self) -> list[str]:
        return [one.action for one in self.session.history]

    def agent(self, *turns: str) -> str:
        """Return the command of an agent that runs one of these scripts at each turn of a phase.

        The last one is for all further turns, and `{phase}` in it stands for the phase.
        """
        self.agents += 1
        script = self.checkout.parent / f"agent-{self.agents}.sh"
        cases = [f"{number}) {text} ;;" for number, text in enumerate(turns[:-1], 1)]
        script.write_text(
            "cat > /dev/null\ncase $AGENTFORGE_TURN in\n"
            + "\n".join([*cases, f"*) {turns[-1]} ;;", "esac", "echo said $AGENTFORGE_TURN"])
            + "\n"
        )
        return f"sh {shlex.quote(str(script))}"

    def state(self) -> tuple[Tree, bytes]:
        """Return all files of the checkout, but git's own, and what git says of them."""
        said = plain_git(self.checkout, "status", "--porcelain", "--ignored").stdout
        return tree_of(self.checkout, but=(".git",)), said

    def started(self, *arguments: object, folder: Path | None = None) -> subprocess.Popen[str]:
        """Start `agentforge do`, with pipes; a process group of its own."""
        with usual_signals():
            return subprocess.Popen(
                [*self.prefix, PROGRAM, "do", *map(str, arguments)],
                cwd=folder or self.checkout,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )

    def do(self, *arguments: object, folder: Path | None = None, code: int = 0) -> Process:
        """Run `agentforge do` to its end."""
        process = self.started(*arguments, folder=folder)
        out, err = process.communicate(timeout=100)
        assert process.returncode == code, (process.returncode, out, err)
        return Process(process.returncode, out, err)

    def document(self, *arguments: object, code: int = 0) -> Any:
        return json.loads(self.do(*arguments, "--json", code=code).out)

    def agentforge(self, *arguments: str) -> str:
        done = self._run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def refused(self, *arguments: str) -> str:
        """Run a command that fails; return what it says of that."""
        done = self._run(*arguments)
        assert done.returncode != 0, done.stdout + done.stderr
        return done.stderr

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PROGRAM, *arguments],
            cwd=self.checkout,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def at_terminal(self, *arguments: object, **more: Any) -> Process:
        """Run `agentforge do` at a pseudo-terminal; see `Installed.at_terminal`."""
        return Installed(self.checkout, self.environment).at_terminal("do", *arguments, **more)


def desk_of(checkout: Path, *, path: Sequence[Path] = ()) -> Desk:
    """Return the desk of a checkout, with a home of its own beside it."""
    home = checkout.parent
    own = {
        **user_environment(home),
        "PATH": os.pathsep.join([*map(str, path), os.environ["PATH"]]),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_DATA_HOME": str(home / "data"),
        "LC_ALL": "C.UTF-8",
        "COLUMNS": "120",
    }
    return Desk(checkout, own)


def repository(path: Path, files: Mapping[str, str] = FILES) -> Path:
    return new_checkout(path, files)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A repository with a check that it passes."""
    require_jail()
    return desk_of(repository(tmp_path / "project"))


GOOD: Final = "printf 'better\\ndone\\n' > work.txt"
BAD: Final = "echo worse $AGENTFORGE_TURN > work.txt"
"""Scripts of an agent's turn, which the check passes and refuses."""
