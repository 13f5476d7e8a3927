"""The job in this package: a session of the caller's key, one step a phase."""

import sys

from paid_calls import BUDGET, ESTIMATE, paid

from agentforge_sessions import session

with session("report", key=sys.argv[1], budget=BUDGET) as s:
    if not s.finished:
        text = sys.argv[1]
        for phase in ("outline", "draft", "review"):
            text = s.step(phase, paid, phase, text, spend=ESTIMATE)["text"]
        s.finish(text)
print(s.result)
