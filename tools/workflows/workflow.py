"""A workflow as data: its phases, what each does, and what decides whether it passes.

    Workflow ─► Phase ─► gate: a Script, which is the work itself, in the session's workspace
                     └─► gate: a Gate, which judges what an agent wrote, on a copy of the files

A workflow with a role is an agent's; one without runs scripts. Files and built-in workflows give
the same values; the runner knows none of them by name. docs/workflows.md and docs/agents.md
describe the files.

The module is long because a workflow is one document with one set of rules.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from attrs import evolve, field, frozen

from ..base.settings.choices import AGENT_MODES, EXECUTOR_NAME, REPORTS
from ..harness.session_domain import DEFAULT_TOKEN_BUDGET, MAX_GOAL_CHARS
from .converters import as_tuple
from .errors import InvalidWorkflow
from .names import path_problem

DEFAULT_MAX_ATTEMPTS: Final = 3
DEFAULT_ANSWER_TOKENS: Final = 4000
DEFAULT_GATE_DEADLINE_S: Final = 300.0

CODE: Final = "code"
"""The file group of the component's main file."""
TESTS: Final = "tests"
"""The file group of the component's tests."""
ANYTHING: Final = "**"
"""The path of a file group that has every file of the workspace."""

GATES: Final = {
    "tests_fail": "the new tests are collected, run, and fail because the component is missing",
    "tests_pass": "all tests pass",
    "suite": "all tests pass in a fresh workspace, from the files alone",
    "files": "the required files are there and not empty",
    "specification": "the specification has no fault",
    "approval": "a person approves",
    "script": "the workflow's own Python code ends with exit code 0",
    "program": "the program, which calls agents, gates and people, ends with exit code 0",
    "plan": "the agent says what it is going to do, and changes no file",
    "unchecked": "the agent changed something; nothing is checked",
}
"""The kinds of gates, with the condition under which each passes."""
TEST_GATES: Final = frozenset({"tests_fail", "tests_pass", "suite"})
PROGRAM: Final = "program"
"""The kind of gate that is a program; its settings of tests are those of the gates it calls."""
_OF_TESTS: Final = TEST_GATES | {PROGRAM}
QUESTIONS: Final = ("allowed", "refused")
PACKAGE_RE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")


@frozen(kw_only=True)
class Gate:
    """Decides whether an agent's phase is passed.

    Attributes:
        kind: One of `GATES`.
        require: Files that must exist, for any kind; the run's name replaces `{name}`.
        tests_unchanged: Whether every test file must equal that of the last passed `tests_fail`.
        covers_criteria: Whether each acceptance criterion needs a test that names it.
        framework: "pytest" or "unittest", for kinds that run tests.
        code: The Python code of a `script` gate, which runs in the sandbox, on a copy of the files;
            or of a `program`, which runs there in the workspace itself.
        deadline_s: Its time limit, in seconds.
        command: The project's own command that runs its tests in a jail, for kinds that run tests;
            None: they run in the sandbox, with `framework`.
        report: The form of the command's report: "junit", "tap" or "exit-code".
        report_path: The path of its JUnit report; see `gate_port.CommandRequest`.
        packages: Packages that the sandbox has besides the standard library, for kinds that run
            tests there: names of installed ones, or paths of wheels.
    """

    kind: str
    require: tuple[str, ...] = field(default=(), converter=as_tuple)
    tests_unchanged: bool = False
    covers_criteria: bool = False
    framework: str = "pytest"
    code: str | None = None
    deadline_s: float = DEFAULT_GATE_DEADLINE_S
    command: str | None = None
    report: str = "junit"
    report_path: str | None = None
    packages: tuple[str, ...] = field(default=(), converter=as_tuple)

    @property
    def tests_in_sandbox(self) -> bool:
        """Whether it runs tests in the sandbox, not with a command."""
        return self.kind in TEST_GATES and self.command is None

    @property
    def in_sandbox(self) -> bool:
        """Whether it runs something in the sandbox, on all files."""
        return self.kind == "script" or self.tests_in_sandbox


