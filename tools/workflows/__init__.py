"""Workflows: phases in a file, run one after the other in a session that survives its worker.

from agentforge_sessions.wiring.bootstrap import build_runner
from agentforge_sessions.workflows import load_workflow

runner = build_runner()
outcome = runner.start(load_workflow("workflow.yaml"))
if outcome.reason is not None:  # paused: a phase failed, or the budget is too small
    outcome = runner.resume(outcome.session_id)

The same for an agent's work, judged by gates in the sandbox:

from agentforge_sessions.agents.running import CommandAgent
from agentforge_sessions.wiring.bootstrap import build_agent_runner
from agentforge_sessions.workflows import TDFLOW, AgentWork

work = AgentWork(workflow=TDFLOW, name="ledger", specification=Path("spec.yaml").read_bytes())
outcome = build_agent_runner().start(work, CommandAgent("claude -p"))
"""

from .agents.port import AgentChoice, PhaseAgent
from .builtin import SPEC, TDFLOW
from .documents.specification import InvalidSpecification, UnknownComponent
from .documents.workflow_document import load_agent_workflow, load_workflow
from .errors import (
    AlreadyRunning,
    AttemptsExhausted,
    BudgetTooSmall,
    InvalidWorkflow,
    NoAgent,
    NotAWorkflowSession,
    NothingToRetry,
    PhaseNotInWorkflow,
)
from .gate_port import GateSandbox, GateUnavailable
from .gates.verdict import Verdict
from .job import AgentWork, Job
from .ports import RunObserver, RunOutcome, Stop, StopCause
from .runner import WorkflowRunner
from .workflow import FileGroup, Gate, Input, Phase, Script, Workflow

__all__ = [
    "SPEC",
    "TDFLOW",
    "AgentChoice",
    "AgentWork",
    "AlreadyRunning",
    "AttemptsExhausted",
    "BudgetTooSmall",
    "FileGroup",
    "Gate",
    "GateSandbox",
    "GateUnavailable",
    "Input",
    "InvalidSpecification",
    "InvalidWorkflow",
    "Job",
    "NoAgent",
    "NotAWorkflowSession",
    "NothingToRetry",
    "Phase",
    "PhaseAgent",
    "PhaseNotInWorkflow",
    "RunObserver",
    "RunOutcome",
    "Script",
    "Stop",
    "StopCause",
    "UnknownComponent",
    "Verdict",
    "Workflow",
    "WorkflowRunner",
    "load_agent_workflow",
    "load_workflow",
]
