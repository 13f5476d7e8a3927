"""The own host does as preview1 asks: the tests of its authors, on each kind of directory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentforge_sessions.sandbox.host.files.files import Directory, Opening
from agentforge_sessions.sandbox.host.files.memory_files import MemoryTree
from tests.support.host_trees import in_memory, served
from tests.support.wasi_testsuite import MODULES, run, specification

WITH_A_DIRECTORY = [module for module in MODULES if specification(module).root is not None]
WITHOUT_ONE = [module for module in MODULES if specification(module).root is None]


def name_of(module: Path) -> str:
    return f"{module.parent.name}-{module.stem}"


@contextmanager
def directory(kind: str, source: Path, temporary: Path) -> Iterator[Directory]:
    """What a directory holds, as a guest is served it."""
    if kind == "in memory":
        with in_memory(temporary) as tree:
            fill(tree, source)
            yield tree.root
    else:
        copy = temporary / "root"
        shutil.copytree(source, copy)
        with served(copy, openat2=kind == "of the host") as served_tree:
            yield served_tree.root


def fill(tree: MemoryTree, source: Path) -> None:
    for each in sorted(source.rglob("*")):
        path = str(each.relative_to(source)).encode()
        if each.is_dir():
            tree.root.make_directory(path)
            continue
        file = tree.root.open(path, Opening(create=True, write=True))
        file.write([memoryview(each.read_bytes())], 0)
        file.close()


def test_the_suite_is_whole() -> None:
    assert len(MODULES) == 72


@pytest.mark.parametrize("kind", ["of the host", "of the host, by component", "in memory"])
@pytest.mark.parametrize("module", WITH_A_DIRECTORY, ids=name_of)
def test_files_are_as_preview1_asks(module: Path, kind: str, tmp_path: Path) -> None:
    wanted = specification(module)
    assert wanted.root is not None
    with directory(kind, wanted.root, tmp_path) as root:
        wanted.judge(run(module, root))


@pytest.mark.parametrize("module", WITHOUT_ONE, ids=name_of)
def test_a_process_is_as_preview1_asks(module: Path) -> None:
    specification(module).judge(run(module, None))
