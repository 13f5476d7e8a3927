"""Deletes one session: only a session, only while it is not in use, recorded beforehand.

lock      the session's directory and the guards of what works in it; only a removal is waited for
check     a regular session file in the open directory, at the requested revision
announce  a line in the audit log, which a prune writes too, synced
discard   renamed to a hidden name, checked again by inode, emptied through descriptors
finish    the audit log
"""

from __future__ import annotations

import errno
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...base.files import (
    DirectoryLock,
    DurableError,
    FileSystem,
    LockTimeout,
    RemovalError,
    WriteError,
    discard_tree,
)
from ...base.files.filesystem import close_reader
from ...base.files.tree_removal import DISCARDED_PREFIX
from ...prune import PruneBusy, PruneEnvironment, PruneError
from ...prune.audit_log import AuditLog
from ...prune.removal.private_directory import PRIVATE, opened_root
from ...prune.removal.session_lock import MOMENT_S, hold
from ..errors import SessionInUse
from ..session_layout import GUARDS, KIND, SESSION_FILE

_NO_DIRECTORY: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDeletion:
    """Deletes single sessions of one base.

    Attributes:
        base: The base.
        outside: The file system, the clock, the source of random texts.
        lock_timeout_s: How long to wait for the locks of the base, in seconds.
        sweep: Finishes what killed creations and deletions left; receives the locked base.
    """

    base: Path
    outside: PruneEnvironment
    lock_timeout_s: float
    sweep: Callable[[int], None]

    def delete(self, session_id: str, check: Callable[[int], None]) -> bool:
        """Delete a session.

        Args:
            session_id: Its id, validated.
            check: Receives the session's directory, open and locked; raises to prevent the
                deletion.

        Returns:
            Whether it existed; if not, nothing was changed.

        Raises:
            SessionInUse: It is in use; nothing was changed.
            WriteError: It could not be announced or removed from the base; it is complete.
            RemovalError: It is out of the base, but some of it could not be deleted.
        """
        with self._held(session_id) as directory_fd:
            if directory_fd is None:
                return False
            check(directory_fd)
            self._discard(session_id, directory_fd)
        return True

    @contextmanager
    def _held(self, session_id: str) -> Iterator[int | None]:
        """Lock a session against all other use; yield None if there is no such session."""
        fs = self.outside.fs
        path = self.base / session_id
        try:
            lock = self._locked(path)
        except FileNotFoundError:
            yield None
            return
        except LockTimeout as error:
            raise SessionInUse(session_id, path=path) from error
        except WriteError as error:
            if error.errno not in _NO_DIRECTORY:
                raise
            yield None
            return
        guards: list[int] | None = []
        try:
            if not self._is_session(lock.fd, path):
                yield None
                return
            try:
                guards = hold(fs, lock.fd, GUARDS)
            except OSError as error:
                raise WriteError(path=path, operation="lock", cause=error) from error
            if guards is None:
                raise SessionInUse(session_id, path=path)
            yield lock.fd
        finally:
            for fd in guards or ():
                close_reader(fs, fd)
            lock.release()

    def _locked(self, path: Path) -> DirectoryLock:
        """Lock a session's directory; if another removal holds the lock, check again after that.

        Raises:
            FileNotFoundError: It does not exist (any more).
            LockTimeout: Something else holds the lock, or the other removal takes too long.
        """
        fs = self.outside.fs
        try:
            return DirectoryLock(fs, path, timeout_s=0.0).acquire()
        except LockTimeout:
            private = DirectoryLock(fs, self.base / PRIVATE, timeout_s=self.lock_timeout_s)
            with suppress(FileNotFoundError), private:  # deletions and prunes hold this lock
                pass
            return DirectoryLock(fs, path, timeout_s=MOMENT_S).acquire()  # one may just be starting

    def _is_session(self, directory_fd: int, path: Path) -> bool:
        """Return whether an open directory holds a regular session file, readable or not."""
        try:
            mode = self.outside.fs.stat(SESSION_FILE, dir_fd=directory_fd).st_mode
        except FileNotFoundError:
            return False
        except OSError as error:
            raise WriteError(
                path=path / SESSION_FILE, operation="look for it", cause=error
            ) from error
        return stat.S_ISREG(mode)

    def _discard(self, session_id: str, directory_fd: int) -> None:
        fs = self.outside.fs
        try:
            status = fs.fstat(directory_fd)
        except OSError as error:
            path = self.base / session_id
            raise WriteError(path=path, operation="look for it", cause=error) from error
        token = self.outside.token()
        with (
            self._audit(session_id, hidden=f"{DISCARDED_PREFIX}{token}") as record,
            DirectoryLock(fs, self.base, timeout_s=self.lock_timeout_s, follow=True) as base_lock,
        ):
            self.sweep(base_lock.fd)
            try:
                discard_tree(
                    fs,
                    base_lock.fd,
                    session_id,
                    parent=self.base,
                    token=lambda: token,
                    identity=(status.st_dev, status.st_ino),
                )
            except RemovalError as error:
                record("unfinished", why=str(error))
                raise
            except DurableError as error:
                record("kept", why=str(error))
                raise
            record("removed")

    @contextmanager
    def _audit(self, session_id: str, *, hidden: str) -> Iterator[Callable[..., None]]:
        """Announce a deletion in the audit log; yield the function that records its result.

        Raises:
            WriteError: It could not be announced.
        """
        path = self.base / session_id
        outside = self.outside
        about = {"kind": KIND, "session_id": session_id, "hidden": hidden}
        try:
            with opened_root(self.base, outside, self.lock_timeout_s) as private:
                audit = AuditLog(outside.fs, private.fd, run=outside.token(), by=outside.actor())
                try:
                    audit.add("removing", at=outside.clock(), reasons=["asked for"], **about)
                    audit.write()

                    def record(event: str, **fields: object) -> None:
                        audit.add(event, at=outside.clock(), **about, **fields)
                        with suppress(OSError):  # the next line is not the proof of the deletion
                            audit.write(sync=False)

                    yield record
                finally:
                    audit.close()
        except PruneBusy as error:
            raise LockTimeout(path=error.path, timeout_s=error.timeout_s) from error
        except (PruneError, OSError) as error:
            raise WriteError(
                path=path, operation="write of the audit log", cause=_system_error(error)
            ) from error


@contextmanager
def held_idle(
    fs: FileSystem, directory: Path, session_id: str, guards: Sequence[str]
) -> Iterator[None]:
    """Hold the guards of a session, but not the lock of its saves.

    Args:
        fs: The file system.
        directory: The session's directory.
        session_id: The session.
        guards: What processes that work in the directory lock there.

    Raises:
        SessionInUse: A run or an execution is at work in it.
        WriteError: The system refused.
    """
    try:
        with DirectoryLock(fs, directory, timeout_s=1.0) as lock:
            held = hold(fs, lock.fd, guards)
    except (FileNotFoundError, LockTimeout) as error:
        raise SessionInUse(session_id, path=directory) from error
    except OSError as error:
        raise WriteError(path=directory, operation="lock", cause=error) from error
    if held is None:
        raise SessionInUse(session_id, path=directory)
    try:
        yield
    finally:
        for fd in held:
            close_reader(fs, fd)


def _system_error(error: BaseException) -> BaseException:
    """Return the system error behind an error, if there is one."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno is not None:
            return cause
        cause = cause.__cause__
    return error
