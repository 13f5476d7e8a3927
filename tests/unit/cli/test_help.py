"""What `--help` says of each command; `pytest --snapshot-update` writes it where it has changed."""

from __future__ import annotations

import pytest
import typer
from syrupy.assertion import SnapshotAssertion

from agentforge_sessions.entrypoints.cli.main import app
from tests.unit.cli.conftest import CommandLine

WITHOUT_JSON = {("hook",), ("sandbox",), ("store",), ("webhooks",)}


def names() -> list[tuple[str, ...]]:
    group = typer.main.get_command(app)
    found = [(), *((name,) for name in group.commands)]
    for name in group.commands:
        found += [(name, inner) for inner in getattr(group.commands[name], "commands", ())]
    return found


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
