"""The files of an agent's session: snapshots of its work tree, in a repository of our own.

At the beginning and the end of each turn the work tree is stored, if it changed. Its Git repository
is not used: no process reads its configuration, and nothing of it changes. What git ignores, files
that look secret and other repositories inside stay out. A detached process does what a call of the
hook should not wait for: it stores many files and records their snapshot, packs many objects, and,
if the sessions are in a database, stores the snapshots for other machines.
"""

# Annotations are evaluated here: as strings, each field's would have to be compiled.

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from ...base.data_folder import NAME, is_repository, read_plain
from ...harness.domain.history_events import CheckpointTaken
from ...harness.session_layout import SNAPSHOTS
from .recording import FilesStored, change_session, record_files
from .session_place import SessionPlace, Stores

if TYPE_CHECKING:
    from ...harness.session_domain import SessionContext
    from ...harness.session_ports import LocalSessions
    from ...repository.snapshots.snapshots import Snapshots

_NOTE: Final = "work-tree"
"""The file in the repository that names the work tree."""
_SENT: Final = "sent"
"""The file in the repository that names the last snapshot that other machines can have."""
_MAX_NOTE: Final = 8192
_AT_ONCE: Final = 1_000
_WAIT_S: Final = 0.5
_LATER_S: Final = 600
_LATER_WAIT_S: Final = 30.0
_MOST_FILE_BYTES: Final = 64 << 20
_MOST_BYTES: Final = 2 << 30
_SHOWN: Final = 40
_LATER: Final = (
    f"import signal, sys; signal.alarm({_LATER_S}); "
    "from agentforge_sessions.agents.hooks.work_tree import store_later; "
    "from agentforge_sessions.fleet import stores; "
    "from agentforge_sessions.wiring.bootstrap import open_snapshots; "
    "store_later(sys.argv[1:], stores, open_snapshots)"
)
"""What it does is done again at the next event if it takes too long, or is killed."""
Start = Callable[[Sequence[str], Mapping[str, str]], object]


class WorkTree(NamedTuple):
    """The work tree of a session.

    Attributes:
        root: The work tree.
        directory: The session's directory on this machine.
    """

    root: Path
    directory: Path

    def snapshots(
        self, *, at_once: int | None = None, wait_s: float = 60.0, **more: Any
    ) -> "Snapshots":
        """Return its snapshots; their repository may not exist.

        Args:
            at_once: The most entries to list again, and files to store, in one call; any if None.
            wait_s: How long to wait for another process that works in it, in seconds.
            more: More for their `SnapshotRepository`.
        """
        # These take long to load, and most calls of the hook do not need them.
        from ...base.settings.ignored_files import WorkTreeFiles
        from ...repository.snapshots.snapshot_repository import SnapshotRepository
        from ...repository.snapshots.snapshots import Snapshots
        from ...repository.snapshots.workspace_scan import ScanLimits

        repository = SnapshotRepository(
            self.directory / SNAPSHOTS,
            self.root,
            lock_timeout_s=wait_s,
            choice=WorkTreeFiles(at_once),
            **more,
        )
        limits = ScanLimits(max_bytes=_MOST_BYTES, max_file_bytes=_MOST_FILE_BYTES)
        return Snapshots(repository, limits=limits)

    def store(self, *, at_once: int | None = None, wait_s: float = 60.0) -> str:
        """Store the present files if they changed; return the id of their snapshot.

        Raises:
            AgentForgeError: They could not be stored.
            OSError: The system refused.
        """
        from ...repository.snapshots.snapshots import NoSnapshots

        snapshots = self.snapshots(at_once=at_once, wait_s=wait_s)
        snapshots.repository.make()
        self.note()
        taken = snapshots.take("files")
        if taken is None:
            raise NoSnapshots(self.directory / SNAPSHOTS)
        return taken.id

    def note(self) -> None:
        """Make it the folder that the session works in; its snapshots must exist.

        Raises:
            WriteError: The system refused.
        """
        from ...base.files import AtomicFileWriter

        if noted_work_tree(self.directory) != self.root:
            with AtomicFileWriter(self.directory / SNAPSHOTS / _NOTE) as file:
                file.write(os.fspath(self.root))

    def is_sent(self, snapshot: str) -> bool:
        """Return whether other machines can have a snapshot."""
        try:
            found = read_plain(os.fspath(self.directory / SNAPSHOTS / _SENT), most=_MAX_NOTE)
        except OSError:
            return False
        return found.decode("ascii", "replace") == snapshot

    def note_sent(self, snapshot: str) -> None:
        """Record that other machines can have a snapshot, and all before it.

        Raises:
            WriteError: The system refused.
        """
        from ...base.files import AtomicFileWriter

        with AtomicFileWriter(self.directory / SNAPSHOTS / _SENT) as file:
            file.write(snapshot)


def noted_work_tree(directory: Path) -> Path | None:
    """Return the work tree that a session's snapshots are of; None if they are of a workspace."""
    try:
        named = os.fsdecode(read_plain(os.fspath(directory / SNAPSHOTS / _NOTE), most=_MAX_NOTE))
    except OSError:
        return None
    return Path(named) if os.path.isabs(named) and "\0" not in named else None


