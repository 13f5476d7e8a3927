"""What the contract of the sandbox is run under: with interpreters opened ahead, and without."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import Sandbox, create_sandbox, prepare, runtime_info
from agentforge_sessions.sandbox.interpreters.process_pool import configure_pool, pool_stats
from tests.support.soak import SOAKING


@contextmanager
def pool_of(size: int) -> Iterator[None]:
    """Keep so many interpreters open ahead within the block."""
    prepare()
    before = pool_stats().size
    configure_pool(size)
    yield
    configure_pool(before)


@pytest.fixture(scope="module")
def compiled() -> Path:
    prepare()
    file = runtime_info().cache_file
    assert file is not None
    return file


@pytest.fixture
def cache(tmp_path: Path, compiled: Path) -> Path:
    """A directory in which there is the compiled interpreter, and nothing else."""
    made = tmp_path / "cache"
    made.mkdir(mode=0o700)
    shutil.copy2(compiled, made / compiled.name)
    return made


@pytest.fixture(
    scope="module",
    params=[2, 0] if SOAKING else [2],
    ids=lambda size: "pool" if size else "no pool",
)
def any_pool(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every promise holds with interpreters opened ahead and without (`test_without_pool.py`)."""
    with pool_of(request.param):
        yield


@pytest.fixture(scope="module")
def no_pool() -> Iterator[None]:
    """Nothing is opened ahead, so that only what a test does opens and closes descriptors."""
    with pool_of(0):
        yield


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return create_sandbox(workspace=tmp_path / "w")
