"""Small projects, one for each test runner, with a feature that an agent adds at its third try.

What they need is pinned, is installed from its index once on a machine, below the temporary folder,
and is linked from there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
from attrs import frozen

from tests.support.index_packages import CACHE

_INSTALL_S: Final = 300.0


@frozen(kw_only=True)
class RunnerProject:
    """A project with one test, and a feature with a second one.

    Attributes:
        needs: The programs without which a machine has no such project.
        files: Its files.
        host: What the person runs, in a shell.
        test: The test command that `init` finds.
        check: The command that judges in a jail, and what is read of it.
        feature: The file of the feature, and that of its test.
        tests: The feature's test.
        tries: What an agent writes: two that are wrong, and one that is right.
        npm: The package of npm, pinned.
        pip: The package of PyPI, pinned, for a virtual environment of the project.
        source: Where its imports begin, which the environment names as `pip install -e` does.
        is_told: Whether `init` knows what is read, and not the person alone.
        caches: What the runner itself leaves in a checkout: the beginnings of paths.
    """

    needs: tuple[str, ...]
    files: Mapping[str, str]
    host: str
    test: str
    check: tuple[str, str]
    feature: tuple[str, str]
    tests: str
    tries: tuple[str, str, str]
    npm: str | None = None
    pip: str | None = None
    source: str = ""
    is_told: bool = True
    caches: tuple[str, ...] = ()

    def laid_out(self, folder: Path) -> Path:
        """Write the project into a new folder, with what it needs."""
        for program in self.needs:
            if shutil.which(program) is None:
                pytest.skip(f"{program} is not installed")
        for name, text in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        if self.npm is not None:
            installed = _kept(self.npm, lambda at: _npm(self.npm or "", at))
            shutil.copytree(installed, folder / "node_modules", symlinks=True, copy_function=_link)
        if self.pip is not None:
            wheels = _kept(self.pip, lambda at: _pip("download", "--dest", str(at), self.pip or ""))
            _run([sys.executable, "-m", "venv", "--without-pip", str(folder / ".venv")])
            where = ["--python", str(folder / ".venv/bin/python")]
            _pip(*where, "install", "--no-index", "--find-links", str(wheels), self.pip)
            for packages in (folder / ".venv").glob("lib/python3*/site-packages"):
                (packages / "own.pth").write_text(f"{folder / self.source}\n")
        return folder


def _kept(name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder that is made once on a machine, whole or not at all."""
    place = CACHE / name
    if not place.is_dir():
        CACHE.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            made = Path(scratch, "made")
            made.mkdir()
            make(made)
            try:
                made.rename(place)
            except OSError:
                if not place.is_dir():  # else another process was first
                    raise
    return place


def _npm(package: str, at: Path) -> None:
    name, _, version = package.rpartition("@")
    (at.parent / "package.json").write_text(json.dumps({"devDependencies": {name: version}}))
    options = ("--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=1")
    _run(["npm", "install", *options, "--prefix", str(at.parent)], said=package)
    at.rmdir()
    (at.parent / "node_modules").rename(at)


def _pip(*words: str) -> None:
    patience = ("--retries", "1", "--timeout", "30", "--disable-pip-version-check", "--quiet")
    _run([sys.executable, "-m", "pip", *patience, *words], said=words[-1])


def _run(command: Sequence[str], *, said: str = "") -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_INSTALL_S, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{said} was not installed within {_INSTALL_S:.0f} s")
    if done.returncode:
        why = (done.stderr or done.stdout).strip().splitlines()[-1:]
        pytest.skip(f"{said} can't be installed here: {' '.join(why)}")


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


# ---------------------------------------------------------------------------------------- runners


_REPORT: Final = "agentforge-report.xml"
_IMPORTS: Final = """\
import assert from 'node:assert'
import { test } from 'vitest'
import { NAME } from '../src/NAME.js'
"""
_REQUIRES: Final = """\
const assert = require('node:assert')
const { NAME } = require('../src/NAME.js')
"""


