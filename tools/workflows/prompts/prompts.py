"""The text of an agent's prompt: a pure function of its input.

Constant parts come first (role, specification, form of the answer), changing parts last, so that an
agent's prompt cache stays valid as long as possible.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from attrs import field, frozen

from ..converters import as_tuple
from ..documents.specification import Component
from ..workflow import ANYTHING, TEST_GATES, Gate, Phase

MAX_FILE_CHARS: Final = 60_000
"""The most characters shown of one file."""
MAX_FILES_CHARS: Final = 400_000
"""The most characters shown of all files together."""
MAX_NAMES: Final = 200
"""The most files named to an agent that edits in place."""

_LANGUAGES: Final = {
    "py": "python",
    "md": "markdown",
    "yml": "yaml",
    "js": "javascript",
    "cjs": "javascript",
    "mjs": "javascript",
    "ts": "typescript",
    "rs": "rust",
    "rb": "ruby",
    "h": "c",
}
"""Languages whose name differs from their files' suffix."""
_SAME_NAME: Final = frozenset(
    {"c", "cpp", "css", "go", "html", "java", "json", "jsx", "sh", "toml", "tsx", "yaml"}
)
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
_IN_PLACE: Final = """\
Change the files themselves: you work in a copy of the project, in the current folder. What differs
there when you end is your answer; nothing that you print is taken for a file."""
_PUT_BACK: Final = """\
Any other file that you change or delete is put back, and the attempt has failed. Links are not
taken. Commits are not needed: the folder's `.git` is thrown away."""
_ANY_FILE: Final = """\
You may change any file of the project. New files that its rules ignore are not taken, nor are links
and commits: the folder's `.git` is thrown away."""
_NO_FILE: Final = "Change no file: what you print at your end is your answer."
_CONTEST_IN_PLACE: Final = """\
The tests are fixed. If one of them can't be passed by any implementation of the specification, say
so at your end on standard output, in a block fenced by three backticks and marked
`agentforge:contest`, a YAML list of `test` (its name) and `reason`; a person decides."""
_ASK_IN_PLACE: Final = """\
If only the person can decide something, change nothing, and end with one block fenced by three
backticks and marked `agentforge:questions` on standard output, a YAML list of `prompt`, `title`,
`options` (each `label` and `description`) and `multi_select`; you are asked again with the
answers."""
_TESTS_AGAIN: Final = """\
Every test that was there before has to be there again, and to pass."""
_NEW_TESTS: Final = """\
Each new test needs a name of its own and has to fail for want of the implementation; every older
test has to be there and to pass as before. A test file that can't be loaded fails the gate, since
its tests have no names: import or use what does not exist yet within the tests, never at the top of
the file."""
_FENCES: Final = re.compile(r"^[ \t]*(`{3,})", re.MULTILINE)


@frozen(kw_only=True)
class PromptInput:
    """The input of a prompt.

    Attributes:
        role: The agent's role.
        workflow: The workflow's name.
        phase: The phase.
        attempt: The number of the attempt in this round.
        round_number: How often the phase was entered.
        writes: The files and directories that the answer may write.
        briefing: The session's briefing.
        subject: The topic of the run, in the words of the person who started it, or None.
        specification: The document, or the relevant part, or None.
        component: The component, or None.
        context: The project's context, or None.
        files: The relevant files, by path.
        evidence: What was wrong with the last attempt.
        answered: Questions that the person answered, with the answers.
        budget_note: A note about the budget, or None.
        edits: Whether the agent changes files in place, in its working folder.
        said_on_base: What the gate's command reported before anything was written, or None.
        plan: The plan of an earlier phase, or None.
    """

    role: str
    workflow: str
    phase: Phase
    attempt: int = 1
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
    edits: bool = False
    said_on_base: str | None = None
    plan: str | None = None


def compose(given: PromptInput) -> str:
    """Return the prompt.

    Returns:
        Markdown: role, specification, project, form of the answer, briefing, phase with mode,
        component and instructions, files, the person's answers, and what was wrong before.
    """
    parts = [f"# Role\n\n{given.role.strip()}"]
    if given.subject:
        parts.append(f"# What is wanted\n\n{given.subject.strip()}")
    if given.specification is not None:
        parts.append(f"# Specification\n\n{fenced(given.specification, 'yaml')}")
    if given.context:
        parts.append(f"# The project\n\n{given.context.strip()}")
    if given.edits:
        parts.append(f"# How you work\n\n{_form_in_place(given)}")
    else:
        parts.append(f"# Form of your answer\n\n{_form(given)}")
    parts.append(f"# Where the work stands\n\n{given.briefing.strip()}")
    if given.budget_note:
        parts.append(f"**Budget:** {given.budget_note}")
    parts.append(_phase(given))
    parts.append(_file_names(given.files) if given.edits else _files(given.files))
    if given.answered:
        answers = "\n\n".join(f"Q: {question}\nA: {answer}" for question, answer in given.answered)
        parts.append(f"# The person's answers\n\n{answers}")
    if given.plan is not None:
        parts.append(f"# The plan\n\nThis you decided before:\n\n{given.plan}")
    if given.evidence:
        pieces = "\n\n".join(f"{number}. {piece}" for number, piece in enumerate(given.evidence, 1))
        parts.append(
            "# What was wrong with the last attempt\n\nThe last attempt did not pass. Mend this; "
            f"the files above are as it left them.\n\n{pieces}"
        )
    return "\n\n".join(parts) + "\n"


