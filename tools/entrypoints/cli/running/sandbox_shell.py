"""Run code in the sandbox at a terminal: show output, cancel, and read statements at a prompt.

On a terminal, output is made safe and shown as it arrives; elsewhere it is written unchanged.
"""

from __future__ import annotations

import codeop
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TextIO

from ..output.output import Output, remark, writing
from ..output.text import safe_lines

if TYPE_CHECKING:
    from ....base.cancellation import CancelToken
    from ....sandbox import Sandbox, SandboxResult

STREAMS: Final = ("stdout", "stderr")
_ENDS: Final = frozenset({"exit", "exit()", "quit", "quit()"})

_TURN: Final = """\
def __agentforge_input__(source, name):
    import linecache, sys
    names = vars(sys.modules['__main__'])
    names.pop('__agentforge_input__', None)
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    try:
        exec(compile(source, name, 'single', dont_inherit=True), names)
    except SystemExit:
        raise
    except BaseException as error:
        error = error.with_traceback(error.__traceback__.tb_next)
        sys.excepthook(type(error), error, error.__traceback__)
        raise SystemExit(1) from None
__agentforge_input__({source!a}, {name!a})
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
    """Reads statements, runs each, and shows its result."""

    def __init__(
        self, sandbox: Sandbox, output: Output, document: Callable[[SandboxResult], dict[str, Any]]
    ) -> None:
        """Create a shell.

        Args:
            sandbox: Keeps its interpreter between statements.
            output: Receives the results.
            document: Makes the JSON document of a result.
        """
        self._sandbox = sandbox
        self._output = output
        self._document = document
        self._turns = 0
        self._reported_lost = False
        self._interactive = not output.json and sys.stdin.isatty() and sys.stdout.isatty()

    def run(self) -> None:
        """Read and run until the input ends."""
        if self._interactive:
            with suppress(ImportError):
                import readline  # noqa: F401 (gives `input` line editing and history)
            remark("Ctrl-C ends what runs, Ctrl-D the shell.")
        for source in self._statements():
            self._turn(source)
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

    # ------------------------------------------------------------------------------- running

    def _turn(self, source: str) -> None:
        from ....sandbox import SandboxError

        self._turns += 1
        code = _TURN.format(source=source, name=f"<input {self._turns}>")
        guest = None if self._output.json else GuestOutput()
        try:
            result = run_cancellable(
                lambda token: self._sandbox.execute(
                    code,
                    on_stdout=guest.callback("stdout") if guest else None,
                    on_stderr=guest.callback("stderr") if guest else None,
                    cancel=token,
                )
            )
        except SandboxError as error:
            if not self._interactive:
                raise
            remark(f"error: {error}")
            return
        if guest is None:
            self._output.json_line({"turn": self._turns, **self._document(result)})
            return
        lost = result.metadata["state_lost"]
        if lost is not None and not self._reported_lost:
            remark(f"note: this is a new interpreter, without the variables of before ({lost})")
        guest.finish(result)
        self._reported_lost = result.trapped is not None and result.exit_code is None
        if self._reported_lost:
            reason = {"cancelled": "interrupted"}.get(
                str(result.trapped), f"stopped ({result.trapped})"
            )
            remark(f"{reason}: the variables are lost, the files are kept")
        elif result.exit_code not in (0, 1):
            remark(f"note: the code exited with {result.exit_code}")
