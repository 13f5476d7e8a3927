"""The session a conversation of an agent program is bound to, and how far its usage is read.

    $XDG_STATE_HOME/agentforge/conversations/{path of the git common directory, or .agentforge}/
        {program}/{the program's id of the conversation}/binding.json

The file is outside the project, so that nothing a clone brings can say where sessions are, why an
agent stops, or what it reads.

The directory of a conversation is its lock: hooks run in parallel. Except for the session's id the
file is a cache: the session itself records what is charged, and the program's own files record
what was spent. A binding that is lost or not saved costs time and no token.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...base.data_folder import state_of
from ...base.files import FileSystem, OsFileSystem, ReadError, read_regular_file
from ...base.identifiers import is_session_id, is_workspace_name
from ..programs.hook_event import HookEvent, Moment, Spent
from ..programs.meter import UsageMeter, counts_of, object_of, usage_of
from ..programs.registry import has_read_all, read_files
from ..programs.tokens import Charged, Cost
from .session_place import SessionPlace

if TYPE_CHECKING:
    from ...base.files import DirectoryLock

FOLDER: Final = "conversations"
FILE: Final = "binding.json"
LOCK_TIMEOUT_S: Final = 20.0
_ASIDE: Final = "unrecorded"
_MOST_ASIDE: Final = 500
"""How many calls of a conversation may be put aside."""
_MAX_BYTES: Final = 1024 * 1024
_THOROUGH: Final = frozenset(
    {
        Moment.STARTED,
        Moment.COMPACTED,
        Moment.SUBAGENT_ENDED,
        Moment.TURN_ENDED,
        Moment.ENDED,
    }
)
"""Moments at which the program's whole record of a conversation is compared with the charges."""


