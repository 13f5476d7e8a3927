"""Reads the phases of a workflow, of an agent or of scripts, from its file or its snapshot."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Any, Final

from ...base.reading.fields import Fields
from ...base.reading.nodes import Faults
from ...base.settings.choices import AGENT_MODES, ISOLATIONS
from ...harness.session_domain import MAX_COUNT, MAX_GOAL_CHARS
from ..names import NAME_RE, NAME_RULE, path_problem
from ..workflow import (
    CODE,
    DEFAULT_ANSWER_TOKENS,
    DEFAULT_GATE_DEADLINE_S,
    QUESTIONS,
    TESTS,
    FileGroup,
    Gate,
    Input,
    Phase,
    Script,
    agent_phase_faults,
)
from .workflow_form import WorkflowForm, at_most, not_utf8, read_limited, seconds

MAX_SCRIPT_BYTES: Final = 1 << 20
"""The largest script, in bytes."""
MAX_SCRIPTS_BYTES: Final = 4 << 20
"""The largest total size of a workflow's scripts, in bytes."""
MAX_INPUTS_BYTES: Final = 8 << 20
"""The largest total size of a workflow's inputs, in bytes."""
MAX_FILES: Final = 1000
"""The most inputs of a workflow, and the most artifacts that one phase names."""
MAX_PROMPT_CHARS: Final = 20_000
MAX_GROUPS: Final = 20
_REFUSED_GATE: Final = Gate(kind="script", code="")
"""Replaces a gate whose fault is already recorded, so that it causes no further one."""


class ScriptForm(WorkflowForm):
    """Reads a workflow of scripts.

    With a directory it reads a file that a person wrote, which names scripts and inputs;
    without one, a snapshot, which contains them.
    """

    def __init__(
        self, faults: Faults, directory: Path | None, *, isolation: str = "sandbox"
    ) -> None:
        super().__init__(faults)
        self._directory = directory
        self._isolation = isolation
        self._scripts_left = MAX_SCRIPTS_BYTES
        self._inputs_left = MAX_INPUTS_BYTES
        self._lines: dict[str, int] = {}

    def own_fields(self, fields: Fields) -> dict[str, Any]:
        """Read phases and inputs."""
        isolation = (
            fields.text("isolation")
            if self._directory is None
            else fields.one_of("isolation", ISOLATIONS, None)
        )
        return {
            "phases": self.phases(fields),
            "inputs": self._inputs(fields),
            "isolation": isolation or self._isolation,
        }

    def phase(self, fields: Fields) -> Phase:
        """Read a phase; its name must be new."""
        name = fields.name("name", NAME_RE, NAME_RULE) or ""
        if name and name in self._lines:
            former = self._lines[name]
            fields.fault("name", f"{name!r} is the name of the phase on line {former} too")
        self._lines.setdefault(name, fields.line)
        success = fields.inner("success")
        phase = Phase(
            name=name,
            description=fields.text("description", judge=at_most(MAX_GOAL_CHARS)),
            gate=Script(
                code=self._code(fields),
                deadline_s=seconds(fields, "deadline_s"),
                fuel=fields.whole("fuel", None, least=1, most=MAX_COUNT),
                exit_code=success.whole("exit_code", 0, least=0, most=255),
                artifacts=success.distinct("artifacts", judge=path_problem, most=MAX_FILES),
            ),
            tokens=fields.whole("tokens", 0, least=0, most=MAX_COUNT),
            max_attempts=self.max_attempts(fields),
        )
        success.done()
        fields.done()
        return phase

    def _code(self, fields: Fields) -> str:
        """Return the source of a phase, from its own text or from its file."""
        names_file = self._directory is not None and fields.has("script")
        if fields.has("code") and names_file:
            fields.refuse("script", "stands beside code; keep one of the two")
            names_file = False
        if not names_file and not fields.has("code"):
            if fields.usable:
                one = "code" if self._directory is None else "script (or code)"
                fields.fault("", f"{one} is missing")
            fields.take("code")
            return ""
        key = "script" if names_file else "code"
        code = fields.text(key)
        if code is not None and names_file:
            code = self._script(fields, code)
        return "" if code is None else self._checked(fields, key, code)

    def _script(self, fields: Fields, named: str) -> str | None:
        data = self._file(fields, "script", named, MAX_SCRIPT_BYTES)
        if data is None:
            return None
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            fields.fault("script", f"{named}: {not_utf8(data, error)}")
            return None

    def _checked(self, fields: Fields, key: str, code: str) -> str:
        size = len(code.encode())
        had_room = self._scripts_left >= 0
        self._scripts_left -= size
        if not code.strip():
            fields.fault(key, "is empty")
        elif size > MAX_SCRIPT_BYTES:
            fields.fault(key, f"has more than {MAX_SCRIPT_BYTES:,} bytes, the limit")
        elif "\0" in code:
            fields.fault(key, "holds a NUL character, which no Python source may")
        elif self._scripts_left < 0 and had_room:
            fields.fault(
                key, f"with it all scripts have more than {MAX_SCRIPTS_BYTES:,} bytes, the limit"
            )
        return code

    def _file(self, fields: Fields, key: str, named: str, limit: int) -> bytes | None:
        """Read a file that the workflow names; None if that fails, with the fault recorded."""
        if not named:
            fields.fault(key, "is empty")
            return None
        assert self._directory is not None  # noqa: S101 (snapshots name no files)
        data = read_limited(self._directory / named, limit)
        if isinstance(data, str):
            fields.fault(key, f"{named} {data}")
            return None
        return data

    # ------------------------------------------------------------------------------- inputs

    def _inputs(self, fields: Fields) -> tuple[Input, ...]:
        inputs: list[Input] = []
        targets = _Targets()
        for inner in fields.each("inputs", most=MAX_FILES):
            target = inner.text("target", required=True, judge=path_problem)
            content = self._content(inner)
            inner.done()
            if target is None:
                continue
            clash = targets.clash(target, inner.line)
            if clash is not None:
                inner.fault("target", f"{target!r} can't be there together with {clash}")
            inputs.append(Input(target=target, content=content))
        return tuple(inputs)

    def _content(self, fields: Fields) -> bytes:
        data: bytes | None = None
        if self._directory is None:
            data = self._inlined(fields)
        else:
            named = fields.text("source", required=True)
            if named is not None:
                data = self._file(fields, "source", named, MAX_INPUTS_BYTES)
        if data is None:
            return b""
        had_room = self._inputs_left >= 0
        self._inputs_left -= len(data)
        if self._inputs_left < 0 and had_room:
            fields.fault(
                "source", f"with it all inputs have more than {MAX_INPUTS_BYTES:,} bytes, the limit"
            )
        return data

    def _inlined(self, fields: Fields) -> bytes | None:
        if fields.has("text") is fields.has("base64"):
            if fields.usable:
                fields.fault("", "expected text or base64, one of the two")
            fields.take("text")
            fields.take("base64")
            return None
        text, coded = fields.text("text"), fields.text("base64")
        if coded is None:
            return None if text is None else text.encode()
        try:
            return base64.b64decode(coded, validate=True)
        except (binascii.Error, ValueError):
            fields.fault("base64", "is not base64")
            return None


