"""Who asks: the process that waits for an answer, or the agent session that it is asked for.

It stands in request.json under `asker`, a key of our own that other programs ignore. Once no one
can receive the answer, the question is ended; what can't be judged from here is left alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from ..durable.process_owner import OsProcesses, Owner, Processes, judge_owner, owner_of

SessionEnd = Callable[[Path], str | None]
"""Returns why no one can go on with the agent session in a directory; None if somebody may."""

ASKER_KILLED: Final = "the program that waited for the answer has ended"
_SESSION_KEY: Final = "session"


@frozen(kw_only=True)
class Asker:
    """Who waits for the answer to a question.

    Attributes:
        process: The process that asked.
        session: The directory of the agent session that it was asked for, or None. The question
            of a session outlives the process: the next worker takes it up.
    """

    process: Owner
    session: Path | None = None

    @classmethod
    def current(cls, *, session: Path | None = None, processes: Processes | None = None) -> Asker:
        """Return this process, as it asks for itself or for an agent session."""
        known = processes if processes is not None else OsProcesses()
        return cls(
            process=Owner.current(known, ""),
            session=None if session is None else session.absolute(),
        )


def current_directory() -> str | None:
    """Return the folder that this process works in, or None if it was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return None


def asker_document(asker: Asker) -> dict[str, Any]:
    """Return who asks as JSON has it."""
    document = asker.process.document()
    del document["token"]
    if asker.session is not None:
        document[_SESSION_KEY] = str(asker.session)
    return document


def parse_asker(found: object) -> Asker | None:
    """Return who `asker_document` describes, or None: what is not understood describes no one."""
    if not isinstance(found, dict):
        return None
    process = owner_of({**found, "token": ""})
    session = found.get(_SESSION_KEY)
    if process is None or not (session is None or isinstance(session, str)):
        return None
    path = Path(session) if session and "\0" not in session else None
    if session is not None and (path is None or not path.is_absolute()):
        return None
    return Asker(process=process, session=path)


def end_of(
    asker: Asker | None, *, processes: Processes, session_end: SessionEnd | None
) -> str | None:
    """Return why no one can receive the answer any more, or None if somebody may.

    An asker on another machine or in another container is never judged. The question of an agent
    session is judged by that session alone: a worker that was killed has a successor.

    Args:
        asker: Who asks, or None if it is not known.
        processes: The machine's processes.
        session_end: Judges agent sessions; without it they are left alone.
    """
    if asker is None:
        return None
    if asker.session is None:
        verdict = judge_owner(asker.process, processes=processes)
        return ASKER_KILLED if verdict.is_dead else None
    machine, _, namespace = processes.here
    if (asker.process.machine, asker.process.namespace) != (machine, namespace):
        return None
    return session_end(asker.session) if session_end is not None else None
