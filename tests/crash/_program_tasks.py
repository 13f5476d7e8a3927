"""Tasks about durable programs for `_workers`: they run them, and are killed."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from agentforge_sessions.sandbox import Sandbox, SandboxResult, create_sandbox
from agentforge_sessions.sandbox.interpreters.process_pool import configure_pool
from tests.property.sandbox.live._programs import answer_to

Tell = Callable[..., None]

SAID: Final = "stdout.txt"
"""Where a program prints that is killed anywhere: so each line is an effect."""


def opened(workspace: str, directory: str) -> Sandbox:
    """The sandbox of a program."""
    configure_pool(0)
    return create_sandbox(workspace=Path(workspace), stateful=True, durable=Path(directory))


def answers_to(sandbox: Sandbox) -> dict[int, Any]:
    """The answers that the program of a sandbox waits for."""
    assert sandbox.suspended is not None
    return {one.id: answer_to(one.question) for one in sandbox.suspended.requests}


def run_stretch(
    tell: Tell, *, workspace: str, directory: str, said: str, source: str | None = None
) -> None:
    """Run a program until it waits or ends, note what it said, and be killed at once."""
    sandbox = opened(workspace, directory)
    result = sandbox.execute(source) if source else sandbox.resume(answers_to(sandbox))
    with open(said, "a") as file:
        file.write(json.dumps([result.stdout, result.stderr]) + "\n")
    tell(waits=result.suspended is not None, exit_code=result.exit_code)
    os.kill(os.getpid(), signal.SIGKILL)


def run_to_the_end(
    tell: Tell, *, workspace: str, directory: str, source: str, cpu_s: float | None = None
) -> None:
    """Run a program to its end, from wherever it is, or be killed after so much processor time."""
    if cpu_s is not None:
        signal.setitimer(signal.ITIMER_PROF, cpu_s)  # its signal ends the process, at any place
    said = Path(workspace, SAID)
    with opened(workspace, directory) as sandbox:
        result: SandboxResult | None = None
        while result is None or result.suspended is not None:
            if sandbox.suspended is not None:
                result = sandbox.resume(answers_to(sandbox))
            elif said.exists() and said.read_text().endswith("end\n"):
                break  # killed between its end and the end of its process
            else:
                assert not said.exists(), "it began, and its state is lost"
                result = sandbox.execute(source)
        assert result is None or result.exit_code == 0, result
    tell(used_s=time.process_time())


TASKS: dict[str, Callable[..., None]] = {
    task.__name__: task for task in (run_stretch, run_to_the_end)
}