@frozen(kw_only=True)
class Script:
    """A gate that is the phase's work: code that runs in the session's workspace itself.

    Attributes:
        code: The Python source.
        deadline_s: Wall-clock limit in seconds, or None for the executor's.
        fuel: Limit in units of fuel, or None for the executor's.
        exit_code: The exit code of success.
        artifacts: Files that must then exist in the workspace, relative to it.
    """

    code: str
    deadline_s: float | None = None
    fuel: int | None = None
    exit_code: int = 0
    artifacts: tuple[str, ...] = field(default=(), converter=as_tuple)


@frozen(kw_only=True)
class Phase:
    """One phase: the gate that decides whether it is passed, and an agent's task before that.

    Attributes:
        name: Its name; unique in the workflow.
        gate: The gate that decides. A script is the work, too.
        description: Its purpose, or None.
        tokens: The cost of a script; checked before and charged after it ran.
        max_attempts: The number of attempts; `retry` may exceed it. After a failed script the
            session pauses and `resume` starts the next attempt; an agent is called again at once.
        mode: The kind of the agent's work, in a few words, for the prompt.
        prompt: The instructions; None: no agent is called, only the gate decides.
        writes: The file groups that an answer may write.
        budget_share: The part of the session's budget that the agent may use, above 0 and at
            most 1.
        answer_tokens: The expected cost of an answer, in tokens; together with the prompt's it has
            to fit the budget before the agent is called.
        on_failure: The earlier phase to go back to if the gate fails, or None: try again.
        questions: Whether the agent may ask the person: "allowed" or "refused".
    """

    name: str
    gate: Gate | Script
    description: str | None = None
    tokens: int = 0
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    mode: str = ""
    prompt: str | None = None
    writes: tuple[str, ...] = field(default=(), converter=as_tuple)
    budget_share: float = 1.0
    answer_tokens: int = DEFAULT_ANSWER_TOKENS
    on_failure: str | None = None
    questions: str = "allowed"

    @property
    def agents_gate(self) -> Gate:
        """The gate that judges what an agent wrote; a script's phase has none."""
        assert isinstance(self.gate, Gate)  # noqa: S101 (`Workflow` rejects scripts here)
        return self.gate


@frozen(kw_only=True)
class Input:
    """A file that is in the workspace before the first phase runs.

    Attributes:
        target: Its path, relative to the workspace.
        content: Its content.
    """

    target: str
    content: bytes = field(repr=lambda content: f"<{len(content)} bytes>")


@frozen(kw_only=True)
class FileGroup:
    """Files that belong together.

    Attributes:
        name: Its name; "code" and "tests" are the component's, from the specification.
        paths: Files, or directories ending in `/`; the run's name replaces `{name}`.
    """

    name: str
    paths: tuple[str, ...] = field(converter=as_tuple)


@frozen(kw_only=True)
class RunRetry:
    """How workers retry a run that stopped for a temporary reason.

    Temporary reasons are: the agent is not available, a script exceeded its time limit, or the
    store did not answer. A failed gate, a person and the budget are not.

    Attributes:
        attempts: The most retries in a row, in one phase.
        wait_s: The wait before the first one, in seconds.
        factor: The ratio of each wait to the previous one.
        at_most_s: The longest wait, in seconds.
    """

    attempts: int = 5
    wait_s: float = 10.0
    factor: int = 2
    at_most_s: float = 600.0


