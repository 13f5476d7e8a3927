"""`agentforge do --no-jail` where the calls of Linux are missing, as on macOS."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from tests.e2e.do.conftest import BAD, GOOD, Desk, desk_of, repository

PORTABLE = Path(__file__).parents[2] / "support" / "portable"
CHECKED = ("--check", "sh check.sh")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A repository, and a program without the calls of Linux."""
    found = desk_of(repository(tmp_path / "project"))
    return evolve(found, environment={**found.environment, "PYTHONPATH": str(PORTABLE)})


def test_a_task_is_done_without_a_jail_and_its_result_applied(desk: Desk) -> None:
    before = desk.state()
    agent = desk.agent(BAD, GOOD)
    done = desk.do("improve it", "--agent", agent, *CHECKED, "--no-jail")
    assert "The check passed after 2 tries: sh check.sh." in done.out
    assert "not sealed" in done.out + done.err
    assert desk.state() == before
    desk.do("--continue", "--yes")
    assert (desk.checkout / "work.txt").read_text() == "better\ndone\n"


def test_a_task_that_was_stopped_goes_on_by_the_word_that_it_has_no_jail(
    desk: Desk,
) -> None:
    process = desk.started("x", "--agent", desk.agent("sleep 3600 & wait"), *CHECKED, "--no-jail")
    assert process.stdout is not None
    while "attempt 1" not in (line := process.stdout.readline()):
        assert line, process.communicate()
    process.terminate()
    process.communicate(timeout=100)
    desk.do("--continue", "--agent", desk.agent(GOOD), "--no-jail", "--yes")
    assert (desk.checkout / "work.txt").read_text() == "better\ndone\n"
