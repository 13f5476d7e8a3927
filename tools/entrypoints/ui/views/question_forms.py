"""The questions that wait, each as a form to answer or decline it right there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from xml.etree.ElementTree import Element

from ....questions import Option, Question, QuestionSession
from ...pages.html import Child, element
from ...pages.prose import prose
from ...terminal.drafts.draft import Ask, first_recommended, is_recommended, without_mark
from ..live import QUESTIONS
from ..services import Services, asked_for
from ..session_rows import Standing
from ..view import View, ago, moment
from .forms import Form
from .list_page import standing_badge

OTHER: Final = "other"
"""The value of the choice that stands for a person's own words."""
_MOST_CHARS: Final = 20_000
_ASKS: Final = {
    Ask.ELABORATE: "Ask for more detail first",
    Ask.REPHRASE: "Ask to rephrase it",
}


def questions_view(services: Services, _: Form, __: str) -> View:
    """Show all questions that wait for an answer.

    Raises:
        QuestionError: What keeps them refused.
    """
    waiting = services.pending
    count = len(waiting)
    title = f"{count:,} question{'' if count == 1 else 's'} waiting" if count else "Questions"
    parts: list[Element] = [element("h1", title, id="heading")]
    if not waiting:
        parts.append(
            element(
                "div",
                element("p", "No question waits for an answer."),
                element("p", "A new one appears here at once."),
                id="none",
                class_="card empty",
            )
        )
    return View(
        title=title,
        topics=(QUESTIONS,),
        content=[*parts, *(question_card(services, one) for one in waiting)],
    )


def question_card(services: Services, one: QuestionSession, *, linked: bool = True) -> Element:
    """Return a question session as a card of its own.

    Args:
        services: What is shown.
        one: The question session.
        linked: Whether to name the agent session that asks.
    """
    return element(
        "section",
        element(
            "header",
            standing_badge(Standing.WAITING),
            element("span", "asked ", ago(one.created_at), class_="muted"),
            _end(services, one),
            _asker(one) if linked else None,
        ),
        _read_only(one) if services.read_only else _form(one),
        id=f"question-{one.session_id}",
        class_="card question",
        aria_label=", ".join(one.titles),
    )


def _end(services: Services, one: QuestionSession) -> Element | None:
    """Return when nobody waits for the answer any more, where that is limited."""
    limit_s = services.questions.config.session_timeout_s
    if not limit_s:
        return None
    return element("span", "waits until ", moment(one.created_at, after_s=limit_s), class_="muted")


def _asker(one: QuestionSession) -> Element | None:
    """Return who asks: an agent session, or what works in a folder."""
    session_id = asked_for(one)
    if session_id is not None:
        return element("a", session_id, href=f"/sessions/{session_id}")
    folder = one.working_directory
    return element("code", folder, class_="muted") if folder else None


def _read_only(one: QuestionSession) -> Sequence[Element]:
    return [
        element(
            "div",
            element("h2", question.title),
            prose(question.prompt, most=_MOST_CHARS),
            element("ul", [element("li", *_label(option)) for option in question.options]),
        )
        for question in one.questions
    ]


def _form(one: QuestionSession) -> Sequence[Element]:
    name = one.session_id
    return (
        element(
            "form",
            [_field(name, index, question) for index, question in enumerate(one.questions)],
            element("div", id=f"outcome-{name}", class_="outcome"),
            element(
                "div",
                element(
                    "button", "Send the answer", type="submit", class_="main", id=f"send-{name}"
                ),
                element(
                    "button",
                    "Decline …",
                    type="button",
                    class_="plain",
                    data_dialog=f"decline-{name}",
                    id=f"to-decline-{name}",
                ),
                class_="buttons",
            ),
            hx_post=f"/do/questions/{name}/answer",
            hx_target=f"#outcome-{name}",
            hx_swap="innerHTML",
            hx_disabled_elt="find button[type=submit]",
            data_draft=name,
            autocomplete="off",
        ),
        element(
            "dialog",
            element(
                "form",
                element("h2", "Decline to answer?"),
                element("p", "The asker goes on without an answer; it is told the reason."),
                element(
                    "div",
                    element("label", "Reason, if you like", for_=f"reason-{name}"),
                    element(
                        "textarea", id=f"reason-{name}", name="reason", rows=3, data_first=True
                    ),
                    class_="field",
                ),
                element("div", class_="outcome"),
                dialog_buttons("Decline", grave=True),
                hx_post=f"/do/questions/{name}/reject",
                hx_target="find .outcome",
                hx_swap="innerHTML",
                data_calm=True,
            ),
            id=f"decline-{name}",
            aria_label="Decline to answer",
        ),
    )


