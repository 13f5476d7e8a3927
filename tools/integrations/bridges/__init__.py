"""Data of other SDKs, stored in sessions: a module for each, imported by its name.

from agentforge_sessions.integrations.bridges.langgraph import AgentForgeSaver
from agentforge_sessions.integrations.bridges.openai_agents import AgentForgeSession

Each needs its extra, and nothing else of this package imports it.
"""
