"""Keys that act one after the other, however fast they come.

Textual hands a key to the widget that has the focus when the key arrives. Over a slow line many
keys arrive at once: "o", which opens a text, and the text itself would all go to the list of
options, where letters are commands. Here each key waits until what the one before it began is
done, so that the text goes into the text.
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
"""How long a key waits for the one before it at most, in seconds."""


class KeyQueue(App[_Result]):
    """An application in which a key finds what the keys before it have made.

    Guarantees: keys and pastes act in the order in which they came. Each is handed on when the
    handlers of the one before, and the messages they posted, are through; or after its patience,
    and what it waited for goes on all the same.
    """

    def __init__(self, *, patience_s: float = PATIENCE_S) -> None:
        """Make the application; nothing happens before it runs.

        Args:
            patience_s: How long a key waits for the one before it at most, in seconds.
        """
        super().__init__()
        self._typed: asyncio.Queue[events.Key | events.Paste] = asyncio.Queue()
        self._patience_s = patience_s
        self._texts: dict[Widget, None] = {}
        """What was given text since the last key that was none."""
        self._made = asyncio.Event()
        self._made.set()

    def begin_typing(self) -> None:
        """Begin to hand on keys; to be called when the application has started."""
        self.run_worker(self._hand_on(), name="keys")

    def hold_keys(self, work: Callable[[], Awaitable[None]]) -> None:
        """Begin to make what the next key is meant for, and have that key wait for it.

        Args:
            work: Makes it, beside all else. Where something is still being made, that ends here.
        """
        made = asyncio.Event()

        async def make() -> None:
            try:
                await work()
            finally:
                made.set()

        self._made.set()  # no key waits for what is given up
        self._made = made
        _: Worker[None] = self.run_worker(make, group="hold_keys", exclusive=True)

    async def typed(self) -> None:
        """Wait until all keys that came so far have acted."""
        await self._typed.join()

    async def on_event(self, event: events.Event) -> None:
        """Queue keys and pastes; all else goes its way."""
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
            await self._through_texts()  # a key that leaves leaves what was typed before it

        async def hand_on() -> None:
            targets.append(self.focused or self.screen)
            await super(KeyQueue, self).on_event(event)
            targets.append(self.focused or self.screen)  # another one if the terminal was blurred

        await _through(self, hand_on)
        self._texts.update(dict.fromkeys(targets))
        if all(self._is_text(event, one) for one in targets):
            return  # text changes nothing but itself
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
        """Wait until what was handed on, and what it led to, is through."""
        targets, self._texts = self._texts, {}
        for target in targets:
            for node in target.ancestors_with_self:  # messages go this way
                await _through(node)  # what it was given
                await _through(node)  # what it posted to itself meanwhile, on the way up


async def _through(pump: MessagePump, *calls: Callable[[], Awaitable[None]]) -> None:
    """Wait until a message pump is through with all it has, then with these calls."""
    done = asyncio.Event()

    async def last() -> None:
        try:
            for call in calls:
                await call()
        finally:
            done.set()

    if pump.is_running and pump.call_later(last):
        await done.wait()
