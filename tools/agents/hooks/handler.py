"""One call of the hook: find the session, record the event, answer the program.

    look        without a lock: if nothing is new, give the last answer again
    lock        the conversation's directory; hooks of one conversation run one after another
    catch up    with what earlier calls could not record in time
    read        the usage that the program wrote since
    record      in the session, in one save, merged with concurrent saves
    answer      the briefing, a warning, a stop, or nothing

All waits for locks together take `MOST_WAIT_S` at most; then the input is put aside for the next
call. The entry point writes errors to standard error, and the agent's turn goes on. Only a spent
budget stops it, even if that could not be saved. Modules that need the session are loaded only if
there is something new.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...base.clock import Clock, utc_now
from ...base.errors import AgentForgeError
from ...base.files import LockTimeout, WriteError
from ...base.files.file_lock import patient_for
from ..programs.hook_event import NOTHING, HookEvent, HookReply, Moment, text_of
from ..programs.meter import object_of
from ..programs.registry import AgentProgram, find_program
from .binding import Binding, BindingFile, conversations_folder, digest_of
from .project_place import ProjectPlace, find_project
from .session_place import SessionPlace, Stores

if TYPE_CHECKING:
    from ...harness.session_domain import SessionContext
    from ..ledger import Purse
    from .recording import FilesStored, Recorded, RecordedEdit
    from .session_lookup import FoundSession
    from .telling import Start

INSIDE_VARIABLE: Final = "AGENTFORGE_CALL"
"""Set for an agent that one of our own runners calls: the runner records and charges it."""
SESSION_VARIABLE: Final = "AGENTFORGE_SESSION"
_PROJECT_VARIABLE: Final = "CLAUDE_PROJECT_DIR"
_IN_TOOL_USE: Final = frozenset(
    {
        *(Moment.BEFORE_TOOL, Moment.AFTER_TOOL),
        *(Moment.BEFORE_MODEL, Moment.COMPACTION_FOUND, Moment.MODEL_ANSWERED),
    }
)
_SEEN: Final = frozenset({Moment.STARTED, Moment.PROMPTED})
"""The moments at which a person looks at what the program shows."""

MOST_WAIT_S: Final = 2.0
"""How long one call may wait for locks, whose holder may be stopped, in seconds."""
_PUT_ASIDE: Final = frozenset({Moment.PROMPTED, Moment.TURN_ENDED, Moment.COMPACTED})
"""The moments whose text the program's files may not have."""
_FILES_STORED: Final = frozenset(
    {Moment.PROMPTED, Moment.BEFORE_COMPACTION, Moment.TURN_ENDED, Moment.ENDED}
)


