"""The prompt of a phase: the job's part, the session's part, and the files it shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..job import Job
from ..prompts.prompts import PromptInput, compose
from ..workflow import ANYTHING, Phase
from .progress import works_on_repository
from .run_lock import LedSession

MAX_REPOSITORY_CHARS: Final = 60_000
"""The most characters shown of a repository's directories that the phase may write."""


def job_prompt(
    job: Job, phase: Phase, *, files: Mapping[str, str], briefing: str, **more: Any
) -> str:
    """Return the prompt of a phase; the other arguments are those of `PromptInput`, by name."""
    work, specification, component = job.work, job.specification, job.component
    excerpt = None
    if specification is not None and component is not None:
        excerpt = specification.excerpt(component)
    return compose(
        PromptInput(
            role=job.workflow.role or "",
            workflow=job.workflow.name,
            phase=phase,
            writes=job.writable(phase),
            briefing=briefing,
            subject=None if work is None else work.subject,
            specification=excerpt,
            component=component,
            context=None if work is None else work.context,
            files=files,
            edits=job.workflow.edits,
            **more,
        )
    )


def own_paths(job: Job) -> set[str]:
    """Return the files that prompts show of a workspace that began as a repository.

    Those are the job's own: its inputs, and the files that its phases may write. The repository may
    have very many others; the context shows some of them.
    """
    return {*job.all_writable, *(one.target for one in job.inputs)}


def first_prompt(job: Job, there: Mapping[str, str] | None = None) -> tuple[Phase, str] | None:
    """Return the first phase that calls the agent, with its prompt as far as known beforehand.

    The session's briefing is not included. None if no phase calls the agent.

    Args:
        job: The job.
        there: The workspace's initial content of `own_paths`; empty if None.
    """
    for phase in job.workflow.phases:
        if phase.prompt is not None:
            files = dict(there or {})
            files |= {one.target: one.content.decode("utf-8", "replace") for one in job.inputs}
            return phase, job_prompt(job, phase, files=files, briefing="A new session.")
    return None


def shown_files(led: LedSession, phase: Phase) -> dict[str, str]:
    """Return the text files of a session's workspace that are relevant for a phase.

    For a workspace that began empty, these are all files. For a repository, they are the files that
    the session has written, those that its phases write by name, and as many as fit a limit, in the
    order of the paths, of the directories that this phase may write, unless it may write
    anything; the job's context shows more.

    Raises:
        WorkspaceTooLarge: The files exceed a limit.
        ReadError: The workspace can't be read.
    """
    session, job, files = led.session, led.job, led.files
    if not works_on_repository(session):
        return _texts(files.read())
    own = {artifact.path for artifact in session.artifacts}
    own |= {one.target for one in job.inputs}
    named = [path for path in job.all_writable if not path.endswith("/") and path != ANYTHING]
    first = dict.fromkeys([*named, *sorted(own)])
    below = [path for path in job.writable(phase) if path != ANYTHING]
    found = _texts(files.read([*first, *below]))
    kept: dict[str, str] = {}
    room = MAX_REPOSITORY_CHARS
    for path in [*first, *(path for path in found if path not in first)]:
        text = found.get(path)
        if text is not None and (path in first or len(text) <= room):
            kept[path] = text
            room -= len(text)
    return dict(sorted(kept.items()))


def _texts(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the files that are text."""
    found = {}
    for path, data in files.items():
        try:
            found[path] = data.decode()
        except UnicodeDecodeError:
            continue
    return found
