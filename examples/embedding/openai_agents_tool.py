"""Agents' sessions as tools of the OpenAI Agents SDK: begin one, run it, answer its questions.

Copy this; `run_openai_agents.py` runs it.
"""

import json
from pathlib import Path
from typing import Any

from agents import RunContextWrapper, function_tool
from attrs import asdict, frozen

from agentforge_sessions.base.files import DurableError
from agentforge_sessions.harness import HarnessError
from agentforge_sessions.questions import QuestionError
from agentforge_sessions.wiring.bootstrap import build_agent_runner
from agentforge_sessions.wiring.phases.question_channel import QuestionSessionChannel
from agentforge_sessions.workflows import (
    TDFLOW,
    AgentWork,
    AttemptsExhausted,
    BudgetTooSmall,
    PhaseAgent,
    WorkflowRunner,
)


@frozen(kw_only=True)
class Channel:
    """What the tools work with: the context of a run, which no model sees or chooses."""

    base: Path
    specification: bytes
    agent: PhaseAgent

    @property
    def person(self) -> QuestionSessionChannel:
        return QuestionSessionChannel(self.base.parent / "questions")

    def runner(self) -> WorkflowRunner:  # one for each call: tools run in threads
        return build_agent_runner(self.base, channel=self.person)


def told(_: RunContextWrapper[Any], error: Exception) -> str:
    """Tell the model what it can do something about; anything else ends the run."""
    if isinstance(error, HarnessError | QuestionError) and not isinstance(error, DurableError):
        return str(error)
    raise error


@function_tool(failure_error_function=told)
def begin_component(context: RunContextWrapper[Channel], component: str) -> str:
    """Begin a session that develops a component. Nothing runs yet: call run_session with its id.

    Args:
        component: The component's id in the specification.
    """
    work = AgentWork(
        workflow=TDFLOW,
        name=component,
        component_id=component,
        specification=context.context.specification,
    )
    return context.context.runner().begin(work)


@function_tool(failure_error_function=told)
def run_session(context: RunContextWrapper[Channel], session_id: str) -> str:
    """Run a session, or go on with it, until it is completed, or paused for a reason.

    Put its questions to the user in the user's own conversation, never answer them yourself.

    Args:
        session_id: What begin_component returned.
    """
    channel = context.context
    outcome = channel.runner().outcome(session_id)
    if not outcome.state.is_terminal:
        try:
            outcome = channel.runner().resume(session_id, channel.agent)
        except (AttemptsExhausted, BudgetTooSmall):  # it stays paused, and says why
            outcome = channel.runner().outcome(session_id)
    waiting = channel.person.waiting(outcome.waiting_for) if outcome.waiting_for else ()
    return json.dumps({**outcome.to_dict(), "questions": [asdict(one) for one in waiting]})


@function_tool(failure_error_function=told, needs_approval=True)
def answer_questions(context: RunContextWrapper[Channel], asked: str, answers: list[str]) -> str:
    """Give a session the user's answers to its questions; then call run_session.

    Args:
        asked: The `waiting_for` of the session's report.
        answers: One for each question, in their order: an option's label, or the user's words.
    """
    given = context.context.person.answer(asked, answers)
    return "given" if given else "somebody answered before; those answers stand"
