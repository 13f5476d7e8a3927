"""A person's choices and text before they are sent: pure values, pure decisions.

An agent recommends an option in its label, as in "SQLite (recommended)". The option is marked, the
cursor starts there, and it is preselected when its question is first shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Final

from attrs import asdict, evolve, field, frozen

from ....questions import Question, UserAnswer, format_elaborate_request, format_rephrase_request

_WORDS: Final = "recommended|recommandé|empfohlen|recomendado|推荐|推薦|추천|おすすめ"
_OPEN: Final = r"[(\[\uff08\u3010]\s*"  # also the brackets of Chinese, Japanese and Korean
_CLOSE: Final = r"\s*[)\]\uff09\u3011]"
_DASH: Final = r"\s[-\u2013\u2014:]\s*"
_MARK: Final = re.compile(
    rf"\s*(?:{_OPEN}(?:{_WORDS}){_CLOSE}|{_DASH}(?:{_WORDS}))\s*$"
    rf"|^\s*{_OPEN}(?:{_WORDS}){_CLOSE}\s*",
    re.IGNORECASE,
)


class Ask(StrEnum):
    """A request to the asker instead of an answer."""

    ELABORATE = "elaborate"
    REPHRASE = "rephrase"


ASKS: Final = {
    Ask.ELABORATE: "asks for more detail",
    Ask.REPHRASE: "asks to rephrase the question",
}


def _ascending(given: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(given)))


@frozen(kw_only=True)
class Reply:
    """A person's reply to one question, as far as it is written.

    Attributes:
        picked: The indexes of the chosen options, ascending.
        other: Whether the text is part of the answer.
        text: The text typed for "Other"; retained even while it is not part of the answer.
        ask: The request that replaces the answer, or None.
        guidance: The text typed for `ask`; retained even if `ask` is withdrawn.
        seen: Whether the question was shown already; then nothing is preselected any more.
        preselected: Whether the options are preselected as recommended and not yet confirmed.
    """

    picked: tuple[int, ...] = field(default=(), converter=_ascending)
    other: bool = False
    text: str = ""
    ask: Ask | None = None
    guidance: str = ""
    seen: bool = False
    preselected: bool = False

    @property
    def has_text(self) -> bool:
        """Whether the text is part of the answer and not blank."""
        return self.other and bool(self.text.strip())

    @property
    def answered(self) -> bool:
        """Whether there is an answer, or a request instead."""
        return self.ask is not None or bool(self.picked) or self.has_text

    @property
    def empty(self) -> bool:
        """Whether it holds nothing that a person would miss; a preselection does not count."""
        chosen = self.answered and not self.preselected
        return not (chosen or self.text.strip() or self.guidance.strip())


def is_recommended(label: str) -> bool:
    """Return whether a label ends with "(recommended)", "[recommended]" or "- recommended".

    A mark in brackets may also come first; the words of some other languages count too.
    """
    return _MARK.search(label) is not None


def without_mark(label: str) -> str:
    """Return the label without the mark; the label itself if nothing else is in it."""
    return _MARK.sub("", label).strip() or label


def first_recommended(labels: Sequence[str]) -> int:
    """Return the index of the first recommended option, else 0: the cursor's start."""
    return next((index for index, label in enumerate(labels) if is_recommended(label)), 0)


def preselect(question: Question, reply: Reply) -> Reply:
    """Mark a question as shown; the first time, preselect recommended options if it is open."""
    if reply.seen:
        return reply
    found = () if reply.answered or reply.text.strip() else _recommended(question)
    picked = found or reply.picked
    return evolve(reply, picked=picked, preselected=bool(found), seen=True)


def confirm(reply: Reply) -> Reply:
    """Turn a preselection into the person's own choice."""
    return evolve(reply, preselected=False, seen=True)


def pick(question: Question, reply: Reply, index: int) -> Reply:
    """Choose an option; choosing it again withdraws the choice.

    In a single choice, choosing the preselected option confirms it, and another option replaces the
    previous one and the text, which is retained but not sent. A request instead of an answer is
    withdrawn.
    """
    if question.multi_select:
        picked = set(reply.picked) ^ {index}
        return confirm(evolve(reply, picked=tuple(picked), ask=None))
    taken_back = index in reply.picked and not reply.preselected
    picked_one = () if taken_back else (index,)
    return confirm(evolve(reply, picked=picked_one, other=False, ask=None))


def take_text(question: Question, reply: Reply, *, taken: bool) -> Reply:
    """Make the text part of the answer, or not; the text is retained either way."""
    picked = reply.picked if question.multi_select or not taken else ()
    ask = None if taken else reply.ask
    preselected = reply.preselected and picked == reply.picked and not taken
    return evolve(reply, other=taken, picked=picked, ask=ask, preselected=preselected)


def write(question: Question, reply: Reply, text: str) -> Reply:
    """Change the text; it is then part of the answer unless it is blank."""
    if text == reply.text:
        return reply
    return take_text(question, evolve(reply, text=text), taken=bool(text.strip()))


def ask_back(reply: Reply, ask: Ask | None, guidance: str | None = None) -> Reply:
    """Put a request in place of the answer, or withdraw it with None."""
    return evolve(reply, ask=ask, guidance=reply.guidance if guidance is None else guidance)


