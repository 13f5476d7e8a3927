"""Processes keys strictly one after the other, however fast they arrive.

Textual delivers a key to the widget that has the focus when the key arrives. Over a slow line many
keys arrive at once: "o", which opens a text field, and the text after it would all go to the list
of options, where letters are commands. Here each key waits until the effects of the previous one
are complete, so that the text reaches the text field.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from textual import events
from textual.app import App
from textual.message_pump import MessagePump
from textual.widget import Widget
from textual.worker import Worker

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
