"""The hard cases of usage: the tokens of each kind, and their cost, as the endpoint counted them.

Each case writes what a program writes and calls the hooks that it calls; a killed hook is one that
is not called.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from agentforge_sessions.agents.programs.tokens import Tokens
from agentforge_sessions.harness.views.conversations import conversations
from tests.support.agent_conversations import (
    CodexConversation,
    Conversation,
    GeminiConversation,
    OpencodeConversation,
    Project,
)

SONNET: Final = "claude-sonnet-5-5"  # 2, 0.1, 2.5 and 10 dollars for a million tokens
OPUS: Final = "claude-opus-5-5"  # 4, 0.2, 5 and 20
CODEX: Final = "gpt-5.1-codex"  # 1.25, 0.125, 1.25 and 10
FLASH: Final = "gemini-2.5-flash"  # 0.3, 0.03, 0.3 and 2.5


class Expected(NamedTuple):
    """What the session has of all conversations at the end."""

    kinds: Tokens
    micro_usd: int | None
    unpriced: int = 0


def message(key: str, model: str = SONNET, **kinds: int) -> dict[str, Any]:
    """Return a line of Claude Code with a message's usage."""
    named = {
        "input": "input_tokens",
        "cache_read": "cache_read_input_tokens",
        "cache_write": "cache_creation_input_tokens",
        "output": "output_tokens",
    }
    usage = {field: kinds.get(kind, 0) for kind, field in named.items()}
    return {"type": "assistant", "message": {"id": key, "model": model, "usage": usage}}


def total(thread: str, **kinds: int) -> dict[str, Any]:
    """Return a line of Codex with a thread's total."""
    usage = {
        "input_tokens": kinds["input"],
        "cached_input_tokens": kinds.get("cached", 0),
        "output_tokens": kinds.get("output", 0),
        "reasoning_output_tokens": kinds.get("reasoning", 0),
        "total_tokens": kinds["input"] + kinds.get("output", 0),
    }
    used = {"thread_id": thread, "thread_token_usage": usage}
    return {"type": "token_usage_record", "payload": used}


def chat(key: str, *, model: str = FLASH, **kinds: int) -> dict[str, Any]:
    """Return a line of Gemini CLI with a message's tokens."""
    added = ("input", "output", "thoughts", "tool")
    tokens = {**kinds, "total": sum(kinds.get(one, 0) for one in added)}
    return {"id": key, "type": "gemini", "model": model, "tokens": tokens}


def claude_repeats(project: Project) -> Expected:
    talk = Conversation(project)
    talk.start()
    one = message("m1", input=1_000, cache_read=20_000, cache_write=400, output=50)
    talk.write(one, one, one)
    talk.use_tool()
    talk.use_tool()
    return Expected(Tokens(1_000, 20_000, 400, 50), 2_000 + 2_000 + 1_000 + 500)


def claude_grows(project: Project) -> Expected:
    talk = Conversation(project)
    talk.start()
    talk.write(message("m1", input=1_000, output=1))
    talk.use_tool()
    talk.write(message("m1", input=1_000, output=90))
    talk.use_tool()
    return Expected(Tokens(1_000, output=90), 2_000 + 900)


def claude_subagent(project: Project) -> Expected:
    talk = Conversation(project)
    talk.start()
    talk.write(message("m1", input=100))
    talk.write(message("s1", OPUS, input=1_000, output=100), name="a")
    talk.hook("SubagentStop")
    return Expected(Tokens(1_100, output=100), 200 + 4_000 + 2_000)


def claude_compaction(project: Project) -> Expected:
    talk = Conversation(project)
    talk.start()
    talk.write(message("m1", input=1_000, output=100))
    talk.use_tool()
    state = {"inputTokens": 6_000, "outputTokens": 300, "costUSD": 0.0155}
    talk.write({"type": "cost-state", "modelUsage": {SONNET: state}})
    talk.start("resume")
    talk.write(message("m2", input=500))
    talk.use_tool()
    return Expected(Tokens(6_500, output=300), 15_500 + 1_000)


