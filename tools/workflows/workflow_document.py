"""The workflow file: what phases there are, what each runs, and when it counts as done.

A workflow is read whole, with every script and every input, before anything is run; what is wrong
with it is said all at once. As a snapshot it goes into the session that runs it, so that the
session needs none of these files again and does not change when they do.

docs/workflows.md is the description of the format for people.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from attrs import evolve, field, frozen

from ..harness.session_codec import encode_text
from ..harness.session_deletion import WORKFLOW_FILE
from ..harness.session_domain import DEFAULT_TOKEN_BUDGET, MAX_COUNT, MAX_GOAL_CHARS
from ..harness.session_store import MAX_FILE_BYTES
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
from .errors import InvalidWorkflow
from .limited_files import read_limited
from .names import (
    NAME_RE,
    NAME_RULE,
    WORKFLOW_NAME_RE,
    WORKFLOW_NAME_RULE,
    path_problem,
)

SCHEMA_VERSION: Final = 1
SNAPSHOT_NAME: Final = WORKFLOW_FILE
"""The name under which a session keeps its workflow; the run's lock is on it."""

DEFAULT_MAX_ATTEMPTS: Final = 3
MAX_WORKFLOW_BYTES: Final = 4 << 20
"""Largest workflow file."""
MAX_SCRIPT_BYTES: Final = 1 << 20
"""Largest script."""
MAX_SCRIPTS_BYTES: Final = 4 << 20
"""The most that all scripts of a workflow have together."""
MAX_INPUTS_BYTES: Final = 8 << 20
"""The most that all inputs of a workflow have together."""
MAX_PHASES: Final = 100
MAX_FILES: Final = 1000
"""The most inputs of a workflow, and the most artifacts that one phase names."""
MAX_DEADLINE_S: Final = 86_400.0
MAX_ATTEMPTS: Final = 1000
_TEXT_BYTES: Final = bytes([9, 10, 13, *range(0x20, 0x7F), *range(0x80, 0x100)])
_SNAPSHOT_HEADER: Final = (
    "# The workflow that this session runs, with its scripts and inputs: docs/workflows.md\n"
)


