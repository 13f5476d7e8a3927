"""Any command line as an agent: what it says, how it fails, and that nothing of it is left."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from agentforge_sessions.agents.running import CommandAgent
from agentforge_sessions.workflows.agents.choice import make_agent, parse_agent
from agentforge_sessions.workflows.agents.port import (
    AgentCrashed,
    AgentFailed,
    AgentRequest,
    AgentTimeout,
    AgentUnavailable,
    PhaseAgent,
)
from tests.support.promptness import given_time


def request(prompt: str = "do it") -> AgentRequest:
    return AgentRequest(
        session_id="s-1",
        workflow="tdflow",
        phase="red",
        attempt=2,
        turn=2,
        call=1,
        briefing="",
        prompt=prompt,
        files={},
        tokens_left=1000,
        prompt_digest="0",
    )


def python(code: str, **more: object) -> CommandAgent:
    return CommandAgent([sys.executable, "-c", code], **more)  # type: ignore[arg-type]


def test_prompt_goes_in_and_answer_comes_out() -> None:
    agent = python("import sys; print('got', sys.stdin.read().upper(), end='')")
    assert isinstance(agent, PhaseAgent)
    assert agent.answer(request("straße ✓")).text == "got STRASSE ✓"


def test_command_line_is_split_and_no_shell_runs() -> None:
    assert CommandAgent("echo 'a b' $HOME ; ls").answer(request()).text == "a b $HOME ; ls\n"


def test_prompt_larger_than_a_pipe_and_an_answer_before_it_is_read() -> None:
    prompt = "x" * 3_000_000
    agent = python("import sys; sys.stdout.write('y' * 500000); print(len(sys.stdin.read()))")
    text = agent.answer(request(prompt)).text
    assert text.endswith("3000000\n")
    assert len(text) == 500_008


def test_command_that_reads_nothing_may_answer() -> None:
    assert CommandAgent("echo hello").answer(request("x" * 1_000_000)).text == "hello\n"


def test_command_knows_where_it_is() -> None:
    agent = python(
        "import os; print([os.environ['AGENTFORGE_' + n] for n in "
        "('SESSION', 'PHASE', 'ATTEMPT', 'CALL', 'TOKENS_LEFT')])"
    )
    assert agent.answer(request()).text == "['s-1', 'red', '2', '1', '1000']\n"


def test_command_that_fails_is_told_with_what_it_said() -> None:
    agent = python("import sys; print('half'); print('no key', file=sys.stderr); sys.exit(3)")
    with pytest.raises(AgentCrashed, match=r"ended with exit code 3: no key") as caught:
        agent.answer(request())
    assert (caught.value.exit_code, caught.value.may_recover) == (3, True)
    with pytest.raises(AgentCrashed, match="was ended by signal 9"):
        python("import os; os.kill(os.getpid(), 9)").answer(request())


def test_command_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("x")
    for words in ("/nowhere/agent", str(plain), "sh -c 'no-such-command'"):
        with pytest.raises(AgentUnavailable) as caught:
            CommandAgent(words).answer(request())
        assert not caught.value.may_recover


def test_command_that_hangs_is_ended_with_all_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = (
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "print('thinking', file=sys.stderr, flush=True)\n"
        "time.sleep(600)\n"
    )

    def attempt(limit_s: float) -> str:
        with pytest.raises(AgentTimeout, match=f"within {limit_s:g} seconds and was") as caught:
            python(code, timeout_s=limit_s).answer(request())
        return str(caught.value)

    told = given_time(attempt, 0.5, lambda told: "thinking" in told)
    assert "and was ended; it had said: thin" in told
    # The kernel was told; until it has ended them a moment may pass.
    ended = time.monotonic()
    while any(map(_alive, map(int, pids.read_text().split()))):
        assert time.monotonic() - ended < 60
        time.sleep(0.01)


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the latter when it ends while it is read
        return False
    return state not in {"Z", "X"}


def test_children_that_keep_the_output_open_do_not_keep_us() -> None:
    begun = time.monotonic()
    agent = CommandAgent(["sh", "-c", "sleep 600 & echo done"], timeout_s=300)
    assert agent.answer(request()).text == "done\n"
    assert time.monotonic() - begun < 60


def test_answer_that_is_no_text_is_refused() -> None:
    with pytest.raises(AgentFailed, match="no UTF-8"):
        python("import sys; sys.stdout.buffer.write(b'\\xff')").answer(request())


def test_description_holds_no_arguments() -> None:
    assert CommandAgent("/usr/bin/llm --key SECRET").description == "llm"


@pytest.mark.parametrize("words", ["", "  ", "a 'b"])
def test_what_is_no_command_is_refused(words: str) -> None:
    with pytest.raises(ValueError):
        CommandAgent(words)
    with pytest.raises(ValueError):
        parse_agent(words)


def test_names_of_agents_lead_to_agents(tmp_path: Path) -> None:
    assert make_agent(parse_agent("claude -p")).description == "claude"
    recorded = parse_agent(f"recorded:{os.path.relpath(tmp_path)}")
    assert recorded.value == str(tmp_path)
    assert make_agent(recorded).description == f"recorded answers of {tmp_path.name}"
    assert make_agent(parse_agent("openai:m@http://127.0.0.1:1/v1")).description == "m at 127.0.0.1"
    for bad in ("recorded:", "openai:", "anthropic:@http://x"):
        with pytest.raises(ValueError):
            make_agent(parse_agent(bad))
