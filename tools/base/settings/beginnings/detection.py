"""Detects a folder's kind of project from the files that package managers and build tools read.

Nothing is run, and nothing is imported. A file that is unreadable, too large or invalid is ignored;
the person fills in what stays unknown.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import evolve, frozen

from ...files import FileSystem, ReadError, read_regular_file
from ...files.filesystem import close_reader
from ...files.safe_path import open_directory
from ..configuration import ProjectFacts

_MAX_BYTES: Final = 4 << 20


@frozen
class OpenFolder:
    """An open folder; links, special files and files that are too large count as missing.

    Attributes:
        fs: The file system.
        fd: The folder's descriptor.
        path: Its path, for messages.
    """

    fs: FileSystem
    fd: int
    path: Path

    def text(self, name: str) -> str | None:
        """Return a file's text, or None."""
        try:
            data = read_regular_file(
                self.fs,
                name,
                path=self.path / name,
                max_bytes=_MAX_BYTES,
                directory_fd=self.fd,
            )
            return None if data is None else data.decode("utf-8-sig")
        except (ReadError, UnicodeDecodeError):
            return None

    def has(self, name: str) -> bool:
        """Return whether there is anything of this name."""
        try:
            self.fs.stat(name, dir_fd=self.fd)
        except OSError:
            return False
        return True

    def is_directory(self, name: str) -> bool:
        """Return whether there is a directory of this name; a link to one is not."""
        try:
            fd = open_directory(self.fs, name, dir_fd=self.fd)
        except OSError:
            return False
        close_reader(self.fs, fd)
        return True

    def names(self, name: str) -> tuple[str, ...]:
        """Return the entries of a subdirectory; nothing if it is not a directory."""
        try:
            fd = open_directory(self.fs, name, dir_fd=self.fd)
        except OSError:
            return ()
        try:
            return tuple(sorted(self.fs.listdir(fd)))
        except OSError:
            return ()
        finally:
            close_reader(self.fs, fd)


_LOCKS: Final = {
    "python": (
        ("uv.lock", "uv"),
        ("poetry.lock", "poetry"),
        ("pdm.lock", "pdm"),
        ("requirements.txt", "pip"),
    ),
    "javascript": (
        ("pnpm-lock.yaml", "pnpm"),
        ("yarn.lock", "yarn"),
        ("package-lock.json", "npm"),
        ("npm-shrinkwrap.json", "npm"),
    ),
}
_RUNNERS: Final = {"uv": "uv run ", "poetry": "poetry run ", "pdm": "pdm run "}
_MAKEFILES: Final = ("GNUmakefile", "makefile", "Makefile")
"""In the order in which make looks for them."""
_MAKE_TEST: Final = re.compile(r"^(test|check)[ \t]*:(?![=:])", re.MULTILINE)
_NO_TESTS: Final = "no test specified"
_PYTEST: Final = re.compile(r"\bpytest\b")


@frozen(kw_only=True)
class Detected:
    """The detected kind of project, and the evidence.

    Attributes:
        facts: The kind of project.
        because: The files that the facts come from, in the order in which they were read.
    """

    facts: ProjectFacts
    because: tuple[str, ...] = ()


def detect_project(folder: OpenFolder) -> Detected:
    """Detect the kind of project in a folder.

    The first of pyproject.toml (or setup.cfg, setup.py), package.json, Cargo.toml and go.mod
    decides; the target `test` or `check` of a Makefile is the test command where no more specific
    file gives one.
    """
    ways: tuple[Callable[[OpenFolder], Detected | None], ...] = (_python, _javascript, _rust, _go)
    found = next((one for way in ways if (one := way(folder)) is not None), None)
    if found is None:
        found = Detected(facts=ProjectFacts())
    made = next(filter(folder.has, _MAKEFILES), _MAKEFILES[-1])
    target = _MAKE_TEST.search(folder.text(made) or "")
    if target is not None and found.facts.test is None:
        facts = evolve(
            found.facts, test=f"make {target[1]}", language=found.facts.language or "other"
        )
        return Detected(facts=facts, because=(*found.because, made))
    return found


