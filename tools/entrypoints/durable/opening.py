"""Opens a durable session: as a context manager of either face, and as a decorator."""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Callable, Coroutine, Iterable
from contextlib import ExitStack, suppress
from functools import partial, wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar, overload

from ...base.cancellation import cancellable_sleep
from ...base.clock import Clock, utc_now
from ...base.errors import AgentForgeError
from ...fleet.stores import STORE_VARIABLE
from ...harness.errors import SessionNotFound
from ...harness.session_domain import (
    DEFAULT_TOKEN_BUDGET,
    InvalidStateTransition,
    SessionContext,
    SessionState,
)
from ...harness.steps.codec import result_kind
from ...harness.steps.program_sessions import ProgramKey, begin_or_go_on, led
from ...harness.steps.result_kinds import Unfit
from ...harness.steps.result_values import Dumping, text_of
from ...harness.steps.step_log import StepLog
from .core import LeadTerms, SessionCore
from .limits import PersonLimits
from .options import Budget, SessionTerms
from .parts import PartOf
from .scopes import running_frame
from .synchronous import Session

if TYPE_CHECKING:
    from ...harness import QuestionChannel, SessionObserver
    from ...harness.session_manager import SessionManager
    from ...harness.session_ports import LocalSessions
    from .asynchronous import AsyncSession

P = ParamSpec("P")
R = TypeVar("R")
_SHARED: Final = ("store", "wait_s", "patience_s", "channel", "observers", "clock", "sleep")
"""What the parts of a session have from it."""


