"""Every function that the interpreter imports is called with wild arguments, by a guest.

What the functions promise is in `contract/sandbox/test_host_engine.py`; here it is that none of
them is left out, that none raises, and that none reaches anything outside.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import prepare
from agentforge_sessions.sandbox.host.preview1.guest import GuestExit
from agentforge_sessions.sandbox.interpreters.prepared_runtime import prepared_runtime
from agentforge_sessions.sandbox.interpreters.runtime import ensure_ready
from tests.contract.sandbox.test_host_engine import TIGHT, wild_call, wild_number
from tests.support.descriptors import held_below
from tests.support.host_trees import in_memory, served
from tests.support.soak import SOAKING
from tests.support.wasm_probe import PAGE, SIGNATURES, Probe, snapshot

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(1800)

TIMES = 2000 if SOAKING else 15
"""How often each is called."""

ELSEWHERE = {"proc_exit": "i", "call": "iiii"}
"""What ends the guest, and what asks the host's own functions."""


class Echo:
    """Answers every request that is not too long."""

    def admit(self, length: int) -> bytes | None:
        return b"too long" if length > PAGE else None

    def __call__(self, request: bytes) -> bytes:
        return request


def test_every_function_that_the_interpreter_imports_is_tried() -> None:
    prepare()
    module = prepared_runtime(ensure_ready()).program._module
    imported = {
        name.decode(): "".join("iI"[kind] for kind in kinds or ())
        for _, name, kinds, _ in module.imports()
    }
    assert {name: shape for name, shape in imported.items() if name in ELSEWHERE} == ELSEWHERE
    assert imported.keys() - ELSEWHERE.keys() <= SIGNATURES.keys()
    for name in imported.keys() - ELSEWHERE.keys():
        assert imported[name] == SIGNATURES[name], name


@pytest.mark.parametrize("openat2", [True, False], ids=["openat2", "components"])
def test_each_of_them_answers_or_ends_the_turn(tmp_path: Path, openat2: bool) -> None:
    inside, outside = tmp_path / "w", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (inside / ".metadata.json").write_text("own")
    (inside / "out").symlink_to(outside)
    before = snapshot(outside)
    chance = random.Random(str(openat2))
    answers: Counter[tuple[str, int]] = Counter()
    names = [name for name in SIGNATURES for _ in range(TIMES)]
    chance.shuffle(names)
    with served(inside, TIGHT, openat2=openat2) as tree, in_memory(inside, TIGHT) as memory:
        resting = held_below(tmp_path)
        probe = Probe([("/app", tree.root), ("/tmp", memory.root)], limit=20)
        for name in names:
            answers[name, wild_call(probe, name, chance)] += 1
        probe.guest.door = Echo()
        for _ in range(TIMES):
            numbers = [wild_number("i", 7, chance) for _ in range(4)]
            assert probe.call("host_call", *numbers) in (0, 0xFFFFFFFE)
        with pytest.raises(GuestExit) as caught:
            probe.call("proc_exit", 0xFFFFFFFF)
        assert caught.value.code == 0xFFFFFFFF
        probe.close()
        assert held_below(tmp_path) == resting
    assert {name for name, _ in answers} == set(SIGNATURES)
    assert all(0 <= answer <= 76 for _, answer in answers)
    assert snapshot(outside) == before
    assert (inside / ".metadata.json").read_text() == "own"
