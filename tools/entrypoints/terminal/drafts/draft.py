"""What a person has chosen and typed so far, before it is sent: pure values, pure decisions.

An agent recommends an option in its label, as in "SQLite (recommended)". The option is marked, the
cursor begins there, and it is preselected when its question is shown for the first time.
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
    """What a person wants of the asker instead of answering."""

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
    """What a person has made of one question.

    Attributes:
        picked: The options chosen, by index, ascending.
        other: Whether the text is part of the answer.
        text: What was typed for "Other"; kept also while it is no part of the answer.
        ask: What is asked back, which takes the answer's place; None for nothing.
        guidance: What was typed with `ask`; kept also when `ask` is taken back.
        seen: Whether the question was shown, so that nothing is chosen beforehand any more.
        preselected: Whether the options are chosen as recommended, and not confirmed yet.
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
        """Whether the text is part of the answer and says something."""
        return self.other and bool(self.text.strip())

    @property
    def answered(self) -> bool:
        """Whether the question has an answer, or is asked back."""
        return self.ask is not None or bool(self.picked) or self.has_text

    @property
    def empty(self) -> bool:
        """Whether there is nothing in it that a person would miss."""
        chosen = self.answered and not self.preselected
        return not (chosen or self.text.strip() or self.guidance.strip())


def is_recommended(label: str) -> bool:
    """Return whether a label ends with "(recommended)", "[recommended]" or "- recommended".

    The mark may also stand first, in brackets; some other languages' words for it count too.
    """
    return _MARK.search(label) is not None


def without_mark(label: str) -> str:
    """Return the label without the mark; the label itself if there would be nothing left."""
    return _MARK.sub("", label).strip() or label


def first_recommended(labels: Sequence[str]) -> int:
    """Return where the cursor begins: at the first recommended option, else at the first."""
    return next((index for index, label in enumerate(labels) if is_recommended(label)), 0)


def preselect(question: Question, reply: Reply) -> Reply:
    """Choose what is recommended as a question is shown for the first time, if it is still open."""
    if reply.seen:
        return reply
    found = () if reply.answered or reply.text.strip() else _recommended(question)
    picked = found or reply.picked
    return evolve(reply, picked=picked, preselected=bool(found), seen=True)


def confirm(reply: Reply) -> Reply:
    """Make what was preselected the person's own choice."""
    return evolve(reply, preselected=False, seen=True)


def pick(question: Question, reply: Reply, index: int) -> Reply:
    """Choose an option; choosing it again takes it back.

    Where one option may be chosen, choosing the preselected one confirms it, and choosing another
    replaces it and the text, which is kept. What was asked back is taken back.
    """
    if question.multi_select:
        picked = set(reply.picked) ^ {index}
        return confirm(evolve(reply, picked=tuple(picked), ask=None))
    taken_back = index in reply.picked and not reply.preselected
    picked_one = () if taken_back else (index,)
    return confirm(evolve(reply, picked=picked_one, other=False, ask=None))


def take_text(question: Question, reply: Reply, *, taken: bool) -> Reply:
    """Make the text part of the answer, or not; it is kept either way."""
    picked = reply.picked if question.multi_select or not taken else ()
    ask = None if taken else reply.ask
    preselected = reply.preselected and picked == reply.picked and not taken
    return evolve(reply, other=taken, picked=picked, ask=ask, preselected=preselected)


def write(question: Question, reply: Reply, text: str) -> Reply:
    """Change the text; while it says something it is part of the answer."""
    if text == reply.text:
        return reply
    return take_text(question, evolve(reply, text=text), taken=bool(text.strip()))


def ask_back(reply: Reply, ask: Ask | None, guidance: str | None = None) -> Reply:
    """Ask something back instead of answering, or take that back with None."""
    return evolve(reply, ask=ask, guidance=reply.guidance if guidance is None else guidance)


def take_recommended(question: Question, reply: Reply) -> Reply:
    """Choose what the asker recommends instead of what was chosen; nothing if it names nothing.

    What was typed is kept, and is sent only where several may be chosen.
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
    """The answers to one session's questions, as far as they are.

    Attributes:
        session_id: Whose questions.
        replies: One for each question.
        position: The question that was last looked at.
    """

    session_id: str
    replies: tuple[Reply, ...]
    position: int = 0

    @classmethod
    def blank(cls, session_id: str, questions: Sequence[Question]) -> Draft:
        """Begin: nothing chosen, nothing typed."""
        return cls(session_id=session_id, replies=tuple(Reply() for _ in questions))

    def with_reply(self, index: int, reply: Reply) -> Draft:
        """Put another reply in the place of a question's."""
        replies = (*self.replies[:index], reply, *self.replies[index + 1 :])
        return evolve(self, replies=replies)

    def at(self, position: int) -> Draft:
        """Look at another question."""
        return evolve(self, position=min(max(position, 0), len(self.replies) - 1))

    @property
    def unanswered(self) -> tuple[int, ...]:
        """The questions without an answer, by index."""
        return tuple(index for index, reply in enumerate(self.replies) if not reply.answered)

    @property
    def empty(self) -> bool:
        """Whether there is nothing in it that a person would miss."""
        return all(reply.empty for reply in self.replies)


def answers_of(questions: Sequence[Question], draft: Draft) -> tuple[UserAnswer, ...]:
    """Write the answers that are to be sent.

    A question without an answer gets none, and one where several could have been chosen gets an
    empty choice. Labels are those of the request, to the letter.
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
    """Write what is asked back, as the asker reads it."""
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
"""The fields of a reply but `ask`."""


def to_fields(draft: Draft) -> dict[str, Any]:
    """Write a draft as JSON has it."""
    return {
        "version": _VERSION,
        "sessionId": draft.session_id,
        "position": draft.position,
        "replies": [asdict(reply) for reply in draft.replies],
    }


def from_fields(fields: object, *, session_id: str) -> Draft:
    """Read the draft of a session.

    Raises:
        ValueError: It is not one; the message says why.
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
    """Return whether a draft can be one of these questions'."""
    return len(draft.replies) == len(questions) and all(
        all(index < len(question.options) for index in reply.picked)
        and (question.multi_select or len(reply.picked) <= 1)
        for question, reply in zip(questions, draft.replies, strict=True)
    )
