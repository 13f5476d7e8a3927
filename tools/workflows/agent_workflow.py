"""Workflows that an agent drives, as data: phases, prompts, gates, transitions, budget shares.

    workflow (data) ─► runner ─► prompt ─► agent ─► answer ─► files ─► gate ─► verdict ─► session
                          ▲                  │         │                          │
                          │                  └─ stored ┴─ before it is applied    │
                          └───────────────────────────────────────────────────────┘

The built-in ones (`workflows.builtin`) and those in YAML files are the same values; nothing
in the runner knows any of them by name. docs/agents.md describes the file for people.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from attrs import field, frozen

from ..harness.session_codec import encode_text
from ..harness.session_domain import DEFAULT_TOKEN_BUDGET, MAX_COUNT, MAX_GOAL_CHARS
from ..yaml_document import (
    Faults,
    Fields,
    Mapping,
    Node,
    Refused,
    Scalar,
    describe,
    read_document,
)
from .converters import as_tuple
from .errors import InvalidWorkflow
from .limited_files import read_limited
from .names import (
    NAME_RE,
    NAME_RULE,
    WORKFLOW_NAME_RE,
    WORKFLOW_NAME_RULE,
    path_problem,
)
from .workflow_document import (
    DEFAULT_MAX_ATTEMPTS,
    MAX_ATTEMPTS,
    MAX_DEADLINE_S,
    MAX_PHASES,
    MAX_WORKFLOW_BYTES,
)

SCHEMA_VERSION: Final = 1
DEFAULT_ANSWER_TOKENS: Final = 4000
DEFAULT_GATE_DEADLINE_S: Final = 300.0
MAX_PROMPT_CHARS: Final = 20_000
MAX_GROUPS: Final = 20

CODE: Final = "code"
"""The file group of the component's own file."""
TESTS: Final = "tests"
"""The file group of the component's tests."""

GATES: Final = {
    "tests_fail": "the new tests are collected, run, and fail because the component is missing",
    "tests_pass": "all tests pass",
    "suite": "all tests pass in a fresh workspace, from the files alone",
    "files": "the required files are there and not empty",
    "specification": "the specification has no fault",
    "approval": "a person approves",
    "script": "the workflow's own Python code ends with exit code 0",
}
"""The kinds of gates, and when each is passed."""
TEST_GATES: Final = frozenset({"tests_fail", "tests_pass", "suite"})
QUESTIONS: Final = ("allowed", "refused")


@frozen(kw_only=True)
class Gate:
    """What decides whether a phase is passed.

    Attributes:
        kind: One of `GATES`.
        require: Files that have to be there, for any kind; `{name}` stands for the run's name.
        tests_unchanged: Whether no test file may differ from the last passed `tests_fail` gate.
        covers_criteria: Whether each acceptance criterion needs a test that names it.
        framework: "pytest" or "unittest", for kinds that run tests.
        code: The Python code of a `script` gate; it runs in the sandbox, on a copy of the files.
        deadline_s: How long it may run, in seconds.
    """

    kind: str
    require: tuple[str, ...] = field(default=(), converter=as_tuple)
    tests_unchanged: bool = False
    covers_criteria: bool = False
    framework: str = "pytest"
    code: str | None = None
    deadline_s: float = DEFAULT_GATE_DEADLINE_S


@frozen(kw_only=True)
class AgentPhase:
    """One phase: what the agent is asked, what it may write, and what decides.

    Attributes:
        name: Its name; unique in the workflow.
        mode: What kind of work it is, in a word or a few, for the prompt.
        prompt: The instructions; None: no agent is asked, only the gate decides.
        writes: The file groups that an answer may write.
        gate: What decides.
        max_attempts: How many attempts there are before the session pauses.
        budget_share: The part of the session's budget that the phase may use, above 0 and at
            most 1.
        answer_tokens: What an answer is expected to cost, in tokens; with the prompt's own it has
            to fit the budget before the agent is asked.
        on_failure: The earlier phase to go back to when the gate is failed, or None: try again.
        questions: Whether the agent may ask the person: "allowed" or "refused".
    """

    name: str
    mode: str
    gate: Gate
    prompt: str | None = None
    writes: tuple[str, ...] = field(default=(), converter=as_tuple)
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    budget_share: float = 1.0
    answer_tokens: int = DEFAULT_ANSWER_TOKENS
    on_failure: str | None = None
    questions: str = "allowed"


@frozen(kw_only=True)
class FileGroup:
    """Files that belong together.

    Attributes:
        name: Its name; "code" and "tests" are the component's, from the specification.
        paths: Files, or directories ending in `/`; `{name}` stands for the run's name.
    """

    name: str
    paths: tuple[str, ...] = field(converter=as_tuple)


