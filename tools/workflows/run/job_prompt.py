"""The prompt of a phase of a job: what the job says, and what the session adds; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..job import Job
from ..prompts.prompts import PromptInput, compose
from ..workflow import Phase


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
