"""A person's project that an agent works on: its checkout, the work, and what becomes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import frozen

from agentforge_sessions.jail import Jail, JailError
from tests.support.repositories import plain_git
from tests.support.trusting import trusted

PROGRAM: Final = Path(sys.executable).with_name("agentforge")
EDITING_AGENT: Final = Path(__file__).resolve().parents[2] / "examples" / "editing_agent.py"
_DEADLINE_S: Final = 300.0

Steps = Mapping[str, Mapping[str, str]]
"""The files that an agent writes, by path, in each phase."""


def require_jail() -> None:
    """Skip the test where no jail can be made."""
    try:
        Jail().check()
    except JailError as error:
        pytest.skip(str(error))


@frozen
class OwnProject:
    """A checkout with its sessions in it.

    Attributes:
        checkout: Its folder, a repository of one commit.
        environment: What programs are started with besides this process's own.
    """

    checkout: Path
    environment: Mapping[str, str]

    @classmethod
    def begun(
        cls,
        checkout: Path,
        *,
        configuration: str,
        ignored: Sequence[str] = (),
        path: Sequence[Path] = (),
    ) -> OwnProject:
        """Make a repository of what is in a folder."""
        lines = [*ignored, ".agentforge/"]
        with (checkout / ".gitignore").open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))
        data = checkout / ".agentforge"
        data.mkdir()
        trusted(data / "config.toml", configuration)
        plain_git(checkout, "init", "-q", "-b", "main")
        plain_git(checkout, "add", "-A")
        plain_git(checkout, "commit", "-q", "-m", "begin")
        where = os.pathsep.join([*map(str, path), os.environ["PATH"]])
        return cls(checkout, {"PATH": where})

    def agentforge(self, *arguments: str | Path, code: int = 0) -> Any:
        """Run the program in the checkout; return its document."""
        done = self.run([str(PROGRAM), "--json", *map(str, arguments)])
        assert done.returncode == code, done.stdout[-6000:] + done.stderr[-3000:]
        return json.loads(done.stdout)

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a program in the checkout, as the person does."""
        return subprocess.run(
            command,
            cwd=self.checkout,
            env={**os.environ, **self.environment, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=_DEADLINE_S,
            check=False,
        )

    def staged(self) -> list[str]:
        """Return what differs from the commit, as git names it."""
        out = plain_git(self.checkout, "status", "--porcelain").stdout.decode()
        return sorted(out.splitlines())

    def develop(
        self, mode: str, specification: str, steps: Steps, *options: str, attempts: int = 1
    ) -> str:
        """Have a component developed by an agent without a model; return the session's id."""
        scratch = self.checkout.parent
        document = scratch / "specification.yaml"
        document.write_text(specification)
        agent = _recordings(scratch, steps) if mode == "answer" else _editing_agent(scratch, steps)
        outcome = self.agentforge(
            "run",
            "tdflow",
            document,
            *("--repo", "."),
            *("--agent", agent),
            *("--agent-mode", mode),
            *options,
        )
        assert outcome["state"] == "completed", outcome
        assert outcome["phases_done"] == ["red", "green", "refactor", "verify"]
        assert len(outcome["verdicts"]) == 4 + attempts - 1, outcome["verdicts"]
        return str(outcome["session_id"])


def _recordings(scratch: Path, steps: Steps) -> str:
    folder = scratch / "recordings"
    folder.mkdir()
    for name, files in steps.items():
        blocks = [f"````text:{path}\n{text}````\n" for path, text in files.items()]
        (folder / f"{name}.md").write_text("\n".join(blocks))
    return f"recorded:{folder}"


def _editing_agent(scratch: Path, steps: Steps) -> str:
    plan = scratch / "plan.json"
    plan.write_text(
        json.dumps(
            {
                name: [{"write": path, "text": text} for path, text in files.items()]
                for name, files in steps.items()
            }
        )
    )
    return f"{sys.executable} {EDITING_AGENT} {plan}"
