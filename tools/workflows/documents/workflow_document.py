"""Workflow files: the phases, what each runs, and when it succeeds.

A workflow is read completely, with every script and input, before anything runs, and all its faults
are reported at once. A snapshot of it goes into the session that runs it, so the session needs none
of these files again, and later changes to them do not affect it.

docs/workflows.md describes the form for scripts, docs/agents.md the form for agents.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from ...base.reading.nodes import Faults
from ...base.reading.yaml_nodes import read_document
from ...harness.session_layout import MAX_FILE_BYTES
from ..errors import InvalidWorkflow
from ..workflow import Workflow
from .phase_forms import AgentForm, ScriptForm
from .workflow_form import WorkflowForm, not_utf8, read_limited
from .workflow_snapshot import snapshot_of

MAX_WORKFLOW_BYTES: Final = 4 << 20
"""The largest workflow file, in bytes."""


def load_workflow(path: Path | str, *, isolation: str = "sandbox") -> Workflow:
    """Read a workflow of scripts with every script and input that its file names.

    Args:
        path: The file. Paths in it are relative to its directory.
        isolation: Where scripts run if the file does not say it.

    Raises:
        InvalidWorkflow: The file, or a file it names, has faults; the error names all of them.
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
        InvalidWorkflow: It is not a valid snapshot; the error names every fault.
    """
    _require_room(len(data), path)
    return _read(data, path, form=lambda faults: ScriptForm(faults, directory=None))


def load_agent_workflow(path: Path | str) -> Workflow:
    """Read the file of an agent's workflow.

    Raises:
        InvalidWorkflow: It has faults; the error names all of them.
    """
    path = Path(path)
    return read_agent_workflow(_file(path), path)


def read_agent_workflow(data: bytes, path: Path) -> Workflow:
    """Read an agent's workflow from its file or its snapshot, which have the same form.

    Raises:
        InvalidWorkflow: It has faults; the error names all of them.
    """
    return _read(data, path, form=AgentForm)


def document_kind(path: Path) -> str:
    """Return the kind of a file by its fields, without validating it.

    Returns:
        "workflow" (of scripts), "agent workflow" or "specification"; "workflow" for any other
        file, so that loading it reports why.
    """
    data = read_limited(path, MAX_WORKFLOW_BYTES)
    text = "" if isinstance(data, str) else data.decode("utf-8-sig", "replace")
    keys = read_document(text, Faults(), set, max_depth=100)
    if keys and "role" in keys:
        return "agent workflow"
    return "specification" if keys and "components" in keys else "workflow"


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
