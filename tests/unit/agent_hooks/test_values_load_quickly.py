"""The classes that the hook loads at each event are made without compiling their annotations."""

from __future__ import annotations

from importlib import import_module
from typing import ForwardRef

import pytest


@pytest.mark.parametrize(
    "name",
    [
        *("agent_hooks.recording", "agent_hooks.session_lookup", "agent_hooks.settings"),
        *("agent_programs.hook_event", "agent_programs.spent", "durable.tree_removal"),
        *("harness.history_events", "harness.session_domain", "harness.session_entries"),
        *("harness.session_codec", "harness.session_head", "harness.token_budget"),
    ],
)
def test_annotations_are_no_texts(name: str) -> None:
    module = import_module(f"agentforge_sessions.{name}")
    classes = [
        one
        for one in vars(module).values()
        if isinstance(one, type) and one.__module__ == module.__name__
    ]
    annotations = [
        each for one in classes for each in vars(one).get("__annotations__", {}).values()
    ]
    assert annotations
    assert not [each for each in annotations if isinstance(each, str | ForwardRef)]
