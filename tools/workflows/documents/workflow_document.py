"""Workflow files: what phases there are, what each runs, and when it counts as done.

A workflow is read whole, with every script and every input, before anything is run; what is wrong
with it is reported all at once. As a snapshot it goes into the session that runs it, so that the
session needs none of these files again and does not change when they do.

docs/workflows.md describes the form for scripts, docs/agents.md the form for agents.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from ...base.reading.faults import Faults
from ...base.reading.yaml_nodes import read_document
from ...harness.session_layout import MAX_FILE_BYTES
from ..errors import InvalidWorkflow
from ..workflow import Workflow
from .agent_form import AgentForm
from .script_form import ScriptForm
from .workflow_form import WorkflowForm, not_utf8, read_limited
from .workflow_snapshot import snapshot_of

MAX_WORKFLOW_BYTES: Final = 4 << 20
"""Largest workflow file."""


def load_workflow(path: Path | str, *, isolation: str = "sandbox") -> Workflow:
    """Read a workflow of scripts with every script and input that its file names.

    Args:
        path: The file. What it names is relative to the directory it is in.
        isolation: Where the scripts run of a file that does not say it.

    Raises:
        InvalidWorkflow: Something is wrong with it or with a file that it names; the error names
            every fault.
    """
    path = Path(path)
    workflow = _read(
        _file(path),
        path,
        form=lambda faults: ScriptForm(faults, directory=path.parent, isolation=isolation),
    )
    _require_room(len(snapshot_of(workflow)), path)
    return workflow


def read_snapshot(data: bytes, path: Path) -> Workflow:
    """Read the snapshot of a workflow of scripts.

    Args:
        data: The snapshot.
        path: Where it comes from, for messages.

    Raises:
        InvalidWorkflow: It is none; the error names every fault.
    """
    _require_room(len(data), path)
    return _read(data, path, form=lambda faults: ScriptForm(faults, directory=None))


def load_agent_workflow(path: Path | str) -> Workflow:
    """Read the file of an agent's workflow.

    Raises:
        InvalidWorkflow: Something is wrong with it; the error names every fault.
    """
    path = Path(path)
    return read_agent_workflow(_file(path), path)


def read_agent_workflow(data: bytes, path: Path) -> Workflow:
    """Read an agent's workflow from its file or its snapshot, which are alike.

    Raises:
        InvalidWorkflow: It is none; the error names every fault.
    """
    return _read(data, path, form=AgentForm)


def document_kind(path: Path) -> str:
    """Return what a file is by its fields, without judging it.

    Returns:
        "workflow" (of scripts), "agent workflow" or "specification"; "workflow" for what can't be
        read, so that who loads it says why.
    """
    data = read_limited(path, MAX_WORKFLOW_BYTES)
    text = "" if isinstance(data, str) else data.decode("utf-8-sig", "replace")
    keys = read_document(text, Faults(), set, max_depth=100)
    keys = keys or {"phases"}
    if "role" in keys:
        return "agent workflow"
    return "workflow" if "phases" in keys else "specification"


def _file(path: Path) -> bytes:
    data = read_limited(path, MAX_WORKFLOW_BYTES)
    if isinstance(data, str):
        raise InvalidWorkflow(path=path, faults=[data])
    return data


def _require_room(size: int, path: Path) -> None:
    if size > MAX_FILE_BYTES:
        fault = (
            f"takes {size:,} bytes with all its scripts and inputs, more than the limit of "
            f"{MAX_FILE_BYTES:,}"
        )
        raise InvalidWorkflow(path=path, faults=[fault])


def _read(data: bytes, path: Path, *, form: Callable[[Faults], WorkflowForm]) -> Workflow:
    faults = Faults()
    workflow = None
    try:
        workflow = read_document(data.decode("utf-8-sig"), faults, form(faults).workflow)
    except UnicodeDecodeError as error:
        faults.add("", not_utf8(data, error))
    if faults or workflow is None:
        raise InvalidWorkflow(path=path, faults=faults.sorted())
    return workflow
