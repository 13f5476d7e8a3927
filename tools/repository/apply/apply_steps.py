"""The steps of an apply, forward or back: each examines the present state and does the rest.

So a step can be repeated after a kill at any instant. Nothing is overwritten that is in neither its
former nor its new state: all paths are examined before the first is changed, and each once more
right before its rename. A change by another program between that look and the rename, some
microseconds, would be lost.

The module is long because it holds each step beside its reversal.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final

from attrs import define

from ...base.files import FileSystem, hand_over
from ...base.files.filesystem import CREATE_FLAGS, opened
from ...base.files.regular_file import being_written, write_all
from ...base.files.safe_path import directory_beneath
from ..git.git_repositories import UserRepository
from .apply_errors import ApplyDiverged, BlockedPath, CheckoutBusy, Obstacle
from .apply_journal import LOCK, Journal
from .checkout_files import (
    ABSENT,
    EntryKind,
    PathState,
    folders_above,
    look_at,
    look_in,
    parts_of,
    passing_over_absent,
)
from .checkout_state import read_head

INDEX_LOCK: Final = "index.lock"
_TEMPORARY: Final = ".agentforge-apply-"


@define(slots=False, kw_only=True)
class Steps:
    """The resources of the steps.

    Attributes:
        fs: The file system.
        repository: The person's repository.
        journal: The changes to make.
        top_fd: The checkout, open.
        git_dir_fd: The git directory, open and locked.
    """

    fs: FileSystem
    repository: UserRepository
    journal: Journal
    top_fd: int
    git_dir_fd: int

    # -------------------------------------------------------------------------------- the index

    def hold_index(self) -> None:
        """Take git's lock of the index, unless it is ours already.

        Raises:
            CheckoutBusy: Another program has it.
            OSError: The system refused.
        """
        try:
            self.fs.link(LOCK, INDEX_LOCK, src_dir_fd=self.journal.fd, dst_dir_fd=self.git_dir_fd)
        except FileExistsError:
            if not self.holds_index():
                top, git_dir = self.repository.work_tree, self.repository.git_dir
                raise CheckoutBusy(top, git_dir / INDEX_LOCK) from None
        else:
            self.fs.fsync(self.git_dir_fd)

    def holds_index(self) -> bool:
        """Return whether git's lock of the index is ours."""
        try:
            lock = self.fs.stat(INDEX_LOCK, dir_fd=self.git_dir_fd)
        except FileNotFoundError:
            return False
        return os.path.samestat(lock, self.fs.stat(LOCK, dir_fd=self.journal.fd))

    def release_index(self) -> None:
        """Release git's lock of the index, if it is ours."""
        if self.holds_index():
            self.fs.unlink(INDEX_LOCK, dir_fd=self.git_dir_fd)
            self.fs.fsync(self.git_dir_fd)

    def install_index(self) -> None:
        """Put the new index in place by renaming its lock, which releases it.

        Raises:
            OSError: The system refused.
        """
        record = self.journal.record
        if record.index_after is None or self._index_digest() == record.index_after:
            self.release_index()
            return
        fd = self.fs.open(
            LOCK, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.journal.fd
        )
        try:
            write_all(self.fs, fd, [self.journal.index(after=True)])
            os.fchmod(fd, record.index_mode)
            hand_over(self.fs, fd, self.git_dir_fd)
            self._keep_index_time(fd)
            self.fs.fsync(fd)
        finally:
            self.fs.close(fd)
        self.fs.rename(INDEX_LOCK, "index", src_dir_fd=self.git_dir_fd, dst_dir_fd=self.git_dir_fd)
        self.fs.fsync(self.git_dir_fd)

    def restore_index(self) -> None:
        """Restore the former index; its lock stays.

        Raises:
            OSError: The system refused.
        """
        record = self.journal.record
        if record.index_after is None or self._index_digest() == record.index_before:
            return
        if record.index_before is None:
            self.fs.unlink("index", dir_fd=self.git_dir_fd)
        else:
            temporary = f"{_TEMPORARY}{record.token}-index"
            content = self.journal.index(after=False)
            _create(
                self.fs,
                self.git_dir_fd,
                temporary,
                content,
                record.index_mode,
                self._index_time_ns(),
            )
            self.fs.rename(
                temporary, "index", src_dir_fd=self.git_dir_fd, dst_dir_fd=self.git_dir_fd
            )
        self.fs.fsync(self.git_dir_fd)

    def _keep_index_time(self, fd: int) -> None:
        """Set a new index's time to that of the one in place.

        Git compares times in whole seconds: a file of the same size counts as unchanged unless it
        is as recent as the index. Under a newer time, the person's edits right after `git add`
        would be hidden.
        """
        mtime_ns = self._index_time_ns()
        if mtime_ns is not None:
            os.utime(fd, ns=(mtime_ns, mtime_ns))

    def _index_time_ns(self) -> int | None:
        try:
            return self.fs.stat("index", dir_fd=self.git_dir_fd).st_mtime_ns
        except FileNotFoundError:
            return None

    def index_stands(self) -> bool:
        """Return whether the index is in its former or its new state."""
        record = self.journal.record
        return record.index_after is None or self._index_digest() in {
            record.index_before,
            record.index_after,
        }

    def _index_digest(self) -> str | None:
        try:
            found, _ = look_in(self.fs, self.git_dir_fd, "index")
        except FileNotFoundError:
            return None
        return found.sha256

    # -------------------------------------------------------------------------------- the files

    def require_known(self) -> None:
        """Check that each path and the index are in their former or their new state.

        Raises:
            ApplyDiverged: Some are in neither.
        """
        blocked = [
            self._changed(number)
            for number in range(len(self.journal.record.paths))
            if self._side(number) is None
        ]
        if not self.index_stands():
            record = self.journal.record
            sides = (("index.before", record.index_before), ("index.after", record.index_after))
            kept = " and ".join(name for name, index in sides if index is not None)
            blocked.append(BlockedPath("the index", Obstacle.CHANGED_SINCE, kept))
        if blocked:
            raise ApplyDiverged(self.repository.work_tree, blocked, journal=self.journal.path)

    def _side(self, number: int) -> str | None:
        """Return the side that a path is on, or None; "after" for an unchanging path."""
        one = self.journal.record.paths[number]
        found = self._found(one.path)
        if found.same(one.after):
            return "after"
        return "before" if found.same(one.before) else None

    def _found(self, path: bytes) -> PathState:
        """Return a path's state; absent for a folder or a link on the way to other paths."""
        found, _ = look_at(self.fs, self.top_fd, path)
        if found.kind is EntryKind.FOLDER and path in self.journal.record.folders:
            return ABSENT
        if found.kind is EntryKind.UNREACHABLE and self._links & set(folders_above([path])):
            return ABSENT
        return found

    @cached_property
    def _links(self) -> set[bytes]:
        """The paths that are a link on one side, and may be a folder on the other."""
        paths = self.journal.record.paths
        return {one.path for one in paths if EntryKind.LINK in {one.before.kind, one.after.kind}}

    def settle(self, *, after: bool) -> None:
        """Bring all paths to one side: removals first, then additions, each by a rename.

        Raises:
            ApplyDiverged: A path was changed meanwhile; what was done stays done.
            OSError: The system refused; likewise.
        """
        targets = [one.after if after else one.before for one in self.journal.record.paths]
        going: dict[int, bytes] = {}
        coming: dict[int, bytes] = {}
        for number, one in enumerate(self.journal.record.paths):
            (going if targets[number].kind is EntryKind.ABSENT else coming)[number] = one.path
        for number in going:
            self._remove(number)
        self._drop_folders(going.values(), coming.values(), after=after)
        self._make_folders(folders_above(coming.values()), after=after)
        for number in coming:
            self._write(number, targets[number], after=after)
        self._sync(folders_above([*coming.values(), *going.values()]))

    def _remove(self, number: int) -> None:
        one = self.journal.record.paths[number]
        *above, name = parts_of(one.path)
        with (
            passing_over_absent(),
            directory_beneath(self.fs, self.top_fd, above) as folder_fd,
        ):
            self._drop_temporary(folder_fd, number)
            found, _ = look_in(self.fs, folder_fd, name)
            if found.kind is EntryKind.FOLDER:
                return
            self._require_known(number, found)
            self.fs.unlink(name, dir_fd=folder_fd)

    def _write(self, number: int, target: PathState, *, after: bool) -> None:
        one = self.journal.record.paths[number]
        *above, name = parts_of(one.path)
        with directory_beneath(self.fs, self.top_fd, above) as folder_fd:
            self._drop_temporary(folder_fd, number)
            found = self._standing_in(folder_fd, name)
            if found.same(target):
                return
            temporary = self._temporary(number)
            content = self.journal.content(number, after=after)
            if target.kind is EntryKind.LINK:
                os.symlink(os.fsdecode(content), temporary, dir_fd=folder_fd)
            else:
                restored = None if after else target.mtime_ns
                _create(self.fs, folder_fd, temporary, content, target.mode, restored)
            self._require_known(number, self._standing_in(folder_fd, name))
            self.fs.rename(temporary, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)

    def _standing_in(self, folder_fd: int, name: str) -> PathState:
        try:
            return look_in(self.fs, folder_fd, name)[0]
        except FileNotFoundError:
            return ABSENT

    def _require_known(self, number: int, found: PathState) -> None:
        """Refuse to replace a path that is on neither side."""
        one = self.journal.record.paths[number]
        if not (found.same(one.before) or found.same(one.after)):
            raise ApplyDiverged(
                self.repository.work_tree,
                [self._changed(number)],
                journal=self.journal.path,
            )

    def _changed(self, number: int) -> BlockedPath:
        """Return a path that is on neither side, with its places in the journal."""
        one = self.journal.record.paths[number]
        kept = " and ".join(
            f"{side}/{number:06d}"
            if standing.kind in {EntryKind.FILE, EntryKind.LINK}
            else f"none {side}"
            for side, standing in (("before", one.before), ("after", one.after))
        )
        return BlockedPath(os.fsdecode(one.path), Obstacle.CHANGED_SINCE, kept)

    def _temporary(self, number: int) -> str:
        return f"{_TEMPORARY}{self.journal.record.token}-{number}"

    def _drop_temporary(self, folder_fd: int, number: int) -> None:
        with suppress(FileNotFoundError):
            self.fs.unlink(self._temporary(number), dir_fd=folder_fd)

    # ------------------------------------------------------------------------------ the folders

    def _drop_folders(
        self, going: Iterable[bytes], coming: Iterable[bytes], *, after: bool
    ) -> None:
        """Remove the folders that are empty now and not needed on this side."""
        folders = self.journal.record.folders
        needed = set(folders_above(coming))
        if after:  # as git does: those that lost a file, and those in the place of a new file
            places = set(coming)
            dropped = set(folders_above(going))
            dropped |= {one for one in folders if places & {one, *folders_above([one])}}
        else:
            dropped = {one for one, mode in folders.items() if mode is None}
        for folder in sorted(dropped - needed, reverse=True):
            *above, name = parts_of(folder)
            with suppress(OSError), directory_beneath(self.fs, self.top_fd, above) as fd:
                self.fs.rmdir(name, dir_fd=fd)

    def _make_folders(self, needed: Iterable[bytes], *, after: bool) -> None:
        folders = self.journal.record.folders
        wanted = set(needed)
        if not after:
            wanted |= {path for path, mode in folders.items() if mode is not None}
        for folder in sorted(wanted):
            *above, name = parts_of(folder)
            mode = folders.get(folder)
            with directory_beneath(self.fs, self.top_fd, above) as fd:
                try:
                    self.fs.mkdir(name, 0o777, dir_fd=fd)
                except FileExistsError:
                    continue
                with directory_beneath(self.fs, fd, [name]) as made:
                    hand_over(self.fs, made, fd)
                    if mode is not None:
                        os.fchmod(made, mode)

    def _sync(self, folders: Sequence[bytes]) -> None:
        for folder in (b"", *folders):
            parts = parts_of(folder) if folder else []
            with passing_over_absent(), directory_beneath(self.fs, self.top_fd, parts) as fd:
                self.fs.fsync(fd)

    # -------------------------------------------------------------------- objects and the branch

    def install_objects(self) -> None:
        """Add the new objects to the repository, as one pack; a repetition does nothing.

        Raises:
            OSError: The system refused.
        """
        name = self.journal.record.pack
        if name is None:
            return
        install_pack(
            self.fs,
            self.repository.objects,
            name,
            {suffix: self.journal.pack(suffix) for suffix in (".pack", ".idx")},
        )

    def move_ref(self, *, after: bool) -> None:
        """Set HEAD's branch to the new commit, or back to the old one.

        Raises:
            ApplyDiverged: HEAD names neither.
            GitFailed: Git refused.
        """
        ref = self.journal.record.ref
        if ref is None:
            return
        head, _ = read_head(self.repository)
        here, there = (ref.old, ref.new) if after else (ref.new, ref.old)
        if head == there:
            return
        if head != here:
            raise ApplyDiverged(
                self.repository.work_tree,
                [BlockedPath("HEAD", Obstacle.CHANGED_SINCE)],
                journal=self.journal.path,
            )
        target = self.journal.record.branch or "HEAD"
        said = f"agentforge: apply {self.journal.record.label}"
        zeros = "0" * len(ref.new)
        words = ("-d", target, here or zeros) if there is None else (target, there, here or zeros)
        self.repository.change(
            "update-ref",
            "-m",
            said if after else f"{said}, undone",
            *words,
            held=(self.git_dir_fd,),
        )


