"""What an execution promises holds with no interpreter opened ahead, too.

Here are those promises that reach what differs: an interpreter that is opened for an execution and
closed after it. What every executor does without a pool stands in `test_executor_contract.py`, and
a soak runs all of both suites without one.
"""

from __future__ import annotations

import pytest

from agentforge_sessions.sandbox import Sandbox
from tests.contract.sandbox.test_execution import (  # noqa: F401 (run here under this fixture)
    test_a_fall_of_the_interpreter_is_a_crash,
    test_a_file_left_open_is_written,
    test_a_guest_that_dies_of_its_memory_is_told_so,
    test_changes_are_told_exactly,
    test_every_execution_has_an_interpreter_of_its_own,
    test_exit_handlers_run,
    test_files_outside_the_workspace_are_gone_afterwards,
    test_nothing_is_left_open_and_nothing_warned,
    test_sandboxes_run_at_the_same_time,
    test_the_least_number_of_open_files_is_enough_for_the_interpreter,
    test_the_standard_input_is_a_descriptor_like_any_other,
    test_what_is_left_is_ended,
)
from tests.contract.sandbox.test_features import (  # noqa: F401 (as above)
    test_a_token_stops_a_guest_at_once,
    test_file_calls_are_limited,
    test_the_most_memory_that_a_guest_held_is_told,
)

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("no_pool")]


def test_an_interpreter_is_opened_for_each_execution(sandbox: Sandbox) -> None:
    ran_in = [sandbox.execute("1").metadata["interpreter"] for _ in range(2)]
    assert ran_in == ["opened", "opened"]