def _phases(values: Iterable[AgentPhase]) -> tuple[AgentPhase, ...]:
    return tuple(values)


@frozen(kw_only=True)
class AgentWorkflow:
    """Phases in their order, with all that makes them one piece of work.

    Attributes:
        name: Its name.
        workflow_type: What kind of work it is; sessions are listed by it.
        role: Who the agent is asked to be; each prompt begins with it.
        phases: At least one, with unique names.
        goal: What the work is for, or None.
        token_budget: What it may cost, in tokens.
        groups: The file groups besides those of the component.
        needs_specification: Whether it develops a component of a specification.
    """

    name: str
    workflow_type: str
    role: str
    phases: tuple[AgentPhase, ...] = field(converter=_phases)
    goal: str | None = None
    token_budget: int = DEFAULT_TOKEN_BUDGET
    groups: tuple[FileGroup, ...] = field(default=(), converter=as_tuple)
    needs_specification: bool = False

    def __attrs_post_init__(self) -> None:
        faults = list(self.faults())
        if faults:
            raise InvalidWorkflow(path=Path(self.name), faults=faults)

    def faults(self) -> Iterable[str]:
        """Say everything that is wrong between its parts."""
        if not self.phases:
            yield "phases: there are none"
        if len(self.goal or "") > MAX_GOAL_CHARS:
            yield f"goal: has more than {MAX_GOAL_CHARS:,} characters"
        found = phase_faults(self.phases, self.groups, self.needs_specification)
        yield from (text for _, text in found)

    def phase(self, name: str | None) -> AgentPhase | None:
        """Return the phase of this name, or None."""
        return next((phase for phase in self.phases if phase.name == name), None)

    def following(self, name: str) -> AgentPhase | None:
        """Return the phase after this one, or None."""
        names = [phase.name for phase in self.phases]
        position = names.index(name) + 1
        return self.phases[position] if position < len(names) else None

    @property
    def needs_pytest(self) -> bool:
        """Whether a gate runs tests with pytest."""
        return any(
            phase.gate.kind in TEST_GATES and phase.gate.framework == "pytest"
            for phase in self.phases
        )

    # ------------------------------------------------------------------------------ writing

    def to_snapshot(self) -> bytes:
        """Write the workflow as one YAML document; `from_snapshot` gives an equal one back."""
        lines = [
            f"schema_version: {SCHEMA_VERSION}\n",
            f"name: {encode_text(self.name)}\n",
            f"workflow_type: {encode_text(self.workflow_type)}\n",
            f"goal: {encode_text(self.goal, indent=2)}\n",
            f"token_budget: {self.token_budget}\n",
            f"needs_specification: {_flag(self.needs_specification)}\n",
            f"role: {encode_text(self.role, indent=2)}\n",
        ]
        if self.groups:
            lines.append("files:\n")
        for group in self.groups:
            lines.append(f"  - group: {encode_text(group.name)}\n    paths:\n")
            lines += [f"      - {encode_text(path, indent=8)}\n" for path in group.paths]
        lines.append("phases:\n")
        lines += map(_phase_snapshot, self.phases)
        return "".join(lines).encode()

    @classmethod
    def from_snapshot(cls, data: bytes, path: Path) -> AgentWorkflow:
        """Read a workflow.

        Raises:
            InvalidWorkflow: It is none; the error names every fault.
        """
        faults = Faults()
        found = None
        try:
            found = read_document(data.decode("utf-8-sig"), faults, _Reader(faults).workflow)
        except UnicodeDecodeError as error:
            faults.add(0, f"byte {error.start} is not UTF-8")
        except InvalidWorkflow as error:
            raise InvalidWorkflow(path=path, faults=error.faults) from None
        if faults or found is None:
            raise InvalidWorkflow(path=path, faults=faults.sorted())
        return found


