"""Reads the keys of the terminal, and processes them strictly one after the other.

A terminal sends Esc as the byte that also starts the sequences for arrow keys and for Alt with a
letter. Textual reads Esc and a key that arrives within 100 ms as Alt with that key. Over a slow
line or on a busy machine both arrive together, however far apart they were pressed: Esc, s became
Alt+S, and Esc, Enter became Enter alone. No key here is bound to Alt, so only `ESC [` and `ESC O`
start a sequence.

Textual delivers a key to the widget that has the focus when the key arrives. Over a slow line many
keys arrive at once: "o", which opens a text field, and the text after it would all go to the list
of options, where letters are commands. Here each key waits until the effects of the previous one
are complete, so that the text reaches the text field.
"""

from __future__ import annotations

import asyncio
import os
import re
import selectors
import time
from codecs import getincrementaldecoder
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from textual import events
from textual._parser import ParseTimeout
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.app import App
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message
from textual.message_pump import MessagePump
from textual.messages import ExitApp
from textual.widget import Widget
from textual.worker import Worker

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


_Result = TypeVar("_Result")

PATIENCE_S: Final = 3.0
"""Maximum time that a key waits for the previous one, in seconds."""


class KeyQueue(App[_Result]):
    """An application in which each key acts on the state that the previous keys left.

    Guarantees: keys and pastes act in order of arrival. Each is delivered once the handlers of the
    previous one, and the messages they posted, are complete. After `patience_s` seconds it is
    delivered anyway; the handlers it waited for continue.
    """

    def __init__(self, *, patience_s: float = PATIENCE_S) -> None:
        """Set up the application.

        Args:
            patience_s: Maximum time that a key waits for the previous one, in seconds.
        """
        super().__init__()
        self._typed: asyncio.Queue[events.Key | events.Paste] = asyncio.Queue()
        self._patience_s = patience_s
        self._texts: dict[Widget, None] = {}
        """Widgets that received text since the last key that was not text, in order."""
        self._made = asyncio.Event()
        self._made.set()

    def begin_typing(self) -> None:
        """Start delivering keys; call once the application has started."""
        self.run_worker(self._hand_on(), name="keys")

    def hold_keys(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` in the background and hold the next key until it ends.

        Args:
            work: Builds what the next key acts on. Earlier work that is still running is cancelled.
        """
        made = asyncio.Event()

        async def make() -> None:
            try:
                await work()
            finally:
                made.set()

        self._made.set()  # release keys that wait for the cancelled work
        self._made = made
        _: Worker[None] = self.run_worker(make, group="hold_keys", exclusive=True)

    async def typed(self) -> None:
        """Wait until all keys received so far have been processed."""
        await self._typed.join()

    async def on_event(self, event: events.Event) -> None:
        """Queue keys and pastes; handle all other events at once."""
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            self._typed.put_nowait(event)
        else:
            await super().on_event(event)

    async def _hand_on(self) -> None:
        while True:
            event = await self._typed.get()
            try:
                async with asyncio.timeout(self._patience_s):
                    await self._deliver(event)
            except TimeoutError:
                self.log.warning(f"a key took too long: {event}")
            finally:
                self._typed.task_done()

    async def _deliver(self, event: events.Key | events.Paste) -> None:
        targets: list[Widget] = []
        if not self._is_text(event, self.focused or self.screen):
            await self._through_texts()  # the key may act on text typed before it

        async def hand_on() -> None:
            targets.append(self.focused or self.screen)
            await super(KeyQueue, self).on_event(event)
            targets.append(self.focused or self.screen)  # differs if the terminal was blurred

        await _through(self, hand_on)
        self._texts.update(dict.fromkeys(targets))
        if all(self._is_text(event, one) for one in targets):
            return  # text changes nothing that the next key depends on
        await self._through_texts()
        while not self._made.is_set():
            await self._made.wait()
        await _through(self.screen)
        await _through(self)

    @staticmethod
    def _is_text(event: events.Key | events.Paste, target: Widget) -> bool:
        return isinstance(event, events.Key) and target.check_consume_key(
            event.key, event.character
        )

    async def _through_texts(self) -> None:
        """Wait until delivered text, and the messages that it caused, are processed."""
        targets, self._texts = self._texts, {}
        for target in targets:
            for node in target.ancestors_with_self:  # messages bubble up this way
                await _through(node)  # the messages it had
                await _through(node)  # the messages it posted to itself meanwhile


async def _through(pump: MessagePump, *calls: Callable[[], Awaitable[None]]) -> None:
    """Wait until a message pump has processed its queue and then the calls."""
    done = asyncio.Event()

    async def last() -> None:
        try:
            for call in calls:
                await call()
        finally:
            done.set()

    if pump.is_running and pump.call_later(last):
        await done.wait()
