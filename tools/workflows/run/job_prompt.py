"""The prompt of a phase of a job: what the job says, and what the session adds; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..job import Job
from ..prompts.prompts import PromptInput, compose
from ..workflow import Phase


def job_prompt(
    job: Job,
    phase: Phase,
    *,
    files: Mapping[str, str],
    briefing: str,
    attempt: int = 1,
    round_number: int = 1,
    evidence: Iterable[str] = (),
    answered: Iterable[tuple[str, str]] = (),
    budget_note: str | None = None,
    said_on_base: str | None = None,
) -> str:
    """Write the prompt of a phase; see `PromptInput` for the arguments."""
    work, specification, component = job.work, job.specification, job.component
    return compose(
        PromptInput(
            role=job.workflow.role or "",
            workflow=job.workflow.name,
            phase=phase,
            attempt=attempt,
            round_number=round_number,
            writes=job.writable(phase),
            briefing=briefing,
            subject=None if work is None else work.subject,
            specification=specification.excerpt(component)
            if specification is not None and component is not None
            else None,
            component=component,
            context=None if work is None else work.context,
            files=files,
            evidence=tuple(evidence),
            answered=tuple(answered),
            budget_note=budget_note,
            edits=job.workflow.edits,
            said_on_base=said_on_base,
        )
    )


def own_paths(job: Job, made: Iterable[str] = ()) -> set[str]:
    """Return the files that a prompt shows of a workspace that began as a repository's.

    Those are what the job is about: its inputs, the files that its phases may write, and those that
    the session made. The others are as many as the repository has; the context shows some of them.

    Args:
        job: The job.
        made: The files that the session made.
    """
    written = (path for phase in job.workflow.phases for path in job.writable(phase))
    return {*made, *written, *(one.target for one in job.inputs)}


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
