"""The matrix of runners: those of JavaScript, each in a project with its packages of npm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.runner_checkout import CASES, assert_the_third_try_passes
from tests.support.runner_projects import SCRIPT_RUNNERS

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize(("way", "has_caches"), CASES)
@pytest.mark.parametrize("runner", list(SCRIPT_RUNNERS))
def test_the_third_try_passes_and_the_persons_own_tests_say_what_they_said(
    tmp_path: Path, runner: str, way: str, has_caches: bool
) -> None:
    row = SCRIPT_RUNNERS[runner]
    assert_the_third_try_passes(row, tmp_path / "own", way, has_caches=has_caches)
