"""A turn of any operations on files that is killed anywhere ends as if it had not been."""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.journaled import CountedCalls, Killed, Sink, run
from tests.support.soak import examples
from tests.support.trees import tree_of

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)

PLACES = st.sampled_from(["a", "b", "d/a", "d/b", "d", "/tmp/a", "/tmp/d", "/tmp/d/a"])
HANDLES = st.integers(0, 3)
STEPS = st.one_of(
    st.tuples(st.just("open"), PLACES, st.sampled_from(["w+", "r+", "a+", "x+", "r"])),
    st.tuples(st.just("write"), HANDLES, st.text("xyz", min_size=1, max_size=9)),
    st.tuples(st.just("read"), HANDLES),
    st.tuples(st.just("seek"), HANDLES, st.integers(0, 12)),
    st.tuples(st.just("truncate"), HANDLES, st.integers(0, 12)),
    st.tuples(st.just("close"), HANDLES),
    st.tuples(st.sampled_from(["mkdir", "rmdir", "unlink", "listdir", "size"]), PLACES),
    st.tuples(st.sampled_from(["rename", "link", "symlink"]), PLACES, PLACES),
    st.tuples(st.just("chance")),
)

PROGRAM = """
import os, random, time
handles = {}
def do(what, *given):
    if what == "open":
        file = open(given[0], given[1])
        handles[len(handles) % 4] = file
    elif what in ("write", "read", "seek", "truncate", "close"):
        if given[0] in handles and not handles[given[0]].closed:
            file = handles[given[0]]
            if what == "read":
                file.seek(0)
            found = getattr(file, what)(*given[1:])
            if what != "close":
                file.flush()
            return found
    elif what == "listdir":
        return sorted(os.listdir(given[0]))
    elif what == "size":
        seen = os.lstat(given[0])
        return [seen.st_size * (not os.path.isdir(given[0])), seen.st_nlink]
    elif what == "chance":
        random.random(), time.time(), os.urandom(3)
    else:
        getattr(os, what)(*given)
for step in STEPS:
    try:
        print(step, do(*step))
    except (OSError, ValueError) as error:
        print(step, type(error).__name__, getattr(error, "errno", None))
    if step[0] == "close":
        input()
"""


@settings(max_examples=examples(30), deadline=None)
@given(
    steps=st.lists(STEPS, min_size=6, max_size=40),
    kills=st.lists(st.tuples(st.integers(1, 120), st.booleans()), min_size=1, max_size=3),
)
def test_a_killed_turn_ends_as_if_it_had_not_been(
    steps: list[tuple[object, ...]], kills: list[tuple[int, bool]]
) -> None:
    code = f"STEPS = {json.dumps(steps)}\n{PROGRAM}"
    asked = {"answer": lambda _: b"\n", "asks_for_input": True}
    with tempfile.TemporaryDirectory() as folder:
        whole, killed = Path(folder, "whole"), Path(folder, "killed")
        whole.mkdir()
        killed.mkdir()
        undisturbed = run(whole, code, Sink(), **asked)
        assert undisturbed.outcome.exit_code == 0, undisturbed.outcome.stderr
        sink = Sink()
        for last, after in kills:
            with suppress(Killed):
                run(killed, code, sink, real=CountedCalls(last, after=after), **asked)
        gone_on = run(killed, code, sink, **asked)
        assert gone_on.outcome.stdout == undisturbed.outcome.stdout
        assert tree_of(killed) == tree_of(whole)
        assert run(killed, code, sink, **asked).memory == gone_on.memory
