"""The setup of each kind of project: where its first component goes, and what judges it.

Each language has its layout, its test files and its runner; a specification and a gate have to fit
all three. Nothing is run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve, field, frozen

from ..configuration import GateConfiguration, ProjectFacts
from .detection import OpenFolder, json_of, table_of, toml_of

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_GO_MODULE: Final = re.compile(r"^module[ \t]+([A-Za-z0-9._~/-]+)", re.MULTILINE)
_REPORT: Final = "agentforge-report.xml"
_NODE: Final = GateConfiguration(command="node --test --test-reporter=tap", report="tap")
_RUNNERS: Final = {
    "vitest": (
        f"--run --reporter=junit --outputFile={_REPORT}",
        GateConfiguration(report_path=_REPORT),
    ),
    "jest": ("--watchAll=false", GateConfiguration(report="exit-code")),
    "mocha": ("--reporter=tap", GateConfiguration(report="tap")),
    "ava": ("--tap", GateConfiguration(report="tap")),
}
"""The options with which JavaScript's runners end and report, and what is read of it."""
_JUNIT: Final = ("--watchAll=false --reporters=jest-junit", GateConfiguration())
_NEXT: Final = re.compile(r"&&|\|\||[;|&\n]")


@frozen(kw_only=True)
class Beginning:
    """The setup of a new project.

    Attributes:
        template: The file of its specification among the templates; None: none fits the language.
        values: The values of the template's names.
        gate: The command that judges components in this language, or None: the sandbox does.
        checks: The command that runs the existing tests, where the sandbox can't; or None.
        mounts: Folders of the checkout with installed dependencies that the command needs.
    """

    template: str | None = "specification.yaml"
    values: Mapping[str, str] = field(factory=dict)
    gate: GateConfiguration | None = None
    checks: str | None = None
    mounts: tuple[str, ...] = ()


def beginning_of(folder: OpenFolder, facts: ProjectFacts) -> Beginning:
    """Return a project's setup; a project of unknown kind without tests gets a Python module."""
    if facts.language == "javascript":
        return _javascript(folder, facts)
    if facts.language == "rust":
        return _rust(folder)
    if facts.language == "go":
        return _go(folder)
    if facts.language == "other":
        gate = GateConfiguration(command=facts.test, report="exit-code")
        return Beginning(template=None, gate=gate, checks=facts.test)
    return _python(folder, facts)


def _python(folder: OpenFolder, facts: ProjectFacts) -> Beginning:
    source = "" if facts.source == "." else f"{facts.source}/"
    tests = facts.tests[0] if facts.tests and facts.language == "python" else "tests"
    return Beginning(
        values={"location": f"{source}greeting.py", "tests": f"{tests}/test_greeting.py"},
        mounts=(".venv",) if folder.has(".venv/pyvenv.cfg") else (),
    )


def _javascript(folder: OpenFolder, facts: ProjectFacts) -> Beginning:
    document = json_of(folder.text("package.json"))
    packages = {
        name
        for key in ("dependencies", "devDependencies", "optionalDependencies")
        for name in table_of(document, key)
    }
    script = table_of(document, "scripts").get("test")
    gate, runner = _script_gate(script if isinstance(script, str) else "", packages, facts)
    typed = runner == "vitest" and folder.has("tsconfig.json")
    ending = "ts" if typed else "js"
    modules = typed or document.get("type") == "module"
    source = "" if facts.source == "." else f"{facts.source}/"
    tests = facts.tests[0] if facts.tests else "test"
    return Beginning(
        template="specification.javascript.yaml",
        values={
            "location": f"{source}greeting.{ending}",
            "tests": f"{tests}/greeting.test.{ending}",
            "kind": "an ES module" if modules else "a CommonJS module",
            "runner": runner,
        },
        gate=gate,
        checks=facts.test or gate.command,
        mounts=("node_modules",) if folder.is_directory("node_modules") else (),
    )


def _script_gate(
    script: str, packages: set[str], facts: ProjectFacts
) -> tuple[GateConfiguration, str]:
    """Return the command of the runner that a project uses, and the runner's name.

    It is the project's own script, with the reporter's options added: options of the script, and
    what it does before, are the person's. npm appends the options to the script's last command.
    """
    words = set(re.findall(r"[A-Za-z0-9_-]+", script))
    last = set(re.findall(r"[A-Za-z0-9_-]+", _NEXT.split(script)[-1]))
    runner = next((name for name in _RUNNERS if name in (words or packages)), None)
    if runner is not None:
        options, gate = _RUNNERS[runner]
        if runner == "jest" and "jest-junit" in packages:
            options, gate = _JUNIT
        started = "npm test --" if runner in last else f"npx --no -- {runner}"
        return evolve(gate, command=f"{started} {options}"), runner
    node = "Node's own runner (node:test)"
    if facts.test is None:
        return _NODE, node
    if {"node", "--test"} <= words and "--test-reporter" not in words:
        return evolve(_NODE, command="env NODE_OPTIONS=--test-reporter=tap npm test"), node
    return GateConfiguration(command=facts.test, report="exit-code"), f"`{facts.test}`"


def _rust(folder: OpenFolder) -> Beginning:
    document = toml_of(folder.text("Cargo.toml"))
    place = "" if "package" in document else _member(folder, document)
    manifest = toml_of(folder.text(f"{place}Cargo.toml")) if place else document
    name = table_of(manifest, "lib").get("name") or table_of(manifest, "package").get("name")
    crate = name.replace("-", "_") if isinstance(name, str) and _NAME.fullmatch(name) else "crate"
    return Beginning(
        template="specification.rust.yaml",
        values={
            "location": f"{place}src/greeting.rs",
            "library": f"{place}src/lib.rs",
            "tests": f"{place}tests/greeting.rs",
            "crate": crate,
        },
        gate=GateConfiguration(command="cargo test --offline", report="exit-code"),
        checks="cargo test --offline",
    )


def _member(folder: OpenFolder, document: Mapping[str, Any]) -> str:
    """Return the folder of a workspace's first member, with a slash; "" if there is none."""
    members = table_of(document, "workspace").get("members")
    for member in members if isinstance(members, list) else ():
        parts = member.split("/") if isinstance(member, str) else [""]
        if all(_NAME.fullmatch(part) for part in parts):
            found = [member]
        elif len(parts) == 2 and parts[1] == "*" and _NAME.fullmatch(parts[0]):
            found = [f"{parts[0]}/{name}" for name in sorted(folder.names(parts[0]))]
        else:
            continue
        for one in found:
            if folder.has(f"{one}/Cargo.toml"):
                return f"{one}/"
    return ""


def _go(folder: OpenFolder) -> Beginning:
    module = _GO_MODULE.search(folder.text("go.mod") or "")
    return Beginning(
        template="specification.go.yaml",
        values={
            "location": "greeting/greeting.go",
            "tests": "greeting/greeting_test.go",
            "package": f"{module[1]}/greeting" if module else "greeting",
        },
        gate=GateConfiguration(command="go test ./...", report="exit-code"),
        checks="go test ./...",
    )
