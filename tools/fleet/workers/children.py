"""The processes that run sessions for a worker: reused, one session at a time each.

A process runs a session as `agentforge resume` does. It is stopped as by Ctrl-C: by SIGINT, and by
SIGKILL if it does not end in time. It ends by itself when its worker has ended, since its standard
input does.

A process that ends before it has claimed its session gives no information about it: the machine is
short of memory or descriptors, or the installation is broken. Such a worker takes no sessions for a
while, ever longer, and starts a process without one before it takes the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from attrs import define, field, frozen

from ...base.event_log import get_logger
from .messages import MAX_LINE_BYTES, Look, decode, encode, look_of
from .settings import FleetSettings

_log = get_logger("agentforge.fleet")
PROGRAM: Final = (sys.executable, "-P", "-m", "agentforge_sessions.entrypoints.worker")
"""The program of a session's process. Nothing is imported from the working directory."""

OnLog = Callable[[Mapping[str, Any]], None]


class ChildEnded(Exception):
    """A session's process ended by itself, and its last action is unknown.

    A process that violates the protocol counts as ended.

    Attributes:
        how: How it ended, in words.
        claimed: Whether it had claimed the session that it was to run, or paused one. If not, its
            end does not concern the session.
    """

    def __init__(self, how: str, *, claimed: bool = False) -> None:
        super().__init__(how)
        self.how = how
        self.claimed = claimed


@frozen(eq=False)
class _Child:
    """One process."""

    process: asyncio.subprocess.Process

    @property
    def alive(self) -> bool:
        return self.process.returncode is None

    async def ask(self, message: Mapping[str, Any], on_log: OnLog) -> dict[str, Any]:
        """Write a message and return the answer.

        Raises:
            ChildEnded: It ended before.
        """
        assert self.process.stdin is not None and self.process.stdout is not None  # noqa: S101, PT018
        claimed = False
        with contextlib.suppress(ConnectionError):  # its end is noticed below
            self.process.stdin.write(encode(message))
            await self.process.stdin.drain()
        while line := await self._line(self.process.stdout):
            try:
                answer = decode(line)
            except ValueError:
                continue  # output of a library before standard output was redirected
            if "claimed" in answer:
                claimed = True
            elif "log" not in answer:
                return answer
            else:
                on_log(answer["log"])
        raise ChildEnded(_how_ended(await self.process.wait()), claimed=claimed)

    @staticmethod
    async def _line(stream: asyncio.StreamReader) -> bytes:
        try:
            return await stream.readline()
        except ValueError as error:  # the running code wrote it
            raise ChildEnded("wrote a line that is too long", claimed=True) from error

    async def stop(self, patience_s: float) -> None:
        """Make it stop its session and end; kill it if it does not."""
        if not self.alive:
            return
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGINT)
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), patience_s)
        except TimeoutError:
            _log.warning("fleet.child.killed", pid=self.process.pid, after_s=patience_s)
            self.kill()
            await self.process.wait()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()


def _require_ready(answer: Mapping[str, Any]) -> None:
    if not answer.get("ready"):
        raise ChildEnded(f"did not begin: {answer.get('reason')}")


def _how_ended(code: int) -> str:
    if code < 0:
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"
    return f"ended with exit code {code}"


