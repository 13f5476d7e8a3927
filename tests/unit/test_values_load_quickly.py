"""Classes that a hook or a first execution loads are made without compiling their annotations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import ForwardRef

import pytest


def classes_of(name: str) -> Iterator[type]:
    module = import_module(f"agentforge_sessions.{name}")
    for one in vars(module).values():
        if isinstance(one, type) and one.__module__ == module.__name__:
            yield one


def require_no_texts(classes: Iterable[type]) -> None:
    annotations = [
        each for one in classes for each in vars(one).get("__annotations__", {}).values()
    ]
    assert annotations
    assert not [each for each in annotations if isinstance(each, str | ForwardRef)]


@pytest.mark.parametrize(
    "name",
    [
        *("agents.hooks.recording", "agents.hooks.session_lookup", "agents.hooks.settings"),
        "agents.programs.hook_event",
        *(
            "harness.domain.history_events",
            "harness.session_domain",
            "harness.domain.session_entries",
        ),
        *(
            "harness.format.session_codec",
            "harness.views.session_head",
            "harness.domain.token_budget",
        ),
    ],
)
def test_annotations_of_what_a_hook_loads_are_no_texts(name: str) -> None:
    require_no_texts(classes_of(name))


@pytest.mark.parametrize(
    "name",
    [
        *("guest.guest_code", "installed.interpreter_files"),
        *("interpreters.prepared_runtime", "interpreters.template_file", "request"),
        *("host.machine", "host.files.path_resolution", "host.files.quota", "host.template"),
        "workspaces.quota",
    ],
)
def test_annotations_of_the_values_that_a_first_execution_loads_are_no_texts(name: str) -> None:
    require_no_texts(one for one in classes_of(f"sandbox.{name}") if hasattr(one, "_fields"))
