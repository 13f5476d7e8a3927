"""Reads Esc as a separate key, even if another key follows at once.

A terminal sends Esc as the byte that also starts the sequences for arrow keys and for Alt with a
letter. Textual reads Esc and a key that arrives within 100 ms as Alt with that key. Over a slow
line or on a busy machine both arrive together, however far apart they were pressed: Esc, s became
Alt+S, and Esc, Enter became Enter alone. No key here is bound to Alt, so only `ESC [` and `ESC O`
start a sequence.
"""

from __future__ import annotations

import os
import re
import selectors
import time
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable
from typing import Final

from textual import events
from textual._parser import ParseTimeout
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message
from textual.messages import ExitApp

_ESC: Final = "\x1b"
_CSI: Final = f"{_ESC}["
_SS3: Final = f"{_ESC}O"
_SS3_LENGTH: Final = 3
_WHOLE: Final = re.compile(r"\x1b\[(?!\[|M)[0-?]*[ -/]*[@-~]")
"""A complete control sequence (ECMA-48, 5.4), except `ESC [ [` of the Linux console and `ESC [ M`
of a mouse, which continue."""

_LOOK_S: Final = 0.1
_READ_BYTES: Final = 4096


class EscapeFirstParser(XTermParser):
    """Parser of a terminal's input that reads Esc and a following key as two keys.

    Guarantees: no key is read as Alt with another one unless the terminal names the modifier itself
    (`ESC [ 1 ; 3 A`, and kitty's keyboard protocol). Input that starts with `ESC [` or `ESC O` is
    given as much time to complete as Textual gives it. If it does not become a sequence in that
    time, it is read as Esc and the keys after it; an incomplete or unknown control sequence is
    dropped.
    """

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        """Set up the parser.

        Args:
            now: A monotonic clock in seconds.
        """
        super().__init__()
        self._now = now
        self._deadline = 0.0
        self._begun = ""
        """The input since the last Esc, while it may still become a sequence."""
        self._last = ""
        self._pasting = False

    def feed(self, data: str) -> Iterable[Message]:
        """Parse input; "" marks its end."""
        if not data:
            yield from super().feed(data)
        for character in data:
            if not self._may_belong(character):
                yield from self._give_up()
            yield from super().feed(character)
            self._follow(character)
            if _WHOLE.fullmatch(self._begun):
                yield from self._give_up()

    def tick(self) -> Iterable[Message]:
        """Give up a sequence that was not completed in time; call this often."""
        if self._begun and self._now() >= self._deadline:
            yield from self._give_up()

    def _may_belong(self, character: str) -> bool:
        """Return whether a character may belong to the current sequence."""
        if not self._begun:
            return True
        if character == _ESC:
            return False
        if self._begun == _ESC:
            return self._begun + character in (_CSI, _SS3)
        return self._begun.startswith(_CSI) or len(self._begun) < _SS3_LENGTH

    def _follow(self, character: str) -> None:
        self._last = (self._last + character)[-len(BRACKETED_PASTE_START) :]
        if self._last in (BRACKETED_PASTE_START, BRACKETED_PASTE_END):
            self._pasting = self._last == BRACKETED_PASTE_START
        if self._pasting or self._awaiting.timeout is None:
            self._begun = ""
        else:
            self._begun += character
            self._deadline = self._now() + self._awaiting.timeout

    def _give_up(self) -> Iterable[Message]:
        begun, self._begun = self._begun, ""
        self._awaiting = self._gen.throw(ParseTimeout())
        self._tokens.clear()  # Textual would omit Esc or read it as Alt
        if begun.startswith(_CSI) and begun != _CSI:
            return
        yield events.Key("escape", _ESC)
        for character in begun[1:]:
            yield from self._sequence_to_key_events(character)


class EscapeFirstDriver(LinuxDriver):
    """Linux driver that reads keys with `EscapeFirstParser`."""

    def run_input_thread(self) -> None:
        """Read keys until the application ends."""
        parser = EscapeFirstParser()
        decode = getincrementaldecoder("utf-8")("replace").decode  # bad UTF-8 ends nothing
        with selectors.DefaultSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(_LOOK_S):
                    data = self._read()
                    if not data:
                        self._app.post_message(ExitApp())
                        return
                    self._process(parser.feed(decode(data)))
                self._process(parser.tick())

    def _read(self) -> bytes:
        """Read available input; empty if the terminal was closed."""
        try:
            return os.read(self.fileno, _READ_BYTES)
        except OSError:  # EIO: the terminal hung up
            return b""

    def _process(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.process_message(message)


def escape_first(driver: type[Driver]) -> type[Driver]:
    """Return `EscapeFirstDriver` in place of Textual's `LinuxDriver`; other drivers unchanged."""
    return EscapeFirstDriver if driver is LinuxDriver else driver
