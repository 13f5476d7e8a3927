"""The synchronous face of a durable session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from typing import Any, TypeVar, TypeVarTuple, Unpack

from ...base.clock import as_utc
from . import waits
from .face import SessionFace, kind_of_race, raced
from .flows import Flow, called, drive
from .options import Budget, StepGiven, StepOptions
from .steps import step
from .thread_calls import first_result, in_rounds

R = TypeVar("R")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Session(SessionFace):
    """A durable session of a program, led by this process while its block runs.

    A step is identified by its name and its ordinal: the third `s.step("draft", ...)` is draft#3.
    Its function runs at least once while the program runs, and is recorded exactly once; what it
    returns is read back from what was recorded, in the first run too.
    """

    def step(
        self,
        name: str,
        function: Callable[[*Ts], R],
        /,
        *args: *Ts,
        **options: Unpack[StepGiven],
    ) -> R:
        """Run a function once in the session's life, and return its recorded result.

        An exception ends the attempt: it is recorded with what it cost, and passes through after
        the last one; the next start runs the step again.

        Args:
            name: The step's name.
            function: The function. If it declares a keyword-only `idempotency_key`, it gets the
                step's.
            *args: Its arguments.
            **options: How it runs; see `StepGiven`.

        Raises:
            StepFailed: An exception that is final, or the result can't be recorded.
            StepTimeout: It took too long.
            BudgetReached: The budget does not cover it; it was not called.
            ProgramChanged: The program called other steps before.
            ResultNotKept: No value of the result's type can be recorded; it was not called.
            NestedStep: It is inside of a step of this name.
            SessionFinished: The session has finished without it.
            LeadLost: Another process leads the session by now.
        """
        [place] = self._places(name)
        how = self._options(name, function, options)
        result: R = self._driven(step(self._core, place, function, args, how))
        return result

    def map(
        self,
        name: str,
        function: Callable[[T], R],
        items: Iterable[T],
        /,
        *,
        concurrency: int = 1,
        **options: Unpack[StepGiven],
    ) -> list[R]:
        """Run a step for each item, so many at once, and return the results in order.

        After a failure no further one starts; those that run are awaited and recorded, and the
        first failure in the items' order is raised. Arguments as for `step`.
        """
        every = list(items)
        places = self._places(name, len(every))
        how = self._options(name, function, options)

        def run(number: int) -> R:
            flow = step(self._core, places[number], function, (every[number],), how)
            result: R = self._driven(flow)
            return result

        works = [partial(run, number) for number in range(len(every))]
        return in_rounds(works, concurrency=concurrency, name=name)

    def race(self, name: str, *functions: Callable[[], R], returns: object | None = None) -> R:
        """Run functions against each other in one step, and return the first result.

        The others go on in their threads: their results are discarded, what they spend is charged.

        Raises:
            ExceptionGroup: Every one failed.
        """
        [place] = self._places(name)
        kind = kind_of_race(functions, name) if returns is None else returns

        def racing() -> R:
            runs = raced(self._core, functions)
            first: R = first_result([partial(called, run) for run in runs], name=place.path)
            return first

        flow = step(self._core, place, racing, (), StepOptions(kind=kind))
        result: R = self._driven(flow)
        return result

    def sleep(self, seconds: float) -> None:
        """Wait; the time counts from the first start of the program, and while none runs."""
        [place] = self._places("sleep")
        self._driven(waits.sleep_until(self._core, place, partial(self._until, seconds)))

    def sleep_until(self, moment: datetime) -> None:
        """Wait until a moment, which the first start decides; one without a zone is in UTC."""
        [place] = self._places("sleep")
        self._driven(waits.sleep_until(self._core, place, lambda: as_utc(moment)))

    def wait_for(self, signal: str) -> Any:
        """Wait for `agentforge session signal`, and return its value; each call gets the next one.

        Raises:
            StillWaiting: It did not come within the session's patience.
        """
        [place] = self._places(f"wait for {signal}")
        return self._driven(waits.wait_for(self._core, place, signal))

    def ask(
        self, prompt: str, *, options: Sequence[str] | None = None, title: str | None = None
    ) -> str:
        """Ask a person, and return the label of their choice or their own words.

        They are asked once, by the configured channel, and may answer while no process runs.

        Raises:
            StillWaiting: There was no answer within the session's patience.
            StepFailed: They declined, or the question was withdrawn.
        """
        question = waits.question(prompt, title, options)
        [place] = self._places("ask")
        return self._driven(waits.ask(self._core, place, question))

    def phase(self, name: str) -> None:
        """Enter a phase, once: a checkpoint of the session's file and of its workspace."""
        [place] = self._places(f"phase {name}")
        self._driven(waits.enter_phase(self._core, place, name))

    def version(self, name: str, newest: int) -> int:
        """Return which version of a part of the program this session runs.

        A session that comes here for the first time runs the newest, for good; one that was past
        this call before it was written runs version 1.
        """
        return self._driven(waits.version(self._core, name, newest))

    def session(
        self,
        workflow: str,
        *,
        key: str | None = None,
        budget: int | Budget,
        inputs: object = None,
        returns: object | None = None,
    ) -> AbstractContextManager[Session]:
        """Return a part of this session that is a session itself, with a budget of its own.

        Its budget is reserved of this one's while it runs, and what it spent is charged here when
        it finishes. Once it has finished, it returns its result and runs nothing.

        Args:
            workflow: The part's name.
            key: Names it among the parts of this session; by default the number of the call does.
            budget: Its budget.
            inputs: As for `session`.
            returns: As for `session`.
        """
        part: AbstractContextManager[Session] = self._opened_part(
            workflow, key, budget, inputs, returns
        )
        return part

    def finish(self, result: object = None) -> None:
        """Record the program's result, and complete the session; ignored once it has finished."""
        self._core.finish(result, self._returns)

    def _driven(self, flow: Flow[T]) -> T:
        return drive(flow, sleep=self._sleep)
