"""Workflows: phases in a file, run one after the other in a session that survives its worker.

from tools.bootstrap import build_runner
from tools.workflows import load_workflow

runner = build_runner()
outcome = runner.start(load_workflow("workflow.yaml"))
if outcome.reason is not None:  # paused: a phase failed, or the budget is too small
    outcome = runner.resume(outcome.session_id)
"""

from tools.workflows.errors import (
    AlreadyRunning,
    AttemptsExhausted,
    BudgetTooSmall,
    InvalidWorkflow,
    NotAWorkflowSession,
    NothingToRetry,
    PhaseNotInWorkflow,
)
from tools.workflows.runner import RunObserver, RunOutcome, SilentObserver, WorkflowRunner
from tools.workflows.workflow_file import Input, Phase, Workflow, load_workflow

__all__ = [
    "AlreadyRunning",
    "AttemptsExhausted",
    "BudgetTooSmall",
    "Input",
    "InvalidWorkflow",
    "NotAWorkflowSession",
    "NothingToRetry",
    "Phase",
    "PhaseNotInWorkflow",
    "RunObserver",
    "RunOutcome",
    "SilentObserver",
    "Workflow",
    "WorkflowRunner",
    "load_workflow",
]
