"""One call of the hook: find the session, record the event, answer the program.

    look        without a lock: if nothing is new, give the last answer again
    lock        the conversation's directory; hooks of one conversation run one after another
    note        what a tool's event reports, if a later call can record it: see `_can_wait`
    record      the event, and what earlier calls left: `recorder`
    answer      the briefing, a warning, a stop, or nothing

All waits for locks together take `MOST_WAIT_S` at most; then the input is put aside for the next
call. The entry point writes errors to standard error, and the agent's turn goes on. Only a spent
budget stops it, even if that could not be saved. Modules that need the session are loaded only if
something is to be recorded now.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...base.errors import AgentForgeError
from ...base.files import LockTimeout, WriteError
from ..programs.hook_event import (
    IN_TOOL_USE,
    NOTHING,
    SEEN,
    HookEvent,
    HookReply,
    Moment,
    text_of,
)
from ..programs.meter import object_of
from ..programs.registry import AgentProgram, find_program
from .binding import Binding, BindingFile, conversations_folder
from .project_place import ProjectPlace, find_project
from .session_place import SessionPlace, Stores, saved_s

if TYPE_CHECKING:
    from datetime import datetime

    from ...base.clock import Clock
    from .recorder import EventRecorder
    from .telling import Start

INSIDE_VARIABLE: Final = "AGENTFORGE_CALL"
"""Set for an agent that one of our own runners calls: the runner records and charges it."""
SESSION_VARIABLE: Final = "AGENTFORGE_SESSION"
PROJECT_VARIABLE: Final = "CLAUDE_PROJECT_DIR"
MOST_WAIT_S: Final = 2.0
"""How long one call may wait for locks, whose holder may be stopped, in seconds."""
_PUT_ASIDE: Final = frozenset({Moment.PROMPTED, Moment.TURN_ENDED, Moment.COMPACTED})
"""The moments whose text the program's files may not have."""
_LATER_S: Final = 30.0
"""How long what a tool's event reports may wait to be recorded, in seconds."""
_NEAR_PERCENT: Final = 80
_SHARERS: Final = 10
"""How many conversations together can't pass a line of a budget by what waits to be recorded."""


def handle(
    program_name: str,
    payload: Mapping[str, Any],
    environment: Mapping[str, str],
    *,
    stores: Stores,
    clock: Clock | None = None,
    start: Start | None = None,
    patience_s: float = MOST_WAIT_S,
    process: int = 0,
) -> dict[str, Any] | None:
    """Handle one call of the hook.

    Args:
        program_name: The agent program.
        payload: The hook's input.
        environment: The environment variables.
        stores: Opens the sessions, in files or a database.
        clock: The time; the system's if None.
        start: Starts the program that notifies receivers of events; a detached one if None.
        patience_s: How long to wait for locks at most, all together, in seconds.
        process: The process that leads the agent; 0 for the one that started this process.

    Returns:
        The hook's output, or None for none.

    Raises:
        AgentForgeError: Something could not be read or saved; the agent's turn goes on.
        OSError: Likewise.
        ValueError: The event names no conversation.
    """
    program = find_program(program_name)
    if program is None or environment.get(INSIDE_VARIABLE):
        return None
    event = _event_of(program, payload)
    folder = None if event is None else _project_folder(event, environment)
    project = None if folder is None else find_project(folder)
    if event is None or project is None:
        return None
    event = event._replace(process=process)
    call = _HookCall(program, event, project, environment, stores, clock, start)
    said = [_said_of_trust(event, project.data_folder, environment)]
    try:
        reply = call.reply(patience_s)
        if call.recorder is not None:
            call.recorder.tell()
            if call.recorder.failure is not None:
                call.put_aside(payload)
    except AgentForgeError as error:
        is_aside = isinstance(error, WriteError) and call.put_aside(payload)
        if isinstance(error, LockTimeout) and (is_aside or event.moment in IN_TOOL_USE):
            reply = call.last_answer()
        elif event.moment not in SEEN or event.by_subagent or not event.by_person:
            raise
        else:
            reply = NOTHING
            said.append(f"AgentForge: this is not recorded: {error}")
    finally:
        call.close()
    if call.recorder is not None:
        said.append(call.recorder.said)
    answer = None if reply == NOTHING else program.answer_of(event, reply)
    text = "\n".join(filter(None, said))
    return {**(answer or {}), "systemMessage": text} if text else answer


