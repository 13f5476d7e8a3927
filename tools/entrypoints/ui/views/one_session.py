"""The page of one session: its record, what it waits for, and the actions on it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from urllib.parse import quote
from xml.etree.ElementTree import Element

from ....agents.hooks.messages import known_work
from ....agents.ledger import AMOUNTS, SCOPE_NAMES, Standing
from ....base.settings.spending import SCOPES
from ....harness import SessionContext, SessionState
from ....harness.domain.history_events import BUDGET_CAUSE, SessionPaused
from ....harness.errors import SessionNotFound
from ....harness.steps.step_views import ShownStep, is_of_program, words_to_go_on
from ....harness.views.checkpoints import CheckpointEntry
from ...pages.html import Child, element
from ...pages.parts import Actions
from ...pages.session_page import contents, heading, session_sections
from ...pages.values.material import PageSource
from ...pages.values.session_view import view_of
from ..live import QUESTIONS, session_topic
from ..services import UiServices
from ..view import View
from .controls import Form, dialog, labelled, opener, select
from .question_forms import question_card


def session_view(services: UiServices, _: Form, session_id: str) -> View:
    """Return the page of a session.

    Raises:
        SessionNotFound: No session has this id.
        SessionCorrupted: The session can't be read.
        InvalidSessionId: The id is malformed.
    """
    manager, store = services.manager(), services.store
    session = manager.load(session_id)
    if session is None:
        raise SessionNotFound(session_id, path=store.where)
    source = PageSource(
        session,
        store,
        workspace=store.workspace_path(session_id) if services.has_workspace(session_id) else None,
        differences=services.differences(manager, session),
        work=lambda: known_work(store, session, lambda _: True),
    )
    shown = view_of(session, source.read(), now=services.clock())
    actions = _actions(session, read_only=services.read_only)
    sections = session_sections(shown, actions)
    columns = (
        element("div", contents(sections), id="contents"),
        element("div", sections, id="sections", class_="sections", data_keyed=True),
    )
    dialogs = []
    if not services.read_only:
        asked = _dialogs(session, services.limits_of(session))
        dialogs = [element("div", asked, id="dialogs")]
    title = session.title or session.goal or session_id
    return View(
        title=title.strip().split("\n")[0][:80],
        topics=(session_topic(session_id), QUESTIONS),
        content=[
            heading(shown, actions),
            *_needs(services, session),
            element("div", columns, id="columns", class_="columns", data_keyed=True),
            *dialogs,
        ],
    )


def _needs(services: UiServices, session: SessionContext) -> list[Element]:
    """Return what the session needs from a person: its questions, and a command to continue it."""
    session_id, store = session.session_id, services.store
    asked = services.questions_of(session_id)
    found = [question_card(services, one, linked=False) for one in asked]
    line = f"resume {session_id}"
    if not store.is_own(session_id):
        line = f"session adopt {session_id}"
        text = "It is not adopted: it came with a clone, a copy or an archive. To make it yours: "
    elif store.is_interrupted(session_id, session.state):
        text = "Its run was cut off. What was saved is kept; to go on: "
        line = shlex.join(words_to_go_on(store, session_id))
    elif session.state is SessionState.PAUSED and not found:
        text = f"It is paused{_spent_of(session)}. To go on: "
    else:
        return found
    command = element("code", f"{services.places.command} {line}")
    return [*found, element("p", text, command, id="needs", class_="notice")]


def _spent_of(session: SessionContext) -> str:
    """Return which budget or limit a paused session was stopped by; empty without one."""
    events = (one for one in reversed(session.history) if isinstance(one.event, SessionPaused))
    last = next(events, None)
    if last is None or getattr(last.event, "cause", None) != BUDGET_CAUSE:
        return ""
    return f": {last.details}. Extend it first"


# ------------------------------------------------------------------------------------ actions


def _actions(session: SessionContext, *, read_only: bool) -> Actions:
    """Return the page's controls and links; links only if the server is read-only."""
    if read_only:
        return Actions(address_of="/sessions/{}".format)
    return Actions(
        session=_session_buttons(session),
        checkpoint=partial(_checkpoint_buttons, session),
        step=partial(_step_buttons, session),
        address_of="/sessions/{}".format,
    )


def _session_buttons(session: SessionContext) -> Child:
    if session.state.is_terminal:
        return None
    pause = opener("Pause …", "dialog-pause", "to-pause")
    return element(
        "div",
        pause if session.state is SessionState.ACTIVE else None,
        opener("Extend budget …", "dialog-extend", "to-extend"),
        opener("Abort …", "dialog-abort", "to-abort", class_="grave"),
        class_="buttons",
    )