@define(eq=False)
class Children:
    """The session processes of one worker; as many as it runs sessions at once.

    Guarantees: a process runs one session at a time; when a call of `run` ends, however it does, no
    process runs that session any more, unless the process was frozen and is about to be killed.

    Args:
        greeting: The first message to each process: where the sessions are.
        stop_s: How long one may take to stop before it is killed, in seconds.
        on_log: Receives their log events.
        program: The program.
    """

    _greeting: Mapping[str, Any]
    _stop_s: float = field(kw_only=True)
    _on_log: OnLog = field(kw_only=True)
    _program: tuple[str, ...] = field(default=PROGRAM, kw_only=True)
    _idle: list[_Child] = field(factory=list, init=False)
    _busy: set[_Child] = field(factory=set, init=False)

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of the living processes."""
        return tuple(one.process.pid for one in (*self._idle, *self._busy) if one.alive)

    async def run(self, session_id: str, job_id: int) -> Look:
        """Have a process look at a session, and return how the look ended.

        If the call is cancelled, the process has ended when it raises.

        Raises:
            ChildEnded: The process ended by itself, or its answer was invalid.
        """
        answer = await self._ask({"run": session_id, "job": job_id})
        try:
            return look_of(answer)
        except ValueError as error:
            how = f"answered what is no answer ({error})"
            raise ChildEnded(how, claimed=True) from error

    async def start(self) -> None:
        """Ensure that there is a process that waits for a session.

        Raises:
            ChildEnded: It could not be started, or ended before it was ready.
        """
        self._idle.append(await self._free())

    async def pause(self, session_id: str, reason: str) -> bool:
        """Have a process pause a session; return whether it did.

        Raises:
            ChildEnded: The process ended by itself.
        """
        answer = await self._ask({"pause": session_id, "reason": reason})
        return bool(answer.get("paused"))

    async def _ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        child = await self._free()
        self._busy.add(child)
        try:
            answer = await child.ask(message, self._on_log)
        except BaseException:
            # A second cancellation must not leave it running.
            stopping = asyncio.ensure_future(child.stop(self._stop_s))
            try:
                await asyncio.shield(stopping)
            except asyncio.CancelledError:
                child.kill()
                await stopping
            raise
        finally:
            self._busy.discard(child)
        if child.alive:
            self._idle.append(child)
        return answer

    async def _free(self) -> _Child:
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
        try:
            process = await asyncio.create_subprocess_exec(
                *self._program,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=MAX_LINE_BYTES,
                start_new_session=True,  # only the worker handles Ctrl-C
            )
        except OSError as error:  # no memory, descriptors or processes are left
            raise ChildEnded(f"could not be started: {error}") from error
        child = _Child(process)
        self._busy.add(child)
        try:
            _require_ready(await child.ask(self._greeting, self._on_log))
        except BaseException:
            child.kill()
            await asyncio.shield(process.wait())
            raise
        finally:
            self._busy.discard(child)
        return child

    def kill(self) -> None:
        """Kill all processes that run something, at once."""
        for child in tuple(self._busy):
            child.kill()

    async def close(self) -> None:
        """End all processes, and return once they have ended."""
        all_of_them = [*self._idle, *self._busy]
        self._idle.clear()
        await asyncio.gather(*(one.stop(self._stop_s) for one in all_of_them))


@define(eq=False)
class Wellness:
    """The state of one worker's processes.

    Args:
        settings: The worker's.
        start: Starts a process that waits for a session; raises `ChildEnded`.
        random: Returns a number from 0 up to 1.
        monotonic: The clock, in seconds.
    """

    _settings: FleetSettings
    _start: Callable[[], Awaitable[object]]
    _random: Callable[[], float] = field(kw_only=True)
    _monotonic: Callable[[], float] = field(kw_only=True)
    _in_a_row: int = field(default=0, init=False)
    _until: float = field(default=float("-inf"), init=False)
    _how: str | None = field(default=None, init=False)

    @property
    def problem(self) -> str | None:
        """Why the worker takes no sessions, in words; None if it does."""
        if self._how is None:
            return None
        return (
            f"its session processes end before they have a session ({self._how}, "
            f"{self._in_a_row} in a row); it takes none until one lives"
        )

    def ended(self, how: str) -> float:
        """Record a process that ended before it had its session; return how long none is taken.

        Failures until then count as one.
        """
        now = self._monotonic()
        if now >= self._until:
            self._in_a_row += 1
            self._until = now + self._settings.crash.wait(self._in_a_row, self._random)
        self._how = how
        wait = max(0.0, self._until - now)
        _log.error("fleet.worker.unwell", how=how, in_a_row=self._in_a_row, after_s=round(wait, 3))
        return wait

    def lived(self) -> None:
        """Record that a process had its session."""
        self._in_a_row, self._until, self._how = 0, float("-inf"), None

    async def may_take(self) -> bool:
        """Return whether the worker may take a session now; after a failure, test a process."""
        if self._how is None:
            return True
        if self._monotonic() < self._until:
            return False
        try:
            await self._start()
        except ChildEnded as ended:
            self.ended(ended.how)
            return False
        _log.info("fleet.worker.well", after=self._in_a_row)
        self._how = None  # the count stays until one has a session
        return True
