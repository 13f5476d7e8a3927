"""What the scenarios of pruning share: a root with a canary beside it, and a recording logger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.prune_sites import Recorder, Site, tree_of


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A root; whatever a scenario does to it, what is beside it stays as it is."""
    made = Site(tmp_path / "site")
    before = tree_of(made.beside)
    yield made
    assert tree_of(made.beside) == before
    assert made.fs.open_descriptors == {}


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()
