"""Commands for sessions that a person's own program leads: run it, send it a signal."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout, suppress
from typing import Any, Final, get_type_hints

import typer

from .....base.errors import AgentForgeError
from ...context import Cli
from ...options import SessionId, argument, misuse, option
from ...output.documents import program_document, state_document
from ...output.errors import Interrupted, ProgramFailed
from ...output.text import counted_of

_NAMED: Final = "MODULE:FUNCTION"


def run(
    cli: Cli,
    program: str = argument(_NAMED),
    arguments: list[str] | None = argument("[ARG]...", default=None),
    *,
    key: str | None = option("--key KEY"),
) -> None:
    """Run a program of yours in its session: begin it, or go on where it was cut off.

    Recorded steps are not run again. A program that has finished runs nothing. The module is found
    from the current folder, as by `python -m`.

    Args:
        program: A function decorated with @session, or one whose first parameter is a session.
        arguments: The function's own arguments: text, or JSON where they are annotated otherwise.
        key: Leads to the session; by default as the program says, else from its arguments.
    """
    words = ["session", "run", program, *(arguments or ())]
    words += [] if key is None else ["--key", key]
    led = _Led(cli, cli.command(*words))
    with redirect_stdout(sys.stderr) if cli.output.json else nullcontext():
        led.attempt(lambda: _run(led, program, arguments or [], key))
    store = led.store
    session = store.load(led.session_id)
    assert session is not None  # noqa: S101 (it was led until now)
    cli.output.outcome(
        {**state_document(session, store), **program_document(session, store)},
        f"Session {session.session_id} is {session.state.value}.",
    )


def _run(led: _Led, program: str, texts: list[str], key: str | None) -> None:
    from ....durable import session as durable

    function = _function(program)
    if not hasattr(function, "opening"):
        function = durable(function.__name__)(function)
    work = inspect.unwrap(function)
    given = _values(work, texts)
    chosen = {} if key is None else {"key": key}
    opening = function.opening(given, {}).within(
        led.cli.store(), observers=led.cli.observers(), **chosen
    )
    if not inspect.iscoroutinefunction(work):
        with opening as session:
            led.begin(session)
            if not session.finished:
                session.finish(work(session, *given))
        return
    import asyncio

    async def run_async() -> None:
        async with opening as session:
            led.begin(session)
            if not session.finished:
                await session.finish(await work(session, *given))

    asyncio.run(run_async())


class _Led:
    """A session while its program runs.

    Attributes:
        cli: The global options.
        command: The command line that goes on with it.
        session_id: The session; empty before it is opened.
        store: Where it is.
    """

    def __init__(self, cli: Cli, command: str) -> None:
        self.cli = cli
        self.command = command
        self.session_id = ""
        self.store = cli.store()

    def begin(self, session: Any) -> None:
        """Say where the session is, and how far it came."""
        core = session._core
        self.session_id, self.store = session.id, core.store
        recorded = counted_of(len(core.log.history), "recorded step")
        came = f"goes on after {recorded}" if len(core.log.history) else "begins"
        came = f"has finished, with {recorded}" if session.finished else came
        self.cli.output.remark(f"Session {session.id} {came}: {core.store.where_is(session.id)}")

    def attempt(self, act: Callable[[], None]) -> None:
        """Run the program; name the command that goes on if it does not come to its end.

        Raises:
            Interrupted: The person interrupted it.
            ProgramFailed: It raised an exception of its own.
        """
        try:
            act()
        except KeyboardInterrupt:
            text = "interrupted; what was recorded is saved"
            raise Interrupted(
                f"{text}. To go on: {self.command}", session_id=self.session_id or None
            ) from None
        except typer.BadParameter:
            raise
        except AgentForgeError:
            if self.session_id and not self.cli.output.json:
                self.cli.output.remark(f"To go on: {self.command}")
            raise
        except Exception as error:
            import traceback

            traceback.print_exception(error)
            reason = f"{type(error).__name__}: {error}"
            raise ProgramFailed(reason, command=self.command) from error


def _function(program: str) -> Any:
    """Return the function that a command line names; its module runs as it is imported.

    Raises:
        typer.BadParameter: There is none.
    """
    module_name, _, name = program.partition(":")
    if not module_name or not name:
        raise misuse(_NAMED, f"{program!r} names no function; write it as reports:write")
    sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # a module that the person's own imports
        raise misuse(_NAMED, f"there is no module {error.name} here or on Python's path") from None
    except AttributeError as error:
        raise misuse(_NAMED, str(error)) from None
    if not callable(found):
        raise misuse(_NAMED, f"{program} is no function")
    return found


def _values(work: Callable[..., Any], texts: list[str]) -> tuple[Any, ...]:
    """Return a function's own arguments; the first one is the session.

    Raises:
        typer.BadParameter: They are not those of the function.
    """
    own = list(inspect.signature(work).parameters.values())[1:]
    hints: dict[str, Any] = {}
    with suppress(NameError, TypeError):  # annotations that exist for type checkers alone
        hints = get_type_hints(work)
    values: list[Any] = []
    for index, text in enumerate(texts):
        parameter = own[min(index, len(own) - 1)] if own else None
        kind = str if parameter is None else hints.get(parameter.name, str)
        try:
            values.append(text if kind is str else json.loads(text))
        except ValueError:
            raise misuse("ARG", f"{text!r} is no JSON, and {parameter} is no text") from None
    try:
        inspect.signature(work).bind(None, *values)
    except TypeError as error:
        raise misuse("ARG", str(error)) from None
    return tuple(values)


def signal(
    cli: Cli,
    session_id: SessionId,
    name: str = argument("NAME"),
    value: str | None = option("--value JSON"),
) -> None:
    """Send a signal to the program that leads a session; it may wait for it, or come to it later.

    Args:
        name: What the program waits for: s.wait_for("NAME").
        value: What the wait returns: JSON, as '"yes"' or '{"pages": 3}'; null by default.
    """
    from .....harness.steps.program_sessions import send_signal

    try:
        sent = None if value is None else json.loads(value)
    except ValueError as error:
        raise misuse("--value", f"is no JSON ({error}); quote text twice: '\"yes\"'") from None
    session_id = cli.own_id(session_id)
    send_signal(cli.store(), session_id, name, sent, by="person", clock=cli.outside.clock)
    cli.output.outcome(
        {"session_id": session_id, "signal": name, "value": sent},
        f"Sent {name} to session {session_id}.",
    )
