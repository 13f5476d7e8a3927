"""Record one event of a conversation in its session, and answer it.

    catch up    with what earlier calls could not record in time
    read        the usage that the program wrote since, and what other events noted
    find        the session, and bind the conversation to it
    record      in one save, merged with concurrent saves

The caller holds the conversation's lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...base.files import WriteError
from ...harness.domain.session_states import SessionState
from ..ledger import Purse, purse_of
from ..programs.hook_event import IN_TOOL_USE, NOTHING, SEEN, HookEvent, HookReply, Moment
from ..programs.registry import AgentProgram
from .binding import Binding, BindingFile, digest_of
from .edited_files import edited_files
from .project_place import ProjectPlace
from .recording import FilesStored, Recorded, RecordedEdit, change_session, record
from .session_lookup import FoundSession, NoSession, bound_place, find_session, named_session
from .session_place import SessionPlace, Stores
from .settling import copy_conversation, settle_conversations

if TYPE_CHECKING:
    from ...harness.session_domain import SessionContext
    from .telling import Start

_FILES_STORED: Final = frozenset(
    {Moment.PROMPTED, Moment.BEFORE_COMPACTION, Moment.TURN_ENDED, Moment.ENDED}
)
_FORKED: Final = "fork"


class EventRecorder:
    """Records an event, at one time.

    Attributes:
        said: What to say to the person.
        failure: Why the session could not be saved, if the answer is right all the same.
    """

    def __init__(
        self,
        program: AgentProgram,
        event: HookEvent,
        file: BindingFile,
        place: SessionPlace | None,
        project: ProjectPlace,
        environment: Mapping[str, str],
        stores: Stores,
        now: datetime,
        start: Start | None,
    ) -> None:
        """Remember what was opened; `place` is the session's, if it is known."""
        self._program = program
        self._event = event
        self._file = file
        self._place = place
        self._project = project
        self._data_folder = project.data_folder
        self._environment = environment
        self._stores = stores
        self._now = now
        self._start = start
        self._opened = self._recorded = self._stopped = self._moved = False
        self._takes_context = program.takes_context(event)
        self._to_judge: SessionContext | None = None
        self._purse: Purse | None = None
        self.said = ""
        self.failure: WriteError | None = None

    def record(self, aside: Iterable[tuple[Path, HookEvent | None]]) -> HookReply:
        """Record the event after those that earlier calls put aside; return the answer.

        Args:
            aside: The file and the event of each of these calls; None for what is no event.
        """
        for path, event in aside:
            if event is not None:
                self._catch_up(event)
            path.unlink()  # not before it is saved
        return self._record()

    def judged(self, reply: HookReply) -> HookReply:
        """Return the answer after the turn's check, which may take long: no lock is held."""
        if self._to_judge is None:
            return reply
        from .turn_gate import judge_turn

        assert self._place is not None  # noqa: S101 (the session came from there)
        sessions = self._place.sessions
        return judge_turn(
            self._event, sessions, self._to_judge, self._data_folder, self._environment
        )

    def _catch_up(self, event: HookEvent) -> None:
        """Record the event of an earlier call."""
        event = event._replace(process=self._event.process)
        given = (self._project, self._environment, self._stores, self._now, self._start)
        earlier = EventRecorder(self._program, event, self._file, None, *given)
        earlier._takes_context = False  # nobody reads its answer
        try:
            earlier._record()
        finally:
            earlier.close()
        if earlier.failure is not None:
            raise earlier.failure

    def _bound(self, binding: Binding) -> SessionPlace | None:
        """Return where the conversation's session is, if it is bound to one."""
        if binding.session_id is None:
            return None
        place = self._place
        if place is None or (str(place.base), place.name) != (binding.base, binding.store):
            given = (self._data_folder, self._environment, self._stores)
            self._keep(bound_place(binding, *given))
        return self._place

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

    def _record(self) -> HookReply:
        """Record the event, and return the answer."""
        event, binding = self._event, self._file.read()
        binding.note_process(event)
        if event.moment is Moment.STARTED and event.source == _FORKED:
            # in the form of its messages' times, which are compared with it
            binding.meter.since = f"{self._now.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}"
        binding.read_usage(event)
        event = self._event = binding.take_edits(event)
        bound = self._bound(binding)
        if event.moment is Moment.PROMPTED and event.text.lstrip(" /").startswith("agentforge"):
            answered = self._carry_out(binding)
            if answered is not None:
                return HookReply(refuse=answered)
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
            return NOTHING
        self._bind(binding, found)
        place = found.place
        if event.moment is Moment.STARTED:
            self._opened = True
            settle_conversations(
                self._file.conversations,
                place,
                found.session_id,
                data_folder=self._data_folder,
                but=(event.program, event.agent_session),
                now=self._now,
                purse=self._purse_of(binding, place),
            )
        if binding.finds_compaction(event):
            self._event = event = event._replace(moment=Moment.COMPACTION_FOUND)
        recorded, session, self.failure = self._change(binding, place)
        if recorded is None or session is None:
            return NOTHING
        if self.failure is None:
            self._copy(binding, place)
        reply = self._reply_of(session, recorded, binding)
        if self.failure is None:
            self._recorded = recorded.changed
            self._stopped = session.state is not SessionState.ACTIVE
            binding.charged = recorded.charged
            budget, cost = session.token_budget, recorded.spent[1].micro_usd
            account = [budget.tokens_used, budget.total_budget, cost]
            binding.remember(place, session.revision, account)
            with suppress(WriteError):  # without the file, the next call reads it all again
                self._file.write(binding)
        elif reply == NOTHING:
            raise self.failure
        if event.moment is Moment.TURN_ENDED and binding.stop is None:
            self._to_judge = session
        return reply

    def _copy(self, binding: Binding, place: SessionPlace) -> None:
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
        if binding.meter.total == binding.charged.usage.total and not self._event.edited:
            return
        from ...harness.errors import SessionCorrupted

        left = self._event._replace(moment=Moment.ENDED, text="", question=None)
        spent, edited = binding.spent(self._environment), self._edited()
        self._event = self._event._replace(edited=())

        def change(session: SessionContext) -> bool:
            return not session.state.is_terminal and (
                record(session, left, spent, now=self._now, edited=edited).changed
            )

        with suppress(SessionCorrupted):  # nothing can be charged to it
            change_session(place.sessions, binding.session_id, change)

    def _change(
        self, binding: Binding, place: SessionPlace
    ) -> tuple[Recorded | None, SessionContext | None, WriteError | None]:
        """Change the session; return the outcome, the session, and the error if saving failed."""
        event, edited, files = self._event, self._edited(), self._stored_files(binding, place)
        summary = binding.meter.summary if binding.meter.summary != binding.summary else ""
        spent, purse = binding.spent(self._environment), self._purse_of(binding, place)
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

    def _purse_of(self, binding: Binding, place: SessionPlace) -> Purse:
        if self._purse is None:
            given = (binding.session_id or "", place.base, self._now, self._environment)
            self._purse = purse_of(*given)
        return self._purse

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
        return edited_files(self._event, self._data_folder.parent)

    def _reply_of(self, session: SessionContext, recorded: Recorded, binding: Binding) -> HookReply:
        event, is_exhausted = self._event, session.token_budget.is_exhausted
        is_spent, binding.stop = is_exhausted or recorded.over is not None, None
        to_say = event.moment in SEEN and event.source != "compact" and self._opened
        if is_spent or recorded.warned or recorded.near or to_say:
            from . import messages  # few calls say anything

            if is_exhausted:
                binding.stop = messages.spent(session)
            elif recorded.over is not None:
                binding.stop = messages.over(session, recorded.over)
            else:
                lines = [messages.warning(session)] if recorded.warned else []
                lines += map(messages.near, recorded.near)
                binding.notice = "\n".join(lines) or binding.notice
            self.said = messages.first_line(session) if to_say else ""
        if event.moment is Moment.STARTED or (self._moved and self._takes_context and not is_spent):
            binding.notice = None
            return HookReply(context=self._briefing(session, binding))
        if event.moment is Moment.COMPACTION_FOUND:
            self._briefing(session, binding)
        if event.moment is Moment.PROMPTED and is_spent:
            return HookReply(refuse=binding.stop)
        if event.moment in IN_TOOL_USE and is_spent:
            return HookReply(stop=binding.stop)
        if event.request:
            return HookReply(context=binding.briefing)
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