class SessionOpening:
    """A durable session that is not opened yet: `with`, `async with`, or a decorator."""

    def __init__(self, wanted: SessionTerms, part: PartOf | None = None) -> None:
        self._wanted = wanted
        self._part = part
        self._stack = ExitStack()
        self._core: SessionCore | None = None

    # --------------------------------------------------------------------- as a context manager

    def __enter__(self) -> Session:
        """Begin the session, or go on with it, or find it finished."""
        core = self._open()
        sleep = self._wanted.sleep or cancellable_sleep
        return Session(core, sleep=sleep, returns=self._wanted.returns, opened_part=part_of)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write the session's file and let go of the lead; unfinished, it stays open."""
        self._close(error)

    async def __aenter__(self) -> AsyncSession:
        """As `with` does, in a thread."""
        from ...integrations.bridges.foreign_sessions import in_thread
        from .asynchronous import AsyncSession, slept

        try:
            core = await in_thread(self._open)
        except BaseException as error:  # cancelled, perhaps when it was open already
            if self._core is not None:
                await in_thread(partial(self._close, error))
            raise
        sleep = slept(self._wanted.sleep)
        return AsyncSession(core, sleep=sleep, returns=self._wanted.returns, opened_part=part_of)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """As `with` does, in a thread."""
        from ...integrations.bridges.foreign_sessions import in_thread

        await in_thread(partial(self._close, error))

    def _open(self) -> SessionCore:
        part = self._part
        if part is not None:
            part.begin(self._wanted.budget)
        try:
            with ExitStack() as stack:
                core = self._opened(stack)
                self._stack = stack.pop_all()
        except BaseException:
            if part is not None:
                part.not_opened()
            raise
        self._core = core
        return core

    def _opened(self, stack: ExitStack) -> SessionCore:
        wanted = self._wanted
        parent = None if self._part is None else self._part.parent
        store = self._store(stack)
        key = wanted.workflow if wanted.key is None else wanted.key
        if not isinstance(key, str):
            raise TypeError("key: expected a text; only a decorator can call a function for it")
        tokens = wanted.budget.tokens
        session = begin_or_go_on(
            store,
            ProgramKey(wanted.workflow, key, digest(wanted.inputs)),
            budget=DEFAULT_TOKEN_BUDGET if tokens is None else tokens,
            goal=wanted.goal,
            title=wanted.title,
            tags=wanted.tags,
            parent_id=None if parent is None else parent.session_id,
            clock=wanted.clock,
            observers=wanted.observers,
        )
        log, session = self._led(store, session, stack)
        limits = (
            PersonLimits(store, session.session_id, clock=wanted.clock)
            if parent is None
            else parent.terms.limits
        )
        terms = LeadTerms(key, limits, partial(_manager, store, wanted), wanted)
        core = SessionCore(store, log, session, terms, parent)
        if core.finished and session.state is SessionState.ACTIVE:
            core.complete()  # its process died just before
        return core

    def _led(
        self, store: LocalSessions, session: SessionContext, stack: ExitStack
    ) -> tuple[StepLog, SessionContext]:
        """Return the session's log, led until the stack ends unless the session has finished."""
        wanted, session_id = self._wanted, session.session_id
        if session.state is not SessionState.COMPLETED:
            session.require(SessionState.ACTIVE, operation="continue")
            leading = led(store, session_id, wait_s=wanted.wait_s, clock=wanted.clock)
            log = None
            with suppress(InvalidStateTransition):  # its former leader ended it meanwhile
                log = stack.enter_context(leading)
            found = store.load(session_id)
            if found is None:
                raise SessionNotFound(session_id, path=store.where)
            session = found
            if log is not None:
                return log, session
            if session.state is not SessionState.COMPLETED:
                session.require(SessionState.ACTIVE, operation="continue")
        return StepLog(store, session_id, clock=wanted.clock), session

    def _store(self, stack: ExitStack) -> LocalSessions:
        """Return the store; one that is opened here is closed with the session."""
        given = self._wanted.store
        if given is not None and not isinstance(given, Path | str):
            return given
        from ...wiring.bootstrap import opened_sessions

        address = os.environ.get(STORE_VARIABLE) or None if given is None else given
        path, text = (address, None) if isinstance(address, Path) else (None, address)
        store = opened_sessions(path, text)
        stack.callback(store.close)
        return store

    def _close(self, error: BaseException | None) -> None:
        core, self._core = self._core, None
        with self._stack:
            if core is None:
                return
            try:
                core.close()
            except AgentForgeError as problem:
                if error is None:
                    raise
                error.add_note(f"The session's file was not written; its log has all: {problem}")
            finally:
                if self._part is not None:
                    self._part.ended(core)

    def within(self, store: LocalSessions, **options: Any) -> SessionOpening:
        """Return it with other options, and in a store if the program names none."""
        wanted = self._wanted
        store_or = store if wanted.store is None else wanted.store
        return SessionOpening(wanted._replace(store=store_or, **options), self._part)

    # ------------------------------------------------------------------------------ as a decorator

    @overload
    def __call__(
        self, function: Callable[Concatenate[AsyncSession, P], Coroutine[Any, Any, R]], /
    ) -> Callable[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Session, P], R], /) -> Callable[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Callable[..., Any]:
        """Make a function the program of a session for each key.

        The function gets the session, then its own arguments. What it returns is the result of the
        session; once that is recorded, a call returns it without calling the function.
        """
        signature = inspect.signature(function)
        own = [*signature.parameters.values()][1:]
        opening = partial(self._called, function, signature.replace(parameters=own))
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def call_async(*args: Any, **kwargs: Any) -> Any:
                async with opening(args, kwargs) as session:
                    if not session.finished:
                        await session.finish(await function(session, *args, **kwargs))
                    return session.result

            call: Callable[..., Any] = call_async
        else:

            @wraps(function)
            def call_here(*args: Any, **kwargs: Any) -> Any:
                with opening(args, kwargs) as session:
                    if not session.finished:
                        session.finish(function(session, *args, **kwargs))
                    return session.result

            call = call_here
        call.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        call.opening = opening  # type: ignore[attr-defined]
        return call

    def _called(
        self,
        function: Callable[..., Any],
        signature: inspect.Signature,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> SessionOpening:
        """Return the session of a call: its key is that of the arguments, if none is given."""
        wanted = self._wanted
        if wanted.returns is None:
            wanted = wanted._replace(returns=result_kind(function, step=wanted.workflow))
        arguments = signature.bind(*args, **kwargs)
        arguments.apply_defaults()
        inputs = dict(arguments.arguments)
        if callable(wanted.key):
            wanted = wanted._replace(key=wanted.key(*args, **kwargs))
        elif wanted.key is None:
            words = [*inputs.values()]
            text = words[0] if len(words) == 1 and isinstance(words[0], str) else _text(inputs)
            wanted = wanted._replace(key=f"{wanted.workflow}/{text}" if words else None)
        return SessionOpening(wanted._replace(inputs=inputs or None))


def _manager(store: LocalSessions, wanted: SessionTerms) -> SessionManager:
    from ...wiring.bootstrap import build_manager

    return build_manager(store=store, channel=wanted.channel, observers=wanted.observers)


def digest(inputs: object) -> str | None:
    """Return a digest of a program's arguments; None for none.

    Raises:
        TypeError: They have values that can't be recorded.
    """
    if inputs is None:
        return None
    return hashlib.sha256(_text(inputs).encode("utf-8", "surrogatepass")).hexdigest()


def _text(inputs: object) -> str:
    try:
        return text_of(Dumping(None).value(inputs, 0))
    except Unfit as error:
        raise TypeError(f"the program's arguments can't be compared: {error}") from error


def part_of(
    parent: SessionCore,
    workflow: str,
    key: str | None,
    budget: int | Budget,
    inputs: object,
    returns: object | None,
) -> SessionOpening:
    """Return a session that is a part of another one; see `Session.session`."""
    frame = running_frame(parent)
    [place] = parent.scope().take(f"session {workflow}")
    wanted = SessionTerms(
        workflow=workflow,
        key=f"{parent.terms.key}/{place.path if key is None else key}",
        budget=Budget(budget) if isinstance(budget, int) else budget,
        inputs=inputs,
        returns=returns,
    )
    own = parent.terms.wanted
    shared = {name: getattr(own, name) for name in _SHARED}
    return SessionOpening(wanted._replace(**shared), PartOf(parent, place, frame))


@overload
def session(
    workflow: Callable[Concatenate[AsyncSession, P], Coroutine[Any, Any, R]], /
) -> Callable[P, Coroutine[Any, Any, R]]: ...
@overload
def session(workflow: Callable[Concatenate[Session, P], R], /) -> Callable[P, R]: ...
@overload
def session(
    workflow: str,
    /,
    *,
    key: str | Callable[..., str] | None = None,
    budget: int | Budget = DEFAULT_TOKEN_BUDGET,
    goal: str | None = None,
    title: str | None = None,
    tags: Iterable[str] = (),
    inputs: object = None,
    returns: object | None = None,
    store: LocalSessions | Path | str | None = None,
    wait_s: float = 0.0,
    patience_s: float | None = None,
    channel: QuestionChannel | None = None,
    observers: Iterable[SessionObserver] = (),
    clock: Clock = utc_now,
    sleep: Callable[[float], Any] | None = None,
) -> SessionOpening: ...
def session(
    workflow: str | Callable[..., Any],
    /,
    *,
    budget: int | Budget = DEFAULT_TOKEN_BUDGET,
    **options: Any,
) -> Any:
    """Open a durable session: begin it, go on with it, or find it finished.

        with session("report", key=topic, budget=20_000) as s:
            outline = s.step("outline", write_outline, topic)
            drafts = s.map("draft", write_part, outline.parts, concurrency=4)
            s.finish(drafts)

    Also `async with`, and a decorator: `@session("report")`, or `@session` under the function's own
    name. One process leads a session at a time, and loses the lead when it dies. At the end of the
    block an unfinished session stays open for the next start.

    Args:
        workflow: The name of the program.
        budget: The most that it may spend: tokens, or a `Budget`. The token budget counts at its
            creation; `agentforge session budget` extends it.
        **options: `key` leads to the session: the same key goes on with the same one. By default
            the workflow's name; for a decorator its arguments, or what a function returns for them.
            `goal`, `title` and `tags` of the session, and `inputs`, the program's
            arguments, which have to be the same at each start. `returns`, the type of the result.
            `store`: an open one, a folder or an address; by default as for the commands. `wait_s`:
            how long to wait for another process that leads it. `patience_s`: how long each wait for
            a signal, an answer or a moment may take before `StillWaiting` is raised; without end if
            None. `channel` asks a person, `observers` see the session's events; `clock` and `sleep`
            are the time.

    Raises:
        SessionLed: Another process leads it.
        KeyTaken: The key belongs to another workflow.
        ArgumentsDiffer: It was started with other arguments.
        InvalidStateTransition: It is paused or was aborted.
        SessionNotAdopted: It came with a repository, and this person did not adopt it.
    """
    if not isinstance(workflow, str):
        return SessionOpening(SessionTerms(workflow.__name__))(workflow)
    limit = Budget(budget) if isinstance(budget, int) else budget
    return SessionOpening(SessionTerms(workflow, budget=limit, **options))
