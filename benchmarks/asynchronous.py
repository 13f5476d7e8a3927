"""Measure what the asynchronous face costs a save: the same call, awaited and made directly.

python -m benchmarks.asynchronous [--rounds N] [--json] [--dir DIRECTORY]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog
import trio

from agentforge_sessions import AsyncSessionManager
from agentforge_sessions.harness import SessionManager
from benchmarks.measure import Candidate, Row, compare, row, table
from benchmarks.sessions import facts, place_in

ENTRIES = 100
DIRECT = "SessionManager"
CALLS = 20
"""How many saves one timing takes, so that starting the loop does not count."""


def candidates(base: Path) -> dict[str, Candidate]:
    """One manager for each way, with a history of its own of the same length."""

    def new(name: str) -> SessionManager:
        manager = SessionManager(base / name)
        manager.create(goal=name)
        for number in range(ENTRIES):
            manager.add_history(f"step {number}")
        return manager

    def direct() -> Callable[[], object]:
        manager = new("direct")

        def run() -> None:
            for _ in range(CALLS):
                manager.record_tokens(1)

        return run

    def awaited(name: str, run_loop: Callable[[Any], object]) -> Callable[[], object]:
        manager = AsyncSessionManager(new(name))

        async def main() -> None:
            for _ in range(CALLS):
                await manager.record_tokens(1)

        return lambda: run_loop(main)

    return {
        DIRECT: Candidate(run=direct()),
        "AsyncSessionManager, asyncio": Candidate(
            run=awaited("asyncio", lambda main: asyncio.run(main()))
        ),
        "AsyncSessionManager, trio": Candidate(run=awaited("trio", trio.run)),
    }


def measure(base: Path, rounds: int) -> list[Row]:
    """Time all of them in the same rounds."""
    timed = compare(candidates(base), rounds=rounds, budget_s=60)
    for one in timed.values():
        one.samples[:] = [sample / CALLS for sample in one.samples]
    note = f"{CALLS} saves of a session with {ENTRIES} entries"
    return [
        row(
            "awaited",
            ENTRIES,
            name,
            one,
            reference=None if name == DIRECT else (DIRECT, timed[DIRECT]),
            note=note if name == DIRECT else "",
        )
        for name, one in timed.items()
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.asynchronous", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--dir", type=Path, default=Path(".benchmarks"), help="where to write")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with place_in(given.dir) as place:
        machine = facts(place)
        rows = measure(place, given.rounds)
    if given.json:
        print(json.dumps({"machine": machine, "rows": [one.as_fields() for one in rows]}, indent=1))
    else:
        print(", ".join(f"{name} {value}" for name, value in machine.items()))
        print(table(rows))


if __name__ == "__main__":
    main()
