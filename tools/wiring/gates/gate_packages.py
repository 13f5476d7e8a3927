"""Packages that gates mount: pure Python, from an installed environment or a wheel, for the guest.

The named packages are copied with their requirements into one folder, which is cached for the user
and mounted read-only. Nothing is downloaded, and no code of a package runs here: the files are
those that the package itself lists, and a package with compiled parts is rejected.
"""

from __future__ import annotations

import hashlib
import os
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...base.event_log import get_logger
from ...workflows.gate_port import GateUnavailable
from .gate_kit import INSTALL_HINT, put_in_place, staging
from .pure_package import (
    MAX_BYTES,
    MAX_FILES,
    PackageUnusable,
    PurePackage,
    canonical_name,
    installed_package,
    wheel_package,
)

if TYPE_CHECKING:
    from packaging.requirements import Requirement

PACKAGES: Final = "/packages"
"""The path of the packages in the guest."""

_GUEST: Final = {"implementation_name": "cpython", "os_name": "posix", "sys_platform": "wasi"}
_LISTING: Final = """
import re, sys, zipfile
archive = next(path for path in sys.path if path.endswith(".zip"))
names = {name.split("/")[0] for name in zipfile.ZipFile(archive).namelist()}
for name in sorted(names):
    if name.endswith(".dist-info"):
        print(name.split("-")[0])
print("python", "%d.%d" % sys.version_info[:2])
"""

_log = get_logger("agentforge.gates")


def installed_folders(working_directory: Path | None = None) -> tuple[Path, ...]:
    """Return the folders that are searched for installed packages.

    In order: the active virtual environment, the one in the current folder (`.venv`, `venv`), and
    the one that this Python belongs to.
    """
    here = Path.cwd() if working_directory is None else working_directory
    active = os.environ.get("VIRTUAL_ENV")
    environments = [Path(active)] if active else []
    environments += [here / ".venv", here / "venv"]
    found = [
        folder
        for environment in environments
        for folder in sorted(environment.glob("lib/python3*/site-packages"))
        if folder.is_dir()
    ]
    found += [Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")]
    return tuple(dict.fromkeys(found))


def prepare_packages(
    names: Iterable[str],
    directory: Path,
    *,
    folders: Sequence[Path] | None = None,
    guest: Callable[[], Mapping[str, str]] | None = None,
) -> Path:
    """Return the path of a folder with packages and all their requirements, creating it if needed.

    The folder's name identifies its content, so other versions are another folder. It is built
    under a hidden name and renamed, so it is either complete or absent.

    Args:
        names: Names of installed packages, or paths of wheels.
        directory: The parent of such folders.
        folders: The folders of installed packages; `installed_folders()` if None.
        guest: Returns the packages of the sandbox's own library and its version as `python`; the
            sandbox is asked if None.

    Raises:
        PackageUnusable: A package is missing, has compiled parts, or is an editable install.
        GateUnavailable: The folder can't be created there.
    """
    searched = installed_folders() if folders is None else tuple(folders)
    packages = _with_requirements(tuple(names), searched, guest or _guest_packages)
    said = sorted(f"{one.name} {one.version} {one.digest}" for one in packages)
    key = hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]
    place = directory / f"packages-{key}"
    if place.is_dir():
        return place
    with staging(directory, "packages") as folder:
        made = folder / "packages"
        made.mkdir(mode=0o700)
        _write(packages, made)
        put_in_place(made, place)
    _log.info("gates.packages_prepared", path=str(place), packages=said)
    return place


def _with_requirements(
    names: tuple[str, ...], folders: Sequence[Path], guest: Callable[[], Mapping[str, str]]
) -> list[PurePackage]:
    """Return the named packages, and all requirements that the guest does not have."""
    there = guest()
    found: dict[str, PurePackage] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting: list[tuple[str, str | None, frozenset[str]]] = []
    waiting += ((name, None, frozenset()) for name in names)
    while waiting:
        name, needed_by, extras = waiting.pop()
        key = canonical_name(name)
        if (key, extras) in seen or (needed_by is not None and key in there):
            continue
        seen.add((key, extras))
        wheel = name.endswith(".whl")
        package = wheel_package(Path(name)) if wheel else installed_package(name, folders)
        problem = "it is not installed here" if package is None else package.problem
        if package is None or problem is not None:
            raise _refusal(name, needed_by, problem or "", at_home=key in there)
        found.setdefault(canonical_name(package.name), package)
        waiting += (
            (one.name, package.name, frozenset(one.extras))
            for one in _needed(package, there, extras)
        )
    return list(found.values())


def _refusal(name: str, needed_by: str | None, problem: str, *, at_home: bool) -> PackageUnusable:
    if at_home:
        return PackageUnusable(name, f"{problem}; the sandbox has it itself, so leave it out")
    if needed_by is not None:
        problem = f"{problem}, and {needed_by} needs it"
    return PackageUnusable(
        name,
        f"{problem}. Only pure Python can be put there: install it beside your project, give the "
        "path of a wheel, or have the project's own tests be run in a jail with --gate",
    )


def _needed(
    package: PurePackage, there: Mapping[str, str], extras: frozenset[str]
) -> Iterator[Requirement]:
    """Yield a package's requirements in the guest."""
    try:
        from packaging.requirements import InvalidRequirement, Requirement
    except ImportError as error:
        raise GateUnavailable(
            f"packaging is not installed, which says what packages need; {INSTALL_HINT}"
        ) from error
    python = there.get("python", "")
    environment = {**_GUEST, "python_version": python, "python_full_version": f"{python}.0"}
    for text in package.requires:
        try:
            one = Requirement(text)
        except InvalidRequirement as error:
            raise PackageUnusable(package.name, f"what it needs can't be read ({text})") from error
        marker = one.marker
        if marker is None or any(
            marker.evaluate({**environment, "extra": extra}) for extra in ("", *extras)
        ):
            yield one


def _write(packages: Iterable[PurePackage], made: Path) -> None:
    left = MAX_BYTES
    count = 0
    for package in packages:
        for name, read in package.files.items():
            try:
                data = read()
            except FileNotFoundError:
                continue  # the environment lost this file, so it can't be imported there either
            left -= len(data)
            count += 1
            if left < 0 or count > MAX_FILES:
                raise PackageUnusable(
                    package.name,
                    f"with all others it has more than {MAX_BYTES >> 20} MiB or "
                    f"{MAX_FILES:,} files",
                )
            target = made / name
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            target.write_bytes(data)


def _guest_packages() -> dict[str, str]:
    """Return the packages of the sandbox's own library, asking the sandbox."""
    from ...sandbox import create_sandbox

    with (
        tempfile.TemporaryDirectory(prefix="agentforge-packages-") as scratch,
        create_sandbox(workspace=Path(scratch)) as sandbox,
    ):
        result = sandbox.execute(_LISTING, timeout=600.0)
    found: dict[str, str] = {}
    for line in result.stdout.splitlines() if result.success else ():
        name, _, version = line.partition(" ")
        found[canonical_name(name)] = version
    return found
