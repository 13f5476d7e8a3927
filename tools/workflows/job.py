"""One piece of work: a workflow and, for an agent, what it works from, as one value.

It goes into the session when the session is begun, so that any worker on any day can resume with
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
from .documents.component_files import is_in_any, is_test_path
from .documents.specification import Component, Specification
from .documents.specification_document import parse_specification
from .documents.workflow_document import read_agent_workflow, read_snapshot
from .documents.workflow_snapshot import snapshot_of
from .errors import InvalidWorkflow, NotAWorkflowSession
from .names import path_problem
from .prompts.prompts import shown_paths
from .workflow import CODE, TESTS, Gate, Input, Phase, Workflow

SNAPSHOT_NAME: Final = WORKFLOW_FILE
"""The name under which a session keeps a workflow of scripts; the run's lock is on it."""
WORKFLOW_NAME: Final = AGENT_WORKFLOW_FILE
"""The name under which a session keeps an agent's workflow; the run's lock is on it."""
SPECIFICATION_NAME: Final = "specification.yaml"
WORK_NAME: Final = "agent-work.json"
CONTEXT_NAME: Final = "project-context.md"
MAX_CONTEXT_CHARS: Final = 2_000_000
MAX_SUBJECT_CHARS: Final = 200_000
_IN_WORK: Final = ("name", "subject", "component_id", "import_root", "agent", "inputs")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@frozen(kw_only=True)
class AgentWork:
    """What an agent is to do.

    Attributes:
        workflow: Its phases.
        name: What it is called: the component's id, or the specification's name; `{name}` in the
            workflow's paths stands for it. 1 to 64 of `a-z 0-9 _ -`.
        subject: What is wanted, in the words of the person who began it, or None.
        specification: The specification's document, or None.
        component_id: Which of its components; None: the one that `name` names, or the only one.
        agent: Who does it, or None: `resume` is given one.
        inputs: Files that are in the workspace before the first phase.
        context: What of the project each prompt shows, as `gather_context` makes it, or None.
        import_root: The folder that imports of the project's Python begin in, relative to it, "."
            for itself; None where that is not known. What the specification says goes before it.
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
        """Read the work that a session was begun with.

        Raises:
            NotAWorkflowSession: No agent's work began it.
            InvalidWorkflow: What is there can't be read.
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
    """Return whether a session was begun as an agent's work.

    Raises:
        InvalidSessionId: It is no id.
        ReadError: The system refused to look.
    """
    return store.read_attachment(session_id, WORK_NAME) is not None


@frozen(kw_only=True)
class Job:
    """What a runner works through: a workflow with all that follows from the work it is for.

    Attributes:
        workflow: The workflow.
        work: What an agent is to do, or None where scripts run.
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
            InvalidWorkflow: The workflow was built by hand and breaks the rules of its file, or
                is an agent's without its work.
            InvalidSpecification: The specification is none.
            UnknownComponent: It has no such component, or several to choose from.
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
        """Read the job that a session was begun with.

        Raises:
            NotAWorkflowSession: No workflow began it.
            InvalidWorkflow: What is there can't be read.
        """
        data = store.read_attachment(session_id, SNAPSHOT_NAME)
        if data is None:
            return cls.of(AgentWork.of_session(store, session_id))
        path = Path(store.where_is(session_id, SNAPSHOT_NAME))
        return cls(workflow=read_snapshot(data, path))

    @property
    def name(self) -> str:
        """What `{name}` stands for in the workflow's paths."""
        return self.workflow.name if self.work is None else self.work.name

    @property
    def title(self) -> str:
        """What people call it: the workflow, and what an agent works on."""
        return self.name if self.work is None else f"{self.workflow.name} {self.name}"

    @property
    def goal(self) -> str | None:
        """What the session is for."""
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
        """The attachment that the run's lock is on: the session's copy of the workflow."""
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
        """Return the files that a phase's gate asks for."""
        return shown_paths(phase.agents_gate.require, self.name)

    def refusal(self, phase: Phase, path: str) -> str | None:
        """Return why a phase may not write a path, or None."""
        allowed = self.writable(phase)
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
    """Refuse gates of the sandbox for what it can't run."""
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
