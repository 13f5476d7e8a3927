"""A report in three paid calls that survives a kill: the next start goes on after the last one.

    python examples/durable.py rivers [--killed-in draft] [--sessions DIRECTORY]

Prints each call that is paid, and the report. The call here only writes its name.
"""

from __future__ import annotations

import argparse
import os
import signal
from functools import partial
from pathlib import Path

from agentforge_sessions import session

BUDGET, ESTIMATE, COST = 20_000, 6_000, 5_000


def call_model(phase: str, text: str, *, killed_in: str | None = None) -> dict[str, object]:
    """Do what a model would, with its usage as an SDK returns it."""
    if phase == killed_in:
        os.kill(os.getpid(), signal.SIGKILL)
    print(f"paid: {phase}", flush=True)
    return {"text": f"{phase} of {text}", "usage": {"input_tokens": COST, "output_tokens": 0}}


def report(topic: str, sessions: Path, killed_in: str | None) -> str:
    """Begin the report of a topic, go on with it, or return the finished one."""
    call = partial(call_model, killed_in=killed_in)
    with session("report", key=topic, budget=BUDGET, store=sessions) as s:
        if not s.finished:
            text = topic
            for phase in ("outline", "draft", "review"):
                text = str(s.step(phase, call, phase, text, spend=ESTIMATE)["text"])
            s.finish(text)
        return str(s.result)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("topic")
    parser.add_argument("--killed-in", help="die in this call, as a kill does")
    parser.add_argument("--sessions", type=Path, default=Path(".agentforge/sessions"))
    given = parser.parse_args()
    print(report(given.topic, given.sessions, given.killed_in))
