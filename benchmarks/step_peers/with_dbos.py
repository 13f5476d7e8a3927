"""The job in DBOS: a workflow of one step a phase, with its state in SQLite."""

import sys

from dbos import DBOS, SetWorkflowID
from paid_calls import BUDGET, ESTIMATE, paid

DBOS(config={"name": "report", "system_database_url": "sqlite:///dbos.sqlite"})
step = DBOS.step()(paid)


@DBOS.workflow()
def report(topic: str) -> str:
    text, spent = topic, 0
    for phase in ("outline", "draft", "review"):
        if spent + ESTIMATE > BUDGET:
            raise RuntimeError(f"the budget does not allow {phase}")
        reply = step(phase, text)
        text, spent = reply["text"], spent + sum(reply["usage"].values())
    return text


DBOS.launch()
with SetWorkflowID(sys.argv[1]):
    print(report(sys.argv[1]))
DBOS.destroy()
