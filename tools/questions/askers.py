"""Who asks: the process that waits for an answer, or the agent session that it asks for.

request.json names it under `asker`, a key of our own that other programs ignore. Once no one can
receive the answer, the question is ended; an asker that can't be judged from here is left alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any, Final

from attrs import field, frozen

from ..base.files.process_owner import OsProcesses, Owner, Processes, judge_owner, owner_of
from ..base.identifiers import is_session_id

SessionEnd = Callable[[str], str | None]
"""Returns why no one can continue the agent session of a reference; None if somebody may."""

ASKER_KILLED: Final = "the program that waited for the answer has ended"
_SESSION_KEY: Final = "session"


def _reference(session: Path | str | None) -> str | None:
    return str(session.absolute()) if isinstance(session, Path) else session


@frozen(kw_only=True)
class Asker:
    """Who waits for the answer to a question.

    Attributes:
        process: The process that asked.
        session: The agent session that it asked for, or None: its absolute directory if it is in
            files; its id if it is in the same store as the question. The question of a session
            outlives the process: the next worker takes it up.
    """

    process: Owner
    session: str | None = field(default=None, converter=_reference)

    @classmethod
    def current(
        cls, *, session: Path | str | None = None, processes: Processes | None = None
    ) -> Asker:
        """Return this process as the asker, for itself or for an agent session."""
        known = processes if processes is not None else OsProcesses()
        return cls(process=Owner.current(known, ""), session=session)

    @property
    def session_name(self) -> str | None:
        """The id of the agent session that it asked for, or None."""
        return None if self.session is None else PurePath(self.session).name


def current_directory() -> str | None:
    """Return the folder that this process works in, or None if it was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return None


def asker_document(asker: Asker) -> dict[str, Any]:
    """Return an asker as JSON."""
    document = asker.process.document()
    del document["token"]
    if asker.session is not None:
        document[_SESSION_KEY] = asker.session
    return document


def parse_asker(found: object) -> Asker | None:
    """Return the asker that `asker_document` describes; None for anything not understood."""
    if not isinstance(found, dict):
        return None
    process = owner_of({**found, "token": ""})
    session = found.get(_SESSION_KEY)
    if process is None or not (session is None or isinstance(session, str)):
        return None
    if session is not None and not (is_session_id(session) or _is_place(session)):
        return None
    return Asker(process=process, session=session)


def _is_place(reference: str) -> bool:
    return "\0" not in reference and PurePath(reference).is_absolute()


def end_of(
    asker: Asker | None, *, processes: Processes, session_end: SessionEnd | None
) -> str | None:
    """Return why no one can receive the answer any more, or None if somebody may.

    An asker on another machine or in another container is never judged, nor is a session in a
    directory there. The question of an agent session is judged by that session alone, since a
    killed worker has a successor.

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
    here = (asker.process.machine, asker.process.namespace) == (machine, namespace)
    if _is_place(asker.session) and not here:
        return None
    return session_end(asker.session) if session_end is not None else None