def _python(folder: OpenFolder) -> Detected | None:
    because = [name for name in ("pyproject.toml", "setup.cfg", "setup.py") if folder.has(name)]
    document = toml_of(folder.text("pyproject.toml"))
    if not because and not folder.has("requirements.txt"):
        return None
    manager, lock = _manager(folder, "python")
    if manager is None:
        tools = table_of(document, "tool")
        manager = next((one for one in ("poetry", "pdm", "uv") if one in tools), "pip")
    tests = _present(folder, "tests", "test")
    return Detected(
        facts=ProjectFacts(
            language="python",
            package_manager=manager,
            source=_python_source(folder, document),
            tests=tests,
            test=f"{_RUNNERS.get(manager, '')}{_python_tests(folder, document, tests)}",
        ),
        because=(*because, *([lock] if lock else [])),
    )


def _python_source(folder: OpenFolder, document: Mapping[str, Any]) -> str:
    """Return the folder that imports start in: the build's setting, else `src` where it is used."""
    tools = table_of(document, "tool")
    where = table_of(table_of(table_of(tools, "setuptools"), "packages"), "find").get("where")
    if isinstance(where, list) and len(where) == 1 and _is_plain(where[0]):
        return str(where[0])
    if folder.is_directory("src") and not any(
        name == "__init__.py" for name in folder.names("src")
    ):
        return "src"
    return "."


def _python_tests(folder: OpenFolder, document: Mapping[str, Any], tests: tuple[str, ...]) -> str:
    """Return the test command: pytest if any file mentions it or tests need it, else unittest."""
    told = [folder.text(name) or "" for name in ("requirements.txt", "requirements-dev.txt")]
    told += [folder.text(name) or "" for name in ("pyproject.toml", "setup.cfg", "tox.ini")]
    pytest = folder.has("pytest.ini") or any(map(_PYTEST.search, told))
    needed = any(
        name == "conftest.py" or (name.startswith("test_") and not _is_unittest(folder, one, name))
        for one in tests
        for name in folder.names(one)
    )
    if pytest or "pytest" in table_of(document, "tool") or needed or not tests:
        return "pytest -q"
    root = " -t ." if folder.has(f"{tests[0]}/__init__.py") else ""
    return f"python3 -m unittest discover -s {tests[0]}{root}"


def _is_unittest(folder: OpenFolder, place: str, name: str) -> bool:
    text = folder.text(f"{place}/{name}") or ""
    return "unittest.TestCase" in text and _PYTEST.search(text) is None


def _javascript(folder: OpenFolder) -> Detected | None:
    text = folder.text("package.json")
    if text is None:
        return None
    document = json_of(text)
    manager, lock = _manager(folder, "javascript")
    if manager is None:
        named = document.get("packageManager")
        word = named.split("@")[0] if isinstance(named, str) else "npm"
        manager = word if word in {"npm", "pnpm", "yarn"} else "npm"
    script = table_of(document, "scripts").get("test")
    has_tests = isinstance(script, str) and script.strip() and _NO_TESTS not in script
    return Detected(
        facts=ProjectFacts(
            language="javascript",
            package_manager=manager,
            source="src" if folder.is_directory("src") else ".",
            tests=_present(folder, "test", "tests", "__tests__"),
            test=f"{manager} test" if has_tests else None,
        ),
        because=("package.json", *([lock] if lock else [])),
    )


def _rust(folder: OpenFolder) -> Detected | None:
    if not folder.has("Cargo.toml"):
        return None
    return Detected(
        facts=ProjectFacts(
            language="rust",
            package_manager="cargo",
            source="src" if folder.is_directory("src") else ".",
            tests=_present(folder, "tests"),
            test="cargo test",
        ),
        because=("Cargo.toml",),
    )


def _go(folder: OpenFolder) -> Detected | None:
    if not folder.has("go.mod"):
        return None
    return Detected(
        facts=ProjectFacts(language="go", package_manager="go", test="go test ./..."),
        because=("go.mod",),
    )


def _manager(folder: OpenFolder, language: str) -> tuple[str | None, str | None]:
    """Return the package manager whose lock file exists, and that file."""
    for name, manager in _LOCKS[language]:
        if folder.has(name):
            return manager, name
    return None, None


def _present(folder: OpenFolder, *names: str) -> tuple[str, ...]:
    return tuple(name for name in names if folder.is_directory(name))


def _is_plain(name: object) -> bool:
    return isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*", name) is not None


def table_of(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a table of a document, or an empty one."""
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def toml_of(text: str | None) -> Mapping[str, Any]:
    """Parse a TOML document; return an empty one if it is invalid."""
    try:
        return tomllib.loads(text or "")
    except (ValueError, RecursionError):
        return {}


def json_of(text: str | None) -> Mapping[str, Any]:
    """Parse a JSON object; return an empty one if it is invalid."""
    try:
        document = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
