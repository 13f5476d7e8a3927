"""A LangGraph checkpointer that stores each thread in a session.

    from agentforge_sessions.integrations.bridges.langgraph import AgentForgeSaver

    graph = builder.compile(checkpointer=AgentForgeSaver())

A thread is an active session of the workflow `langgraph`, whose id is a hash of the thread's; its
checkpoints are entries of a stream beside it. So `agentforge list` shows it, a prune removes it
once it has ended, and `agentforge fleet store copy` includes it.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, cast
from zlib import crc32

from ...base.clock import Clock, utc_now
from ...base.errors import ExtraMissing
from ...base.files.atomic_file import random_token
from ...harness import LocalSessions, SessionObserver
from ...harness.stream_port import StreamEntry
from .followed_stream import Followed
from .foreign_sessions import StoreUser, in_thread
from .graph_threads import CheckpointOrder, GraphThread
from .thread_entries import (
    CheckpointBody,
    IndexedCheckpoint,
    Key,
    Typed,
    ValuePlace,
    checkpoint_body,
    checkpoint_entries,
    writes_entry,
    written_values,
)

try:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        WRITES_IDX_MAP,
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        PendingWrite,
        get_checkpoint_id,
        get_checkpoint_metadata,
        writes_sort_key,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol
except ModuleNotFoundError as error:
    raise ExtraMissing("this bridge", "an SDK", "langgraph") from error

_Tuples = list[CheckpointTuple]  # in the class, `list` is its method
_Pending = list[PendingWrite]
_Part = tuple[str | Key, int]
"""Part of a checkpoint: a value by put id and number, or a write by checkpoint and number."""
_KIND: Final = "langgraph"
_PAGE: Final = 16
"""How many checkpoints a listing reads at a time."""
_MOST_KEYS: Final = 4096
"""How many keys a listing looks up at a time."""
_ROOT: Final = ""


class _Nothing:
    """What `setup` returns to those that await it; any number of times."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


_NOTHING: Final = _Nothing()


