"""Tasks about the sandbox's own host for `_workers`: guests whose process is killed."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

from agentforge_sessions.sandbox import ExecutionPolicy, create_sandbox
from agentforge_sessions.sandbox.interpreters.process_pool import configure_pool
from agentforge_sessions.sandbox.workspaces.quota import usage_counter
from agentforge_sessions.sandbox.workspaces.workspace_tree import measure_tree
from tests.support.host_calls import DyingCalls
from tests.support.own_sandboxes import sandbox_with

Tell = Callable[..., None]

POLICY = ExecutionPolicy(workspace_bytes=4 << 20, workspace_files=200)


def run_guest(
    tell: Tell, *, workspace: str, program: str, last: int | None, moment: str = "before"
) -> None:
    """Run one program and die at one of the system calls that its files need."""
    configure_pool(0)
    calls = DyingCalls(last, moment)
    result = sandbox_with(calls, Path(workspace), POLICY).execute(program)
    root = os.open(workspace, os.O_RDONLY)
    seen = os.fstat(root)
    usage = usage_counter((seen.st_dev, seen.st_ino))._usage
    tell(
        calls=calls.calls,
        stdout=result.stdout,
        stderr=result.stderr[-1000:],
        counted=None if usage is None else [usage.bytes, usage.entries],
        held=list(measure_tree(root, max_entries=1000)),
    )


def run_guests_for_ever(tell: Tell, *, workspace: str) -> None:
    """Run one program after the other in interpreters that are used again, until killed."""
    configure_pool(2)
    sandbox = create_sandbox(workspace=Path(workspace), policy=POLICY)
    for number in itertools.count():
        text = f"{number:06} " * 1000
        result = sandbox.execute(
            "import os\n"
            "left = [name for name in ('left', 'state') if name in globals()]\n"
            "left += [name for name in os.listdir('/tmp') if name != '.home']\n"
            "state = open('/tmp/left', 'w').write('x')\n"
            f"open('log.new', 'w').write({text!r})\n"
            "os.replace('log.new', 'log')\n"
            f"open(str({number % 10}), 'w').write({text!r})\n"
            "print(left)"
        )
        assert (result.stdout, result.stderr) == ("[]\n", ""), result
        tell(done=number)


TASKS: dict[str, Callable[..., None]] = {
    task.__name__: task for task in (run_guest, run_guests_for_ever)
}
