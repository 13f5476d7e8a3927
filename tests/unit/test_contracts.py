"""The contracts of the code's structure: held, complete, and with exceptions that only shrink."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = "agentforge_sessions"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
CONTRACTS: list[dict[str, Any]] = PROJECT["importlinter"]["contracts"]
WITHOUT_ROLES = {
    "entrypoints.cli.commands",
    "entrypoints.cli.commands.questions",
    "entrypoints.cli.commands.fleet",
    "entrypoints.cli.commands.prune",
    "entrypoints.cli.commands.sandbox",
    "entrypoints.cli.commands.session",
    "entrypoints.cli.commands.setup",
    "entrypoints.cli.commands.work",
}

# What a contract leaves out today. Take away what is mended; add nothing.
LEFT_OUT = {
    "entrypoints.terminal.screens.host -> entrypoints.terminal.screens.answer_screen",
    "prune.ports -> base.files",
    "questions.domain -> questions.askers",
}


def test_every_contract_holds() -> None:
    checked = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout


def test_every_package_has_a_contract_that_places_all_of_its_modules() -> None:
    complete = {
        container
        for contract in CONTRACTS
        if contract.get("exhaustive")
        for container in contract["containers"]
    }
    packages = {
        ".".join((PACKAGE, *found.parent.relative_to(ROOT / "tools").parts))
        for found in (ROOT / "tools").rglob("__init__.py")
    }
    assert packages - complete == {f"{PACKAGE}.{name}" for name in WITHOUT_ROLES}


def test_what_the_contracts_leave_out_only_shrinks() -> None:
    left_out = set()
    for contract in CONTRACTS:
        if "ignore_imports" in contract:
            assert contract["unmatched_ignore_imports_alerting"] == "error", contract["name"]
            left_out |= {one.replace(f"{PACKAGE}.", "") for one in contract["ignore_imports"]}
    assert left_out <= LEFT_OUT


def test_each_file_that_may_use_what_has_one_owner_does_use_it() -> None:
    checked = subprocess.run(
        [
            *(Path(sys.executable).with_name("ruff"), "check", "tools", "--select", "TID251"),
            *("--config", "lint.per-file-ignores = {}", "--output-format", "json", "--no-cache"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    using = {str(Path(one["filename"]).relative_to(ROOT)) for one in json.loads(checked.stdout)}
    listed = {
        path
        for path, rules in PROJECT["ruff"]["lint"]["per-file-ignores"].items()
        if "TID251" in rules and path.startswith("tools/")
    }
    assert using == listed


@pytest.mark.parametrize("name", ["tools", PACKAGE])
def test_the_package_itself_is_not_banned(name: str) -> None:
    """Ruff resolves relative imports to it, so a ban would be one on every import."""
    assert name not in PROJECT["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
