"""A guest's output, passed to the caller's callbacks as text while it runs."""

from __future__ import annotations

import codecs
import functools
from collections.abc import Callable, Mapping

from ...base.event_log import get_logger

OnText = Callable[[str], object]

_log = get_logger("agentforge.sandbox")


class GuestStreams:
    """The streams of one execution that are forwarded while it runs.

    Callbacks run on the thread that called the sandbox. One that raises is not called again.

    Args:
        callbacks: Called with the text of a stream, by its name.
        limit_bytes: How much of each stream is forwarded.
    """

    def __init__(self, callbacks: Mapping[str, OnText], limit_bytes: int) -> None:
        self._callbacks = dict(callbacks)
        self._left = dict.fromkeys(callbacks, limit_bytes)
        self._decoders = {
            name: codecs.getincrementaldecoder("utf-8")("replace") for name in callbacks
        }
        self.errors: dict[str, str] = {}

    def write(self, name: str, data: bytes) -> None:
        """Forward data written to a stream."""
        data = data[: self._left[name]]
        self._left[name] -= len(data)
        self._tell(name, self._decoders[name].decode(data))

    def relays(self) -> dict[str, OnText]:
        """Return a callback per stream for text that another process has decoded."""
        return {name: functools.partial(self._relay, name) for name in self._decoders}

    def _relay(self, name: str, text: str) -> None:
        self._left[name] -= len(text)
        if self._left[name] >= 0:
            self._tell(name, text)

    def finish(self) -> None:
        """Forward what an incomplete character left; the guest has ended."""
        for name, decoder in self._decoders.items():
            self._tell(name, decoder.decode(b"", final=True))

    def _tell(self, name: str, text: str) -> None:
        callback = self._callbacks.get(name)
        if not text or callback is None:
            return
        try:
            callback(text)
        except Exception as error:  # noqa: BLE001 (the caller's code must not end the guest)
            del self._callbacks[name]
            self.errors[name] = type(error).__name__
            _log.warning(
                "execution.stream_callback_failed", stream=name, error=type(error).__name__
            )
