"""The longest name of a queue works, also for sessions that wait for workers of one kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.fleet_view import FleetView
from agentforge_sessions.harness.submission import MAX_QUEUE_BYTES, Submission
from agentforge_sessions.workflows.agents.choice import PROGRAMS
from tests.support.fleet import QUICK, Fleet, workflow


def test_a_queue_of_the_longest_name_takes_sessions_and_passes_them_on(
    database: Database, tmp_path: Path
) -> None:
    fleet = Fleet(database, tmp_path)
    longest = "é" * (MAX_QUEUE_BYTES // 2)
    session_id = fleet.submit(workflow(QUICK), queue=longest)
    for needs in (*PROGRAMS, "anthropic", "recorded", "repository", "command", "other"):
        database.one("select agentforge.pass_on(%s, %s, 'why')", (session_id, needs))
        with database.transaction() as connection:
            connection.execute("set local search_path = agentforge")
            connection.execute("delete from procrastinate_jobs")
        database.one("select agentforge.wake(%s)", (session_id,))
        (job,), _ = FleetView(database).jobs()
        assert job.queue == f"{longest}@{needs}"


@pytest.mark.parametrize("queue", ["", "x" * (MAX_QUEUE_BYTES + 1), "é" * MAX_QUEUE_BYTES, "a\0b"])
def test_any_longer_one_is_refused_before_anything_is_begun(queue: str) -> None:
    with pytest.raises(ValueError, match="queue"):
        Submission(queue=queue)