class Binding:
    """The stored state of one conversation.

    Attributes:
        session_id: The session that it is bound to, or None before that is known.
        base: The directory of that session's base.
        store: The address of its store, without a password; empty for the files of the base.
        directory: The folder in which the program was started; empty if unknown.
        process: The program's process: its id and its start time; empty if unknown.
        branch: The tag of the branch that was checked out when it was bound; empty for none.
        begins: How far each file was read when the conversation left another session for this one.
        briefing: The last briefing, with all updates; it replaces one that a compaction removed
            from the context. None before the first.
        briefed: How the texts begin that the context has of it: a briefing, then its updates.
        entries: How many entries the session's history had at that time.
        baseline: What the program had reported when the conversation was bound; only usage beyond
            it is charged to this session.
        meter: What the program has reported so far.
        charged: What of that is charged, by the session's own record, and what it cost.
        notice: A line for the next answer that can carry text for the agent, or None.
        stop: Why the agent had to stop at the last look at the session, or None.
        looked_at: Identifies the session's file at that look; empty if there was none.
        account: The tokens that the session had spent then, its budget, and what it cost in
            millionths of a US dollar.
        waits: Whether it has something that is to be recorded later.
        summary: The last recorded summary or its digest, where only the program's file or its
            requests have the summary.
        transcript: The program's file of the conversation, or None.
    """

    __slots__ = (
        "account",
        "base",
        "baseline",
        "begins",
        "branch",
        "briefed",
        "briefing",
        "charged",
        "directory",
        "entries",
        "looked_at",
        "meter",
        "notice",
        "process",
        "session_id",
        "stop",
        "store",
        "summary",
        "transcript",
        "waits",
    )

    def __init__(self, kept: object = None) -> None:
        """Read the stored state; anything that is not a binding counts as empty."""
        given: dict[str, Any] = kept if isinstance(kept, dict) else {}
        session_id = given.get("session_id")
        base = given.get("base")
        bound = is_session_id(session_id) and isinstance(base, str) and os.path.isabs(base)
        self.session_id: str | None = session_id if bound else None
        self.base: str = base if bound and isinstance(base, str) else ""
        self.store = _text(given.get("store")) or ""
        self.directory = _text(given.get("directory")) or ""
        self.process = [one for one in given.get("process", ()) if type(one) is int]
        self.branch = _text(given.get("branch")) or ""
        self.baseline = _count(given.get("baseline"))
        begins = given.get("begins")
        self.begins = dict(begins) if isinstance(begins, dict) else {}
        usage, costs = given.get("charged_usage"), counts_of(given.get("charged_costs"))
        self.charged = Charged(usage_of(usage), costs)
        self.meter = UsageMeter(given.get("meter"))
        self.notice = _text(given.get("notice"))
        self.briefing = _text(given.get("briefing"))
        self.briefed = [one for one in given.get("briefed", ()) if type(one) is str]
        self.entries = _count(given.get("entries"))
        self.stop = _text(given.get("stop"))
        self.looked_at = [one for one in given.get("looked_at", ()) if type(one) is int]
        account = given.get("account", ())
        self.account = [_count(one) for one in account] if len(account) == 3 else [0, 0, 0]
        self.waits = given.get("waits") is True
        self.summary = _text(given.get("summary")) or ""
        self.transcript = _text(given.get("transcript"))

    def as_json(self) -> dict[str, Any]:
        """Return the state to store."""
        found = {name: getattr(self, name) for name in self.__slots__}
        usage, costs = found.pop("charged")
        charged = {"charged_usage": usage._asdict(), "charged_costs": costs}
        return {**found, **charged, "meter": self.meter.as_json()}

    def note_process(self, event: HookEvent) -> None:
        """Note where the program was started, and as which process, once it is started."""
        is_start = event.moment is Moment.STARTED and event.source != "compact"
        if event.by_subagent or not (is_start or event.moment is Moment.PROMPTED):
            return
        from ..programs.agent_process import calling_process  # other calls do not need it

        self.process = calling_process(event.process)
        self.directory = event.directory if is_start or not self.directory else self.directory

    def read_usage(self, event: HookEvent) -> None:
        """Read the conversation's cost from the program's files and from an event."""
        if self.transcript is None or not event.by_subagent:
            self.transcript = event.transcript or self.transcript
        if self.transcript is not None:
            read_files(
                event.program,
                self.transcript,
                self.meter,
                conversation=event.agent_session,
                also=[event.transcript] if event.transcript else [],
                thoroughly=event.moment in _THOROUGH,
            )
        for one in event.usage:
            if not one.key:
                self.meter.expect(one.tokens, one.model)
                continue
            self.meter.saw(one.at)
            self.meter.report(one.key, one.tokens, one.model, one.micro_usd)
        if event.moment is Moment.STARTED and event.source != "compact":
            self.meter.begin_again()
        elif event.moment is Moment.ENDED:
            self.meter.is_lent = bool(self.meter.pending)

    def take_edits(self, event: HookEvent) -> HookEvent:
        """Return the event, adding edited files that only the program's own file mentions."""
        found, self.meter.edited = self.meter.edited, []
        return event._replace(edited=(*event.edited, *found)) if found else event

    def spent(self, environment: Mapping[str, str]) -> Spent:
        """Return the reported usage in the form that is recorded.

        Args:
            environment: Locates the person's configuration, which may override prices.
        """
        from ...base.settings.spending import read_spending

        usage, settings = self.meter.usage, read_spending(environment)

        def price(charged: Charged) -> Cost:
            if charged.usage == usage:
                return Cost()
            from ..programs.prices import Prices  # few calls charge anything

            return Prices(settings.prices).cost_of(usage, charged)

        return Spent(usage, self.baseline, self.charged, price, settings.weights)

    def is_bound_to(self, place: SessionPlace, session_id: str) -> bool:
        """Return whether the conversation is already bound to this session."""
        bound = (self.session_id, self.base, self.store)
        return bound == (session_id, str(place.base), place.name)

    def bind(
        self,
        place: SessionPlace,
        session_id: str,
        *,
        branch: str = "",
        known: bool,
        environment: Mapping[str, str],
    ) -> None:
        """Bind the conversation to a session.

        Args:
            place: Where the session is.
            session_id: The session.
            branch: The tag of the branch that is checked out.
            environment: Locates the person's configuration.
            known: Whether all that the conversation spent is the session's: the binding was lost,
                or could not be saved until now.
        """
        self.baseline, self.charged = 0, Charged()
        if not (known and self.session_id is None):
            self.baseline, usage = self.meter.total, self.meter.usage
            costs = self.spent(environment).price(Charged()).models
            self.charged = Charged(usage, dict(costs))
        # What was said for another session stays there.
        self.begins = {} if self.session_id is None else dict(self.meter.offsets)
        self.session_id, self.base, self.store = session_id, str(place.base), place.name
        self.branch, self.looked_at = branch, []
        self.stop = self.notice = self.briefing = None
        self.waits = False
        self.briefed = []

    def is_current(self, event: HookEvent, place: SessionPlace) -> bool:
        """Return whether session and program files are unchanged since the last look."""
        return (
            not self.waits
            and not self.finds_compaction(event)
            and self.is_as_seen(place)
            and has_read_all(event.program, event.transcript or self.transcript, self.meter)
        )

    def is_as_seen(self, place: SessionPlace) -> bool:
        """Return whether the session is as it was at the last look."""
        return bool(self.looked_at) and self.looked_at == place.mark(self.session_id or "")

    def finds_compaction(self, event: HookEvent) -> bool:
        """Return whether a request to the model has a summary that is not recorded yet."""
        is_request = event.moment is Moment.BEFORE_MODEL and bool(event.text)
        return is_request and self.summary != digest_of(event.text)

    def remember(self, place: SessionPlace, revision: int, account: list[int]) -> None:
        """Remember the session: what identifies its file, if it is at this revision."""
        self.looked_at = place.mark_at(self.session_id or "", revision)
        self.account, self.waits = account, False


