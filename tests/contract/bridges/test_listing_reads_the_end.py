"""A listing of a thread's last checkpoints is that of all, cut off; it reads the end alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agentforge_sessions.harness import LocalSessions, SessionStore
from tests.contract.bridges.test_langgraph_saver import put, thread
from tests.support.filesystem import FaultyFileSystem
from tests.support.late import LateModule

if TYPE_CHECKING:
    from langgraph.checkpoint import sqlite

    from agentforge_sessions.integrations.bridges import langgraph as bridge
else:
    sqlite = LateModule("langgraph.checkpoint.sqlite")
    bridge = LateModule("agentforge_sessions.integrations.bridges.langgraph")

Open = Callable[[], LocalSessions]
SPACES = ("", "inner", "inner|deep")
ANY = {"configurable": {"thread_id": "t"}}


def named(saver: Any, config: Any, **wanted: Any) -> list[tuple[str, str, str]]:
    return [
        (one.checkpoint["id"], configured["thread_id"], configured["checkpoint_ns"])
        for one in saver.list(config, **wanted)
        for configured in [one.config["configurable"]]
    ]


@pytest.mark.parametrize("order", ["as they come", "shuffled", "the greatest first"])
def test_the_last_ones_are_those_of_a_listing_of_all(opened: Open, order: str) -> None:
    chance = random.Random(order)
    numbers = list(range(50))
    if order == "shuffled":
        chance.shuffle(numbers)
    if order == "the greatest first":
        numbers = [49, *range(49)]
    saver = bridge.AgentForgeSaver(opened())
    last: dict[str, Any] = {}
    for number in numbers:
        space = chance.choice(SPACES)
        config = last.get(space, thread("t", space))
        last[space] = put(saver, config, number, {"a": number}, kind=number % 3)
        if number % 5 == 0:
            saver.put_writes(last[space], [("a", "written")], f"task-{number}")
        if number % 20 == 0:
            put(saver, thread("other"), number, {"b": number}, kind=number % 3)

    everything = {str(config): named(saver, config) for config in (None, ANY, thread("t"))}
    assert len(everything[str(None)]) == 53
    for config in (None, ANY, thread("t")):
        whole = everything[str(config)]
        assert whole == sorted(whole, reverse=True)
        for limit in (0, 7, 99):
            anew = bridge.AgentForgeSaver(opened())
            assert named(anew, config, limit=limit) == whole[:limit]
        for end in ("0003", "0049"):
            anew = bridge.AgentForgeSaver(opened())
            before = thread("t", "", end)
            expected = [one for one in whole if one[0] < end]
            assert named(anew, config, before=before, limit=9) == expected[:9]
        anew = bridge.AgentForgeSaver(opened())
        found = named(anew, config, filter={"kind": 1}, limit=6)
        assert found == [one for one in whole if int(one[0]) % 3 == 1][:6]
    for number in (0, 49):
        one = {"configurable": {"thread_id": "t", "checkpoint_id": f"{number:04}"}}
        found = named(bridge.AgentForgeSaver(opened()), one, limit=3)
        assert found == [each for each in everything[str(ANY)] if each[0] == f"{number:04}"]


def test_a_listing_has_the_order_of_langgraphs_own_saver(opened: Open) -> None:
    chance = random.Random(7)
    numbers = list(range(60))
    chance.shuffle(numbers)
    with sqlite.SqliteSaver.from_conn_string(":memory:") as reference:
        reference.setup()
        saver = bridge.AgentForgeSaver(opened())
        saver.setup()
        last: dict[tuple[str, str], Any] = {}
        for number in numbers:  # an id each: the reference has no order among equal ones
            place = chance.choice(("a", "b", "c")), chance.choice(SPACES)
            config = last.get(place, thread(*place))
            about = {"kind": number % 3, "writes": None, "tags": [number % 2]}
            for one in (reference, saver):
                last[place] = put(one, config, number, {"n": number}, **about)
        configs = [None, *({"configurable": {"thread_id": name}} for name in "abcx")]
        configs += [thread(name, space) for name in "ab" for space in SPACES]
        configs += [thread("a", "", f"{number:04}") for number in (0, 30, 59)]
        for config in configs:
            for end in (None, "0000", "0031", "9999"):
                for wanted in (None, {}, {"kind": 1}, {"kind": 2, "step": 41}, {"tags": [1]}):
                    for limit in (None, 1, 9):
                        before = None if end is None else thread("a", "", end)
                        asked = {"before": before, "filter": wanted, "limit": limit}
                        expected = named(reference, config, **asked)
                        assert named(saver, config, **asked) == expected


def test_threads_that_share_an_id_are_listed_in_the_same_order_by_any_limit(opened: Open) -> None:
    saver = bridge.AgentForgeSaver(opened())
    for name, number in (("b", 9), ("b", 5), ("c", 5), ("a", 5), ("a", 7)):
        put(saver, thread(name), number, {"n": number})
    everything = named(saver, None)
    assert everything == sorted(everything, reverse=True)
    for limit in range(6):
        assert named(saver, None, limit=limit) == everything[:limit]


@pytest.mark.parametrize("config", [ANY, thread("t")], ids=["any namespace", "one namespace"])
def test_a_listing_with_a_limit_reads_the_end_of_a_long_thread(tmp_path: Path, config: Any) -> None:
    saver = bridge.AgentForgeSaver(SessionStore(tmp_path))
    last: Any = thread("t")
    for number in range(200):
        last = put(saver, last, number, {"a": f"{number}" * 50})

    fs = FaultyFileSystem()
    anew = bridge.AgentForgeSaver(SessionStore(tmp_path, fs=fs))
    assert [one for one, *_ in named(anew, config, limit=10)] == [
        f"{number:04}" for number in range(199, 189, -1)
    ]
    index = anew._threads.get("t").index
    assert not index.whole
    assert len(index.ordered) < 100


def test_a_checkpoint_that_is_put_again_is_listed_once(opened: Open) -> None:
    saver = bridge.AgentForgeSaver(opened())
    for number in (1, 2, 1, 3, 2):
        put(saver, thread("t"), number, {"a": number})
    for one in (saver, bridge.AgentForgeSaver(opened())):
        assert [found for found, *_ in named(one, thread("t"), limit=9)] == ["0003", "0002", "0001"]


def test_the_last_ones_are_listed_after_others_were_removed(opened: Open) -> None:
    saver = bridge.AgentForgeSaver(opened())
    last: Any = thread("t")
    for number in range(60):
        last = put(saver, last, number, {"a": number})
    saver.prune(["t"])
    for number in range(60, 65):
        last = put(saver, last, number, {"a": number})
    found = named(bridge.AgentForgeSaver(opened()), ANY, limit=4)
    assert [one for one, *_ in found] == ["0064", "0063", "0062", "0061"]
    assert len(named(bridge.AgentForgeSaver(opened()), ANY)) == 6
