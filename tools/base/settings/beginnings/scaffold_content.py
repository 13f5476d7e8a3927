"""The contents of a new project's files; pure."""

from __future__ import annotations

import json
from typing import Final

from ..configuration import (
    DEFAULT_CONTEXT_TOKENS,
    ContextConfiguration,
    GateConfiguration,
    ProjectFacts,
)
from .beginnings import Beginning
from .detection import Detected

IGNORED: Final = ("/.agentforge/sessions/", "/.agentforge/questions/")
"""The lines of .gitignore: the data of runs, not configuration, specifications or workflows."""
_LANGUAGES: Final = {
    "python": "a Python project",
    "javascript": "a JavaScript project",
    "rust": "a Rust project",
    "go": "a Go project",
}
_ENDINGS: Final = {"javascript": "js", "rust": "rs", "go": "go", "other": "c"}
_FOLDERS: Final = {"python": ".venv", "javascript": "node_modules"}
"""Where dependencies are usually installed; elsewhere in `vendor`."""


def configuration_text(
    detected: Detected, beginning: Beginning, *, workflow: str, in_repository: bool
) -> str:
    """Return a commented configuration file.

    Args:
        detected: The kind of project; unknown values become comments.
        beginning: The project's setup; a gate for another language than Python is not commented
            out.
        workflow: The workflow that `run` takes, relative to the project.
        in_repository: Whether sessions can start from a repository.
    """
    facts = detected.facts
    found = f" Found in {', '.join(detected.because)}." if detected.because else ""
    guides = ContextConfiguration().guides
    lines = [
        "# The configuration of this project for `agentforge`; its page has every key.",
        "# `agentforge doctor` checks this file. Options and environment variables beat it. Paths",
        "# are relative to the folder that has .agentforge.",
        "",
        f"# What kind of project this is; an agent is told.{found}",
        "[project]",
        _line("language", facts.language, "python, javascript, rust, go, other"),
        _line("package_manager", facts.package_manager, "pip, uv, poetry, npm, cargo, …"),
        _line("source", facts.source if facts.language else None, "where imports begin, as src"),
        _line("tests", list(facts.tests) or None, "the folders of tests"),
        _line("test", facts.test, "the command that runs the tests"),
        "",
        "# [sessions]",
        '# directory = ".agentforge/sessions"',
        "",
        "[run]",
        f"workflow = {_value(workflow)} # what `agentforge run` takes",
        '# agent = "claude -p" # what tdflow, spec and drive ask: a command that is run as you',
        "",
        "# What an agent is shown of this project: nothing where this section is missing. It is",
        "# listed before the agent is asked, and --dry-run lists it and asks nobody.",
        "[context]",
        f"max_tokens = {DEFAULT_CONTEXT_TOKENS}",
        "tree = true # the names of files",
        f"guides = {_value(list(guides))}",
        _shown_files(facts),
        '# rules = "docs/rules.md"',
        f'# role = "You are a careful engineer who writes plain {_named(facts)}."',
        "",
        "# Sessions work on a copy of a commit of this repository; `agentforge apply` brings the",
        "# result home. Without this, --repo does it for one of them.",
        *_repository(in_use=beginning.gate is not None and in_repository),
        '# base = "main" # the commit that is checked out by default',
        "# with_uncommitted = false",
        "",
        "# tdflow runs this command in a jail, instead of pytest or unittest in the sandbox.",
        *_gate(beginning.gate, facts.test),
        "# timeout_s = 300",
        "",
        "# What commands in a jail see and may use, besides the workspace, the system and their",
        '# own toolchain. isolation = "jail" in [run] runs the scripts of workflows there, too.',
        *_jail(beginning.mounts, facts),
        '# read = ["/opt/data"] # further folders, read-only',
        "# network = false",
        '# environment = ["CI"] # names of variables',
        "# timeout_s = 600",
        "# memory_bytes = 4294967296",
        "# processes = 512",
    ]
    return "\n".join(lines) + "\n"


