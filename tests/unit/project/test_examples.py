"""The examples that come with the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.base.settings.beginnings.scaffold import (
    UnknownExample,
    examples,
    find_example,
)
from agentforge_sessions.workflows import load_workflow

NAMES = ["flaky", "hello", "interval-scheduler"]


def test_each_example_is_a_workflow_of_its_name_with_a_goal() -> None:
    assert [one.name for one in examples()] == NAMES
    for one in examples():
        workflow = load_workflow(one.workflow)
        assert workflow.name == one.name
        assert workflow.goal


def test_an_example_names_no_file_outside_its_folder(tmp_path: Path) -> None:
    for one in examples():
        for name, data in one.files().items():
            (tmp_path / name).write_bytes(data)
        assert load_workflow(tmp_path / "workflow.yaml") == load_workflow(one.workflow)


@pytest.mark.parametrize("name", ["nothing", "", "../examples/hello", "/etc", "hello/"])
def test_another_name_is_refused_with_those_that_there_are(name: str) -> None:
    with pytest.raises(UnknownExample) as caught:
        find_example(name)
    assert list(caught.value.known) == NAMES
