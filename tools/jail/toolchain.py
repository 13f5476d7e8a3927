"""The folders that a command's programs need to run, found from the programs themselves.

A program of the system needs nothing more. One of a virtual environment needs that and the Python
that made it; one of a separate Python, node, Go, Rust or Java installation needs the installation's
folder; any other needs its file and its libraries.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from attrs import frozen

from .command_programs import SHIMS
from .errors import CommandMissing
from .policy import JailPolicy
from .walls.system_folders import SystemView, is_of_the_system

SYSTEM_PATH: Final = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin")
_LDD_S: Final = 20.0
_LIBRARY: Final = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
_PREFIX_MARKS: Final = (
    *("lib/python3*", "lib/node_modules", "include/node", "pkg/tool", "lib/rustlib"),
    *("lib/modules", "jre/lib", "lib/ruby", "lib/perl5"),
)
"""Entries that mark a folder as a toolchain's, and not one of a person's `bin` folders."""


@frozen(kw_only=True)
class Toolchain:
    """The needs of programs.

    Attributes:
        folders: Files and folders to read, absolute; they may be links.
        path: The search path for programs, the system's folders last.
    """

    folders: tuple[Path, ...]
    path: tuple[str, ...]


def find_program(name: str, search: str) -> Path:
    """Return a program's path, which may be a link; behind pyenv's stand-in, the one it starts.

    Args:
        name: Its name or absolute path.
        search: The folders to search, in the form of `PATH`.

    Raises:
        CommandMissing: It is in none of them.
    """
    found = shutil.which(name, path=search)
    if found is None or not os.path.isabs(found):
        raise CommandMissing(name, search)
    return _behind_pyenv(Path(found)) or Path(found)


def _behind_pyenv(program: Path) -> Path | None:
    """Return the program of the version that this person has chosen, if it is a stand-in's."""
    root = program.parent.parent
    try:
        chosen = os.environ.get("PYENV_VERSION") or (root / "version").read_text()
    except (OSError, ValueError):
        return None
    versions = (root / "versions" / one for one in re.split(r"[:\s]+", chosen.strip()))
    found = (one / "bin" / program.name for one in versions)
    named = program.parent.name == SHIMS
    return next((one for one in found if named and one.is_file()), None)


def shown_path(policy: JailPolicy) -> Iterator[str]:
    """Yield the folders of programs that a policy shows, the workspace's mounts first."""
    for mount in policy.mounts:
        for name in ("bin", ".bin"):
            if (mount.source / name).is_dir():
                yield str(mount.source / name)
    for path in policy.read:
        if (path / "bin").is_dir():
            yield str(path / "bin")
        elif path.is_file() and os.access(path, os.X_OK):
            yield str(path.parent)


def toolchain_of(
    programs: Iterable[Path],
    view: SystemView,
    *,
    shows: Callable[[Path], bool],
    environment: Mapping[str, str] | None = None,
) -> Toolchain:
    """Return what programs need besides the system's folders.

    Args:
        programs: Their paths, from `find_program`.
        view: What a jail sees of the system.
        shows: Returns whether a folder may be shown; of a toolchain whose folder may not, only the
            program's own file is named.
        environment: The variables that name Rust's toolchains; this process's if None.
    """
    variables = os.environ if environment is None else environment
    folders: list[Path] = []
    path: list[str] = []
    for program in programs:
        for folder in _folders_of(program, shows, variables):
            if not is_of_the_system(folder, view):
                folders.append(folder)
                if (folder / "bin").is_dir():
                    path.append(str(folder / "bin"))
        if not is_of_the_system(program.parent, view):
            path.append(str(program.parent))
        real = Path(os.path.realpath(program))
        if not is_of_the_system(real, view):
            folders += [
                library
                for library in _libraries(real)
                if not is_of_the_system(Path(os.path.realpath(library)), view)
                and not any(library.is_relative_to(folder) for folder in folders)
            ]
    return Toolchain(
        folders=tuple(dict.fromkeys(folders)), path=tuple(dict.fromkeys([*path, *SYSTEM_PATH]))
    )


def _folders_of(
    program: Path, shows: Callable[[Path], bool], variables: Mapping[str, str]
) -> Iterator[Path]:
    rust = _rust_toolchain(program, variables)
    if rust is not None:
        yield rust
        return
    environment = program.parent.parent
    if (environment / "pyvenv.cfg").is_file() and shows(environment):
        yield environment
        program = environment / "bin" / "python"
        if not program.exists():
            return
    for hop in _hops(program):
        prefix = _prefix(hop)
        if prefix is not None and shows(prefix):
            yield prefix
        elif not hop.is_relative_to(environment) or hop == program:
            yield hop


def _hops(program: Path) -> Iterator[Path]:
    """Yield a program's path and each that the links on its way name, the file itself last."""
    for _ in range(40):
        yield program
        try:
            target = os.readlink(program)
        except OSError:
            break
        program = Path(os.path.normpath(program.parent / target))
    real = Path(os.path.realpath(program))
    if real != program:
        yield real


def _prefix(program: Path) -> Path | None:
    """Return the folder of the toolchain that a program belongs to, or None.

    Of a program that npm installed into a folder, these are all packages there: it imports others.
    """
    packages = [above for above in program.parents if above.name == "node_modules"]
    if packages:
        return packages[-1]
    for above in program.parents[1:6]:
        if above == above.parent:
            return None
        if any(True for mark in _PREFIX_MARKS for _ in above.glob(mark)):
            return above
    return None


def _rust_toolchain(program: Path, variables: Mapping[str, str]) -> Path | None:
    """Return the toolchain behind rustup's stand-in for `cargo`, `rustc` and the like."""
    if not (program.parent / "rustup").exists() or program.name == "rustup":
        return None
    named = variables.get("RUSTUP_HOME")
    root = Path(named) if named else program.parent.parent.parent / ".rustup"
    try:
        settings = tomllib.loads((root / "settings.toml").read_text())
    except (OSError, ValueError):
        return None
    toolchain = variables.get("RUSTUP_TOOLCHAIN") or settings.get("default_toolchain")
    if not isinstance(toolchain, str) or "/" in toolchain:
        return None
    folder = root / "toolchains" / toolchain
    return folder if (folder / "bin" / program.name).exists() else None


def _libraries(real: Path) -> tuple[Path, ...]:
    """Return the shared libraries that a program loads, as the loader finds them."""
    return _libraries_of(real, _look(str(real)), _look("/etc/ld.so.cache"))


def _look(path: str) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return (status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns)


@lru_cache(maxsize=64)
def _libraries_of(real: Path, *_: tuple[int, ...]) -> tuple[Path, ...]:
    """Ask the loader, once while neither the program nor the loader's cache changes."""
    loader = shutil.which("ldd", path="/usr/bin:/bin")
    if loader is None:
        return ()
    try:
        done = subprocess.run(  # noqa: S603 (a program that the user named)
            [loader, str(real)],
            capture_output=True,
            check=False,
            timeout=_LDD_S,
            stdin=subprocess.DEVNULL,
            env={"LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(Path(found) for found in _LIBRARY.findall(done.stdout.decode("utf-8", "replace")))