def _shown_files(facts: ProjectFacts) -> str:
    ending = _ENDINGS.get(facts.language or "", "py")
    imports = ", with the signatures of the modules they import" if ending == "py" else ""
    return f'# files = ["src/**/*.{ending}"] # shown whole{imports}'


def _named(facts: ProjectFacts) -> str:
    """Return the name of the language of the project's components."""
    if facts.language == "other":
        return "code"
    return _LANGUAGES.get(facts.language or "", _LANGUAGES["python"]).split()[1]


def _repository(*, in_use: bool) -> list[str]:
    mark = "" if in_use else "# "
    return [f"{mark}[repository]", f"{mark}use = true"]


def _gate(gate: GateConfiguration | None, test: str | None) -> list[str]:
    """Return the gate's section, commented out where the sandbox judges."""
    kinds = "what it says how the tests ended: junit, tap or exit-code"
    where = "where, if the command has to be told by itself"
    if gate is None or gate.command is None:
        return [
            "# [gate]",
            f"# command = {_value(test or '…')}",
            f'# report = "junit" # {kinds}',
            f'# report_path = "reports/**/*.xml" # {where}',
        ]
    weak = "; exit-code is weak evidence" if gate.report == "exit-code" else ""
    path = (
        f'# report_path = "reports/**/*.xml" # {where}'
        if gate.report_path is None
        else f"report_path = {_value(gate.report_path)}"
    )
    return [
        "[gate]",
        f"command = {_value(gate.command)}",
        f"report = {_value(gate.report)} # {kinds}{weak}",
        path,
    ]


def _jail(mounts: tuple[str, ...], facts: ProjectFacts) -> list[str]:
    """Return the section with the folders that dependencies are usually installed in."""
    if mounts:
        return ["[jail]", f"mounts = {_value(list(mounts))} # folders of this checkout, read-only"]
    usual = _FOLDERS.get(facts.language or "python", "vendor")
    return ["# [jail]", f"# mounts = {_value([usual])} # folders of this checkout, read-only"]


def _line(key: str, value: object, hint: str) -> str:
    return f"# {key} = … # {hint}" if value is None else f"{key} = {_value(value)}"


def _value(value: object) -> str:
    """Format a text or a list of texts as TOML: as JSON, with the one difference escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def described(facts: ProjectFacts) -> str:
    """Describe a kind of project in one line."""
    if facts.language is None:
        return "no project of a known kind"
    parts = [_LANGUAGES.get(facts.language, "a project")]
    if facts.package_manager not in {None, facts.language}:
        parts.append(f"with {facts.package_manager}")
    if facts.source != ".":
        parts.append(f"sources in {facts.source}")
    if facts.tests:
        parts.append(f"tests in {' and '.join(facts.tests)}")
    if facts.test is not None:
        parts.append(f"tested by `{facts.test}`")
    return ", ".join(parts)


def with_ignored(content: bytes) -> bytes:
    """Return a .gitignore with missing lines added; its own line endings are preserved.

    A line is not missing if an equivalent or a covering pattern is there, in any spelling.
    """
    present = {_pattern(line) for line in content.decode("utf-8", "replace").splitlines()}
    missing = [line for line in IGNORED if present.isdisjoint(_covering(line))]
    if not missing:
        return content
    first = content.partition(b"\n")[0]
    end = b"\r\n" if first.endswith(b"\r") else b"\n"
    before = content if not content or content.endswith(b"\n") else content + end
    return before + b"".join(line.encode() + end for line in missing)


def _covering(line: str) -> set[str]:
    """Return the patterns that ignore all that a pattern of a folder in .agentforge does."""
    whole, _, _ = _pattern(line).partition("/")
    return {whole, _pattern(line)}


def _pattern(line: str) -> str:
    """Normalise a pattern: without anchor, trailing slash or star."""
    plain = line.strip().removeprefix("**/").removeprefix("/")
    for ending in ("/**", "/*", "/"):
        plain = plain.removesuffix(ending)
    return plain