def dialog_buttons(text: str, *, grave: bool = False) -> Element:
    """Return the buttons of a dialog: one that does it, one that does not."""
    return element(
        "div",
        element("button", "Cancel", type="button", class_="plain", data_close=True),
        element("button", text, type="submit", class_="grave" if grave else "main"),
        class_="buttons",
    )


def _field(name: str, index: int, question: Question) -> Element:
    """Return one question: its options, the person's own words, and asking back."""
    place = f"{name}-{index}"
    kind = "checkbox" if question.multi_select else "radio"
    begin = first_recommended(question.labels)
    options = [
        _option(
            place,
            index,
            number,
            option,
            kind=kind,
            checked=is_recommended(option.label) and (question.multi_select or number == begin),
        )
        for number, option in enumerate(question.options)
    ]
    own = not question.multi_select and bool(options)
    return element(
        "fieldset",
        element("legend", question.title),
        element("div", prose(question.prompt, most=_MOST_CHARS), id=f"prompt-{place}"),
        element("p", "Choose any number.", class_="note") if question.multi_select else None,
        options,
        _own_words(place, index, radio=own),
        _asking_back(place, index),
        element("p", id=f"fault-{place}", class_="fault", role="alert"),
        aria_describedby=f"prompt-{place}",
    )


def _option(
    place: str, index: int, number: int, option: Option, *, kind: str, checked: bool
) -> Element:
    return element(
        "label",
        element(
            "input",
            type=kind,
            name=f"choice-{index}",
            value=str(number),
            id=f"choice-{place}-{number}",
            checked=checked,
        ),
        element("span", *_label(option)),
        class_="option",
    )


def _label(option: Option) -> Sequence[Child]:
    marked = is_recommended(option.label)
    return (
        element("span", without_mark(option.label) if marked else option.label),
        element("span", "recommended", class_="badge good") if marked else None,
        element("small", option.description, class_="muted") if option.description else None,
    )


def _own_words(place: str, index: int, *, radio: bool) -> Element:
    chooses = f"choice-{place}-{OTHER}" if radio else None
    words = element(
        "textarea",
        id=f"text-{place}",
        name=f"text-{index}",
        rows=2,
        data_chooses=chooses,
        aria_label="In your own words",
        placeholder="In your own words",
    )
    if not radio:
        return element("div", words, class_="own")
    return element(
        "div",
        element(
            "input",
            type="radio",
            name=f"choice-{index}",
            value=OTHER,
            id=chooses,
            aria_label="Answer in your own words",
        ),
        words,
        class_="own option",
    )


def _asking_back(place: str, index: int) -> Element:
    options = [element("option", "No, answer", value="")]
    options += [element("option", text, value=one.value) for one, text in _ASKS.items()]
    return element(
        "details",
        element("summary", "Ask back instead"),
        element("label", "Instead of an answer", for_=f"ask-{place}"),
        element("select", options, id=f"ask-{place}", name=f"ask-{index}"),
        element(
            "textarea",
            id=f"note-{place}",
            name=f"note-{index}",
            rows=2,
            aria_label="What you want to know",
            placeholder="What you want to know, if you like",
        ),
        id=f"back-{place}",
        class_="folded",
    )


def fault_marks(question_id: str, count: int, faults: Mapping[int, str]) -> list[Element]:
    """Return the places beside the questions, with what is wrong with each answer."""
    return [
        element(
            "p",
            faults.get(index),
            id=f"fault-{question_id}-{index}",
            class_="fault",
            role="alert",
            hx_swap_oob="true",
        )
        for index in range(count)
    ]