def install_pack(fs: FileSystem, objects: Path, name: str, files: dict[str, bytes]) -> None:
    """Add a pack to a repository's objects: durable, and visible to git once it is complete.

    Args:
        fs: The file system.
        objects: The directory of objects.
        name: The pack's name, without a suffix.
        files: Its content by suffix; git finds it by `.idx`, which is written last.

    Raises:
        OSError: The system refused.
    """
    folder = objects / "pack"
    folder.mkdir(exist_ok=True)
    with opened(fs, os.fspath(folder), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) as fd:
        for suffix in (".pack", ".idx"):
            _install(fs, fd, f"{name}{suffix}", files[suffix])
        fs.fsync(fd)


def _install(fs: FileSystem, fd: int, name: str, content: bytes) -> None:
    with suppress(FileNotFoundError):
        status = fs.stat(name, dir_fd=fd)
        if stat.S_ISREG(status.st_mode) and status.st_size == len(content):
            return
    temporary = f"tmp_{name}"  # which git's own gc sweeps
    _create(fs, fd, temporary, content, 0o444)
    fs.rename(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)


def _create(
    fs: FileSystem,
    folder_fd: int,
    name: str,
    content: bytes,
    mode: int,
    mtime_ns: int | None = None,
) -> None:
    """Replace a file by a new one, durably, owned by the folder's owner."""
    with suppress(FileNotFoundError):
        fs.unlink(name, dir_fd=folder_fd)
    fd = fs.open(name, CREATE_FLAGS, 0o600, dir_fd=folder_fd)
    with being_written(fs, fd, folder_fd, name):
        hand_over(fs, fd, folder_fd)
        write_all(fs, fd, [content])
        os.fchmod(fd, mode)
        if mtime_ns is not None:
            os.utime(fd, ns=(mtime_ns, mtime_ns))
        fs.fsync(fd)


def digest_of(content: bytes | None) -> str | None:
    """Return the digest of a file's content; None if there is no file."""
    return None if content is None else hashlib.sha256(content).hexdigest()