def _said_of_trust(
    event: HookEvent, data_folder: Path, environment: Mapping[str, str]
) -> str | None:
    """Return the notice for the person when a conversation begins; None if every setting applies.

    It goes into `systemMessage`, which the program shows to the person and not to the model.
    """
    if event.moment is not Moment.STARTED or event.source == "compact" or event.by_subagent:
        return None
    from .settings import read_left_out

    left_out = read_left_out(data_folder, environment)
    if not left_out:
        return None
    from ...base.settings.trust_table import ignored

    return f"AgentForge: {ignored(left_out, data_folder / 'config.toml')}"


def _event_of(program: AgentProgram, payload: Mapping[str, Any]) -> HookEvent | None:
    """Return the event of an input, with what a call of our tool that asks a person reports."""
    event = program.event_of(payload)
    if event is None or event.moment is not Moment.AFTER_TOOL:
        return event
    if not text_of(payload, "tool_name").endswith("_ask"):
        return event
    from ..programs.question_calls import question_of  # few calls ask

    return event._replace(question=question_of(payload))


def _has_content(event: HookEvent) -> bool:
    """Return whether an event reports what its session has to record."""
    return bool(event.edited or event.usage or event.question)


def _project_folder(event: HookEvent, environment: Mapping[str, str]) -> Path | None:
    for named in (environment.get(PROJECT_VARIABLE, ""), event.directory):
        if named and os.path.isabs(named) and "\0" not in named and os.path.isdir(named):
            return Path(named)
    return None


