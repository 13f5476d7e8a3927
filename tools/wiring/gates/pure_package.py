"""A pure Python package: its identity, requirements and files; none of its code runs.

It is read from an installed environment, by the package's own list of files, or from a wheel.
"""

from __future__ import annotations

import email
import hashlib
import importlib.metadata
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from attrs import field, frozen

from ...workflows.gate_port import GateUnavailable

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
            name: _constant(data)
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


def _constant(data: bytes) -> Callable[[], bytes]:
    return lambda: data


def _problem(names: Iterable[str], wheel: str) -> str | None:
    """Return why a package is not pure Python, or None."""
    compiled = next((name for name in names if _COMPILED.search(name)), None)
    if compiled is not None:
        return f"it has compiled parts ({compiled})"
    return "it was built for one kind of machine" if _NOT_PURE.search(wheel) else None


def canonical_name(name: str) -> str:
    """Return the canonical spelling of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()
