"""Three sessions led in one event loop, one of them cancelled on the way and gone on with.

    python examples/asynchronous.py [--backend trio] [--sessions DIRECTORY]

Prints what became of each session. Needs the extra `async`.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path

import anyio

from agentforge_sessions import AsyncSessionManager, SessionState

WORK = "open('report.txt', 'w').write('done')"
ENDLESS = "while True: pass"


async def lead(base: Path, goal: str, code: str, *, limit_s: float = 60) -> str:
    """Begin a session and run its one phase within a time; return the session's id."""
    manager = AsyncSessionManager(base)
    session = await manager.create("report", "write", goal=goal)
    with anyio.move_on_after(limit_s):
        result = await manager.run_phase(code, tokens=100)
        if result.success:
            await manager.complete()
    return session.session_id


async def go_on(base: Path, session_id: str) -> SessionState:
    """Take up a session that was left, as any worker may, and bring it to its end."""
    manager = AsyncSessionManager(base)
    session = await manager.open(session_id)
    if session.state is SessionState.ACTIVE:
        print(f"{session_id}: left in {session.current_phase!r}, {len(session.history)} entries")
        await manager.run_phase(WORK, tokens=100)
        await manager.complete()
    return session.state


async def main(base: Path) -> None:
    """Lead all three at the same time, then see to what was left."""
    ids: list[str] = []

    async def keep(goal: str, code: str, limit_s: float) -> None:
        ids.append(await lead(base, goal, code, limit_s=limit_s))

    async with anyio.create_task_group() as group:
        group.start_soon(keep, "The first report", WORK, 60)
        group.start_soon(keep, "The second report", WORK, 60)
        group.start_soon(keep, "A report that takes too long", ENDLESS, 1)
    for session_id in sorted(ids):
        print(f"{session_id}: {(await go_on(base, session_id)).value}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=["asyncio", "trio"], default="asyncio")
    parser.add_argument("--sessions", type=Path, help="where they are kept; a scratch directory")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        anyio.run(partial(main, given.sessions or Path(scratch)), backend=given.backend)
