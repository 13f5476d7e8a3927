"""Keys as they were pressed: Esc is Esc, also when a key follows at once.

A terminal sends Esc as the byte that also begins the sequences of arrows and of Alt with a letter.
Textual reads Esc and what arrives within 100 ms of it as Alt with that key. Over a slow line or on
a busy machine both arrive at once however long apart they were pressed, so that Esc, s became Alt+S
and Esc, Enter became Enter alone. Nothing here is bound to Alt, and only `ESC [` and `ESC O` begin
a sequence.
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
"""A control sequence that is complete (ECMA-48, 5.4), but for `ESC [ [` of the Linux console and
`ESC [ M` of a mouse, after which more comes."""

_LOOK_S: Final = 0.1
_READ_BYTES: Final = 4096


class EscapeFirstParser(XTermParser):
    """Reads keys from what a terminal sends; Esc and a key after it stay two keys.

    Guarantees: no key is read as Alt with another one, unless the terminal names the modifier
    itself (`ESC [ 1 ; 3 A`, and the keyboard protocol of kitty). What begins with `ESC [` or
    `ESC O` is waited for as long as Textual waits. What does not become a sequence in that time is
    Esc and the keys after it; a control sequence that is torn or unknown is no key.
    """

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        """Begin.

        Args:
            now: A clock that never goes back, in seconds.
        """
        super().__init__()
        self._now = now
        self._deadline = 0.0
        self._begun = ""
        """What came since the last Esc, while it may still become a sequence."""
        self._last = ""
        self._pasting = False

    def feed(self, data: str) -> Iterable[Message]:
        """Read what came; "" is the end."""
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
        """Give up what did not become a sequence in time; to be called often."""
        if self._begun and self._now() >= self._deadline:
            yield from self._give_up()

    def _may_belong(self, character: str) -> bool:
        """Return whether a character may belong to the sequence that was begun."""
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
        self._tokens.clear()  # what Textual makes of it leaves Esc out, or is Alt
        if begun.startswith(_CSI) and begun != _CSI:
            return
        yield events.Key("escape", _ESC)
        for character in begun[1:]:
            yield from self._sequence_to_key_events(character)


class EscapeFirstDriver(LinuxDriver):
    """A terminal whose keys are read as `EscapeFirstParser` reads them."""

    def run_input_thread(self) -> None:
        """Read keys until the application ends."""
        parser = EscapeFirstParser()
        decode = getincrementaldecoder("utf-8")("replace").decode  # what is no text ends nothing
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
        """Read what was typed; nothing when the terminal has ended."""
        try:
            return os.read(self.fileno, _READ_BYTES)
        except OSError:  # EIO: it hung up
            return b""

    def _process(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.process_message(message)


def escape_first(driver: type[Driver]) -> type[Driver]:
    """Return the driver that reads keys so in place of Textual's for a terminal, or `driver`."""
    return EscapeFirstDriver if driver is LinuxDriver else driver
