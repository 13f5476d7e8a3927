"""The prompt of a phase: what its job says, what the session adds, and the files that it shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..job import Job
from ..prompts.prompts import PromptInput, compose
from ..workflow import Phase
from .progress import works_on_repository
from .run_lock import LedSession

MAX_REPOSITORY_CHARS: Final = 60_000
"""How much is shown of the directories of a repository that the phase may write."""


def job_prompt(
    job: Job, phase: Phase, *, files: Mapping[str, str], briefing: str, **more: Any
) -> str:
    """Write the prompt of a phase; the other arguments are those of `PromptInput`, by name."""
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
    """Return the files that a prompt shows of a workspace that began as a repository's.

    Those are what the job is about: its inputs, and the files that its phases may write. The others
    are as many as the repository has; the context shows some of them.
    """
    return {*job.all_writable, *(one.target for one in job.inputs)}


def first_prompt(job: Job, there: Mapping[str, str] | None = None) -> tuple[Phase, str] | None:
    """Return the first phase that asks the agent with its prompt, as far as it is known before.

    What the session says of itself is not in it. None where no phase asks.

    Args:
        job: The job.
        there: What the workspace begins with, of `own_paths`; nothing if None.
    """
    for phase in job.workflow.phases:
        if phase.prompt is not None:
            files = dict(there or {})
            files |= {one.target: one.content.decode("utf-8", "replace") for one in job.inputs}
            return phase, job_prompt(job, phase, files=files, briefing="A new session.")
    return None


def shown_files(led: LedSession, phase: Phase) -> dict[str, str]:
    """Return the files of a session's workspace that matter for a phase, as far as they are text.

    All of a workspace that began empty. Of a repository those that the session has written and
    those that its phases write by name, and of the directories that this phase may write what fits
    into a bound, in the order of the paths: what else is to be known of it is in the job's context.

    Raises:
        WorkspaceTooLarge: There is too much.
        ReadError: The system refused.
    """
    session, job, files = led.session, led.job, led.files
    if not works_on_repository(session):
        return _texts(files.read())
    own = {artifact.path for artifact in session.artifacts}
    own |= {one.target for one in job.inputs}
    named = [path for path in job.all_writable if not path.endswith("/")]
    first = dict.fromkeys([*named, *sorted(own)])
    found = _texts(files.read([*first, *job.writable(phase)]))
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
