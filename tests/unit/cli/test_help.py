"""What `--help` says of each command; `pytest --snapshot-update` writes it where it has changed."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from agentforge_sessions.entrypoints.cli.tree import TREE
from tests.unit.cli.conftest import CommandLine

WITHOUT_JSON = {("hook",), ("run",), *(tuple(name.split()) for name in TREE)} - {("prune",)}


def names() -> list[tuple[str, ...]]:
    """All commands and groups; `fleet submit` has the commands of `run`."""
    return [
        (),
        *((*group.split(), name) for group, commands in TREE.items() for name in commands),
        *(("fleet", "submit", name) for name in TREE["run"]),
    ]


@pytest.mark.parametrize("command", names(), ids=" ".join)
def test_help_is_as_approved_and_offers_json(
    agentforge: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    snapshot: SnapshotAssertion,
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    ended = agentforge(*command, "--help")
    assert (ended.code, ended.err) == (0, "")
    assert "--json" in ended.out or command in WITHOUT_JSON
    assert ended.out == snapshot
