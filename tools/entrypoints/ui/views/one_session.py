"""The page of one session: what it is, what it waits for, what can be done with it."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from ....harness import SessionContext, SessionState
from ....harness.errors import SessionNotFound
from ....harness.session_manager import SessionManager
from ....harness.views.checkpoints import CheckpointEntry
from ...pages.actions import Actions
from ...pages.html import Child, element
from ...pages.overview import heading
from ...pages.session_page import contents, session_sections
from ...pages.values.material import SessionSource
from ...pages.values.session_view import SessionView, view_of
from ..live import QUESTIONS, session_topic
from ..services import Services
from ..view import View
from .forms import Form
from .question_forms import dialog_buttons, question_card


def session_view(services: Services, _: Form, session_id: str) -> View:
    """Show a session.

    Raises:
        SessionNotFound: There is none of this id.
        SessionCorrupted: It can't be read.
        InvalidSessionId: It is no id.
    """
    manager = services.manager()
    session = manager.load(session_id)
    if session is None:
        raise SessionNotFound(session_id, path=services.store.where)
    shown = _view_of(services, manager, session)
    interrupted = services.store.is_interrupted(session_id, session.state)
    actions = _actions(services, session)
    sections = session_sections(shown, actions)
    page = [
        heading(shown, actions),
        *_needs(services, session, interrupted=interrupted),
        element(
            "div",
            element("div", contents(sections), id="contents"),
            element("div", sections, id="sections", class_="sections", data_keyed=True),
            id="columns",
            class_="columns",
            data_keyed=True,
        ),
    ]
    if not services.read_only:
        page.append(element("div", *_dialogs(session), id="dialogs"))
    return View(
        title=(shown.title or shown.goal or session_id).strip().split("\n")[0][:80],
        topics=(session_topic(session_id), QUESTIONS),
        content=page,
    )


def _view_of(services: Services, manager: SessionManager, session: SessionContext) -> SessionView:
    here = services.has_workspace(session.session_id)
    source = SessionSource(
        session=session,
        sessions=services.store,
        workspace=services.store.workspace_path(session.session_id) if here else None,
        differences=services.differences(manager, session),
    )
    return view_of(session, source.read(), now=services.clock())


def _needs(services: Services, session: SessionContext, *, interrupted: bool) -> list[Element]:
    """Return what the session needs of a person, first."""
    found = [
        question_card(services, one, linked=False)
        for one in services.questions_of(session.session_id)
    ]
    if not services.store.is_own(session.session_id):
        adopt = element("code", f"{services.places.command} adopt {session.session_id}")
        text = "It is not adopted: it came with a clone, a copy or an archive. To make it yours: "
        return [*found, element("p", text, adopt, id="needs", class_="notice")]
    resume = element("code", f"{services.places.command} resume {session.session_id}")
    if interrupted:
        text = "Its run was cut off. What was saved is kept; to go on: "
    elif session.state is SessionState.PAUSED and not found:
        text = "It is paused. To go on: "
    else:
        return found
    return [*found, element("p", text, resume, id="needs", class_="notice")]


# ------------------------------------------------------------------------------------ actions


def _actions(services: Services, session: SessionContext) -> Actions:
    """Return what the page offers; nothing is changed where the server is read-only."""
    if services.read_only:
        return Actions(address_of=_address)
    return Actions(
        session=lambda _: _session_buttons(session),
        checkpoint=lambda one: _checkpoint_buttons(session, one),
        address_of=_address,
    )


def _address(session_id: str) -> str:
    return f"/sessions/{session_id}"


def _session_buttons(session: SessionContext) -> Child:
    if session.state.is_terminal:
        return None
    pause = session.state is SessionState.ACTIVE
    return element(
        "div",
        _opener("pause", "Pause …") if pause else None,
        _opener("extend", "Extend budget …"),
        _opener("abort", "Abort …", grave=True),
        class_="buttons",
    )


def _opener(
    dialog: str, text: str, *, grave: bool = False, checkpoint: CheckpointEntry | None = None
) -> Element:
    number = None if checkpoint is None else checkpoint.number
    name = None if checkpoint is None else f"{number} ({checkpoint.name or checkpoint.action})"
    return element(
        "button",
        text,
        type="button",
        class_="grave" if grave else None,
        id=f"to-{dialog}" if number is None else f"to-{dialog}-{number}",
        data_dialog=f"dialog-{dialog}",
        data_number=number,
        data_name=name,
        aria_label=None if name is None else f"{text.removesuffix(' …')}: checkpoint {name}",
    )


def _checkpoint_buttons(session: SessionContext, one: CheckpointEntry) -> Child:
    if one.snapshot is None:
        return None
    back = None if session.state.is_terminal else _opener("rewind", "Go back …", checkpoint=one)
    return element("div", back, _opener("fork", "Fork …", checkpoint=one), class_="small buttons")


def _dialogs(session: SessionContext) -> list[Element]:
    forks = _dialog(
        session,
        "fork",
        "Begin a new session here?",
        "It has the files, the phase and the history of that moment; this one stays as it is.",
        _checkpoint_field(),
        _tokens("A budget of its own, in tokens; as this one's if empty", required=False),
        does="Fork",
    )
    if session.state.is_terminal:
        return [forks]
    return [
        forks,
        _dialog(
            session,
            "pause",
            "Pause this session?",
            "Its worker stops; what is saved is kept. It goes on when it is resumed.",
            _reason(),
            does="Pause",
        ),
        _dialog(
            session,
            "abort",
            "Abort this session for good?",
            "It can't go on after that. What it did is kept, and a fork can begin from it.",
            _reason(),
            does="Abort for good",
            grave=True,
        ),
        _dialog(
            session,
            "extend",
            "Extend the budget",
            "What was spent stays spent.",
            _tokens("Tokens more", required=True),
            does="Extend",
        ),
        _dialog(
            session,
            "rewind",
            "Go back to this checkpoint?",
            "The whole workspace becomes what it was then. The workspace as it is now is kept as a "
            "checkpoint, so that you can come forward again. Spent tokens stay spent.",
            _checkpoint_field(),
            does="Go back",
            grave=True,
        ),
    ]


def _dialog(
    session: SessionContext,
    name: str,
    title: str,
    text: str,
    *fields: Element,
    does: str,
    grave: bool = False,
) -> Element:
    return element(
        "dialog",
        element(
            "form",
            element("h2", title, id=f"dialog-{name}-title"),
            element("p", text, class_="muted"),
            fields,
            element("div", class_="outcome"),
            dialog_buttons(does, grave=grave),
            hx_post=f"/do/sessions/{session.session_id}/{name}",
            hx_target="find .outcome",
            hx_swap="innerHTML",
            hx_disabled_elt="find button[type=submit]",
            data_calm=True,
            autocomplete="off",
        ),
        id=f"dialog-{name}",
        aria_labelledby=f"dialog-{name}-title",
    )


def _reason() -> Element:
    return element(
        "label",
        "Reason, for the history",
        element("textarea", name="reason", rows=2, data_first=True),
        class_="field",
    )


def _tokens(label: str, *, required: bool) -> Element:
    return element(
        "label",
        label,
        element(
            "input",
            type="text",
            inputmode="numeric",
            name="tokens",
            pattern="[0-9][0-9 ,_]*",
            required=required,
            data_first=True,
        ),
        class_="field",
    )


def _checkpoint_field() -> Element:
    return element(
        "p",
        element("input", type="hidden", name="checkpoint", data_takes="number"),
        "Checkpoint ",
        element("b", data_takes="name"),
    )
