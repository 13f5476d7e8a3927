"""Carrying out a journal, undoing it, or resuming it after a kill."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...base.cancellation import shielded
from ...base.files import DirectoryLock, LockTimeout, WriteError
from ...base.files.filesystem import DIRECTORY_FLAGS, opened
from ..git.git_repositories import UserRepository
from .applied import ApplyServices
from .apply_errors import (
    ApplyDiverged,
    ApplyFailed,
    CheckoutBusy,
    CheckoutChanged,
    CheckoutUnsupported,
    UnfinishedApply,
)
from .apply_journal import open_journal, remove_journal
from .apply_steps import Steps
from .checkout_state import CheckoutState, read_head, read_index_bytes, require_plain_checkout


def checkout_at(checkout: Path, services: ApplyServices) -> UserRepository:
    """Return the repository of a checkout that may be written to.

    Raises:
        NotARepository: There is none.
        CheckoutUnsupported: It is not safe to write to.
    """
    repository = UserRepository.at(checkout, services.git)
    require_plain_checkout(repository, user=os.geteuid())
    if repository.index != repository.git_dir / "index":
        raise CheckoutUnsupported(
            repository.work_tree, f"its index is elsewhere, {repository.index}"
        )
    return repository


@contextmanager
def locked(repository: UserRepository, services: ApplyServices) -> Iterator[int]:
    """Lock the git directory: one apply at a time, its git processes included."""
    lock = DirectoryLock(
        services.fs, repository.git_dir, timeout_s=services.lock_timeout_s, follow=True
    )
    try:
        lock.acquire()
    except LockTimeout as error:
        raise CheckoutBusy(repository.work_tree, repository.git_dir) from error
    try:
        yield lock.fd
    finally:
        lock.release()


def require_finished(repository: UserRepository, services: ApplyServices, git_dir_fd: int) -> None:
    """Refuse while there is an interrupted apply.

    Raises:
        UnfinishedApply: There is one.
    """
    journal = open_journal(services.fs, git_dir_fd, repository.git_dir)
    if journal is not None:
        journal.close()
        raise UnfinishedApply(repository.work_tree, journal.record.label)


@contextmanager
def open_steps(
    repository: UserRepository, services: ApplyServices, git_dir_fd: int
) -> Iterator[Steps | None]:
    """Open the steps of the existing journal; None if there is none.

    Raises:
        JournalDamaged: It can't be used.
    """
    journal = open_journal(services.fs, git_dir_fd, repository.git_dir)
    if journal is None:
        yield None
        return
    try:
        top = os.fspath(repository.work_tree)
        with opened(services.fs, top, DIRECTORY_FLAGS & ~os.O_NOFOLLOW) as top_fd:
            yield Steps(
                fs=services.fs,
                repository=repository,
                journal=journal,
                top_fd=top_fd,
                git_dir_fd=git_dir_fd,
            )
    finally:
        journal.close()


def carry_out(
    repository: UserRepository, services: ApplyServices, git_dir_fd: int, state: CheckoutState
) -> None:
    """Carry out the journal; undo everything if a step fails.

    Raises:
        CheckoutBusy: Another program holds the index; nothing was changed.
        CheckoutChanged: The checkout changed since it was inspected; everything was undone.
        ApplyFailed: The system refused.
    """
    with open_steps(repository, services, git_dir_fd) as steps:
        assert steps is not None  # noqa: S101 (the journal was written)
        try:
            steps.hold_index()
        except CheckoutBusy:
            forget(steps)
            raise
        except OSError as error:
            forget(steps)
            raise ApplyFailed(repository.work_tree, error, undone=True) from error
        try:
            _require_unchanged(steps, state)
            go_forward(steps)
        except BaseException as error:
            with shielded():
                _taken_back(steps, error)
            raise


def _taken_back(steps: Steps, error: BaseException) -> None:
    """Restore the former state and raise the caller's error; if that fails, the journal remains."""
    top = steps.repository.work_tree
    try:
        go_back(steps)
    except (ApplyDiverged, OSError, WriteError) as worse:
        raise ApplyFailed(top, error, undone=False) from worse
    if isinstance(error, ApplyDiverged):
        raise CheckoutChanged(top, [str(one) for one in error.blocked]) from error
    if isinstance(error, OSError | WriteError):
        raise ApplyFailed(top, error, undone=True) from error


def _require_unchanged(steps: Steps, state: CheckoutState) -> None:
    """Refuse if the checkout changed since the plan was made."""
    if read_head(steps.repository) != (state.head, state.branch):
        raise CheckoutChanged(steps.repository.work_tree, ["HEAD"])
    if read_index_bytes(steps.repository, steps.fs) != state.index_bytes:
        raise CheckoutChanged(steps.repository.work_tree, ["the index"])
    steps.require_known()


def go_forward(steps: Steps) -> None:
    """Bring everything to its new state, the index last."""
    steps.install_objects()
    steps.settle(after=True)
    steps.move_ref(after=True)
    steps.install_index()
    forget(steps)


def go_back(steps: Steps) -> None:
    """Bring everything to its former state."""
    steps.settle(after=False)
    steps.move_ref(after=False)
    steps.restore_index()
    steps.release_index()
    forget(steps)


def forget(steps: Steps) -> None:
    """Remove the journal: everything is in one of its two states, and synced."""
    remove_journal(steps.fs, steps.git_dir_fd, steps.repository.git_dir, steps.journal.record.token)
