"""Reads the phases and file groups of an agent's workflow, whose snapshot has the same form."""

from __future__ import annotations

import re
from typing import Any, Final

from ...base.reading.yaml_document import Fields, Node, Refused, Scalar, describe
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
from .workflow_form import MAX_DEADLINE_S, WorkflowForm, prose
from .workflow_snapshot import SCHEMA_VERSION

MAX_PROMPT_CHARS: Final = 20_000
MAX_GROUPS: Final = 20
_REFUSED_GATE: Final = Gate(kind="script", code="")
"""Stands for a gate whose fault is recorded already, and has none of its own."""


class AgentForm(WorkflowForm):
    """Reads an agent's workflow."""

    def version(self, fields: Fields) -> bool:
        """Take the version."""
        node = fields.take("schema_version", required=True)
        if node is not None and not (isinstance(node, Scalar) and node.text == str(SCHEMA_VERSION)):
            fields.fault(
                "schema_version", f"expected {SCHEMA_VERSION}, found {describe(node)}", node
            )
        return True

    def own_fields(self, fields: Fields) -> dict[str, Any]:
        """Take role, file groups and phases."""
        needs = fields.flag("needs_specification")
        role = self._prose(fields, "role", required=True)
        mode = fields.text("agent_mode")
        if mode is not None and mode not in AGENT_MODES:
            fields.fault("agent_mode", f"{mode[:60]!r} is none of {', '.join(AGENT_MODES)}")
            mode = None
        files = fields.items("files")
        if len(files) > MAX_GROUPS:
            fields.fault("files", f"are {len(files)}, {MAX_GROUPS} are allowed")
        groups = [
            self._group(node, f"files[{index}]") for index, node in enumerate(files[:MAX_GROUPS])
        ]
        phases = self.phases(fields)
        for index, text in agent_phase_faults(phases, groups, needs):
            self.faults.add(self.phase_nodes[index].line, text)
        return {
            "needs_specification": needs,
            "role": role,
            "agent_mode": mode,
            "groups": groups,
            "phases": phases,
        }

    def phase(self, node: Node, where: str) -> Phase:
        """Read a phase."""
        fields = Fields(node, where, self.faults)
        name = fields.name("name", NAME_RE, NAME_RULE) or ""
        share = fields.take("budget_share")
        max_attempts = self.max_attempts(fields, where)
        gate = fields.take("gate", required=True)
        phase = Phase(
            name=name,
            mode=fields.text("mode") or name,
            prompt=self._prose(fields, "prompt"),
            writes=fields.texts("writes"),
            gate=self._gate(gate, f"{where}.gate") if gate is not None else _REFUSED_GATE,
            max_attempts=max_attempts,
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

    def _prose(self, fields: Fields, key: str, *, required: bool = False) -> str | None:
        text = prose(fields, key, most=MAX_PROMPT_CHARS, required=required)
        if text is not None and not text.strip():
            fields.fault(key, "is empty")
        return text

    def _group(self, node: Node, where: str) -> FileGroup:
        fields = Fields(node, where, self.faults)
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
        fields = Fields(node, where, self.faults)
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
            command=fields.text("command"),
            report=fields.text("report") or "junit",
            report_path=fields.text("report_path"),
            packages=fields.texts("packages"),
        )
        if gate.framework not in {"pytest", "unittest"}:
            fields.fault("framework", f"{gate.framework[:60]!r} is neither pytest nor unittest")
        fields.done()
        return gate