def digest_of(text: str) -> str:
    """Return a digest that identifies a text."""
    import hashlib  # only a compacted request needs it

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class BindingFile:
    """The binding of one conversation on disk.

    Args:
        conversations: The project's folder, as `conversations_folder` returns it.
        program: The agent program.
        agent_session: The program's id of the conversation; a plain name.
        fs: The file system.
        timeout_s: How long to wait for another hook of the conversation, in seconds.
    """

    def __init__(
        self,
        conversations: Path,
        program: str,
        agent_session: str,
        *,
        fs: FileSystem | None = None,
        timeout_s: float = LOCK_TIMEOUT_S,
    ) -> None:
        if not is_workspace_name(agent_session) or not is_workspace_name(program):
            raise ValueError(f"{agent_session[:60]!r} can't name a conversation")
        self._fs = fs if fs is not None else OsFileSystem()
        self._timeout_s = timeout_s
        self.conversations = conversations
        self.directory = conversations / program / agent_session
        self.path = self.directory / FILE
        self._lock: DirectoryLock | None = None

    def read(self) -> Binding:
        """Return the stored binding; without the lock it may change at any time.

        Raises:
            ReadError: The file can't be read.
        """
        data = read_regular_file(self._fs, str(self.path), path=self.path, max_bytes=_MAX_BYTES)
        return Binding(object_of(data) if data else None)

    def lock(self) -> None:
        """Create the directory if needed and lock it until `release`.

        Raises:
            WriteError: The system refused.
            LockTimeout: Another hook of the conversation held the lock for too long.
        """
        from ...base.files import DirectoryLock, make_durable_directory

        lock = DirectoryLock(self._fs, self.directory, timeout_s=self._timeout_s)
        try:
            lock.acquire()
        except FileNotFoundError:
            make_durable_directory(self._fs, self.directory)
            lock.acquire()
        self._lock = lock

    def write(self, binding: Binding) -> None:
        """Save the binding; the lock must be held.

        Raises:
            WriteError: It could not be saved; the previous one is unchanged.
        """
        from ...base.files import replace_file
        from ...base.files.atomic_file import random_token

        assert self._lock is not None  # noqa: S101 (the caller holds it)
        data = json.dumps(binding.as_json(), ensure_ascii=True).encode()
        replace_file(self._fs, self._lock.fd, FILE, [data], path=self.path, token=random_token)

    def put_aside(self, payload: Mapping[str, Any]) -> bool:
        """Store the input of a call that could not be recorded; return whether there was room.

        Secrets in it are masked. It needs no lock; the next call that has the lock records it.

        Raises:
            WriteError: It could not be stored.
            OSError: Likewise.
        """
        from ...base.files import AtomicFileWriter
        from ...base.files.atomic_file import random_token

        folder, data = self.directory / _ASIDE, json.dumps(_without_secrets(payload)).encode()
        os.makedirs(folder, 0o700, exist_ok=True)
        if len(data) > _MAX_BYTES or len(os.listdir(folder)) >= _MOST_ASIDE:
            return False
        with AtomicFileWriter(folder / f"{time.time_ns():020d}-{random_token()}") as file:
            file.write(data)
        return True

    def put_aside_before(self) -> list[Path]:
        """Return the files of earlier calls that could not be recorded, the oldest first."""
        folder = self.directory / _ASIDE
        try:
            return sorted(folder / one for one in os.listdir(folder) if one[:1].isdigit())
        except OSError:
            return []

    def release(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()


def _without_secrets(value: object) -> object:
    """Return a JSON value with the secrets in its texts masked."""
    from ...base.text.masking import mask  # few calls put something aside

    if isinstance(value, str):
        return mask(value).text
    if isinstance(value, Mapping):
        return {name: _without_secrets(one) for name, one in value.items()}
    return [_without_secrets(one) for one in value] if isinstance(value, list) else value


def conversations_folder(identity: Path, environment: Mapping[str, str]) -> Path:
    """Return the folder of a project's conversations; all its work trees share it.

    Args:
        identity: The git common directory, or the project's `.agentforge` outside of a repository.
        environment: The environment variables.
    """
    return state_of(identity, FOLDER, environment)


def conversations_of(conversations: Path, session_id: str) -> list[tuple[str, str]]:
    """Return the program and the id of each conversation that is bound to a session."""
    found = []
    for program in _names(conversations):
        for name in _names(conversations / program):
            if is_workspace_name(program) and is_workspace_name(name):
                try:
                    binding = BindingFile(conversations, program, name).read()
                except ReadError:
                    continue
                if binding.session_id == session_id:
                    found.append((program, name))
    return found


def _names(directory: Path) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return sorted(one.name for one in entries if one.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _count(value: object) -> int:
    return value if type(value) is int and value >= 0 else 0


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
