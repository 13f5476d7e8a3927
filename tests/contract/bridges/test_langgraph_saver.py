"""The LangGraph checkpointer: the conformance suite of LangGraph, and what it promises beyond."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict
from uuid import uuid4

import pytest

from agentforge_sessions.harness import (
    InvalidStateTransition,
    LocalSessions,
    SessionManager,
    SessionState,
    SessionStore,
    SessionSummary,
)
from agentforge_sessions.harness.store.session_copy import copy_sessions
from agentforge_sessions.harness.stream_port import NewEntry
from agentforge_sessions.integrations.bridges.foreign_sessions import (
    ForeignEntryUnreadable,
    ForeignIdTaken,
)
from agentforge_sessions.testing import MemorySessions
from tests.support.clock import FakeClock
from tests.support.filesystem import FaultyFileSystem
from tests.support.late import LateModule

if TYPE_CHECKING:
    from langgraph import graph as graphs
    from langgraph import types as graph_types
    from langgraph.channels import delta
    from langgraph.checkpoint import base as lang
    from langgraph.checkpoint import conformance

    from agentforge_sessions.integrations.bridges import langgraph as bridge
else:
    bridge = LateModule("agentforge_sessions.integrations.bridges.langgraph")
    lang = LateModule("langgraph.checkpoint.base")
    conformance = LateModule("langgraph.checkpoint.conformance")
    graphs, graph_types = LateModule("langgraph.graph"), LateModule("langgraph.types")
    delta = LateModule("langgraph.channels.delta")

Open = Callable[[], LocalSessions]


def thread(name: str = "t", namespace: str = "", checkpoint: str | None = None) -> Any:
    named = {"thread_id": name, "checkpoint_ns": namespace}
    return {"configurable": named if checkpoint is None else {**named, "checkpoint_id": checkpoint}}


def extend(before: list[str], writes: list[list[str]]) -> list[str]:
    return [*before, *(one for written in writes for one in written)]


def put(saver: Any, config: Any, number: int, changed: dict[str, Any], **metadata: Any) -> Any:
    """Put the checkpoint of a number, in which these channels changed."""
    before = saver.get_tuple(config) if "checkpoint_id" in config["configurable"] else None
    values = {**(before.checkpoint["channel_values"] if before else {}), **changed}
    versions = dict(before.checkpoint["channel_versions"]) if before else {}
    new = dict.fromkeys(changed, number)
    checkpoint = {
        **lang.empty_checkpoint(),
        "id": f"{number:04}",
        "channel_values": values,
        "channel_versions": {**versions, **new},
    }
    about = {"source": "loop", "step": number, "parents": {}, **metadata}
    return saver.put(config, checkpoint, about, new)


def values(saver: Any, config: Any) -> Any:
    found = saver.get_tuple(config)
    return None if found is None else found.checkpoint["channel_values"]


def ids(saver: Any, config: Any, **wanted: Any) -> list[str]:
    return [one.checkpoint["id"] for one in saver.list(config, **wanted)]


def test_it_passes_the_conformance_suite_in_every_capability(opened: Open) -> None:
    @conformance.checkpointer_test(name=f"AgentForgeSaver {uuid4()}")
    async def checkpointer() -> AsyncIterator[Any]:
        yield bridge.AgentForgeSaver(opened())

    report = asyncio.run(conformance.validate(checkpointer))
    assert {name: one.failures for name, one in report.results.items() if not one.passed} == {}
    assert sum(one.tests_passed for one in report.results.values()) >= 81
    assert report.passed_all()


def test_another_process_goes_on_where_the_thread_stands(opened: Open) -> None:
    first, second = bridge.AgentForgeSaver(opened()), bridge.AgentForgeSaver(opened())
    one = put(first, thread(), 1, {"a": "first", "b": [1]})
    two = put(second, one, 2, {"b": [1, 2]})
    first.put_writes(two, [("c", "written")], "task")
    third = bridge.AgentForgeSaver(opened())
    for saver in (first, second, third):
        found = saver.get_tuple(thread())
        assert found is not None
        assert found.checkpoint["channel_values"] == {"a": "first", "b": [1, 2]}
        assert found.pending_writes == [("task", "c", "written")]
        assert found.parent_config == one
        assert values(saver, one) == {"a": "first", "b": [1]}


def test_what_did_not_change_is_not_written_again(opened: Open) -> None:
    sessions = opened()
    saver = bridge.AgentForgeSaver(sessions)
    config = put(saver, thread(), 1, {"large": "x" * 100_000, "n": 0})
    for number in range(2, 12):
        config = put(saver, config, number, {"n": number})
    kept = sessions.read_attachments(saver.session_id("t"))["streams/langgraph.log"]
    assert len(kept) < 150_000
    assert values(bridge.AgentForgeSaver(opened()), thread()) == {"large": "x" * 100_000, "n": 11}


def test_the_first_look_at_a_long_thread_reads_its_end(base: Path) -> None:
    saver = bridge.AgentForgeSaver(base)
    config = put(saver, thread(), 1, {"constant": "c" * 1000, "none": None, "empty": b"", "n": 0})
    for number in range(2, 300):
        config = put(saver, config, number, {"n": "n" * 2000})
    fs = FaultyFileSystem()
    other = bridge.AgentForgeSaver(SessionStore(base, fs=fs))
    expected = {"constant": "c" * 1000, "none": None, "empty": b"", "n": "n" * 2000}
    assert values(other, thread()) == expected
    put(other, config, 300, {"n": 300})
    assert fs.bytes_read < 500_000
    assert values(bridge.AgentForgeSaver(base), thread()) == {**expected, "n": 300}
    assert values(other, thread(checkpoint="0001")) == {**expected, "n": 0}
    assert len(ids(other, thread())) == 300


def test_the_last_checkpoint_may_stand_before_many_others(opened: Open) -> None:
    saver = bridge.AgentForgeSaver(opened())
    put(saver, thread(namespace="sub"), 7, {"s": 7})
    saver.put_writes(thread(checkpoint="0500"), [("c", "early")], "task")
    last = put(saver, thread(), 500, {"n": 500})
    saver.put_writes(last, [("d", "late")], "other")
    for number in range(1, 90):
        put(bridge.AgentForgeSaver(opened()), thread(), number, {"n": number})
    for _ in range(2):
        found = bridge.AgentForgeSaver(opened()).get_tuple(thread())
        assert found is not None
        assert found.checkpoint["channel_values"] == {"n": 500}
        assert sorted(found.pending_writes or []) == [
            ("other", "d", "late"),
            ("task", "c", "early"),
        ]
        other = bridge.AgentForgeSaver(opened())
        assert values(other, thread(namespace="sub")) == {"s": 7}
        assert values(other, thread(namespace="none")) is None
        put(other, thread(), 500, {"n": 500})  # put again: what was written behind it stays


def test_a_copy_of_a_long_thread_is_read_where_its_entries_stand_elsewhere(
    opened: Open, tmp_path: Path
) -> None:
    saver = bridge.AgentForgeSaver(opened())
    config = put(saver, thread(), 1, {"a": "a" * 100, "b": "b" * 100, "n": 0})
    for number in range(2, 100):
        config = put(saver, config, number, {"n": number})
    expected = {"a": "a" * 100, "b": "b" * 100, "n": 99}
    for there in (SessionStore(tmp_path / "files"), MemorySessions(tmp_path / "memory")):
        assert len([*copy_sessions(opened(), there)]) == 1
        other = bridge.AgentForgeSaver(there)
        assert values(other, thread()) == expected
        put(other, config, 100, {"n": 100})
        assert values(bridge.AgentForgeSaver(there), thread()) == {**expected, "n": 100}


def test_a_thread_that_is_copied_behind_another_has_the_greatest_of_both(opened: Open) -> None:
    saver = bridge.AgentForgeSaver(opened())
    put(saver, thread("target"), 900, {"n": 900})
    config: Any = thread("source")
    for number in range(1, 80):
        config = put(saver, config, number, {"n": number})
    bridge.AgentForgeSaver(opened()).copy_thread("source", "target")
    assert values(bridge.AgentForgeSaver(opened()), thread("target")) == {"n": 900}
    saver.copy_thread("source", "empty")
    assert values(bridge.AgentForgeSaver(opened()), thread("empty")) == {"n": 79}


def test_forks_whose_channels_have_the_same_version_keep_their_own_values(opened: Open) -> None:
    saver = bridge.AgentForgeSaver(opened())
    root = put(saver, thread(), 1, {"a": "root", "b": "kept"})

    def fork(number: int, value: str) -> Any:
        checkpoint = {
            **lang.empty_checkpoint(),
            "id": f"{number:04}",
            "channel_values": {"a": value, "b": "kept"},
            "channel_versions": {"a": 7, "b": 1},
        }
        return saver.put(root, checkpoint, {"source": "fork"}, {"a": 7})

    left, right = fork(2, "left"), fork(3, "right")
    for one in (saver, bridge.AgentForgeSaver(opened())):
        assert values(one, left) == {"a": "left", "b": "kept"}
        assert values(one, right) == {"a": "right", "b": "kept"}
    assert saver.get_next_version(None, None) != saver.get_next_version(None, None)
    assert saver.get_next_version("0" * 31 + "9.x", None) > "0" * 31 + "9.z"
    assert saver.get_next_version(3, None).startswith("0" * 31 + "4.")


def test_a_channel_that_is_said_to_be_new_is_written_whatever_its_version(opened: Open) -> None:
    saver = bridge.AgentForgeSaver(opened())
    config: Any = thread()
    for number in range(3):
        checkpoint = {
            **lang.empty_checkpoint(),
            "id": f"{number:04}",
            "channel_values": {"step": number},
            "channel_versions": {"step": 1},
        }
        config = saver.put(config, checkpoint, {"step": number}, {"step": 1})
    found = bridge.AgentForgeSaver(opened()).list(thread())
    assert [one.checkpoint["channel_values"]["step"] for one in found] == [2, 1, 0]


def test_a_checkpoint_that_is_put_again_keeps_what_others_go_on_with(opened: Open) -> None:
    saver = bridge.AgentForgeSaver(opened())
    one = put(saver, thread(), 1, {"a": 1, "b": 2})
    two = put(saver, one, 2, {"a": 3})
    put(saver, thread(), 1, {"b": 9})
    assert values(saver, one) == {"b": 9}
    assert values(saver, two) == {"a": 3, "b": 2}
    saver.prune(["t"])
    assert values(saver, two) == {"a": 3, "b": 2}
    assert ids(saver, thread()) == ["0002"]


def test_workers_that_write_while_the_thread_is_rewritten_lose_no_checkpoint(opened: Open) -> None:
    workers, each = 3, 8
    root = put(bridge.AgentForgeSaver(opened()), thread(), 0, {"constant": "c", "n": 0})
    done = threading.Event()

    def work(worker: int) -> None:
        own = bridge.AgentForgeSaver(opened())
        config = root
        for number in range(each):
            config = put(own, config, 1 + number * workers + worker, {"n": (worker, number)})
            own.put_writes(config, [("w", number)], f"task-{worker}")

    def rewrite() -> None:
        own = bridge.AgentForgeSaver(opened())
        while not done.is_set():
            put(own, thread(namespace="junk"), 1, {"n": 1}, run_id="gone")
            own.delete_for_runs(["gone"])

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(workers)]
    rewriter = threading.Thread(target=rewrite)
    for one in (*threads, rewriter):
        one.start()
    for one in threads:
        one.join()
    done.set()
    rewriter.join()
    last = bridge.AgentForgeSaver(opened())
    assert len(ids(last, thread())) == 1 + workers * each
    for found in last.list(thread(), filter={"source": "loop"}):
        assert found.checkpoint["channel_values"]["constant"] == "c"
        assert found.metadata["step"] == 0 or len(found.pending_writes or []) == 1


def test_a_checkpoint_whose_parent_is_pruned_while_it_is_put_is_whole(opened: Open) -> None:
    other = bridge.AgentForgeSaver(opened())
    one = put(other, thread(), 1, {"a": "kept", "n": 1})
    pruned = []

    class Interrupted:
        """The usual serializer, during whose first call another process prunes the thread."""

        def dumps_typed(self, value: Any) -> tuple[str, bytes]:
            if not pruned and value == 2:
                pruned.append(put(other, thread(), 9, {"n": 9}))
                other.prune(["t"])
            return other.serde.dumps_typed(value)

        def loads_typed(self, data: tuple[str, bytes]) -> Any:
            return other.serde.loads_typed(data)

    two = put(bridge.AgentForgeSaver(opened(), serde=Interrupted()), one, 2, {"n": 2})
    assert pruned
    assert values(bridge.AgentForgeSaver(opened()), two) == {"a": "kept", "n": 2}
    assert values(other, one) is None


def test_pruning_keeps_what_the_last_checkpoint_goes_on_with(opened: Open) -> None:
    saver = bridge.AgentForgeSaver(opened())
    config = put(saver, thread(), 1, {"old": "o", "n": 0}, run_id="r1")
    for number in range(2, 6):
        config = put(saver, config, number, {"n": number}, run_id=f"r{number}")
        put(saver, thread(namespace="sub"), number, {"s": number})
    other = bridge.AgentForgeSaver(opened())
    assert values(other, config) == {"old": "o", "n": 5}
    saver.delete_for_runs(["r1", "r3"])
    assert ids(other, thread()) == ["0005", "0004", "0002"]
    assert values(other, thread(checkpoint="0002")) == {"old": "o", "n": 2}
    saver.prune(["t", "never was"])
    for one in (saver, other, bridge.AgentForgeSaver(opened())):
        assert ids(one, {"configurable": {"thread_id": "t"}}) == ["0005", "0005"]
        assert values(one, thread()) == {"old": "o", "n": 5}
        assert values(one, thread(namespace="sub")) == {"s": 5}
    config = put(other, config, 6, {"n": 6})
    assert values(saver, thread()) == {"old": "o", "n": 6}
    with pytest.raises(ValueError, match="strategy"):
        saver.prune(["t"], strategy="all")
    saver.prune(["t"], strategy="delete")
    assert values(other, thread()) is None
    put(other, thread(), 1, {"n": 1})
    assert values(saver, thread()) == {"n": 1}


def test_pruning_leaves_delta_channels_whole(opened: Open) -> None:
    class State(TypedDict):
        said: Annotated[list[str], delta.DeltaChannel(extend, snapshot_frequency=100)]
        turn: int

    def build(saver: Any) -> Any:
        builder = graphs.StateGraph(State)
        builder.add_node("talk", lambda state: {"said": [f"turn {state['turn']}"]})
        builder.add_edge(graphs.START, "talk")
        return builder.compile(checkpointer=saver)

    saver = bridge.AgentForgeSaver(opened())
    for turn in range(4):
        build(saver).invoke({"turn": turn}, thread())
    before = build(saver).get_state(thread()).values
    assert before["said"] == [f"turn {turn}" for turn in range(4)]
    saver.prune(["t"])
    assert build(bridge.AgentForgeSaver(opened())).get_state(thread()).values == before


def test_a_graph_is_interrupted_and_resumed_by_another_process(opened: Open) -> None:
    class State(TypedDict, total=False):
        asked: str
        answer: str

    def ask(state: State) -> State:
        return {"answer": graph_types.interrupt(state["asked"])}

    def build() -> Any:
        builder = graphs.StateGraph(State)
        builder.add_node("ask", ask)
        builder.add_edge(graphs.START, "ask")
        return builder.compile(checkpointer=bridge.AgentForgeSaver(opened()))

    asked = build().invoke({"asked": "Which?"}, thread())
    assert asked["__interrupt__"][0].value == "Which?"
    done = build().invoke(graph_types.Command(resume="this"), thread())
    assert done == {"asked": "Which?", "answer": "this"}
    assert [state.next for state in build().get_state_history(thread())][:2] == [(), ("ask",)]


def test_listings_page_through_threads_and_namespaces(opened: Open) -> None:
    saver = bridge.AgentForgeSaver(opened())
    for name in ("one", "two"):
        config: Any = thread(name)
        for number in range(1, 41):
            config = put(saver, config, number, {"n": number}, kind=number % 2)
    other = bridge.AgentForgeSaver(opened())
    assert ids(other, thread("one")) == [f"{number:04}" for number in range(40, 0, -1)]
    assert len(ids(other, None)) == 80
    assert ids(other, None, limit=3) == ["0040", "0040", "0039"]
    before = thread("one", checkpoint="0030")
    odd = ids(other, thread("one"), filter={"kind": 1}, before=before, limit=12)
    assert odd == [f"{number:04}" for number in range(29, 5, -2)]
    assert ids(other, thread("one"), limit=0) == []
    assert ids(other, thread("one", checkpoint="0007")) == ["0007"]


def test_threads_have_any_name_and_sessions_that_can_be_listed(opened: Open, base: Path) -> None:
    sessions = opened()
    saver = bridge.AgentForgeSaver(sessions)
    names = ["../../etc", "a\0b", "", "\ud800", "x" * 100_000, "ümläut\n☃", "session_x"]
    for number, name in enumerate(names):
        put(saver, thread(name), 1, {"n": number})
    assert [values(bridge.AgentForgeSaver(opened()), thread(name)) for name in names] == [
        {"n": number} for number in range(len(names))
    ]
    found = [one for one in sessions.summaries() if isinstance(one, SessionSummary)]
    assert {one.head.workflow_type for one in found} == {"langgraph"}
    assert {one.session_id for one in found} == {saver.session_id(name) for name in names}
    assert all(one.head.state is SessionState.ACTIVE for one in found)
    session = sessions.load(saver.session_id("ümläut\n☃"))
    assert session is not None
    assert session.goal == "LangGraph thread 'ümläut\\n☃'"
    assert session.title == "'ümläut\\n☃'"
    assert not [one for one in base.parent.iterdir() if one != base]


def test_a_thread_whose_session_has_ended_takes_no_checkpoint(opened: Open) -> None:
    sessions = opened()
    saver = bridge.AgentForgeSaver(sessions)
    config = put(saver, thread(), 1, {"n": 1})
    manager = SessionManager(opened())
    manager.open(saver.session_id("t"))
    manager.complete()
    with pytest.raises(InvalidStateTransition):
        put(saver, config, 2, {"n": 2})
    with pytest.raises(InvalidStateTransition):
        saver.put_writes(config, [("c", 1)], "task")
    assert values(bridge.AgentForgeSaver(opened()), thread()) == {"n": 1}


def test_a_thread_that_another_process_deleted_begins_anew(opened: Open) -> None:
    saver, other = bridge.AgentForgeSaver(opened()), bridge.AgentForgeSaver(opened())
    config = put(saver, thread(), 1, {"a": 1, "b": 1})
    other.delete_thread("t")
    other.delete_thread("t")
    two = put(saver, config, 2, {"a": 2, "b": 2})
    assert values(other, two) == {"a": 2, "b": 2}
    assert ids(saver, thread()) == ["0002"]


def test_a_fork_of_the_session_is_no_second_thread(opened: Open) -> None:
    sessions = opened()
    saver = bridge.AgentForgeSaver(sessions)
    put(saver, thread(), 1, {"n": 1})
    manager = SessionManager(opened())
    inherited = sessions.read_attachments(saver.session_id("t"))
    made = manager.create("langgraph")
    fork = type(made).create("langgraph", session_id="session_20260301_093000_000009")
    sessions.save(fork, inherited=inherited)
    assert ids(saver, None) == ["0001"]
    assert ids(saver, thread()) == ["0001"]


def test_a_session_that_is_not_the_threads_is_neither_read_nor_written(opened: Open) -> None:
    sessions = opened()
    saver = bridge.AgentForgeSaver(sessions)
    session_id = saver.session_id("t")
    manager = SessionManager(sessions)
    made = manager.create("langgraph")
    sessions.save(type(made).create("other", session_id=session_id))
    for call in (
        lambda: values(saver, thread()),
        lambda: put(saver, thread(), 1, {"n": 1}),
        lambda: saver.delete_thread("t"),
    ):
        with pytest.raises(ForeignIdTaken, match="another's"):
            call()
    assert sessions.exists(session_id)


def test_what_this_program_did_not_write_is_an_error(opened: Open) -> None:
    sessions = opened()
    saver = bridge.AgentForgeSaver(sessions)
    for number, head in enumerate((b"{}", b"no JSON", b'{"kind":"new","ns":"","id":"1"}')):
        name = f"t{number}"
        put(saver, thread(name), 1, {"n": 1})
        sessions.append_entries(saver.session_id(name), "langgraph", [NewEntry(head, b"")])
        for _ in range(2):
            with pytest.raises(ForeignEntryUnreadable, match="newer program"):
                values(saver, thread(name))


def test_a_thread_that_is_used_shows_when(base: Path) -> None:
    clock = FakeClock()
    saver = bridge.AgentForgeSaver(SessionStore(base), clock=clock)
    config = put(saver, thread(), 1, {"n": 1})

    def revision() -> int:
        session = SessionStore(base).load(saver.session_id("t"))
        assert session is not None
        assert session.updated_at <= clock.now
        assert (clock.now - session.updated_at).total_seconds() < 60
        return session.revision

    assert revision() == 1
    for number in range(2, 8):
        clock.advance(20)
        config = put(saver, config, number, {"n": number})
        revision()
    assert revision() == 3
    clock.advance(3600)
    put(bridge.AgentForgeSaver(SessionStore(base), clock=clock), config, 9, {"n": 9})
    assert revision() == 4


def test_a_cancelled_call_has_ended_when_its_caller_goes_on(base: Path) -> None:
    async def scenario() -> int:
        saver = bridge.AgentForgeSaver(base)
        cancelled = 0
        for number in range(1, 20):
            one = {**lang.empty_checkpoint(), "id": f"{number:04}"}
            task = asyncio.ensure_future(saver.aput(thread(), one, {}, {}))
            for _ in range(number % 4):
                await asyncio.sleep(0)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                cancelled += 1
            seen = len(ids(bridge.AgentForgeSaver(base), thread()))
            await asyncio.to_thread(lambda: None)
            assert len(ids(bridge.AgentForgeSaver(base), thread())) == seen
        return cancelled

    assert asyncio.run(scenario()) > 5


def test_the_asynchronous_methods_do_what_the_others_do(base: Path) -> None:
    async def scenario() -> None:
        async with bridge.AgentForgeSaver(base) as saver:
            for _ in range(2):
                await saver.setup()
            one = {**lang.empty_checkpoint(), "id": "0001"}
            config = await saver.aput(thread(), one, {"step": 1}, {})
            await saver.aput_writes(config, [("c", 1)], "task")
            await saver.acopy_thread("t", "copy")
            await saver.acopy_thread("copy", "copy")
            found = await saver.aget_tuple(thread("copy"))
            assert found is not None
            assert found.pending_writes == [("task", "c", 1)]
            assert [item.checkpoint["id"] async for item in saver.alist(thread("copy"))] == ["0001"]

    asyncio.run(scenario())


def test_values_are_written_by_the_serializer_that_is_given(base: Path) -> None:
    class Spelled:
        def dumps_typed(self, value: Any) -> tuple[str, bytes]:
            return "repr", repr(value).encode()[::-1]

        def loads_typed(self, data: tuple[str, bytes]) -> Any:
            assert data[0] == "repr"
            return eval(data[1][::-1].decode())

    put(bridge.AgentForgeSaver(base, serde=Spelled()), thread(), 1, {"secret": "words"})
    assert b"words" not in b"".join(p.read_bytes() for p in base.rglob("*.log"))
    assert values(bridge.AgentForgeSaver(base, serde=Spelled()), thread()) == {"secret": "words"}
