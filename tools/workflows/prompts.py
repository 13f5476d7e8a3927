"""The text that an agent is asked with: a pure function of what it is given.

What stays the same comes first (role, specification, form of the answer), what changes from call
to call last, so that an agent's cache of the beginning holds as long as it can.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from attrs import field, frozen

from .converters import as_tuple
from .specification import Component
from .workflow import TEST_GATES, Gate, Phase

MAX_FILE_CHARS: Final = 60_000
"""The most that is shown of one file."""
MAX_FILES_CHARS: Final = 400_000
"""The most that is shown of all files together."""

_LANGUAGES: Final = {
    "py": "python",
    "md": "markdown",
    "yaml": "yaml",
    "yml": "yaml",
    "json": "json",
    "toml": "toml",
    "js": "javascript",
    "cjs": "javascript",
    "mjs": "javascript",
    "jsx": "jsx",
    "ts": "typescript",
    "tsx": "tsx",
    "go": "go",
    "rs": "rust",
    "java": "java",
    "rb": "ruby",
    "c": "c",
    "h": "c",
    "cpp": "cpp",
    "sh": "sh",
    "html": "html",
    "css": "css",
}
_MACHINE: Final = """\
The gate runs the tests with {framework} in a CPython that is compiled to WebAssembly, on the files
of the workspace. It has no threads, no processes, no sockets and no event loop (`threading`,
`subprocess`, `multiprocessing`, `asyncio.run` fail) and no plugins; files, temporary directories
and the clock are there. Besides the standard library there are {packages}; use no other package.
A test or component that needs what is not there can't pass."""
_PLACEHOLDER: Final = """\
Import the component at the top of the test file by its module name: while it is missing, a
placeholder stands for it. Take nothing from it while the test file is imported (no decorator
arguments or module constants made of it); do it within the tests."""
_PYTHON_NAMES: Final = """\
A test's name carries the id of a criterion in lower case, as
test_ac_01_new_budget_has_nothing_spent for AC-01."""
_OTHER_NAMES: Final = """\
A test's name carries the id of a criterion anywhere, as in "AC-01: a new budget has nothing spent"
or test_ac_01_new_budget."""
_FENCES: Final = re.compile(r"^[ \t]*(`{3,})", re.MULTILINE)


@frozen(kw_only=True)
class PromptInput:
    """Everything that a prompt is made of.

    Attributes:
        role: Who the agent is asked to be.
        workflow: The workflow's name.
        phase: The phase.
        attempt: Which attempt at it in this round.
        round_number: How often the phase was entered.
        writes: The files and directories that the answer may write.
        briefing: What the session says of itself.
        subject: What the run is about, in the words of the person who began it, or None.
        specification: The document, or the part that matters, or None.
        component: The component, or None.
        context: What of the project is shown, or None.
        files: The files that matter, by path.
        evidence: What was wrong with the last attempt.
        answered: Questions that the person answered, with the answers.
        budget_note: What there is to say about the budget, or None.
        notes: What was passed over in the last answer.
    """

    role: str
    workflow: str
    phase: Phase
    attempt: int
    round_number: int = 1
    writes: tuple[str, ...]
    briefing: str
    files: Mapping[str, str]
    subject: str | None = None
    specification: str | None = None
    component: Component | None = None
    context: str | None = None
    evidence: tuple[str, ...] = field(default=(), converter=as_tuple)
    answered: tuple[tuple[str, str], ...] = field(default=(), converter=as_tuple)
    budget_note: str | None = None


def compose(given: PromptInput) -> str:
    """Write the prompt.

    Returns:
        Markdown: role, specification, project, form of the answer, briefing, phase with mode,
        component and instructions, the files, the answers of the person, and what was wrong before.
    """
    parts = [f"# Role\n\n{given.role.strip()}"]
    if given.subject:
        parts.append(f"# What is wanted\n\n{given.subject.strip()}")
    if given.specification is not None:
        parts.append(f"# Specification\n\n{fenced(given.specification, 'yaml')}")
    if given.context:
        parts.append(f"# The project\n\n{given.context.strip()}")
    parts.append(f"# Form of your answer\n\n{_form(given)}")
    parts.append(f"# Where the work stands\n\n{given.briefing.strip()}")
    if given.budget_note:
        parts.append(f"**Budget:** {given.budget_note}")
    parts.append(_phase(given))
    parts.append(_files(given.files))
    if given.answered:
        answers = "\n\n".join(f"Q: {question}\nA: {answer}" for question, answer in given.answered)
        parts.append(f"# The person's answers\n\n{answers}")
    if given.evidence:
        pieces = "\n\n".join(f"{number}. {piece}" for number, piece in enumerate(given.evidence, 1))
        parts.append(
            "# What was wrong with the last attempt\n\nThe last attempt did not pass. Mend this; "
            f"the files above are as it left them.\n\n{pieces}"
        )
    return "\n\n".join(parts) + "\n"


def fenced(text: str, info: str) -> str:
    """Put a text into a fenced block whose fence is longer than any in it."""
    found = _FENCES.findall(text) if "```" in text else ()
    longest = max(map(len, found), default=2)
    fence = "`" * max(3, longest + 1)
    body = text if text.endswith("\n") or not text else f"{text}\n"
    return f"{fence}{info}\n{body}{fence}"


