"""Which files of the workspace a prompt shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..workflow import Phase
from .progress import works_on_repository
from .run_lock import LedSession

MAX_REPOSITORY_CHARS: Final = 60_000
"""How much is shown of the directories of a repository that the phase may write."""


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