def claude_fork(project: Project) -> Expected:
    """The fork's file has the messages of the first one, and its total has them, too."""

    def timed(key: str, **kinds: int) -> dict[str, Any]:
        late = project.clock.advance().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {**message(key, **kinds), "timestamp": late}

    talk = Conversation(project)
    talk.start()
    copied = timed("m1", input=1_000)
    talk.write(copied)
    talk.use_tool()
    fork = Conversation(project, "fork")
    fork.start("fork")
    fork.write(copied, timed("m2", output=100))
    fork.use_tool()
    state = {"inputTokens": 1_000, "outputTokens": 100, "costUSD": 0.003}
    fork.write({"type": "cost-state", "modelUsage": {SONNET: state}})
    fork.hook("SessionEnd")
    return Expected(Tokens(1_000, output=100), 2_000 + 1_000)


def claude_own_figure_corrects(project: Project) -> Expected:
    talk = Conversation(project)
    talk.start()
    talk.write(message("m1", cache_write=1_000))
    talk.use_tool()
    state = {"inputTokens": 0, "outputTokens": 0, "cacheCreationInputTokens": 1_000}
    talk.write({"type": "cost-state", "modelUsage": {SONNET: {**state, "costUSD": 0.004}}})
    talk.start("resume")
    return Expected(Tokens(cache_write=1_000), 4_000)


def claude_killed(project: Project) -> Expected:
    talk = Conversation(project)
    talk.start()
    talk.write(message("m1", input=1_000))
    talk.use_tool()
    talk.write(message("m2", input=300, output=20))
    Conversation(project, "conversation-2").start()
    return Expected(Tokens(1_300, output=20), 2_600 + 200)


def claude_half_a_line(project: Project) -> Expected:
    talk = Conversation(project)
    talk.start()
    talk.write(message("m1", input=1_000))
    whole = talk.transcript.read_bytes()
    talk.transcript.write_bytes(whole[:-20])
    talk.use_tool()
    talk.transcript.write_bytes(whole)
    talk.use_tool()
    return Expected(Tokens(1_000), 2_000)


def claude_lost_binding(project: Project) -> Expected:
    talk = Conversation(project)
    talk.start()
    talk.write(message("m1", input=1_000, cache_read=3_000))
    talk.write(message("m2", "claude-unheard-of", input=70))
    talk.use_tool()
    for binding in project.conversations.glob("*/*/binding.json"):
        binding.unlink()
    talk.write(message("m3", output=90))
    talk.prompt()
    return Expected(Tokens(1_070, 3_000, output=90), 2_000 + 300 + 900, unpriced=70)


def claude_unknown_model(project: Project) -> Expected:
    talk = Conversation(project)
    talk.start()
    talk.write(message("m1", "model-nobody-sells", input=1_000))
    state = {"inputTokens": 1_000, "outputTokens": 0, "costUSD": 0.005}
    models = {"model-nobody-sells": state}
    talk.write({"type": "cost-state", "modelUsage": models, "hasUnknownModelCost": True})
    talk.use_tool()
    return Expected(Tokens(1_000), None, unpriced=1_000)


def codex_cumulative(project: Project) -> Expected:
    talk = CodexConversation(project)
    talk.start()
    talk.write({"type": "turn_context", "payload": {"model": CODEX}})
    talk.write(total(talk.name, input=10_000, cached=8_000, output=500, reasoning=300))
    talk.use_tool()
    talk.write(*[total(talk.name, input=12_000, cached=9_600, output=600, reasoning=340)] * 2)
    talk.hook("Stop", last_assistant_message="done")
    return Expected(Tokens(2_400, 9_600, 0, 260, 340), 3_000 + 1_200 + 6_000)


def codex_compaction(project: Project) -> Expected:
    talk = CodexConversation(project)
    talk.start()
    talk.write({"type": "turn_context", "payload": {"model": CODEX}})
    talk.write(total(talk.name, input=1_000))
    talk.use_tool()
    talk.write(total(talk.name, input=5_000, output=400))
    talk.write({"type": "compacted", "payload": {"message": "The summary:\nAll is done."}})
    talk.hook("PostCompact", trigger="auto")
    return Expected(Tokens(5_000, output=400), 6_250 + 4_000)