def _texts(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(values)


@frozen(kw_only=True)
class Phase:
    """One phase: a script and what counts as its success.

    Attributes:
        name: Its name; unique in the workflow.
        code: The Python source that runs in the session's workspace.
        description: What it is for, or None.
        tokens: What running it costs; checked before and charged when it ran.
        deadline_s: Wall-clock limit in seconds, or None for the executor's.
        fuel: Limit in units of fuel, or None for the executor's.
        exit_code: The exit code that means success.
        artifacts: Files that must be in the workspace afterwards, relative to it.
        max_attempts: How many attempts `resume` may begin; `retry` goes beyond.
    """

    name: str
    code: str
    description: str | None = None
    tokens: int = 0
    deadline_s: float | None = None
    fuel: int | None = None
    exit_code: int = 0
    artifacts: tuple[str, ...] = field(default=(), converter=_texts)
    max_attempts: int = DEFAULT_MAX_ATTEMPTS


@frozen(kw_only=True)
class Input:
    """A file that is in the workspace before the first phase runs.

    Attributes:
        target: Where, relative to the workspace.
        content: What it holds.
    """

    target: str
    content: bytes = field(repr=lambda content: f"<{len(content)} bytes>")


def _phases(values: Iterable[Phase]) -> tuple[Phase, ...]:
    return tuple(values)


def _inputs(values: Iterable[Input]) -> tuple[Input, ...]:
    return tuple(values)


@frozen(kw_only=True)
class Workflow:
    """Phases in their order, with all they need.

    Attributes:
        name: Its name.
        workflow_type: What kind of work it is; sessions are listed by it.
        phases: At least one, with unique names.
        goal: What the work is for, or None.
        token_budget: What it may cost, in tokens.
        inputs: Files for the workspace.
    """

    name: str
    workflow_type: str
    phases: tuple[Phase, ...] = field(converter=_phases)
    goal: str | None = None
    token_budget: int = DEFAULT_TOKEN_BUDGET
    inputs: tuple[Input, ...] = field(default=(), converter=_inputs)

    def to_snapshot(self) -> bytes:
        """Write the workflow as one YAML document that needs no other file.

        Returns:
            A workflow file with every script as `code` and every input as `text` or `base64`;
            `from_snapshot` gives an equal workflow back.
        """
        lines = [
            _SNAPSHOT_HEADER,
            f"schema_version: {SCHEMA_VERSION}\n",
            f"name: {encode_text(self.name)}\n",
            f"workflow_type: {encode_text(self.workflow_type)}\n",
            f"goal: {encode_text(self.goal, indent=2)}\n",
            f"token_budget: {self.token_budget}\n",
            "phases:\n" if self.phases else "phases: []\n",
            *map(_phase_snapshot, self.phases),
            "inputs:\n" if self.inputs else "inputs: []\n",
            *map(_input_snapshot, self.inputs),
        ]
        return "".join(lines).encode()

    @classmethod
    def from_snapshot(cls, data: bytes, path: Path) -> Workflow:
        """Read what `to_snapshot` wrote.

        Args:
            data: The snapshot.
            path: Where it comes from, for messages.

        Raises:
            InvalidWorkflow: It is none; the error names every fault.
        """
        if len(data) > MAX_FILE_BYTES:
            raise InvalidWorkflow(path=path, faults=[_too_large(len(data))])
        return _load(data, path, directory=None)


def load_workflow(path: Path | str) -> Workflow:
    """Read a workflow file with every script and input that it names.

    Args:
        path: The file. What it names is relative to the directory it is in.

    Raises:
        InvalidWorkflow: Something is wrong with it or with a file that it names; the error tells
            everything at once.
    """
    path = Path(path)
    faults = Faults()
    data = read_limited(path, MAX_WORKFLOW_BYTES)
    if isinstance(data, str):
        faults.add(0, data)
        raise InvalidWorkflow(path=path, faults=faults.sorted())
    workflow = _load(data, path, directory=path.parent)
    size = len(workflow.to_snapshot())
    if size > MAX_FILE_BYTES:
        raise InvalidWorkflow(path=path, faults=[_too_large(size)])
    return workflow


# ------------------------------------------------------------------------------------- writing


def _phase_snapshot(phase: Phase) -> str:
    lines = [f"  - name: {encode_text(phase.name)}\n"]
    if phase.description is not None:
        lines.append(f"    description: {encode_text(phase.description)}\n")
    lines.append(f"    code: {encode_text(phase.code)}\n")
    lines.append(f"    tokens: {phase.tokens}\n")
    if phase.deadline_s is not None:
        lines.append(f"    deadline_s: {phase.deadline_s!r}\n")
    if phase.fuel is not None:
        lines.append(f"    fuel: {phase.fuel}\n")
    lines.append(f"    success:\n      exit_code: {phase.exit_code}\n")
    if phase.artifacts:
        lines.append("      artifacts:\n")
        lines += [f"        - {encode_text(path, indent=10)}\n" for path in phase.artifacts]
    lines.append(f"    retry:\n      max_attempts: {phase.max_attempts}\n")
    return "".join(lines)


def _input_snapshot(one: Input) -> str:
    target = f"  - target: {encode_text(one.target)}\n"
    if not one.content.translate(None, _TEXT_BYTES):
        try:
            text = encode_text(one.content.decode())
        except UnicodeDecodeError:
            pass
        else:
            if len(text.encode()) <= 64 + 2 * len(one.content):  # not much longer than base64
                return f"{target}    text: {text}\n"
    encoded = base64.b64encode(one.content).decode()
    return f'{target}    base64: "{encoded}"\n'


# ------------------------------------------------------------------------------------- reading


def _too_large(size: int) -> str:
    return (
        f"takes {size:,} bytes with all its scripts and inputs, more than the limit of "
        f"{MAX_FILE_BYTES:,}"
    )


def _not_utf8(data: bytes, error: UnicodeDecodeError) -> str:
    line = data.count(b"\n", 0, error.start) + 1
    return f"byte {error.start}, on its line {line}, is not UTF-8"


def _load(data: bytes, path: Path, *, directory: Path | None) -> Workflow:
    faults = Faults()
    workflow = None
    try:
        workflow = read_document(
            data.decode("utf-8-sig"), faults, _Reader(faults, directory).workflow
        )
    except UnicodeDecodeError as error:
        faults.add(0, _not_utf8(data, error))
    if faults or workflow is None:
        raise InvalidWorkflow(path=path, faults=faults.sorted())
    return workflow


class _Reader:
    """Makes a workflow of nodes.

    With a directory it reads a file that a person wrote, where scripts and inputs are named;
    without one, a snapshot, where they are inlined.
    """

    def __init__(self, faults: Faults, directory: Path | None) -> None:
        self._faults = faults
        self._directory = directory
        self._scripts_left = MAX_SCRIPTS_BYTES
        self._inputs_left = MAX_INPUTS_BYTES

    def workflow(self, root: Mapping) -> Workflow | None:
        fields = Fields(root, "", self._faults)
        if not self._version(fields):
            return None
        name = fields.name("name", WORKFLOW_NAME_RE, WORKFLOW_NAME_RULE)
        workflow_type = fields.name("workflow_type", NAME_RE, NAME_RULE)
        goal = self._prose(fields, "goal")
        budget = fields.whole("token_budget", DEFAULT_TOKEN_BUDGET, least=0, most=MAX_COUNT)
        phases = self._phases(fields)
        inputs = self._inputs(fields)
        fields.done()
        if self._faults or name is None or workflow_type is None or budget is None:
            return None
        return Workflow(
            name=name,
            workflow_type=workflow_type,
            goal=goal,
            token_budget=budget,
            phases=phases,
            inputs=inputs,
        )

    def _version(self, fields: Fields) -> bool:
        """Judge the version; of a newer one nothing else can be judged."""
        node = fields.take("schema_version", required=True)
        if isinstance(node, Scalar) and not node.quoted and node.text.isdecimal():
            version = int(node.text[:20])
            if version == SCHEMA_VERSION:
                return True
            if version > SCHEMA_VERSION:
                fields.fault(
                    "schema_version",
                    f"{version} is newer than {SCHEMA_VERSION}, the newest that this version of "
                    "AgentForge Harness reads; upgrade it",
                    node,
                )
                return False
        if node is not None and not isinstance(node, Refused):
            fields.fault(
                "schema_version", f"expected {SCHEMA_VERSION}, found {describe(node)}", node
            )
        return True

    def _prose(self, fields: Fields, name: str) -> str | None:
        text = fields.text(name)
        if text is not None and len(text) > MAX_GOAL_CHARS:
            fields.fault(name, f"has {len(text):,} characters, {MAX_GOAL_CHARS:,} are allowed")
        return text

    # ------------------------------------------------------------------------------- phases

    def _phases(self, fields: Fields) -> tuple[Phase, ...]:
        nodes = fields.items("phases", required=True)
        if len(nodes) > MAX_PHASES:
            fields.fault("phases", f"are {len(nodes)}, {MAX_PHASES} are allowed")
        phases = []
        lines: dict[str, int] = {}
        for index, node in enumerate(nodes[:MAX_PHASES]):
            phase = self._phase(node, f"phases[{index}]")
            if phase.name and phase.name in lines:
                self._faults.add(
                    node.line,
                    f"phases[{index}].name: {phase.name!r} is the name of the phase on line "
                    f"{lines[phase.name]} too",
                )
            lines.setdefault(phase.name, node.line)
            phases.append(phase)
        return tuple(phases)

    def _phase(self, node: Node, where: str) -> Phase:
        fields = Fields(node, where, self._faults)
        phase = Phase(
            name=fields.name("name", NAME_RE, NAME_RULE) or "",
            description=self._prose(fields, "description"),
            code=self._code(fields),
            tokens=fields.whole("tokens", 0, least=0, most=MAX_COUNT) or 0,
            deadline_s=fields.seconds("deadline_s", most=MAX_DEADLINE_S),
            fuel=fields.whole("fuel", None, least=1, most=MAX_COUNT),
        )
        success = fields.take("success")
        if success is not None:
            inner = Fields(success, f"{where}.success", self._faults)
            phase = evolve(
                phase,
                exit_code=inner.whole("exit_code", 0, least=0, most=255) or 0,
                artifacts=self._artifacts(inner),
            )
            inner.done()
        retry = fields.take("retry")
        if retry is not None:
            inner = Fields(retry, f"{where}.retry", self._faults)
            attempts = inner.whole("max_attempts", DEFAULT_MAX_ATTEMPTS, least=1, most=MAX_ATTEMPTS)
            phase = evolve(phase, max_attempts=attempts or DEFAULT_MAX_ATTEMPTS)
            inner.done()
        fields.done()
        return phase

    def _code(self, fields: Fields) -> str:
        """Take the source of a phase, from its own text or from its file."""
        inline = fields.take("code")
        script = fields.take("script") if self._directory is not None else None
        if inline is not None and script is not None:
            fields.fault("script", "stands beside code; keep one of the two", script)
            return ""
        node = script if inline is None else inline
        if node is None:
            if fields.usable:
                one = "code" if self._directory is None else "script (or code)"
                fields.fault("", f"{one} is missing")
            return ""
        key = "script" if inline is None else "code"
        code = fields.text_of(key, node)
        if code is not None and inline is None:
            code = self._script(fields, node, code)
        return "" if code is None else self._judged(fields, key, node, code)

    def _script(self, fields: Fields, node: Node, named: str) -> str | None:
        data = self._file(fields, "script", node, named, MAX_SCRIPT_BYTES)
        if data is None:
            return None
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            fields.fault("script", f"{named}: {_not_utf8(data, error)}", node)
            return None

    def _judged(self, fields: Fields, key: str, node: Node, code: str) -> str:
        size = len(code.encode())
        had_room = self._scripts_left >= 0
        self._scripts_left -= size
        if not code.strip():
            fields.fault(key, "is empty", node)
        elif size > MAX_SCRIPT_BYTES:
            fields.fault(key, f"has more than {MAX_SCRIPT_BYTES:,} bytes, the limit", node)
        elif "\0" in code:
            fields.fault(key, "holds a NUL character, which no Python source may", node)
        elif self._scripts_left < 0 and had_room:
            fields.fault(
                key, f"with it all scripts have more than {MAX_SCRIPTS_BYTES:,} bytes, the limit"
            )
        return code

    def _file(self, fields: Fields, key: str, node: Node, named: str, limit: int) -> bytes | None:
        """Read a file that the workflow names; None, and a fault, if that can't be done."""
        if not named:
            fields.fault(key, "is empty", node)
            return None
        assert self._directory is not None  # noqa: S101 (snapshots name no files)
        data = read_limited(self._directory / named, limit)
        if isinstance(data, str):
            fields.fault(key, f"{named} {data}", node)
            return None
        return data

    def _artifacts(self, fields: Fields) -> tuple[str, ...]:
        nodes = fields.items("artifacts")
        if len(nodes) > MAX_FILES:
            fields.fault("artifacts", f"are {len(nodes)}, {MAX_FILES} are allowed")
        paths: list[str] = []
        for index, node in enumerate(nodes[:MAX_FILES]):
            label = f"artifacts[{index}]"
            path = self._workspace_path(fields, label, node)
            if path in paths:
                fields.fault(label, f"{path!r} stands twice", node)
            elif path is not None:
                paths.append(path)
        return tuple(paths)

    # ------------------------------------------------------------------------------- inputs

    def _inputs(self, fields: Fields) -> tuple[Input, ...]:
        nodes = fields.items("inputs")
        if len(nodes) > MAX_FILES:
            fields.fault("inputs", f"are {len(nodes)}, {MAX_FILES} are allowed")
        inputs: list[Input] = []
        targets = _Targets()
        for index, node in enumerate(nodes[:MAX_FILES]):
            inner = Fields(node, f"inputs[{index}]", self._faults)
            named = inner.take("target", required=True)
            target = None if named is None else self._workspace_path(inner, "target", named)
            content = self._content(inner)
            inner.done()
            if target is None:
                continue
            clash = targets.clash(target, node.line)
            if clash is not None:
                inner.fault("target", f"{target!r} can't be there together with {clash}")
            inputs.append(Input(target=target, content=content))
        return tuple(inputs)

    def _content(self, fields: Fields) -> bytes:
        key = "source"
        data: bytes | None = None
        if self._directory is None:
            data = self._inlined(fields)
        else:
            node = fields.take("source", required=True)
            named = None if node is None else fields.text_of("source", node)
            if node is not None and named is not None:
                data = self._file(fields, key, node, named, MAX_INPUTS_BYTES)
        if data is None:
            return b""
        had_room = self._inputs_left >= 0
        self._inputs_left -= len(data)
        if self._inputs_left < 0 and had_room:
            fields.fault(
                key, f"with it all inputs have more than {MAX_INPUTS_BYTES:,} bytes, the limit"
            )
        return data

    def _inlined(self, fields: Fields) -> bytes | None:
        text = fields.take("text")
        coded = fields.take("base64")
        if (text is None) is (coded is None):
            if fields.usable:
                fields.fault("", "expected text or base64, one of the two")
            return None
        if text is not None:
            value = fields.text_of("text", text)
            return None if value is None else value.encode()
        assert coded is not None  # noqa: S101 (one of the two is there)
        value = fields.text_of("base64", coded)
        if value is None:
            return None
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            fields.fault("base64", "is not base64", coded)
            return None

    def _workspace_path(self, fields: Fields, key: str, node: Node) -> str | None:
        """Return a path in the workspace; None, and a fault, if it is none."""
        path = fields.text_of(key, node)
        if path is None:
            return None
        problem = path_problem(path)
        if problem is not None:
            fields.fault(key, problem, node)
            return None
        return path


class _Targets:
    """Tells which paths can't be in the workspace together."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}
        self._above: dict[str, str] = {}

    def clash(self, target: str, line: int) -> str | None:
        """Take a path; say what it clashes with, or None."""
        parts = target.split("/")
        above = ["/".join(parts[:count]) for count in range(1, len(parts))]
        for path in (target, *above):
            if path in self._taken:
                return f"{path!r} of line {self._taken[path]}"
        if target in self._above:
            return self._above[target]
        self._taken[target] = line
        for path in above:
            self._above.setdefault(path, f"{target!r} of line {line}")
        return None
