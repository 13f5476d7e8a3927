"""Writes a workflow as one self-contained YAML document: a session's copy of it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ...harness.format.session_values import encode_text
from ..converters import plain
from ..workflow import Phase, Script, Workflow

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
    document = {
        "schema_version": SCHEMA_VERSION,
        "name": workflow.name,
        "workflow_type": workflow.workflow_type,
        "goal": workflow.goal,
        "token_budget": workflow.token_budget,
        "retry": None if workflow.retry is None else plain(workflow.retry),
        **(_of_scripts(workflow) if scripts else _of_agent(workflow)),
    }
    return "".join([_HEADER if scripts else "", *_written(document, 0)]).encode()


def _of_scripts(workflow: Workflow) -> dict[str, Any]:
    return {
        "isolation": None if workflow.isolation == "sandbox" else workflow.isolation,
        "phases": [
            _script_phase(phase, phase.gate)
            for phase in workflow.phases
            if isinstance(phase.gate, Script)
        ],
        "inputs": [{"target": one.target, **_content(one.content)} for one in workflow.inputs],
    }


def _script_phase(phase: Phase, script: Script) -> dict[str, Any]:
    return {
        "name": phase.name,
        "description": phase.description,
        "code": script.code,
        "tokens": phase.tokens,
        "deadline_s": script.deadline_s,
        "fuel": script.fuel,
        "success": {"exit_code": script.exit_code, "artifacts": script.artifacts or None},
        "retry": {"max_attempts": phase.max_attempts},
    }


def _content(content: bytes) -> dict[str, str]:
    if not content.translate(None, _TEXT_BYTES):
        try:
            text = content.decode()
        except UnicodeDecodeError:
            pass
        else:
            if len(encode_text(text).encode()) <= 64 + 2 * len(content):  # little more than base64
                return {"text": text}
    return {"base64": base64.b64encode(content).decode()}


def _of_agent(workflow: Workflow) -> dict[str, Any]:
    files = [{"group": one.name, "paths": one.paths or None} for one in workflow.groups]
    return {
        "needs_specification": workflow.needs_specification,
        "role": workflow.role,
        "agent_mode": workflow.agent_mode,
        "files": files or None,
        "phases": [_agent_phase(phase) for phase in workflow.phases],
    }


def _agent_phase(phase: Phase) -> dict[str, Any]:
    gate = {name: value for name, value in plain(phase.agents_gate).items() if value != []}
    if phase.agents_gate.command is None:
        del gate["report"]
    return {
        "name": phase.name,
        "mode": phase.mode,
        "prompt": phase.prompt,
        "writes": phase.writes or None,
        "budget_share": phase.budget_share,
        "answer_tokens": phase.answer_tokens,
        "questions": phase.questions,
        "on_failure": phase.on_failure,
        "retry": {"max_attempts": phase.max_attempts},
        "gate": gate,
    }


def _written(values: Mapping[str, Any], indent: int) -> Iterator[str]:
    """Yield keys with their values, texts as `encode_text` writes them; None is omitted."""
    pad = " " * indent
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield f"{pad}{key}:\n"
            yield from _written(value, indent + 2)
        elif isinstance(value, list | tuple):
            yield f"{pad}{key}:\n" if value else f"{pad}{key}: []\n"
            for one in value:
                if isinstance(one, Mapping):
                    first, *rest = _written(one, indent + 4)
                    yield f"{pad}  - {first.lstrip(' ')}"
                    yield from rest
                else:
                    yield f"{pad}  - {_scalar(one, indent + 4)}\n"
        elif value is not None:
            yield f"{pad}{key}: {_scalar(value, indent + 2)}\n"


def _scalar(value: Any, indent: int) -> str:
    return encode_text(value, indent=indent) if isinstance(value, str) else json.dumps(value)