def codex_subagent(project: Project) -> Expected:
    talk = CodexConversation(project)
    talk.start()
    talk.write({"type": "turn_context", "payload": {"model": CODEX}})
    talk.write({"type": "turn_context", "payload": {"model": "gpt-5-mini"}}, name="a")
    talk.write(total(talk.name, input=1_000))
    talk.write(total(f"{talk.name}-a", input=4_000, output=1_000), name="a")
    talk.hook("Stop", last_assistant_message="done")
    return Expected(Tokens(5_000, output=1_000), 1_250 + 1_000 + 2_000)


def codex_forked_thread(project: Project) -> Expected:
    talk = CodexConversation(project)
    talk.start()
    talk.write({"type": "turn_context", "payload": {"model": CODEX}})
    talk.write(total("another-thread", input=90_000))
    talk.write(total(talk.name, input=800))
    talk.use_tool()
    return Expected(Tokens(800), 1_000)


def codex_other_model(project: Project) -> Expected:
    talk = CodexConversation(project)
    talk.start()
    talk.write({"type": "turn_context", "payload": {"model": CODEX}})
    talk.write(total(talk.name, input=800))
    talk.use_tool()
    talk.write({"type": "turn_context", "payload": {"model": "gpt-5-mini"}})
    talk.write(total(talk.name, input=4_800))
    talk.use_tool()
    return Expected(Tokens(4_800), 1_000 + 1_000)


def opencode_repeats(project: Project) -> Expected:
    talk = OpencodeConversation(project, "ses_1")
    talk.start()
    kinds = {"total": 5_300, "cache_read": 4_000, "output": 100, "reasoning": 200}
    used = {"id": "m1", "model": SONNET, "tokens": kinds, "cost": 0}
    talk.hook("message.updated", usage=[used])
    talk.hook("session.started", source="resume", usage=[used])
    return Expected(Tokens(1_000, 4_000, 0, 100, 200), 2_000 + 400 + 3_000)


def opencode_own_figure(project: Project) -> Expected:
    talk = OpencodeConversation(project, "ses_1")
    talk.start()
    for number, cost in enumerate((0, 0.25, 0.5)):
        tokens = {"total": 1_000 * (number + 1)}
        used = {"id": "m1", "model": "model-o", "tokens": tokens, "cost": cost}
        talk.hook("message.updated", usage=[used])
        talk.prompt()
    used = {"id": "m2", "model": "model-o", "tokens": {"total": 10, "output": 10}, "cost": 0.125}
    talk.hook("message.updated", usage=[used])
    return Expected(Tokens(3_000, output=10), 625_000, unpriced=1_000)


def gemini_rewrites(project: Project) -> Expected:
    talk = GeminiConversation(project)
    talk.hook("SessionStart", source="startup")
    one = chat("g1", input=9_000, cached=7_000, output=100, thoughts=300, tool=40)
    talk.write(one)
    talk.hook("AfterTool")
    talk.write(one)
    talk.hook("AfterAgent", prompt_response="done")
    return Expected(Tokens(2_040, 7_000, 0, 100, 300), 612 + 210 + 1_000)


def gemini_subagent(project: Project) -> Expected:
    talk = GeminiConversation(project)
    talk.hook("SessionStart", source="startup")
    talk.write(chat("g1", input=1_000))
    own, talk.transcript = talk.transcript, talk.transcript.parent / talk.name / "a.jsonl"
    talk.write(chat("s1", input=2_000, output=400))
    talk.transcript = own
    talk.hook("AfterAgent", prompt_response="done")
    return Expected(Tokens(3_000, output=400), 900 + 1_000)


