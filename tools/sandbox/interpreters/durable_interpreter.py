"""An interpreter whose program survives its machine: after each good turn it takes a way back.

A turn that ends badly is undone: the next one starts from the last way back, in a new machine. So
the interpreter does not end before it is closed; when idle, it gives up its machine only.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any, Final

from ...base.errors import AgentForgeError
from ...base.event_log import get_logger
from ..guest.guest_code import LIBRARY
from ..guest.live_code import RESEED, RESUME
from ..host.files.memory_files import MemoryTree
from ..host.files.system_calls import LINUX
from ..host.machine import SUSPENDED, GuestMachine, TurnLimits, TurnOutcome
from ..live.capture import MachineState, capture, restore
from ..live.durable_state import DurableState, PendingTurn, WayBack
from ..live.errors import ProgramSnapshotRefused, TurnDiverged, TurnJournalDamaged
from ..live.journal.live_journal import LiveJournal
from ..live.journal.replayed_calls import ReplayedCalls
from ..live.live_door import LiveDoor, RequestAnswerer, nothing
from ..live.progress import ProgramProgress
from ..request import Request
from .guest_interpreter import GuestInterpreter, provided
from .interpreter_class import GuestServices, InterpreterClass
from .live_template import live_template
from .prepared_runtime import prepare_machine, prepared_runtime
from .program_codec import RuntimeCodec
from .science_template import imports_science

if TYPE_CHECKING:
    from ..host.preview1.guest import Guest
    from ..workspaces.quota import Room


_LIBRARY: Final = LIBRARY.encode().strip(b"/") + b"/"

_log = get_logger("agentforge.sandbox")


class DurableInterpreter(GuestInterpreter):
    """Runs the turns of a durable program, each from the way back that the last good one left."""

    def __init__(self, kind: InterpreterClass, state: DurableState, **options: Any) -> None:
        """Remember the program; the first turn opens a machine."""
        self._state = state
        self._live_door: LiveDoor | None = None
        self._live_journal: LiveJournal | None = None
        self._calls: ReplayedCalls | None = None
        self._answerer = RequestAnswerer({})
        self._before = ProgramProgress()
        self._message = ""
        super().__init__(kind, **options)

    def check(self, request: Request) -> None:
        """Check that a request fits the program, and that no other sandbox runs it.

        Raises:
            SandboxError: As by `DurableState.begin`; nothing ran.
        """
        if request.is_metered and not self.metered:
            self._end("metered")
            with provided():
                self._prepared = prepared_runtime(self.kind.cache, metered=True)
        self._state.begin(request, self._codec)

    @property
    def _codec(self) -> RuntimeCodec:
        return RuntimeCodec(self._prepared, self._state.policy)

    def run(self, request: Request, services: GuestServices, stop: threading.Event) -> TurnOutcome:
        """Run a turn of the checked request; undo it if it ends badly.

        Raises:
            SandboxUnavailable: The host cannot run it, or it was closed.
            ProgramSnapshotRefused: The program cannot be restored, or its snapshot exceeds a limit.
            WriteError: The program waits, and cannot be written to its directory.
        """
        with self.in_use:
            way_back = self._state.way_back
            progress, turn = way_back.progress, way_back.turn
            is_new = request.answers is None
            self._before = progress.begun(request.fuel) if is_new else progress
            self._answerer = RequestAnswerer({} if turn is None else request.answers or {})
            if self._machine is not None and _has_files(way_back.machine):
                self._end("undone")  # a turn that runs again starts with files opened again
            if self._machine is None and self.ended is None:
                self._leave_workspace()
                self._open_for(request.script.source)
            services = services._replace(system_calls=self._calls_for(services))
            try:
                outcome = super().run(request, services, stop)
                own = self._before.own_part(outcome, services.output_bytes)
                own = self._settled(own, outcome)
            except (TurnDiverged, TurnJournalDamaged):
                self._state.advance(way_back.undone())
                self._state.end_turn(is_over=True)
                raise
            finally:
                self._state.end_turn(is_over=self.turn_lost is not None)
                self._state.rest()
            if self.suspended is not None:
                self._state.save(self._codec)
            return own if turn is None else turn.own_part(own)

    def _settled(self, own: TurnOutcome, outcome: TurnOutcome) -> TurnOutcome:
        """Take a way back from a turn that ended well, or undo it.

        Args:
            own: The turn's outcome without what earlier turns of the program used.
            outcome: Its outcome.
        """
        if outcome.stopped == SUSPENDED and self._answerer.asked is not None:
            return self._waiting_in_turn(own)
        door, machine = self._live_door, self._machine
        if door is not None and door.fault is not None and outcome.stopped is None:
            own = own._replace(
                exit_code=None, stopped=f"what the program waits for is unclear: {door.fault}"
            )
            outcome = outcome._replace(stopped=own.stopped)
        self.turn_lost = outcome.stopped or ("it ended its interpreter" if outcome.ended else None)
        if self.turn_lost is None and machine is not None and door is not None:
            assert self._temporary is not None  # noqa: S101 (it was served)
            try:
                state = capture(machine, template=self._template, temporary=self._temporary)
                self._state.advance(WayBack(state, self._before.after(outcome, door.suspension)))
            except ProgramSnapshotRefused as error:
                self.turn_lost = error.reason
                own = own._replace(exit_code=None, stopped=error.reason)
        if self.turn_lost is not None:
            self._end("undone")
        self.suspended = self._state.way_back.progress.suspension
        return own if self.suspended is None else own._replace(exit_code=None)

    def _waiting_in_turn(self, own: TurnOutcome) -> TurnOutcome:
        """Have a turn that waits in a plain function run again with the answer."""
        way_back, journal, asked = self._state.way_back, self._live_journal, self._answerer.asked
        assert journal is not None  # noqa: S101 (it stopped the turn)
        before = self._before.suspension if way_back.turn is None else way_back.turn.before
        turn = PendingTurn(self._message, journal.entries, len(own.stdout), len(own.stderr), before)
        progress = self._before._replace(suspension=asked)
        self._state.advance(way_back._replace(progress=progress, turn=turn))
        self._end("undone")
        self.turn_lost, self.suspended = None, asked
        return own._replace(exit_code=None, stopped=None, ended=False)

    # ---------------------------------------------------------- the machine

    def _open(self) -> None:
        """Wait for the first turn, which decides on the template."""

    def _open_for(self, source: str) -> None:
        state = self._state.way_back.machine
        if state is None:
            self._template = live_template(self._prepared, science=imports_science(source))
            super()._open()
        else:
            self._template = self._codec.template(state.template)
            with provided():
                self._machine = self._new_machine()
        self._is_restored = state is None

    def close(self) -> None:
        """End it, and write the program to its directory.

        Raises:
            WriteError: It is not there as it is; the former snapshot is.
        """
        super().close()
        self._state.save(self._codec)

    def _end(self, reason: str) -> None:
        super()._end(reason)
        if reason != "closed":
            self.ended = None
        if reason != "idle":
            return
        self._leave_workspace()
        self._timer = None
        try:
            self._state.save(self._codec)
        except AgentForgeError as error:
            _log.warning("program.not_saved", error=type(error).__name__)

    def _serve(self, machine: GuestMachine, services: GuestServices) -> None:
        super()._serve(machine, services)
        way_back, temporary = self._state.way_back, self._temporary
        state = way_back.machine
        assert temporary is not None  # noqa: S101 (it was served)
        if state is None:
            state = capture(machine, template=self._template, temporary=temporary)
            self._state.advance(way_back._replace(machine=state))
        if self._is_restored:
            return
        try:
            restore(state, machine, template=self._template, temporary=temporary)
            if self._before.is_fork and way_back.turn is None:
                prepare_machine(machine, f"\0{RESEED}")
        except BaseException:
            self._end("error")
            raise
        self._is_restored = True

    def _emptied(self, room: Room, guest: Guest) -> MemoryTree:
        """Return the tree of `/tmp`, which is a part of the program."""
        if self._temporary is None:
            return super()._emptied(room, guest)
        self._temporary.serve_again(room)
        return self._temporary

    # ---------------------------------------------------------- a turn

    def _code_of_turn(self, request: Request) -> str:
        turn = self._state.way_back.turn
        if turn is not None:
            self._message = turn.message
        elif request.answers is None:
            self._message = request.script.message()
        else:
            self._message = f"\0{RESUME}\0{json.dumps({'answers': request.answers})}"
        return self._message

    def _journal(self) -> LiveJournal:
        turn = self._state.way_back.turn
        file = self._state.begin_turn(self._message, self._before, self._codec)
        self._answerer.saved = nothing if file is None else file.sync
        self._live_journal = LiveJournal(
            b"" if turn is None else turn.notes,
            files=self._calls,
            sink=nothing if file is None else file.append,
            sync=nothing if file is None else file.sync,
            answer=self._answerer,
            session=self._state.session,
            sequence=self._before.sequence,
        )
        if self._live_door is not None:
            self._live_door.journal = self._live_journal
        return self._live_journal

    def _calls_for(self, services: GuestServices) -> ReplayedCalls:
        """Return the system calls of the open tree, or of the next one."""
        if self._calls is None or self._workspace is None:
            calls = services.system_calls or LINUX
            self._calls = ReplayedCalls(calls, moved=self._state.is_moved)
        return self._calls

    def _limits(self, request: Request, output_bytes: int, stop: threading.Event) -> TurnLimits:
        return self._before.limits(request.deadline_s, output_bytes, stop)

    def _door(self, request: Request, stop: threading.Event) -> LiveDoor:
        if self._state.way_back.turn is not None:  # its time begins where it goes on
            request = request._replace(deadline_s=2 * request.deadline_s)
        self._live_door = LiveDoor(super()._door(request, stop), request.deadline_s, stop)
        return self._live_door


def _has_files(state: MachineState | None) -> bool:
    """Return whether a program has files of the workspace or of `/tmp` open."""
    return state is not None and any(
        one.path is None or not one.path.startswith(_LIBRARY) for one in state.descriptors.opened
    )
