"""What a person says to us in a prompt: `agentforge:new`, `done`, `switch`, `sessions`, `budget`.

The programs' own commands of these names expand to such a prompt. It is carried out and answered
here and reaches no model; no model's words can be one.
"""

# Annotations are evaluated here: as strings, each field's would have to be compiled.

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from ...base.errors import AgentForgeError, counted
from ...base.settings.spending import SCOPES, Amount
from ...harness.domain.history_events import BudgetExtended, QuestionAbandoned, QuestionAsked
from ...harness.session_domain import SessionContext, SessionState
from ...harness.session_ports import require_own
from ...harness.views.question_entries import open_questions
from ...harness.views.session_head import SessionSummary
from ..ledger import AMOUNTS, Payer, amount_of, day_of, extend_limit, limits_of
from ..programs.hook_event import HookEvent
from . import messages
from .project_place import ProjectPlace
from .recording import change_session, session_cost
from .session_lookup import SESSION_VARIABLE, FoundSession, create_session, session_place
from .session_place import Stores

_FORM: Final = re.compile(
    r"/?agentforge[:/](new|done|switch|sessions|budget)(?:\s+(.*))?", re.DOTALL
)
_NOTE: Final = "(If you can read this"
"""The beginning of what a program's command says to a model that the hook did not keep it from."""
_MOST_LISTED: Final = 20
_EXPANDING: Final = ("gemini", "opencode")
"""The programs that hand over what a command expands to: the words of its author."""


class PersonCommand(NamedTuple):
    """A command: its name, what follows it, and whether a person certainly typed these words."""

    name: str
    rest: str
    is_typed: bool


class Answered(NamedTuple):
    """The outcome of a command.

    Attributes:
        said: The answer to the person.
        session: The session that the conversation works on from now on; None for no change.
    """

    said: str
    session: FoundSession | None = None


def command_of(event: HookEvent) -> PersonCommand | None:
    """Return the command that a person's prompt is, or None."""
    found = _FORM.fullmatch(event.text.strip())
    if found is None or not event.by_person or event.by_subagent:
        return None
    rest = (found[2] or "").partition(_NOTE)[0].strip()
    if len(rest) > 1 and rest[0] == rest[-1] == '"':  # as `opencode run` passes words with blanks
        rest = rest[1:-1].strip()
    return PersonCommand(found[1], rest, event.program not in _EXPANDING)


def carry_out(
    command: PersonCommand,
    bound: FoundSession | None,
    project: ProjectPlace,
    environment: Mapping[str, str],
    *,
    stores: Stores,
    now: datetime,
) -> Answered:
    """Carry out a command; what fails is the answer.

    Args:
        command: The command.
        bound: The session of the conversation, or None.
        project: The project.
        environment: The environment variables.
        stores: Opens the sessions.
        now: The time.
    """
    rest = command.rest
    acts: Mapping[str, Callable[[], Answered]] = {
        "budget": lambda: _budget(command, bound, environment, now),
        "done": lambda: _done(bound, now),
        "new": lambda: _new(rest, project, environment, stores, now),
        "sessions": lambda: _sessions(bound, project, environment, stores),
        "switch": lambda: _switch(rest, project, environment, stores),
    }
    if command.name in {"new", "switch"} and environment.get(SESSION_VARIABLE):
        return Answered(f"AgentForge: {SESSION_VARIABLE} names the session; unset it first.")
    try:
        return acts[command.name]()
    except AgentForgeError as error:
        return Answered(f"AgentForge: nothing was changed: {error}")


def _new(
    goal: str,
    project: ProjectPlace,
    environment: Mapping[str, str],
    stores: Stores,
    now: datetime,
) -> Answered:
    place, settings = session_place(project, environment, stores)
    branch = project.branch()
    with project.locked(environment) as lock:
        session = create_session(place.sessions, goal, settings, branch, now)
        lock.choose(branch, session.session_id)
    said = messages.first_line(session)
    hint = "" if goal else "\nThe next prompt becomes its goal."
    return Answered(f"{said}{hint}", FoundSession(place, session.session_id, is_new=True))


def _switch(
    named: str, project: ProjectPlace, environment: Mapping[str, str], stores: Stores
) -> Answered:
    place, _ = session_place(project, environment, stores)
    session_id = place.sessions.resolve(named)
    require_own(place.sessions, session_id)
    session = place.sessions.load(session_id)
    if session is None or session.state.is_terminal:
        state = "not there" if session is None else session.state.value
        return Answered(f"AgentForge: nothing was changed: {session_id} is {state}.")
    with project.locked(environment) as lock:
        lock.choose(project.branch(), session_id)
    return Answered(messages.first_line(session), FoundSession(place, session_id))