def handle(
    program_name: str,
    payload: Mapping[str, Any],
    environment: Mapping[str, str],
    *,
    stores: Stores,
    clock: Clock = utc_now,
    start: Start | None = None,
    patience_s: float = MOST_WAIT_S,
) -> dict[str, Any] | None:
    """Handle one call of the hook.

    Args:
        program_name: The agent program.
        payload: The hook's input.
        environment: The environment variables.
        stores: Opens the sessions, in files or a database.
        clock: The time.
        start: Starts the program that notifies receivers of events; a detached one if None.
        patience_s: How long to wait for locks at most, all together, in seconds.

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
    event = program.event_of(payload)
    folder = None if event is None else _project_folder(event, environment)
    project = None if folder is None else find_project(folder)
    if event is None or project is None:
        return None
    event = _with_question(event, payload)
    call = _HookCall(program, event, project, environment, stores, clock, start)
    said = [_said_of_trust(event, project.data_folder, environment)]
    try:
        reply = call.reply(patience_s)
        call.tell()
        if call.failure is not None:
            call.put_aside(payload)
    except AgentForgeError as error:
        is_aside = isinstance(error, WriteError) and call.put_aside(payload)
        if isinstance(error, LockTimeout) and (is_aside or event.moment in _IN_TOOL_USE):
            reply = call.last_answer()
        elif event.moment not in _SEEN or event.by_subagent or not event.by_person:
            raise
        else:
            reply = NOTHING
            said.append(f"AgentForge: this is not recorded: {error}")
    finally:
        call.close()
    answer = None if reply == NOTHING else program.answer_of(event, reply)
    text = "\n".join(filter(None, [*said, call.said]))
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


def _with_question(event: HookEvent, payload: Mapping[str, Any]) -> HookEvent:
    """Return the event with what a call of our tool that asks a person reports."""
    if event.moment is not Moment.AFTER_TOOL:
        return event
    if not text_of(payload, "tool_name").endswith("_ask"):
        return event
    from ..programs.question_calls import question_of  # few calls ask

    return event._replace(question=question_of(payload))


def _has_content(event: HookEvent) -> bool:
    """Return whether an event reports what its session has to record."""
    return bool(event.edited or event.usage or event.question)


def _project_folder(event: HookEvent, environment: Mapping[str, str]) -> Path | None:
    for named in (environment.get(_PROJECT_VARIABLE, ""), event.directory):
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
        clock: Clock,
        start: Start | None,
    ) -> None:
        self._start = start
        self._program = program
        self._event = event
        self._project = project
        self._data_folder = project.data_folder
        self._environment = environment
        self._stores = stores
        self._place: SessionPlace | None = None
        self._opened = self._recorded = self._stopped = self._moved = False
        self.said = ""
        self.failure: WriteError | None = None
        self._now = clock()
        self._conversations = conversations_folder(project.identity, environment)
        self._file = BindingFile(self._conversations, event.program, event.agent_session)
        self._takes_context = program.takes_context(event)

    def reply(self, patience_s: float) -> HookReply:
        """Return the answer for the agent; wait for locks for `patience_s` seconds at most."""
        event = self._event
        has_content = _has_content(event) or bool(self._file.put_aside_before())
        if event.moment in _IN_TOOL_USE and not has_content:
            binding = self._file.read()
            if binding.session_id is None and not self._environment.get(SESSION_VARIABLE):
                return NOTHING
            place = self._bound(binding)
            current = place is not None and binding.is_current(event, place)
            if current and not (binding.notice and self._takes_context):
                return HookReply(stop=binding.stop, context=_missing_briefing(event, binding))
        with patient_for(patience_s):
            reply, session, binding = self._record_locked()
        if event.moment is Moment.TURN_ENDED and session is not None and binding.stop is None:
            from .turn_gate import judge_turn

            assert self._place is not None  # noqa: S101 (the session came from there)
            return judge_turn(
                event, self._place.sessions, session, self._data_folder, self._environment
            )
        return reply

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

    def _record_locked(self) -> tuple[HookReply, SessionContext | None, Binding]:
        """Record what earlier calls put aside, and the event, under the conversation's lock."""
        self._file.lock()
        try:
            for path in self._file.put_aside_before():
                self._catch_up(path)
            return self._record()
        finally:
            self._file.release()

    def _catch_up(self, path: Path) -> None:
        """Record what an earlier call put aside; the file stays until that is saved."""
        payload = object_of(path.read_bytes())
        event = None if payload is None else self._program.event_of(payload)
        if payload is not None and event is not None:
            given = (self._project, self._environment, self._stores, lambda: self._now, self._start)
            earlier = _HookCall(self._program, _with_question(event, payload), *given)
            earlier._file, earlier._takes_context = self._file, False  # nobody reads its answer
            try:
                earlier._record()
            finally:
                earlier.close()
            if earlier.failure is not None:
                raise earlier.failure
        path.unlink()

    def _bound(self, binding: Binding) -> SessionPlace | None:
        """Return where the conversation's session is, if it is bound to one."""
        if binding.session_id is None:
            return None
        if not binding.store:  # the common case, found without loading anything
            self._place = SessionPlace(Path(binding.base), None, self._stores)
            return self._place
        from .session_lookup import bound_place

        found = bound_place(binding, self._data_folder, self._environment, self._stores)
        self._keep(found)
        return found

    def _keep(self, place: SessionPlace | None) -> None:
        """Remember a place; close the previous one."""
        if self._place is not place:
            self.close()
            self._place = place

    def tell(self) -> None:
        """Notify receivers if a session was opened or a person may be waiting for the event.

        So a new receiver starts when a session is opened, not at the end of its first turn.
        """
        event, place = self._event, self._place
        told = event.moment is Moment.TURN_ENDED or event.question is not None or self._stopped
        if place is None or not (self._opened or (self._recorded and told)):
            return
        from .telling import start_detached, tell_receivers  # few calls get here

        base = place.base if place.is_files else None
        # If it can't be started, the next process that opens a session delivers the events.
        with suppress(OSError, NotImplementedError):
            tell_receivers(
                self._data_folder, base, self._environment, start=self._start or start_detached
            )

    def close(self) -> None:
        """Close what was opened."""
        if self._place is not None:
            self._place.close()

    def _record(self) -> tuple[HookReply, SessionContext | None, Binding]:
        """Record the event; the conversation's lock is held."""
        from ...harness.domain.session_states import SessionState
        from .session_lookup import NoSession, find_session

        event, binding = self._event, self._file.read()
        binding.note_process(event)
        binding.read_usage(event)
        event = self._event = binding.take_edits(event)
        bound = self._bound(binding)
        if event.moment is Moment.PROMPTED and event.text.lstrip(" /").startswith("agentforge"):
            answered = self._carry_out(binding)
            if answered is not None:
                return HookReply(refuse=answered), None, binding
        found = find_session(
            event,
            binding,
            bound,
            self._project,
            self._environment,
            stores=self._stores,
            now=self._now,
        )
        if found is None or isinstance(found, NoSession):
            self.said = found.said if found is not None else ""
            return NOTHING, None, binding
        self._bind(binding, found)
        place = found.place
        if event.moment is Moment.STARTED:
            self._opened = True
            from .settling import settle_conversations

            settle_conversations(
                self._conversations,
                place,
                found.session_id,
                data_folder=self._data_folder,
                but=(event.program, event.agent_session),
                now=self._now,
                purse=self._purse(binding, place),
            )
        if binding.finds_compaction(event):
            self._event = event = event._replace(moment=Moment.COMPACTION_FOUND)
        recorded, session, self.failure = self._change(binding, place)
        if recorded is None or session is None:
            return NOTHING, None, binding
        if self.failure is None:
            self._copy(binding, place)
        reply = self._reply_of(session, recorded, binding)
        if self.failure is None:
            self._recorded = recorded.changed
            self._stopped = session.state is not SessionState.ACTIVE
            binding.charged = recorded.charged
            binding.remember(place, session.revision)
            with suppress(WriteError):  # without the file, the next call reads it all again
                self._file.write(binding)
        elif reply == NOTHING:
            raise self.failure
        return reply, session, binding

    def _copy(self, binding: Binding, place: SessionPlace) -> None:
        from .transcripts import copy_conversation

        copy_conversation(
            self._event, binding, place, self._data_folder, self._environment, self._now
        )

    def _bind(self, binding: Binding, found: FoundSession) -> None:
        """Bind the conversation to a session, if it is not bound to it."""
        if not binding.is_bound_to(found.place, found.session_id):
            self._leave(binding)
            binding.bind(
                found.place,
                found.session_id,
                branch=self._project.branch(),
                known=found.owns(self._event, binding.meter.first),
                environment=self._environment,
            )
            self._opened = True
            self._moved = not found.is_new
        self._keep(found.place)

    def _carry_out(self, binding: Binding) -> str | None:
        """Carry out what the person says to us, and return the answer; None if it is no command."""
        from .person_commands import carry_out, command_of
        from .session_lookup import FoundSession, named_session

        command = command_of(self._event)
        if command is None:
            return None
        bound = named_session(self._data_folder, self._environment, self._stores)
        if bound is None and binding.session_id is not None and self._place is not None:
            bound = FoundSession(self._place, binding.session_id)
        if command.name == "done":
            self._leave(binding)
        said, found = carry_out(
            command, bound, self._project, self._environment, stores=self._stores, now=self._now
        )
        if found is not None:
            self._bind(binding, found)
            session = found.place.sessions.load(found.session_id)
            if session is not None and self._moved:
                binding.notice = self._briefing(session, binding)
            self._file.write(binding)
        return said

    def _leave(self, binding: Binding) -> None:
        """Charge the session that is left for what was spent, and copy to it what was said."""
        place = self._place
        if binding.session_id is None or place is None:
            return
        self._copy(binding, place)
        if binding.meter.total == binding.charged.usage.total:
            return
        from ...harness.errors import SessionCorrupted
        from .recording import change_session, record

        left = self._event._replace(moment=Moment.ENDED, text="", edited=(), question=None)
        spent = binding.spent(self._environment)

        def change(session: SessionContext) -> bool:
            return not session.state.is_terminal and (
                record(session, left, spent, now=self._now).changed
            )

        with suppress(SessionCorrupted):  # nothing can be charged to it
            change_session(place.sessions, binding.session_id, change)

    def _change(
        self, binding: Binding, place: SessionPlace
    ) -> tuple[Recorded | None, SessionContext | None, WriteError | None]:
        """Change the session; return the outcome, the session, and the error if saving failed."""
        from .recording import change_session, record

        event, edited, files = self._event, self._edited(), self._stored_files(binding, place)
        summary = binding.meter.summary if binding.meter.summary != binding.summary else ""
        spent, purse = binding.spent(self._environment), self._purse(binding, place)
        done: list[tuple[Recorded, SessionContext]] = []

        def change(session: SessionContext) -> bool:
            done.clear()
            if session.state.is_terminal:
                return False
            recorded = record(
                session,
                event,
                spent,
                now=self._now,
                edited=edited,
                summary=summary,
                files=files,
                purse=purse,
            )
            done.append((recorded, session))
            return recorded.changed

        failure = None
        try:
            change_session(place.sessions, binding.session_id or "", change)
        except WriteError as error:
            failure = error
        if event.moment is Moment.COMPACTED:
            binding.summary = binding.meter.summary
        elif self._event.moment is Moment.COMPACTION_FOUND:
            binding.summary = digest_of(event.text)
        recorded, session = done[0] if done else (None, None)
        if recorded is not None and failure is None:
            purse.charge(*recorded.spent)
        return recorded, session, failure

    def _purse(self, binding: Binding, place: SessionPlace) -> Purse:
        from ...base.settings.spending import read_spending
        from ..ledger import Payer, Purse, day_of

        project = os.path.realpath(place.base)
        payer = Payer(binding.session_id or "", project, day_of(self._now))
        return Purse(payer, read_spending(self._environment).limits, self._environment)

    def _stored_files(self, binding: Binding, place: SessionPlace) -> FilesStored | None:
        event = self._event
        if event.moment not in _FILES_STORED or event.by_subagent or binding.session_id is None:
            return None
        from .telling import start_detached
        from .work_tree import store_files

        return store_files(
            place,
            binding.session_id,
            event.directory,
            self._data_folder,
            self._environment,
            start=self._start or start_detached,
        )

    def _edited(self) -> list[RecordedEdit]:
        if not self._event.edited:
            return []
        from .edited_files import edited_files

        return edited_files(self._event, self._data_folder.parent)

    def _reply_of(self, session: SessionContext, recorded: Recorded, binding: Binding) -> HookReply:
        from . import messages

        event, over = self._event, recorded.over
        is_spent = session.token_budget.is_exhausted or over is not None
        if not is_spent:
            lines = [messages.warning(session)] if recorded.warned else []
            lines += map(messages.near, recorded.near)
            binding.notice = "\n".join(lines) or binding.notice
        binding.stop = messages.spent(session) if session.token_budget.is_exhausted else None
        if over is not None:
            binding.stop = binding.stop or messages.over(session, over)
        if event.moment in _SEEN and event.source != "compact" and self._opened:
            self.said = messages.first_line(session)
        if event.moment is Moment.STARTED or (self._moved and self._takes_context and not is_spent):
            binding.notice = None
            return HookReply(context=self._briefing(session, binding))
        if event.moment is Moment.COMPACTION_FOUND:
            self._briefing(session, binding)
        if event.moment is Moment.PROMPTED and is_spent:
            return HookReply(refuse=binding.stop)
        if event.moment in _IN_TOOL_USE and is_spent:
            return HookReply(stop=binding.stop)
        if event.request:
            return HookReply(context=_missing_briefing(event, binding))
        if binding.notice is not None and self._takes_context:
            notice, binding.notice = binding.notice, None
            return HookReply(context=notice)
        return NOTHING

    def _briefing(self, session: SessionContext, binding: Binding) -> str:
        from ...base.settings.privacy import read_privacy
        from .messages import briefing_for, known_work
        from .settings import read_briefing_shows

        assert self._place is not None  # noqa: S101 (the session came from there)
        may_show = read_privacy(self._event.program, self._environment)
        return briefing_for(
            session,
            self._event,
            binding,
            self._program,
            shows=read_briefing_shows(self._data_folder, self._environment),
            may_show=may_show,
            **known_work(self._place.sessions, session, may_show),
        )


def _missing_briefing(event: HookEvent, binding: Binding) -> str | None:
    """Return the briefing that a request lacks since its context was compacted, or None."""
    return binding.briefing if event.request else None