class AgentForgeSaver(StoreUser, BaseCheckpointSaver[str]):
    """Stores the checkpoints of graphs in sessions.

    Guarantees: when a call that writes returns, what it wrote survives the death of the process;
    when it raises, nothing of it is stored. Several processes may write to one thread: no write is
    lost, and a checkpoint is read completely or not at all. A thread whose session has ended
    accepts no more checkpoints.

    Instances may be shared between threads and event loops. The asynchronous methods run the others
    in a worker thread; a cancelled one has ended when the caller continues.

    Args:
        store: A folder's path, `postgresql://…`, or an open store. By default as the command line:
            the one in AGENTFORGE_STORE, or `.agentforge/sessions`.
        serde: Serializes the values; LangGraph's own by default.
        clock: The time.
        observers: The observers of sessions created for it; see `harness.SessionObserver`.
        token: Returns new random text.

    Raises:
        InvalidStoreAddress: `store` is not a store's address.
        ExtraMissing: It is a database, and the packages for it are not installed.
    """

    def __init__(
        self,
        store: LocalSessions | Path | str | None = None,
        *,
        serde: SerializerProtocol | None = None,
        clock: Clock = utc_now,
        observers: Iterable[SessionObserver] = (),
        token: Callable[[], str] = random_token,
    ) -> None:
        BaseCheckpointSaver.__init__(self, serde=serde)
        self._token = token
        sessions = self._opened(
            store, _KIND, words="LangGraph thread", clock=clock, observers=observers
        )
        self._threads = Followed(sessions, partial(GraphThread, sessions, _KIND))

    def session_id(self, thread_id: str) -> str:
        """Return the id of a thread's session, existing or not."""
        return self._threads.sessions.session_id(thread_id)

    def setup(self) -> Awaitable[None]:
        """Do nothing: a store needs no preparation. For code that calls it, or awaits it."""
        return _NOTHING

    # -------------------------------------------------------------------------------- reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that a config names, or the last one of its namespace.

        Raises:
            HarnessError: The store refused, or its data is damaged.
            BridgeError: The session belongs to another id, or the thread's entries can't be read.
        """
        thread_id, namespace, checkpoint_id = _named(config)
        thread = self._threads.get(thread_id)

        def look(thread: GraphThread) -> CheckpointTuple | None:
            thread.know(namespace, checkpoint_id)
            wanted = checkpoint_id or thread.index.latest.get(namespace)
            if wanted is None or thread.index.get((namespace, wanted)) is None:
                return None
            return next(iter(self._tuples(thread, [(namespace, wanted)])), None)

        return thread.reading(look)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 (the name is LangGraph's)
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, the last ones first.

        Args:
            config: The thread, with the namespace or the checkpoint if given; all threads if None.
            filter: Values that their metadata must have.
            before: Only checkpoints whose id is less than this one's.
            limit: The most checkpoints to yield.

        Raises:
            HarnessError: As from `get_tuple`.
            BridgeError: As from `get_tuple`.
        """
        for page in self._pages(config, filter, before, limit):
            yield from page

    def _pages(
        self,
        config: RunnableConfig | None,
        wanted: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Iterator[Sequence[CheckpointTuple]]:
        left = sys.maxsize if limit is None else limit
        if left <= 0:
            return
        size = _PAGE if wanted else min(_PAGE, left)
        if config:
            thread = self._threads.get(_named(config)[0])
            yield from self._pages_of(thread, _Wanted.of(config, before), wanted, left, size)
            return
        threads = {name: self._threads.get(name) for name in sorted(self._threads.sessions.names())}
        keys_wanted = _Wanted.of(None, before)
        found = heapq.merge(
            *(_places(one, keys_wanted, size) for one in threads.values()), reverse=True
        )
        while left > 0 and (page := list(islice(found, size if wanted else min(size, left)))):
            tuples: list[CheckpointTuple] = []
            for name in dict.fromkeys(name for _, name, _ in page):
                keys = [(space, one) for one, of, space in page if of == name]
                tuples += threads[name].reading(partial(self._tuples, keys=keys, wanted=wanted))
            tuples.sort(key=_order, reverse=True)
            yield tuples[:left]
            left -= len(tuples)

    def _pages_of(
        self,
        thread: GraphThread,
        keys_wanted: _Wanted,
        wanted: Mapping[str, Any] | None,
        left: int,
        size: int,
    ) -> Iterator[Sequence[CheckpointTuple]]:
        """Yield the checkpoints of one thread; each page is found and read in one look."""

        def look(thread: GraphThread) -> tuple[Sequence[Key], _Tuples]:
            keys = keys_wanted.last_of(thread, size)
            return keys, self._tuples(thread, keys, wanted)

        while left > 0:
            size = size if wanted else min(size, left)
            keys, tuples = thread.reading(look)
            yield tuples[:left]
            left -= len(tuples)
            if len(keys) < size:
                return
            keys_wanted = keys_wanted.behind(keys[-1])

    def _tuples(
        self, thread: GraphThread, keys: Sequence[Key], wanted: Mapping[str, Any] | None = None
    ) -> _Tuples:
        """Return the checkpoints of these keys that exist and whose metadata matches."""
        for key in keys:
            thread.know(*key)
        index = thread.index
        found = [one for key in keys if (one := index.get(key)) is not None]
        chosen: list[tuple[IndexedCheckpoint, CheckpointBody, CheckpointMetadata]] = []
        for one, body in zip(found, thread.checkpoints(found), strict=True):
            thread.remember(one.key, body.places)
            metadata = self.serde.loads_typed(body.metadata)
            if all(metadata.get(name) == value for name, value in (wanted or {}).items()):
                chosen.append((one, body, metadata))
        entries: dict[_Part, StreamEntry] = {}  # many checkpoints share a value
        for one, body, _ in chosen:
            for place in body.places.values():
                if (part := place[:2]) not in entries:
                    entries[part] = index.value(one, place)
            for number, written in enumerate(index.writes.get(one.key, ())):
                entries[one.key, number] = written.entry
        bodies = dict(zip(entries, thread.bodies(list(entries.values())), strict=True))
        return [self._tuple(thread, *one, bodies) for one in chosen]

    def _tuple(
        self,
        thread: GraphThread,
        found: IndexedCheckpoint,
        body: CheckpointBody,
        metadata: CheckpointMetadata,
        bodies: Mapping[_Part, bytes],
    ) -> CheckpointTuple:
        """Return LangGraph's tuple of a checkpoint, with its values and writes."""
        load = self.serde.loads_typed
        values = {
            channel: load((place.kind, bodies[place[:2]])) for channel, place in body.places.items()
        }
        namespace, checkpoint_id = found.key
        return CheckpointTuple(
            _config(thread.name, namespace, checkpoint_id),
            cast(Checkpoint, {**load(body.checkpoint), "channel_values": values}),
            metadata,
            _config(thread.name, namespace, found.parent_id) if found.parent_id else None,
            self._pending(thread, found.key, bodies),
        )

    def _pending(self, thread: GraphThread, key: Key, bodies: Mapping[_Part, bytes]) -> _Pending:
        """Return the writes after a checkpoint, as live execution applies them."""
        kept: dict[tuple[str, int], tuple[str, str, Typed]] = {}
        for at, written in enumerate(thread.index.writes.get(key, ())):
            values = written_values(bodies[key, at])
            for (number, channel), typed in zip(written.slots, values, strict=True):
                slot = (written.task_id, number)
                if number < 0 or slot not in kept:  # a repeated task wrote the same
                    kept[slot] = (written.task_path, channel, typed)
        ordered = sorted(kept, key=lambda slot: writes_sort_key(kept[slot][0], *slot))
        return [
            (task_id, kept[task_id, number][1], self.serde.loads_typed(kept[task_id, number][2]))
            for task_id, number in ordered
        ]

    # -------------------------------------------------------------------------------- writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint, durably; return the config that names it.

        Raises:
            InvalidStateTransition: The thread's session has ended.
            HarnessError: The store refused; nothing was stored.
            BridgeError: The session belongs to another id, or the thread's entries can't be read.
        """
        thread_id, namespace, parent_id = _named(config)
        key = (namespace, checkpoint["id"])
        about = get_checkpoint_metadata(config, metadata)
        run_id = about.get("run_id")
        bare: dict[str, Any] = {**checkpoint}
        values: Mapping[str, Any] = bare.pop("channel_values")
        versions = checkpoint["channel_versions"]
        written: dict[str, Typed] = {}

        def typed(channel: str) -> Typed:
            if channel not in written:
                written[channel] = self.serde.dumps_typed(values[channel])
            return written[channel]

        def entries(
            known: Mapping[str, ValuePlace], standing: CheckpointOrder
        ) -> tuple[list[Any], dict[str, ValuePlace]]:
            put_id = self._token()
            places = {
                channel: place
                for channel, place in known.items()
                if channel in values
                and channel not in new_versions
                and place.version == versions.get(channel)
            }
            own = {
                channel: (typed(channel), versions.get(channel))
                for channel in values
                if channel not in places
            }
            made = checkpoint_entries(
                key,
                put_id,
                parent_id=parent_id,
                run_id=None if run_id is None else str(run_id),
                first=standing.first,
                newest=standing.newest,
                checkpoint=self.serde.dumps_typed(bare),
                metadata=self.serde.dumps_typed(about),
                own=own,
                places=places,
            )
            brought = {
                channel: ValuePlace(put_id, number, kept[0], version, len(kept[1]), crc32(kept[1]))
                for number, (channel, (kept, version)) in enumerate(own.items())
            }
            return made, {**places, **brought}

        self._threads.get(thread_id).put(key, parent_id, entries)
        return _config(thread_id, namespace, checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store a task's writes after a checkpoint, durably.

        Raises:
            HarnessError: As from `put`.
            BridgeError: As from `put`.
        """
        thread_id, namespace, checkpoint_id = _named(config)
        if checkpoint_id is None:
            raise KeyError("checkpoint_id")
        slots = [
            (WRITES_IDX_MAP.get(channel, number), channel, self.serde.dumps_typed(value))
            for number, (channel, value) in enumerate(writes)
        ]
        if slots:
            entry = writes_entry((namespace, checkpoint_id), task_id, task_path, slots)
            self._threads.get(thread_id).append([entry])

    # --------------------------------------------------------------------------- whole threads

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread's session with all of its checkpoints, if it exists.

        Raises:
            SessionInUse: Something is at work in it.
            HarnessError: The store refused.
        """
        self._threads.remove(str(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of some runs in all threads, with the writes after them.

        Values that later checkpoints still use are preserved. If a graph has delta channels, it
        must not need the writes of these runs any more.

        Raises:
            HarnessError: The store refused; the threads before it are done.
        """
        runs = {str(run_id) for run_id in run_ids}
        if not runs:
            return
        for name in sorted(self._threads.sessions.names()):

            def kept(thread: GraphThread) -> set[Key]:
                found = (thread.index.get(key) for key in thread.index.keys)
                return {one.key for one in found if one is not None and one.run_id not in runs}

            self._threads.get(name).keep(kept)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints and writes of a thread to another one.

        Raises:
            HarnessError: The store refused; nothing was copied.
        """
        if str(source_thread_id) != str(target_thread_id):
            source = self._threads.get(str(source_thread_id))
            entries = source.reading(lambda thread: thread.everything())
            if entries:
                self._threads.get(str(target_thread_id)).take_over(entries)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove checkpoints of threads.

        Args:
            thread_ids: The threads; a missing one is no error.
            strategy: "keep_latest" preserves the last checkpoint of each namespace, and the earlier
                ones from which its delta channels are rebuilt; "delete" removes all.

        Raises:
            ValueError: There is no such strategy; nothing was removed.
            HarnessError: The store refused; the threads before it are done.
        """
        if strategy not in {"keep_latest", "delete"}:
            raise ValueError(f"{strategy!r} is no strategy: use 'keep_latest' or 'delete'")
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
            else:
                self._threads.get(str(thread_id)).keep(self._latest)

    def _latest(self, thread: GraphThread) -> set[Key]:
        """Return the last checkpoint of each namespace, and those that its delta channels need."""
        kept: set[Key] = set()
        for namespace, last in thread.index.latest.items():
            wanted: set[str] | None = None
            current: str | None = last
            while current is not None:
                found = thread.index.get((namespace, current))
                if found is None:
                    break
                kept.add(found.key)
                body = checkpoint_body(found.put_id, thread.bodies([found.entry])[0])
                if wanted is None:
                    metadata = self.serde.loads_typed(body.metadata)
                    wanted = set(metadata.get("counters_since_delta_snapshot") or ())
                wanted -= body.places.keys()
                current = found.parent_id if wanted else None
        return kept

    def get_next_version(
        self,
        current: str | int | float | None,
        channel: None,  # noqa: ARG002 (LangGraph's signature)
    ) -> str:
        """Return a channel version that is greater than `current` and unique among forks."""
        last = 0 if current is None else int(str(current).partition(".")[0])
        return f"{last + 1:032d}.{self._token()}"

    # --------------------------------------------------------------------------- asynchronously

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that a config names; see `get_tuple`."""
        return await in_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 (the name is LangGraph's)
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, the last ones first; see `list`."""
        pages = self._pages(config, filter, before, limit)
        while (page := await in_thread(next, pages, None)) is not None:
            for one in page:
                yield one

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint, durably; see `put`."""
        return await in_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store a task's writes after a checkpoint, durably; see `put_writes`."""
        await in_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread's session; see `delete_thread`."""
        await in_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of some runs; see `delete_for_runs`."""
        await in_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread to another one; see `copy_thread`."""
        await in_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove checkpoints of threads; see `prune`."""
        await in_thread(self.prune, thread_ids, strategy=strategy)


def _named(config: RunnableConfig) -> tuple[str, str, str | None]:
    """Return the thread, the namespace and the checkpoint that a config names."""
    configurable = config["configurable"]
    return (
        str(configurable["thread_id"]),
        configurable.get("checkpoint_ns") or _ROOT,
        get_checkpoint_id(config),
    )


def _order(found: CheckpointTuple) -> tuple[str, str, str]:
    """Return the place of a checkpoint in a listing of all threads."""
    thread_id, namespace, checkpoint_id = _named(found.config)
    return checkpoint_id or "", thread_id, namespace


def _config(thread_id: str, namespace: str, checkpoint_id: str) -> RunnableConfig:
    return {
        "configurable": {
            "thread_id": thread_id,
            "checkpoint_ns": namespace,
            "checkpoint_id": checkpoint_id,
        }
    }


class _Wanted(NamedTuple):
    """Selects the checkpoints of a thread for a listing, except by metadata.

    Attributes:
        namespace: The namespace of all of them; None if they may be in any.
        named: The id of all of them; empty if they may have any.
        below: Select only those before this id and namespace; None for the end.
    """

    namespace: str | None
    named: str
    below: tuple[str, str] | None

    @classmethod
    def of(cls, config: RunnableConfig | None, before: RunnableConfig | None) -> Self:
        """Return the selection for a listing's arguments."""
        named = (get_checkpoint_id(config) if config else None) or ""
        end = get_checkpoint_id(before) if before else None
        below = (end, "") if end else None
        if named:
            below = min(below or (f"{named}\0", ""), (f"{named}\0", ""))  # the next possible id
        namespace = config["configurable"].get("checkpoint_ns") if config else None
        return cls(namespace, named, below)

    def behind(self, key: Key) -> Self:
        """Return the rest of the selection, after a checkpoint."""
        return self._replace(below=(key[1], key[0]))

    def last_of(self, thread: GraphThread, count: int) -> Sequence[Key]:
        """Return this many of a thread's keys, the last ones first; within a look."""
        return thread.last_keys(
            self._fits, namespace=self.namespace, below=self.below, least=self.named, count=count
        )

    def _fits(self, key: Key) -> bool:
        namespace, named, _ = self
        return (namespace is None or key[0] == namespace) and (not named or key[1] == named)


def _places(thread: GraphThread, wanted: _Wanted, count: int) -> Iterator[tuple[str, str, str]]:
    """Yield the matching checkpoints of a thread, the last ones first, in batches.

    Yields:
        The id, the thread and the namespace of each.
    """
    while True:
        found = thread.reading(partial(wanted.last_of, count=count))
        for space, one in found:
            yield one, thread.name, space
        if len(found) < count:
            return
        wanted = wanted.behind(found[-1])
        count = min(4 * count, _MOST_KEYS)
