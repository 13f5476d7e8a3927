"""What a call cost, as programs print it."""

from __future__ import annotations

import pytest

from agentforge_sessions.agents.running.agent_command import (
    editing_command,
    filled_words,
    keeps_state,
    words_faults,
)
from agentforge_sessions.agents.running.printed_output import printed_usage, program_output
from agentforge_sessions.workflows.agents.port import TokenUsage

CLAUDE = (
    '{"type":"result","subtype":"success","result":"done","modelUsage":{"m":{"inputTokens":4,'
    '"cacheCreationInputTokens":100,"cacheReadInputTokens":1000,"outputTokens":50}}}'
)
CODEX = '{"type":"turn.completed","usage":{"input_tokens":24,"output_tokens":122}}'
AIDER = """\
Applied edit to a.py
Tokens: 2.8k sent, 205 received. Cost: $0.01 message, $0.01 session.
More words
Tokens: 1,000 sent, 2.0k cache write, 1.1k received. Cost: $0.01 message, $0.02 session.
"""


@pytest.mark.parametrize(
    ("text", "usage"),
    [
        (CLAUDE, (1104, 50)),
        (f'{{"type":"turn.started"}}\n{CODEX}\n', (24, 122)),
        (f'{{"type":"system"}}\n{CLAUDE}\n', (1104, 50)),
        (AIDER, (3800, 1305)),
    ],
)
def test_it_is_read(text: str, usage: tuple[int, int]) -> None:
    assert printed_usage(text) == TokenUsage(input_tokens=usage[0], output_tokens=usage[1])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing of it",
        "{",
        "[1]",
        '{"usage": 3}',
        '{"result": "of another program"}',
        '{"usage": {"input_tokens": -1, "output_tokens": 2}}',
        f"{CLAUDE} and words",
        "Tokens: . sent, . received.",
        '{"a":' * 5000,
    ],
)
def test_what_is_none_is_passed_over(text: str) -> None:
    assert printed_usage(text) is None


def test_the_words_of_a_call_have_what_it_is_given() -> None:
    words = ["a", "--to={state}/x", "{prompt_file}", "{continue:--go on '{state} y'}", "{other}"]
    assert keeps_state(words)
    first = filled_words(words, prompt_file="/p", state="/s", continued=False)
    assert first == ["a", "--to=/s/x", "/p", "{other}"]
    again = filled_words(words, prompt_file="/p", state="/s", continued=True)
    assert again == ["a", "--to=/s/x", "/p", "--go", "on", "/s y", "{other}"]


@pytest.mark.parametrize(
    "name", ["claude", "claude:some model", "codex:m", "gemini", "gemini:m", "opencode:p/m"]
)
def test_programs_by_name_have_a_command_that_edits(name: str) -> None:
    words = editing_command(name)
    program, _, model = name.partition(":")
    assert program in words
    assert keeps_state(words)
    assert words_faults(words) == []
    assert (model in words) is bool(model)


@pytest.mark.parametrize(
    "printed",
    [
        '{"response": "hi", "stats": {"models": {"m": {"tokens": {"prompt": 90, "thoughts": 3,'
        ' "candidates": 7}}}}}',
        '{"type":"text","part":{"text":"hi"}}\n{"type":"step_finish","part":{"tokens":'
        '{"input":80,"output":7,"reasoning":3,"cache":{"read":10,"write":0}}}}',
    ],
)
def test_gemini_and_opencode_say_what_they_cost(printed: str) -> None:
    output = program_output(printed)
    assert output is not None
    assert tuple(output)[:4] == ("hi", 90, 10, None)


@pytest.mark.parametrize(
    ("printed", "micro_usd"),
    [
        (CLAUDE, None),
        (CLAUDE.replace('"result":"done"', '"result":"done","total_cost_usd":0.25'), 250_000),
        (CODEX, None),
        (
            '{"type":"step_finish","part":{"cost":0.5,"tokens":{"input":9}}}\n'
            '{"type":"step_finish","part":{"cost":0.25,"tokens":{"input":9}}}',
            750_000,
        ),
        ('{"type":"step_finish","part":{"cost":0,"tokens":{"input":9}}}', None),
        (
            '{"response":"hi","stats":{"models":{"gemini-2.5-pro":{"tokens":{"prompt":1000000,'
            '"cached":400000,"candidates":10000,"thoughts":10000}}}}}',
            1_000_000,
        ),
        ('{"response":"hi","stats":{"models":{"m":{"tokens":{"prompt":9}}}}}', None),
    ],
)
def test_the_cost_is_the_programs_own_figure_or_by_the_table(
    printed: str, micro_usd: int | None
) -> None:
    usage = printed_usage(printed)
    assert usage is not None
    assert usage.micro_usd == micro_usd


def test_json_of_another_program_is_its_words() -> None:
    assert program_output('{"result": "done"}') is None
    assert program_output("done") is None
