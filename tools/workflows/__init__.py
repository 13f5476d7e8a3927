"""Workflows: phases in a file, run one after the other in a session that survives its worker.

from tools.bootstrap import build_runner
from tools.workflows import load_workflow

runner = build_runner()
outcome = runner.start(load_workflow("workflow.yaml"))
if outcome.reason is not None:  # paused: a phase failed, or the budget is too small
    outcome = runner.resume(outcome.session_id)

The same for work that an agent does, judged by gates in the sandbox:

from tools.bootstrap import build_agent_runner
from tools.workflows import TDFLOW, AgentWork, CommandAgent

work = AgentWork(workflow=TDFLOW, name="ledger", specification=Path("spec.yaml").read_bytes())
outcome = build_agent_runner().start(work, CommandAgent("claude -p"))
"""

from tools.workflows.agent_observer import AgentObserver, SilentAgentObserver
from tools.workflows.agent_runner import AgentRunner
from tools.workflows.agent_work import AgentChoice, AgentWork
from tools.workflows.agent_workflow import (
    AgentPhase,
    AgentWorkflow,
    FileGroup,
    Gate,
    load_agent_workflow,
)
from tools.workflows.agents import CommandAgent, PhaseAgent, RecordedAgent, Recorder
from tools.workflows.builtin import SPEC, TDFLOW
from tools.workflows.errors import (
    AlreadyRunning,
    AttemptsExhausted,
    BudgetTooSmall,
    InvalidWorkflow,
    NoAgent,
    NotAWorkflowSession,
    NothingToRetry,
    PhaseNotInWorkflow,
)
from tools.workflows.gate_port import GateExecution, GatePlaces, GateSandbox, GateUnavailable
from tools.workflows.gates import Verdict
from tools.workflows.run_observer import RunObserver, SilentObserver
from tools.workflows.run_outcome import RunOutcome, StopCause
from tools.workflows.runner import WorkflowRunner
from tools.workflows.spec_schema import load_specification, parse_specification
from tools.workflows.specification import InvalidSpecification, Specification, UnknownComponent
from tools.workflows.workflow_file import Input, Phase, Workflow, load_workflow

__all__ = [
    "SPEC",
    "TDFLOW",
    "AgentChoice",
    "AgentObserver",
    "AgentPhase",
    "AgentRunner",
    "AgentWork",
    "AgentWorkflow",
    "AlreadyRunning",
    "AttemptsExhausted",
    "BudgetTooSmall",
    "CommandAgent",
    "FileGroup",
    "Gate",
    "GateExecution",
    "GatePlaces",
    "GateSandbox",
    "GateUnavailable",
    "Input",
    "InvalidSpecification",
    "InvalidWorkflow",
    "NoAgent",
    "NotAWorkflowSession",
    "NothingToRetry",
    "Phase",
    "PhaseAgent",
    "PhaseNotInWorkflow",
    "RecordedAgent",
    "Recorder",
    "RunObserver",
    "RunOutcome",
    "SilentAgentObserver",
    "SilentObserver",
    "Specification",
    "StopCause",
    "UnknownComponent",
    "Verdict",
    "Workflow",
    "WorkflowRunner",
    "load_agent_workflow",
    "load_specification",
    "load_workflow",
    "parse_specification",
]
