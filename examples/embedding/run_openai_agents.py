"""Talk to a model that has the tools of `openai_agents_tool.py`.

    pip install 'agentforge-sessions[openai-agents,tdflow]'
    python examples/embedding/run_openai_agents.py                     # with OPENAI_API_KEY
    python examples/embedding/run_openai_agents.py --rehearse          # without a model or a network

Ask it to "develop slugs". The agent that develops is played from recordings; its question comes to
you, and your answer goes back once you have said that it is what you meant. Stop it wherever you
like and start it again: the conversation is in SQLite, the session where it always is.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from pathlib import Path

import structlog
from agents import Agent, RunConfig, Runner, SQLiteSession
from openai_agents_tool import Channel, answer_questions, begin_component, run_session
from rehearsal import rehearsal

from agentforge_sessions.workflows.agents.choice import make_agent, parse_agent

ROOT = Path(__file__).resolve().parents[2]
INSTRUCTIONS = """\
You have components developed in sessions: begin one, run it, and tell the user what its report says.
A session that is paused goes on with run_session, once what it waits for is done."""


async def talk(agent: Agent[Channel], channel: Channel, conversation: SQLiteSession) -> None:
    """Let the user talk to the model until they have nothing more to say."""
    config = RunConfig(tracing_disabled=True)
    while words := input("\nyou> ").strip():
        result = await Runner.run(
            agent, words, context=channel, session=conversation, run_config=config
        )
        while result.interruptions:
            state = result.to_state()
            for one in result.interruptions:
                print(f"\nIt is about to call {one.name} with {one.arguments}")
                if input("Is that what you mean? [y/n] ").strip().lower() == "y":
                    state.approve(one)
                else:
                    state.reject(one)
            result = await Runner.run(agent, state, session=conversation, run_config=config)
        print(f"\n{result.final_output}")


def main() -> int:
    """Make the model, the tools and the channel, and talk."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--base", type=Path, default=Path(".agentforge/openai-agents/sessions"))
    parser.add_argument("--conversation", default="slugs", help="which conversation")
    parser.add_argument("--model", help="the SDK's default if not given")
    parser.add_argument("--rehearse", action="store_true", help="play the model, too")
    parser.add_argument(
        "--specification", type=Path, default=ROOT / "examples" / "specs" / "slugs.yaml"
    )
    parser.add_argument(
        "--agent",
        default=f"recorded:{ROOT / 'examples' / 'recordings' / 'slugs'}",
        help="who develops, as `agentforge run tdflow --agent`",
    )
    given = parser.parse_args()
    if not given.rehearse and "OPENAI_API_KEY" not in os.environ:
        parser.error("OPENAI_API_KEY is not set; --rehearse does without a model")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))

    agent = Agent[Channel](
        name="foreman",
        instructions=INSTRUCTIONS,
        tools=[begin_component, run_session, answer_questions],
        model=rehearsal() if given.rehearse else given.model,
    )
    channel = Channel(
        base=given.base,
        specification=given.specification.read_bytes(),
        agent=make_agent(parse_agent(given.agent)),
    )
    given.base.parent.mkdir(parents=True, exist_ok=True)
    conversation = SQLiteSession(given.conversation, given.base.parent / "conversations.sqlite")
    try:
        asyncio.run(talk(agent, channel, conversation))
    except EOFError:
        print("\nAll is kept. Start again to go on.")
    finally:
        conversation.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
