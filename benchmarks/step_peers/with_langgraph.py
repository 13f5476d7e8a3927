"""The job in LangGraph: an entrypoint with one task a phase, checkpointed in SQLite."""

import sys

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint, task
from paid_calls import BUDGET, ESTIMATE, paid

step = task(paid)
with SqliteSaver.from_conn_string("langgraph.sqlite") as saver:

    @entrypoint(checkpointer=saver)
    def report(topic: str) -> str:
        text, spent = topic, 0
        for phase in ("outline", "draft", "review"):
            if spent + ESTIMATE > BUDGET:
                raise RuntimeError(f"the budget does not allow {phase}")
            reply = step(phase, text).result()
            text, spent = reply["text"], spent + sum(reply["usage"].values())
        return text

    config = {"configurable": {"thread_id": sys.argv[1]}}
    found = report.get_state(config)
    if found.created_at and not found.next:
        print(found.values)
    else:
        print(report.invoke(None if found.next else sys.argv[1], config, durability="sync"))
