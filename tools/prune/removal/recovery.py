"""Finishing what other prunes left: strays, half removed and half restored sessions, old trash."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from attrs import frozen

from ...base.errors import reason_of
from .hidden_names import going_path, hidden_name, inode_of, session_of, still_going
from .leftovers import Leftovers, is_stray, locked_root
from .private_directory import COMING, GOING, TRASH, PrivateDirectory
from .trash import TrashRecord, forget_record
from .work import Work


@frozen(kw_only=True)
class Recovery:
    """Finishes what other prunes left in one root, which is locked.

    Attributes:
        work: What it works with.
        private: The root's private directory, locked.
    """

    work: Work
    private: PrivateDirectory

    def finish(self, left: Leftovers) -> None:
        """Finish all of it."""
        if left.strays:
            self._sweep(left.strays)
        if left.coming:
            coming_fd = self.private.directory(COMING)
            hidden = self.work.deletion.hidden
            self.work.pool.all([partial(hidden, coming_fd, one) for one in left.coming])
        if left.going:
            self._finish_going(left.going)
        if left.expired or left.orphaned:
            self._purge(left)

    def _sweep(self, strays: Sequence[str]) -> None:
        """Remove what dead processes left half made or half deleted in the root."""
        work, record = self.work, self.work.run.record
        going_fd = self.private.directory(GOING)
        pieces = work.announced(
            "sweeping", strays, lambda name: {"session_id": session_of(name)}, kept="it was kept"
        )
        for names in pieces:
            out = self._hide_strays(names, going_fd)
            jobs = [partial(work.deletion.hidden, going_fd, hidden) for _, hidden in out]
            for (name, hidden), problem in zip(out, work.pool.all(jobs), strict=True):
                if problem is None:
                    record.swept.append(session_of(name))
                    work.log("swept", session_of(name), hidden=hidden)
                else:
                    record.fail(session_of(name), f"{problem}; {still_going(hidden)}")

    def _hide_strays(self, names: Sequence[str], going_fd: int) -> list[tuple[str, str]]:
        """Take out of sight what is a stray still; the root is locked for that only."""
        work, fs = self.work, self.work.deletion.fs
        token = work.run.outside.token()
        out = []
        with locked_root(fs, work.root_fd) as alone:
            for name in names:
                if not alone or not is_stray(fs, work.target, work.root_fd, name, work.run.now):
                    continue
                hidden = hidden_name(name, token)
                try:
                    fs.rename(name, hidden, src_dir_fd=work.root_fd, dst_dir_fd=going_fd)
                except OSError as error:
                    work.run.record.fail(session_of(name), reason_of(error))
                else:
                    out.append((name, hidden))
        return out

    def _finish_going(self, going: Sequence[str]) -> None:
        """Finish the removals that another prune began."""
        work, record = self.work, self.work.run.record
        going_fd = self.private.directory(GOING)
        outcomes = work.pool.all([partial(self._finish_one, going_fd, one) for one in going])
        for hidden, problem in zip(going, outcomes, strict=True):
            if problem is None:
                record.finished.append(session_of(hidden))
                work.log("finished", session_of(hidden), hidden=hidden)
            else:
                record.fail(session_of(hidden), problem)
        if None in outcomes:
            with suppress(OSError):  # what a crash brings back is finished again
                work.audit.write()
                work.deletion.fs.fsync(going_fd)

    def _finish_one(self, going_fd: int, hidden: str) -> str | None:
        if self._is_stray(going_fd, hidden):
            return (
                f"something else was put in its place while it was removed; it is "
                f"{going_path(hidden)} now, and nothing of it was deleted. Move it where it belongs"
            )
        problem = self.work.deletion.hidden(going_fd, hidden)
        return problem and f"{problem}; {still_going(hidden)}"

    def _is_stray(self, going_fd: int, hidden: str) -> bool:
        """Return whether a name out of sight has something else than what was being removed."""
        inode = inode_of(hidden)
        if inode is None:
            return False
        try:
            status = self.work.deletion.fs.stat(hidden, dir_fd=going_fd)
        except OSError:
            return False
        return status.st_ino != inode and not stat.S_ISLNK(status.st_mode)  # a link holds nothing

    def _purge(self, left: Leftovers) -> None:
        """Remove what was in the trash for its time."""
        work, record = self.work, self.work.run.record
        fs, trash_fd = work.deletion.fs, self.private.directory(TRASH)
        purged = False
        pieces = work.announced("purging", left.expired, _about, kept="it stays in the trash")
        for piece in pieces:
            jobs = [partial(self._purge_one, trash_fd, hidden) for hidden, _ in piece]
            outcomes = work.pool.all(jobs)  # it gives the log room
            for (hidden, one), problem in zip(piece, outcomes, strict=True):
                if problem is None:
                    record.purged.append(one.session_id)
                    work.log("purged", one.session_id, hidden=hidden)
                    purged = True
                else:
                    record.fail(one.session_id, f"{problem}; it stays in the trash")
        for hidden in left.orphaned:
            forget_record(fs, trash_fd, hidden)
        if purged:
            with suppress(OSError):  # what a crash brings back is purged again
                fs.fsync(trash_fd)

    def _purge_one(self, trash_fd: int, hidden: str) -> str | None:
        problem = self.work.deletion.hidden(trash_fd, hidden)
        if problem is None:
            forget_record(self.work.deletion.fs, trash_fd, hidden)
        return problem


def _about(expired: tuple[str, TrashRecord]) -> dict[str, object]:
    hidden, record = expired
    return {"session_id": record.session_id, "hidden": hidden, "size_bytes": record.size_bytes}
