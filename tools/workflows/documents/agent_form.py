"""Reads the phases and file groups of an agent's workflow; file and snapshot have the same form."""

from __future__ import annotations

from typing import Any, Final

from ...base.reading.fields import Fields
from ...base.settings.choices import AGENT_MODES
from ...harness.session_domain import MAX_COUNT
from ..names import NAME_RE, NAME_RULE, path_problem
from ..workflow import (
    CODE,
    DEFAULT_ANSWER_TOKENS,
    DEFAULT_GATE_DEADLINE_S,
    QUESTIONS,
    TESTS,
    FileGroup,
    Gate,
    Phase,
    agent_phase_faults,
)
from .workflow_form import WorkflowForm, at_most, seconds

MAX_PROMPT_CHARS: Final = 20_000
MAX_GROUPS: Final = 20
_REFUSED_GATE: Final = Gate(kind="script", code="")
"""Replaces a gate whose fault is already recorded, so that it causes no further one."""


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