def take_recommended(question: Question, reply: Reply) -> Reply:
    """Replace the choice by the recommended options; unchanged if none is recommended.

    Typed text is retained, but sent only if several options may be chosen.
    """
    found = _recommended(question)
    if not found:
        return reply
    other = reply.other and question.multi_select
    return confirm(evolve(reply, picked=found, other=other, ask=None))


def _recommended(question: Question) -> tuple[int, ...]:
    labels = [option.label for option in question.options]
    found = [index for index, label in enumerate(labels) if is_recommended(label)]
    return tuple(found if question.multi_select else found[:1])


@frozen(kw_only=True)
class Draft:
    """The replies to one session's questions, as far as they are written.

    Attributes:
        session_id: The question session's id.
        replies: One reply for each question.
        position: The index of the question shown last.
    """

    session_id: str
    replies: tuple[Reply, ...]
    position: int = 0

    @classmethod
    def blank(cls, session_id: str, questions: Sequence[Question]) -> Draft:
        """Return a draft with nothing chosen and nothing typed."""
        return cls(session_id=session_id, replies=tuple(Reply() for _ in questions))

    def with_reply(self, index: int, reply: Reply) -> Draft:
        """Return the draft with a question's reply replaced."""
        replies = (*self.replies[:index], reply, *self.replies[index + 1 :])
        return evolve(self, replies=replies)

    def at(self, position: int) -> Draft:
        """Return the draft at another question; a position out of range is clamped."""
        return evolve(self, position=min(max(position, 0), len(self.replies) - 1))

    @property
    def unanswered(self) -> tuple[int, ...]:
        """The indexes of questions without an answer."""
        return tuple(index for index, reply in enumerate(self.replies) if not reply.answered)

    @property
    def empty(self) -> bool:
        """Whether it holds nothing that a person would miss."""
        return all(reply.empty for reply in self.replies)


def answers_of(questions: Sequence[Question], draft: Draft) -> tuple[UserAnswer, ...]:
    """Return the answers to send.

    A single-choice question without an answer is left out; a multiple-choice one gets an empty
    choice. Labels are exactly those of the question.
    """
    return tuple(
        answer
        for index, (question, reply) in enumerate(zip(questions, draft.replies, strict=True))
        if (answer := _answer_of(index, question, reply)) is not None
    )


def _answer_of(index: int, question: Question, reply: Reply) -> UserAnswer | None:
    if reply.ask is not None:
        return UserAnswer(question_index=index, custom_text=request_of(index, question, reply))
    text = reply.text.strip() if reply.has_text else None
    labels = tuple(question.options[one].label for one in reply.picked)
    if question.multi_select:
        return UserAnswer(question_index=index, selected_options=labels, custom_text=text)
    if not labels and text is None:
        return None
    return UserAnswer(
        question_index=index, selected_option=labels[0] if labels else None, custom_text=text
    )


def request_of(index: int, question: Question, reply: Reply) -> str:
    """Return the text of a request instead of an answer, as the asker reads it."""
    note = reply.guidance.strip()
    if reply.ask is Ask.REPHRASE:
        return format_rephrase_request(index, question.title, note)
    return format_elaborate_request(index, question.title, question.prompt, note)


# ------------------------------------------------------------------------------ as JSON and back

_VERSION: Final = 1
_KINDS: Final[dict[str, type]] = {
    **dict.fromkeys(("other", "seen", "preselected"), bool),
    **dict.fromkeys(("text", "guidance"), str),
    "picked": list,
}
"""The fields of a reply and their types, except `ask`."""


def to_fields(draft: Draft) -> dict[str, Any]:
    """Return a draft as a JSON object."""
    return {
        "version": _VERSION,
        "sessionId": draft.session_id,
        "position": draft.position,
        "replies": [asdict(reply) for reply in draft.replies],
    }


def from_fields(fields: object, *, session_id: str) -> Draft:
    """Return the draft of a session from a JSON value.

    Raises:
        ValueError: It is not a draft of this session; the message says why.
    """
    if not isinstance(fields, dict) or fields.get("version") != _VERSION:
        raise ValueError(f"it is not a draft of version {_VERSION}")
    owner, position, replies = (fields.get(name) for name in ("sessionId", "position", "replies"))
    if owner != session_id:
        raise ValueError("it is the draft of another session")
    if not isinstance(replies, list) or not replies:
        raise ValueError("it has no replies")
    if type(position) is not int or not 0 <= position < len(replies):
        raise ValueError("its position is not that of a question")
    read = tuple(_reply_from(one) for one in replies)
    return Draft(session_id=session_id, replies=read, position=position)


def _reply_from(fields: object) -> Reply:
    found = fields if isinstance(fields, dict) else {}
    values: dict[str, Any] = {name: found.get(name) for name in _KINDS}
    picked, ask = values["picked"], found.get("ask")
    if (
        any(type(value) is not _KINDS[name] for name, value in values.items())
        or any(type(one) is not int or one < 0 for one in picked)
        or ask not in (None, *Ask)
    ):
        raise ValueError("a reply has a field that is not what it should be")
    return Reply(**values, ask=None if ask is None else Ask(ask))


def fits(draft: Draft, questions: Sequence[Question]) -> bool:
    """Return whether a draft's replies are possible for these questions."""
    return len(draft.replies) == len(questions) and all(
        all(index < len(question.options) for index in reply.picked)
        and (question.multi_select or len(reply.picked) <= 1)
        for question, reply in zip(questions, draft.replies, strict=True)
    )
