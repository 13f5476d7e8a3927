"""The tests of WebAssembly/wasi-testsuite, run on the sandbox's own host."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from agentforge_sessions.sandbox.host.engine.clock import TurnClock
from agentforge_sessions.sandbox.host.engine.engine import MOST_FUEL, Program, Trapped
from agentforge_sessions.sandbox.host.engine.loaded_engine import the_engine
from agentforge_sessions.sandbox.host.files.files import Descriptor, Descriptors, Directory
from agentforge_sessions.sandbox.host.preview1.guest import Guest, GuestExit, errno_of
from agentforge_sessions.sandbox.host.preview1.preview1 import FUNCTIONS
from agentforge_sessions.sandbox.host.preview1.streams import InputFile, OutputStream

SUITE: Final = Path(__file__).parents[1] / "data" / "wasi_testsuite"
MODULES: Final = tuple(sorted(SUITE.glob("*/*.wasm")))

_SECONDS: Final = 60.0


class Ended(NamedTuple):
    """How a module ended."""

    exit_code: int
    stopped: str | None
    stdout: str
    stderr: str


class Specification(NamedTuple):
    """What a module is run with, and what is expected of it."""

    root: Path | None
    arguments: Sequence[str]
    environment: dict[str, str]
    exit_code: int
    output: dict[str, str]

    def judge(self, ended: Ended) -> None:
        """Compare what is expected with what was."""
        assert (ended.exit_code, ended.stopped) == (self.exit_code, None), ended.stderr
        assert {name: getattr(ended, name) for name in self.output} == self.output


def specification(module: Path) -> Specification:
    """What the file beside a module says; one that has none expects nothing but to end with 0."""
    beside = module.with_suffix(".json")
    said: dict[str, Any] = json.loads(beside.read_text("utf-8")) if beside.exists() else {}
    unknown = said.keys() - {"root", "args", "env", "exit_code", "stdout", "stderr"}
    assert not unknown, f"{beside.name} says what is not heeded here: {unknown}"
    return Specification(
        root=module.parent / said["root"] if "root" in said else None,
        arguments=said.get("args", ()),
        environment=said.get("env", {}),
        exit_code=said.get("exit_code", 0),
        output={name: said[name] for name in ("stdout", "stderr") if name in said},
    )


@cache
def _program(module: Path) -> Program:
    engine = the_engine()
    return Program(engine, engine.compile(module.read_bytes()), FUNCTIONS, errno_of)


def run(module: Path, root: Directory | None) -> Ended:
    """Run a module as the machine runs an interpreter.

    Args:
        module: Its file.
        root: What it finds as `/`, if anything.
    """
    wanted = specification(module)
    instance = _program(module).instance(memory_bytes=64 << 20)
    descriptors = Descriptors(64)
    instance.guest = Guest(
        instance,
        descriptors,
        environment=[f"{name}={value}".encode() for name, value in wanted.environment.items()],
        arguments=[each.encode() for each in (module.name, *wanted.arguments)],
    )
    out, err = OutputStream(1 << 16), OutputStream(1 << 16)
    descriptors.start_with(
        [
            Descriptor(InputFile(b"")),
            *(Descriptor(each, readable=False, writable=True) for each in (out, err)),
            *([] if root is None else [Descriptor(root, preopened=b"/")]),
        ]
    )
    exit_code, stopped = 0, None
    try:
        with instance.turn(TurnClock(_SECONDS), MOST_FUEL):
            instance.call("_start")
    except GuestExit as leaving:
        exit_code = leaving.code
    except Trapped as trap:
        exit_code, stopped = -1, trap.reason
    finally:
        descriptors.close_all()
        instance.close()
    return Ended(exit_code, stopped, out.data.decode(), err.data.decode())
