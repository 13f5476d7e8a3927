"""The values that a first execution loads are made without compiling their annotations."""

from __future__ import annotations

from importlib import import_module
from typing import ForwardRef

import pytest


@pytest.mark.parametrize(
    "name",
    [
        *("guest_code", "interpreter_files", "own_library", "own_runtime", "quota", "request"),
        *("host.machine", "host.path_resolution", "host.quota", "host.template"),
        *("template_file", "workspace_usage"),
    ],
)
def test_annotations_are_no_texts(name: str) -> None:
    module = import_module(f"agentforge_sessions.sandbox.{name}")
    values = [
        one
        for one in vars(module).values()
        if hasattr(one, "_fields") and one.__module__ == module.__name__
    ]
    assert values
    annotations = [each for one in values for each in one.__annotations__.values()]
    assert not [each for each in annotations if isinstance(each, str | ForwardRef)]
