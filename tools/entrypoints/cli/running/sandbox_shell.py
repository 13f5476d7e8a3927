"""Run code in the sandbox at a terminal: show output, cancel, read statements and answers.

On a terminal, output is made safe and shown as it arrives; elsewhere it is written unchanged.
"""

from __future__ import annotations

import codeop
import json
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TextIO

from ....base.clock import utc_now
from ....sandbox import RequestFailed, SandboxError
from ..output.output import Output, remark, writing
from ..output.text import moment_text, safe_lines

if TYPE_CHECKING:
    from ....base.cancellation import CancelToken
    from ....sandbox import ProgramRequest, Sandbox, SandboxResult, Suspension

STREAMS: Final = ("stdout", "stderr")
_ENDS: Final = frozenset({"exit", "exit()", "quit", "quit()"})
_HELPER: Final = "__agentforge_input__"

_FILE: Final = "/app/<input {}>"
"""The name of a statement's code: one of the workspace, so that it is shown where it waits."""

_TURN: Final = """\
async def __agentforge_input__(source, name):
    import ast, linecache, sys
    names = vars(sys.modules['__main__'])
    names.pop('__agentforge_input__', None)
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    try:
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        awaited = eval(compile(source, name, 'single', flags, dont_inherit=True), names)
        if awaited is not None:
            await awaited
    except SystemExit:
        raise
    except BaseException as error:
        error = error.with_traceback(error.__traceback__.tb_next)
        sys.excepthook(type(error), error, error.__traceback__)
        raise SystemExit(1) from None
await __agentforge_input__({source!a}, {name!a})
"""
"""Runs a statement as a Python prompt does: the value of an expression is shown."""


def write_bytes(stream: TextIO, data: bytes) -> None:
    """Write bytes unchanged.

    Raises:
        OutputLost: They can't be written. A reader that closed its end is no error.
    """
    with writing(stream):
        stream.flush()
        stream.buffer.write(data)
        stream.flush()


def write_safely(stream: TextIO, text: str) -> None:
    """Write text to a terminal, with everything that the terminal could act on spelled out.

    Raises:
        OutputLost: It can't be written. A reader that closed its end is no error.
    """
    with writing(stream):
        stream.write(safe_lines(text))
        stream.flush()


class GuestOutput:
    """Writes the output of one execution.

    A terminal shows each line as it is printed. Any other stream gets the output at the end, from
    the result: it is complete, and the code needs no host call per line.
    """

    def __init__(self) -> None:
        self._shown: dict[str, list[str]] = {
            name: [] for name in STREAMS if getattr(sys, name).isatty()
        }

    def callback(self, name: str) -> Callable[[str], object] | None:
        """Return the callback that shows a stream's output as it arrives, or None."""
        if name not in self._shown:
            return None

        def show(text: str) -> None:
            self._shown[name].append(text)
            write_safely(getattr(sys, name), text)

        return show

    def finish(self, result: SandboxResult) -> None:
        """Write the rest of the result's output."""
        for name in STREAMS:
            whole: str = getattr(result, name)
            if name not in self._shown:
                write_bytes(getattr(sys, name), whole.encode("utf-8", "replace"))
                continue
            shown = "".join(self._shown[name])
            if not whole.startswith(shown):
                remark(f"note: {name} was written to by other ways too; this is all of it:")
                shown = ""
            write_safely(getattr(sys, name), whole[len(shown) :])
            if whole and not whole.endswith("\n"):
                write_safely(getattr(sys, name), "\n")


def run_cancellable(act: Callable[[CancelToken], SandboxResult]) -> SandboxResult:
    """Run code so that Ctrl-C cancels it; the result records the cancellation.

    Args:
        act: Runs the code; called on a separate thread.
    """
    from ....base.cancellation import CancelToken

    token = CancelToken()
    ended = threading.Event()
    results: list[SandboxResult] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(act(token))
        except BaseException as error:  # noqa: BLE001 (raised again in the waiting thread)
            errors.append(error)
        finally:
            ended.set()

    threading.Thread(target=work, name="sandbox-command", daemon=True).start()
    while not ended.is_set():
        try:
            ended.wait()
        except KeyboardInterrupt:
            if token.cancelled:
                raise
            token.cancel()
    if errors:
        raise errors[0]
    return results[0]


