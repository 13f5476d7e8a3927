"""The job in Burr: a state machine of one action a phase, its state in SQLite."""

import itertools
import sys

from burr.core import ApplicationBuilder, State, action
from burr.core.persistence import SQLitePersister
from paid_calls import BUDGET, ESTIMATE, paid

PHASES = ("outline", "draft", "review")


@action(reads=["text", "spent"], writes=["text", "spent"])
def call(state: State, phase: str) -> State:
    if state["spent"] + ESTIMATE > BUDGET:
        raise RuntimeError(f"the budget does not allow {phase}")
    reply = paid(phase, state["text"])
    return state.update(text=reply["text"], spent=state["spent"] + sum(reply["usage"].values()))


saver = SQLitePersister.from_values("burr.sqlite")
saver.initialize()
app = (
    ApplicationBuilder()
    .with_actions(**{phase: call.bind(phase=phase) for phase in PHASES})
    .with_transitions(*itertools.pairwise(PHASES))
    .with_identifiers(app_id=sys.argv[1])
    .initialize_from(saver, True, {"text": sys.argv[1], "spent": 0}, PHASES[0])
    .with_state_persister(saver)
    .build()
)
if app.get_next_action() is not None:
    app.run(halt_after=[PHASES[-1]])
print(app.state["text"])
