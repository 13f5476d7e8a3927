"""Check programs as they are stored, and move damaged ones aside; nothing runs."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ..guest_paths import DAMAGED_NAME
from ..installed.interpreter_files import LIBRARY_ARCHIVE, MODULE, InterpreterFiles
from .durable_state import progress_of
from .errors import ProgramSnapshotDamaged, ProgramSnapshotRefused
from .program_directory import ProgramDirectory
from .snapshot_file import ProgramSnapshot


def why_unusable(data: bytes, templates: Collection[str]) -> ProgramSnapshotRefused | None:
    """Return why a stored program cannot go on here, or None.

    Args:
        data: Its snapshot.
        templates: The digests of the templates in the cache.

    Raises:
        SandboxUnavailable: There is no interpreter here.
    """
    try:
        snapshot = ProgramSnapshot(data)
        progress_of(snapshot)
    except ProgramSnapshotRefused as error:
        return error
    said, digests = snapshot.description, InterpreterFiles.found().digests
    if (said.module, said.library) != (digests[MODULE], digests[LIBRARY_ARCHIVE]):
        return ProgramSnapshotRefused(
            "it was saved by another release of the interpreter",
            "go on with it with that release",
        )
    if said.template not in templates:
        return ProgramSnapshotRefused(
            f"its prepared interpreter ({said.template[:12]}) is not in the cache",
            "this release makes its own when it goes on; else go on with the release that saved it",
        )
    return None


def damage_of(directory: Path) -> str | None:
    """Return why the snapshot in a program's directory is damaged; None if it isn't.

    Raises:
        ReadError: It cannot be read.
    """
    try:
        ProgramDirectory(directory).peek()
    except ProgramSnapshotDamaged as error:
        return error.reason
    except ProgramSnapshotRefused:
        return None  # of another release
    return None


def move_aside(directory: Path) -> None:
    """Rename a damaged snapshot to `state.damaged`; the program starts without state.

    The journal of a turn that started from it is removed.

    Raises:
        ProgramElsewhere: A sandbox uses it.
        OSError: It cannot be renamed.
    """
    place = ProgramDirectory(directory)
    place.hold()
    try:
        if damage_of(directory) is not None:
            place.move_aside(DAMAGED_NAME)
            place.remove_journal()
    finally:
        place.leave()
