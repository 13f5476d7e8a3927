"""Which kind of project a folder holds."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentforge_sessions.base.files import OsFileSystem
from agentforge_sessions.base.files.filesystem import DIRECTORY_FLAGS
from agentforge_sessions.base.settings.beginnings.detection import (
    Detected,
    OpenFolder,
    detect_project,
)
from agentforge_sessions.base.settings.configuration import ProjectFacts


def detected(root: Path, files: dict[str, str]) -> Detected:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    with opened(root) as folder:
        return detect_project(folder)


@contextmanager
def opened(root: Path) -> Iterator[OpenFolder]:
    fd = os.open(root, DIRECTORY_FLAGS)
    try:
        yield OpenFolder(OsFileSystem(), fd, root)
    finally:
        os.close(fd)


def test_an_empty_folder_is_no_project_of_a_known_kind(tmp_path: Path) -> None:
    assert detected(tmp_path, {}) == Detected(facts=ProjectFacts())


@pytest.mark.parametrize(
    ("lock", "manager", "test"),
    [
        ("uv.lock", "uv", "uv run pytest -q"),
        ("poetry.lock", "poetry", "poetry run pytest -q"),
        ("pdm.lock", "pdm", "pdm run pytest -q"),
        ("requirements.txt", "pip", "pytest -q"),
        (None, "pip", "pytest -q"),
    ],
)
def test_python_with_each_package_manager(
    tmp_path: Path, lock: str | None, manager: str, test: str
) -> None:
    files = {"pyproject.toml": "[tool.pytest.ini_options]\n", "src/thing/__init__.py": ""}
    files["tests/test_thing.py"] = ""
    if lock is not None:
        files[lock] = ""
    found = detected(tmp_path, files)
    assert found.facts == ProjectFacts(
        language="python", package_manager=manager, source="src", tests=("tests",), test=test
    )
    assert found.because == ("pyproject.toml", *([lock] if lock else []))


def test_the_tools_table_names_the_manager_where_no_lock_does(tmp_path: Path) -> None:
    found = detected(tmp_path, {"pyproject.toml": "[tool.poetry]\nname = 'x'\n"})
    assert found.facts.package_manager == "poetry"


def test_a_flat_layout_and_a_src_that_is_a_package_have_their_root_here(tmp_path: Path) -> None:
    assert detected(tmp_path, {"setup.py": "", "thing/__init__.py": ""}).facts.source == "."
    assert detected(tmp_path, {"src/__init__.py": ""}).facts.source == "."


def test_the_build_says_where_imports_begin(tmp_path: Path) -> None:
    said = "[tool.setuptools.packages.find]\nwhere = ['lib']\n"
    assert detected(tmp_path, {"pyproject.toml": said, "src/a.py": ""}).facts.source == "lib"
    out = "[tool.setuptools.packages.find]\nwhere = ['../lib']\n"
    assert detected(tmp_path, {"pyproject.toml": out}).facts.source == "src"


def test_python_that_names_pytest_nowhere_uses_unittest(tmp_path: Path) -> None:
    found = detected(tmp_path, {"setup.py": "", "test/thing_tests.py": ""})
    assert found.facts.test == "python3 -m unittest discover -s test"


def test_python_whose_tests_are_all_unittests_uses_unittest(tmp_path: Path) -> None:
    case = "import unittest\n\nclass ThingTest(unittest.TestCase):\n    pass\n"
    files = {"setup.py": "", "tests/__init__.py": "", "tests/test_thing.py": case}
    test = detected(tmp_path / "all", files).facts.test
    assert test == "python3 -m unittest discover -s tests -t ."
    some = {**files, "tests/test_other.py": "def test_other(): pass\n"}
    assert detected(tmp_path / "some", some).facts.test == "pytest -q"
    mixed = {**files, "tests/test_other.py": f"import pytest\n{case}"}
    assert detected(tmp_path / "mixed", mixed).facts.test == "pytest -q"


def test_the_makefile_is_the_one_that_make_reads(tmp_path: Path) -> None:
    both = {"GNUmakefile": "check:\n\tx\n", "Makefile": "test:\n\tx\n"}
    found = detected(tmp_path, both)
    assert (found.facts.test, found.because) == ("make check", ("GNUmakefile",))


@pytest.mark.parametrize(
    ("lock", "manager"),
    [
        ("package-lock.json", "npm"),
        ("pnpm-lock.yaml", "pnpm"),
        ("yarn.lock", "yarn"),
        (None, "npm"),
    ],
)
def test_javascript_with_each_package_manager(
    tmp_path: Path, lock: str | None, manager: str
) -> None:
    files = {"package.json": json.dumps({"scripts": {"test": "node --test"}}), "src/a.js": ""}
    if lock is not None:
        files[lock] = ""
    facts = detected(tmp_path, files).facts
    assert facts == ProjectFacts(
        language="javascript", package_manager=manager, source="src", test=f"{manager} test"
    )


def test_javascript_may_name_its_manager_itself_and_have_no_tests(tmp_path: Path) -> None:
    package = {"packageManager": "pnpm@9.1.0", "scripts": {"test": 'echo "no test specified"'}}
    facts = detected(tmp_path, {"package.json": json.dumps(package)}).facts
    assert (facts.package_manager, facts.test) == ("pnpm", None)


def test_rust_and_go(tmp_path: Path) -> None:
    rust, go = tmp_path / "rust", tmp_path / "go"
    assert detected(rust, {"Cargo.toml": "", "src/lib.rs": "", "tests/a.rs": ""}).facts == (
        ProjectFacts(
            language="rust",
            package_manager="cargo",
            source="src",
            tests=("tests",),
            test="cargo test",
        )
    )
    assert detected(go, {"go.mod": "module x\n"}).facts == (
        ProjectFacts(language="go", package_manager="go", test="go test ./...")
    )


def test_a_makefile_says_how_tests_are_run_where_nothing_nearer_does(tmp_path: Path) -> None:
    alone = detected(tmp_path / "a", {"Makefile": "all: x\n\ncheck: all\n\tx\n"})
    assert (alone.facts.language, alone.facts.test) == ("other", "make check")
    assert alone.because == ("Makefile",)
    beside = detected(tmp_path / "b", {"Makefile": "test:\n\tx\n", "go.mod": ""})
    assert beside.facts.test == "go test ./..."
    variable = detected(tmp_path / "c", {"Makefile": "test := 3\n"})
    assert variable == Detected(facts=ProjectFacts())


@pytest.mark.parametrize(
    "text", ["{", "[]", "[" * 100_000, '{"scripts": 3}', '{"scripts": {"test": 3}}']
)
def test_a_broken_package_json_is_javascript_all_the_same(tmp_path: Path, text: str) -> None:
    facts = detected(tmp_path, {"package.json": text}).facts
    assert (facts.language, facts.test) == ("javascript", None)


def test_links_and_special_files_say_nothing(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (tmp_path / "outside.json").write_text('{"scripts": {"test": "x"}}')
    (root / "package.json").symlink_to(tmp_path / "outside.json")
    os.mkfifo(root / "Makefile")
    (tmp_path / "elsewhere").mkdir()
    (root / "src").symlink_to(tmp_path / "elsewhere")
    assert detected(root, {}) == Detected(facts=ProjectFacts())
