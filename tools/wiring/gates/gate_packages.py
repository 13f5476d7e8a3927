"""Packages that gates mount: pure Python, from an installed environment or a wheel, for the guest.

The named packages are copied with their requirements into one folder, which is cached for the user
and mounted read-only. Nothing is downloaded, and no code of a package runs here: the files are
those that the package itself lists, and a package with compiled parts is rejected.
"""

from __future__ import annotations

import email
import hashlib
import importlib.metadata
import os
import re
import sysconfig
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from attrs import field, frozen

from ...base.event_log import get_logger
from ...workflows.gate_port import GateUnavailable
from .gate_kit import INSTALL_HINT, put_in_place, staging

if TYPE_CHECKING:
    from packaging.requirements import Requirement

MAX_BYTES: Final = 64 << 20
"""The largest total size of a folder's packages, in bytes."""
MAX_FILES: Final = 20_000
"""The largest number of their files."""
_COMPILED: Final = re.compile(r"\.(?:so(?:\.[0-9.]+)?|pyd|dylib|dll|a|o)$")
_LEFT_OUT: Final = re.compile(r"(?:^|/)__pycache__/|\.pyc$|\.pth$|/(?:INSTALLER|REQUESTED)$")
_NOT_PURE: Final = re.compile(r"(?im)^root-is-purelib:\s*false\s*$")
_WHEEL: Final = re.compile(r"(?P<name>[A-Za-z0-9._]+)-(?P<version>[^-]+)(?:-[^-]+)?-[^-]+-none-any")


class PackageUnusable(GateUnavailable):
    """A package can't be put into the sandbox; nothing was run."""

    def __init__(self, package: str, why: str) -> None:
        self.package = package
        super().__init__(f"the package {package} can't be put into the sandbox: {why}")


@frozen(kw_only=True)
class PurePackage:
    """A package that can be put into the sandbox, or the reason why not.

    Attributes:
        name: Its name.
        version: Its version.
        digest: SHA-256 of the wheel, or of its list of files, hexadecimal.
        requires: Its requirements.
        files: The reader of each of its files, by path beside the other packages.
        problem: Why it can't be put into the sandbox, or None.
    """

    name: str
    version: str
    digest: str
    requires: tuple[str, ...]
    files: Mapping[str, Callable[[], bytes]] = field(repr=False)
    problem: str | None = None


def installed_package(name: str, folders: Sequence[Path]) -> PurePackage | None:
    """Return an installed package from the first folder that has it, or None."""
    for folder in folders:
        for one in importlib.metadata.distributions(path=[str(folder)]):
            if canonical_name(str(one.metadata["Name"] or "")) == canonical_name(name):
                return _of_distribution(one)
    return None


def _of_distribution(one: importlib.metadata.Distribution) -> PurePackage:
    listed = [PurePosixPath(str(path)) for path in one.files or ()]
    inside = [path for path in listed if ".." not in path.parts and not path.is_absolute()]
    problem = _problem([str(path) for path in inside], one.read_text("WHEEL") or "")
    if not listed:
        problem = "it keeps no list of its files"
    elif '"editable": true' in (one.read_text("direct_url.json") or ""):
        problem = "it is installed from a folder of sources (pip install -e)"
    record = one.read_text("RECORD") or "\n".join(map(str, listed))
    root = Path(str(one.locate_file("")))
    return PurePackage(
        name=str(one.metadata["Name"]),
        version=one.version,
        digest=hashlib.sha256(record.encode()).hexdigest(),
        requires=tuple(one.requires or ()),
        files={
            str(path): (root / path).read_bytes
            for path in inside
            if not _LEFT_OUT.search(str(path))
        },
        problem=problem,
    )


def wheel_package(path: Path) -> PurePackage:
    """Read a wheel.

    Raises:
        PackageUnusable: The file is not a wheel.
    """
    named = _WHEEL.fullmatch(path.name.removesuffix(".whl"))
    if named is None:
        raise PackageUnusable(path.name, "it is made for one machine (no …-none-any.whl)")
    try:
        data = path.read_bytes()
        with zipfile.ZipFile(path) as archive:
            content = {
                one.filename: archive.read(one)
                for one in _within_limits(path, archive)
                if not one.is_dir()
            }
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise PackageUnusable(path.name, f"it can't be read ({error})") from error
    outside = [name for name in content if name.startswith("/") or ".." in name.split("/")]
    about = next((name for name in content if name.endswith(".dist-info/METADATA")), None)
    if outside or about is None:
        raise PackageUnusable(path.name, "it is no wheel, or its paths lead out of it")
    said = email.message_from_bytes(content[about])
    wheel = content.get(about.replace("/METADATA", "/WHEEL"), b"").decode("utf-8", "replace")
    pure = {_below_data(name): data for name, data in content.items()}
    return PurePackage(
        name=named["name"],
        version=named["version"],
        digest=hashlib.sha256(data).hexdigest(),
        requires=tuple(map(str, said.get_all("Requires-Dist") or ())),
        files={
            name: partial(bytes, data)
            for name, data in pure.items()
            if name and not _LEFT_OUT.search(name)
        },
        problem=_problem(content, wheel),
    )


def _within_limits(path: Path, archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    entries = archive.infolist()
    if len(entries) > MAX_FILES or sum(one.file_size for one in entries) > MAX_BYTES:
        raise PackageUnusable(path.name, f"it has more than {MAX_BYTES >> 20} MiB")
    return entries


def _below_data(name: str) -> str:
    """Return the path of a wheel's file beside its modules; "" for a file that goes elsewhere."""
    first, _, rest = name.partition("/")
    if not first.endswith(".data"):
        return name
    kind, _, below = rest.partition("/")
    return below if kind in {"purelib", "platlib"} else ""


def _problem(names: Iterable[str], wheel: str) -> str | None:
    """Return why a package is not pure Python, or None."""
    compiled = next((name for name in names if _COMPILED.search(name)), None)
    if compiled is not None:
        return f"it has compiled parts ({compiled})"
    return "it was built for one kind of machine" if _NOT_PURE.search(wheel) else None


def canonical_name(name: str) -> str:
    """Return the canonical spelling of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


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