def fenced(text: str, info: str) -> str:
    """Return a text in a fenced block whose fence is longer than any in the text."""
    found = _FENCES.findall(text) if "```" in text else ()
    longest = max(map(len, found), default=2)
    fence = "`" * max(3, longest + 1)
    body = text if text.endswith("\n") or not text else f"{text}\n"
    return f"{fence}{info}\n{body}{fence}"


def language_of(path: str) -> str:
    """Return the language of a file by its suffix, for a block's mark."""
    ending = path.rsplit(".", 1)[-1]
    return _LANGUAGES.get(ending, ending if ending in _SAME_NAME else "text")


def _form_in_place(given: PromptInput) -> str:
    writable = "\n".join(f"- {path}" for path in given.writes)
    lines = [
        _IN_PLACE,
        f"You may write these, and nothing else (a directory ends in `/`):\n\n{writable}",
        _PUT_BACK,
    ]
    if ANYTHING in given.writes:
        lines = [_IN_PLACE, _ANY_FILE]
    elif not given.writes:
        lines = [_NO_FILE]
    if given.phase.agents_gate.tests_unchanged:
        lines.append(_CONTEST_IN_PLACE)
    if given.phase.questions == "allowed":
        lines.append(_ASK_IN_PLACE)
    return "\n\n".join(lines)


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
    """Return a path that the answer may write, as an example."""
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
    gate = phase.agents_gate
    if component is not None:
        lines += _of_tests(gate, component)
    if gate.command is not None:
        lines.append(_command(gate))
        if given.said_on_base is not None:
            lines.append(given.said_on_base)
    return "\n\n".join(lines)


def _of_tests(gate: Gate, component: Component) -> list[str]:
    """Return the gate's requirements on tests in the component's language, and its tools."""
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
    """Return the sentence on packages in the sandbox besides the standard library."""
    there = ["attrs", *(["pytest"] if gate.framework == "pytest" else [])]
    there += [name.rsplit("/", 1)[-1] for name in gate.packages]
    return ", ".join(there)


def _command(gate: Gate) -> str:
    """Return the command that judges a phase, and what it requires of tests."""
    weak = gate.report == "exit-code"
    by = "its exit code" if weak else "the tests that its report names"
    text = (
        f"The gate runs `{gate.command}` in a fresh copy of the files, in a jail without a network "
        f"by default, and judges by {by}."
    )
    if weak and gate.kind == "tests_fail":
        return f"{text} It has to fail now, for want of the implementation; before, it passed."
    if weak:
        return text
    return f"{text} {_NEW_TESTS if gate.kind == 'tests_fail' else _TESTS_AGAIN}"


def _attempt(given: PromptInput) -> str:
    again = f" (round {given.round_number} of this phase)" if given.round_number > 1 else ""
    return f"{given.attempt} of {given.phase.max_attempts}{again}"


def _file_names(files: Mapping[str, str]) -> str:
    """Return the names of the relevant files, for an agent that reads them itself."""
    if not files:
        return "# Files\n\nNone of the files that matter here is there yet."
    names = sorted(files)
    more = len(names) - MAX_NAMES
    listed = "\n".join(f"- {name}" for name in names[:MAX_NAMES])
    rest = f"\n- and {more} more" if more > 0 else ""
    return f"# Files\n\nThese are there; read them in the folder:\n\n{listed}{rest}"


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
    """Return what the agent has to know of the budget; None while plenty is left."""
    if not warning:
        return None
    return (
        f"{used:,} of {total:,} tokens are spent, 80 % or more; {left:,} are left and this answer "
        f"is expected to take {expected:,}. Be brief: the files, and nothing besides."
    )


def shown_paths(paths: Iterable[str], name: str) -> tuple[str, ...]:
    """Return the paths of a file group with the run's name filled in."""
    return tuple(path.replace("{name}", name) for path in paths)
