"""Output of a command: for a person or for a program, never for both.

JSON output is one document on standard output (one per line for commands that follow something) and
nothing else. For people, `cli.text` makes the contents of sessions safe first. If the reader closes
the pipe (`| head`), the output ends but the work goes on.
"""

from __future__ import annotations

import io
import json
import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TextIO

from ....base.errors import AgentForgeError
from .errors import ConfirmationNeeded, Declined, OutputLost
from .text import safe, safe_lines

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Document = Mapping[str, Any]


def to_json(payload: object, *, indent: int | None = None) -> str:
    """Return JSON in ASCII, so that no terminal can act on its content."""
    text = json.dumps(payload, indent=indent, default=_jsonable, ensure_ascii=True)
    return text.replace("\x7f", "\\u007f")


def _jsonable(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)


_LOOK_S: Final = 0.5


def typed_line(prompt: str) -> str:
    """Show a prompt on standard error and return the line that is typed; empty at the end of input.

    A Ctrl-C that comes between the prompt and the wait is noticed within half a second: a read that
    has started would not end for it.
    """
    sys.stderr.write(f"{prompt} ")
    sys.stderr.flush()
    keyboard = sys.__stdin__
    if keyboard is not None and keyboard is sys.stdin and keyboard.isatty():
        while not select.select([keyboard], [], [], _LOOK_S)[0]:
            pass
    return sys.stdin.readline()


class Output:
    """Switch between JSON and text.

    Attributes:
        json: Whether the output is JSON, for a program.
        color: Whether colour is allowed.
        closed: Whether the reader closed its end.
    """

    def __init__(self, *, json: bool = False, color: bool = True) -> None:
        self.json = json
        self.color = color
        self.closed = False
        self._console: Console | None = None

    # ------------------------------------------------------------------------------- programs

    def document(self, payload: Document) -> None:
        """Write the one document of a command."""
        self._write(f"{to_json(payload, indent=2)}\n")

    def wrote(self, payload: Document | Callable[[], Document]) -> bool:
        """Write the one document of a command if the output is JSON; return whether it is."""
        if self.json:
            self.document(payload() if callable(payload) else payload)
        return self.json

    def json_line(self, payload: Document) -> None:
        """Write one of the documents of a command that follows something."""
        self._write(f"{to_json(payload)}\n")

    # --------------------------------------------------------------------------------- people

    def outcome(self, payload: Document, *texts: str | None) -> None:
        """Write what a command did: the one document for programs, or lines for people."""
        if not self.wrote(payload):
            for text in filter(None, texts):
                self.line(text)

    def line(self, text: str = "") -> None:
        """Write one line, made safe."""
        self._write(f"{safe(text)}\n")

    def address(self, what: str, url: str) -> None:
        """Write an address that can be opened once, as "{what} at {url}"."""
        if self.json:
            self.json_line({"url": url})
            return
        more = "; Enter prints another" if sys.stdin is not None and sys.stdin.isatty() else ""
        self.line(f"{what} at {url}")
        self.line(
            f"Open it on this machine, once and within ten minutes{more}. Ctrl-C ends the server."
        )

    def lines(self, text: str) -> None:
        """Write text of several lines, made safe."""
        self._write(f"{safe_lines(text)}\n")

    def page(self, text: str) -> None:
        """Write a document for another program unchanged."""
        self._write(text)

    def table(
        self,
        *columns: str,
        rows: Iterable[Sequence[object]],
        right: Iterable[str] = (),
        empty: str | None = None,
    ) -> None:
        """Write a table, its cells made safe; without rows, write the line `empty` if given."""
        found = list(rows)
        if empty is not None and not found:
            self.line(empty)
            return
        from .render import table

        self.show(table(*columns, rows=found, right=right))

    def show(self, *renderables: RenderableType) -> None:
        """Write rich content, whose text the caller made safe.

        The terminal wraps the text, so that copied text has no line breaks.
        """
        try:
            for one in renderables:
                self._show(one)
        except OSError as error:
            self.close()
            raise OutputLost(error) from error

    def _show(self, renderable: RenderableType) -> None:
        from rich.text import Text

        soft = isinstance(renderable, Text)
        if self.console.is_terminal:
            self.console.print(renderable, soft_wrap=soft)
            return
        with self.console.capture() as captured:
            self.console.print(renderable, soft_wrap=soft)
        lines = captured.get().splitlines()
        self._write("".join(f"{line.rstrip()}\n" for line in lines))

    @property
    def console(self) -> Console:
        """The terminal (or pipe) at standard output; created on first use."""
        if self._console is None:
            from .console import OutputConsole

            self._console = OutputConsole(color=self.color, on_broken_pipe=self.close)
        return self._console

    @property
    def interactive(self) -> bool:
        """Whether standard output is a terminal, so that lines may be redrawn."""
        if self.json or not sys.stdout.isatty():  # colour can be forced into a pipe; this can't
            return False
        return self.console.is_terminal and not self.console.is_dumb_terminal

    def remark(self, text: str) -> None:
        """Write a line to standard error, apart from the result."""
        remark(text)

    def ask(self, question: str, *, yes: bool) -> None:
        """Return if the person confirms, or confirmed with `--yes`.

        Raises:
            ConfirmationNeeded: There is no terminal.
            Declined: The person did not confirm.
        """
        if yes:
            return
        if self.json or not sys.stdin.isatty():
            raise ConfirmationNeeded(f'"{question}"')
        if typed_line(f"{safe(question)} [y/N]").strip().lower() not in {"y", "yes"}:
            raise Declined

    def can_ask(self) -> bool:
        """Return whether a person can be asked: there is a terminal and the output is not JSON."""
        return not self.json and sys.stdin is not None and sys.stdin.isatty()

    def choose(self, question: str, letters: str) -> str:
        """Ask until the answer begins with one of some letters, and return that.

        Raises:
            KeyboardInterrupt: The input ended.
        """
        while True:
            line = typed_line(safe(question))
            if not line:
                raise KeyboardInterrupt
            letter = line.strip()[:1].lower()
            if letter and letter in letters:
                return letter

    # -------------------------------------------------------------------------------- plumbing

    def close(self) -> None:
        """Discard further output, because the reader closed its end."""
        self.closed = True
        discard(sys.stdout)

    def _write(self, text: str) -> None:
        if self.closed:
            return
        with writing(sys.stdout, on_end=self.close):
            sys.stdout.write(text)
            sys.stdout.flush()


