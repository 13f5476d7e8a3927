"""Actions of a person on a session or a question, each a single call of the service.

If another process saved the session meanwhile, the action is repeated on the new state; a state
that forbids the action raises an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from attrs import frozen

from ....agents.ledger import AMOUNTS, SCOPE_NAMES, Payer, amount_of, extend_limit
from ....base.errors import counted
from ....base.settings.spending import SCOPES
from ....harness.domain.history_events import dollars
from ....harness.errors import SessionNotFound
from ....harness.services.session_recording import despite_conflicts
from ....harness.session_manager import SessionManager
from ....harness.session_ports import require_own
from ....harness.steps.branches import fork_before, rewind_before
from ....questions import Question, QuestionSession, UserAnswer
from ....questions.rules import submission_faults
from ...terminal.drafts.draft import Ask, Draft, Reply, answers_of
from ..errors import InvalidForm, PageNotFound, UnfitAnswers
from ..services import UiServices
from .controls import Form, count_in, text_in

_ATTEMPTS: Final = 4
"""Maximum number of attempts at an action if other processes change the session first."""


@frozen(kw_only=True)
class ActionDone:
    """The outcome of an action.

    Attributes:
        say: A sentence that says what happened.
        go: The address of the page to open next; None to stay.
    """

    say: str
    go: str | None = None


Act = Callable[[SessionManager, Form, Payer], ActionDone]


def act_on_session(services: UiServices, form: Form, *, session_id: str, name: str) -> ActionDone:
    """Perform the action `name`, one of `ACTS`, on a session.

    Raises:
        PageNotFound: There is no such action.
        AgentForgeError: The action failed; the error says what is unchanged and what to do.
    """
    act = ACTS.get(name)
    if act is None:
        raise PageNotFound(f"/sessions/{session_id}/{name}")
    manager = services.manager(acts=True)
    if manager.load(session_id) is None:
        raise SessionNotFound(session_id, path=services.store.where)
    if name in _OF_OWN:
        require_own(services.store, session_id)
    return despite_conflicts(
        lambda: act(manager, form, services.payer(session_id)),
        again=lambda: manager.reload() is not None,
        attempts=_ATTEMPTS,
    )


def _pause(manager: SessionManager, form: Form, _: Payer) -> ActionDone:
    manager.pause(text_in(form, "reason"))
    return ActionDone(say="The session is paused. Its worker stops at its next save.")


def _abort(manager: SessionManager, form: Form, _: Payer) -> ActionDone:
    manager.abort(text_in(form, "reason"))
    return ActionDone(say="The session is aborted, for good.")


def _extend(manager: SessionManager, form: Form, payer: Payer) -> ActionDone:
    """Allot more tokens to the session, or extend one of the person's limits."""
    more, scope = amount_of(text_in(form, "more") or ""), text_in(form, "of") or SCOPES[0]
    refused = None if more is not None else f"write {AMOUNTS}"
    if more is not None and more.tokens and scope == SCOPES[0]:
        manager.extend_budget(more.tokens)
    elif more is not None:
        refused = extend_limit(scope, payer, more)
    if more is None or refused is not None:
        raise InvalidForm({"more": f"How much more: {refused}"})
    said = f"{more.tokens:,} tokens" if more.tokens else dollars(more.micro_usd)
    return ActionDone(say=f"{said} more may be spent for {SCOPE_NAMES[scope]}.")


def _checkpoint(form: Form) -> str:
    checkpoint = text_in(form, "checkpoint")
    if checkpoint is None:
        raise InvalidForm({"checkpoint": "Checkpoint: name one by its number"})
    return checkpoint


def _rewind(manager: SessionManager, form: Form, _: Payer) -> ActionDone:
    target = manager.rewind(_checkpoint(form))
    return ActionDone(say=f"The session is back at checkpoint {target.number}.")


def _own_budget(form: Form) -> int | None:
    given = text_in(form, "tokens") is not None
    return count_in(form, "tokens", what="Tokens") if given else None


