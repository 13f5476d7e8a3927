"""Every exception class of the library, for tests that speak about all of them."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil

import agentforge_sessions

_NEVER_LEAVES_ITS_MODULE = {"gate_guest"}
_NEEDS_AN_SDK = {
    "agentforge_sessions.integrations.bridges.claude_agent_sdk",
    "agentforge_sessions.integrations.bridges.google_adk",
    "agentforge_sessions.integrations.bridges.langgraph",
    "agentforge_sessions.integrations.bridges.openai_agents",
    "agentforge_sessions.integrations.bridges.pydantic_ai",
}
"""What takes seconds to load, or is not installed, and has no errors of its own."""


@functools.cache
def public_exceptions() -> list[type[BaseException]]:
    found: dict[str, type[BaseException]] = {}
    for module in pkgutil.walk_packages(agentforge_sessions.__path__, "agentforge_sessions."):
        last = module.name.rsplit(".", 1)[-1]
        if last in _NEVER_LEAVES_ITS_MODULE or module.name in _NEEDS_AN_SDK:
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if (
                inspect.isclass(value)
                and issubclass(value, BaseException)
                and value.__module__.startswith("agentforge_sessions.")
                and not name.startswith("_")
            ):
                found[f"{value.__module__}.{value.__qualname__}"] = value
    return list(found.values())