@contextmanager
def writing(stream: TextIO, *, on_end: Callable[[], None] | None = None) -> Iterator[None]:
    """Let the block write to a stream; discard the rest once the stream can't be written.

    Args:
        stream: The stream.
        on_end: Called to discard further output, instead of `discard`.

    Raises:
        OutputLost: The output can't be written. A reader that closed its end is no error.
    """
    try:
        yield
    except OSError as error:
        if on_end is not None:
            on_end()
        else:
            discard(stream)
        if not isinstance(error, BrokenPipeError):
            raise OutputLost(error) from error


def discard(stream: TextIO) -> None:
    """Discard the buffer and further output of `stream`."""
    with suppress(OSError, ValueError, io.UnsupportedOperation):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)


def remark(text: str) -> None:
    """Write a line to standard error; ignore failures."""
    try:
        sys.stderr.write(f"{safe(text)}\n")
        sys.stderr.flush()
    except OSError:  # the reader closed its end, or the disk is full: no one can be informed
        discard(sys.stderr)


def public_fields(error: BaseException) -> dict[str, Any]:
    """Return the fields of an error that a program can use."""
    fields = error.fields if isinstance(error, AgentForgeError) else vars(error)
    return {name: _public(value) for name, value in fields.items() if not name.startswith("_")}


def _public(value: object) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [str(item) for item in value]
    return value.value if isinstance(value, Enum) else str(value)
