"""The waiting questions, each with a form to answer or decline it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from xml.etree.ElementTree import Element

from ....base.errors import counted
from ....questions import Option, Question, QuestionSession
from ...pages.html import Child, element
from ...pages.parts import muted, prose, when
from ...terminal.drafts.draft import Ask, first_recommended, is_recommended, without_mark
from ..errors import UnfitAnswers
from ..live import QUESTIONS
from ..services import UiServices, asked_for
from ..session_rows import SessionStanding
from ..view import View, ago, page_heading
from .controls import (
    Form,
    dialog,
    labelled,
    opener,
    posting,
    select,
    standing_badge,
    submit,
    text_area,
)

OTHER: Final = "other"
"""The value of the choice for an answer in the person's own words."""
_MOST_CHARS: Final = 20_000
_ASKS: Final = (
    ("", "No, answer"),
    (Ask.ELABORATE.value, "Ask for more detail first"),
    (Ask.REPHRASE.value, "Ask to rephrase it"),
)


def questions_view(services: UiServices, _: Form, __: str) -> View:
    """Return the page of all questions that wait for an answer.

    Raises:
        QuestionError: The questions' store can't be read.
    """
    cards = [question_card(services, one) for one in services.pending]
    title = f"{counted(len(cards), 'question')} waiting" if cards else "Questions"
    nothing = (
        element("p", "No question waits for an answer."),
        element("p", "A new one appears here at once."),
    )
    shown = cards or [element("div", nothing, id="none", class_="card empty")]
    return View(title=title, topics=(QUESTIONS,), content=[page_heading(title), *shown])


def question_card(services: UiServices, one: QuestionSession, *, linked: bool = True) -> Element:
    """Return a question session as a card, with a form unless the server is read-only.

    Args:
        services: The question's services.
        one: The question session.
        linked: Whether to name the asker.
    """
    limit_s = services.questions.config.session_timeout_s
    end = when(one.created_at + timedelta(seconds=limit_s)) if limit_s else None
    return element(
        "section",
        element(
            "header",
            standing_badge(SessionStanding.WAITING),
            muted("asked ", ago(one.created_at)),
            muted("waits until ", end) if end is not None else None,
            _asker(one) if linked else None,
        ),
        _read_only(one) if services.read_only else _form(one),
        id=f"question-{one.session_id}",
        class_="card question",
        aria_label=", ".join(one.titles),
    )


def _asker(one: QuestionSession) -> Element | None:
    """Return the asker: a link to its agent session, else its folder, else None."""
    session_id, folder = asked_for(one), one.working_directory
    if session_id is not None:
        return element("a", session_id, href=f"/sessions/{session_id}")
    return muted(folder, tag="code") if folder else None


def _read_only(one: QuestionSession) -> Sequence[Element]:
    return [
        element(
            "div",
            element("h2", question.title),
            prose(question.prompt, most=_MOST_CHARS),
            element("ul", [element("li", _label(option)) for option in question.options]),
        )
        for question in one.questions
    ]


def _form(one: QuestionSession) -> Child:
    name = one.session_id
    address, outcome = f"/do/questions/{name}", f"outcome-{name}"
    decline = opener("Decline …", f"decline-{name}", f"to-decline-{name}", class_="plain")
    return (
        posting(
            f"{address}/answer",
            f"#{outcome}",
            [_field(name, index, question) for index, question in enumerate(one.questions)],
            element("div", id=outcome, class_="outcome"),
            element(
                "div", submit("Send the answer", id_=f"send-{name}"), decline, class_="buttons"
            ),
            data_draft=name,
        ),
        dialog(
            f"decline-{name}",
            "Decline to answer?",
            "The asker goes on without an answer, and gets the reason.",
            labelled("Reason, if you like", "textarea", name="reason", rows=3),
            post=f"{address}/reject",
            does="Decline",
            grave=True,
        ),
    )


def _field(name: str, index: int, question: Question) -> Element:
    """Return the fields of one question: options, own words, and asking back."""
    place, many = f"{name}-{index}", question.multi_select
    first = first_recommended(question.labels)
    options = [
        _option(place, index, number, option, many=many, first=number == first)
        for number, option in enumerate(question.options)
    ]
    own = text_area(
        f"text-{index}",
        f"text-{place}",
        "In your own words",
        data_chooses=f"choice-{place}-{OTHER}" if options and not many else None,
    )
    if options and not many:
        other = _choice(place, index, OTHER, many=False, aria_label="Answer in your own words")
        own_words = element("div", other, own, class_="own option")
    else:
        own_words = element("div", own, class_="own")
    return element(
        "fieldset",
        element("legend", question.title),
        element("div", prose(question.prompt, most=_MOST_CHARS), id=f"prompt-{place}"),
        element("p", "Choose any number.", class_="note") if many else None,
        options,
        own_words,
        _asking_back(place, index),
        element("p", id=f"fault-{place}", class_="fault", role="alert"),
        aria_describedby=f"prompt-{place}",
    )


def _option(
    place: str, index: int, number: int, option: Option, *, many: bool, first: bool
) -> Element:
    checked = is_recommended(option.label) and (many or first)
    choice = _choice(place, index, str(number), many=many, checked=checked)
    return element("label", choice, element("span", _label(option)), class_="option")


def _choice(place: str, index: int, value: str, *, many: bool, **attributes: str | bool) -> Element:
    return element(
        "input",
        type="checkbox" if many else "radio",
        name=f"choice-{index}",
        value=value,
        id=f"choice-{place}-{value}",
        **attributes,
    )


def _label(option: Option) -> Child:
    marked = is_recommended(option.label)
    return (
        element("span", without_mark(option.label) if marked else option.label),
        element("span", "recommended", class_="badge good") if marked else None,
        muted(option.description, tag="small") if option.description else None,
    )


def _asking_back(place: str, index: int) -> Element:
    return element(
        "details",
        element("summary", "Ask back instead"),
        element("label", "Instead of an answer", for_=f"ask-{place}"),
        select(f"ask-{index}", _ASKS, id_=f"ask-{place}"),
        text_area(f"note-{index}", f"note-{place}", "What you want to know, if you like"),
        id=f"back-{place}",
        class_="folded",
    )


def fault_marks(error: UnfitAnswers) -> list[Element]:
    """Return replacements for the fault texts of all questions; empty for valid answers."""
    return [
        element(
            "p",
            error.by_question.get(index),
            id=f"fault-{error.question_id}-{index}",
            class_="fault",
            role="alert",
            hx_swap_oob="true",
        )
        for index in range(error.count)
    ]
