from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.real_agents import Workplace
from tests.support.scripted_model import scripted_model


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workplace]:
    """A project and a home, with a model that says what the test has it say."""
    with scripted_model([]) as model:
        yield Workplace(tmp_path, model)
