"""What the scenarios of pruning share: a root with a canary beside it, and a recording logger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.prune_sites import Site, guarded_site
from tests.support.recorder import Recorder


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A root; whatever a scenario does to it, what is beside it stays as it is."""
    with guarded_site(tmp_path / "site") as made:
        yield made


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()