def phase_faults(
    phases: Sequence[AgentPhase], groups: Iterable[FileGroup], needs_specification: bool
) -> Iterator[tuple[int, str]]:
    """Say what is wrong with phases as parts of one workflow: which phase by its index, and what.

    Args:
        phases: All of them; a name that is empty was refused already and is passed over.
        groups: The workflow's file groups.
        needs_specification: Whether it develops a component.
    """
    names = [phase.name for phase in phases]
    known = {group.name for group in groups} | ({CODE, TESTS} if needs_specification else set())
    for index, phase in enumerate(phases):
        where = f"phases[{index}]"
        gate = phase.gate
        found = []
        if phase.name and phase.name in names[:index]:
            found.append(f"name: {phase.name!r} stands twice")
        found += [
            f"writes: {group!r} is no file group; there are {sorted(known)}"
            for group in phase.writes
            if group not in known
        ]
        if phase.on_failure is not None and phase.on_failure not in names[:index]:
            found.append(f"on_failure: {phase.on_failure!r} is no earlier phase")
        if phase.prompt is not None and not phase.writes:
            found.append("writes: an agent that is asked has to be allowed to write something")
        if phase.prompt is None and phase.writes:
            found.append("prompt: is missing, and the phase writes files")
        if not 0 < phase.budget_share <= 1:
            found.append(f"budget_share: {phase.budget_share} is not above 0 and at most 1")
        if gate.kind not in GATES:
            found.append(f"gate.kind: {gate.kind!r} is none of {', '.join(GATES)}")
        elif (gate.kind == "script") != (gate.code is not None):
            found.append("gate.code: a script gate has code, and no other")
        if gate.kind in {"files", "specification", "approval"} and not gate.require:
            found.append(f"gate.require: a gate of kind {gate.kind} names its files")
        if gate.kind in TEST_GATES and not needs_specification:
            found.append(f"gate.kind: {gate.kind} needs a component, and the workflow names none")
        if gate.tests_unchanged and all(one.gate.kind != "tests_fail" for one in phases[:index]):
            found.append(
                "gate.tests_unchanged: compares with the tests of an earlier phase whose gate is "
                "tests_fail, and there is none"
            )
        yield from ((index, f"{where}.{text}") for text in found)


def load_agent_workflow(path: Path | str) -> AgentWorkflow:
    """Read a workflow file.

    Raises:
        InvalidWorkflow: Something is wrong with it; the error tells everything at once.
    """
    path = Path(path)
    data = read_limited(path, MAX_WORKFLOW_BYTES)
    if isinstance(data, str):
        raise InvalidWorkflow(path=path, faults=[data])
    return AgentWorkflow.from_snapshot(data, path)


_REFUSED_GATE: Final = Gate(kind="script", code="")
"""Stands for a gate whose fault was told already, and has none of its own."""


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _phase_snapshot(phase: AgentPhase) -> str:
    gate = phase.gate
    lines = [
        f"  - name: {encode_text(phase.name)}\n",
        f"    mode: {encode_text(phase.mode)}\n",
    ]
    if phase.prompt is not None:
        lines.append(f"    prompt: {encode_text(phase.prompt)}\n")
    if phase.writes:
        lines.append("    writes:\n")
        lines += [f"      - {encode_text(group, indent=8)}\n" for group in phase.writes]
    lines += [
        f"    budget_share: {phase.budget_share!r}\n",
        f"    answer_tokens: {phase.answer_tokens}\n",
        f"    questions: {phase.questions}\n",
    ]
    if phase.on_failure is not None:
        lines.append(f"    on_failure: {encode_text(phase.on_failure)}\n")
    lines.append(f"    retry:\n      max_attempts: {phase.max_attempts}\n")
    lines.append(f"    gate:\n      kind: {gate.kind}\n      framework: {gate.framework}\n")
    lines.append(f"      deadline_s: {gate.deadline_s!r}\n")
    lines.append(f"      tests_unchanged: {_flag(gate.tests_unchanged)}\n")
    lines.append(f"      covers_criteria: {_flag(gate.covers_criteria)}\n")
    if gate.require:
        lines.append("      require:\n")
        lines += [f"        - {encode_text(path, indent=10)}\n" for path in gate.require]
    if gate.code is not None:
        lines.append(f"      code: {encode_text(gate.code, indent=8)}\n")
    return "".join(lines)


