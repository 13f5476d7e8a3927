"""What a program waits for: moments, signals and a person's answers. Its phases and versions."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from ...base.question import Question
from ...harness.errors import QuestionWaits
from ...harness.steps.codec import JSON, decode
from ...harness.steps.errors import StepFailed, StillWaiting
from ...harness.views.question_entries import answers_in_words
from .core import SessionCore, StepBody
from .flows import Flow, Io, Pause
from .scopes import CallPlace

_FIRST_LOOK_S: Final = 0.05
_LOOK_S: Final = 1.0
_KEY_CHARS: Final = 200
_ORIGINAL: Final = 1


def _awaited(
    core: SessionCore,
    look: Callable[[], Any],
    awaited: str,
    *,
    until: datetime | None = None,
) -> Flow[Any]:
    """Look until something is found, at longer and longer intervals, and return it.

    Raises:
        StillWaiting: It was not found within the session's patience, or can't be.
    """
    clock, patience_s = core.clock, core.terms.wanted.patience_s
    began, interval_s = clock(), _FIRST_LOOK_S
    while (found := (yield Io(look))) is None:
        now = clock()
        left_s = math.inf if patience_s is None else patience_s - (now - began).total_seconds()
        wait_s = math.inf if until is None else (until - now).total_seconds()
        if left_s <= 0 or left_s < wait_s < math.inf:
            raise StillWaiting(core.session_id, awaited=awaited)
        yield Pause(max(0.0, min(interval_s, left_s, wait_s)))
        interval_s = min(2 * interval_s, _LOOK_S)
    return found


def sleep_until(core: SessionCore, place: CallPlace, moment: Callable[[], datetime]) -> Flow[None]:
    """Wait until a moment, which the first call decides."""
    core.log.check_order(*place)
    until = core.log.history.timer(place.path)
    if until is None:
        core.recorded(place)
        yield Io(core.look)
        until = yield Io(lambda: core.log.timer(place.path, place.call, moment()))

    def is_over() -> bool | None:
        core.look()
        return core.clock() >= until or None

    yield from _awaited(core, is_over, f"{until:%Y-%m-%d %H:%M:%S} UTC", until=until)


def wait_for(core: SessionCore, place: CallPlace, signal: str) -> Flow[object]:
    """Return the value of a signal: the n-th wait gets the n-th one."""
    record = core.recorded(place)
    if record is not None:
        return (yield from core.replayed(record, None))
    number = yield Io(partial(core.number_of_wait, place))

    def sent() -> bytes | None:
        core.look()
        core.log.catch_up()
        numbers = core.log.history.signals.get(signal, ())
        return core.log.body_at(numbers[number]) if len(numbers) > number else None

    body = yield from _awaited(core, sent, f"the signal {signal!r}")
    yield Io(lambda: core.note(place, StepBody(JSON, body)))
    return decode(JSON, body, None, workspace=core.workspace, step=place.path)


def ask(core: SessionCore, place: CallPlace, question: Question) -> Flow[str]:
    """Return a person's answer: the label of an option, or their own words.

    Raises:
        StepFailed: They declined, or the question was withdrawn or ended.
    """
    record = core.recorded(place)
    if record is not None:
        answer: str = yield from core.replayed(record, str)
        return answer
    key = place.path
    if len(key) > _KEY_CHARS:
        key = f"step {hashlib.sha256(key.encode()).hexdigest()}"

    def replied() -> Any:
        core.look()
        with core.managed() as manager:
            try:
                return manager.ask([question], key=key, timeout_s=0.0)
            except QuestionWaits:
                return None

    reply = yield from _awaited(core, replied, f"the answer to {question.prompt!r}")
    words = answers_in_words(reply, 1)[0]
    if reply.outcome == "answered":
        yield Io(lambda: core.note(place, StepBody.of(words)))
        return words
    ended = f"question {reply.outcome.replace('_', ' ')}"
    yield Io(lambda: core.note(place, StepBody.failed(ended, words)))
    raise StepFailed(core.session_id, path=place.path, error_type=ended, reason=words)


def question(prompt: str, title: str | None, choices: Sequence[str] | None) -> Question:
    """Return a question to a person.

    Raises:
        InvalidQuestions: A text of it is invalid.
    """
    return Question(prompt=prompt, title=title or "Question", options=tuple(choices or ()))


def enter_phase(core: SessionCore, place: CallPlace, phase: str) -> Flow[None]:
    """Enter a phase once: a checkpoint of the session's file and of its workspace."""
    if core.recorded(place) is None:
        yield Io(core.look)
        yield Io(partial(_advance, core, place, phase))


def _advance(core: SessionCore, place: CallPlace, phase: str) -> None:
    with core.managed() as manager:
        session = manager.current_session
        # It is in the phase already if a process died before the call was recorded.
        if session is not None and session.current_phase != phase:
            manager.advance_phase(phase)
    core.note(place)


def version(core: SessionCore, name: str, newest: int) -> Flow[int]:
    """Return which version of a part of the program a session runs.

    A session that was past this call before the call was written runs version 1.
    """
    scope = core.scope()
    place = scope.peek(name)
    before = core.log.history.called_at(place.scope, place.call)
    if before not in (None, place.path):
        return _ORIGINAL
    [place] = scope.take(name)
    found: int | None = core.log.history.version(place.path)
    if found is None and core.recorded(place) is None:
        yield Io(core.look)
        found = yield Io(lambda: core.log.version(place.path, place.call, newest))
    return found or _ORIGINAL
