"""Run the graph of `langgraph_node.py`; its checkpoints are in SQLite.

    pip install 'agentforge-sessions[langgraph]'
    python examples/embedding/run_langgraph.py

An agent (here its recorded answers) writes a specification, and you are asked what only you can
decide; the recording goes with the first option of each question. Stop it wherever you like, with
Ctrl-C or `kill -9`, and start it again: the graph goes on with the same session, and the agent is
not asked again for anything that it has answered.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import Any

import structlog
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from langgraph_node import session_graph

from agentforge_sessions.workflows import SPEC, AgentWork
from agentforge_sessions.workflows.agents.choice import make_agent, parse_agent

ROOT = Path(__file__).resolve().parents[2]


def ask_here(asked: dict[str, Any]) -> list[str]:
    """Ask at the terminal; a number stands for an option, other words for themselves."""
    if asked["problem"]:
        print(asked["problem"])
    answers = []
    for question in asked["questions"]:
        print(f"\n{question['prompt']}")
        labels = [option["label"] for option in question["options"]]
        for number, option in enumerate(question["options"], 1):
            print(f"  {number}. {option['label']}: {option['description']}")
        said = input("> ").strip()
        chosen = int(said) if said.isdecimal() else 0
        answers.append(labels[chosen - 1] if 1 <= chosen <= len(labels) else said)
    return answers


def main() -> int:
    """Take a thread of the graph from where it stands to its end."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--base", type=Path, default=Path(".agentforge/langgraph/sessions"))
    parser.add_argument("--thread", default="slugs", help="which run of the graph")
    parser.add_argument(
        "--agent",
        default=f"recorded:{ROOT / 'examples' / 'recordings' / 'slugs'}",
        help="as `agentforge run spec --agent`",
    )
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))

    work = AgentWork(workflow=SPEC, name="slugs", subject="Titles become short, safe file names.")
    given.base.parent.mkdir(parents=True, exist_ok=True)
    with SqliteSaver.from_conn_string(str(given.base.parent / "graph.sqlite")) as saver:
        agent = make_agent(parse_agent(given.agent))
        graph = session_graph(work, agent, given.base).compile(checkpointer=saver)
        config: RunnableConfig = {"configurable": {"thread_id": given.thread}}
        step: Any = {}  # begin, or go on: the session's id is in the state of the thread
        while True:
            # "sync": what a node gave is on disk before the next one runs.
            state = graph.invoke(step, config, durability="sync")
            if "__interrupt__" not in state:
                break
            try:
                step = Command(resume=ask_here(state["__interrupt__"][0].value))
            except EOFError:
                print("\nNobody answers; all is kept. Start again to go on.")
                return 1
    outcome = state["outcome"]
    print(f"{outcome['session_id']}: {outcome['reason'] or outcome['state']}")
    return 0 if outcome["state"] == "completed" else 1


if __name__ == "__main__":
    sys.exit(main())