def _fork(manager: SessionManager, form: Form, _: Payer) -> ActionDone:
    fork = manager.fork(_checkpoint(form), token_budget=_own_budget(form))
    return ActionDone(say=f"Begun from {fork.parent_id}.", go=f"/sessions/{fork.session_id}")


def _step(manager: SessionManager, form: Form) -> tuple[str, str]:
    """Return the session and the step that a form names."""
    step, session = text_in(form, "step"), manager.current_session
    if step is None or session is None:
        raise InvalidForm({"step": "Step: name one, as draft#3"})
    return session.session_id, step


def _rewind_step(manager: SessionManager, form: Form, _: Payer) -> ActionDone:
    session_id, step = _step(manager, form)
    again = rewind_before(manager.store, session_id, step)
    return ActionDone(say=f"The session is back before {step}: {counted(again, 'step')} run again.")


def _fork_step(manager: SessionManager, form: Form, _: Payer) -> ActionDone:
    session_id, step = _step(manager, form)
    fork, program = fork_before(manager.store, session_id, step, token_budget=_own_budget(form))
    said = f"It has what was recorded before {step}; its key is {program.key}."
    return ActionDone(say=said, go=f"/sessions/{fork.session_id}")


ACTS: Final[Mapping[str, Act]] = {
    "pause": _pause,
    "abort": _abort,
    "extend": _extend,
    "rewind": _rewind,
    "fork": _fork,
    "rewind-step": _rewind_step,
    "fork-step": _fork_step,
}
"""Actions on a session, by their names in the address."""
_OF_OWN: Final = frozenset({"rewind", "fork", "rewind-step", "fork-step"})
"""Actions that use content stored in a session, and so are allowed on own sessions only."""


# ---------------------------------------------------------------------------------- questions


def answer_question(services: UiServices, form: Form, *, question_id: str) -> ActionDone:
    """Answer a question session.

    Raises:
        UnfitAnswers: Some of its questions have no valid answer in the form.
        QuestionError: The answers were not stored; the error says why.
    """
    session = services.questions.get(question_id)
    replies = tuple(
        reply_in(form, index, question) for index, question in enumerate(session.questions)
    )
    draft = Draft(session_id=session.session_id, replies=replies)
    answers = answers_of(session.questions, draft)
    if faults := _faults(session, replies, answers, services):
        raise UnfitAnswers(question_id, len(replies), faults)
    services.questions.save_session_answers(session.session_id, answers)
    return ActionDone(say="Your answer was sent.")


def reject_question(services: UiServices, form: Form, *, question_id: str) -> ActionDone:
    """Reject a question session.

    Raises:
        QuestionError: It was not rejected; the error says why.
    """
    services.questions.reject_session(question_id, text_in(form, "reason"))
    return ActionDone(say="The question was declined.")


def reply_in(form: Form, index: int, question: Question) -> Reply:
    """Return the form's reply to the question at `index`; unknown choices are ignored."""
    text = text_in(form, f"text-{index}") or ""
    ask = text_in(form, f"ask-{index}")
    chosen = form.get(f"choice-{index}", [])
    offered = {str(number): number for number in range(len(question.options))}
    picked = [offered[one] for one in chosen if one in offered]
    if not question.multi_select:
        picked = picked[:1]
    return Reply(
        picked=tuple(picked),
        other=bool(text) and (question.multi_select or not picked),
        text=text,
        ask=Ask(ask) if ask in set(Ask) else None,
        guidance=text_in(form, f"note-{index}") or "",
        seen=True,
    )


def _faults(
    session: QuestionSession,
    replies: Sequence[Reply],
    answers: Sequence[UserAnswer],
    services: UiServices,
) -> dict[int, str]:
    """Return the faults of answers by question index, mostly by the service's own rules."""
    found: dict[int, str] = {}
    for index, (question, reply) in enumerate(zip(session.questions, replies, strict=True)):
        mine = [one for one in answers if one.question_index == index]
        if not reply.answered and not question.multi_select:
            found[index] = "Choose one, or write an answer in your own words."
            continue
        faults = submission_faults(mine, session.questions, services.questions.config)
        if faults:
            found[index] = "; ".join(faults)
    return found