@frozen(kw_only=True)
class Workflow:
    """Phases in their order, with everything that makes them one piece of work.

    Attributes:
        name: Its name.
        workflow_type: The kind of work; sessions are listed by it.
        phases: At least one, with unique names.
        goal: The purpose of the work, or None.
        token_budget: What it may cost, in tokens.
        inputs: Files for the workspace; those of an agent's work are in `AgentWork`.
        role: The agent's role, for the beginning of each prompt; None: it runs scripts.
        groups: The file groups besides those of the component.
        needs_specification: Whether it develops a component of a specification.
        isolation: The executor of its scripts: "sandbox", "jail", or that of an installed plugin.
        agent_mode: How its agent delivers files: one of `AGENT_MODES`; None means "answer".
        retry: How workers retry a run that stopped for a temporary reason; None: the defaults of
            `RunRetry`.

    Raises:
        InvalidWorkflow: Its parts contradict each other; the error names every fault.
    """

    name: str
    workflow_type: str
    phases: tuple[Phase, ...] = field(converter=as_tuple)
    goal: str | None = None
    token_budget: int = DEFAULT_TOKEN_BUDGET
    inputs: tuple[Input, ...] = field(default=(), converter=as_tuple)
    role: str | None = None
    groups: tuple[FileGroup, ...] = field(default=(), converter=as_tuple)
    needs_specification: bool = False
    isolation: str = "sandbox"
    agent_mode: str | None = None
    retry: RunRetry | None = None

    def __attrs_post_init__(self) -> None:
        faults = list(self._faults())
        if faults:
            raise InvalidWorkflow(path=Path(self.name), faults=faults)

    def _faults(self) -> Iterator[str]:
        if EXECUTOR_NAME.fullmatch(self.isolation) is None:
            yield f"isolation: {self.isolation[:40]!r} is no name of an executor"
        if self.agent_mode is not None and self.agent_mode not in AGENT_MODES:
            yield f"agent_mode: {self.agent_mode[:40]!r} is none of {', '.join(AGENT_MODES)}"
        if self.role is None:
            yield from (
                f"phases[{index}].gate: is no Script, and the workflow has no role for an agent"
                for index, phase in enumerate(self.phases)
                if not isinstance(phase.gate, Script)
            )
            return
        if not self.phases:
            yield "phases: there are none"
        if self.inputs:
            yield "inputs: are given with an agent's work, not with its workflow"
        if len(self.goal or "") > MAX_GOAL_CHARS:
            yield f"goal: has more than {MAX_GOAL_CHARS:,} characters"
        found = agent_phase_faults(self.phases, self.groups, self.needs_specification)
        yield from (text for _, text in found)

    @property
    def is_program(self) -> bool:
        """Whether a phase of it is a program."""
        return any(gate.kind == PROGRAM for gate in self.gates)

    @property
    def edits(self) -> bool:
        """Whether its agent edits files in place."""
        return self.agent_mode == "edit"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the phases."""
        return tuple(phase.name for phase in self.phases)

    def phase(self, name: str | None) -> Phase | None:
        """Return the phase of this name, or None."""
        return next((phase for phase in self.phases if phase.name == name), None)

    def following(self, name: str) -> Phase | None:
        """Return the phase after this one, or None."""
        position = self.names.index(name) + 1
        return self.phases[position] if position < len(self.phases) else None

    @property
    def gates(self) -> tuple[Gate, ...]:
        """The gates that judge an agent's files."""
        return tuple(phase.gate for phase in self.phases if isinstance(phase.gate, Gate))

    @property
    def needs_pytest(self) -> bool:
        """Whether a gate runs tests with pytest."""
        return any(gate.tests_in_sandbox and gate.framework == "pytest" for gate in self.gates)

    @property
    def packages(self) -> frozenset[tuple[str, ...]]:
        """The package lists of gates that need more than the standard library in the sandbox."""
        return frozenset(gate.packages for gate in self.gates if gate.packages)

    @property
    def command_gates(self) -> tuple[Gate, ...]:
        """The gates that run a command."""
        return tuple(gate for gate in self.gates if gate.command is not None)

    def with_command(
        self,
        command: str,
        *,
        report: str = "junit",
        report_path: str | None = None,
        deadline_s: float | None = None,
    ) -> Workflow:
        """Return this workflow with a command for each gate that runs tests.

        Args:
            command: The command.
            report: The form of its report: "junit", "tap" or "exit-code".
            report_path: The path of its report, or None.
            deadline_s: Its time limit in seconds; the gate's own if None.

        Raises:
            InvalidWorkflow: The command or the report is not valid.
        """
        more = {} if deadline_s is None else {"deadline_s": deadline_s}
        return self._with_test_gates(
            command=command, report=report, report_path=report_path, **more
        )

    def with_packages(self, packages: Iterable[str]) -> Workflow:
        """Return this workflow with packages for each gate that runs tests in the sandbox.

        Raises:
            InvalidWorkflow: There is no such gate, or a package is neither a name nor a wheel.
        """
        return self._with_test_gates(packages=dict.fromkeys(packages))

    def _with_test_gates(self, **changes: Any) -> Workflow:
        phases = [
            evolve(phase, gate=evolve(phase.gate, **changes))
            if isinstance(phase.gate, Gate) and phase.gate.kind in _OF_TESTS
            else phase
            for phase in self.phases
        ]
        return evolve(self, phases=phases)