def _script(
    npm: str | None,
    script: str,
    check: tuple[str, str],
    *,
    head: str = _REQUIRES,
    case: str = "test",
    caches: tuple[str, ...] = (),
) -> RunnerProject:
    """Return a project of JavaScript."""
    modules = head is _IMPORTS

    def tests(name: str, call: str, value: int) -> str:
        judged = f"{case}('{name}', () => assert.equal({call}, {value}))\n"
        return f"{head.replace('NAME', name)}{judged}"

    def code(name: str, text: str) -> str:
        return f"export const {name} = {text}\n" if modules else f"exports.{name} = {text}\n"

    kind = "module" if modules else "commonjs"
    return RunnerProject(
        needs=("node", "npm"),
        files={
            "package.json": json.dumps({"name": "x", "type": kind, "scripts": {"test": script}}),
            "src/add.js": code("add", "(a, b) => a + b"),
            "test/add.test.js": tests("add", "add(1, 2)", 3),
            ".gitignore": "node_modules/\n",
        },
        host="npm test",
        test="npm test",
        check=check,
        feature=("src/double.js", "test/double.test.js"),
        tests=tests("double", "double(4)", 8),
        tries=(
            code("double", "a => {"),
            code("double", "a => a + 2"),
            code("double", "a => a + a"),
        ),
        npm=npm,
        caches=caches,
    )


def _python(
    host: str, check: tuple[str, str], *, pip: str | None = None, source: str = ""
) -> RunnerProject:
    """Return a project of Python, with tests that both runners understand."""

    def tests(name: str, call: str, value: int) -> str:
        return (
            f"import unittest\n\nfrom {name} import {name}\n\n\n"
            f"class {name.title()}Test(unittest.TestCase):\n"
            f"    def test_{name}(self):\n        self.assertEqual({call}, {value})\n"
        )

    return RunnerProject(
        needs=("python3",),
        files={
            "setup.cfg": "[metadata]\nname = x\n",
            f"{source}add.py": "def add(a, b):\n    return a + b\n",
            "tests/__init__.py": "",
            "tests/test_add.py": tests("add", "add(1, 2)", 3),
            ".gitignore": ".venv/\n__pycache__/\n.pytest_cache/\n",
            **({} if pip is None else {"requirements-dev.txt": f"{pip}\n"}),
        },
        host=host,
        test=check[0],
        check=check,
        feature=(f"{source}double.py", "tests/test_double.py"),
        tests=tests("double", "double(4)", 8),
        tries=(
            "def double(a):\n",
            "def double(a):\n    return a + 2\n",
            "def double(a):\n    return a + a\n",
        ),
        pip=pip,
        source=source,
        caches=(f"{source}__pycache__", "tests/__pycache__", ".pytest_cache"),
    )


def _rust() -> RunnerProject:
    def tests(name: str, call: str, value: int) -> str:
        return f"#[test]\nfn {name}() {{\n    assert_eq!(own::{call}, {value});\n}}\n"

    def code(text: str) -> str:
        return f"pub mod double_of;\n\npub fn double(a: u32) -> u32 {{\n    {text}\n}}\n"

    return RunnerProject(
        needs=("cargo",),
        files={
            "Cargo.toml": '[package]\nname = "own"\nversion = "0.1.0"\nedition = "2021"\n',
            "src/lib.rs": "mod double;\n\npub use double::double;\n\n"
            "pub fn add(a: u32, b: u32) -> u32 {\n    a + b\n}\n",
            "src/double.rs": "pub fn double(_: u32) -> u32 {\n    todo!()\n}\n",
            "tests/add.rs": tests("add", "add(1, 2)", 3),
            ".gitignore": "target/\nCargo.lock\n",
        },
        host="cargo test --offline",
        test="cargo test",
        check=("cargo test --offline", "exit-code"),
        feature=("src/double.rs", "tests/double.rs"),
        tests=tests("double", "double(4)", 8),
        tries=(
            "pub fn double(a: u32) -> u32 {\n",
            "pub fn double(a: u32) -> u32 {\n    a + 2\n}\n",
            "pub fn double(a: u32) -> u32 {\n    a + a\n}\n",
        ),
        caches=("target", "Cargo.lock"),
    )