class _Targets:
    """The inputs' paths, checked for conflicts within one workspace."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}
        self._above: dict[str, str] = {}

    def clash(self, target: str, line: int) -> str | None:
        """Add a path; return the path it conflicts with, or None."""
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


class AgentForm(WorkflowForm):
    """Reads an agent's workflow."""

    def own_fields(self, fields: Fields) -> dict[str, Any]:
        """Read role, file groups and phases."""
        needs = fields.flag("needs_specification")
        role = fields.text("role", required=True, judge=_prompt)
        mode = fields.one_of("agent_mode", AGENT_MODES, None)
        groups = [self._group(one) for one in fields.each("files", most=MAX_GROUPS)]
        phases = self.phases(fields)
        for index, text in agent_phase_faults(phases, groups, needs):
            self.faults.add("", text, self.phase_lines[index])
        return {
            "needs_specification": needs,
            "role": role,
            "agent_mode": mode,
            "groups": groups,
            "phases": phases,
        }

    def phase(self, fields: Fields) -> Phase:
        """Read a phase."""
        name = fields.name("name", NAME_RE, NAME_RULE) or ""
        phase = Phase(
            name=name,
            mode=fields.text("mode") or name,
            prompt=fields.text("prompt", judge=_prompt),
            writes=fields.distinct("writes"),
            gate=self._gate(fields.inner("gate", required=True)),
            max_attempts=self.max_attempts(fields),
            budget_share=fields.number("budget_share", most=1) or 1.0,
            answer_tokens=fields.whole(
                "answer_tokens", DEFAULT_ANSWER_TOKENS, least=0, most=MAX_COUNT
            ),
            on_failure=fields.text("on_failure"),
            questions=fields.one_of("questions", QUESTIONS, "allowed"),
        )
        fields.done()
        return phase

    def _group(self, fields: Fields) -> FileGroup:
        name = fields.name("group", NAME_RE, NAME_RULE)
        if name in {CODE, TESTS}:
            fields.fault("group", f"{name!r} is the component's, from the specification")
        paths = fields.distinct("paths", least=1, judge=_place_problem)
        fields.done()
        return FileGroup(name=name or "", paths=paths)

    def _gate(self, fields: Fields) -> Gate:
        kind = fields.text("kind", required=True)
        if kind is None:
            return _REFUSED_GATE
        gate = Gate(
            kind=kind,
            require=fields.distinct("require", judge=_path_problem),
            tests_unchanged=fields.flag("tests_unchanged"),
            covers_criteria=fields.flag("covers_criteria"),
            framework=fields.one_of("framework", ("pytest", "unittest"), "pytest"),
            code=fields.text("code"),
            deadline_s=seconds(fields, "deadline_s") or DEFAULT_GATE_DEADLINE_S,
            command=fields.text("command"),
            report=fields.text("report") or "junit",
            report_path=fields.text("report_path"),
            packages=fields.distinct("packages"),
        )
        fields.done()
        return gate


def _prompt(text: str) -> str | None:
    return at_most(MAX_PROMPT_CHARS)(text) or (None if text.strip() else "is empty")


def _path_problem(path: str) -> str | None:
    return path_problem(path.replace("{name}", "name"))


def _place_problem(path: str) -> str | None:
    """Return what is wrong with a path that may end in `/` because it is a directory."""
    return _path_problem(path.removesuffix("/"))
