"""One guest: an instance of the interpreter, its descriptors, and a turn of code in it."""

# No deferred annotations here: as strings, each field's would have to be compiled.

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Final, NamedTuple, Protocol

from .engine.clock import CANCELLED, DEADLINE, NEVER, TurnClock, TurnEnded
from .engine.engine import Instance, Program, Trapped
from .engine.held_signals import SIGNALS
from .files.files import Descriptor, Descriptors, Directory
from .files.mount_points import MountPoints
from .preview1.guest import REAL, Door, Guest, GuestExit, TimeAndChance
from .preview1.streams import InputFile, OutputStream
from .template import Template

ARGUMENTS: Final = (b"/usr/local/bin/python.wasm",)
ENDED: Final = 256
"""The lowest answer of a turn after which the interpreter has ended."""

INVALID_EXIT: Final = "invalid exit status"
SUSPENDED: Final = "suspended"
"""Why a turn was stopped whose journal has no answer to a request yet."""

_FIRST_MOUNT: Final = 4
_MOST_EXIT_CODE: Final = 125


class MachineLimits(Protocol):
    """A guest's limits, for any number of turns; an `ExecutionPolicy` has them, too."""

    @property
    def memory_bytes(self) -> int:
        """The most memory, in bytes."""

    @property
    def open_files(self) -> int:
        """The most open files and directories."""

    @property
    def file_calls(self) -> int:
        """The most calls on names of files in one turn."""


class TurnLimits(NamedTuple):
    """What one turn may use.

    Attributes:
        fuel: Instructions, and the host's work for the guest.
        seconds: Wall-clock seconds; None for no limit.
        output_bytes: How much of each stream is stored.
        cancel: Ends the turn early once set.
        file_calls: The calls on names of files that count as made before it.
    """

    fuel: int
    output_bytes: int
    seconds: float | None = None
    cancel: threading.Event = NEVER
    file_calls: int = 0


class TurnOutcome(NamedTuple):
    """How a turn ended.

    Attributes:
        exit_code: The exit code; None if it was stopped.
        stopped: Why it was stopped, or None.
        ended: Whether the interpreter has ended and can run no other turn.
        fuel_used: The fuel used; None if it is unknown: the guest was interrupted while computing,
            or the baseline compiler made its code.
        stdout: Its output, up to the limit.
        stderr: As above.
        truncated: The streams that exceeded the limit.
        file_calls: Its calls on names of files.
    """

    exit_code: int | None
    stopped: str | None
    ended: bool
    fuel_used: int | None
    stdout: bytes
    stderr: bytes
    truncated: tuple[str, ...]
    file_calls: int


HandOn = Callable[[bytes], object]


class TurnJournal(Protocol):
    """Notes what a turn's guest is answered, and answers the same when the turn runs again."""

    def following(self, guest: Guest) -> AbstractContextManager[None]:
        """Follow a guest within the block: time, chance, files and requests go through it."""

    def finish(self) -> None:
        """Note that the turn has ended by itself."""

    def input(self, data: bytes) -> InputFile:
        """Return the turn's input, which may ask for more at its end."""

    def only_new(self, hand_on: HandOn) -> HandOn:
        """Return a callback that leaves out what an earlier run handed on."""


_NO_STREAMS: Final = (
    Descriptor(InputFile(b"")),
    *(Descriptor(OutputStream(0), readable=False, writable=True) for _ in range(2)),
)
"""Stand in for a turn's streams until it starts."""


def _by_name(directories: Mapping[str, Directory]) -> dict[bytes, Directory]:
    return {path.encode().strip(b"/"): node for path, node in directories.items()}


def _interruptible(hand_on: Callable[[bytes], object]) -> Callable[[bytes], object]:
    """Let signal handlers interrupt a callback, since it is the caller's code."""

    def call(data: bytes) -> object:
        return SIGNALS.interruptible(partial(hand_on, data))

    return call


