"""A worker whose sessions' phases do nothing: what is left is what the fleet itself costs.

python -m benchmarks._idle_fleet worker URL BASE CONCURRENCY
python -m benchmarks._idle_fleet session                (what the worker starts)
"""

from __future__ import annotations

import asyncio
import signal
import sys
from functools import partial

from agentforge_sessions.entrypoints.worker import process
from agentforge_sessions.fleet.workers.children import Children
from agentforge_sessions.fleet.workers.settings import FleetSettings
from agentforge_sessions.fleet.workers.worker import FleetWorker
from agentforge_sessions.harness import PhaseResult
from agentforge_sessions.wiring.fleet import SessionRunners

_NAME = "benchmarks._idle_fleet"


class Idle:
    """Runs nothing, and says that it succeeded."""

    def execute(self, code: str, **_: object) -> PhaseResult:  # noqa: ARG002 (the port names it)
        """Return at once."""
        return PhaseResult(success=True, exit_code=0)


async def work(url: str, base: str, concurrency: int) -> None:
    """Be the worker, until SIGTERM."""
    settings = FleetSettings(concurrency=concurrency, grace_s=0.0)
    program = (sys.executable, "-m", _NAME, "session")
    greeting = {"store": url, "base": base, "level": 50}
    children = Children(
        greeting, stop_s=settings.stop_s, on_log=lambda _event: None, program=program
    )
    worker = FleetWorker(url, settings, children)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    await worker.run()


if __name__ == "__main__":
    if sys.argv[1] == "session":
        process.main(partial(SessionRunners, executor=Idle()))
    else:
        asyncio.run(work(sys.argv[2], sys.argv[3], int(sys.argv[4])))
