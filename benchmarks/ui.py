"""What the pages cost with ten thousand sessions, and how soon a change is seen.

    python -m benchmarks.ui            # about two minutes
    python -m benchmarks.ui --quick    # a thousand sessions
    python -m benchmarks.ui --json     # the same, for a program

The reference is the plain listing of the same sessions, in the same run: the first fifty by
`SessionManager.page`, as `agentforge list --limit 50` reads them. Measured is the application
itself, asked without a network between: the first page of a server that has just begun, the page
again, a filter by a state, a filter by words (the first reads every goal, once), and what a look
costs when nothing changed. Then five of twenty sessions are saved again and again, and the time
from the beginning of a save until a page that listens was told is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agentforge_sessions.entrypoints.ui.live import SESSIONS, Live
from agentforge_sessions.entrypoints.ui.places import UiPlaces
from agentforge_sessions.entrypoints.ui.services import UiServices
from agentforge_sessions.entrypoints.ui.views.controls import fields_in
from agentforge_sessions.entrypoints.ui.views.list_page import list_view
from agentforge_sessions.harness import SessionManager, SessionStore

RUNS = 5
SAVES = 40
LIVE, RUNNING = 20, 5


def make_sessions(base: Path, count: int) -> None:
    """Make sessions, of which one in fifty has not ended."""
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    store = SessionStore(base)
    for number in range(count):
        moment = begin + timedelta(minutes=number)
        manager = SessionManager(store, clock=lambda moment=moment: moment)
        manager.create("tdflow", "green", goal=f"Goal number {number} of the benchmark")
        if number % 50:
            manager.complete()


def median_s(call: Callable[[], object], runs: int = RUNS) -> float:
    """Return how long a call takes, in seconds."""
    taken = []
    for _ in range(runs):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def page(services: UiServices, query: str = "") -> str:
    """Return the page of all sessions."""
    return list_view(services, fields_in(query), "").html()


def measure_pages(folder: Path, count: int) -> dict[str, float]:
    """Measure the list against the plain listing; in seconds."""
    base = folder / "many"
    make_sessions(base, count)
    places = UiPlaces(sessions=base, questions=folder / "questions")
    listing = median_s(lambda: SessionManager(SessionStore(base)).page(50))
    found = {"plain listing, first fifty": listing}
    services = UiServices(places)
    found["first page of a new server"] = median_s(lambda: page(services), runs=1)
    found["page again"] = median_s(lambda: page(services))
    found["filter by a state"] = median_s(lambda: page(services, "standing=active"))
    found["filter by words, first"] = median_s(lambda: page(services, "q=number+77"), runs=1)
    found["filter by words, again"] = median_s(lambda: page(services, "q=number+78"))
    began = time.process_time()
    for _ in range(RUNS):
        services.watch.look()
    found["a look when nothing changed (processor time)"] = (time.process_time() - began) / RUNS
    services.close()
    return found


async def measure_changes(folder: Path) -> list[float]:
    """Measure from the beginning of a save until a page was told, in seconds."""
    base = folder / "live"
    managers = []
    for _ in range(LIVE):
        manager = SessionManager(SessionStore(base))
        manager.create(goal="It runs")
        managers.append(manager)
    services = UiServices(UiPlaces(sessions=base, questions=folder / "questions"))
    live = Live(services)
    looking = asyncio.create_task(live.run())
    listener = live.listen([SESSIONS])
    told = aiter(listener.stream())
    await anext(told)
    services.watch.rows()
    taken = []
    for number in range(SAVES):
        await asyncio.sleep(0.3)  # so that each is seen by itself
        drained = asyncio.ensure_future(anext(told))
        began = time.perf_counter()
        await asyncio.to_thread(managers[number % RUNNING].record_tokens, 1)
        while b"changed" not in await drained:
            drained = asyncio.ensure_future(anext(told))
        taken.append(time.perf_counter() - began)
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)
    services.close()
    return taken


def main() -> None:
    """Measure, and say what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    count = 1_000 if options.quick else 10_000
    with tempfile.TemporaryDirectory() as place:
        pages = measure_pages(Path(place), count)
        changes = asyncio.run(measure_changes(Path(place)))
    reference = pages["plain listing, first fifty"]
    told = {"median": statistics.median(changes), "longest": max(changes)}
    if options.json:
        print(json.dumps({"sessions": count, "pages_s": pages, "told_s": told}))
        return
    print(f"{count:,} sessions in files")
    for name, seconds in pages.items():
        print(f"  {name:<46} {seconds * 1000:9.1f} ms   {seconds / reference:6.2f} x the listing")
    print(f"{LIVE} live sessions, {RUNNING} of which save: a page is told")
    print(f"  median {told['median'] * 1000:.0f} ms, longest {told['longest'] * 1000:.0f} ms")


if __name__ == "__main__":
    main()