def language_of(path: str) -> str:
    """Name the language of a file by its ending, for a block's mark."""
    return _LANGUAGES.get(path.rsplit(".", 1)[-1], "text")


def _form(given: PromptInput) -> str:
    writable = "\n".join(f"- {path}" for path in given.writes)
    example = _example(given)
    lines = [
        "Answer in Markdown. Each file that you write is one fenced block whose mark is its "
        "language, a colon and its path, and that holds the whole file:",
        f"````markdown\n```{language_of(example)}:{example}\n…\n```\n````",
        "You may write these, and nothing else (a directory ends in `/`, `*` stands for any part "
        f"of a name):\n\n{writable}",
        "A file that holds fences of its own stands in a block with a longer fence. What is not in "
        "such a block is read by nobody but the record. Files that you leave out stay as they are; "
        "one that should go is named, one a line, in a block marked `agentforge:delete`.",
    ]
    if given.phase.agents_gate.tests_unchanged:
        lines.append(
            "The tests are fixed. If one of them can't be passed by any implementation of the "
            "specification, say so in a block marked `agentforge:contest`, a YAML list of `test` "
            "(its name) and `reason`, beside the files or alone; a person decides."
        )
    if given.phase.questions == "allowed":
        lines.append(
            "If only the person can decide something, answer with nothing but one block marked "
            "`agentforge:questions`, a YAML list of `prompt`, `title`, `options` (each `label` and "
            "`description`) and `multi_select`; you are asked again with the answers."
        )
    return "\n\n".join(lines)


def _example(given: PromptInput) -> str:
    """Return a path that the answer may write, to show the form with."""
    example = given.writes[0] if given.writes else "path/to/file.py"
    if not example.endswith("/"):
        return example.replace("**/", "").replace("*", "example")
    ending = "py" if given.component is None else given.component.location.rpartition(".")[2]
    named = f"test_example.{ending}" if ending == "py" else f"example.test.{ending}"
    return example + (named if "test" in example else "file.md")


def _phase(given: PromptInput) -> str:
    phase = given.phase
    lines = [
        f"# Your task: phase {phase.name} of {given.workflow}",
        f"Mode: {phase.mode}\nAttempt: {_attempt(given)}",
    ]
    component = given.component
    if component is not None:
        criteria = ", ".join(one.criterion_id for one in component.criteria)
        imported = f", imported as `{component.module}`" if component.is_python else ""
        lines.append(
            f"Component: {component.component_id}{imported}\n"
            f"Code: {', '.join(component.code_places)}\nTests: {', '.join(component.tests)}\n"
            f"Acceptance criteria: {criteria}"
        )
    lines.append((phase.prompt or "").strip())
    if component is not None:
        lines += _of_tests(phase.agents_gate, component)
    return "\n\n".join(lines)


def _of_tests(gate: Gate, component: Component) -> list[str]:
    """Return what the gate asks of tests in the component's language, and what its machine has."""
    if gate.kind not in TEST_GATES:
        return []
    lines = []
    if gate.kind == "tests_fail" and gate.covers_criteria:
        lines.append(_PYTHON_NAMES if component.is_python else _OTHER_NAMES)
    if gate.command is None:
        if gate.kind == "tests_fail":
            lines.append(_PLACEHOLDER)
        lines.append(_MACHINE.format(framework=gate.framework, packages=_packages(gate)))
    return lines


def _packages(gate: Gate) -> str:
    """Name the packages that the sandbox has besides the standard library."""
    there = ["attrs", *(["pytest"] if gate.framework == "pytest" else [])]
    there += [name.rsplit("/", 1)[-1] for name in gate.packages]
    return ", ".join(there)


def _attempt(given: PromptInput) -> str:
    again = f" (round {given.round_number} of this phase)" if given.round_number > 1 else ""
    return f"{given.attempt} of {given.phase.max_attempts}{again}"


def _files(files: Mapping[str, str]) -> str:
    if not files:
        return "# Files\n\nThere are none yet."
    shown = []
    room = MAX_FILES_CHARS
    left_out = []
    for path, text in sorted(files.items()):
        if len(text) > min(MAX_FILE_CHARS, room):
            left_out.append(path)
            continue
        room -= len(text)
        shown.append(fenced(text, f"{language_of(path)}:{path}"))
    if left_out:
        shown.append(f"Too long to be shown: {', '.join(left_out)}")
    return "# Files\n\n" + "\n\n".join(shown)


def budget_note(*, used: int, total: int, warning: bool, left: int, expected: int) -> str | None:
    """Return what the agent has to know of the budget, or None as long as there is plenty."""
    if not warning:
        return None
    return (
        f"{used:,} of {total:,} tokens are spent, 80 % or more; {left:,} are left and this answer "
        f"is expected to take {expected:,}. Be brief: the files, and nothing besides."
    )


def shown_paths(paths: Iterable[str], name: str) -> tuple[str, ...]:
    """Put a run's name into the paths of a file group."""
    return tuple(path.replace("{name}", name) for path in paths)
