"""An agent's session as nodes of a LangGraph graph: begin it, run it, ask the person.

Copy this; `run_langgraph.py` runs it.
"""

from pathlib import Path
from typing import Any, Literal, TypedDict

from attrs import asdict
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from agentforge_sessions.questions import InvalidAnswers
from agentforge_sessions.wiring.bootstrap import build_agent_runner
from agentforge_sessions.wiring.phases.question_channel import QuestionSessionChannel
from agentforge_sessions.workflows import (
    AgentWork,
    AttemptsExhausted,
    BudgetTooSmall,
    PhaseAgent,
    WorkflowRunner,
)


class State(TypedDict, total=False):
    session_id: str
    outcome: dict[str, Any]  # how the session stands: RunOutcome.to_dict()


def session_graph(work: AgentWork, agent: PhaseAgent, base: Path) -> StateGraph[State]:
    """Make a graph that takes one session to its end, or to where somebody has to look at it."""
    person = QuestionSessionChannel(base.parent / "questions")

    def runner() -> WorkflowRunner:  # one for each call: nodes run in threads
        return build_agent_runner(base, channel=person)

    def begin(state: State) -> State:
        """Have the session's id in a checkpoint before any work is done."""
        return {} if "session_id" in state else {"session_id": runner().begin(work)}

    def run(state: State) -> Command[Literal["ask", "__end__"]]:
        """Go on with the session, whatever became of the worker that did so before."""
        outcome = runner().outcome(state["session_id"])
        if not outcome.state.is_terminal:
            try:
                outcome = runner().resume(state["session_id"], agent)
            except (AttemptsExhausted, BudgetTooSmall):  # it stays paused, and says why
                outcome = runner().outcome(state["session_id"])
        goto: Literal["ask", "__end__"] = "ask" if outcome.waiting_for else "__end__"
        return Command(update={"outcome": outcome.to_dict()}, goto=goto)

    def ask(state: State) -> Command[Literal["run"]]:
        """Stop for the person, who answers here or with `agentforge questions`."""
        asked, problem = state["outcome"]["waiting_for"], None
        while waiting := person.waiting(asked):
            questions = [asdict(question) for question in waiting]
            answers = interrupt({"questions": questions, "problem": problem})
            try:
                person.answer(asked, answers)
            except InvalidAnswers as error:
                problem = str(error)
        return Command(goto="run")

    graph = StateGraph(State).add_node(begin).add_node(run).add_node(ask)
    return graph.add_edge(START, "begin").add_edge("begin", "run")
