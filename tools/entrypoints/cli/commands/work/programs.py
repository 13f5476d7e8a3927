"""Run a program as a workflow: a new session, or the open one of the same file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from attrs import evolve

from .....harness import SessionState
from .....workflows.builtin import program_workflow
from .....workflows.documents.phase_forms import MAX_SCRIPT_BYTES
from .....workflows.errors import OtherProgram
from .....workflows.job import Job
from .....workflows.workflow import PROGRAM
from ...context import Cli
from ...options import argument, flag, misuse, option, read_given_text
from ...running.agent_options import OtherAgent
from ...running.run_session import go_on
from .agent_work import About, AgentBeginning, Component, GateOptions

_FILE: Final = "program"
"""The field of a session's metadata that names its program's file."""


def program(
    cli: Cli,
    *,
    path: Path = argument("PROGRAM.py"),
    specification: Path | None = option("--spec SPEC"),
    component: Component = None,
    about: About = None,
    new: bool = flag("--new"),
    gate: GateOptions,
    beginning: AgentBeginning,
) -> None:
    """Run a program that calls agents, gates and people, or go on with its open session.

    It runs in the sandbox and is stored wherever it waits. What it may call is what these options
    and your configuration say.

    Args:
        path: The program: Python.
        specification: The specification whose component its agents develop.
        new: Begin a new session although one of this file is open.
    """
    if component is not None and specification is None:
        raise misuse("--component", "it names a component of the specification; add --spec")
    code = read_given_text(path, option="PROGRAM.py", most=MAX_SCRIPT_BYTES)
    file = str(path.resolve())
    found = None if new or beginning.dry_run or cli.submission is not None else _open(cli, file)
    if found is not None:
        if _text_of(cli, found) != code:
            raise OtherProgram(found, path=path)
        own = beginning.agent
        other = OtherAgent(own.agent, own.max_output, no_jail=own.no_jail, no_wait=own.no_wait)
        go_on(cli, found, other, lambda runner, whole, agent: runner.resume(whole, agent))
        return
    name = re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-")[:64].strip("-") or PROGRAM
    workflow = gate.of_workflow(
        cli, program_workflow(name, code, of_component=specification is not None)
    )
    if specification is None:
        work = beginning.work(cli, workflow, name=name, subject=about)
    else:
        work = beginning.component_work(cli, workflow, specification, component, about)
    labels = beginning.labels
    fields = [*(labels.metadata or ()), f"{_FILE}={file}"]
    evolve(beginning, labels=evolve(labels, metadata=fields)).begin(cli, work)


def _open(cli: Cli, file: str) -> str | None:
    """Return the open session of a program's file that changed last, or None."""
    manager = cli.manager()
    found = [
        (session.updated_at, session.session_id)
        for summary in manager.find(
            state=(SessionState.ACTIVE, SessionState.PAUSED), workflow_type=PROGRAM
        )
        if cli.store().is_own(summary.session_id)
        and (session := manager.store.load(summary.session_id)) is not None
        and session.metadata.get(_FILE) == file
    ]
    return max(found)[1] if found else None


def _text_of(cli: Cli, session_id: str) -> str | None:
    return Job.of_session(cli.store(), session_id).workflow.phases[0].agents_gate.code
