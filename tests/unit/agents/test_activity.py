"""What a person is shown of an agent program at work."""

from __future__ import annotations

import sys

import pytest

from agentforge_sessions.agents.running.activity import Activity, activity_of
from agentforge_sessions.base.program_run import ProgramRun, listening, run_program


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Editing  src/a.js\t…", "Editing src/a.js …"),
        ("   ", None),
        (
            '{"type":"item.started","item":{"type":"command_execution","command":"npm test"}}',
            "npm test",
        ),
        ('{"type":"tool_use","part":{"tool":"edit","state":{"title":"a.js"}}}', "edit"),
        (
            '{"type":"assistant","message":{"content":[{"type":"text","text":"I read it."}]}}',
            "I read it.",
        ),
        ('{"type":"turn.completed","usage":{"input_tokens":3}}', None),
        ('{"no json', None),
        ("[" * 50, "[" * 50),
        ('{"a":' * 5000, None),
        ("x" * 1000, "x" * 200),
    ],
)
def test_a_line_is_read_as_what_a_person_wants_to_know(line: str, said: str | None) -> None:
    assert activity_of(line) == said


def test_pieces_are_put_together_to_lines_and_the_last_one_counts() -> None:
    told: list[str] = []
    activity = Activity(told.append)
    for piece in (b"on", b"e\ntwo\nth", b"", b"ree\n\n", b"\xff\n"):
        activity.feed(piece)
    assert told == ["two", "three", "\N{REPLACEMENT CHARACTER}"]


def test_a_line_without_an_end_takes_no_room() -> None:
    activity = Activity(lambda _: None)
    for _ in range(100):
        activity.feed(b"x" * 10_000)
    activity.feed(b"\n")


def test_only_what_the_block_runs_is_heard_and_only_standard_output() -> None:
    code = "import sys; print('out', flush=True); print('err', file=sys.stderr)"
    run = ProgramRun([sys.executable, "-c", code], {})
    heard: list[bytes] = []
    with listening(heard.append):
        assert run_program(run).stderr == b"err\n"
    run_program(run)
    assert b"".join(heard) == b"out\n"
