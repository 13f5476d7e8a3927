"""Notifies a person on their own machine: a desktop notification, and their own command."""

from __future__ import annotations

import json
from collections.abc import Callable

from attrs import define, field

from ...base.person_notification import OrderedCommands, plain
from ...harness.domain.history_events import SessionPaused
from ...harness.domain.session_observer import SessionEvent
from ...harness.feed_port import is_chosen

DRAIN_S = 5.0
"""How long the end of a process still starts waiting commands, in seconds."""
_BODY_CHARS = 400
_WORDS = {
    "session.paused": "Session paused",
    "session.completed": "Session completed",
    "session.aborted": "Session aborted",
    "session.budget.warning": "80 % of the budget is used",
    "session.budget.exceeded": "The budget is used up",
    "phase.failed": "A phase failed",
}


@define(eq=False)
class PersonObserver:
    """Shows events on the desktop, and runs a person's command for each. A `SessionObserver`.

    The command runs in a shell, in the background and one event at a time, with the event as JSON
    on its standard input and these variables: AGENTFORGE_EVENT (its name), AGENTFORGE_SESSION_ID,
    AGENTFORGE_PHASE and AGENTFORGE_TEXT (what happened, as plain text). A pause for a question is
    not shown on the desktop: `questions.notify` shows the question.

    Args:
        commands: Runs commands.
        events: Patterns of the events' names.
        desktop: Whether to show events on the desktop.
        on_event: The command line, or None.
    """

    _commands: OrderedCommands
    _is_chosen: Callable[[str], bool] = field(alias="events", converter=is_chosen, kw_only=True)
    _desktop: bool = field(kw_only=True)
    _command: str | None = field(alias="on_event", kw_only=True)

    def on_event(self, event: SessionEvent) -> None:
        """Notify the person of an event, if its name is selected."""
        if not self._is_chosen(event.name):
            return
        text = plain(in_words(event), _BODY_CHARS)
        if self._desktop and not _is_for_question(event):
            self._commands.show_on_desktop(_WORDS.get(event.name, event.name), text)
        if self._command is not None:
            document = (json.dumps(event.to_dict()) + "\n").encode()
            about = {
                "AGENTFORGE_EVENT": event.name,
                "AGENTFORGE_SESSION_ID": event.session_id or "",
                "AGENTFORGE_PHASE": event.phase or "",
                "AGENTFORGE_TEXT": text,
            }
            self._commands.start_shell("on_event", self._command, document, about)

    def close(self, timeout_s: float = DRAIN_S) -> None:
        """Wait for the commands; those not started in time are dropped.

        Args:
            timeout_s: How long commands may still be started, in seconds; each then has its own
                limit.
        """
        self._commands.finish(timeout_s)


def in_words(event: SessionEvent) -> str:
    """Return what happened on one line: the session, the phase, and why."""
    what = event.what
    why = getattr(what, "problem", None) or getattr(what, "reason", None)
    parts = [event.session_id or "", event.phase and f"phase {event.phase}", why]
    return ": ".join(str(one) for one in parts if one)


def _is_for_question(event: SessionEvent) -> bool:
    return isinstance(event.what, SessionPaused) and event.what.question_id is not None