def _go() -> RunnerProject:
    def tests(name: str, call: str, value: int) -> str:
        return (
            f'package own\n\nimport "testing"\n\nfunc Test{name}(t *testing.T) {{\n'
            f"\tif {call} != {value} {{\n\t\tt.Fatal()\n\t}}\n}}\n"
        )

    def code(name: str, text: str) -> str:
        return f"package own\n\nfunc {name}(a int) int {{\n\treturn {text}\n}}\n"

    return RunnerProject(
        needs=("go",),
        files={
            "go.mod": "module example.org/own\n\ngo 1.21\n",
            "next.go": code("Next", "a + 1"),
            "next_test.go": tests("Next", "Next(1)", 2),
            ".gitignore": "\n",
        },
        host="go test ./...",
        test="go test ./...",
        check=("go test ./...", "exit-code"),
        feature=("double.go", "double_test.go"),
        tests=tests("Double", "Double(4)", 8),
        tries=(code("Double", "a +"), code("Double", "a + 2"), code("Double", "a + a")),
    )


def _made(recipe: str, check: tuple[str, str]) -> RunnerProject:
    """Return a project of C; each file in `test` is a program that ends with 0 or doesn't."""

    def tests(name: str, call: str, value: int) -> str:
        return f'#include "../src/{name}.h"\nint main(void) {{ return {call} != {value}; }}\n'

    def code(name: str, text: str) -> str:
        return f"static inline int {name}(int a) {{ return {text} }}\n"

    return RunnerProject(
        needs=("make", "cc"),
        files={
            "Makefile": f".PHONY: test\ntest:\n{recipe}",
            "src/next.h": code("next", "a + 1;"),
            "test/next.c": tests("next", "next(1)", 2),
            ".gitignore": "/build/\n",
        },
        host="make -s test",
        test="make test",
        check=check,
        is_told=check[1] == "exit-code",
        feature=("src/double_of.h", "test/double_of.c"),
        tests=tests("double_of", "double_of(4)", 8),
        tries=(code("double_of", "a"), code("double_of", "a + 2;"), code("double_of", "a + a;")),
        caches=("build",),
    )


_EXIT_CODES: Final = """\
\t@mkdir -p build; for one in test/*.c; do \\
\t$(CC) -o build/one $$one && build/one && echo $$one passed || exit 1; done
"""
_TAP: Final = """\
\t@mkdir -p build; echo 1..$(words $(wildcard test/*.c)); bad=0; \\
\tfor one in test/*.c; do $(CC) -o build/one $$one && build/one && echo ok - $$one || \\
\t{ echo not ok - $$one; bad=1; }; done; exit $$bad
"""
_PYTEST: Final = (".venv/bin/pytest -q", ("pytest -q", "junit"))
_VITEST: Final = (f"npm test -- --run --reporter=junit --outputFile={_REPORT}", "junit")
_JEST: Final = ("npm test -- --watchAll=false", "exit-code")
_VITE_CACHES: Final = ("node_modules/.vite", "node_modules/.vitest", "node_modules/.cache")

SCRIPT_RUNNERS: Final[Mapping[str, RunnerProject]] = {
    **{
        f"vitest {version[0]}": _script(
            f"vitest@{version}", "vitest run", _VITEST, head=_IMPORTS, caches=_VITE_CACHES
        )
        for version in ("2.1.9", "3.2.7", "4.1.12")
    },
    **{
        f"jest {version[:2]}": _script(f"jest@{version}", "jest", _JEST)
        for version in ("29.7.0", "30.5.2")
    },
    "mocha": _script(
        "mocha@11.8.0",
        "mocha 'test/**/*.test.js'",
        ("npm test -- --reporter=tap", "tap"),
        case="it",
    ),
    "node:test": _script(
        None,
        "node --test test",
        ("env NODE_OPTIONS=--test-reporter=tap npm test", "tap"),
        head=f"const {{ test }} = require('node:test')\n{_REQUIRES}",
    ),
}
OTHER_RUNNERS: Final[Mapping[str, RunnerProject]] = {
    "pytest": _python(*_PYTEST, pip="pytest==8.4.2"),
    "pytest, src": _python(*_PYTEST, pip="pytest==8.4.2", source="src/"),
    "unittest": _python(
        "python3 -m unittest discover -s tests -t .",
        ("python3 -m unittest discover -s tests -t .", "exit-code"),
    ),
    "cargo test": _rust(),
    "make, exit codes": _made(_EXIT_CODES, ("make test", "exit-code")),
    "make, TAP": _made(_TAP, ("make test", "tap")),
    "go test": _go(),
}