class _HookCall:
    """One call of the hook, once its event is known."""

    def __init__(
        self,
        program: AgentProgram,
        event: HookEvent,
        project: ProjectPlace,
        environment: Mapping[str, str],
        stores: Stores,
        clock: Clock | None,
        start: Start | None,
    ) -> None:
        self._start = start
        self._program = program
        self._event = event
        self._project = project
        self._environment = environment
        self._stores = stores
        self._clock = clock
        self._place: SessionPlace | None = None
        self.recorder: EventRecorder | None = None
        conversations = conversations_folder(project.identity, environment)
        self._file = BindingFile(conversations, event.program, event.agent_session)

    def reply(self, patience_s: float) -> HookReply:
        """Return the answer for the agent; wait for locks for `patience_s` seconds at most."""
        event = self._event
        in_use = event.moment in IN_TOOL_USE and not (event.question or event.parts)
        in_use = in_use and not self._file.put_aside_before()
        if in_use and not _has_content(event):
            binding = self._file.read()
            if binding.session_id is None and not self._environment.get(SESSION_VARIABLE):
                return NOTHING
            if self._can_wait(binding):
                return _last_answer(event, binding)
        from ...base.files.file_lock import patient_for

        with patient_for(patience_s):
            self._file.lock()
            try:
                if in_use and _has_content(event):
                    binding = self._file.read()
                    if self._can_wait(binding):
                        self._note(binding)
                        return _last_answer(event, binding)
                self.recorder = self._open_recorder()
                aside = self._file.put_aside_before()
                reply = self.recorder.record((path, self._event_in(path)) for path in aside)
            finally:
                self._file.release()
        return self.recorder.judged(reply)

    def _open_recorder(self) -> EventRecorder:
        from .recorder import EventRecorder

        place, self._place = self._place, None  # the recorder closes it
        given = (self._project, self._environment, self._stores, self._now(), self._start)
        return EventRecorder(self._program, self._event, self._file, place, *given)

    def _event_in(self, path: Path) -> HookEvent | None:
        payload = object_of(path.read_bytes())
        return None if payload is None else _event_of(self._program, payload)

    def _now(self) -> datetime:
        from ...base.clock import utc_now

        return (self._clock or utc_now)()

    def _can_wait(self, binding: Binding) -> bool:
        """Return whether a later call can record what is new; the binding then has it.

        It can while the session is as it was at the last look, and was saved shortly before, so
        that everyone sees fresh figures. A line of a budget or a limit is never passed that way.
        The session has a charge of the conversation by then, so that a lost binding costs nothing.
        """
        event = self._event
        place = self._bound(binding)
        if place is None or (binding.notice and self._program.takes_context(event)):
            return False
        if not _has_content(event) and binding.is_current(event, place):
            return True
        if binding.stop or binding.finds_compaction(event) or not binding.is_as_seen(place):
            return False
        binding.read_usage(event)
        new = binding.meter.total - binding.charged.usage.total
        if not (new or binding.waits or binding.meter.edited or _has_content(event)):
            return True
        now = self._now()
        is_fresh = 0 <= now.timestamp() - saved_s(binding.looked_at) < _LATER_S
        is_known = binding.charged.usage.total > binding.baseline
        return is_fresh and is_known and _has_room(binding, _SHARERS * new, now, self._environment)

    def _note(self, binding: Binding) -> None:
        """Save what only this event reports for the next call that records; the lock is held."""
        folder = self._event.directory
        binding.meter.edited += [
            (os.path.join(folder, name), made) for name, made in self._event.edited
        ]
        binding.waits = True
        self._file.write(binding)

    def put_aside(self, payload: Mapping[str, Any]) -> bool:
        """Store the input for the next call, if it has what only this call knows."""
        event = self._event
        if not (_has_content(event) or (event.moment in _PUT_ASIDE and event.by_person)):
            return False
        try:
            return self._file.put_aside(payload)
        except (WriteError, OSError):
            return False

    def last_answer(self) -> HookReply:
        """Return the answer by the last look at the session, without a lock."""
        stop = self._file.read().stop
        if self._event.moment is Moment.PROMPTED:
            return HookReply(refuse=stop)
        return HookReply(stop=stop)

    def _bound(self, binding: Binding) -> SessionPlace | None:
        """Return where the conversation's session is, if it is bound to one."""
        if self._place is None and binding.session_id is not None:
            if not binding.store:  # the common case, found without loading anything
                return SessionPlace(Path(binding.base), None, self._stores)
            from .session_lookup import bound_place

            data = self._project.data_folder
            self._place = bound_place(binding, data, self._environment, self._stores)
        return self._place

    def close(self) -> None:
        """Close what was opened."""
        for one in (self.recorder, self._place):
            if one is not None:
                one.close()


def _last_answer(event: HookEvent, binding: Binding) -> HookReply:
    """Return the answer at an event after which the session is as it was."""
    return HookReply(stop=binding.stop, context=binding.briefing if event.request else None)


def _has_room(binding: Binding, tokens: int, now: datetime, environment: Mapping[str, str]) -> bool:
    """Return whether more tokens pass no line of the session's budget or of the person's limits.

    Args:
        binding: The conversation; its usage may be a part of these tokens.
        tokens: How many more.
        now: The time.
        environment: Locates the person's files.
    """
    from ...base.settings.spending import Amount, read_spending

    settings, (used, budget, micro_usd) = read_spending(environment), binding.account
    after = used + round(tokens * max((1.0, *settings.weights.values())))
    was_near = used * 100 >= budget * _NEAR_PERCENT
    if after >= budget or (after * 100 >= budget * _NEAR_PERCENT and not was_near):
        return False
    if not settings.limits:
        return True
    from ..ledger import purse_of

    cost = sum(binding.spent(environment).price(binding.charged).models.values())
    before = Amount(used, micro_usd)
    purse = purse_of(binding.session_id or "", binding.base, now, environment)
    was, will = purse.standings(before, Amount(after, micro_usd + _SHARERS * cost))
    return not any(
        one.is_spent or one.is_near > earlier.is_near
        for one, earlier in zip(will, was, strict=True)
    )