class GuestMachine:
    """A guest that runs turns, one at a time, until it ends.

    Args:
        program: The interpreter.
        limits: Its limits.
        environment: Its environment.
        mounted: The preopened directories by absolute path, in order.
        template: The memory it starts from; None for the interpreter's initial memory.
        moment: The time and chance of its guest.
    """

    def __init__(
        self,
        program: Program,
        limits: MachineLimits,
        *,
        environment: Mapping[str, str],
        mounted: Mapping[str, Directory],
        template: Template | None = None,
        moment: TimeAndChance = REAL,
    ) -> None:
        self.instance: Final[Instance] = program.instance(memory_bytes=limits.memory_bytes)
        try:
            if template is not None:
                template.begin(self.instance)
        except BaseException:
            self.instance.close()
            raise
        self._descriptors = Descriptors(limits.open_files)
        self.guest: Final = Guest(
            self.instance,
            self._descriptors,
            environment=sorted(f"{name}={value}".encode() for name, value in environment.items()),
            arguments=ARGUMENTS,
            file_calls=limits.file_calls,
            moment=moment,
        )
        self.instance.guest = self.guest
        self._mounted = [(path, path.encode(), node) for path, node in mounted.items()]
        self._reached: dict[bytes, Directory] = {}
        self._begun = False

    def begin_again(self) -> None:
        """Close everything and reopen what was open at the start."""
        self._descriptors.start_with(())
        self.guest.upkeep.held = 0
        self._reached, self._begun = {}, False

    def mount(self, directories: Mapping[str, Directory]) -> None:
        """Replace the mounted directories for the following turns."""
        if not self._begun:
            self._begin(directories)
            return
        for number, (path, name, _) in enumerate(self._mounted, _FIRST_MOUNT):
            if path in directories:
                self._descriptors.put(number, Descriptor(directories[path], preopened=name))
        self._reached = {**self._reached, **_by_name(directories)}
        self._descriptors.put(3, Descriptor(MountPoints(self._reached), preopened=b"/"))

    def _begin(self, directories: Mapping[str, Directory]) -> None:
        """Open the initial descriptors; the streams are set by each turn."""
        preopened = [(name, directories.get(path, node)) for path, name, node in self._mounted]
        self._reached = {
            **{name.strip(b"/"): node for name, node in preopened},
            **_by_name(directories),
        }
        self._descriptors.start_with(
            [
                *_NO_STREAMS,
                Descriptor(MountPoints(self._reached), preopened=b"/"),
                *(Descriptor(node, preopened=name) for name, node in preopened),
            ]
        )
        self._begun = True

    @property
    def reached(self) -> Mapping[bytes, Directory]:
        """The mounted directories, by their paths from `/`."""
        return self._reached

    @property
    def memory_bytes(self) -> int:
        """How much memory it has, in bytes; it never shrinks."""
        self.instance.memory.refresh()
        return self.instance.memory.known

    def turn(
        self,
        code: bytes,
        limits: TurnLimits,
        *,
        stdin: bytes = b"",
        hand_on: Sequence[Callable[[bytes], object] | None] = (None, None),
        door: Door | None = None,
        journal: TurnJournal | None = None,
    ) -> TurnOutcome:
        """Run code; whatever it does is returned as an outcome.

        Args:
            code: The interpreter's input.
            limits: What the turn may use.
            stdin: The content of descriptor 0.
            hand_on: Called with each piece of stdout and of stderr as it is written.
            door: Answers its requests to the host.
            journal: Follows the turn, so that it can be run again.

        Raises:
            EngineUnavailable: The guest cannot be entered.
            TurnDiverged: The turn does not do what its journal says it did.
            BaseException: What a callback raised that concerns the host, such as
                `KeyboardInterrupt`; the guest has ended.
        """
        if not self._begun:
            self._begin({})
        clock = TurnClock(limits.seconds, limits.cancel)
        given = [None if each is None else _interruptible(each) for each in hand_on]
        if journal is not None:
            given = [None if each is None else journal.only_new(each) for each in given]
        streams = [OutputStream(limits.output_bytes, each) for each in given]
        read = InputFile(stdin) if journal is None else journal.input(stdin)
        self._descriptors.put(0, Descriptor(read))
        for number, stream in enumerate(streams, 1):
            self._descriptors.put(number, Descriptor(stream, readable=False, writable=True))
        self.guest.door = door
        self.guest.upkeep.begin_turn(limits.file_calls)
        exit_code: int | None = None
        stopped: str | None = None
        ended = True
        following = nullcontext() if journal is None else journal.following(self.guest)
        with self.instance.turn(clock, limits.fuel), following:
            try:
                clock.check()
                answer = self._enter(code)
                exit_code, ended = answer & 0xFF, answer >= ENDED
            except GuestExit as leaving:
                # No host process could have this exit code, so it counts as a crash.
                fits = leaving.code <= _MOST_EXIT_CODE
                exit_code, stopped = (leaving.code, None) if fits else (None, INVALID_EXIT)
            except TurnEnded as stop:
                stopped = stop.reason
            except Trapped as trap:
                stopped = trap.reason
            if journal is not None and stopped is None:
                journal.finish()
        left = None if stopped in (DEADLINE, CANCELLED) else self.instance.fuel_left()
        return TurnOutcome(
            exit_code=exit_code,
            stopped=stopped,
            ended=ended,
            fuel_used=None if left is None else limits.fuel - left,
            stdout=bytes(streams[0].data),
            stderr=bytes(streams[1].data),
            truncated=tuple(
                name
                for name, stream in zip(("stdout", "stderr"), streams, strict=True)
                if stream.truncated
            ),
            file_calls=self.guest.upkeep.file_calls,
        )

    def _enter(self, code: bytes) -> int:
        place = self.instance.call("host_alloc", len(code))
        try:
            if place:
                self.instance.memory.write(place, code)
        except OSError:
            place = 0  # the interpreter then raises a MemoryError
        return self.instance.call("turn", place, len(code))

    def close_files(self) -> None:
        """Close everything open; no turn may follow."""
        self._descriptors.close_all()

    def close(self) -> None:
        """Close everything open and free the memory."""
        self.close_files()
        self.instance.close()
