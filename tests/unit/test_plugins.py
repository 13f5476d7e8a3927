"""The register of plugins: ours first, one of each name, none that can't be loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.base.plugins import (
    Plugin,
    PluginAmbiguous,
    PluginUnusable,
    Register,
    foreign_plugins,
)
from agentforge_sessions.entrypoints.cli.checks.checks import check_plugins
from agentforge_sessions.entrypoints.cli.main import app as _app
from agentforge_sessions.fleet.stores import STORES, open_sessions
from agentforge_sessions.integrations.observers.observing import OBSERVERS
from agentforge_sessions.wiring.phases.executors import EXECUTORS
from agentforge_sessions.workflows.agents.choice import AGENTS, parse_agent


def install(folder: Path, name: str, text: str) -> None:
    """Write the metadata of a package that adds something."""
    metadata = folder / f"{name}-2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2\n")
    (metadata / "entry_points.txt").write_text(text)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_plugin_is_found_with_the_package_that_it_is_of(packages: Path) -> None:
    install(packages, "rows", "[agentforge.stores]\nrows = rows.store:open\n[other]\nx = y:z\n")
    assert Register("stores", {}).find("rows") == Plugin(
        "rows", "stores", "rows.store:open", "rows 2"
    )
    assert Register("agents", {}).find("rows") is None
    assert [one for one in foreign_plugins() if one.package == "rows 2"] == [
        Plugin("rows", "stores", "rows.store:open", "rows 2")
    ]


def test_no_package_takes_a_name_of_ours(packages: Path) -> None:
    install(packages, "thief", "[agentforge.stores]\npostgresql = thief:open\n")
    register = Register("stores", {"postgresql": "ours:open"})
    assert register.find("postgresql") == Plugin("postgresql", "stores", "ours:open")
    assert register.foreign() == ()
    assert register.names() == ("postgresql",)


def test_of_two_packages_with_one_name_none_is_used(packages: Path) -> None:
    for name in ("first", "second"):
        install(packages, name, f"[agentforge.agents]\nbot = {name}:make\n")
    with pytest.raises(PluginAmbiguous, match=r"add bot .*: first 2, second 2") as refused:
        parse_agent("bot:please")
    assert refused.value.packages == ("first 2", "second 2")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("", "AttributeError"),
        (None, "ModuleNotFoundError"),
    ],
)
def test_a_plugin_that_can_not_be_loaded_says_whose_it_is(
    packages: Path, source: str | None, reason: str
) -> None:
    module = f"broken_{abs(hash(reason))}"
    install(packages, "broken", f"[agentforge.stores]\nrows = {module}:open\n")
    if source is not None:
        (packages / f"{module}.py").write_text(source)
    with pytest.raises(PluginUnusable, match=r"rows of broken 2 \(stores\)") as refused:
        open_sessions(store="rows://somewhere")
    assert reason in str(refused.value)
    found = check_plugins()
    assert found is not None
    assert reason in found.message


def test_a_group_without_a_name_reads_no_metadata(packages: Path) -> None:
    install(packages, "nameless", "[agentforge.]\nx = y:z\n")
    assert Register("", {}).find("x") is None


@pytest.mark.parametrize(
    "register", [STORES, EXECUTORS, AGENTS, OBSERVERS, _app.info.cls().commands.register]
)
def test_each_of_our_own_plugins_is_loaded_as_another_packages_would_be(
    register: Register,
) -> None:
    assert register.own
    for name in register.own:
        plugin = register.find(name)
        assert plugin is not None
        assert callable(plugin.load())
