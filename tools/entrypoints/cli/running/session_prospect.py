"""Predict which session a prompt in an agent program would work on, or why none."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ....base.data_folder import find_data_folder
from ....base.errors import AgentForgeError

if TYPE_CHECKING:
    from ....agents.hooks.session_lookup import Candidates
    from ....harness.session_domain import SessionContext


_CREATE: Final = "agents.create"


class Prospect(NamedTuple):
    """Effect that a prompt would have.

    Attributes:
        message: What the prompt would do, or why it would not create a session.
        advice: How to change that; None if a session begins or continues.
    """

    message: str
    advice: str | None = None


def no_session(because: str, advice: str) -> Prospect:
    """Return the prospect that no session will begin."""
    return Prospect(f"no session will begin here, because {because}", advice)


def session_prospect(folder: Path, environment: Mapping[str, str]) -> Prospect:
    """Return what a first prompt would do in a folder, if the agent program calls the hook.

    Applies the hook's own rules; creates and changes nothing.

    Args:
        folder: The working directory of the agent program, absolute.
        environment: The environment of the agent program.
    """
    data_folder = find_data_folder(folder)
    if data_folder is None:
        return no_session(
            f"neither {folder} nor its project has a folder .agentforge",
            "Make one: agentforge init",
        )
    try:
        return _named(data_folder, environment) or _found(data_folder, environment)
    except AgentForgeError as error:
        return no_session(str(error).rstrip("."), "Mend this, then check again.")


def _named(data_folder: Path, environment: Mapping[str, str]) -> Prospect | None:
    from ....agents.hooks.session_lookup import SESSION_VARIABLE, named_session
    from ....fleet import stores

    found = named_session(data_folder, environment, stores)
    if found is None:
        return None
    with closing(found.place):
        session = found.place.sessions.load(found.session_id)
    if session is None or session.state.is_terminal:
        state = "not there" if session is None else session.state.value
        return no_session(
            f"{SESSION_VARIABLE} names {found.session_id}, which is {state}",
            f"Name an open one in {SESSION_VARIABLE}, or unset it.",
        )
    return _of_session(session)


def _found(data_folder: Path, environment: Mapping[str, str]) -> Prospect:
    from ....agents.hooks.session_lookup import candidates
    from ....fleet import stores

    found = candidates(data_folder, environment, stores)
    with closing(found.place):
        if len(found.open_sessions) == 1:
            session = found.place.sessions.load(found.open_sessions[0])
            if session is not None:
                return _of_session(session)
        return _without_one(found, data_folder, environment)


def _without_one(found: Candidates, data_folder: Path, environment: Mapping[str, str]) -> Prospect:
    from ....agents.hooks.session_lookup import SESSION_VARIABLE
    from ....agents.hooks.settings import read_left_out

    if found.open_sessions:
        return no_session(
            f"several are open ({', '.join(found.open_sessions)}), and none is named",
            f"Name one in {SESSION_VARIABLE}, or end the others: agentforge complete, abort",
        )
    if found.settings.create:
        return Prospect("a prompt begins a session")
    where = "none is open" if found.place.is_files else "a database's sessions are never guessed"
    file = data_folder / "config.toml"
    if _CREATE in read_left_out(data_folder, environment):
        return no_session(
            f"{where} and {_CREATE} in {file} is not trusted",
            "`agentforge trust` shows what it would allow, and allows it.",
        )
    return no_session(
        f"{where} and [agents] create is not true",
        f"Begin one, as `agentforge run` does, or set create = true in [agents] of {file}",
    )


def _of_session(session: SessionContext) -> Prospect:
    from ....agents.hooks.messages import extend_command

    if session.token_budget.is_exhausted:
        return Prospect(
            f"a prompt is refused, because the token budget of {session.session_id} is spent",
            f"Extend it: {extend_command(session)}",
        )
    return Prospect(f"a prompt goes on with {session.session_id} ({session.state.value})")
