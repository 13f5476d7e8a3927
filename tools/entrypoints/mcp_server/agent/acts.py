"""What the four tools do: read the work's session, record in it, find sessions, ask the person.

The modules of sessions and questions are loaded by the first call that needs them: a program starts
the server with each conversation, and most conversations call no tool.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from ....base.data_folder import find_data_folder
from ....fleet import stores
from ..errors import InvalidArguments, NoOneSession

if TYPE_CHECKING:
    from ....agents.hooks.session_place import SessionPlace
    from ....harness import SessionContext, SessionManager
    from ....questions import Question, QuestionSessions

_MOST_FOUND: Final = 10
_GOAL_CHARS: Final = 200
_TITLE_CHARS: Final = 40
_REPEATS: Final = 12
_PAUSE_S: Final = 0.05
NOTE: Final = "noted"
"""The action of a note in a session's history."""


class Call(Protocol):
    """The call of a tool, as far as its work knows the client."""

    def reporting(self, what: str) -> AbstractContextManager[None]:
        """Report at once and every few seconds that the block still runs."""
        ...

    def form(
        self, asked: Sequence[Question], take: Callable[[Mapping[str, Any]], None]
    ) -> AbstractContextManager[None]:
        """Make the program show the questions during the block, if it can; `take` its reply."""
        ...


class ToolAnswer(NamedTuple):
    """What a tool returns: text for the model and, for programs, the same as values."""

    text: str
    values: dict[str, Any] | None = None


