"""A file system whose process dies before one of the calls that change something."""

from __future__ import annotations

from tests.support.filesystem import Call, FaultyFileSystem

_CHANGING = {"writev", "fsync", "ftruncate", "rename", "link", "unlink", "mkdir", "rmdir"}


class Killed(BaseException):
    """The process is dead: nothing after it is done."""


class MortalFileSystem(FaultyFileSystem):
    """The real system calls; before one of those that change something, the process dies."""

    def __init__(self, death: int | None = None) -> None:
        super().__init__()
        self.death = death
        self.changes = 0
        self.dead = False
        self.last_step = 0
        """The number of the change that puts the index in place."""

    def _step(self, operation: str, path: str, *, size: int = 0, writing: bool = False) -> Call:
        if not self.dead and (operation in _CHANGING or (operation == "open" and writing)):
            self.dead = self.changes == self.death
            if operation == "rename" and path.endswith("/index"):
                self.last_step = self.changes
            self.changes += 1
        if self.dead:
            raise Killed
        return super()._step(operation, path, size=size, writing=writing)
