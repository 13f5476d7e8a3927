"""Derives attempts' changes from agents' answers, for use without snapshots; pure."""

from __future__ import annotations

from collections.abc import Iterable

from ....workflows.agents.port import AgentAnswer
from ....workflows.gates.verdict import Verdict
from ....workflows.prompts.answers import parse_answer
from .attempts import AttemptView, ChangeView
from .patches import file_difference

NOTE = "As far as the agent's answers say: there is no snapshot of the workspace to compare."


def answered_files(
    attempts: Iterable[AttemptView],
) -> tuple[dict[int, ChangeView], dict[str, bytes]]:
    """Return each attempt's changes by its number, and the files after the last attempt by path.

    Attempts must come oldest first. A file's content before its first answer is unknown, so the
    file counts as added.
    """
    files: dict[str, bytes] = {}
    changes: dict[int, ChangeView] = {}
    for attempt in attempts:
        applied = _applied(attempt)
        found = [
            difference
            for path, content in sorted(applied.items())
            if (difference := file_difference(path, files.get(path), content)) is not None
        ]
        for path, content in applied.items():
            if content is None:
                files.pop(path, None)
            else:
                files[path] = content
        if found:
            changes[attempt.number] = ChangeView(files=tuple(found), note=NOTE)
    return changes, files


def _applied(attempt: AttemptView) -> dict[str, bytes | None]:
    """Return the contents that an attempt wrote, by path; None for a deleted file.

    If the verdict lists written and deleted paths, all others are left out.
    """
    applied: dict[str, bytes | None] = {}
    for call in attempt.calls:
        if call.stored is not None:
            applied |= _in_answer(call.stored.answer)
    facts = attempt.verdict.facts if isinstance(attempt.verdict, Verdict) else {}
    if "written" not in facts:
        return applied
    taken = {str(path) for key in ("written", "deleted") for path in facts.get(key) or ()}
    return {path: content for path, content in applied.items() if path in taken}


def _in_answer(answer: AgentAnswer) -> dict[str, bytes | None]:
    if answer.change is None:
        said = parse_answer(answer.text)
        written: dict[str, bytes | None] = {one.path: one.content.encode() for one in said.files}
        return written | dict.fromkeys(said.deleted)
    edited = {one.path: one.content for one in answer.change.written}
    found = edited | dict.fromkeys(answer.change.deleted)
    refused = {path for path, _ in answer.change.refused}
    return {path: content for path, content in found.items() if path not in refused}