class _Reader:
    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def workflow(self, root: Mapping) -> AgentWorkflow | None:
        fields = Fields(root, "", self._faults)
        version = fields.take("schema_version", required=True)
        if version is not None and not (
            isinstance(version, Scalar) and version.text == str(SCHEMA_VERSION)
        ):
            fields.fault(
                "schema_version", f"expected {SCHEMA_VERSION}, found {describe(version)}", version
            )
        name = fields.name("name", WORKFLOW_NAME_RE, WORKFLOW_NAME_RULE)
        workflow_type = fields.name("workflow_type", NAME_RE, NAME_RULE)
        goal = fields.text("goal")
        budget = fields.whole("token_budget", DEFAULT_TOKEN_BUDGET, least=0, most=MAX_COUNT)
        needs = fields.flag("needs_specification")
        role = self._prose(fields, "role", required=True)
        files = fields.items("files")
        if len(files) > MAX_GROUPS:
            fields.fault("files", f"are {len(files)}, {MAX_GROUPS} are allowed")
        groups = [
            self._group(node, f"files[{index}]") for index, node in enumerate(files[:MAX_GROUPS])
        ]
        nodes = fields.items("phases", required=True)
        if len(nodes) > MAX_PHASES:
            fields.fault("phases", f"are {len(nodes)}, {MAX_PHASES} are allowed")
        phases = [
            self._phase(node, f"phases[{index}]") for index, node in enumerate(nodes[:MAX_PHASES])
        ]
        fields.done()
        for index, text in phase_faults(phases, groups, needs):
            self._faults.add(nodes[index].line, text)
        if self._faults or not (name and workflow_type and role) or budget is None:
            return None
        return AgentWorkflow(
            name=name,
            workflow_type=workflow_type,
            role=role,
            goal=goal,
            token_budget=budget,
            needs_specification=needs,
            groups=groups,
            phases=phases,
        )

    def _prose(self, fields: Fields, key: str, *, required: bool = False) -> str | None:
        text = fields.text(key, required=required)
        if text is not None and not text.strip():
            fields.fault(key, "is empty")
        if text is not None and len(text) > MAX_PROMPT_CHARS:
            fields.fault(key, f"has {len(text):,} characters, {MAX_PROMPT_CHARS:,} are allowed")
        return text

    def _group(self, node: Node, where: str) -> FileGroup:
        fields = Fields(node, where, self._faults)
        name = fields.name("group", NAME_RE, NAME_RULE)
        if name in {CODE, TESTS}:
            fields.fault("group", f"{name!r} is the component's, from the specification")
        paths = self._paths(fields, "paths", directories=True, required=True)
        fields.done()
        return FileGroup(name=name or "", paths=paths)

    def _paths(
        self, fields: Fields, key: str, *, directories: bool = False, required: bool = False
    ) -> tuple[str, ...]:
        paths = fields.texts(key, required=required)
        for path in paths:
            plain = path.removesuffix("/") if directories else path
            problem = path_problem(plain.replace("{name}", "name"))
            if problem is not None:
                fields.fault(key, problem)
        return paths

    def _phase(self, node: Node, where: str) -> AgentPhase:
        fields = Fields(node, where, self._faults)
        name = fields.name("name", NAME_RE, NAME_RULE) or ""
        share = fields.take("budget_share")
        retry = fields.take("retry")
        attempts: int | None = DEFAULT_MAX_ATTEMPTS
        if retry is not None:
            inner = Fields(retry, f"{where}.retry", self._faults)
            attempts = inner.whole("max_attempts", DEFAULT_MAX_ATTEMPTS, least=1, most=MAX_ATTEMPTS)
            inner.done()
        gate = fields.take("gate", required=True)
        phase = AgentPhase(
            name=name,
            mode=fields.text("mode") or name,
            prompt=self._prose(fields, "prompt"),
            writes=fields.texts("writes"),
            gate=self._gate(gate, f"{where}.gate") if gate is not None else _REFUSED_GATE,
            max_attempts=attempts or DEFAULT_MAX_ATTEMPTS,
            budget_share=self._share(fields, share),
            answer_tokens=fields.whole(
                "answer_tokens", DEFAULT_ANSWER_TOKENS, least=0, most=MAX_COUNT
            )
            or 0,
            on_failure=fields.text("on_failure"),
            questions=fields.text("questions") or "allowed",
        )
        if phase.questions not in QUESTIONS:
            fields.fault("questions", f"{phase.questions!r} is none of {', '.join(QUESTIONS)}")
        fields.done()
        return phase

    def _share(self, fields: Fields, node: Node | None) -> float:
        if node is None:
            return 1.0
        if (
            isinstance(node, Scalar)
            and not node.quoted
            and re.fullmatch(r"[01](\.[0-9]{1,17})?|\.[0-9]{1,17}", node.text)
            and 0 < float(node.text) <= 1
        ):
            return float(node.text)
        if not isinstance(node, Refused):
            fields.fault(
                "budget_share", f"expected above 0 and at most 1, found {describe(node)}", node
            )
        return 1.0

    def _gate(self, node: Node, where: str) -> Gate:
        fields = Fields(node, where, self._faults)
        kind = fields.text("kind", required=True)
        if kind is None:
            return _REFUSED_GATE
        gate = Gate(
            kind=kind,
            require=self._paths(fields, "require"),
            tests_unchanged=fields.flag("tests_unchanged"),
            covers_criteria=fields.flag("covers_criteria"),
            framework=fields.text("framework") or "pytest",
            code=fields.text("code"),
            deadline_s=fields.seconds("deadline_s", most=MAX_DEADLINE_S) or DEFAULT_GATE_DEADLINE_S,
        )
        if gate.framework not in {"pytest", "unittest"}:
            fields.fault("framework", f"{gate.framework[:60]!r} is neither pytest nor unittest")
        fields.done()
        return gate
