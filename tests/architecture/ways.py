"""Follow an action through the package: calls made, modules entered, borders crossed.

As a program it follows one action by its name in a given directory, and prints the figures as JSON:
what other tests left in a process (a log that is heard, a tracer) has the package do more.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

from agentforge_sessions import SessionManager
from agentforge_sessions.questions import Question
from agentforge_sessions.wiring.bootstrap import build_manager
from agentforge_sessions.wiring.phases.question_channel import QuestionSessionChannel
from tests.architecture.house import ROOT

_PACKAGE: Final = f"{os.path.realpath(ROOT)}/"
_LOOPS: Final = {"<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>"}
_TIMED: Final = "_on_epoch"
"""The engine calls it as often as time passes, so what it does is not counted."""


class Way(NamedTuple):
    """What an action costs in the package: every figure is a count."""

    calls: int
    """Calls of the package's functions; comprehensions and generator expressions are no calls."""
    modules: int
    """Modules whose functions were called."""
    crossings: int
    """Calls from one of the thirteen packages into another."""


def way_of(action: Callable[[], object], *, prepare: Callable[[], object] = int) -> Way:
    """Count what the calling thread does in the package during the second run of an action.

    The first run loads modules and fills caches; threads that the action starts are not followed,
    and neither is `prepare`, which is called before each run.
    """
    prepare()
    action()
    prepare()
    calls: Counter[str] = Counter()
    crossings, timed = 0, False
    places: dict[str, str | None] = {}

    def place(frame: FrameType) -> str | None:
        file = frame.f_code.co_filename
        if file not in places:
            path = os.path.realpath(file)
            inside = path.startswith(_PACKAGE)
            places[file] = path.removeprefix(_PACKAGE) if inside else None
        return places[file]

    def follow(frame: FrameType, event: str, _: Any) -> None:
        nonlocal crossings, timed
        module = place(frame)
        if frame.f_code.co_name == _TIMED:
            timed = event != "return"
        if timed or event != "call" or module is None or frame.f_code.co_name in _LOOPS:
            return
        calls[module] += 1
        caller = frame.f_back
        while caller is not None and place(caller) is None:
            caller = caller.f_back
        origin = None if caller is None else place(caller)
        if origin is not None and _package(origin) != _package(module):
            crossings += 1

    before = sys.getprofile()
    sys.setprofile(follow)
    try:
        action()
    finally:
        sys.setprofile(before)
    return Way(calls.total(), len(calls), crossings)


def _package(module: str) -> str:
    return module.partition("/")[0]


def a_save(base: Path) -> Way:
    """Charge tokens to a session of ten entries."""
    manager = _session_of_ten_entries(base)
    return way_of(lambda: manager.record_tokens(1))


def a_load(base: Path) -> Way:
    """Load a session of ten entries."""
    session_id = _session_of_ten_entries(base).list()[0].session_id
    reader = SessionManager(base)
    return way_of(lambda: reader.load(session_id))


def a_phase(base: Path) -> Way:
    """Run a phase in the sandbox, its workspace kept."""
    manager = build_manager(base)
    manager.create("report", "draft", goal="A report")
    return way_of(lambda: manager.run_phase("print(2)"))


def a_question(base: Path) -> Way:
    """Ask, answer and read the answer."""
    channel = QuestionSessionChannel(base)
    questions = [Question(prompt="Which database?", title="Database")]
    numbers = count()

    def ask() -> None:
        question_id = channel.id_for(str(next(numbers)))
        channel.put(question_id, questions, call_id=None)
        assert channel.answer(question_id, ["SQLite"])
        assert channel.wait(question_id, 1) is not None

    return way_of(ask)


def a_prune(base: Path) -> Way:
    """Prune three sessions that have ended."""

    def end_three() -> None:
        for _ in range(3):
            manager = SessionManager(base)
            manager.create("report", "draft", goal="A report")
            manager.complete()

    prune = SessionManager(base).cleanup_old_sessions
    return way_of(lambda: prune(0), prepare=end_three)


def _session_of_ten_entries(base: Path) -> SessionManager:
    manager = SessionManager(base)
    manager.create("report", "draft", goal="A report")
    for number in range(10):
        manager.add_history("note", f"entry {number}")
    return manager


WAYS: Final = {one.__name__: one for one in (a_save, a_load, a_phase, a_question, a_prune)}

if __name__ == "__main__":
    print(json.dumps(WAYS[sys.argv[1]](Path(sys.argv[2]))))
