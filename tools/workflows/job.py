"""One piece of work as a value: a workflow and, for an agent, its material.

It goes into the session when the session is created, so that any worker can resume at any time with
nothing but the session's id.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from attrs import evolve, field, frozen

from ..harness.session_layout import AGENT_WORKFLOW_FILE, WORKFLOW_FILE
from ..harness.session_ports import SessionRepository
from .agents.port import AgentChoice
from .converters import as_tuple, made, plain
from .documents.specification import Component, Specification, is_in_any, is_test_path
from .documents.specification_document import parse_specification
from .documents.workflow_document import read_agent_workflow, read_snapshot
from .documents.workflow_snapshot import snapshot_of
from .errors import InvalidWorkflow, NotAWorkflowSession
from .names import path_problem
from .prompts.prompts import shown_paths
from .workflow import CODE, TESTS, Gate, Input, Phase, Workflow

SNAPSHOT_NAME: Final = WORKFLOW_FILE
"""The name of a session's copy of a workflow of scripts; the run's lock is on it."""
WORKFLOW_NAME: Final = AGENT_WORKFLOW_FILE
"""The name of a session's copy of an agent's workflow; the run's lock is on it."""
SPECIFICATION_NAME: Final = "specification.yaml"
WORK_NAME: Final = "agent-work.json"
CONTEXT_NAME: Final = "project-context.md"
MAX_CONTEXT_CHARS: Final = 2_000_000
MAX_SUBJECT_CHARS: Final = 200_000
_IN_WORK: Final = ("name", "subject", "component_id", "import_root", "agent", "inputs")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@frozen(kw_only=True)
class AgentWork:
    """The work of an agent.

    Attributes:
        workflow: Its phases.
        name: Its name: the component's id, or the specification's name; replaces `{name}` in the
            workflow's paths. 1 to 64 of `a-z 0-9 _ -`.
        subject: The request, in the words of the person who started the work, or None.
        specification: The specification's document, or None.
        component_id: The component to build; None: the one that `name` names, or the only one.
        agent: The agent, or None if `resume` gets one.
        inputs: Files that are in the workspace before the first phase.
        context: The project's context for each prompt, from `gather_context`, or None.
        import_root: The folder where imports of the project's Python begin, relative to it, "."
            for itself; None if unknown. A value in the specification takes precedence.
    """

    workflow: Workflow
    name: str
    subject: str | None = None
    specification: bytes | None = field(default=None, repr=False)
    component_id: str | None = None
    agent: AgentChoice | None = None
    inputs: tuple[Input, ...] = field(default=(), converter=as_tuple)
    context: str | None = field(default=None, repr=False)
    import_root: str | None = None

    def __attrs_post_init__(self) -> None:
        faults = []
        if not _NAME.fullmatch(self.name):
            faults.append(f"name: {self.name[:80]!r} is no name; it has 1 to 64 of a-z 0-9 _ -")
        if self.subject is not None and len(self.subject) > MAX_SUBJECT_CHARS:
            faults.append(f"subject: has more than {MAX_SUBJECT_CHARS:,} characters")
        if self.context is not None and len(self.context) > MAX_CONTEXT_CHARS:
            faults.append(f"context: has more than {MAX_CONTEXT_CHARS:,} characters")
        if self.workflow.role is None:
            faults.append("workflow: has no role for an agent; it runs scripts")
        if self.workflow.needs_specification and self.specification is None:
            faults.append(f"specification: is missing, and {self.workflow.name} needs one")
        faults += [
            f"inputs: {problem}"
            for one in self.inputs
            if (problem := path_problem(one.target)) is not None
        ]
        if faults:
            raise InvalidWorkflow(path=Path(self.workflow.name), faults=faults)

    def attachments(self) -> dict[str, bytes]:
        """Return the files that go into the session."""
        work = {"schema_version": 1, **{name: plain(getattr(self, name)) for name in _IN_WORK}}
        files = {
            WORKFLOW_NAME: snapshot_of(self.workflow),
            WORK_NAME: json.dumps(work, indent=1).encode(),
        }
        if self.context is not None:
            files[CONTEXT_NAME] = self.context.encode()
        if self.specification is not None:
            files[SPECIFICATION_NAME] = self.specification
        return files

    @classmethod
    def of_session(cls, store: SessionRepository, session_id: str) -> AgentWork:
        """Read the work that a session was created with.

        Raises:
            NotAWorkflowSession: The session was not created for an agent's work.
            InvalidWorkflow: Its copy of the work can't be read.
        """
        workflow = store.read_attachment(session_id, WORKFLOW_NAME)
        work = store.read_attachment(session_id, WORK_NAME)
        if workflow is None or work is None:
            raise NotAWorkflowSession(session_id)
        context = store.read_attachment(session_id, CONTEXT_NAME)
        path = Path(store.where_is(session_id, WORK_NAME))
        try:
            return made(
                cls,
                json.loads(work),
                workflow=read_agent_workflow(workflow, path.with_name(WORKFLOW_NAME)),
                specification=store.read_attachment(session_id, SPECIFICATION_NAME),
                context=None if context is None else context.decode(),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidWorkflow(
                path=path, faults=[f"it is no agent's work: {error}"], session_id=session_id
            ) from error


def is_agent_session(store: SessionRepository, session_id: str) -> bool:
    """Return whether a session was created for an agent's work.

    Raises:
        InvalidSessionId: The id is malformed.
        ReadError: The store can't be read.
    """
    return store.read_attachment(session_id, WORK_NAME) is not None


@frozen(kw_only=True)
class Job:
    """What a runner works through: a workflow, and everything derived from its work.

    Attributes:
        workflow: The workflow.
        work: The agent's work, or None for scripts.
        specification: The work's specification, or None.
        component: Its component, or None.
    """

    workflow: Workflow
    work: AgentWork | None = None
    specification: Specification | None = None
    component: Component | None = None

    @classmethod
    def of(cls, work: AgentWork | Workflow) -> Job:
        """Return the job of an agent's work or of a workflow of scripts.

        Raises:
            InvalidWorkflow: The workflow was built in code and breaks the rules of its file, or is
                an agent's without its work.
            InvalidSpecification: The specification is not valid.
            UnknownComponent: It has no such component, or several and none is chosen.
        """
        if isinstance(work, Workflow):
            if work.role is not None:
                raise InvalidWorkflow(
                    path=Path(work.name), faults=["it is an agent's; begin an AgentWork with it"]
                )
            return cls(workflow=read_snapshot(snapshot_of(work), Path(SNAPSHOT_NAME)))
        if work.specification is None:
            return cls(workflow=work.workflow, work=work)
        path = Path(SPECIFICATION_NAME)
        specification = parse_specification(work.specification, path=path)
        named = work.component_id
        if named is None and any(one.component_id == work.name for one in specification.components):
            named = work.name
        component = specification.component(named, path=path)
        if component.is_python and component.import_root is None:
            component = evolve(component, import_root=work.import_root)
        _require_gates(work.workflow, component)
        return cls(
            workflow=work.workflow, work=work, specification=specification, component=component
        )

    @classmethod
    def of_session(cls, store: SessionRepository, session_id: str) -> Job:
        """Read the job that a session was created with.

        Raises:
            NotAWorkflowSession: The session was not started by a workflow.
            InvalidWorkflow: Its copy of the work can't be read.
        """
        data = store.read_attachment(session_id, SNAPSHOT_NAME)
        if data is None:
            return cls.of(AgentWork.of_session(store, session_id))
        path = Path(store.where_is(session_id, SNAPSHOT_NAME))
        return cls(workflow=read_snapshot(data, path))

    @property
    def name(self) -> str:
        """The value of `{name}` in the workflow's paths."""
        return self.workflow.name if self.work is None else self.work.name

    @property
    def title(self) -> str:
        """The title for people: the workflow, and the subject of an agent's work."""
        return self.name if self.work is None else f"{self.workflow.name} {self.name}"

    @property
    def goal(self) -> str | None:
        """The session's goal."""
        work = self.work
        if work is None:
            return self.workflow.goal
        goal = self.workflow.goal or self.workflow.name
        if self.component is not None and self.specification is not None:
            return f"{goal} Component {work.name} of {self.specification.title}."
        if work.subject:
            return f"{goal} {work.name}: {' '.join(work.subject.split())[:1500]}"
        return goal

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Files that are in the workspace before the first phase."""
        return self.workflow.inputs if self.work is None else self.work.inputs

    @property
    def lock_name(self) -> str:
        """The attachment that the run lock is on: the session's copy of the workflow."""
        return SNAPSHOT_NAME if self.work is None else WORKFLOW_NAME

    def attachments(self) -> dict[str, bytes]:
        """Return the files that go into the session."""
        if self.work is None:
            return {SNAPSHOT_NAME: snapshot_of(self.workflow)}
        return self.work.attachments()

    def writable(self, phase: Phase) -> tuple[str, ...]:
        """Return the files, and directories ending in `/`, that a phase may write."""
        found: list[str] = []
        groups = {group.name: group.paths for group in self.workflow.groups}
        for name in phase.writes:
            if name == CODE and self.component is not None:
                found += self.component.code_places
            elif name == TESTS and self.component is not None:
                found += self.component.tests
            else:
                found += shown_paths(groups.get(name, ()), self.name)
        return tuple(dict.fromkeys(found))

    @property
    def all_writable(self) -> tuple[str, ...]:
        """The files and directories that any phase may write."""
        return tuple(
            dict.fromkeys(path for phase in self.workflow.phases for path in self.writable(phase))
        )

    def required(self, phase: Phase) -> tuple[str, ...]:
        """Return the files that a phase's gate requires."""
        return shown_paths(phase.agents_gate.require, self.name)

    def refusal(self, phase: Phase, path: str) -> str | None:
        """Return why a phase may not write a path, or None."""
        allowed = self.writable(phase)
        if ".git" in path.lower().split("/"):
            return f"{path!r} is git's own"
        is_test = self.component is not None and is_test_path(self.component, path)
        if is_in_any(path, allowed) and (not is_test or TESTS in phase.writes or path in allowed):
            return None
        if is_test:
            return (
                f"{path!r} is one of the tests, which are fixed in phase {phase.name}; "
                f"it may write {', '.join(allowed)}"
            )
        return (
            f"{path!r} is none of the files that phase {phase.name} may write: {', '.join(allowed)}"
        )


def _require_gates(workflow: Workflow, component: Component) -> None:
    """Reject gates of the sandbox for a component that the sandbox can't run."""
    if component.is_python:
        return
    sandboxed = [
        phase.name
        for phase in workflow.phases
        if isinstance(phase.gate, Gate) and phase.gate.tests_in_sandbox
    ]
    if sandboxed:
        raise InvalidWorkflow(
            path=Path(workflow.name),
            faults=[
                f"phases {', '.join(sandboxed)} run tests in the sandbox, which runs Python, and "
                f"{component.location} is none; name the project's own command for its tests "
                "(--gate, or command of the gate)"
            ],
        )
