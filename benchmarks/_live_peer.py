"""Keeps and takes up the state of Python code the way of one peer, in that peer's environment.

Started as `python -I _live_peer.py KIND DIRECTORY ROOT` with nothing of its own but the standard
library. A line of JSON in is one request, a line out is its answer. What pickles does so in the
process whose state it is; another process, or another session, goes on from that.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

CHILD = """
def child(kind, do, place, setup, use):
    import importlib, os, sys
    main = vars(sys.modules['__main__'])
    del main['child']
    api = importlib.import_module(kind)
    ours, path = set(main), place + '/state'
    if do != 'load':
        exec(compile(setup, '<setup>', 'exec'), main)
    elif kind == 'dill':
        api.load_module(path)
    else:
        with open(path, 'rb') as file:
            main.update(api.load(file))
    if do != 'save':
        exec(compile(use, '<use>', 'exec'), main)
        return
    if kind == 'dill':
        api.dump_module(path)
    else:
        with open(path, 'wb') as file:
            api.dump({name: main[name] for name in set(main) - ours}, file)
    sys.stdout.flush()
    os._exit(0)  # killed: what the code did not write is not written
"""
"""One process of a program: its whole, or what comes before or after its variables are written."""


class Pickles:
    """cloudpickle or dill: a process writes its variables, another one reads them."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind = kind
        self.directory = directory

    def continues(self, *, setup: str, use: str, number: int) -> dict[str, str]:
        """Say how code goes on in another process, compared with the same process."""
        place = self.directory / str(number)
        whole, _ = self._run(place / "whole", "whole", setup, use)
        saved, refused = self._run(place / "kept", "save", setup, use)
        if not whole.endswith("end\n"):
            return {"outcome": "does not run", "why": whole[-200:]}
        if refused:
            return {"outcome": "refuses", "why": refused}
        loaded, wrong = self._run(place / "kept", "load", setup, use)
        if (saved + loaded) == whole:
            return {"outcome": "goes on", "why": ""}
        return {"outcome": "loses", "why": wrong or "it says something else"}

    def _run(self, place: Path, do: str, setup: str, use: str) -> tuple[str, str]:
        (place / "tmp").mkdir(parents=True, exist_ok=True)
        asked = [self.kind, do, str(place), *(_below(place, code) for code in (setup, use))]
        try:
            ran = subprocess.run(
                [sys.executable, "-I", "-c", f"{CHILD}\nchild(*{asked!r})"],
                capture_output=True,
                text=True,
                cwd=place,
                timeout=10,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "", "hangs"
        lines = [line for line in ran.stderr.splitlines() if line.strip()]
        return ran.stdout, lines[-1][:120] if ran.returncode else ""

    def times(self, *, setup: str, rounds: int) -> dict[str, Any]:
        """Time saving the variables durably, and reading them again."""
        api = importlib.import_module(self.kind)
        space: dict[str, Any] = {"__name__": "__main__"}
        exec(setup, space)
        del space["__builtins__"]
        save, restore, path = [], [], self.directory / "kept"
        for _ in range(rounds):
            began = time.perf_counter()
            write_raw(path, api.dumps(space))
            save.append(time.perf_counter() - began)
            began = time.perf_counter()
            api.loads(path.read_bytes())
            restore.append(time.perf_counter() - began)
        return {"save": save, "restore": restore, "bytes": path.stat().st_size}


class Eryx:
    """pyeryx: a session's `snapshot_state`, given to another session by `restore_state`."""

    def __init__(self, kind: str, directory: Path) -> None:  # noqa: ARG002 (all are made alike)
        self.api: Any = importlib.import_module("eryx")
        self.directory = directory

    def continues(self, *, setup: str, use: str, number: int) -> dict[str, str]:  # noqa: ARG002
        """Say how code goes on in another session, compared with the same session."""
        before, one, _ = self._begin(setup)
        try:
            whole = before + one.execute(use).stdout_text
        except self.api.EryxError as error:
            return {"outcome": "does not run", "why": _last(error)}
        before, one, other = self._begin(setup)
        try:
            kept = one.snapshot_state()
        except self.api.EryxError as error:
            return {"outcome": "refuses", "why": _last(error)}
        try:
            other.restore_state(kept)
            same = before + other.execute(use).stdout_text == whole
        except self.api.EryxError as error:
            return {"outcome": "loses", "why": _last(error)}
        return {"outcome": "goes on" if same else "loses", "why": "" if same else "says otherwise"}

    def _begin(self, setup: str) -> tuple[str, Any, Any]:
        """Run code in one of two sessions that share their files; return what it said."""
        storage = self.api.VfsStorage()
        one, other = self.api.Session(vfs=storage), self.api.Session(vfs=storage)
        place = Path(one.vfs_mount_path)
        for each in (one, other):
            each.execute(
                f"import os\nos.makedirs('{place}/tmp', exist_ok=True)\nos.chdir('{place}')"
            )
        try:
            return one.execute(_below(place, setup)).stdout_text, one, other
        except self.api.EryxError as error:
            return _last(error), one, other

    def times(self, *, setup: str, rounds: int) -> dict[str, Any]:
        """Time saving a session's state durably, and giving it to another session."""
        one, other = self.api.Session(), self.api.Session()
        one.execute(setup)
        save, restore, path = [], [], self.directory / "kept"
        for _ in range(rounds):
            began = time.perf_counter()
            write_raw(path, one.snapshot_state())
            save.append(time.perf_counter() - began)
            began = time.perf_counter()
            other.restore_state(path.read_bytes())
            restore.append(time.perf_counter() - began)
        return {"save": save, "restore": restore, "bytes": path.stat().st_size}


def _below(place: Path, code: str) -> str:
    return code.replace("/tmp/", f"{place}/tmp/")


def _last(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[-1][:120]


def write_raw(path: Path, content: bytes) -> None:
    """Write a file as ours is written: whole or not at all, and on the disk."""
    beside = path.with_suffix(".new")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


def main() -> None:
    """Answer requests until there are no more."""
    kind, directory, _ = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a peer prints is no answer
    peer: Pickles | Eryx | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if peer is None:
                peer = (Eryx if kind == "eryx" else Pickles)(kind, Path(directory))
            with contextlib.redirect_stdout(io.StringIO()):
                answer = getattr(peer, request.pop("do"))(**request) if request else {}
        except Exception as error:  # noqa: BLE001 (told to the other side)
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