def gemini_killed_in_a_tool(project: Project) -> Expected:
    """The file has the message only once its tools have run; an event reported it before."""
    talk = GeminiConversation(project)
    talk.hook("SessionStart", source="startup")
    talk.write(chat("g1", input=1_000, output=40))
    answer(talk, read=1_000, said=40)
    talk.write(chat("g1", input=1_000, output=40))
    answer(talk, read=2_000, said=200, total=2_600)
    other = GeminiConversation(project, "1a1b2c3d-0000-4000-8000-000000000000")
    other.hook("SessionStart", source="startup")
    return Expected(Tokens(3_000, 0, 0, 240, 400), 300 + 100 + 600 + 1_500)


def gemini_killed_in_a_tool_and_resumed(project: Project) -> Expected:
    talk = GeminiConversation(project)
    talk.hook("SessionStart", source="startup")
    answer(talk, read=2_000, said=200)
    talk.hook("SessionStart", source="resume")
    talk.write(chat("g1", input=100))
    talk.hook("AfterAgent", prompt_response="done")
    return Expected(Tokens(2_100, 0, 0, 200), 600 + 500 + 30)


def gemini_settled_while_at_work(project: Project) -> Expected:
    """Another conversation begins while a tool runs, whose message is then written."""
    talk = GeminiConversation(project)
    talk.hook("SessionStart", source="startup")
    answer(talk, read=2_000, said=200)
    other = GeminiConversation(project, "1a1b2c3d-0000-4000-8000-000000000000")
    other.hook("SessionStart", source="startup")
    talk.write(chat("g1", input=2_000, cached=1_000, output=200))
    talk.hook("AfterTool")
    return Expected(Tokens(1_000, 1_000, 0, 200), 300 + 30 + 500)


def answer(talk: GeminiConversation, *, read: int, said: int, total: int = 0) -> None:
    """Call the hook after the last piece of an answer."""
    usage = {"promptTokenCount": read, "candidatesTokenCount": said}
    usage["totalTokenCount"] = total or read + said
    given = {"llm_request": {"model": FLASH}, "llm_response": {"usageMetadata": usage}}
    assert talk.hook("AfterModel", **given) == {}


def new_conversation_that_was_not_saved(project: Project) -> Expected:
    """No hook could save anything until the last one."""
    talk = Conversation(project)
    late = project.clock.advance().isoformat().replace("+00:00", "Z")
    talk.write({**message("m1", input=1_000), "timestamp": late})
    talk.write({**message("m2", OPUS, output=100), "timestamp": late}, name="a")
    talk.prompt()
    return Expected(Tokens(1_000, output=100), 2_000 + 2_000)


CASES: Final[tuple[Callable[[Project], Expected], ...]] = (
    claude_repeats,
    claude_grows,
    claude_subagent,
    claude_compaction,
    claude_fork,
    claude_own_figure_corrects,
    claude_killed,
    claude_half_a_line,
    claude_lost_binding,
    claude_unknown_model,
    codex_cumulative,
    codex_compaction,
    codex_subagent,
    codex_forked_thread,
    codex_other_model,
    opencode_repeats,
    opencode_own_figure,
    gemini_rewrites,
    gemini_subagent,
    gemini_killed_in_a_tool,
    gemini_killed_in_a_tool_and_resumed,
    gemini_settled_while_at_work,
    new_conversation_that_was_not_saved,
)


@pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_hard_case_is_charged_as_the_endpoint_counted_with_its_cost(
    case: Callable[[Project], Expected], later: bool, tmp_path: Path
) -> None:
    """`later` is as it is on a person's machine: what a tool's event finds waits."""
    project = Project(tmp_path / "project")
    if later:
        project.clock.now = datetime.now(UTC)
    session_id = project.begin(budget=10_000_000)
    expected = case(project)
    Conversation(project, "the-next-one").start()
    session = project.session(session_id)
    found = conversations(session.history)
    kinds = Tokens()
    for one in found:
        kinds = kinds.plus(Tokens(**one.kinds))
    costs = [one.micro_usd for one in found if one.micro_usd is not None]
    assert kinds == expected.kinds
    assert session.token_budget.tokens_used == expected.kinds.total
    assert (sum(costs) if costs else None) == expected.micro_usd
    assert sum(one.unpriced for one in found) == expected.unpriced
