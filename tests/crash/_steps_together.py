"""Processes that go at one key, or one budget, at the same time; and the judge of what they left.

Run as a module, this file is these processes: forked from one, they start together.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from agentforge_sessions import session
from agentforge_sessions.harness import LocalSessions
from agentforge_sessions.harness.steps.entries import Amount
from agentforge_sessions.harness.steps.errors import BudgetReached, SessionLed
from agentforge_sessions.harness.steps.history import StepHistory
from agentforge_sessions.harness.steps.program_sessions import (
    ProgramKey,
    begin_or_go_on,
    led,
    program_session_id,
)
from agentforge_sessions.harness.steps.step_log import StepLog
from tests.crash._step_program import Place, Program, opened

ROOT: Final = Path(__file__).resolve().parents[2]
KEY: Final = "rivers"
SESSION_ID: Final = program_session_id(KEY)
ITEMS: Final = ("a", "b", "c", "d")
BUDGET: Final = 5_000
RESERVED, SPENT = 100, 60
LED: Final = 4
"""The exit code of a process that another one was faster than."""


def start_together(place: Place, work: str, processes: int) -> Counter[int]:
    """Run a function of this file in processes of their own; return how they ended."""
    words = [sys.executable, "-W", "error", "-m", __name__, str(place.folder), work, str(processes)]
    done = subprocess.run(
        words,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Counter(map(int, done.stdout.split()))


# ------------------------------------------------------------------------------- one key


def lead_after_another(place: Path, number: int) -> int:
    """Run the program once the others have ended it."""
    return _run_program(place, wait_s=60.0)


def lead_or_give_up(place: Path, number: int) -> int:
    """Run the program unless another process leads it."""
    return _run_program(place, wait_s=0.0)


def _run_program(place: Path, wait_s: float) -> int:
    program = Program(place)
    try:
        with (
            opened(place) as store,
            session("story", key=KEY, store=store, wait_s=wait_s) as s,
        ):
            if not s.finished:
                drafts: list[dict[str, Any]] = s.map("draft", program.pay, ITEMS, concurrency=2)
                s.finish([draft["text"] for draft in drafts])
            assert s.result == [f"<{item}>" for item in ITEMS]
    except SessionLed:
        return LED
    return 0


# ------------------------------------------------------------------------------- one budget


def spend_all(log: StepLog, who: str) -> int:
    """Reserve, call and charge until the budget refuses; return how often it was called."""
    calls = 0
    while True:
        holder = f"{who}#{calls + 1}"
        try:
            log.reserve(holder, Amount(RESERVED))
        except BudgetReached:
            return calls
        calls += 1
        log.charge(holder, Amount(SPENT))


def spend_in_processes(place: Path, number: int) -> int:
    """Spend what is left of the session's budget, with the lead of the process before."""
    with opened(place) as store:
        spend_all(StepLog(store, SESSION_ID, lead=(place / "lead").read_text()), f"p{number}")
    return 0


def spend_by_threads(store: LocalSessions, threads: int) -> None:
    """Spend a new session's budget by many threads of one log."""
    begin_or_go_on(store, ProgramKey("story", KEY), budget=BUDGET)
    with led(store, SESSION_ID) as log:
        started = [
            threading.Thread(target=spend_all, args=(log, f"t{number}"))
            for number in range(threads)
        ]
        for one in started:
            one.start()
        for one in started:
            one.join()


def spend_by_processes(place: Place, processes: int) -> None:
    """Spend a new session's budget by processes that share this one's lead."""
    with opened(place.folder) as store:
        begin_or_go_on(store, ProgramKey("story", KEY), budget=BUDGET)
        with led(store, SESSION_ID) as log:
            assert log.lead is not None
            (place.folder / "lead").write_text(log.lead)
            assert start_together(place, "spend_in_processes", processes) == {0: processes}


def judge_budget(store: LocalSessions) -> int:
    """Check that the budget was never overspent, and is spent; return how many calls were made."""
    log = StepLog(store, SESSION_ID)
    history = StepHistory(SESSION_ID)
    calls = 0
    for entry in log.history.entries:
        history.fold([entry])
        assert history.sums.tokens + history.held().tokens <= BUDGET
        calls += entry.head.startswith(b'["charge"')
    assert history.held() == Amount()
    assert history.sums.tokens == calls * SPENT > BUDGET - RESERVED
    session = store.load(SESSION_ID)
    assert session is not None
    assert session.token_budget.tokens_used == history.sums.tokens
    return calls


WORKS: Final[dict[str, Callable[[Path, int], int]]] = {
    one.__name__: one for one in (lead_after_another, lead_or_give_up, spend_in_processes)
}


def main(place: Path, work: str, processes: int) -> None:
    gate, begin = os.pipe()
    pids = []
    for number in range(processes):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.close(begin)
                os.read(gate, 1)
                code = WORKS[work](place, number)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        pids.append(pid)
    os.close(gate)
    os.close(begin)  # all begin
    print(*(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
