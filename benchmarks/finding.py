"""Measure finding sessions among many in files: filters, pages, words.

    python -m benchmarks.finding [--quick] [--check] [--dir DIRECTORY]

References in the same rounds: the plain listing (`summaries()`), `grep -ril` over the same files,
and loading the sessions, of which some are loaded and the time is multiplied.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Final

import structlog

from agentforge_sessions.harness import SessionManager, SessionState, SessionStore, TokenBudget
from agentforge_sessions.harness.format.session_codec import encode_session
from benchmarks.measure import Candidate, Row, compare, row, table
from benchmarks.sessions import facts, make_session, place_in

LISTING: Final = "summaries(), the plain listing"
GREP: Final = "grep -ril needle"
LOADING: Final = "load() of each"
LIST_TARGET: Final = 1.5
"""How much longer than the plain listing one may take with filters that heads have."""
SEARCH_TARGET: Final = 1 / 4
"""Which part of the time of loading all sessions a search may take."""
_KINDS: Final = 60
_FIRST: Final = "session_20260301_093000_000000"


def make_sessions(base: Path, *, sessions: int, entries: int) -> None:
    """Write sessions of sixty kinds: of all states, every third beyond ASCII, one with the word."""
    contents = []
    states = list(SessionState)
    for kind in range(_KINDS):
        session = make_session(entries, _FIRST)
        now = session.updated_at + timedelta(minutes=kind)
        session.goal = f"Make the {'Übersicht' if kind % 3 == 0 else 'overview'} {kind} fair."
        session.workflow_type = ("tdflow", "spec", None)[kind % 3]
        session.token_budget = TokenBudget(100_000, 1_500 * kind)
        if kind == _KINDS // 2:
            session.add_history("noted", details="the Needle is in here", now=now)
        session.updated_at = now
        session.state = states[kind % 4]
        session.completed_at = now if session.state.is_terminal else None
        session.revision = 1
        contents.append(encode_session(session))
    for number in range(sessions):  # as the store writes them, less what makes them durable
        name = f"session_20260301_093000_{number:06}"
        (base / name).mkdir(parents=True)
        content = contents[number % _KINDS].replace(_FIRST.encode(), name.encode(), 1)
        (base / name / "session.yaml").write_bytes(content)


def measure(place: Path, *, sessions: int, entries: int, rounds: int, sample: int) -> list[Row]:
    """Time all ways to find sessions, and what they are judged against."""
    base = place / "sessions"
    make_sessions(base, sessions=sessions, entries=entries)
    store = SessionStore(base)
    manager = SessionManager(store)
    grep = shutil.which("grep")
    held = sum(1 for number in range(sessions) if number % _KINDS == _KINDS // 2)
    if len(manager.search("needle", limit=10_000).found) != held:
        raise SystemExit("the search did not find what is there")
    listed: dict[str, Callable[[], object]] = {
        "list(), two states and a workflow": lambda: manager.list(
            state=["paused", "aborted"], workflow_type="tdflow"
        ),
        "page(50), by what is left of the budget": lambda: manager.page(
            50, order="least_left", state="active", budget_left="..20%"
        ),
        "page(50), with a part of the goal": lambda: manager.page(50, goal="overview 7 "),
    }
    searched: dict[str, Callable[[], object]] = {
        "search(), a word of one in sixty": lambda: manager.search("needle"),
        "search(), a word of none": lambda: manager.search("haystack"),
        "search(), a phrase of all": lambda: manager.search('"old import working"'),
        "search(), beyond ASCII, in one state": lambda: manager.search("übersicht", state="active"),
    }
    references: dict[str, Callable[[], object]] = {
        LISTING: lambda: list(store.summaries()),
        LOADING: lambda: [store.load(one) for one in islice(store.list_sessions(), sample)],
    }
    if grep is not None:
        references[GREP] = lambda: subprocess.run(
            [grep, "-ril", "needle", str(base)], stdout=subprocess.DEVNULL, check=True
        )
    candidates = {**listed, **searched, **references}
    timed = compare(
        {name: Candidate(run) for name, run in candidates.items()}, rounds=rounds, budget_s=15.0
    )
    timed[LOADING].samples = [took * sessions / sample for took in timed[LOADING].samples]
    listing, loading = (LISTING, timed[LISTING]), (LOADING, timed[LOADING])
    rows = [
        row("find", sessions, name, timed[name], reference=listing, target=target)
        for name, target in zip(listed, (LIST_TARGET, LIST_TARGET, None), strict=True)
    ]
    rows += [
        row("search", sessions, name, timed[name], reference=loading, target=SEARCH_TARGET)
        for name in searched
    ]
    if grep is not None:
        rows += [
            row("search", sessions, name, timed[name], reference=(GREP, timed[GREP]))
            for name in searched
        ]
    rows += [row("search", sessions, name, timed[name]) for name in references]
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and with --check judge."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.finding", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, fewer sessions")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    parser.add_argument("--dir", type=Path, default=Path(".benchmarks"), help="where to write")
    given = parser.parse_args(arguments)
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    with place_in(given.dir) as place:
        print(", ".join(f"{name} {value}" for name, value in facts(place).items()))
        rows = measure(
            place,
            sessions=1_000 if given.quick else 10_000,
            entries=100,
            rounds=5 if given.quick else 15,
            sample=300,
        )
    print(table(rows))
    missed = [one for one in rows if one.met is False]
    return 1 if given.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