class Acts:
    """The tools, by name.

    Attributes:
        environment: The environment variables of the program's conversation.
        folder: The folder that the program works in, absolute.
        directory: The directory of the question sessions, or None for the configured one.
        observers: Returns the observers of the sessions.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        folder: Path,
        *,
        directory: Path | None = None,
        observers: Callable[[], Any] = tuple,
    ) -> None:
        self.environment = environment
        self.folder = folder
        self.directory = directory
        self.observers = observers

    def call(self, name: str, given: Mapping[str, Any], call: Call) -> ToolAnswer:
        """Call a tool whose arguments have the types of its schema.

        Raises:
            AgentForgeError: It says what happened.
        """
        if name == "session":
            return self._session(given)
        if name == "checkpoint":
            return self._checkpoint(given)
        if name == "find":
            return self._find(given)
        return self._ask(given, call)

    # ------------------------------------------------------------------------------ sessions

    def _place(self) -> tuple[SessionPlace, list[str]]:
        """Return where this project's sessions are, and the open ones that may be meant."""
        from ....agents.hooks.project_place import find_project
        from ....agents.hooks.session_lookup import candidates, named_session

        project = find_project(self.folder)
        if project is None:
            raise NoOneSession(f"there is no session of {self.folder}")
        named = named_session(project.data_folder, self.environment, stores)
        if named is not None:
            return named.place, [named.session_id]
        found = candidates(project, project.branch(), self.environment, stores)
        return found.place, found.open_sessions

    def _lead(self, place: SessionPlace, session_id: str) -> tuple[SessionManager, SessionContext]:
        manager = self._manager(place)
        return manager, manager.open(session_id)

    def _manager(self, place: SessionPlace) -> SessionManager:
        from ....harness import SessionManager

        return SessionManager(place.sessions, observers=self.observers())

    @contextmanager
    def _meant(self, given: Mapping[str, Any]) -> Iterator[tuple[SessionPlace, str]]:
        """Yield the session that a call means, which is this person's own, and its place."""
        from ....harness.session_ports import require_own

        place, open_sessions = self._place()
        named = given.get("session")
        with closing(place):
            if named is not None:
                session_id = place.sessions.resolve(named)
                require_own(place.sessions, session_id)
                yield place, session_id
            elif len(open_sessions) == 1:
                yield place, open_sessions[0]
            else:
                which = "several sessions are open here" if open_sessions else "no session is open"
                raise NoOneSession(which)

    def _session(self, given: Mapping[str, Any]) -> ToolAnswer:
        from ....agents.hooks.messages import briefing, known_work
        from ....agents.hooks.settings import read_briefing_shows
        from ....base.settings.privacy import read_privacy

        data_folder = find_data_folder(self.folder) or self.folder
        may_show = read_privacy(None, self.environment)
        with self._meant(given) as (place, session_id):
            _, session = self._lead(place, session_id)
            text = briefing(
                session,
                shows=read_briefing_shows(data_folder, self.environment),
                may_show=may_show,
                **known_work(place.sessions, session, may_show),
            )
        return ToolAnswer(f"{_state(session)}\n\n{text}")

    def _checkpoint(self, given: Mapping[str, Any]) -> ToolAnswer:
        from ....harness.services.session_recording import despite_conflicts

        def once() -> SessionContext:
            manager, session = self._lead(place, session_id)
            with manager.changes():
                manager.record(NOTE, given["note"])
                manager.checkpoint_session()
            return session

        with self._meant(given) as (place, session_id):
            session = despite_conflicts(once, again=_pause, attempts=_REPEATS)
        return ToolAnswer(f"Recorded. {_state(session)}")

    def _find(self, given: Mapping[str, Any]) -> ToolAnswer:
        from ....base.settings.privacy import read_privacy

        place, _ = self._place()
        may_name = read_privacy(None, self.environment)("")  # any program may have named them
        lines = []
        with closing(place):
            matches = self._manager(place).search(given["words"], limit=_MOST_FOUND)
            for one in matches.found:
                if place.sessions.is_own(one.session_id):  # of others nothing goes to an agent
                    head, goal = one.summary.head, " ".join((one.goal or "").split())
                    name = (head.title or goal[:_GOAL_CHARS]) if may_name else ""
                    state = head.state.value
                    lines.append(f"{one.session_id} ({state}, {head.updated_at}): {name}")
        if matches.more:
            lines.append("There are more; further words find fewer.")
        return ToolAnswer("\n".join(lines) or "No session has these words.")

    # ----------------------------------------------------------------------------- questions

    @cached_property
    def _questions(self) -> QuestionSessions:
        from ....agents.hooks.project_place import find_project
        from ....questions import DEFAULT_BASE_DIR, load_config
        from ....wiring.bootstrap import open_questions

        place = self._place()[0] if find_project(self.folder) else None
        config, directory = load_config(), self.directory
        if directory is None and (place is None or place.is_files):
            directory = config.directory or DEFAULT_BASE_DIR
        return open_questions(
            None if directory is None else self.folder / directory,
            store=None if place is None else place.sessions,
            config=config,
        )

    def _ask(self, given: Mapping[str, Any], call: Call) -> ToolAnswer:
        questions = self._questions
        wait = given.get("wait", True)
        if "id" in given:
            if "question" in given:
                raise InvalidArguments("ask", ["id: is of an earlier question; leave one of both"])
            session_id = questions.resolve_id(given["id"])
            if wait:
                self._wait(call, session_id)
            return self._standing(session_id, just_asked=False)
        if "question" not in given:
            raise InvalidArguments("ask", ["question: is missing"])
        return self._ask_now(given, call, wait=wait)

    def _ask_now(self, given: Mapping[str, Any], call: Call, *, wait: bool) -> ToolAnswer:
        from ....base.cancellation import shielded
        from ....questions import Asker, Notifier, Question, current_directory, load_config
        from ..question_forms import after_asking, logged

        questions, prompt = self._questions, given["question"]
        notify = Notifier(load_config().notify, questions.where, terminal=None).notify
        title = " ".join(prompt.split())
        asked = Question(
            prompt=prompt,
            title=title if len(title) <= _TITLE_CHARS else f"{title[: _TITLE_CHARS - 1]}…",
            options=tuple(given.get("options", ())),
            multi_select=given.get("several", False),
        )
        session_id = questions.create_session(
            [asked],
            session_id=questions.new_session_id(),
            working_directory=current_directory(),
            asker=Asker.current() if wait else None,
        )
        settled = not wait
        try:
            after_asking(questions, notify, session_id)
            if wait:
                with call.form([asked], lambda reply: self._take(session_id, asked, reply)):
                    self._wait(call, session_id)
            answer = self._standing(session_id, just_asked=True)
            settled = True
            return answer
        finally:
            if not settled:
                with shielded(), logged("mcp.not_withdrawn", session_id=session_id):
                    reason = "the client cancelled the call or went away"
                    questions.abandon_session(session_id, reason)

    def _wait(self, call: Call, session_id: str) -> None:
        from ....questions import SessionEnded

        with call.reporting("waiting for the person's answer"), suppress(SessionEnded):
            self._questions.wait_for_answers(session_id)

    def _take(self, session_id: str, asked: Question, reply: Mapping[str, Any]) -> None:
        """Save the answer of a form that the program showed; the first answer counts."""
        from ..question_forms import answers_in, logged

        action, content = reply.get("action"), reply.get("content")
        with logged("mcp.form_not_taken", session_id=session_id):
            if action == "decline":
                self._questions.reject_session(session_id)
            elif action == "accept" and isinstance(content, dict):
                answers = answers_in(content, [asked])
                if answers:
                    self._questions.save_session_answers(session_id, answers)

    def _standing(self, session_id: str, *, just_asked: bool) -> ToolAnswer:
        from ....questions import NoAnswers, SessionStatus
        from ..question_forms import in_words, logged

        questions = self._questions
        session = questions.get(session_id)
        status = questions.status_of(session)
        is_pending = status is SessionStatus.PENDING
        text = in_words(session, status, just_asked=just_asked and not is_pending)
        if is_pending:
            text += f" `ask` with the id {session_id} fetches the answer."
        elif status is SessionStatus.COMPLETED and not just_asked:
            with logged("mcp.not_marked_read", session_id=session_id), suppress(NoAnswers):
                questions.mark_answers_read(session_id)
        return ToolAnswer(text, {"session_id": session_id, "status": status.value, "text": text})


def _state(session: SessionContext) -> str:
    budget = session.token_budget
    return (
        f"Session {session.session_id} is {session.state.value}; {budget.tokens_remaining:,} of "
        f"{budget.total_budget:,} tokens are left."
    )


def _pause() -> bool:
    time.sleep(_PAUSE_S * random.random())  # noqa: S311 (so that colliding calls don't collide again)
    return True
