"""What attempts changed, found from what agents answered, where there are no snapshots; pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import frozen

from ....workflows.prompts.answers import parse_answer
from .attempts import AttemptView, ChangeView, Step
from .patches import file_difference

NOTE = "As far as the agent's answers say: there is no snapshot of the workspace to compare."


@frozen
class AnsweredFiles:
    """The files of a session as its answers have them.

    Attributes:
        changes: What each attempt changed, by its number.
        files: What there is after the last attempt, by path.
    """

    changes: Mapping[int, ChangeView]
    files: Mapping[str, bytes]


def answered_files(attempts: Iterable[AttemptView], steps: Mapping[str, Step]) -> AnsweredFiles:
    """Go through the answers, the oldest first, and return what each changed.

    What a file was before its first answer isn't known: it counts as new.
    """
    files: dict[str, bytes] = {}
    changes: dict[int, ChangeView] = {}
    for attempt in attempts:
        applied = _applied(attempt, steps)
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
    return AnsweredFiles(changes, files)


def _applied(attempt: AttemptView, steps: Mapping[str, Step]) -> dict[str, bytes | None]:
    """Return what an attempt wrote, by path; None for what it deleted."""
    applied: dict[str, bytes | None] = {}
    for call in attempt.calls:
        step = steps.get(attempt.key.name("answer", call.number))
        if isinstance(step, Mapping):
            applied |= _in_answer(step)
    taken = _taken(steps.get(attempt.key.name("verdict")))
    if taken is None:
        return applied
    return {path: content for path, content in applied.items() if path in taken}


def _in_answer(step: Mapping[str, Any]) -> dict[str, bytes | None]:
    change = step.get("change")
    if isinstance(change, Mapping):
        return _edited(change)
    answer = parse_answer(str(step.get("text") or ""))
    written: dict[str, bytes | None] = {one.path: one.content.encode() for one in answer.files}
    return written | dict.fromkeys(answer.deleted)


def _edited(change: Mapping[str, Any]) -> dict[str, bytes | None]:
    found: dict[str, bytes | None] = {}
    for one in change.get("written") or ():
        try:
            found[str(one["path"])] = base64.b64decode(one["base64"], validate=True)
        except (KeyError, TypeError, ValueError, binascii.Error):
            continue
    refused = {str(one[0]) for one in change.get("refused") or () if one}
    deleted = {str(path): None for path in change.get("deleted") or ()}
    return {path: data for path, data in (found | deleted).items() if path not in refused}


def _taken(step: Step | None) -> set[str] | None:
    """Return the paths that were applied, as the verdict notes them; None where it does not."""
    facts = step.get("facts") if isinstance(step, Mapping) else None
    if not isinstance(facts, Mapping) or "written" not in facts:
        return None
    return {str(path) for key in ("written", "deleted") for path in facts.get(key) or ()}