def work_tree_of(directory: str, session_directory: Path) -> WorkTree | None:
    """Return the work tree around a program's working directory; None if none is to be stored.

    None outside of a Git repository, and where the session's own directory would be stored in it.
    """
    start = Path(os.path.realpath(directory))
    root = next((one for one in (start, *start.parents) if is_repository(one)), None)
    if root is None:
        return None
    inside = Path(os.path.realpath(session_directory))
    if inside.is_relative_to(root) and NAME not in inside.relative_to(root).parts:
        return None
    return WorkTree(root, session_directory)


def store_files(
    place: SessionPlace,
    session_id: str,
    directory: str,
    data_folder: Path,
    environment: Mapping[str, str],
    *,
    start: Start,
) -> FilesStored | None:
    """Store the files of a session's work tree, for the event that is being recorded.

    Returns:
        What to record; None if there is nothing, or another process is storing them.
    """
    tree = work_tree_of(directory, place.sessions.session_directory(session_id))
    if tree is None:
        return None
    from ...base.errors import AgentForgeError
    from ...base.files import LockTimeout
    from ...repository.snapshots.snapshot_repository import MANY_LOOSE
    from ...repository.snapshots.workspace_scan import TooMuchAtOnce

    stored: FilesStored | None = None
    try:
        stored = FilesStored(tree.store(at_once=_AT_ONCE, wait_s=_WAIT_S))
    except TooMuchAtOnce:
        pass
    except LockTimeout:
        if place.is_files:
            return None  # the next event records what the other process stores
    except (AgentForgeError, OSError) as error:
        return FilesStored(unkept=first_sentence(error))
    snapshot = "" if stored is None else stored.snapshot or ""
    is_sent = place.is_files or tree.is_sent(snapshot)
    if not snapshot or not is_sent or tree.snapshots().repository.loose_objects() > MANY_LOOSE:
        words = [sys.executable, "-P", "-c", _LATER, str(data_folder), str(place.base)]
        with suppress(OSError, NotImplementedError):  # the next event tries again
            start([*words, session_id, str(tree.root), snapshot], environment)
    return stored


def store_later(
    arguments: Sequence[str], stores: Stores, open_snapshots: "Callable[..., SentSnapshots]"
) -> None:
    """Store a work tree's files, however many, and record their snapshot in the session.

    Then pack them, and store them for other machines; why that failed is recorded, too.

    Args:
        arguments: The data folder, the directory of the sessions, the session, the work tree, and
            the snapshot of its files; empty if they are to be stored.
        stores: Opens the sessions.
        open_snapshots: Opens the snapshots of sessions, with the address of an object store.
    """
    from ...base.errors import AgentForgeError
    from .settings import read_settings

    data_folder, base, session_id, root, snapshot = arguments
    settings = read_settings(Path(data_folder))
    store = os.environ.get("AGENTFORGE_STORE") or settings.store
    objects = os.environ.get("AGENTFORGE_OBJECTS") or settings.objects
    place = SessionPlace(Path(base), store, stores)
    try:
        tree = WorkTree(Path(root), place.sessions.session_directory(session_id))
        if not snapshot:
            try:
                snapshot = tree.store(wait_s=_LATER_WAIT_S)
            except (AgentForgeError, OSError) as error:
                _record(place, session_id, FilesStored(unkept=first_sentence(error)))
                return
            _record(place, session_id, FilesStored(snapshot))
        try:
            open_snapshots(place.sessions, objects).send(session_id)
            tree.note_sent(snapshot)
        except (AgentForgeError, OSError) as error:
            reason = f"not on other machines: {first_sentence(error)}"
            _record(place, session_id, FilesStored(snapshot, reason[:500]))
    finally:
        place.close()


class SentSnapshots(Protocol):
    """The snapshots of sessions, of which other machines can have some."""

    def send(self, session_id: str) -> None:
        """Pack a session's snapshots, and store them for other machines if there are any."""


def _record(place: SessionPlace, session_id: str, found: FilesStored) -> None:
    from ...base.clock import utc_now

    def change(session: "SessionContext") -> bool:
        return not session.state.is_terminal and record_files(session, found, utc_now())

    change_session(place.sessions, session_id, change)


def changed_files(sessions: "LocalSessions", session_id: str) -> str:
    """Return which files the session's work changed so far, with counts of lines; "" if none.

    It compares the first snapshot with the last one; at most 40 lines.
    """
    directory = sessions.session_directory(session_id)
    root = noted_work_tree(directory)
    session = None if root is None else sessions.load(session_id)
    if session is None or root is None or not sessions.is_own(session_id):
        return ""
    stored = [
        entry.event.snapshot
        for entry in session.history
        if entry.event_type is CheckpointTaken and isinstance(entry.event, CheckpointTaken)
    ]
    known = [one for one in stored if one is not None]
    if not known or known[0] == known[-1]:
        return ""
    from ...base.errors import AgentForgeError

    try:
        snapshots = WorkTree(root, directory).snapshots(wait_s=_WAIT_S)
        files = snapshots.changes(known[0], known[-1]).files
    except (AgentForgeError, OSError):
        return ""
    lines = [
        f"{one.path} | {one.kind}"
        if one.insertions is None
        else f"{one.path} | {one.kind}, +{one.insertions} -{one.deletions}"
        for one in files
    ]
    if len(lines) > _SHOWN:
        lines[_SHOWN - 1 :] = [f"and {len(lines) - _SHOWN + 1} more files"]
    return "\n".join(lines)


def first_sentence(error: Exception) -> str:
    """Return an error's first sentence for the history, in which its advice would come too late."""
    return str(error).split(". ", 1)[0][:500].encode("utf-8", "backslashreplace").decode()
