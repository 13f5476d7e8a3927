"""One job: have a process look at a session, and carry out the decision about its outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from attrs import define, field
from procrastinate.exceptions import ConnectorException, JobAborted
from procrastinate.job_context import AbortReason, JobContext

from ...base.event_log import get_logger
from .children import ChildEnded, Wellness
from .decisions import (
    Decision,
    Done,
    GiveUp,
    LookAgain,
    counts_as_failure,
    decide,
    decide_after_crash,
    decide_after_refusal,
)
from .messages import Ending, Look
from .metrics import FleetMetrics
from .queue import words_of
from .settings import FleetSettings

_log = get_logger("agentforge.fleet")
_WRITES: Final = 8
_T = TypeVar("_T")
_LOOKED_AT: Final = "fleet.session.looked_at"
_LOGGED: Final = {
    Ending.FENCED: ("warning", "fleet.session.taken_over"),
    Ending.FAILED: ("error", "fleet.session.failed"),
    Ending.NOT_ALLOWED: ("warning", "fleet.session.passed_on"),
    Ending.UNAVAILABLE: ("warning", _LOOKED_AT),
}
"""The level and the event of each ending of a look; all others are logged at info."""


class JobFailed(Exception):
    """A session's job failed; its session is paused, with the reason."""


class SessionProcesses(Protocol):
    """Runs and pauses sessions; `Children`."""

    async def run(self, session_id: str, job_id: int) -> Look:
        """Look at a session, and return how the look ended."""
        ...

    async def pause(self, session_id: str, reason: str) -> bool:
        """Pause a session; return whether it is."""
        ...


class Looks(Protocol):
    """Enqueues further looks at sessions; `FleetQueue`."""

    async def wake(self, session_id: str, after_s: float = 0.0) -> int | None:
        """Enqueue a look at a session, unless one waits."""
        ...

    async def count_failure(self, session_id: str, reason: str) -> int:
        """Record a look that did not get the phase passed; return how many in a row did not."""
        ...

    async def pass_on(self, session_id: str, needs: str, reason: str) -> int | None:
        """Enqueue the next look for the workers that are allowed what the session needs."""
        ...

    async def note_reason(self, session_id: str, reason: str) -> None:
        """Record why a look had no result, where the reason does not concern the session."""
        ...