def is_complete(source: str) -> bool:
    """Return whether a statement is complete rather than continued on the next line.

    Source that this Python can't parse is left to the sandbox's Python, which may be later.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return codeop.compile_command(source, symbol="single") is not None
        except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError):
            lines = source.split("\n")
            return not lines[0].rstrip().endswith(":") or not lines[-1].strip()


class Shell:
    """Reads statements, runs each, and shows its result; a waiting program gets its answers."""

    def __init__(
        self, sandbox: Sandbox, output: Output, document: Callable[[SandboxResult], dict[str, Any]]
    ) -> None:
        """Create a shell.

        Args:
            sandbox: A durable one; its program goes on where it was.
            output: Receives the results.
            document: Makes the JSON document of a result.
        """
        self._sandbox = sandbox
        self._output = output
        self._document = document
        self._turns = 0
        self._is_undone = False
        self._interactive = not output.json and sys.stdin.isatty() and sys.stdout.isatty()

    def run(self) -> None:
        """Read and run until the input ends."""
        if self._interactive:
            with suppress(ImportError):
                import readline  # noqa: F401 (gives `input` line editing and history)
            remark("Ctrl-C ends what runs, Ctrl-D the shell.")
        waiting = self._sandbox.suspended
        if waiting is None or self._go_on(waiting):
            for source in self._statements():
                if not self._statement(source):
                    break
        if self._interactive:
            self._output.line()

    # ------------------------------------------------------------------------------- reading

    def _statements(self) -> Iterator[str]:
        lines: list[str] = []
        while True:
            try:
                line = self._line("... " if lines else ">>> ")
            except KeyboardInterrupt:
                if not self._interactive:
                    raise
                self._output.line()
                lines.clear()
                continue
            if line is None:
                break
            if not lines and line.strip() in _ENDS:
                return
            if not lines and not line.strip():
                continue
            lines.append(line)
            source = "\n".join(lines)
            if is_complete(source):
                lines.clear()
                yield f"{source}\n"
        if lines:
            yield "\n".join([*lines, ""])

    def _line(self, prompt: str) -> str | None:
        if self._interactive:
            try:
                return input(prompt)
            except EOFError:
                return None
        line = sys.stdin.readline()
        return line.rstrip("\r\n") if line else None

    def _answer(self, waiting: Suspension) -> dict[int, Any] | None:
        """Return the answer to what a program waits for first; None if it stays unanswered.

        Ctrl-C fails the request, which the program notices as an exception.
        """
        asked = next((one for one in waiting.requests if one.kind != "sleep"), None)
        if not waiting.requests and waiting.wake_at is None:
            return {}  # its process ended within the turn
        try:
            if asked is None:
                return self._slept(waiting)
            line = self._line("" if asked.kind == "input" else "answer: ")
        except KeyboardInterrupt:
            if not (self._interactive and waiting.requests):
                raise
            self._output.line()
            failed = RequestFailed("interrupted at the prompt")
            return {(asked or waiting.requests[0]).id: failed}
        return None if line is None else {asked.id: _value_of(line, asked)}

    def _slept(self, waiting: Suspension) -> dict[int, Any]:
        assert waiting.wake_at is not None  # noqa: S101 (a program that waits for time says until when)
        left = (waiting.wake_at - utc_now()).total_seconds()
        threading.Event().wait(min(max(left, 0.0), threading.TIMEOUT_MAX))
        return {}

    # ------------------------------------------------------------------------------- running

    def _statement(self, source: str) -> bool:
        """Run a statement to its end; return False if its program waits for more than is typed."""
        self._turns += 1
        code = _TURN.format(source=source, name=_FILE.format(self._turns))
        waiting = self._shown(lambda **options: self._sandbox.execute(code, **options))
        return waiting is None or self._go_on(waiting)

    def _go_on(self, waiting: Suspension | None) -> bool:
        """Ask for answers until the program ends; return False if it waits for one still."""
        while waiting is not None:
            if not self._output.json:
                for text in _lines_of(waiting):
                    remark(text)
            answers = self._answer(waiting)
            if answers is None:
                return False
            waiting = self._shown(partial(self._sandbox.resume, answers))
            if self._is_undone and not answers:
                return False  # nobody is asked before it would be tried again
        return True

    def _shown(self, act: Callable[..., SandboxResult]) -> Suspension | None:
        """Run code, show what it did, and return what its program waits for."""
        guest = None if self._output.json else GuestOutput()
        self._is_undone = True
        try:
            result = run_cancellable(
                lambda token: act(
                    on_stdout=guest.callback("stdout") if guest else None,
                    on_stderr=guest.callback("stderr") if guest else None,
                    cancel=token,
                )
            )
            if result.metadata["turn_lost"] is None and result.suspended is None:
                self._sandbox.snapshot()  # what ran is on disk before the next statement is read
        except SandboxError as error:
            if not self._interactive:
                raise
            remark(f"error: {error}")
            return self._sandbox.suspended
        undone = result.metadata["turn_lost"]
        self._is_undone = undone is not None
        if guest is None:
            self._output.json_line({"turn": self._turns, **self._document(result)})
            return result.suspended
        guest.finish(result)
        if undone is not None:
            reason = {"cancelled": "interrupted"}.get(str(result.trapped), f"stopped ({undone})")
            remark(f"{reason}: the variables are those of before, files as they are now")
        elif result.suspended is None and result.exit_code not in (0, 1):
            remark(f"note: the code exited with {result.exit_code}")
        return result.suspended


def _lines_of(waiting: Suspension) -> Iterator[str]:
    """Describe where a program waits, and for what."""
    functions = [frame.function for frame in waiting.where]
    for frame in waiting.where[functions.index(_HELPER) + 1 if _HELPER in functions else 0 :]:
        names = "".join(f"; {name} = {value}" for name, value in frame.names.items())
        yield f"  {frame.file}:{frame.line} in {frame.function}{names}"
    for request in waiting.requests:
        match request.kind:
            case "ask":
                title = "" if request.title is None else f"[{request.title}] "
                yield f"{title}{request.question}"
                yield from (f"  {at}. {one}" for at, one in enumerate(request.options, 1))
            case "call":
                arguments = json.dumps(dict(request.arguments), default=str)
                yield f"the result of {request.tool}({arguments}), as JSON:"
    if waiting.wake_at is not None:
        yield f"asleep until {moment_text(waiting.wake_at)}"


def _value_of(line: str, request: ProgramRequest) -> Any:
    """Return what a typed line answers to a request: an option by its number, JSON for a call."""
    if request.kind == "call":
        try:
            return json.loads(line)
        except ValueError:
            return line
    chosen = [_option(one.strip(), request) for one in line.split(",")]
    return chosen if request.multi_select else _option(line, request)


def _option(text: str, request: ProgramRequest) -> str:
    number = int(text) if text.isascii() and text.isdigit() else 0
    return request.options[number - 1] if 0 < number <= len(request.options) else text