def _done(bound: FoundSession | None, now: datetime) -> Answered:
    if bound is None:
        return Answered("AgentForge: this conversation works on no session.")

    waiting: list[QuestionAsked] = []

    def complete(session: SessionContext) -> bool:
        waiting[:] = [] if session.state.is_terminal else open_questions(session)
        for one in waiting:  # the next look at the questions ends them there, too
            reason = f"session {session.session_id} was completed"
            ended = QuestionAbandoned(question_id=one.question_id, reason=reason)
            session.add_event(ended, now=now)
        if session.state is SessionState.PAUSED:
            session.apply("resume", now=now)
        if not session.state.is_terminal:
            session.apply("complete", now=now)
        return True

    change_session(bound.place.sessions, bound.session_id, complete)
    withdrawn = f" {counted(len(waiting), 'waiting question')} withdrawn." if waiting else ""
    return Answered(
        f"session {bound.session_id[-4:]} is completed; the next prompt begins another.{withdrawn}"
    )


def _budget(
    command: PersonCommand,
    bound: FoundSession | None,
    environment: Mapping[str, str],
    now: datetime,
) -> Answered:
    """Show what is spent, or first extend it by what follows: `5usd`, `200k`, `5usd day`.

    A command of a repository may expand to such words. Where that looks like what a person
    typed, they are to be sent again with a code that its author can't know.
    """
    if bound is None:
        return Answered("AgentForge: this conversation works on no session.")
    rest = command.rest
    words = rest.split()
    if words and not command.is_typed:
        last = words.pop() if len(words) > 1 else ""
        if last != _code(bound, words):
            words = rest.split()
            again = f"agentforge:budget {' '.join(words)[:60]} {_code(bound, words)}"
            return Answered(f"To extend it, send these words yourself: {again}")
        rest = " ".join(words)
    scope = words.pop() if words and words[-1] in SCOPES else SCOPES[0]
    sessions, session_id = bound.place.sessions, bound.session_id
    payer = Payer(session_id, os.path.realpath(bound.place.base), day_of(now))
    if rest:
        more = amount_of(" ".join(words))
        refused = None if more is not None else f"{rest[:60]!r} is not {AMOUNTS}"
        if more is not None and more.tokens and scope == SCOPES[0]:
            refused = _extend(bound, more.tokens, now)
        elif more is not None:
            refused = extend_limit(scope, payer, more, environment)
        if refused is not None:
            return Answered(f"AgentForge: nothing was extended: {refused}")
    session = sessions.load(session_id)
    if session is None:
        return Answered(f"AgentForge: session {session_id} is not there.")
    spent = Amount(session.token_budget.tokens_used, session_cost(session))
    limits = limits_of(payer, spent, environment)
    return Answered("\n".join([messages.first_line(session), *map(str, limits)]))


def _code(bound: FoundSession, words: Sequence[str]) -> str:
    """Return what confirms words in a session: nobody knows it who does not know the session."""
    text = f"{bound.session_id} {' '.join(words)}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:6]


def _extend(bound: FoundSession, tokens: int, now: datetime) -> str | None:
    """Allot more tokens to a session; return why they can't be, or None."""
    states: list[SessionState] = []

    def extend(session: SessionContext) -> bool:
        states.append(session.state)
        if session.state.is_terminal:
            return False
        budget = session.token_budget
        budget.extend(tokens)
        event = BudgetExtended(additional_tokens=tokens, total_budget=budget.total_budget)
        session.add_event(event, now=now)
        return True

    change_session(bound.place.sessions, bound.session_id, extend)
    ended = not states or states[-1].is_terminal
    return f"session {bound.session_id} has ended" if ended else None


def _sessions(
    bound: FoundSession | None,
    project: ProjectPlace,
    environment: Mapping[str, str],
    stores: Stores,
) -> Answered:
    place, _ = session_place(project, environment, stores)
    found = [
        one.head
        for one in (place.sessions.summaries() if place.is_files else ())
        if isinstance(one, SessionSummary)
        and not one.head.state.is_terminal
        and place.sessions.is_own(one.session_id)
    ]
    current = None if bound is None else bound.session_id
    lines = [
        f"{'*' if one.session_id == current else ' '} {one.session_id}  {one.state.value}  "
        f"{100 * one.tokens_used // max(1, one.total_budget)} %  {' '.join(one.tags)}  "
        f"{one.title or ''}".rstrip()
        for one in found[:_MOST_LISTED]
    ]
    branch = project.branch().partition(":")[2]
    on = f" (this is {branch})" if branch else ""
    return Answered("\n".join([f"{len(found)} open sessions{on}:", *lines]))