@define(eq=False)
class SessionJobs:
    """Does the jobs of one worker.

    Args:
        processes: Runs sessions.
        looks: Enqueues further looks.
        settings: The worker's.
        metrics: The worker's metrics.
        wellness: The state of the processes.
        random: Returns a number from 0 up to 1.
        at_once: Returns whether the worker is ending now, so that how its processes end does not
            concern their sessions.
        monotonic: The clock, in seconds.
        sleep: Waits, in seconds.
    """

    _processes: SessionProcesses
    _looks: Looks
    _settings: FleetSettings
    _metrics: FleetMetrics
    _wellness: Wellness
    _random: Callable[[], float] = field(kw_only=True)
    _at_once: Callable[[], bool] = field(default=lambda: False, kw_only=True)
    _monotonic: Callable[[], float] = field(default=time.monotonic, kw_only=True)
    _sleep: Callable[[float], Awaitable[object]] = field(default=asyncio.sleep, kw_only=True)
    _running: set[int] = field(factory=set, init=False)

    @property
    def running(self) -> frozenset[int]:
        """The jobs in progress."""
        return frozenset(self._running)

    async def run(self, context: JobContext, session_id: str) -> None:
        """Do a job.

        Raises:
            JobFailed: The session's run failed in a way that will not pass by itself.
            JobAborted: A person cancelled it, or the worker is ending at once.
            asyncio.CancelledError: The worker is ending; another job was enqueued.
        """
        job_id = context.job.id or 0
        began = self._monotonic()
        outcome = "error"
        self._running.add(job_id)
        self._metrics.began()
        _log.info("fleet.job.started", session_id=session_id, job=job_id)
        try:
            outcome = await self._do(session_id, job_id)
        except (asyncio.CancelledError, JobAborted) as error:
            user = context.abort_reason() is AbortReason.USER_REQUEST
            if user and isinstance(error, asyncio.CancelledError):
                outcome = "cancelled"
                raise JobAborted from None
            outcome = "handed_back"
            await self._hand_back(session_id)
            raise
        except JobFailed:
            outcome = "failed"
            raise
        finally:
            self._running.discard(job_id)
            seconds = self._monotonic() - began
            self._metrics.ended(outcome, seconds)
            _log.info(
                "fleet.job.ended",
                session_id=session_id,
                job=job_id,
                outcome=outcome,
                seconds=round(seconds, 3),
            )

    async def _do(self, session_id: str, job_id: int) -> str:
        try:
            look = await self._processes.run(session_id, job_id)
        except ChildEnded as ended:
            if self._at_once():
                raise JobAborted from None
            _log.warning(
                "fleet.child.ended",
                session_id=session_id,
                job=job_id,
                how=ended.how,
                claimed=ended.claimed,
            )
            return await self._carry_out(
                session_id, "crashed", await self._crashed(session_id, ended)
            )
        self._wellness.lived()
        self._metrics.looked(look)
        if look.ending is Ending.STOPPED and self._at_once():
            raise JobAborted
        self._log_look(look, session_id, job_id)
        return await self._carry_out(
            session_id, look.ending.value, await self._decided(session_id, look)
        )

    async def _crashed(self, session_id: str, ended: ChildEnded) -> Decision:
        """Decide about a process that ended by itself, by whose fault it counts as."""
        if ended.claimed:
            self._wellness.lived()
            failures = await self._count(session_id, ended.how)
            return decide_after_crash(ended.how, failures, self._settings, self._random)
        wait_s = self._wellness.ended(ended.how)
        reason = f"the process of a worker that was to run it {ended.how}"
        await self._despite_losses(lambda: self._looks.note_reason(session_id, reason))
        return LookAgain(min(wait_s, self._settings.busy_s))  # others may take it before this one

    async def _decided(self, session_id: str, look: Look) -> Decision:
        reason = look.reason or ""
        if look.ending is Ending.NOT_ALLOWED:
            needs = look.needs or ""
            refusals = await self._despite_losses(
                lambda: self._looks.pass_on(session_id, needs, reason)
            )
            return decide_after_refusal(refusals, self._settings, self._random)
        failures = await self._count(session_id, reason) if counts_as_failure(look) else 0
        return decide(look, failures, self._settings, self._random)

    async def _carry_out(self, session_id: str, outcome: str, decision: Decision) -> str:
        match decision:
            case Done():
                return outcome
            case LookAgain(after_s=after_s):
                await self._despite_losses(lambda: self._looks.wake(session_id, after_s))
                self._metrics.put_off(outcome)
                _log.info(
                    "fleet.job.put_off",
                    session_id=session_id,
                    reason=outcome,
                    after_s=round(after_s, 3),
                )
                return outcome
            case GiveUp(reason=reason, pause=pause):
                paused = not pause or await self._processes.pause(session_id, reason)
                _log.error(
                    "fleet.session.given_up", session_id=session_id, reason=reason, paused=paused
                )
                raise JobFailed(reason)

    async def _count(self, session_id: str, reason: str) -> int:
        return await self._despite_losses(lambda: self._looks.count_failure(session_id, reason))

    async def _despite_losses(self, act: Callable[[], Awaitable[_T]]) -> _T:
        """Retry a write that must not be lost with one connection.

        If the store stays unreachable, the worker restarts, and the job, which could not be ended,
        is recovered.
        """
        for failures in range(1, _WRITES):
            try:
                return await act()
            except ConnectorException as error:
                _log.warning("fleet.queue.write_failed", reason=words_of(error))
                await self._sleep(self._settings.reconnect.wait(failures, self._random))
        return await act()

    async def _hand_back(self, session_id: str) -> None:
        """Enqueue the session for another worker; if the store is unreachable, the sweep does."""
        try:
            await self._looks.wake(session_id)
        except Exception as error:  # noqa: BLE001 (the worker ends in any case)
            _log.warning("fleet.job.not_handed_back", session_id=session_id, reason=words_of(error))

    def _log_look(self, look: Look, session_id: str, job_id: int) -> None:
        level, event = _LOGGED.get(look.ending, ("info", _LOOKED_AT))
        getattr(_log, level)(
            event,
            session_id=session_id,
            job=job_id,
            ending=look.ending.value,
            cause=look.cause,
            reason=look.reason,
        )
