"""Tasks about durable programs for `_workers`: each runs one stretch of one, and is killed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentforge_sessions.sandbox import Sandbox, SandboxResult, create_sandbox
from agentforge_sessions.sandbox.interpreters.process_pool import configure_pool
from tests.property.sandbox.live._programs import answer_to

Tell = Callable[..., None]


def answers_to(sandbox: Sandbox) -> dict[int, Any]:
    """The answers that the program of a sandbox waits for."""
    assert sandbox.suspended is not None
    return {one.id: answer_to(one.question) for one in sandbox.suspended.requests}


def next_stretch(sandbox: Sandbox, source: str | None) -> SandboxResult:
    """Begin a program, or have it go on: with answers, or from where it was killed."""
    if source is not None:
        return sandbox.execute(source)
    return sandbox.resume(answers_to(sandbox))


def run_stretch(
    tell: Tell, *, workspace: str, directory: str, said: str, source: str | None = None
) -> None:
    """Run a program until it waits or ends, note what it said, and be killed at once."""
    configure_pool(0)
    sandbox = create_sandbox(workspace=Path(workspace), stateful=True, durable=Path(directory))
    result = next_stretch(sandbox, source)
    with open(said, "a") as file:
        file.write(json.dumps([result.stdout, result.stderr, str(result.trapped)]) + "\n")
    tell(waits=result.suspended is not None, exit_code=result.exit_code)
    os.kill(os.getpid(), signal.SIGKILL)


TASKS: dict[str, Callable[..., None]] = {run_stretch.__name__: run_stretch}
