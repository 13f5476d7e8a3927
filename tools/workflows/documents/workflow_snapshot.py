"""Writes a workflow as one YAML document that needs no other file: a session's copy of it."""

from __future__ import annotations

import base64
from typing import Final

from ...harness.format.session_codec import encode_text
from ..workflow import Gate, Input, Phase, RunRetry, Script, Workflow

SCHEMA_VERSION: Final = 1
_TEXT_BYTES: Final = bytes([9, 10, 13, *range(0x20, 0x7F), *range(0x80, 0x100)])
_HEADER: Final = (
    "# The workflow that this session runs, with its scripts and inputs: docs/workflows.md\n"
)


def snapshot_of(workflow: Workflow) -> bytes:
    """Return a workflow as a document.

    A workflow of scripts is a workflow file with every script as `code` and every input as `text`
    or `base64` (`read_snapshot` reads it); an agent's is its file (`read_agent_workflow`).
    """
    scripts = workflow.role is None
    lines = [
        _HEADER if scripts else "",
        f"schema_version: {SCHEMA_VERSION}\n",
        f"name: {encode_text(workflow.name)}\n",
        f"workflow_type: {encode_text(workflow.workflow_type)}\n",
        f"goal: {encode_text(workflow.goal, indent=2)}\n",
        f"token_budget: {workflow.token_budget}\n",
        *([] if workflow.retry is None else _run_retry(workflow.retry)),
    ]
    if not scripts:
        lines += _agent_head(workflow)
    elif workflow.isolation != "sandbox":
        lines.append(f"isolation: {workflow.isolation}\n")
    lines.append("phases:\n" if workflow.phases else "phases: []\n")
    for phase in workflow.phases:
        lines += [
            f"  - name: {encode_text(phase.name)}\n",
            *(
                _script_phase(phase, phase.gate)
                if isinstance(phase.gate, Script)
                else _agent_phase(phase, phase.gate)
            ),
        ]
    if scripts:
        lines.append("inputs:\n" if workflow.inputs else "inputs: []\n")
        lines += map(_input, workflow.inputs)
    return "".join(lines).encode()


def _run_retry(retry: RunRetry) -> list[str]:
    return [
        f"retry:\n  attempts: {retry.attempts}\n  wait_s: {retry.wait_s!r}\n",
        f"  factor: {retry.factor}\n  at_most_s: {retry.at_most_s!r}\n",
    ]


def _script_phase(phase: Phase, script: Script) -> list[str]:
    lines = []
    if phase.description is not None:
        lines.append(f"    description: {encode_text(phase.description)}\n")
    lines.append(f"    code: {encode_text(script.code)}\n")
    lines.append(f"    tokens: {phase.tokens}\n")
    if script.deadline_s is not None:
        lines.append(f"    deadline_s: {script.deadline_s!r}\n")
    if script.fuel is not None:
        lines.append(f"    fuel: {script.fuel}\n")
    lines.append(f"    success:\n      exit_code: {script.exit_code}\n")
    lines += _texts("      artifacts", script.artifacts)
    lines.append(f"    retry:\n      max_attempts: {phase.max_attempts}\n")
    return lines


def _input(one: Input) -> str:
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


def _agent_head(workflow: Workflow) -> list[str]:
    lines = [
        f"needs_specification: {_flag(workflow.needs_specification)}\n",
        f"role: {encode_text(workflow.role, indent=2)}\n",
    ]
    if workflow.agent_mode is not None:
        lines.append(f"agent_mode: {workflow.agent_mode}\n")
    if workflow.groups:
        lines.append("files:\n")
    for group in workflow.groups:
        lines += [f"  - group: {encode_text(group.name)}\n", *_texts("    paths", group.paths)]
    return lines


def _agent_phase(phase: Phase, gate: Gate) -> list[str]:
    lines = [f"    mode: {encode_text(phase.mode)}\n"]
    if phase.prompt is not None:
        lines.append(f"    prompt: {encode_text(phase.prompt)}\n")
    lines += _texts("    writes", phase.writes)
    lines += [
        f"    budget_share: {phase.budget_share!r}\n",
        f"    answer_tokens: {phase.answer_tokens}\n",
        f"    questions: {phase.questions}\n",
    ]
    if phase.on_failure is not None:
        lines.append(f"    on_failure: {encode_text(phase.on_failure)}\n")
    lines += [
        f"    retry:\n      max_attempts: {phase.max_attempts}\n",
        f"    gate:\n      kind: {gate.kind}\n      framework: {gate.framework}\n",
        f"      deadline_s: {gate.deadline_s!r}\n",
        f"      tests_unchanged: {_flag(gate.tests_unchanged)}\n",
        f"      covers_criteria: {_flag(gate.covers_criteria)}\n",
    ]
    lines += _texts("      require", gate.require)
    lines += _texts("      packages", gate.packages)
    if gate.command is not None:
        lines.append(f"      command: {encode_text(gate.command, indent=8)}\n")
        lines.append(f"      report: {encode_text(gate.report)}\n")
        if gate.report_path is not None:
            lines.append(f"      report_path: {encode_text(gate.report_path)}\n")
    if gate.code is not None:
        lines.append(f"      code: {encode_text(gate.code, indent=8)}\n")
    return lines


def _texts(key: str, values: tuple[str, ...]) -> list[str]:
    """Write a list of texts, each two columns deeper than its key; nothing if it is empty."""
    if not values:
        return []
    deeper = len(key) - len(key.lstrip()) + 2
    return [
        f"{key}:\n",
        *(f"{' ' * deeper}- {encode_text(one, indent=deeper + 2)}\n" for one in values),
    ]


def _flag(value: bool) -> str:
    return "true" if value else "false"
