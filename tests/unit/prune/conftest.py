"""What the tests of the prune engine share: a root with a canary beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.prune_sites import Site, guarded_site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A root; whatever a test does to it, what is beside it stays, and no descriptor leaks."""
    with guarded_site(tmp_path / "site") as made:
        yield made
