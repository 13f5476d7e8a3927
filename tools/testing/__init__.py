"""Test a program's sessions without files, a database, a person or time that passes.

    pytest_plugins = ["agentforge_sessions.testing.fixtures"]      # in conftest.py

    def test_the_report_is_written(memory_sessions, clock, answers):
        answers.answer("Publish?", "Yes")
        ...

`MemorySessions` passes the suites of every store: what a program does with it, it does with files
and with PostgreSQL. Nothing of it outlives the process. The package prints nothing, and imports
pytest in `fixtures` only.
"""

from typing import TYPE_CHECKING

from ..base.exports import on_first_use

if TYPE_CHECKING:
    from .answers import ScriptedAnswers as ScriptedAnswers
    from .manual_clock import ManualClock as ManualClock
    from .memory_sessions import MemorySessions as MemorySessions
    from .memory_shelf import Shelf as Shelf
else:
    __getattr__ = on_first_use(
        __name__,
        {
            "answers": "ScriptedAnswers",
            "manual_clock": "ManualClock",
            "memory_sessions": "MemorySessions",
            "memory_shelf": "Shelf",
        },
    )