def agent_phase_faults(
    phases: Sequence[Phase], groups: Iterable[FileGroup], needs_specification: bool
) -> Iterator[tuple[int, str]]:
    """Yield the faults of phases as parts of one agent's workflow, each with the phase's index.

    Args:
        phases: All phases; one with an empty name was already rejected and is skipped.
        groups: The workflow's file groups.
        needs_specification: Whether it develops a component.
    """
    names = [phase.name for phase in phases]
    known = {group.name for group in groups} | ({CODE, TESTS} if needs_specification else set())
    tests_written = False
    for index, phase in enumerate(phases):
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
        plans = phase.gate.kind == "plan" if isinstance(phase.gate, Gate) else False
        if phase.prompt is not None and not phase.writes and not plans:
            found.append("writes: an agent that is asked has to be allowed to write something")
        if phase.prompt is None and phase.writes:
            found.append("prompt: is missing, and the phase writes files")
        if not 0 < phase.budget_share <= 1:
            found.append(f"budget_share: {phase.budget_share} is not above 0 and at most 1")
        if isinstance(phase.gate, Script):
            found.append("gate: is a Script, and an agent works in the workflow")
        else:
            found += _gate_faults(phase.gate, needs_specification, tests_written)
            tests_written = tests_written or phase.gate.kind == "tests_fail"
        yield from ((index, f"phases[{index}].{text}") for text in found)


def _gate_faults(gate: Gate, needs_specification: bool, tests_written: bool) -> Iterator[str]:
    if gate.kind not in GATES:
        yield f"gate.kind: {gate.kind!r} is none of {', '.join(GATES)}"
    elif (gate.kind in {"script", PROGRAM}) != (gate.code is not None):
        yield "gate.code: a gate that is a script or a program has code, and no other"
    if gate.kind in {"files", "specification", "approval"} and not gate.require:
        yield f"gate.require: a gate of kind {gate.kind} names its files"
    if gate.kind in TEST_GATES and not needs_specification and gate.command is None:
        yield f"gate.kind: {gate.kind} needs a component, and the workflow names none"
    yield from _command_faults(gate)
    yield from _package_faults(gate)
    if gate.tests_unchanged and not tests_written:
        yield (
            "gate.tests_unchanged: compares with the tests of an earlier phase whose gate is "
            "tests_fail, and there is none"
        )


def _package_faults(gate: Gate) -> Iterator[str]:
    if gate.packages and (gate.command is not None or gate.kind not in _OF_TESTS):
        yield "gate.packages: are of a gate that runs tests in the sandbox; this one does not"
    for name in gate.packages:
        if not (PACKAGE_RE.fullmatch(name) or (name.endswith(".whl") and "\0" not in name)):
            yield f"gate.packages: {name[:60]!r} is no name of a package and no path of a wheel"


def _command_faults(gate: Gate) -> Iterator[str]:
    if gate.command is not None:
        if gate.kind not in _OF_TESTS:
            yield "gate.command: stands for kinds that run tests, and no other"
        try:
            words = shlex.split(gate.command)
        except ValueError:
            yield "gate.command: its quotes are not closed"
        else:
            if not words:
                yield "gate.command: is empty"
    elif gate.report != "junit" or gate.report_path is not None:
        yield "gate.report: stands beside a command, and there is none"
    if gate.report not in REPORTS:
        yield f"gate.report: {gate.report[:40]!r} is none of {', '.join(REPORTS)}"
    if gate.report_path is not None:
        problem = path_problem(gate.report_path.replace("*", "x"))
        if problem is not None:
            yield f"gate.report_path: {problem}"
        elif gate.report != "junit":
            yield "gate.report_path: is of a JUnit report"