def _checkpoint_buttons(session: SessionContext, one: CheckpointEntry) -> Child:
    if one.snapshot is None:
        return None
    number = str(one.number)
    return _going_back(session, "checkpoint", number, f"{number} ({one.name or one.action})")


def _step_buttons(session: SessionContext, one: ShownStep) -> Child:
    if one.outcome == "failing":  # it is not recorded
        return None
    return _going_back(session, "step", one.step, one.step, suffix="-step")


def _going_back(
    session: SessionContext, kind: str, number: str, name: str, *, suffix: str = ""
) -> Element:
    """Return the buttons to go back to a place in a session, and to fork it there."""
    buttons = [
        opener(
            f"{text} …",
            f"dialog-{action}{suffix}",
            f"to-{action}-{quote(number, safe='', errors='replace')}",
            data_number=number,
            data_name=name,
            aria_label=f"{text}: {kind} {name}",
        )
        for action, text in (("rewind", "Go back"), ("fork", "Fork"))
        if action == "fork" or not session.state.is_terminal
    ]
    return element("div", buttons, class_="small buttons")


def _dialogs(session: SessionContext, limits: Sequence[Standing]) -> list[Element]:
    def asks(
        action: str, title: str, text: str, *fields: Element, does: str, grave: bool = False
    ) -> Element:
        post = f"/do/sessions/{session.session_id}/{action}"
        return dialog(f"dialog-{action}", title, text, *fields, post=post, does=does, grave=grave)

    is_programs = is_of_program(session)
    fork = asks(
        "fork",
        "Begin a new session here?",
        "It has the files, the phase and the history of that moment; this one stays as it is.",
        _place("checkpoint"),
        _own_budget(),
        does="Fork",
    )
    fork_step = asks(
        "fork-step",
        "Begin a new session here?",
        "It has what was recorded before this step, and a copy of the files as they are now, under "
        "a key of its own; this one stays as it is.",
        _place("step"),
        _own_budget(),
        does="Fork",
    )
    forks = [fork, fork_step] if is_programs else [fork]
    if session.state.is_terminal:
        return forks
    rewind_step = asks(
        "rewind-step",
        "Run this step again?",
        "What was recorded after it runs again, too. Files stay as they are, and spent tokens stay "
        "spent.",
        _place("step"),
        does="Go back",
        grave=True,
    )
    return [
        *forks,
        *([rewind_step] if is_programs else []),
        asks(
            "pause",
            "Pause this session?",
            "Its worker stops; what is saved is kept. It goes on when it is resumed.",
            _reason(),
            does="Pause",
        ),
        asks(
            "abort",
            "Abort this session for good?",
            "It can't go on after that. What it did is kept, and a fork can begin from it.",
            _reason(),
            does="Abort for good",
            grave=True,
        ),
        asks(
            "extend",
            "Extend the budget",
            "; ".join(["What was spent stays spent", *map(str, limits)]) + ".",
            labelled(f"How much more: {AMOUNTS}", "input", type="text", name="more", required=True),
            *_scopes(limits),
            does="Extend",
        ),
        asks(
            "rewind",
            "Go back to this checkpoint?",
            "The whole workspace becomes what it was then. The workspace as it is now is kept as a "
            "checkpoint, so that you can come forward again. Spent tokens stay spent.",
            _place("checkpoint"),
            does="Go back",
            grave=True,
        ),
    ]


def _scopes(limits: Sequence[Standing]) -> list[Element]:
    """Return the choice of what to extend; empty if that is the session alone."""
    names = [one for one in SCOPES[1:] if one in {limit.scope for limit in limits}]
    options = [(one, SCOPE_NAMES[one]) for one in (SCOPES[0], *names)]
    field = select("of", options, SCOPES[0], id_="extend-of")
    return [element("label", "For", field, class_="field")] if names else []


def _reason() -> Element:
    return labelled("Reason, for the history", "textarea", name="reason", rows=2)


def _own_budget() -> Element:
    kind = {"type": "text", "inputmode": "numeric", "pattern": "[0-9][0-9 ,_]*"}
    return labelled(
        "A budget of its own, in tokens; as this one's if empty", "input", **kind, name="tokens"
    )


def _place(kind: str) -> Element:
    number = element("input", type="hidden", name=kind, data_takes="number")
    return element("p", number, f"{kind.capitalize()} ", element("b", data_takes="name"))
